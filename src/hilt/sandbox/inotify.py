"""Reports repositories as they appear or change in a workspace, through Linux's inotify.

This only supplements the regular checks, which find what inotify misses: folders above the maximum, events that the
kernel drops, and writes through a memory map or a hard link in another folder.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from hilt.sandbox.sensitive import REPOSITORY_PARTS, is_repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.disarming import GitFolder

MAX_FOLDERS = 4096  # each takes about 1 KB of kernel memory; half of them are for folders that appear later

_MODIFY, _ATTRIB, _MOVED_TO, _CREATE = 0x2, 0x4, 0x80, 0x100
_OVERFLOW, _IGNORED, _IS_FOLDER = 0x4000, 0x8000, 0x4000_0000
# ONLYDIR, DONT_FOLLOW, EXCL_UNLINK and MASK_ADD
_OPTIONS = 0x0100_0000 | 0x0200_0000 | 0x0400_0000 | 0x2000_0000
_NEW = _CREATE | _MOVED_TO | _OPTIONS
_CHANGED = _NEW | _MODIFY | _ATTRIB

_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_READ_BYTES = 1 << 16


class RepositoryEvents:
    """Watches the folders of a workspace for new repositories, and the folders in repositories for changes."""

    def __init__(self, max_folders: int = MAX_FOLDERS) -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._add_watch = libc.inotify_add_watch
        self._max_folders = max_folders
        self._paths: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._outside: set[str] = set()
        self._inside: dict[str, GitFolder] = {}
        self._absent: set[str] = set()

    def close(self) -> None:
        """Stop watching."""
        os.close(self.fd)

    def add_tree(self, top: str, skipped: Collection[str] = ()) -> None:
        """Watch a folder and those below it, the outermost first."""
        self._add_tree(top, skipped, self._max_folders // 2)

    def add_git_folders(self, folders: Mapping[str, GitFolder]) -> set[str]:
        """Watch folders in repositories; return those with newly watched folders, which may have changed before."""
        added: set[str] = set()
        for path, folder in folders.items():
            if path not in self._inside and self._watch(path, _CHANGED, self._max_folders):
                self._inside[path] = folder
                added.add(folder.repository)
        return added

    def add_absent(self, paths: Iterable[str]) -> None:
        """Report these paths when they appear."""
        self._absent.update(paths)

    def read(self) -> set[str] | None:
        """Return the repositories that have changed, and absent paths that have appeared; None if events were lost."""
        changed: set[str] = set()
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return changed
        offset = 0
        while offset < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size + length
            if mask & _OVERFLOW:
                return None
            folder = self._paths.get(watch)
            if folder is None:
                continue
            if mask & _IGNORED:  # it was deleted
                self._forget(watch)
            elif length:
                name = os.fsdecode(data[offset - length : offset].rstrip(b"\0"))
                changed.update(self._affected(folder, name, is_folder=bool(mask & _IS_FOLDER)))
        return changed

    def _affected(self, folder: str, name: str, *, is_folder: bool) -> Iterator[str]:
        path, folded = os.path.join(folder, name), name.lower()
        inside = self._inside.get(folder)
        if inside is not None and (not inside.names or folded in inside.names):
            yield inside.repository
        if folder not in self._outside:
            return
        if folded == ".git" or path in self._absent:
            yield path
        elif is_folder:
            yield from self._add_tree(path, (), self._max_folders)
        if folded in REPOSITORY_PARTS:
            with suppress(OSError):
                if is_repository({name.lower() for name in os.listdir(folder)}):
                    yield folder

    def _add_tree(self, top: str, skipped: Collection[str], max_folders: int) -> list[str]:
        """Watch a folder and those below it; return the repositories in them."""
        repositories = []
        pending = deque([top])
        while pending:
            folder = pending.popleft()
            # watched before it is listed, so that nothing is missed in between
            if folder in skipped or not self._watch(folder, _NEW, max_folders):
                continue
            self._outside.add(folder)
            with suppress(OSError), os.scandir(folder) as entries:
                names = set()
                for entry in entries:
                    folded = entry.name.lower()
                    names.add(folded)
                    if folded == ".git":
                        repositories.append(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                if is_repository(names):
                    repositories.append(folder)
        return repositories

    def _watch(self, path: str, mask: int, max_folders: int) -> bool:
        if len(self._paths) >= max_folders and path not in self._watches:
            return False
        watch = self._add_watch(self.fd, os.fsencode(path), mask)
        if watch < 0:
            return False
        if self._paths.get(watch) != path:
            self._forget(watch)  # it was renamed
            self._paths[watch] = path
            self._watches[path] = watch
        return True

    def _forget(self, watch: int) -> None:
        path = self._paths.pop(watch, None)
        if path is not None and self._watches.get(path) == watch:
            del self._watches[path]
            self._outside.discard(path)
            self._inside.pop(path, None)
