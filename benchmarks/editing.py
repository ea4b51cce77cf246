"""Changing files, against the same changes in plain Python with the same fsync."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count

from benchmarks.clock import best
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place
from benchmarks.plain import replace, replace_line
from benchmarks.program import Pipe, request, session

MEGABYTES = 10
FILES = 1000
SNAPSHOTS = 500


def figures() -> Iterator[Figure]:
    """Measure edits of one large file and of many files, a patch, a preview, and the undo list."""
    for measure in (_large_file, _many_files, _patch, _preview, _undo_list):
        with fresh_place() as place, session(place) as hilt:
            yield from measure(place, hilt)


class _Versions:
    """A line that differs each time, so that no content is cached from an earlier round."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.text = self._line(0)

    def step(self) -> tuple[str, str]:
        """Return the current line and the next one."""
        old, self.text = self.text, self._line(next(self._numbers))
        return old, self.text

    def _line(self, number: int) -> str:
        return f"this line is version {number:06} of itself"


def _lines(number: int, changed: str) -> str:
    """Return that many lines of text with the changed one in the middle."""
    lines = [f"line {position} of a longer text, as long as lines of code are\n" for position in range(1, number + 1)]
    lines[number // 2] = changed + "\n"
    return "".join(lines)


def _large_file(place: Place, hilt: Pipe) -> Iterator[Figure]:
    ours, theirs = _Versions(), _Versions()
    lines = MEGABYTES * 1024 * 1024 // len(_lines(1000, "")) * 1000
    place.write("large.txt", _lines(lines, ours.text))
    path = place.write("plain.txt", _lines(lines, theirs.text))

    def edit() -> None:
        old, new = ours.step()
        hilt.call("edit_file", path="large.txt", old_text=old, new_text=new)

    base, edited = best(7, lambda: replace_line(path, *theirs.step()), edit)
    assert ours.text in place.read("large.txt")
    yield Figure(f"edit_file, {MEGABYTES} MB", edited, "ms", "read, write, fsync, rename", base, max_ratio=3)


def _many_files(place: Place, hilt: Pipe) -> Iterator[Figure]:
    ours, theirs = _Versions(), _Versions()
    for number in range(FILES):
        place.write(f"ours/{number}.txt", _lines(50, ours.text))
        place.write(f"theirs/{number}.txt", _lines(50, theirs.text))

    def by_hand() -> None:
        data = _lines(50, theirs.step()[1]).encode()
        for number in range(FILES):
            replace(place.path(f"theirs/{number}.txt"), data)

    def edit() -> None:
        old, new = ours.step()
        edits = [{"path": f"ours/{number}.txt", "old_text": old, "new_text": new} for number in range(FILES)]
        hilt.call("multi_edit", edits=edits)

    base, edited = best(3, by_hand, edit)
    assert ours.text in place.read(f"ours/{FILES - 1}.txt")
    yield Figure(f"multi_edit, {FILES:,} files", edited, "ms", "write, fsync, rename of each", base, max_ratio=3)


def _patch(place: Place, hilt: Pipe) -> Iterator[Figure]:
    ours, theirs = _Versions(), _Versions()
    place.write("ours.txt", _lines(12_000, ours.text))
    path = place.write("theirs.txt", _lines(12_000, theirs.text))

    def patch() -> None:
        old, new = ours.step()
        hunk = f"*** Begin Patch\n*** Update File: ours.txt\n@@\n-{old}\n+{new}\n*** End Patch\n"
        hilt.call("apply_patch", patch=hunk)

    name = "apply_patch, 12,000 lines"
    base, used = _above_idle(place, hilt, patch)
    yield Figure(f"{name}, memory", used, "MB", "idle session", base, maximum=20)
    base, patched = best(10, lambda: replace_line(path, *theirs.step()), patch)
    assert ours.text in place.read("ours.txt")
    yield Figure(name, patched, "ms", "read, write, fsync, rename", base, maximum=30)


def _preview(place: Place, hilt: Pipe) -> Iterator[Figure]:
    ours = _Versions()
    old, new = ours.step()
    path = place.write("ours.txt", _lines(100_000, old))
    name = "preview of edit_file, 100,000 lines"

    def preview() -> None:
        assert new in hilt.call("edit_file", path="ours.txt", old_text=old, new_text=new, dry_run=True)

    base, used = _above_idle(place, hilt, preview)
    yield Figure(f"{name}, memory", used, "MB", "idle session", base)
    base, previewed = best(10, lambda: _read(path), preview)
    yield Figure(name, previewed, "ms", "plain read", base, maximum=100)
    yield _diff_memory(_lines(100_000, old), _lines(100_000, new))


def _diff_memory(old: str, new: str) -> Figure:
    """Measure what the diff allocates, apart from its two input texts."""
    import tracemalloc

    from hilt.text.diffing import unified_diff

    tracemalloc.start()
    try:
        assert unified_diff(old, new, "ours.txt")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return Figure(
        "its diff alone, memory", peak / 2**20, "MB", "the two texts", (len(old) + len(new)) / 2**20, maximum=4
    )


def _undo_list(place: Place, hilt: Pipe) -> Iterator[Figure]:
    for number in range(SNAPSHOTS):
        hilt.call("write_file", path=f"{number}.txt", content=f"{number}\n")
    listed = json.loads(hilt.call("undo", action="list"))
    assert listed["count"] == SNAPSHOTS
    small = request("read_file", path="0.txt")
    listing = request("undo", action="list")
    base, took = best(10, lambda: hilt.ask(small), lambda: hilt.ask(listing))
    yield Figure(f"undo list, {SNAPSHOTS} entries", took, "ms", "read_file of a small file", base, maximum=10)


def _above_idle(place: Place, hilt: Pipe, work: Callable[[], object]) -> tuple[float, float]:
    """Return the memory of an idle session, and the peak above that during the work, in megabytes."""
    place.write("small.txt", "small\n")
    hilt.call("read_file", path="small.txt")
    idle = hilt.memory()
    hilt.reset_peak()
    work()
    return idle, hilt.peak() - idle


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
