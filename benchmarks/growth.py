"""Scaling: small reads must not depend on the size of the workspace, and calls must be linear in their input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from io import BytesIO
from itertools import count as counted
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.clock import best, best_median, milliseconds
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place, small_name
from benchmarks.program import Pipe, request, session
from benchmarks.startup import one_shot
from hilt.shell.risk import classify
from hilt.state.trail import Trail, TrailEntry
from hilt.wire import read_requests

FILES = 1000
RULES = 1000
SESSIONS = 2000
SAME = 1.15  # how much two measurements of the same work may differ on a busy machine
FACTOR = 4  # between the small and the large input
LINEAR = 1.6 * FACTOR


def figures() -> Iterator[Figure]:
    """Measure small reads in a small and in a large workspace, and calls with small and with large input."""
    yield from _reads()
    yield from _inputs()


def _reads() -> Iterator[Figure]:
    read = request("read_file", path=small_name(0))
    with fresh_place(files=FILES) as small, fresh_place(files=10 * FILES) as large:
        off = {"HILT_RESIDENT": "off"}
        base, grown = best(20, one_shot(small, **off), one_shot(large, **off))
        with session(small) as few, session(large) as many:
            low, high = best_median(10, 200, lambda: few.ask(read), lambda: many.ask(read))
    name = f"{10 * FILES:,} files"
    yield Figure(f"one-shot read_file, {name}", grown, "ms", f"{FILES:,} files", base, max_ratio=SAME)
    yield Figure(f"session read_file p50, {name}", high, "ms", f"{FILES:,} files", low, max_ratio=SAME)
    with _ruled_place(1) as one, _ruled_place(RULES) as thousand, session(one) as few, session(thousand) as many:
        low, high = best_median(10, 200, lambda: few.ask(read), lambda: many.ask(read))
    yield Figure(f"session read_file p50, {RULES:,} path rules", high, "ms", "1 rule", low, max_ratio=1.5)


@contextmanager
def _ruled_place(count: int) -> Iterator[Place]:
    """Yield a place with this many rules on paths, each in a folder of its own."""
    with fresh_place(files=1) as place:
        rules = "".join(f"- Read(path:private/folder{number}/*.key)\n" for number in range(count))
        with open(os.path.join(place.environ["HILT_CONFIG_DIR"], "permissions.yaml"), "w", encoding="utf-8") as file:
            file.write(f"deny:\n{rules}")
        yield place


def _inputs() -> Iterator[Figure]:
    with fresh_place() as place, session(place) as hilt:
        for name, size, call in (
            ("multi_edit, edits", 50, _edits),
            ("multi_edit that fails, edits", 10, _failing_edits),
            ("apply_patch, hunks", 1000, _hunks),
            ("search_replace, matches on one line", 5000, _replacements),
            ("diff_files, changed lines", 5000, _changed_lines),
            ("run_shell, sensitive files in the workspace", 240, _sensitive_files),
            ("write_file over a sparse file, GB", 256, _sparse_file),
        ):
            low, high = (_shortest(hilt, call, place, count) for count in (size, FACTOR * size))
            yield Figure(f"{name}: {FACTOR * size:,}", high, "ms", f"{size:,}", low, max_ratio=LINEAR)
    for name, size, work in (("requests on one line", 4000, _requests), ("bytes of an invalid command", 8192, _noise)):
        low, high = best(3, work(size), work(FACTOR * size))
        yield Figure(f"{name}: {FACTOR * size:,}", high, "ms", f"{size:,}", low, max_ratio=LINEAR)
    with _trail(SESSIONS) as few, _trail(FACTOR * SESSIONS) as many:
        low, high = best(20, *(partial(trail.was_used, "w", "s0", 0.0) for trail in (few, many)))
    name = f"session lookup, sessions: {FACTOR * SESSIONS:,}"
    yield Figure(name, high, "ms", f"{SESSIONS:,}", low, max_ratio=LINEAR)


_Call = Callable[[Place, int], dict[str, Any]]


def _shortest(hilt: Pipe, call: _Call, place: Place, count: int) -> float:
    """Return the shortest time of a call in milliseconds; its files are prepared again each time."""
    send = hilt.exchange if call in (_failing_edits, _sparse_file) else hilt.ask
    lines = (request(**call(place, count)) for _ in range(3))
    return min(milliseconds(partial(send, line)) for line in lines)


def _line(number: int) -> str:
    return f"line {number:06} of a longer text, as long as lines of code are"


def _write(place: Place, count: int) -> None:
    place.write("text.txt", "".join(_line(number) + "\n" for number in range(6 * count)))


def _edits(place: Place, count: int) -> dict[str, Any]:
    _write(place, count)
    lines = [_line(6 * number) for number in range(count)]
    return {
        "tool": "multi_edit",
        "edits": [{"path": "text.txt", "old_text": line, "new_text": line.upper()} for line in lines],
    }


def _failing_edits(place: Place, count: int) -> dict[str, Any]:
    _write(place, 5000)
    edits = [{"path": "text.txt", "old_text": f"no line {number}", "new_text": ""} for number in range(count)]
    return {"tool": "multi_edit", "edits": edits}


def _hunks(place: Place, count: int) -> dict[str, Any]:
    _write(place, count)
    lines = [_line(6 * number) for number in range(count)]
    hunks = "".join(f"@@\n-{line}\n+{line.upper()}\n" for line in lines)
    return {
        "tool": "apply_patch",
        "patch": f"*** Begin Patch\n*** Update File: text.txt\n{hunks}*** End Patch\n",
    }


def _replacements(place: Place, count: int) -> dict[str, Any]:
    place.write("line.txt", "needle " * count + "\n")
    return {"tool": "search_replace", "files": "line.txt", "pattern": "needle", "replacement": "pin"}


def _changed_lines(place: Place, count: int) -> dict[str, Any]:
    place.write("a.txt", "a\nb\n" * count)
    place.write("b.txt", "b\na\nc\n" * count)
    return {"tool": "diff_files", "path_a": "a.txt", "path_b": "b.txt"}


def _sensitive_files(place: Place, count: int) -> dict[str, Any]:
    for number in range(count):
        place.write(f"packages/{number}/.env", "TOKEN=x\n")
    return {"tool": "run_shell", "command": "true"}


def _sparse_file(place: Place, count: int) -> dict[str, Any]:
    os.truncate(place.write("sparse", ""), count << 30)
    return {"tool": "write_file", "path": "sparse", "content": "x", "force": True}


@contextmanager
def _trail(sessions: int) -> Iterator[Trail]:
    """Yield an audit trail with calls of this many sessions."""
    with TemporaryDirectory() as folder, closing(Trail(os.path.join(folder, "trail.db"))) as trail:
        for number in range(sessions):
            trail.record(TrailEntry(number + 1, "w", f"s{number}", "read_file", "", "allow", "", "", "ok", 1), {})
        yield trail


def _requests(count: int) -> Callable[[], object]:
    line = b'{"tool":"read_file","args":{"path":"some/file.txt"}}' * count
    return lambda: sum(1 for _ in read_requests(BytesIO(line)))


def _noise(size: int) -> Callable[[], object]:
    numbers = counted()  # results are cached
    return lambda: classify(f"echo {next(numbers)}" + "a & ; | b )) " * (size // 13))
