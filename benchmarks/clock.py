"""Timing: the subject and its reference alternate, so that disturbances affect both."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median


def milliseconds(work: Callable[[], object]) -> float:
    """Return how long the work takes, in milliseconds."""
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1_000_000


def best(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Alternate between the works, after one warm-up round; return the shortest time of each, in milliseconds."""
    for work in works:
        work()
    times_of_rounds = [[milliseconds(work) for work in works] for _ in range(rounds)]
    return [min(times) for times in zip(*times_of_rounds, strict=True)]


def best_median(rounds: int, repeat: int, *works: Callable[[], object]) -> list[float]:
    """Alternate between the works, each `repeat` times in a row; return the lowest median of each, in milliseconds.

    The median is what a caller sees; the lowest of several is the one least disturbed by other programs.
    """
    for work in works:
        for _ in range(repeat):
            work()
    times_of_rounds = [[median([milliseconds(work) for _ in range(repeat)]) for work in works] for _ in range(rounds)]
    return [min(medians) for medians in zip(*times_of_rounds, strict=True)]
