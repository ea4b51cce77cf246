"""Reading a range of a file just below the limit of 50 MB."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.clock import best
from benchmarks.figure import Figure
from benchmarks.place import fresh_place
from benchmarks.program import request, session

LINE = "one line of a log file that is as long as such lines are\n"
SIZE = 50 * 1024 * 1024
COUNT = SIZE // len(LINE)


def figures() -> Iterator[Figure]:
    """Measure 2,000 lines from the middle: the time, and the memory above an idle session."""
    with fresh_place() as place, session(place) as hilt:
        path = place.write("large.log", LINE * COUNT)
        place.write("small.txt", LINE)
        hilt.call("read_file", path="small.txt")
        idle = hilt.memory()
        hilt.reset_peak()
        window = request("read_file", path="large.log", start_line=COUNT // 2, end_line=COUNT // 2 + 500)
        base, took = best(5, lambda: _read(path), lambda: hilt.ask(window))
        used = hilt.peak() - idle
    yield Figure("read_file, window of 50 MB", took, "ms", "plain read", base)
    yield Figure("read_file, window of 50 MB, memory", used, "MB", "the file", SIZE / 2**20)


def _read(path: str) -> None:
    with open(path, "rb") as file:
        file.read()
