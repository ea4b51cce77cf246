"""How often tools and models were used in a period, how long they took, and what they cost."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from hilt.config import digest
from hilt.formats.times import Moment
from hilt.output.metrics import prometheus
from hilt.state.spending import ModelSpending, Spending
from hilt.state.usage import BOUNDS_MS, UsageReport, Use

if TYPE_CHECKING:
    from hilt.runtime import Runtime
    from hilt.state.trail import Trail

__all__ = ["ModelSpending", "UsagePart", "UsageReport", "UsageSummary", "metrics", "summary"]

_PARTS = 60  # of the plots


class UsagePart(NamedTuple):
    """The calls in one of the equal parts of a period, which starts at `time`."""

    time: Moment
    calls: int
    failed: int
    calls_per_minute: float


class UsageSummary(NamedTuple):
    """The calls and models of a period."""

    start: float
    end: float
    calls: int
    failed: int
    approvals_waiting: int
    input_tokens: int
    output_tokens: int
    cost: float
    series: tuple[UsagePart, ...]
    tools: tuple[Use, ...]
    errors: dict[str, int]
    models: tuple[ModelSpending, ...]


def summary(runtime: Runtime, seconds: float, folder: str | None = None) -> UsageSummary:
    """Return the usage of the last seconds, in one folder if given."""
    since = time.time() - seconds
    filters: dict[str, Any] = {} if folder is None else {"workspace": digest(folder)}
    usage = runtime.parts.trail.usage(since=since, parts=_PARTS, **filters)
    with closing(Spending(runtime.parts.state)) as spending:
        models = spending.since(since)
    return UsageSummary(
        start=usage.start,
        end=usage.end,
        calls=sum(use.calls for use in usage.tools),
        failed=sum(use.failed for use in usage.tools),
        approvals_waiting=len(runtime.parts.authority.approvals().pending()),
        input_tokens=sum(model.input_tokens for model in models),
        output_tokens=sum(model.output_tokens for model in models),
        cost=sum(model.cost for model in models),
        series=tuple(_series(usage)),
        tools=tuple(usage.tools),
        errors=usage.errors,
        models=tuple(models),
    )


def today(runtime: Runtime) -> list[ModelSpending]:
    """Return what the models of all folders have cost today, the most expensive first."""
    with closing(Spending(runtime.parts.state)) as spending:
        return spending.models(time.strftime("%Y-%m-%d"))


def metrics(trail: Trail, tool: str | None = None) -> str:
    """Return counters and histograms of all calls, or those of one tool, in the Prometheus text format."""
    return prometheus(BOUNDS_MS, trail.counters(tool))


def _series(usage: UsageReport) -> list[UsagePart]:
    seconds = (usage.end - usage.start) / len(usage.failures)
    parts = []
    for number, failed in enumerate(usage.failures):
        calls = sum(use.plot[number] for use in usage.tools)
        start = Moment((usage.start + number * seconds) * 1_000_000_000)
        parts.append(UsagePart(start, calls, failed, round(calls / seconds * 60, 3)))
    return parts
