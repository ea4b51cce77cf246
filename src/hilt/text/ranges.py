"""A set of ranges that do not overlap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Ranges:
    """Ranges with a number each. Adjacent ranges do not overlap; an empty range overlaps the one that contains it."""

    def __init__(self) -> None:
        # both are sorted, because no two ranges overlap
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._numbers: list[int] = []

    def overlapping(self, start: int, end: int) -> list[int]:
        """Return the numbers of the ranges that overlap this one."""
        return self._numbers[bisect_right(self._ends, start) : bisect_left(self._starts, end)]

    def add(self, start: int, end: int, number: int = 0) -> None:
        """Add a range that overlaps none."""
        at = bisect_right(self._starts, start)
        while at and self._ends[at - 1] > end:
            at -= 1
        self._starts.insert(at, start)
        self._ends.insert(at, end)
        self._numbers.insert(at, number)
