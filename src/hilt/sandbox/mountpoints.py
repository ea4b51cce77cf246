"""Mount points for missing protected names, so that the names can be covered and cannot be created (ADR 0016).

A mount needs something to cover. So for each missing name an empty folder is created in the real workspace before a
command starts, and removed when the last command that covers it has ended. Each user holds a shared lock on the folder:
removing it would remove the mount in every sandbox, of other processes too. Every folder is first recorded in a file in
the state directory, so that the next use can clean up after a crash. Names of files get folders too: rmdir fails if
someone has put something inside. Only where a folder would break git is it a file, created with its content and removed
if it still has that content.

Names are resolved relative to handles, without following links: a running command may rename the folders around them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.handles import SWAPPED, Closing, Parents, renamed

_ATTEMPTS = 400
_PAUSE_SECONDS = 0.005
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# contents with which git ignores these files, inside and outside a sandbox
_CONTENTS = {"commondir": b".\n", "config.worktree": b""}
_UNKNOWN = 0  # no inode has this number


def is_file(path: str) -> bool:
    """Whether the mount point for a missing path is a file, not a folder."""
    return path.rpartition("/")[2] in _CONTENTS


def is_ours(path: str) -> bool:
    """Whether the file at a path may be a mount point of a command."""
    with suppress(OSError), Closing(os.open(path, _OPEN)) as fd:
        return is_file(path) and _has_original_content(fd, path)
    return False


class RecordedPoint(NamedTuple):
    """A recorded mount point: its path, and its inode once created."""

    path: str
    inode: int


class MountPoints:
    """The mount points that commands use. Safe to use from many threads."""

    def __init__(self, records: str) -> None:
        self._records = records
        self._lock = threading.Lock()
        self._is_recovered = False

    @contextmanager
    def hold(self, paths: Iterable[str]) -> Iterator[dict[str, tuple[int, int]]]:
        """Ensure a mount point at each path; afterwards remove it if it is ours, unchanged and unused.

        Yields the device and inode of each.
        """
        self.recover()
        points = _HeldPoints(self._records)
        try:
            with self._lock:
                points.take(tuple(dict.fromkeys(paths)))
            yield points.identities()
        finally:
            with self._lock:
                points.release()

    def recover(self) -> None:
        """Remove leftovers of a crash, here and in other workspaces; once per process."""
        with self._lock:
            if self._is_recovered:
                return
            self._is_recovered = True
            os.makedirs(self._records, 0o700, exist_ok=True)
            for record in _find_records(self._records):
                with suppress(OSError):
                    _clear(record)


class _HeldPoints:
    """The mount points of one command: a shared lock on each, and the record of those that were created for it.

    The record is locked while it is used, so that others leave it alone. One entry is written before a folder is
    created, and another with its inode afterwards, so that a folder that replaced it is not taken for ours. Nothing is
    synced: a crash of the machine leaves only empty folders.
    """

    def __init__(self, records: str) -> None:
        self._records = records
        self._fds: dict[str, int] = {}
        self._created: set[str] = set()
        self._record = ""
        self._record_fd = -1

    def identities(self) -> dict[str, tuple[int, int]]:
        """Return the device and inode of each."""
        statuses = ((path, os.fstat(fd)) for path, fd in self._fds.items())
        return {path: (status.st_dev, status.st_ino) for path, status in statuses}

    def take(self, paths: Iterable[str]) -> None:
        """Create the missing folders, and hold a shared lock on each."""
        missing = list(paths)
        with Parents() as parents:
            for _ in range(_ATTEMPTS):
                absent = [path for path in missing if not os.path.lexists(path)]
                if absent:
                    self._make(absent, parents)
                missing = [path for path in missing if path not in self._fds and not self._lock(path, parents)]
                if not missing:
                    return
                # removed by another process, its last user, or about to be; or the workspace is gone
                sleep(_PAUSE_SECONDS)
        raise _unprotected(missing[0], "it cannot be created, or another process keeps it locked")

    def release(self) -> None:
        """Remove what was created, unless others use it: the last of them removes it."""
        try:
            with Parents() as parents:
                removed = {path for path in self._created if _remove(self._fds[path], path, parents)}
                self._remove_leftovers(parents)
            if removed != self._created:
                with suppress(ToolError):
                    self._write(_entry("-", path, _UNKNOWN) for path in removed)
            elif self._record:
                _forget(self._record)
        finally:
            _close_all(list(self._fds.values()))
            self._close_record()

    def _make(self, paths: list[str], parents: Parents) -> None:
        """Record, create and lock folders; one that another process creates first is not ours."""
        self._write([_entry("+", path, _UNKNOWN) for path in paths])
        entries = {path: _entry("-", path, _UNKNOWN) for path in paths}
        try:
            for path in paths:
                with suppress(FileExistsError, FileNotFoundError):
                    _make(path, parents)
                    # if locking fails, another process is removing it and may crash: it stays recorded
                    del entries[path]
                    if self._lock(path, parents):
                        self._created.add(path)
                        entries[path] = _entry("+", path, os.fstat(self._fds[path]).st_ino)
        finally:
            self._write(entries.values())

    def _lock(self, path: str, parents: Parents) -> bool:
        """Lock the folder at a path; False when it is gone or being removed."""
        try:
            fd = _open(path, parents)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _refusal(path, error) from error
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if _is_at(fd, path, parents):
                self._fds[path] = fd
                return True
        os.close(fd)
        return False

    def _remove_leftovers(self, parents: Parents) -> None:
        """Remove folders that other commands created and left to their last user to remove."""
        others = {
            RecordedPoint(path, os.fstat(fd).st_ino): fd for path, fd in self._fds.items() if path not in self._created
        }
        for record in _find_records(self._records) if others else ():
            # another process may remove the record
            with suppress(OSError):
                leftovers = others.keys() & set(_read(record))
                removed = [point for point in leftovers if _remove(others[point], point.path, parents)]
                if removed:
                    _clear(record)

    def _write(self, entries: Iterable[bytes]) -> None:
        """Add entries to the record."""
        try:
            if self._record_fd < 0:
                self._open_record()
            # an incomplete last entry is ignored, as its folder is not created
            data = b"".join(entries)
            if os.write(self._record_fd, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise _unprotected(self._records, error.strerror or str(error)) from error

    def _open_record(self) -> None:
        while self._record_fd < 0:
            os.makedirs(self._records, 0o700, exist_ok=True)
            self._record = os.path.join(self._records, os.urandom(8).hex())
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._record_fd = os.open(self._record, flags, 0o600)
            fcntl.flock(self._record_fd, fcntl.LOCK_EX)
            if not os.fstat(self._record_fd).st_nlink:
                self._close_record()  # another process removed it before it was locked

    def _close_record(self) -> None:
        if self._record_fd >= 0:
            os.close(self._record_fd)
        self._record_fd = -1


def _entry(sign: str, path: str, inode: int) -> bytes:
    return os.fsencode(f"{sign}{inode}{path}\0")


def _find_records(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    except FileNotFoundError:
        return []


def _read(record: str) -> list[RecordedPoint]:
    """Return the folders in a record. An incomplete last entry was never acted on."""
    fd = os.open(record, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        entries = file.read().split(b"\0")[:-1]
    inodes: dict[str, int] = {}
    for entry in entries:
        number, slash, tail = os.fsdecode(entry[1:]).partition("/")
        if entry[:1] == b"+" and number.isdecimal():
            inodes[slash + tail] = int(number)
        else:
            inodes.pop(slash + tail, None)
    return [RecordedPoint(*entry) for entry in inodes.items()]


def _make(path: str, parents: Parents) -> None:
    try:
        folder, name = parents.of(path)
        if name in _CONTENTS:
            _make_file(folder, name)
        else:
            os.mkdir(name, 0o755, dir_fd=folder)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        raise _refusal(path, error) from error


def _make_file(folder: int, name: str) -> None:
    """Create a file together with its content: git fails on an empty `commondir`."""
    try:
        fd = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=folder)
        draft = None
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
        draft = f"{name}.{os.urandom(4).hex()}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
    try:
        os.write(fd, _CONTENTS[name])
        if draft is None:
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder, follow_symlinks=True)
        else:
            os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(fd)
        if draft is not None:
            os.unlink(draft, dir_fd=folder)


def _open(path: str, parents: Parents) -> int:
    folder, name = parents.of(path)
    return os.open(name, _OPEN if name in _CONTENTS else _OPEN | os.O_DIRECTORY, dir_fd=folder)


def _clear(record: str) -> None:
    """Remove the folders of a record that a crash left, and the record if its process is gone."""
    with Parents() as parents:
        settled = [_clear_one(point, parents) for point in _read(record)]
    with Closing(os.open(record, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as fd, suppress(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if all(settled):
            _forget(record)


def _clear_one(point: RecordedPoint, parents: Parents) -> bool:
    with suppress(OSError), Closing(_open(point.path, parents)) as fd:
        is_same = point.inode in (_UNKNOWN, os.fstat(fd).st_ino)
        return not is_same or _remove(fd, point.path, parents)
    return True  # never created, gone, or no longer a folder


def _remove(fd: int, path: str, parents: Parents) -> bool:
    """Remove an unchanged and unused mount point; False when that is left to others."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False  # its last user removes it, or the next use
    try:
        if _is_at(fd, path, parents):
            folder, name = parents.of(path)
            if not is_file(path) or stat.S_ISDIR(os.fstat(fd).st_mode):
                os.rmdir(name, dir_fd=folder)
            elif _has_original_content(fd, path):
                os.unlink(name, dir_fd=folder)
    except PermissionError:
        return False  # the program made the parent folder inaccessible: left to the next use
    except OSError:
        pass  # not empty, so it belongs to the user now
    return True


def _has_original_content(fd: int, path: str) -> bool:
    content = _CONTENTS[os.path.basename(path)]
    return stat.S_ISREG(os.fstat(fd).st_mode) and os.pread(fd, len(content) + 1, 0) == content


def _close_all(fds: list[int]) -> None:
    """Close descriptors; those of removed files on a thread: freeing them waits for the disk, 20 ms."""
    removed = [fd for fd in fds if not os.fstat(fd).st_nlink]
    _close([fd for fd in fds if fd not in removed])
    if removed:
        try:
            threading.Thread(target=_close, args=(removed,), name="hilt-mountpoints", daemon=True).start()
        except RuntimeError:
            _close(removed)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _forget(record: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(record)


def _is_at(fd: int, path: str, parents: Parents) -> bool:
    try:
        folder, name = parents.of(path)
        return os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=folder, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _refusal(path: str, error: OSError) -> ToolError:
    return renamed() if error.errno in SWAPPED else _unprotected(path, error.strerror or str(error))


def _unprotected(path: str, problem: str) -> ToolError:
    return ToolError(
        "sandbox_unavailable",
        f"{path} is missing, and the sandbox cannot prevent commands from creating it: {problem}.",
        suggestion="Make the workspace folder writable for its owner, or set shell.sandbox to read-only.",
        path=path,
    )
