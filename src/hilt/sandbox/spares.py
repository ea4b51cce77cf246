"""Mount points that no command uses at the moment, kept in the state directory for the next one at the same path.

Moving a folder takes a fraction of the time of removing it and creating another. ext4 without a journal even takes
longer with every folder, because it avoids inodes that were freed in the last minutes.

A spare is moved back only to its own path: a running program that sees the path may have it open. If someone has put
something into it, it belongs to them and is moved back too.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import EXDEV
from itertools import count
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.handles import Parents

_MAX_SPARES = 64
_RENAME_NOREPLACE = 1
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Spare(NamedTuple):
    """A mount point in the folder of spares: its open descriptor, its name there, and its status since then."""

    fd: int
    name: str
    status: os.stat_result


class Spares:
    """The spare mount points of one process, each locked."""

    def __init__(self, folder: str, is_unchanged: Callable[[int, str], bool]) -> None:
        """`is_unchanged` returns whether an open mount point still has the content that it was created with."""
        self._folder = folder
        self._is_unchanged = is_unchanged
        self._handle = -1
        self._names = _names()
        self._process = os.getpid()
        self._spares: dict[str, _Spare] = {}
        self._elsewhere: set[str] = set()  # paths on other file systems
        self._rename = _load_rename()

    def __contains__(self, path: str) -> bool:
        if self._process != os.getpid():
            # in the child of a fork: they belong to the parent
            self._spares, self._handle, self._names, self._process = {}, -1, _names(), os.getpid()
        return path in self._spares

    def inode(self, path: str) -> int:
        """Return the inode of a spare."""
        return self._spares[path].status.st_ino

    def put(self, path: str, fd: int, status: os.stat_result, parents: Parents) -> bool:
        """Keep the unused mount point at a path, locked through `fd`; False when that is not possible."""
        if path in self or self._rename is None or len(self._spares) >= _MAX_SPARES or path in self._elsewhere:
            return False
        name = next(self._names)
        try:
            folder, own_name = parents.of(path)
            os.rename(own_name, name, src_dir_fd=folder, dst_dir_fd=self._open())
        except OSError as error:
            if error.errno == EXDEV:
                self._elsewhere.add(path)
            self._forget_folder()
            return False
        moved = self._status(name)
        # the status is read first: anything put into it after the check changes that
        if moved is not None and os.path.samestat(moved, status) and self._is_unchanged(fd, path):
            self._spares[path] = _Spare(fd, name, moved)
            return True
        self._move_back(path, name, parents)
        return False

    def take(self, path: str, parents: Parents) -> tuple[int, os.stat_result] | None:
        """Move a spare back to its path with a shared lock; return its descriptor and status, None when that fails."""
        spare = self._spares.pop(path)
        status = os.fstat(spare.fd)
        # If the last change is that of the move, nobody has put anything into it: the time of a change cannot be set.
        # A change at the same instant as the move is detected when it is put back.
        is_ours = status.st_mode == spare.status.st_mode and (
            _change_stamp(status) == _change_stamp(spare.status) or self._is_unchanged(spare.fd, path)
        )
        fcntl.flock(spare.fd, fcntl.LOCK_SH)
        if self._move_back(path, spare.name, parents) and is_ours:
            return spare.fd, status
        self._discard(spare)
        return None

    def close(self, parents: Parents) -> None:
        """Remove all spares; those that someone else has changed are moved back."""
        for path in list(self._spares):
            if path in self:
                spare = self._spares.pop(path)
                if not self._is_unchanged(spare.fd, path):
                    self._move_back(path, spare.name, parents)
                self._discard(spare)
        self._forget_folder()

    def _status(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self._handle, follow_symlinks=False)
        except OSError:
            return None

    def _move_back(self, path: str, name: str, parents: Parents) -> bool:
        """Move a spare to its path unless something is there; another process may have created a mount point."""
        try:
            folder, own_name = parents.of(path)
        except OSError:
            return False
        rename = self._rename
        return rename is not None and rename(self._handle, os.fsencode(name), folder, os.fsencode(own_name)) == 0

    def _discard(self, spare: _Spare) -> None:
        with suppress(OSError):
            _remove(self._handle, spare.name)
        os.close(spare.fd)

    def _open(self) -> int:
        if self._handle < 0:
            os.makedirs(self._folder, 0o700, exist_ok=True)
            self._handle = os.open(self._folder, _FOLDER)
        return self._handle

    def _forget_folder(self) -> None:
        """Open the folder again at the next use: it may be gone."""
        if self._handle >= 0 and not self._spares:
            os.close(self._handle)
            self._handle = -1


def _change_stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ctime_ns, status.st_mtime_ns, status.st_nlink


def _names() -> Iterator[str]:
    """Yield names that no other process uses."""
    prefix = os.urandom(8).hex()
    return (f"{prefix}-{number}" for number in count())


def sweep(folder: str) -> None:
    """Remove the spares of processes that are gone."""
    try:
        handle = os.open(folder, _FOLDER)
    except OSError:
        return
    try:
        for name in os.listdir(handle):
            with suppress(OSError):
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=handle)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(handle, name)
                finally:
                    os.close(fd)
    finally:
        os.close(handle)


def _remove(folder: int, name: str) -> None:
    """Remove a file or an empty folder."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.rmdir(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _load_rename() -> Callable[[int, bytes, int, bytes], int] | None:
    """Return a function that renames without replacing anything, and returns 0 on success; None without one."""
    import ctypes

    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return None
    rename.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return lambda folder, name, other, new: rename(folder, name, other, new, _RENAME_NOREPLACE)
