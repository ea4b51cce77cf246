"""Ten times more files in the workspace: the figures of one small read stay as they are."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.clock import best, best_median
from benchmarks.figure import Figure
from benchmarks.place import fresh_place, small_name
from benchmarks.program import request, session
from benchmarks.startup import one_shot

FILES = 1000
SAME = 1.15  # what two measurements of the same thing may differ by on a machine that does other work too


def figures() -> Iterator[Figure]:
    """Measure the reads of the areas startup and session in a small workspace and in a large one."""
    read = request("read_file", path=small_name(0))
    with fresh_place(files=FILES) as small, fresh_place(files=10 * FILES) as large:
        off = {"HILT_RESIDENT": "off"}
        base, grown = best(20, one_shot(small, **off), one_shot(large, **off))
        with session(small) as few, session(large) as many:
            low, high = best_median(10, 200, lambda: few.ask(read), lambda: many.ask(read))
    name = f"{10 * FILES:,} files"
    yield Figure(f"one-shot read_file, {name}", grown, "ms", f"{FILES:,} files", base, most_ratio=SAME)
    yield Figure(f"session read_file p50, {name}", high, "ms", f"{FILES:,} files", low, most_ratio=SAME)
