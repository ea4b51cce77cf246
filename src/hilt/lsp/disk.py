"""Changes of a workspace on disk since they were last taken, for servers that cache what they read.

On Linux the kernel queues every change (inotify), so that reading them is cheap and complete. Elsewhere, or when
the system's limit on watches is reached, the workspace is scanned each time.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

CREATED, CHANGED, DELETED = 1, 2, 3  # as the protocol numbers them
FOLDERS_MAX = 20_000
FILES_MAX = 100_000
SCAN_RATIO = 10  # the pause after a scan, as a multiple of its duration

# their contents belong to other programs, or change with every build
SKIPPED = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".cache", "target"))

_CREATE, _DELETE, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x100, 0x200, 0x8, 0x40, 0x80
_ONLYDIR, _DONT_FOLLOW = 0x01000000, 0x02000000
_IS_FOLDER, _OVERFLOW, _IGNORED = 0x40000000, 0x4000, 0x8000
_MASK = _CREATE | _DELETE | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _ONLYDIR | _DONT_FOLLOW
_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 16

Stamps = dict[str, tuple[int, int, int]]


class DiskWatch:
    """Collects changes below folders. Safe to use from many threads."""

    def __init__(self, roots: tuple[str, ...], *, native: bool = True) -> None:
        self._roots = roots
        self._lock = threading.Lock()
        self._queue = _Queue.open(roots) if native else None
        self._stamps = None if self._queue is not None else _scan(roots)
        self._due = 0.0  # when the next scan may begin

    def take(self) -> dict[str, int]:
        """Return the files that were created, changed or deleted since the last time."""
        with self._lock:
            if self._queue is not None:
                changes = self._queue.take()
                if changes is not None:
                    return changes
                # events were lost, or a watch could not be added: from now on compare scans
                self._queue.close()
                self._queue = None
                self._stamps = _scan(self._roots)
                return dict.fromkeys(self._stamps, CHANGED)
            began = monotonic()
            if began < self._due:
                return {}  # scans of a large workspace must not run all the time
            before, self._stamps = self._stamps or {}, _scan(self._roots)
            self._due = monotonic() + (monotonic() - began) * SCAN_RATIO
            changes = dict.fromkeys(before.keys() - self._stamps.keys(), DELETED)
            for path, stamp in self._stamps.items():
                if before.get(path) != stamp:
                    changes[path] = CHANGED if path in before else CREATED
            return changes

    def close(self) -> None:
        """Stop watching."""
        with self._lock:
            if self._queue is not None:
                self._queue.close()
                self._queue = None


def _scan(roots: tuple[str, ...]) -> Stamps:
    stamps: Stamps = {}
    for root in roots:
        for folder in _folders(root):
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False) and len(stamps) < FILES_MAX:
                        with suppress(OSError):
                            status = entry.stat(follow_symlinks=False)
                            stamps[entry.path] = status.st_mtime_ns, status.st_size, status.st_ino
    return stamps


def _folders(root: str) -> Iterator[str]:
    """Yield a folder and those below it that are watched."""
    pending = [root]
    count = 0
    while pending:
        folder = pending.pop()
        count += 1
        yield folder
        if count >= FOLDERS_MAX:
            return
        with suppress(OSError), os.scandir(folder) as entries:
            pending += [
                entry.path for entry in entries if entry.name not in SKIPPED and entry.is_dir(follow_symlinks=False)
            ]


class _Queue:
    """The kernel's queue of changes."""

    def __init__(self, library: Any, descriptor: int) -> None:
        self._library = library
        self._descriptor = descriptor
        self._paths: dict[int, str] = {}
        self._names: dict[int, set[str]] = {}  # files in each folder: a rename may replace one

    @staticmethod
    def open(roots: tuple[str, ...]) -> _Queue | None:
        """Watch folders; return None if the kernel cannot."""
        if sys.platform != "linux":
            return None
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            return None
        queue = _Queue(library, descriptor)
        if all(queue._add(folder) for root in roots for folder in _folders(root)):
            return queue
        queue.close()
        return None

    def _add(self, folder: str) -> bool:
        """Watch a folder; return False if the limit is reached. A deleted folder needs no watch."""
        number = self._library.inotify_add_watch(self._descriptor, os.fsencode(folder), _MASK)
        if number < 0:
            return not os.path.isdir(folder)
        self._paths[number] = folder
        self._names[number] = set()
        with suppress(OSError), os.scandir(folder) as entries:
            self._names[number] = {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
        return len(self._paths) <= FOLDERS_MAX

    def take(self) -> dict[str, int] | None:
        """Return the queued changes; None if some were lost."""
        changes: dict[str, int] = {}
        while True:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return changes
            except OSError:
                return None
            position = 0
            while position < len(data):
                number, mask, _, length = _HEADER.unpack_from(data, position)
                name = data[position + _HEADER.size : position + _HEADER.size + length].rstrip(b"\0")
                position += _HEADER.size + length
                if not self._record(changes, number, mask, os.fsdecode(name)):
                    return None

    def _record(self, changes: dict[str, int], number: int, mask: int, name: str) -> bool:
        if mask & _OVERFLOW:
            return False
        if mask & _IGNORED:
            self._paths.pop(number, None)
            self._names.pop(number, None)
            return True
        folder = self._paths.get(number)
        if folder is None:
            return True
        path = os.path.join(folder, name)
        if mask & _IS_FOLDER:
            if mask & (_CREATE | _MOVED_TO) and name not in SKIPPED:
                return self._enter(changes, path)
            if mask & _MOVED_FROM:
                self._forget(path)
            return True
        names = self._names[number]
        if mask & (_DELETE | _MOVED_FROM):
            names.discard(name)
            if changes.pop(path, None) != CREATED:  # a file that was created and deleted is no change
                changes[path] = DELETED
        elif name in names or changes.get(path) == DELETED:
            names.add(name)
            if changes.get(path) != CREATED:
                changes[path] = CHANGED
        else:
            names.add(name)
            changes[path] = CREATED
        return True

    def _enter(self, changes: dict[str, int], folder: str) -> bool:
        """Watch a new folder, and report the files that are already in it."""
        for inner in _folders(folder):
            if not self._add(inner):
                return False
        for number, path in self._paths.items():
            if path == folder or path.startswith(folder + "/"):
                changes |= dict.fromkeys((os.path.join(path, name) for name in self._names[number]), CREATED)
        return True

    def _forget(self, folder: str) -> None:
        """Stop watching a folder that was moved away, and those in it."""
        for number, path in list(self._paths.items()):
            if path == folder or path.startswith(folder + "/"):
                self._library.inotify_rm_watch(self._descriptor, number)
                del self._paths[number], self._names[number]

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)
