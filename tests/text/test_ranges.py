"""Ranges that do not overlap, beside a plain list of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hilt.text.matching import Ranges


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), max_size=15))
def test_overlapping_ranges_match_a_full_scan(places):
    ranges = Ranges()
    added: list[tuple[int, int, int]] = []
    for number, (start, size) in enumerate(places):
        overlapped = {other for other, first, last in added if start < last and first < start + size}

        assert set(ranges.overlapping(start, start + size)) == (overlapped if size or overlapped else set())
        if not overlapped:
            ranges.add(start, start + size, number)
            added.append((number, start, start + size))
