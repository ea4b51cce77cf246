"""The audit trail: the recorded calls, and whether the record is intact."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from hilt.formats.times import Moment, duration_seconds
from hilt.state.trail import Row, Trail

__all__ = ["Trail"]

LARGEST = 2**63 - 1  # the largest integer of SQLite


class AuditEntry(NamedTuple):
    """Everything recorded about a call."""

    seq: int
    time: Moment
    at: int  # the same in nanoseconds since 1970
    workspace: str
    session: str
    tool: str
    digest: str  # of the arguments, whose contents are not recorded
    decision: str
    reason: str
    approver: str
    outcome: str  # ok or an error code
    micros: int
    agent: str
    contacts: str
    call: str
    hash: str


class AuditBreak(NamedTuple):
    """A row that does not match what was recorded."""

    row: int
    reason: str


@contextmanager
def opened(state: str) -> Iterator[Trail]:
    """Open the audit trail in a state directory; broken settings do not prevent that."""
    with closing(Trail(os.path.join(state, "trail.db"))) as trail:
        yield trail


def entries(trail: Trail, limit: int = LARGEST, **filters: Any) -> list[AuditEntry]:
    """Return the newest calls that match, oldest first; the filters are those of `Trail.rows`."""
    return list(map(_entry, trail.rows(**filters, limit=min(limit, LARGEST))))


def follow(trail: Trail, after: int, **filters: Any) -> Iterator[list[AuditEntry]]:
    """Yield what was recorded since the last time, forever; nothing if the trail has not grown."""
    while True:
        end = trail.end()[0]
        fresh = entries(trail, **filters, after=after) if end != after else []
        after = max([end, *(entry.seq for entry in fresh)])
        yield fresh


def breaks(trail: Trail, witness: tuple[int, bytes] | None = None) -> list[AuditBreak]:
    """Return the first rows that were changed, removed or added; `witness` is an earlier end of the trail."""
    return [AuditBreak(broken.seq, broken.reason) for broken in trail.breaks(witness)]


def workspace_id(folder: str) -> str:
    """Return the id of a workspace in the audit trail."""
    from hilt.config import digest

    return digest(os.path.realpath(folder))


def parse_since(text: str, zone: tzinfo | None = None) -> float | None:
    """Return the time of a span before now, such as 2h, or of a date (in local time by default); else None."""
    seconds = duration_seconds(text)
    if seconds is not None:
        return max(0.0, time.time() - min(seconds, LARGEST))
    try:
        moment = datetime.fromisoformat(text)
        return max(0.0, moment.replace(tzinfo=moment.tzinfo or zone).timestamp())
    except (ValueError, OverflowError):
        return None


def _entry(row: Row) -> AuditEntry:
    return AuditEntry(row.seq, Moment(row.entry.at), *row.entry[:13], row.hash.hex())
