"""Verification of the trail: finds rows that do not match what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from hilt.state.head import SLOTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

    from hilt.state.trail import Row, TrailEntry

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
    end: int,
    has_head: Callable[[], bool],
    chain_hash: Callable[[bytes, TrailEntry], bytes],
) -> Iterator[Break]:
    """Yield the rows that do not match what was recorded, or that cannot be verified.

    `noted` are the hashes in the head file, `witnessed` those stored elsewhere, by row number. `end` was the newest row
    in the log when the head file was read. `chain_hash` returns the hash of a row that follows another.
    """
    for seq in sorted(seq for seq in witnessed if seq < marks.removed):
        yield Break(seq, f"it cannot be verified: it was removed with the rows up to {marks.removed}")
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
        elif not _follows(row, previous, chain_hash):
            yield Break(row.seq, "it, or a row before it, was changed or moved")
        elif noted.get(row.seq, row.hash) != row.hash or witnessed.get(row.seq, row.hash) != row.hash:
            yield Break(row.seq, _REBUILT)
        previous, last = row.hash, row.seq
        if last == marks.removal_row:
            removal_recorded = (row.entry.workspace, row.entry.digest) == ("", marks.hash.hex())
    newest = max((*noted, *witnessed, end))
    if newest > last:
        yield Break(last + 1, f"the trail ends before it, but there was a row {newest}")
    if not removal_recorded:
        yield Break(marks.removed, "no row records that the rows up to it were removed")
    # the newest row may lack its note, if others have theirs: the next one completes that
    unnoted = [seq for seq in range(max(marks.headed, end - SLOTS, 0) + 1, end + (not noted)) if seq not in noted]
    if last > marks.headed and not has_head():
        yield Break(last, "trail.db.head, which records the newest rows, is missing")
    elif unnoted:
        rows_text = f"row {unnoted[0]}" if len(unnoted) == 1 else f"{len(unnoted)} of them"
        yield Break(
            unnoted[0], f"trail.db.head, which records the newest rows, lacks {rows_text}; later rows may be lost"
        )


def _follows(row: Row, previous: bytes, chain_hash: Callable[[bytes, TrailEntry], bytes]) -> bool:
    try:
        return row.hash == chain_hash(previous, row.entry)
    except TypeError:
        return False  # invalid values in the row
