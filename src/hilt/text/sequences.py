"""The common items of two sequences, in order: minimal for few differences, linear in practice for many."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

# Up to this many differences, the result is minimal; the cost grows with its square.
_EXACT = 256
# Beyond that, differences to look ahead, between two anchors or in repeated items.
_LOOKAHEAD = 32
# Extra steps a search may take without progress: repetitive input has many equally good paths.
_SLACK = 1 << 17
# How often a part is divided at its unique items; only hostile input needs more.
_DEPTH = 16


class EqualRun(NamedTuple):
    """`length` equal items, from `old` in one sequence and from `new` in the other."""

    old: int
    new: int
    length: int


class _Area(NamedTuple):
    old: range
    new: range
    depth: int


def equal_runs(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[EqualRun]:
    """Return the runs that both sequences share, in order; items between them were removed or added."""
    numbers: dict[Hashable, int] = {}
    a = [numbers.setdefault(item, len(numbers)) for item in old]
    b = [numbers.setdefault(item, len(numbers)) for item in new]
    found_runs: list[EqualRun] = []
    areas = [_Area(range(len(a)), range(len(b)), 0)]
    while areas:
        area = _trim(a, b, areas.pop(), found_runs)
        common = set(a[area.old.start : area.old.stop]) & set(b[area.new.start : area.new.stop])
        if not common:
            continue
        # items that only one side has cannot match; dropping them shortens the search
        xs = [x for x in area.old if a[x] in common]
        ys = [y for y in area.new if b[y] in common]
        runs, anchors = _align([a[x] for x in xs], [b[y] for y in ys], area.depth)
        found_runs += (EqualRun(xs[run.old + i], ys[run.new + i], 1) for run in runs for i in range(run.length))
        areas += _between(area, [(xs[x], ys[y]) for x, y in anchors], found_runs)
    return _merge(found_runs)


def _trim(a: Sequence[int], b: Sequence[int], area: _Area, found_runs: list[EqualRun]) -> _Area:
    """Add the common prefix and suffix of the area to the runs, and return the area without them."""
    old, new, _ = area
    head, limit = 0, min(len(old), len(new))
    while head < limit and a[old.start + head] == b[new.start + head]:
        head += 1
    tail, limit = 0, limit - head
    while tail < limit and a[old.stop - 1 - tail] == b[new.stop - 1 - tail]:
        tail += 1
    found_runs += (EqualRun(old.start, new.start, head), EqualRun(old.stop - tail, new.stop - tail, tail))
    return area._replace(
        old=range(old.start + head, old.stop - tail),
        new=range(new.start + head, new.stop - tail),
    )


def _align(a: Sequence[int], b: Sequence[int], depth: int) -> tuple[list[EqualRun], list[tuple[int, int]]]:
    """Return the common runs; or, if too many items differ, pairs of unique items at which to divide the area."""
    runs, x, y = _walk(a, b, 0, 0, _LOOKAHEAD if depth else _EXACT)
    if (x, y) == (len(a), len(b)):
        return runs, []
    anchors = _unique_pairs(a, b) if depth < _DEPTH else []
    if anchors:
        return [], anchors
    while x < len(a) and y < len(b):
        more, x, y = _walk(a, b, x, y, _LOOKAHEAD)
        runs += more
    return runs, []


def _walk(a: Sequence[int], b: Sequence[int], x0: int, y0: int, edits: int) -> tuple[list[EqualRun], int, int]:
    """Follow the shortest edit path (Myers) from x0, y0; when the edits run out, return the path that got furthest."""
    skew = y0 - x0
    reach = [x0] * (2 * edits + 3)  # by k = removals - additions, the furthest x; a negative k counts from the end
    history: list[list[int]] = []
    best = (x0 + y0, x0, 0)
    steps = 0
    for edit in range(edits + 1):
        history.append(reach.copy())
        for k in range(-edit, edit + 1, 2):
            x = reach[k + 1] if _adds(reach, k, edit) else reach[k - 1] + 1
            y = start = x - k + skew
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x += 1
                y += 1
            steps += 1 + y - start
            reach[k] = x
            if x + y > best[0] and x <= len(a) and y <= len(b):
                best = (x + y, x, edit)
        if best[0] == len(a) + len(b) or steps > _SLACK + 4 * (best[0] - x0 - y0):
            break
    total, x, edit = best
    return list(_retrace(history[: edit + 1], x, total - x, skew)), x, total - x


def _adds(reach: Sequence[int], k: int, edit: int) -> bool:
    """Whether the path reaches diagonal k by an addition, from k + 1; otherwise by a removal, from k - 1."""
    return k == -edit or (k != edit and reach[k - 1] < reach[k + 1])


def _retrace(history: Sequence[Sequence[int]], x: int, y: int, skew: int) -> Iterator[EqualRun]:
    """Yield the runs of the path that ends at x, y, last run first."""
    for edit in range(len(history) - 1, -1, -1):
        reach, k = history[edit], x - y + skew
        adds = _adds(reach, k, edit)
        before = reach[k + 1] if adds else reach[k - 1]
        start = before if adds else before + 1
        yield EqualRun(start, start - k + skew, x - start)
        x, y = before, before - (k + 1 if adds else k - 1) + skew


def _unique_pairs(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
    """Return the longest increasing series of items that occur once on each side."""
    in_a, in_b = Counter(a), Counter(b)
    place = {item: y for y, item in enumerate(b)}
    pairs = [(x, place[item]) for x, item in enumerate(a) if in_a[item] == in_b[item] == 1]
    ends: list[int] = []  # for each length, the smallest y at which an increasing series ends
    last: list[int] = []  # the pair that ends it
    previous: list[int] = []
    for index, (_, y) in enumerate(pairs):
        length = bisect_left(ends, y)
        ends[length : length + 1] = [y]
        last[length : length + 1] = [index]
        previous.append(last[length - 1] if length else -1)
    series = []
    index = last[-1] if last else -1
    while index >= 0:
        series.append(pairs[index])
        index = previous[index]
    return series[::-1]


def _between(area: _Area, anchors: Sequence[tuple[int, int]], found_runs: list[EqualRun]) -> Iterator[_Area]:
    """Add the anchors to the runs, and yield the areas between them; nothing without anchors."""
    if not anchors:
        return
    x, y = area.old.start, area.new.start
    for next_x, next_y in [*anchors, (area.old.stop, area.new.stop)]:
        if x < next_x and y < next_y:
            yield _Area(range(x, next_x), range(y, next_y), area.depth + 1)
        x, y = next_x + 1, next_y + 1
    found_runs += (EqualRun(x, y, 1) for x, y in anchors)


def _merge(runs: Iterable[EqualRun]) -> list[EqualRun]:
    """Return the runs in order, with adjacent ones merged."""
    merged: list[EqualRun] = []
    for run in sorted(run for run in runs if run.length):
        if merged and merged[-1].old + merged[-1].length == run.old and merged[-1].new + merged[-1].length == run.new:
            merged[-1] = merged[-1]._replace(length=merged[-1].length + run.length)
        else:
            merged.append(run)
    return merged
