"""Folders of the user outside the workspace: which of their files are entries.

A folder with an unchanged modification time still has the same names, so only its files are checked again. Links are
resolved once, and never to anything sensitive.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
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


class Listing(NamedTuple):
    """The entries and subfolders of a folder, by full path, and its modification time, 0 to list it again."""

    mtime: int
    files: tuple[str, ...]
    folders: tuple[str, ...]


class Survey(NamedTuple):
    """The current contents of a shelf, and the listings of its folders."""

    files: dict[str, Stamp]
    listings: dict[str, Listing]
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

    def survey(self, known: Mapping[str, Listing], check: Callable[[], None]) -> Survey:
        """Check every file; list only folders that changed since `known`."""
        files: dict[str, Stamp] = {}
        listings: dict[str, Listing] = {}
        queue = [(self.key, 0)]
        seen = {self.key}
        for folder, depth in queue:
            check()
            listing = self._listed(folder, known.get(folder))
            if listing is None:
                continue
            is_incomplete = not _add_stamps(listing.files, files)
            if is_incomplete and listing is known.get(folder):
                # a skill folder lost its SKILL.md, which does not change the parent folder
                listing = self._list(folder)
                _add_stamps(listing.files, files)
            listings[folder] = listing
            if len(files) >= FILES_MAX:
                return Survey(dict(list(files.items())[:FILES_MAX]), listings, full=True)
            if depth < DEPTH_MAX:
                unseen = [inner for inner in listing.folders if inner not in seen]
                seen.update(unseen)
                queue.extend((inner, depth + 1) for inner in unseen)
        return Survey(files, listings)

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

    def _listed(self, folder: str, known: Listing | None) -> Listing | None:
        try:
            if known is not None and known.mtime and os.stat(folder).st_mtime_ns == known.mtime:
                return known
            return self._list(folder)
        except OSError:
            return None  # deleted, or may not be read

    def _list(self, folder: str) -> Listing:
        now = time.time_ns()
        mtime = os.stat(folder).st_mtime_ns
        files: list[str] = []
        folders: list[str] = []
        with os.scandir(folder) as entries:
            names = {}
            for entry in entries:
                if not entry.name.startswith("."):
                    names[entry.name] = entry
                if len(names) > FILES_MAX:
                    break
        if SKILL in names and self._is_file(names[SKILL]):
            names = {SKILL: names[SKILL]}
        for name in sorted(names):
            path = self._real(names[name])
            if path is None:
                continue
            if os.path.isdir(path):
                skill = f"{path}/{SKILL}"
                if name in _SKIPPED:
                    continue
                if _is_plain_file(skill) and not self._is_sensitive(skill):
                    files.append(skill)
                else:
                    folders.append(path)
            elif self._is_entry(folder, path):
                files.append(path)
        return Listing(settled(mtime, now), tuple(files), tuple(folders))

    def _is_entry(self, folder: str, path: str) -> bool:
        name = os.path.basename(path)
        if name == SKILL:
            return True
        if not name.lower().endswith(_SUFFIXES[self.kind]):
            return False
        if self.kind == "kb":
            return True
        # files next to a SKILL.md, or below it, belong to the skill and are not entries
        return name.lower() != "readme.md" and (self.kind != "skill" or folder == self.key)

    def _is_file(self, entry: os.DirEntry[str]) -> bool:
        path = self._real(entry)
        return path is not None and _is_plain_file(path)

    def _real(self, entry: os.DirEntry[str]) -> str | None:
        """Return the real path of an entry, if it is a file or folder that may be read."""
        path = entry.path
        if entry.is_symlink():
            path = os.path.realpath(path)
            if any(self._is_sensitive(prefix) for prefix in prefixes(path)):
                return None
            if os.path.isfile(path) and not path.lower().endswith(_SUFFIXES["kb"]):
                return None  # the target is not an entry, whatever the link is called
        elif self._is_sensitive(path):
            return None
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return None
        return path if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else None


def settled(mtime: int, now: int) -> int:
    """Return the modification time, or 0 if the next change could have the same one."""
    return mtime if is_settled(mtime, now) else 0


def prefixes(path: str) -> Iterator[str]:
    """Yield the parent folders of a path and the path itself, shortest first, without the leading slash."""
    parts = path.strip("/").split("/")
    for end in range(1, len(parts) + 1):
        yield "/".join(parts[:end])


def _add_stamps(paths: tuple[str, ...], files: dict[str, Stamp]) -> bool:
    """Add the current stamps of the files; return False if one is no longer a regular file."""
    complete = True
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            complete = False
            continue
        if stat.S_ISREG(status.st_mode):
            files[path] = (status.st_size, status.st_mtime_ns)
        else:
            complete = False
    return complete


def _is_plain_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
