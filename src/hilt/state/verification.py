"""Verification of the trail: finds rows that do not match what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from hilt.state.trail import Row, chain_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

_REBUILT = "it is not the recorded row: the chain was rebuilt"


class Break(NamedTuple):
    """A row that does not match what was recorded, and why."""

    seq: int
    reason: str


class ChainMarks(NamedTuple):
    """Where the chain begins, and the row after which the head file must exist."""

    headed: int
    removed: int
    hash: bytes
    removal_row: int  # the row that records the removal

    @classmethod
    def read(cls, db: Connection) -> ChainMarks:
        """Return the marks in the database."""
        rows = db.execute("SELECT name, seq, hash FROM marks").fetchall()
        marks = {name: (seq, hash) for name, seq, hash in rows}
        missing = (0, b"")
        return cls(marks.get("headed", missing)[0], *marks.get("removed", missing), marks.get("said", missing)[0])


def find_breaks(
    rows: Iterable[Row],
    marks: ChainMarks,
    noted: Mapping[int, bytes],
    witnessed: Mapping[int, bytes],
    *,
    has_head: Callable[[], bool],
) -> Iterator[Break]:
    """Yield the rows that do not match what was recorded.

    `noted` are the hashes in the head file, `witnessed` those stored elsewhere, by row number."""
    previous, last, removal_recorded = marks.hash, marks.removed, not marks.removed
    if noted.get(last, previous) != previous or witnessed.get(last, previous) != previous:
        yield Break(last, _REBUILT)
    for row in rows:
        if row.seq <= marks.removed:
            yield Break(row.seq, "it was inserted where rows had been removed")
            continue
        if row.seq > last + 1:
            gap = f"it and the rows up to {row.seq - 1} are" if row.seq > last + 2 else "it is"
            yield Break(last + 1, f"{gap} missing")
        elif not _follows(row, previous):
            yield Break(row.seq, "it, or a row before it, was changed or moved")
        elif noted.get(row.seq, row.hash) != row.hash or witnessed.get(row.seq, row.hash) != row.hash:
            yield Break(row.seq, _REBUILT)
        previous, last = row.hash, row.seq
        if last == marks.removal_row:
            removal_recorded = (row.entry.workspace, row.entry.digest) == ("", marks.hash.hex())
    newest = max((*noted, *witnessed), default=0)
    if newest > last:
        yield Break(last + 1, f"the trail ends before it, but there was a row {newest}")
    if not removal_recorded:
        yield Break(marks.removed, "no row records that the rows up to it were removed")
    if last > marks.headed and not has_head():
        yield Break(last, "trail.db.head, which records the newest rows, is missing")


def _follows(row: Row, previous: bytes) -> bool:
    try:
        return row.hash == chain_hash(previous, row.entry)
    except TypeError:
        return False  # invalid values in the row
