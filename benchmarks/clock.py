"""Taking time: the subject and its reference in turn, so that what disturbs one disturbs the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median


def milliseconds(work: Callable[[], object]) -> float:
    """Return how long the work takes."""
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1_000_000


def best(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Run the works in turn, after one round that does not count; return the shortest milliseconds of each."""
    for work in works:
        work()
    found = [[milliseconds(work) for work in works] for _ in range(rounds)]
    return [min(times) for times in zip(*found, strict=True)]


def best_median(rounds: int, repeat: int, *works: Callable[[], object]) -> list[float]:
    """Run each work `repeat` times in a row, in turn; return the least median of each, in milliseconds.

    The median is what a caller sees; the least of several is what other programs on the machine disturbed least.
    """
    for work in works:
        for _ in range(repeat):
            work()
    found = [[median([milliseconds(work) for _ in range(repeat)]) for work in works] for _ in range(rounds)]
    return [min(medians) for medians in zip(*found, strict=True)]
