"""Mount points for missing protected names, so that the names can be covered and cannot be created.

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
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.handles import SWAPPED, Parents, renamed

_ATTEMPTS = 400
_PAUSE_SECONDS = 0.005
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# contents with which git ignores these files, inside and outside a sandbox
_CONTENTS = {"commondir": b".\n", "config.worktree": b""}
_LOG_BYTES = 1 << 18  # a record that grows larger is rewritten
_UNKNOWN = 0  # no inode has this number


def is_file(path: str) -> bool:
    """Whether the mount point for a missing path is a file, not a folder."""
    return path.rpartition("/")[2] in _CONTENTS


def is_ours(path: str) -> bool:
    """Whether the file at a path may be a mount point of a command."""
    try:
        fd = os.open(path, _OPEN)
    except OSError:
        return False
    try:
        return is_file(path) and _has_original_content(fd, path)
    finally:
        os.close(fd)


class RecordedPoint(NamedTuple):
    """A recorded mount point: its path, and its inode once created."""

    path: str
    inode: int


class MountPoints:
    """The mount points that the commands of this process use."""

    def __init__(self, records: str) -> None:
        self._records = records
        self._lock = threading.Lock()
        self._held: dict[str, _HeldPoint] = {}
        self._log = _Log(records)
        self._is_recovered = False

    @contextmanager
    def hold(self, paths: Iterable[str]) -> Iterator[dict[str, tuple[int, int]]]:
        """Ensure a mount point at each path; afterwards remove it if it is ours, unchanged and unused.

        Yields the device and inode of each.
        """
        self.recover()
        unique_paths = tuple(dict.fromkeys(paths))
        self._take(unique_paths)
        try:
            yield {path: self._held[path].identity for path in unique_paths}
        finally:
            self._release(unique_paths)

    def recover(self) -> None:
        """Remove leftovers of a crash, here and in other workspaces; once per process."""
        with self._lock:
            if self._is_recovered:
                return
            self._is_recovered = True
            os.makedirs(self._records, 0o700, exist_ok=True)
            for record in self._find_records():
                with suppress(OSError):
                    _clear(record)

    def close(self) -> None:
        """Remove the record if it is empty; the next use creates another."""
        with self._lock:
            self._log.close()

    def _take(self, paths: tuple[str, ...]) -> None:
        with self._lock:
            new_paths = [path for path in paths if path not in self._held]
            try:
                if new_paths:
                    with Parents() as parents:
                        self._ensure(new_paths, parents)
            except BaseException:
                self._release_unused([path for path in new_paths if path in self._held])
                raise
            for path in paths:
                self._held[path].users += 1

    def _release(self, paths: tuple[str, ...]) -> None:
        with self._lock:
            for path in paths:
                self._held[path].users -= 1
            self._release_unused([path for path in paths if not self._held[path].users])

    def _ensure(self, paths: list[str], parents: Parents) -> None:
        """Create the missing folders, and hold a shared lock on each."""
        missing = paths
        for _ in range(_ATTEMPTS):
            absent = [path for path in missing if not os.path.lexists(path)]
            if absent:
                self._make(absent, parents)
            missing = [path for path in missing if path not in self._held and not self._lock_existing(path, parents)]
            if not missing:
                return
            # removed by another process, its last user, or about to be; or the workspace is gone
            sleep(_PAUSE_SECONDS)
        raise _unprotected(missing[0], "it cannot be created, or another process keeps it locked")

    def _make(self, paths: list[str], parents: Parents) -> None:
        """Record, create and lock folders; one that another process creates first is not ours."""
        self._log.add([RecordedPoint(path, _UNKNOWN) for path in paths])
        created: list[str] = []
        identified: list[RecordedPoint] = []
        try:
            for path in paths:
                with suppress(FileExistsError, FileNotFoundError):
                    _make(path, parents)
                    created.append(path)
                    # if locking fails, another process is removing it and may crash: it stays recorded
                    if self._lock_existing(path, parents, is_mine=True):
                        identified.append(RecordedPoint(path, os.fstat(self._held[path].fd).st_ino))
        finally:
            self._log.add(identified)
            self._log.drop([path for path in paths if path not in created], self._held)

    def _lock_existing(self, path: str, parents: Parents, *, is_mine: bool = False) -> bool:
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
                self._held[path] = _HeldPoint(fd, os.fstat(fd), is_mine=is_mine)
                return True
        os.close(fd)
        return False

    def _release_unused(self, paths: list[str]) -> None:
        removed: list[str] = []
        fds: list[int] = []
        try:
            with Parents() as parents:
                for path in paths:
                    point = self._held.pop(path)
                    fds.append(point.fd)
                    if not point.is_mine:
                        self._remove_leftover(point.fd, path, parents)
                    elif _remove(point.fd, path, parents):
                        removed.append(path)
        finally:
            _close_all(fds)
        self._log.drop(removed, self._held)

    def _remove_leftover(self, fd: int, path: str, parents: Parents) -> None:
        """Remove a folder that another process created and left to its last user to remove."""
        leftover = RecordedPoint(path, os.fstat(fd).st_ino)
        for record in self._find_records():
            # another process may remove the record
            with suppress(OSError):
                if leftover in _read(record) and _remove(fd, path, parents):
                    _clear(record)

    def _find_records(self) -> list[str]:
        try:
            return [os.path.join(self._records, name) for name in os.listdir(self._records)]
        except FileNotFoundError:
            return []


class _Log:
    """The record of one process: an append-only log of folders to create, created and removed.

    The file is locked while the process lives, so that others see that it is in use. One entry is written before a
    folder is created, and another with its inode afterwards, so that a folder that replaced it is not taken for ours.
    Nothing is synced: a crash of the machine leaves only empty folders.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = ""
        self._fd = -1
        self._process = 0
        self._entries: dict[str, int] = {}

    def add(self, points: Iterable[RecordedPoint]) -> None:
        """Record folders before they are created, or with their inodes afterwards."""
        recorded = list(points)
        if not recorded:
            return
        try:
            self._ensure_file()
            _append(self._fd, (_entry("+", *entry) for entry in recorded))
        except OSError as error:
            raise _unprotected(recorded[0].path, f"{self._folder}: {error.strerror}") from error
        self._entries.update(recorded)

    def drop(self, paths: Iterable[str], in_use: Container[str]) -> None:
        """Record that folders are gone; also drop entries that others have removed for us."""
        dropped = [path for path in paths if self._entries.pop(path, None) is not None]
        if not dropped:
            return
        self._entries = {
            path: inode
            for path, inode in self._entries.items()
            if path in in_use or _may_exist(RecordedPoint(path, inode))
        }
        # if writing fails, the record lists folders that are gone, which the next use tolerates
        with suppress(OSError):
            if not self._entries:
                os.ftruncate(self._fd, 0)
            elif os.fstat(self._fd).st_size > _LOG_BYTES:
                self._create_file()
            else:
                _append(self._fd, (_entry("-", path, _UNKNOWN) for path in dropped))

    def close(self) -> None:
        """Close the file, and remove it if it has no entries."""
        if self._fd >= 0 and self._process == os.getpid():
            if not self._entries:
                _forget(self._path)
            os.close(self._fd)
        self._fd = -1

    def _ensure_file(self) -> None:
        """Create a file unless this process has one that still exists."""
        if self._fd < 0 or not os.fstat(self._fd).st_nlink:
            self._create_file()
        elif self._process != os.getpid():
            # in the child of a fork: the file belongs to the parent
            self._entries = {}
            self._create_file()

    def _create_file(self) -> None:
        """Create a file with the current entries, then close the old one."""
        path, fd = self._open()
        try:
            _append(fd, (_entry("+", *entry) for entry in self._entries.items()))
        except OSError:
            _forget(path)
            os.close(fd)
            raise
        if self._fd >= 0:
            if self._process == os.getpid():
                _forget(self._path)
            os.close(self._fd)
        self._path, self._fd, self._process = path, fd, os.getpid()

    def _open(self) -> tuple[str, int]:
        while True:
            path = os.path.join(self._folder, os.urandom(8).hex())
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                # the state directory was cleared
                os.makedirs(self._folder, 0o700, exist_ok=True)
                continue
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:
                return path, fd
            os.close(fd)  # another process removed it before it was locked


class _HeldPoint:
    """The lock on one folder, how many commands of this process use it, and whether this process created it."""

    def __init__(self, fd: int, status: os.stat_result, *, is_mine: bool) -> None:
        self.fd = fd
        self.is_mine = is_mine
        self.users = 0
        self.identity = status.st_dev, status.st_ino


def _append(fd: int, entries: Iterable[bytes]) -> None:
    data = b"".join(entries)
    written = os.write(fd, data)
    if written != len(data):
        os.ftruncate(fd, os.fstat(fd).st_size - written)  # a partial entry would corrupt the next one
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _entry(sign: str, path: str, inode: int) -> bytes:
    return os.fsencode(f"{sign}{inode}{path}\0")


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
    fd = os.open(record, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if all(settled):
                _forget(record)
    finally:
        os.close(fd)


def _clear_one(point: RecordedPoint, parents: Parents) -> bool:
    try:
        fd = _open(point.path, parents)
    except OSError:
        return True  # never created, gone, or no longer a folder
    try:
        is_same = point.inode in (_UNKNOWN, os.fstat(fd).st_ino)
        return not is_same or _remove(fd, point.path, parents)
    finally:
        os.close(fd)


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


def _may_exist(point: RecordedPoint) -> bool:
    try:
        return point.inode in (_UNKNOWN, os.lstat(point.path).st_ino)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # inaccessible


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
