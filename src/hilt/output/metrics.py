"""Measurements as text: the Prometheus exposition format for programs, a row of bars for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

# tool, status, calls, total milliseconds, and the number of calls up to each bound
Series: TypeAlias = tuple[str, str, int, float, Sequence[int]]

_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = ".:-=+*#@"


def prometheus(bounds_ms: Sequence[float], series: Iterable[Series]) -> str:
    """Return counters and histograms of tool calls in the Prometheus text format."""
    total, duration = "tool_execution_total", "function_call_duration_ms"
    counters = [f"# HELP {total} Calls of tools, by tool and status.", f"# TYPE {total} counter"]
    histograms = [f"# HELP {duration} Duration of calls in milliseconds.", f"# TYPE {duration} histogram"]
    for tool, status, calls, milliseconds, buckets in series:
        labels = f'tool="{_escaped(tool)}",status="{_escaped(status)}"'
        counters.append(f"{total}{{{labels}}} {calls}")
        for bound, count in zip((*map(str, bounds_ms), "+Inf"), (*buckets, calls), strict=True):
            histograms.append(f'{duration}_bucket{{{labels},le="{bound}"}} {count}')
        histograms.append(f"{duration}_sum{{{labels}}} {milliseconds:.3f}")
        histograms.append(f"{duration}_count{{{labels}}} {calls}")
    return "\n".join((*counters, *histograms)) + "\n"


def bars(counts: Sequence[int], *, plain: bool) -> str:
    """Return one bar for each count, a space for 0; with `plain`, in ASCII."""
    levels = _PLAIN_BARS if plain else _BARS
    maximum = max(counts, default=0)
    return "".join(levels[(count * len(levels) - 1) // maximum] if count else " " for count in counts)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
