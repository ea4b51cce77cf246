"""Reports of the audit trail: counters since it began, and the use of tools within a period."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

UNKNOWN = "(unknown)"  # replaces the names of unknown tools, of which a caller may send any number
# upper bounds of the duration buckets; the totals of removed rows are stored per bucket
BOUNDS_MS = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000)

_BOUNDS = (*(int(bound * 1000) for bound in BOUNDS_MS), 1 << 62)
_LAST = (1 << 63) - 1  # the largest integer in SQLite

_TOOL = f"CASE outcome WHEN 'unknown_tool' THEN '{UNKNOWN}' ELSE tool END"
_STATUS = "CASE outcome WHEN 'ok' THEN 'success' ELSE 'failure' END"
_BOUND = f"CASE {' '.join(f'WHEN micros<={bound} THEN {bound}' for bound in _BOUNDS[:-1])} ELSE {_BOUNDS[-1]} END"
# rows about the trail itself have no workspace: they are not calls
_COUNTED = (
    f"SELECT {_TOOL} AS tool, {_STATUS} AS status, {_BOUND} AS bound, count(*) AS calls, sum(micros) AS micros "  # noqa: S608
    "FROM audit WHERE workspace<>'' AND seq<=? GROUP BY 1, 2, 3"
)
_ADD_UP = (
    f"INSERT INTO removed {_COUNTED} "
    "ON CONFLICT DO UPDATE SET calls=calls+excluded.calls, micros=micros+excluded.micros"
)


class Counter(NamedTuple):
    """Calls of a tool with one status since the trail began, and their durations."""

    tool: str
    status: str  # "success" or "failure"
    calls: int
    total_ms: float
    buckets: tuple[int, ...]  # calls that took at most as long as each of BOUNDS_MS


class Use(NamedTuple):
    """The calls of one tool within a period."""

    tool: str
    calls: int
    failed: int
    p50_ms: float
    p95_ms: float
    plot: tuple[int, ...]  # calls in equal parts of the period


class UsageReport(NamedTuple):
    """The calls within a period by tool, the count of each error code, and the failures in equal parts of it."""

    start: float
    end: float
    tools: list[Use]
    errors: dict[str, int]
    failures: tuple[int, ...]


def counters(db: Connection, tool: str | None) -> list[Counter]:
    """Return calls and durations by tool and status, including removed rows."""
    query = (
        f"SELECT tool, status, bound, sum(calls), sum(micros) FROM ({_COUNTED} UNION ALL SELECT * FROM removed) "  # noqa: S608
        "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )
    counts: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for name, status, bound, calls, micros in db.execute(query, (_LAST,)):
        if tool in (None, name):
            counts.setdefault((name, status), []).append((bound, calls, micros))
    return [_counter(*key, buckets) for key, buckets in counts.items()]


def add_up(db: Connection, last: int) -> None:
    """Add the rows up to `last`, which are about to be removed, to the totals of removed rows."""
    db.execute(_ADD_UP, (last,))


def report(db: Connection, start: int, filters: Mapping[str, str | None], parts: int) -> UsageReport:
    """Return a report of the calls since `start`, in nanoseconds; `filters` are values of columns."""
    conditions = ["workspace<>''", "at>=?"]
    values: list[Any] = [start]
    for column, value in filters.items():
        if value is not None:
            conditions.append(f"{_TOOL if column == 'tool' else column}=?")
            values.append(value)
    source = f"(SELECT {_TOOL} AS tool, at, outcome, micros FROM audit WHERE {' AND '.join(conditions)})"  # noqa: S608
    return _usage(db, source, values, time.time_ns(), parts)


def _counter(tool: str, status: str, counts: Sequence[tuple[int, int, int]]) -> Counter:
    buckets = tuple(sum(calls for bound, calls, _ in counts if bound <= upper) for upper in _BOUNDS[:-1])
    calls, micros = sum(calls for _, calls, _ in counts), sum(micros for _, _, micros in counts)
    return Counter(tool, status, calls, micros / 1000, buckets)


def _usage(db: Connection, source: str, values: list[Any], now: int, parts: int) -> UsageReport:
    """Return the report of the calls that `source` selects; `values` are its parameters, the start time first."""
    start = values[0] or db.execute(f"SELECT min(at) FROM {source}", values).fetchone()[0] or now  # noqa: S608
    width = max(1, -(-(now - start) // parts))
    plots: dict[str, list[int]] = {}
    failures = [0] * parts
    query = f"SELECT tool, max(0, min((at-?)/?, ?)), count(*), sum(outcome<>'ok') FROM {source} GROUP BY 1, 2"  # noqa: S608
    for name, part, calls, failed in db.execute(query, (start, width, parts - 1, *values)):
        plots.setdefault(name, [0] * parts)[part] = calls
        failures[part] += failed
    # nearest rank: a duration that was measured, not an interpolated one
    query = (
        "SELECT tool, calls, sum(outcome<>'ok'), max(iif(rank=(calls*50+99)/100, micros, 0))/1000.0, "  # noqa: S608
        "max(iif(rank=(calls*95+99)/100, micros, 0))/1000.0 FROM (SELECT tool, outcome, micros, "
        "count(*) OVER (PARTITION BY tool) AS calls, row_number() OVER (PARTITION BY tool ORDER BY micros) AS rank "
        f"FROM {source}) GROUP BY tool ORDER BY calls DESC, tool"
    )
    tools = [Use(name, *use, tuple(plots[name])) for name, *use in db.execute(query, values)]  # type: ignore[call-arg]
    query = f"SELECT outcome, count(*) FROM {source} WHERE outcome<>'ok' GROUP BY 1 ORDER BY 2 DESC, 1"  # noqa: S608
    errors = dict(db.execute(query, values).fetchall())
    return UsageReport(start / 1_000_000_000, now / 1_000_000_000, tools, errors, tuple(failures))
