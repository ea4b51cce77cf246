from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hilt import telemetry
from hilt.state.trail import TrailEntry
from hilt.state.usage import BOUNDS_MS

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

END = 1_700_000_000_000_000_000
ENTRY = TrailEntry(
    END, "w", "default", "edit_file", "digest", "ask", "a rule asks", "terminal", "stale_file", 2500, "scout"
)
SUCCESS = ENTRY._replace(outcome="ok", agent="", approver="", decision="allow", reason="")


@pytest.fixture
def sent():
    """Telemetry with in-memory exporters: the listener, the spans, and the metrics."""
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, measurements = InMemorySpanExporter(), InMemoryMetricReader()
    listener = telemetry.joined(SimpleSpanProcessor(spans), measurements, "mine")
    yield listener, spans, measurements
    listener.close()


def test_a_call_becomes_a_span_with_the_conventional_attribute_names(sent):
    listener, spans, _ = sent

    listener(ENTRY, 7)

    (span,) = spans.get_finished_spans()
    assert span.name == "execute_tool edit_file"
    assert (span.start_time, span.end_time) == (END - 2_500_000, END)
    assert span.parent is None
    assert (span.status.status_code.name, span.status.description) == ("ERROR", "stale_file")
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "edit_file",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "7",
        "gen_ai.conversation.id": "default",
        "gen_ai.agent.name": "scout",
        "error.type": "stale_file",
        "hilt.workspace": "w",
        "hilt.outcome": "stale_file",
        "hilt.decision": "ask",
        "hilt.decision.reason": "a rule asks",
        "hilt.approver": "terminal",
        "hilt.arguments.sha256": "digest",
    }
    assert span.resource.attributes["service.name"] == "mine"


def test_a_successful_call_has_no_error_and_no_empty_attributes(sent):
    listener, spans, _ = sent

    listener(SUCCESS)

    (span,) = spans.get_finished_spans()
    assert span.status.status_code.name == "OK"
    absent = {"error.type", "gen_ai.tool.call.id", "gen_ai.agent.name", "hilt.approver", "hilt.decision.reason"}
    assert absent & set(span.attributes) == set()


def test_calls_are_counted_and_timed_by_tool_and_status(sent):
    listener, _, measurements = sent

    for entry in (SUCCESS, SUCCESS, ENTRY, ENTRY._replace(tool="invented", outcome="unknown_tool")):
        listener(entry)

    (resource,) = measurements.get_metrics_data().resource_metrics
    points = {metric.name: metric.data.data_points for metric in resource.scope_metrics[0].metrics}
    counted = {(point.attributes["tool"], point.attributes["status"]): point.value for point in points["tool_execution_total"]}  # fmt: skip  # noqa: E501
    assert counted == {("edit_file", "success"): 2, ("edit_file", "failure"): 1, ("(unknown)", "failure"): 1}
    point = points["function_call_duration_ms"][0]
    assert (tuple(point.explicit_bounds), point.sum) == (BOUNDS_MS, 5.0)


@pytest.mark.parametrize(
    "environ", [{}, {telemetry.ENDPOINT: ""}, {telemetry.ENDPOINT: "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "True"}]
)
def test_nothing_is_sent_without_a_configured_endpoint(environ):
    assert telemetry.open_telemetry(environ) is None


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """A loopback server that records requests: its address, and the path and one header of each."""
    received: list[tuple[str, str | None]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            received.append((self.path, self.headers["x-key"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("source", ["variable", "setting"])
def test_spans_and_metrics_reach_the_endpoint_before_exit(collector, source):
    address, received = collector
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=secret"}
    if source == "variable":
        listener = telemetry.open_telemetry({**environ, telemetry.ENDPOINT: address})
    else:
        listener = telemetry.open_telemetry(environ, address + "/")
    assert listener is not None

    listener(SUCCESS, "a")
    listener.close()

    assert sorted(received) == [("/v1/metrics", "secret"), ("/v1/traces", "secret")]


@pytest.mark.starts_processes
def test_an_unreachable_endpoint_blocks_nothing_and_logs_nothing():
    script = f"""
from hilt import telemetry
from hilt.state.trail import TrailEntry
listener = telemetry.open_telemetry({{telemetry.ENDPOINT: "http://127.0.0.1:9"}})
listener(TrailEntry(*{tuple(SUCCESS)!r}))
listener.close()
print("done")
"""

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.starts_processes
def test_importing_telemetry_does_not_load_opentelemetry():
    script = "import sys, hilt.telemetry; print([name for name in sys.modules if 'telemetry' in name])"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stdout.strip() == "['hilt.telemetry']"
