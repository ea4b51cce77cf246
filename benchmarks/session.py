"""A session on one connection: latency, throughput and memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.clock import best, best_median
from benchmarks.figure import Figure
from benchmarks.place import fresh_place, small_name
from benchmarks.program import bare_loop, echo, request, session

READS = 1000


def figures() -> Iterator[Figure]:
    """Measure reads of a small file, against a loop that decodes, reads the file and encodes the same reply."""
    read = request("read_file", path=small_name(0))
    with fresh_place(files=READS) as place:
        with session(place) as hilt, echo(place) as bare:
            for number in range(READS):
                hilt.call("read_file", path=small_name(number))
                bare.exchange(read)
            used, bare_used = hilt.memory(), bare.memory()
        with session(place) as hilt, bare_loop(place) as loop:
            base, p50 = best_median(10, 200, lambda: loop.ask(read), lambda: hilt.ask(read))
            with awake():
                awake_base, busy = best_median(10, 200, lambda: loop.ask(read), lambda: hilt.ask(read))
            looped, answered = best(5, lambda: loop.ask_often(read, READS), lambda: hilt.ask_often(read, READS))
    yield Figure("session read_file, p50", p50, "ms", "bare loop", base, maximum=0.25, max_ratio=3.5)
    yield Figure("the same, CPUs kept awake", busy, "ms", "bare loop", awake_base)
    yield Figure("session read_file, pipelined", _rate(answered), "/s", "bare loop", _rate(looped), minimum=4000)
    yield Figure(f"session memory after {READS:,} reads", used, "MB", "bare interpreter", bare_used, maximum=45)


@contextmanager
def awake() -> Iterator[None]:
    """Keep the CPUs from sleeping between two requests, with a busy loop of the lowest priority.

    The caller is idle while a call runs. On an idle virtual machine its CPU then sleeps, and waking it takes up to 50
    microseconds, which would be attributed to the program.
    """
    loop = "import os; os.nice(19)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", loop]) as busy:
        try:
            yield
        finally:
            busy.kill()


def _rate(milliseconds: float) -> float:
    return READS * 1000 / milliseconds
