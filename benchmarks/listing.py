"""list_dir against `find` on the same tree, both to the same depth."""

from __future__ import annotations

import os
from collections.abc import Iterator
from shutil import which

from benchmarks.clock import best
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place
from benchmarks.program import Program, request, session

DEPTH = 10


def figures() -> Iterator[Figure]:
    """Measure 100,000 files in 1,100 folders, and one folder of 10,000."""
    with fresh_place() as place:
        for outer in range(100):
            for inner in range(10):
                _fill(place.path(f"tree/part{outer}/piece{inner}"), 100)
        yield _against_find(place, "tree", DEPTH, "list_dir, 100,000 files")
    with fresh_place() as place:
        _fill(place.path("flat"), 10_000)
        yield _against_find(place, "flat", 1, "list_dir, one folder of 10,000")


def _fill(folder: str, count: int) -> None:
    os.makedirs(folder)
    for number in range(count):
        os.mknod(os.path.join(folder, f"module_{number}.py"))


def _against_find(place: Place, folder: str, depth: int, name: str) -> Figure:
    find = which("find")
    if find is None:
        raise RuntimeError("the reference for listing is find, which is not installed")
    reference = Program([find, place.path(folder), "-mindepth", "1", "-maxdepth", str(depth)], place)
    listing = request("list_dir", path=folder, depth=depth, max_entries=10_000)
    with session(place) as hilt:
        hilt.call("list_dir", path=folder, depth=depth)
        base, took = best(7, reference, lambda: hilt.ask(listing))
    return Figure(name, took, "ms", "find", base, max_ratio=2)
