"""Line diffs: minimal for ordinary edits, and bounded in time for any two texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from hilt.text.lines import split_lines, strip_ending
from hilt.text.sequences import EqualRun, equal_runs

_CHUNK = 1 << 16


class DiffLine(NamedTuple):
    """One line of a hunk without its ending: "context", "removed" or "added"."""

    kind: str
    text: str


class Hunk(NamedTuple):
    """Changes that are close together; lines count from 1, and an empty side starts at the line before it."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    changes: tuple[DiffLine, ...]


def stripped(hunks: list[Hunk]) -> list[Hunk]:
    """Return the hunks without line endings."""
    return [
        hunk._replace(changes=tuple(DiffLine(kind, strip_ending(line)) for kind, line in hunk.changes))
        for hunk in hunks
    ]


def unified_diff(
    old: str | None,
    new: str | None,
    path: str,
    *,
    new_path: str | None = None,
    context: int = 3,
    rename: bool = True,
    hunks: list[Hunk] | None = None,
    executable: tuple[bool, bool] = (False, False),
) -> str:
    """Return a diff for `git apply` that turns old into new, "" if they are equal; None means a missing file.

    Two paths mean a renamed file, or with rename=False a comparison of two files. `hunks` is the result of
    `compare`, if already known. `executable` is the flag before and after.
    """
    target = path if new_path is None else new_path
    pieces = list(_git_header(old, new, path, target, executable)) if rename else []
    hunks = compare(old or "", new or "", context) if hunks is None else hunks
    if hunks:
        pieces.append(f"--- {_name('a/', path) if old is not None else '/dev/null'}\n")
        pieces.append(f"+++ {_name('b/', target) if new is not None else '/dev/null'}\n")
    for hunk in hunks:
        ranges = f"-{_range(hunk.old_start, hunk.old_lines)} +{_range(hunk.new_start, hunk.new_lines)}"
        pieces.append(f"@@ {ranges} @@\n")
        for kind, line in hunk.changes:
            ending = "" if line.endswith("\n") else "\n\\ No newline at end of file\n"
            pieces.append(_SIGNS[kind] + line + ending)
    return "".join(pieces)


def first_changed_line(old: str, new: str) -> int | None:
    """Return the number of the first line that differs, counted in the new text, or None for equal texts."""
    if old == new:
        return None
    return new.count("\n", 0, _common_lines(old, new)[0]) + 1


_SIGNS = {"context": " ", "removed": "-", "added": "+"}


def _git_header(
    old: str | None, new: str | None, path: str, target: str, executable: tuple[bool, bool]
) -> Iterator[str]:
    before, after = ("100755" if flag else "100644" for flag in executable)
    if old is not None and new is not None and path == target and before == after:
        return
    if old is None and new is None:
        return
    yield f"diff --git {_quote('a/' + path)} {_quote('b/' + target)}\n"
    if old is None:
        yield f"new file mode {after}\n"
    elif new is None:
        yield f"deleted file mode {before}\n"
    else:
        if before != after:
            yield f"old mode {before}\nnew mode {after}\n"
        if path != target:
            yield f"rename from {_quote(path)}\n"
            yield f"rename to {_quote(target)}\n"


def _name(prefix: str, path: str) -> str:
    """Return a path for a --- or +++ line; a tab marks the end of a name with spaces."""
    quoted = _quote(prefix + path)
    return quoted + "\t" if " " in path and not quoted.startswith('"') else quoted


_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\t": "\\t",
    "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r",
}  # fmt: skip


def _quote(path: str) -> str:
    """Return the path, quoted with C escapes if git requires it."""
    quoted = "".join(_ESCAPES.get(c) or (c if c >= " " and c != "\x7f" else f"\\{ord(c):03o}") for c in path)
    # readers of patches ignore spaces at the end of a line
    return path if quoted == path.rstrip() else f'"{quoted}"'


def _range(start: int, length: int) -> str:
    return str(start) if length == 1 else f"{start},{length}"


def compare(old: str, new: str, context: int = 3) -> list[Hunk]:
    """Return the hunks, with line endings."""
    start, old_end, new_end = _common_lines(old, new)
    if start == old_end and start == new_end:
        return []
    for _ in range(context):
        start = old.rfind("\n", 0, max(start - 1, 0)) + 1
    above = old.count("\n", 0, start)
    old_lines = split_lines(old[start : _skip_lines(old, old_end, context)])
    new_lines = split_lines(new[start : _skip_lines(new, new_end, context)])
    return [
        _hunk(group, old_lines, new_lines, context, above)
        for group in _groups(equal_runs(old_lines, new_lines), len(old_lines), len(new_lines), context)
    ]


def _common_lines(old: str, new: str) -> tuple[int, int, int]:
    """Return where the first differing line starts, and where in each text the equal lines at the end start."""
    start = old.rfind("\n", 0, _common_prefix(old, new)) + 1
    if old == new:
        return len(old), len(old), len(new)
    tail = _common_suffix(old, new, min(len(old), len(new)) - start)
    old_end, new_end = len(old) - tail, len(new) - tail
    if not (_starts_line(old, old_end) and _starts_line(new, new_end)):
        feed = old.find("\n", old_end)
        skipped = tail if feed < 0 else feed + 1 - old_end
        old_end, new_end = old_end + skipped, new_end + skipped
    return start, old_end, new_end


def _starts_line(text: str, offset: int) -> bool:
    return offset == 0 or text[offset - 1] == "\n"


def _common_prefix(old: str, new: str) -> int:
    # comparing chunks is fast and does not copy a large text
    limit, at, step = min(len(old), len(new)), 0, _CHUNK
    while step:
        while at + step <= limit and old[at : at + step] == new[at : at + step]:
            at += step
        step //= 2
    return at


def _common_suffix(old: str, new: str, limit: int) -> int:
    a, b, tail, step = len(old), len(new), 0, _CHUNK
    while step:
        while tail + step <= limit and old[a - tail - step : a - tail] == new[b - tail - step : b - tail]:
            tail += step
        step //= 2
    return tail


def _skip_lines(text: str, offset: int, count: int) -> int:
    for _ in range(count):
        offset = text.find("\n", offset) + 1 or len(text)
    return offset


def _groups(runs: Sequence[EqualRun], old_length: int, new_length: int, context: int) -> Iterator[list[EqualRun]]:
    """Yield the equal runs around and between the changes of each hunk; a missing run at an edge is empty."""
    edges = [EqualRun(0, 0, 0), *runs, EqualRun(old_length, new_length, 0)]
    group: list[EqualRun] = []
    for run, after in pairwise(edges):
        changed = (run.old + run.length, run.new + run.length) != (after.old, after.new)
        if group and (run.length > 2 * context or not changed):
            yield group
            group = []
        if changed:
            group = group or [run]
            group.append(after)
    if group:
        yield group


def _hunk(group: Sequence[EqualRun], old: Sequence[str], new: Sequence[str], context: int, above: int) -> Hunk:
    """Build a hunk from the changes between the runs of a group; `above` lines precede both sequences."""
    first, last = group[0], group[-1]
    lead, trail = min(context, first.length), min(context, last.length)
    x, y = first.old + first.length, first.new + first.length
    changes = [DiffLine("context", line) for line in old[x - lead : x]]
    for run in group[1:]:
        changes += (DiffLine("removed", line) for line in old[x : run.old])
        changes += (DiffLine("added", line) for line in new[y : run.new])
        count = trail if run is last else run.length
        changes += (DiffLine("context", line) for line in old[run.old : run.old + count])
        x, y = run.old + run.length, run.new + run.length
    old_at, new_at = first.old + first.length - lead, first.new + first.length - lead
    old_count, new_count = last.old + trail - old_at, last.new + trail - new_at
    return Hunk(
        above + old_at + (old_count > 0), old_count, above + new_at + (new_count > 0), new_count, tuple(changes)
    )
