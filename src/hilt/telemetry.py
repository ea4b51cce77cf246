"""OpenTelemetry: a span and two metrics for each finished call; needs the extra `otel` and an endpoint.

Attributes follow the semantic conventions for generative AI. Arguments and results are never sent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hilt import __version__
from hilt.state.trail import TrailEntry
from hilt.state.usage import BOUNDS_MS, UNKNOWN

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
EXPORT_SECONDS = 2.0  # for one export, retries included: a process waits for the last one when it exits


class Telemetry:
    """Exports spans and metrics of finished calls."""

    def __init__(self, tracing: TracerProvider, metering: MeterProvider) -> None:
        self._tracing, self._metering = tracing, metering
        self._tracer = tracing.get_tracer("hilt")
        meter = metering.get_meter("hilt")
        self._calls = meter.create_counter("tool_execution_total", description="Calls of tools, by tool and status.")
        self._durations = meter.create_histogram(
            "function_call_duration_ms",
            unit="ms",
            description="Duration of calls.",
            explicit_bucket_boundaries_advisory=list(BOUNDS_MS),
        )

    def __call__(self, entry: TrailEntry, call_id: object = None) -> None:
        """Export a recorded call, with the id from its caller."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, Status, StatusCode

        ok = entry.outcome == "ok"
        # no parent: the current span of this thread is unrelated to the calling agent
        span = self._tracer.start_span(
            f"execute_tool {entry.tool}",
            context=Context(),
            kind=SpanKind.INTERNAL,
            attributes=attributes(entry, call_id),
            start_time=entry.at - entry.micros * 1000,
        )
        span.set_status(Status(StatusCode.OK) if ok else Status(StatusCode.ERROR, entry.outcome))
        span.end(entry.at)
        labels = {
            "tool": UNKNOWN if entry.outcome == "unknown_tool" else entry.tool,
            "status": "success" if ok else "failure",
        }
        self._calls.add(1, labels)
        self._durations.record(entry.micros / 1000, labels)

    def close(self) -> None:
        """Send pending spans and metrics; do not wait long for an endpoint that does not respond."""
        self._tracing.shutdown()
        self._metering.shutdown()


def attributes(entry: TrailEntry, call_id: object = None) -> dict[str, str]:
    """Return the span attributes of a call."""
    values = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": entry.tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "" if call_id is None else str(call_id),
        "gen_ai.conversation.id": entry.session,
        "gen_ai.agent.name": entry.agent,
        "error.type": "" if entry.outcome == "ok" else entry.outcome,
        "hilt.workspace": entry.workspace,
        "hilt.outcome": entry.outcome,
        "hilt.decision": entry.decision,
        "hilt.decision.reason": entry.reason,
        "hilt.approver": entry.approver,
        "hilt.arguments.sha256": entry.digest,
    }
    return {name: value for name, value in values.items() if value}


def open_telemetry(environ: Mapping[str, str], endpoint: str | None = None) -> Telemetry | None:
    """Return an exporter to the endpoint of the environment or the settings; None without one, or without the extra.

    The variable is often set for other programs, so a missing extra is not an error.
    """
    base = environ.get(ENDPOINT) or endpoint
    if not base or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.util.re import parse_env_headers
    except ImportError:
        return None
    import logging

    # do not print export errors among the results of tools
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    headers = parse_env_headers(environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""), liberal=True)
    options: dict[str, Any] = {"headers": headers, "timeout": EXPORT_SECONDS}
    traces = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or f"{base.rstrip('/')}/v1/traces"
    metrics = environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") or f"{base.rstrip('/')}/v1/metrics"
    return joined(
        BatchSpanProcessor(OTLPSpanExporter(endpoint=traces, **options)),
        PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=metrics, **options)),
        environ.get("OTEL_SERVICE_NAME"),
    )


def joined(spans: SpanProcessor, measurements: MetricReader, service: str | None = None) -> Telemetry:
    """Return a Telemetry with this span processor and metric reader."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    names: dict[str, Any] = {"service.name": service or "hilt", "service.version": __version__}
    resource = Resource.create({**names, "process.pid": os.getpid()})
    tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracing.add_span_processor(spans)
    return Telemetry(tracing, MeterProvider([measurements], resource=resource, shutdown_on_exit=False))
