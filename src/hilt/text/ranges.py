"""A set of ranges that do not overlap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Ranges:
    """Numbered ranges. Adjacent ranges do not overlap; an empty range overlaps one that contains it."""

    def __init__(self) -> None:
        # both are sorted, because no two ranges overlap
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._numbers: list[int] = []

    def overlapping(self, start: int, end: int) -> list[int]:
        """Return the numbers of the ranges that overlap this one."""
        return self._numbers[bisect_right(self._ends, start) : bisect_left(self._starts, end)]

    def add(self, start: int, end: int, number: int = 0) -> None:
        """Add a range that overlaps no other."""
        index = bisect_right(self._starts, start)
        while index and self._ends[index - 1] > end:
            index -= 1
        self._starts.insert(index, start)
        self._ends.insert(index, end)
        self._numbers.insert(index, number)
