"""One call, one process: the total time of `hilt` against that of a bare interpreter."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.clock import best
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place, small_name
from benchmarks.program import BARE, HILT, Program, request, resident

ROUNDS = 40
REFERENCE = "python -I -S -c pass"


def bare_start(place: Place) -> Program:
    """Return the reference: the interpreter without work."""
    return Program([*BARE, "-c", "pass"], place)


def one_shot(place: Place, program: str = HILT, **environ: str) -> Program:
    """Return the one-shot read of a small file."""
    reading = request("read_file", path=small_name(0))
    return Program([program, "--workspace", place.workspace], place, reading, **environ)


def is_native() -> bool:
    """Whether the command is the native client."""
    with open(HILT, "rb") as file:
        return file.read(2) != b"#!"


def figures() -> Iterator[Figure]:
    """Measure a one-shot read in process and through the resident process."""
    with fresh_place(files=100) as place, resident(place):
        bare, in_process, forwarded, native = best(
            ROUNDS,
            bare_start(place),
            one_shot(place, HILT_RESIDENT="off"),
            one_shot(place, f"{HILT}-py"),
            one_shot(place),
        )
    yield Figure("one-shot read_file, in process", in_process, "ms", REFERENCE, bare, max_ratio=5)
    yield Figure("one-shot read_file, Python client", forwarded, "ms", REFERENCE, bare, max_ratio=1.7)
    if is_native():
        yield Figure("one-shot read_file, native client", native, "ms", REFERENCE, bare, max_ratio=0.3)
