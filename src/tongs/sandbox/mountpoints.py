"""Folders that stand where a protected name is missing, so that the name can be mounted over and not be made.

A mount needs something to cover. So for each missing name an empty folder is made in the real workspace before a
command starts, and removed when the last command that covers it has ended. Who covers it holds a shared lock on the
folder itself: taking it away would also take the cover off in every sandbox, whoever started that. What is made is
written down first, as a link in the state directory, so that a crash leaves nothing that the next use does not clear.
Folders also for the names of files: rmdir removes nothing that anyone has put something into meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import NamedTuple

from tongs.errors import ToolError

_ATTEMPTS = 400
_PAUSE_SECONDS = 0.005
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RECORD_BYTES = 4000  # a link holds no more than a path may
_UNKNOWN = 0  # no inode has this number


class Made(NamedTuple):
    """A folder that a record is about: its path, and its inode from when it was made."""

    path: str
    inode: int


class MountPoints:
    """The empty folders that the commands of this process cover.

    A record is a link that leads nowhere: its text is the paths of folders made together. A first one is there before
    they are made, a second from then on has their inodes too, so that what someone else puts in the place of one is
    not taken for ours.
    """

    def __init__(self, records: str) -> None:
        self._records = records
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._is_recovered = False

    @contextmanager
    def hold(self, paths: Iterable[str]) -> Iterator[None]:
        """Have a folder at each path; remove it afterwards if we made it, it is empty, and nobody else needs it."""
        self.recover()
        wanted = tuple(dict.fromkeys(paths))
        self._take(wanted)
        try:
            yield
        finally:
            self._release(wanted)

    def recover(self) -> None:
        """Remove what a crash has left, here and in other workspaces; once in the life of a process."""
        with self._lock:
            if self._is_recovered:
                return
            self._is_recovered = True
            os.makedirs(self._records, 0o700, exist_ok=True)
            for record in self._find_records():
                with suppress(OSError):
                    _clear(record)

    def _take(self, paths: tuple[str, ...]) -> None:
        with self._lock:
            fresh = [path for path in paths if path not in self._held]
            try:
                if fresh:
                    self._lay(fresh)
            except BaseException:
                self._let_go([path for path in fresh if path in self._held])
                raise
            for path in paths:
                self._held[path].users += 1

    def _release(self, paths: tuple[str, ...]) -> None:
        with self._lock:
            for path in paths:
                self._held[path].users -= 1
            self._let_go([path for path in paths if not self._held[path].users])

    def _lay(self, paths: list[str]) -> None:
        """Make the folders unless they are there, and hold a shared lock on each."""
        missing = paths
        for _ in range(_ATTEMPTS):
            for batch in _batches([path for path in missing if not os.path.lexists(path)]):
                self._make(batch)
            missing = [path for path in missing if path not in self._held and not self._lock_existing(path)]
            if not missing:
                return
            # removed or being removed by another process, which found itself to be the last; or the workspace is gone
            sleep(_PAUSE_SECONDS)
        raise _unprotected(missing[0], "it cannot be made, or another process keeps it locked")

    def _make(self, paths: list[str]) -> None:
        """Make folders, recorded, and lock them; one that another process makes meanwhile is not ours."""
        first = self._record([Made(path, _UNKNOWN) for path in paths])
        record = _Record()
        new: list[str] = []
        made: list[Made] = []
        try:
            for path in paths:
                with suppress(FileExistsError, FileNotFoundError):
                    _make_folder(path)
                    new.append(path)
                    if self._lock_existing(path, record):
                        made.append(Made(path, os.fstat(self._held[path].fd).st_ino))
        finally:
            if made:
                record.path = self._record(made)
            # one that could not be locked is being removed by another process, which may crash
            if len(made) == len(new):
                _forget(first)

    def _lock_existing(self, path: str, record: _Record | None = None) -> bool:
        """Hold the folder at a path; False when there is none any more, or it is being removed."""
        try:
            fd = os.open(path, _OPEN)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unprotected(path, error.strerror or str(error)) from error
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if _is_at(fd, path):
                self._held[path] = _Held(fd, record)
                if record:
                    record.left += 1
                return True
        os.close(fd)
        return False

    def _let_go(self, paths: list[str]) -> None:
        for path in paths:
            held = self._held.pop(path)
            try:
                if held.record:
                    held.record.left -= _remove(held.fd, path)
                    if not held.record.left:
                        _forget(held.record.path)
                else:
                    self._remove_left(held.fd, path)
            finally:
                os.close(held.fd)

    def _remove_left(self, fd: int, path: str) -> None:
        """Remove a folder that was there before us, if another process has made it and left it to us."""
        found = Made(path, os.fstat(fd).st_ino)
        for record in self._find_records():
            # a record may vanish while we look
            with suppress(OSError):
                entries = _read(record)
                if found in entries and _remove(fd, path) and not any(_is_left(made) for made in entries):
                    _forget(record)

    def _record(self, made: list[Made]) -> str:
        # a link is made by one step, which a journal keeps in order: no file has to be synced
        path = os.path.join(self._records, os.urandom(8).hex())
        try:
            try:
                os.symlink(_write(made), path)
            except FileNotFoundError:
                # someone has cleared the state directory
                os.makedirs(self._records, 0o700, exist_ok=True)
                os.symlink(_write(made), path)
        except OSError as error:
            raise _unprotected(made[0].path, f"{self._records}: {error.strerror}") from error
        return path

    def _find_records(self) -> list[str]:
        try:
            return [os.path.join(self._records, name) for name in os.listdir(self._records)]
        except FileNotFoundError:
            return []


class _Record:
    """A record of ours, and how many of its folders are not yet seen to."""

    def __init__(self) -> None:
        self.path = ""
        self.left = 0


class _Held:
    """The lock on one folder, how many commands of this process share it, and its record if this process made it."""

    def __init__(self, fd: int, record: _Record | None) -> None:
        self.fd = fd
        self.record = record
        self.users = 0


def _write(made: list[Made]) -> str:
    """Return folders as the text of a record: no path holds two slashes in a row."""
    return "//".join(f"{inode or ''}{path}" for path, inode in made)


def _read(record: str) -> list[Made]:
    entries = []
    for entry in os.readlink(record).split("//"):
        inode, slash, rest = entry.partition("/")
        entries.append(Made(slash + rest, int(inode or _UNKNOWN)))
    return entries


def _batches(paths: list[str]) -> Iterator[list[str]]:
    """Yield the paths in groups of which each fits into a record."""
    batch: list[str] = []
    size = 0
    for path in paths:
        needed = len(os.fsencode(path)) + 24
        if batch and size + needed > _RECORD_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += needed
    if batch:
        yield batch


def _make_folder(path: str) -> None:
    try:
        os.mkdir(path, 0o755)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        raise _unprotected(path, error.strerror or str(error)) from error


def _clear(record: str) -> None:
    """Remove the folders of a record that a crash has left."""
    settled = [_clear_one(made) for made in _read(record)]
    if all(settled):
        _forget(record)


def _clear_one(made: Made) -> bool:
    try:
        fd = os.open(made.path, _OPEN)
    except OSError:
        return True  # never made, gone, or no folder any more
    try:
        is_ours = made.inode in (_UNKNOWN, os.fstat(fd).st_ino)
        return not is_ours or _remove(fd, made.path)
    finally:
        os.close(fd)


def _remove(fd: int, path: str) -> bool:
    """Remove an open folder when it is empty and nobody covers it; False when that is left to others."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False  # the last of its users removes it, else the next use
    try:
        if _is_at(fd, path):
            os.rmdir(path)
    except PermissionError:
        return False  # the program has closed the folder around it: left to the next use
    except OSError:
        pass  # what is not empty has become the user's
    return True


def _forget(record: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(record)


def _is_left(made: Made) -> bool:
    try:
        return os.lstat(made.path).st_ino == made.inode
    except OSError:
        return False


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _unprotected(path: str, problem: str) -> ToolError:
    return ToolError(
        "sandbox_unavailable",
        f"{path} is missing and cannot be kept from being made: {problem}.",
        suggestion="Make the workspace folder writable for its owner, or run the command under the profile read-only.",
        path=path,
    )
