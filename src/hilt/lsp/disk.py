"""Changes of a workspace on disk since they were last taken, for servers that cache what they read."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

CREATED, CHANGED, DELETED = 1, 2, 3  # as the protocol numbers them
FOLDERS_MAX = 20_000
FILES_MAX = 100_000

# their contents belong to other programs, or change with every build
SKIPPED = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".cache", "target"))

Stamps = dict[str, tuple[int, int, int]]


class DiskWatch:
    """Finds changes below folders by comparing scans. Safe to use from many threads."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._lock = threading.Lock()
        self._stamps = _scan(roots)

    def take(self) -> dict[str, int]:
        """Return the files that were created, changed or deleted since the last time."""
        with self._lock:
            before, self._stamps = self._stamps, _scan(self._roots)
            changes = dict.fromkeys(before.keys() - self._stamps.keys(), DELETED)
            for path, stamp in self._stamps.items():
                if before.get(path) != stamp:
                    changes[path] = CHANGED if path in before else CREATED
            return changes


def _scan(roots: tuple[str, ...]) -> Stamps:
    stamps: Stamps = {}
    pending = list(roots)
    for folder in pending:  # which grows
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in SKIPPED and len(pending) < FOLDERS_MAX:
                        pending.append(entry.path)
                elif entry.is_file(follow_symlinks=False) and len(stamps) < FILES_MAX:
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        # not the time of the contents, which a program can set back
                        stamps[entry.path] = status.st_ctime_ns, status.st_size, status.st_ino
    return stamps
