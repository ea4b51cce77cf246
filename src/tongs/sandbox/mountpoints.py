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
from contextlib import ExitStack, contextmanager, suppress
from time import sleep

from tongs.digests import sha256
from tongs.errors import ToolError

_ATTEMPTS = 400
_PAUSE_SECONDS = 0.005
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class MountPoints:
    """The empty folders that the commands of this process cover.

    A record is a link to the folder's path. It is named by the path, and from when the folder was made also by its
    inode, so that what someone else puts in its place is not taken for ours.
    """

    def __init__(self, records: str) -> None:
        self._records = records
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._is_recovered = False

    @contextmanager
    def hold(self, paths: Iterable[str]) -> Iterator[None]:
        """Have a folder at each path; remove it afterwards if we made it, it is empty, and nobody else needs it."""
        self._recover()
        with ExitStack() as stack:
            for path in paths:
                self._take(path)
                stack.callback(self._release, path)
            yield

    def _recover(self) -> None:
        """Remove what a crash has left, here and in other workspaces; once in the life of a process."""
        with self._lock:
            if self._is_recovered:
                return
            self._is_recovered = True
            os.makedirs(self._records, 0o700, exist_ok=True)
            for name in os.listdir(self._records):
                with suppress(OSError):
                    _clear(os.path.join(self._records, name))

    def _take(self, path: str) -> None:
        with self._lock:
            held = self._held.get(path)
            if held is None:
                record = os.path.join(self._records, name_of(path))
                held = self._held[path] = _Held(record, _make(path, record))
            held.users += 1

    def _release(self, path: str) -> None:
        with self._lock:
            held = self._held[path]
            held.users -= 1
            if not held.users:
                del self._held[path]
                try:
                    _remove(held.fd, path, f"{held.record}.{os.fstat(held.fd).st_ino}")
                finally:
                    os.close(held.fd)


class _Held:
    """The lock on one folder, and how many commands of this process share it."""

    def __init__(self, record: str, fd: int) -> None:
        self.record = record
        self.fd = fd
        self.users = 0


def name_of(path: str) -> str:
    """Return a short name for a path, always the same."""
    return sha256(os.fsencode(path)).hex()[:32]


def _make(path: str, record: str) -> int:
    """Make the folder unless it is there, and return a descriptor with a shared lock on it."""
    for _ in range(_ATTEMPTS):
        try:
            if not os.path.lexists(path):
                _make_recorded(path, record)
            fd = os.open(path, _OPEN)
        except FileNotFoundError:
            # removed by another process, which found itself to be the last; or the workspace is gone
            sleep(_PAUSE_SECONDS)
            continue
        except OSError as error:
            raise _unprotected(path, error.strerror or str(error)) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_PAUSE_SECONDS)  # it is being removed
        else:
            if _is_at(fd, path):
                return fd
        os.close(fd)
    raise _unprotected(path, "it cannot be made, or another process keeps it locked")


def _make_recorded(path: str, record: str) -> None:
    # a link is made by one step, which a journal keeps in order: no file has to be synced
    with suppress(FileExistsError):
        os.symlink(path, record)
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        return  # another process was quicker, and has the record
    except OSError:
        os.unlink(record)
        raise
    own = f"{record}.{os.lstat(path).st_ino}"
    try:
        os.rename(record, own)
    except FileNotFoundError:
        # another process has cleared the record, because there was no folder yet
        with suppress(FileExistsError):
            os.symlink(path, own)


def _clear(record: str) -> None:
    """Remove the folder of a record that a crash has left."""
    path = os.readlink(record)
    try:
        fd = os.open(path, _OPEN)
    except OSError:
        os.unlink(record)  # never made, gone, or no folder any more
        return
    try:
        inode = record.rpartition(".")[2] if "." in os.path.basename(record) else ""
        if inode in ("", str(os.fstat(fd).st_ino)):
            _remove(fd, path, record)
        else:
            os.unlink(record)
    finally:
        os.close(fd)


def _remove(fd: int, path: str, record: str) -> None:
    """Remove an open folder when it is recorded and empty and nobody covers it; then forget it."""
    if not os.path.lexists(record):
        return  # the folder was there before us
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # the last of its users removes it, else the next use
    try:
        if _is_at(fd, path):
            os.rmdir(path)
    except PermissionError:
        return  # the program has closed the folder around it: left to the next use
    except OSError:
        pass  # what is not empty has become the user's
    with suppress(FileNotFoundError):
        os.unlink(record)


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
