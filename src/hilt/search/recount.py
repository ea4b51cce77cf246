"""Recounts matches where ripgrep stopped early, or where links may have misled it."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from hilt.search.reach import NameChanges, SearchReach
from hilt.search.ripgrep import FIRST_FD, Pattern
from hilt.search.ripgrep_runs import SearchBackend, counts_by_path
from hilt.search.selection import Selection

RECOUNTED_FILES = 500  # at most this many files are recounted
RECOUNTED_TOGETHER = 50  # files per program, which inherits their descriptors


class Recounted(NamedTuple):
    """Verified match counts by path."""

    counts: dict[str, int]
    dropped: int = 0  # files whose counts differ
    is_minimum: bool = False


def recount(
    backend: SearchBackend,
    reach: SearchReach,
    name_changes: NameChanges,
    pattern: Pattern,
    counts: dict[str, int],
    truncated: Collection[str] = (),
) -> Recounted:
    """Recount files whose matches were truncated, and files whose names changed: a link may have misled ripgrep."""
    if backend.is_file:
        return _recount_file(backend, pattern, counts) if truncated else Recounted(counts)
    moved = name_changes.changed_files(reach, counts)
    if not moved and not truncated:
        return Recounted(counts)
    doubtful = sorted(moved.union(truncated))
    verified = dict(counts)
    is_minimum = len(doubtful) > RECOUNTED_FILES
    dropped = 0
    for start in range(0, len(doubtful), RECOUNTED_TOGETHER):
        paths = doubtful[start : start + RECOUNTED_TOGETHER]
        numbers: dict[str, int] | None = None
        if start < RECOUNTED_FILES:
            numbers = _count_open(backend, reach, pattern, paths)
            is_minimum = is_minimum or numbers is None
        for path in paths:
            if numbers is not None:
                verified[path] = numbers.get(path, 0)
            elif path in moved:
                verified[path] = 0
            dropped += path in moved and verified[path] != counts[path]
    return Recounted({path: count for path, count in verified.items() if count}, dropped, is_minimum)


def _recount_file(backend: SearchBackend, pattern: Pattern, counts: dict[str, int]) -> Recounted:
    with backend.started("count", pattern, Selection()) as stream:
        number = sum(count for _, count in counts_by_path(stream))
    if stream.timed_out or stream.exit_code not in (0, 1):
        return Recounted(counts, is_minimum=True)
    return Recounted(dict.fromkeys(counts, number))


def _count_open(
    backend: SearchBackend, reach: SearchReach, pattern: Pattern, paths: Sequence[str]
) -> dict[str, int] | None:
    """Return the match counts of these files; None if that failed."""
    with ExitStack() as stack:
        opened: dict[str, int] = {}
        for path in paths:
            with suppress(OSError):
                descriptor = stack.enter_context(reach.opened(path))
                if not is_binary(descriptor):
                    opened[path] = descriptor
        if not opened:
            return {}
        names = list(opened)
        counts: dict[str, int] = {}
        with backend.started("count", pattern, Selection(), fds=tuple(opened.values())) as stream:
            for name, count in counts_by_path(stream):
                counts[names[int(name.rpartition("/")[2]) - FIRST_FD]] = count
    return None if stream.timed_out or stream.exit_code not in (0, 1) else counts


def is_binary(descriptor: int) -> bool:
    """Whether a file contains a NUL and has no UTF-16 mark; ripgrep reports it only in a full search."""
    if os.pread(descriptor, 2, 0) in (b"\xff\xfe", b"\xfe\xff"):
        return False
    at = 0
    while block := os.pread(descriptor, 1 << 20, at):
        if b"\0" in block:
            return True
        at += len(block)
    return False
