"""Folders of the user outside the workspace: which of their files are entries.

Links are never resolved to anything sensitive.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, TypeAlias

from hilt.formats.times import is_settled
from hilt.handles import FILE, open_in_folder

DEPTH_MAX = 8
FILES_MAX = 20_000

_SKIPPED = frozenset({"node_modules", "vendor", "__pycache__", "dist", "build", "venv", "target"})
_SUFFIXES = {
    "kb": (".md", ".markdown", ".txt"),
    "skill": (".md",),
    "agent": (".md",),
    "command": (".md",),
}
SKILL = "SKILL.md"


# the size and modification time of a file, to detect changes; time 0: read it again.
# A plain tuple, because creating ten thousand objects of a class takes too long
Stamp: TypeAlias = tuple[int, int]


class Survey(NamedTuple):
    """The current contents of a shelf."""

    files: dict[str, Stamp]
    full: bool = False  # the limit was reached


class FolderShelf:
    """A shelf of the user: all entries of one kind below one folder."""

    def __init__(self, path: str, kind: str, is_sensitive: Callable[[str], bool]) -> None:
        self.key = path  # the real path
        self.kind = kind
        self._is_sensitive = is_sensitive

    def kind_of(self, path: str) -> str:
        """Return the kind of an entry: a SKILL.md is a skill wherever it is."""
        return "skill" if path.endswith("/" + SKILL) else self.kind

    def survey(self, check: Callable[[], None]) -> Survey:
        """Return the stamps of all entries."""
        files: dict[str, Stamp] = {}
        pending = [(self.key, 0)]
        seen = {self.key}
        for folder, depth in pending:  # which grows
            check()
            with suppress(OSError):  # deleted, or may not be read
                for path, status in self._contents(folder):
                    if stat.S_ISREG(status.st_mode):
                        files[path] = (status.st_size, status.st_mtime_ns)
                    elif depth < DEPTH_MAX and path not in seen:
                        seen.add(path)
                        pending.append((path, depth + 1))
                    if len(files) >= FILES_MAX:
                        return Survey(files, full=True)
        return Survey(files)

    def read(self, path: str, limit: int) -> tuple[bytes, Stamp] | None:
        """Return the beginning of an entry and its stamp; None if it is no longer a readable file."""
        try:
            descriptor = open_in_folder(path, FILE)  # another path was checked
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            now = time.time_ns()
            pieces = []
            while limit > 0 and (piece := os.read(descriptor, limit)):
                pieces.append(piece)
                limit -= len(piece)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return b"".join(pieces), (status.st_size, settled(status.st_mtime_ns, now))

    def _contents(self, folder: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the entries and subfolders of a folder by their real paths; of a skill, only its SKILL.md."""
        with os.scandir(folder) as entries:
            names = {entry.name: entry for entry in islice(entries, FILES_MAX) if not entry.name.startswith(".")}
        if SKILL in names and (skill := self._real(names[SKILL])) is not None and stat.S_ISREG(skill[1].st_mode):
            yield skill
            return
        for name in sorted(names):
            found = self._real(names[name])
            if found is None:
                continue
            if stat.S_ISREG(found[1].st_mode):
                if self._is_entry(folder, found[0]):
                    yield found
            elif name not in _SKIPPED:
                yield found

    def _is_entry(self, folder: str, path: str) -> bool:
        name = path.rpartition("/")[2]
        if name == SKILL:
            return True
        if not name.lower().endswith(_SUFFIXES[self.kind]):
            return False
        if self.kind == "kb":
            return True
        # files next to a SKILL.md, or below it, belong to the skill and are not entries
        return name.lower() != "readme.md" and (self.kind != "skill" or folder == self.key)

    def _real(self, entry: os.DirEntry[str]) -> tuple[str, os.stat_result] | None:
        """Return the real path and status of an entry, if it is a file or folder that may be read."""
        path = entry.path
        try:
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISLNK(status.st_mode):
                return None if self._is_sensitive(path) else _file_or_folder(path, status)
            path = os.path.realpath(path)
            status = os.lstat(path)
        except OSError:
            return None
        if stat.S_ISREG(status.st_mode) and not path.lower().endswith(_SUFFIXES["kb"]):
            return None  # the target is not an entry, whatever the link is called
        return None if any(map(self._is_sensitive, prefixes(path))) else _file_or_folder(path, status)


def _file_or_folder(path: str, status: os.stat_result) -> tuple[str, os.stat_result] | None:
    return (path, status) if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) else None


def settled(mtime: int, now: int) -> int:
    """Return the modification time, or 0 if the next change could have the same one."""
    return mtime if is_settled(mtime, now) else 0


def prefixes(path: str) -> Iterator[str]:
    """Yield the parent folders of a path and the path itself, shortest first, without the leading slash."""
    parts = path.strip("/").split("/")
    for end in range(1, len(parts) + 1):
        yield "/".join(parts[:end])
