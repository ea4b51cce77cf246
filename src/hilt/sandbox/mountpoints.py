"""What stands where a protected name is missing, so that the name can be mounted over and not be made.

A mount needs something to cover. So for each missing name an empty folder is made in the real workspace before a
command starts, and removed when the last command that covers it has ended. Who covers it holds a shared lock on the
folder itself: taking it away would also take the cover off in every sandbox, whoever started that. What is made is
written down first, in a file of the state directory, so that a crash leaves nothing that the next use does not clear.
Folders also for the names of files: rmdir removes nothing that anyone has put something into meanwhile. Only where git
would stumble over a folder is it a file, whole from the first moment, which is removed if it still says what we wrote.

Names are used relative to handles, and no link is followed: a command may rename what is around them meanwhile.
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
from hilt.sandbox.handles import SWAPPED, Parents, renamed

_ATTEMPTS = 400
_PAUSE_SECONDS = 0.005
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# files with which git goes on as if they were missing, outside and inside a sandbox
_CONTENTS = {"commondir": b".\n", "config.worktree": b""}
_LOG_BYTES = 1 << 18  # beyond, a record that never became empty is written anew
_UNKNOWN = 0  # no inode has this number


def is_file(path: str) -> bool:
    """Whether a file, and not a folder, stands at a path while it is missing."""
    return os.path.basename(path) in _CONTENTS


def is_ours(path: str) -> bool:
    """Whether what is at a path may be a file that a command covers."""
    try:
        fd = os.open(path, _OPEN)
    except OSError:
        return False
    try:
        return is_file(path) and _is_as_made(fd, path)
    finally:
        os.close(fd)


class Made(NamedTuple):
    """A folder or file that a record is about: its path, and its inode from when it was made."""

    path: str
    inode: int


class MountPoints:
    """The empty folders, and the files, that the commands of this process cover."""

    def __init__(self, records: str) -> None:
        self._records = records
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._log = _Log(records)
        self._is_recovered = False

    @contextmanager
    def hold(self, paths: Iterable[str]) -> Iterator[dict[str, tuple[int, int]]]:
        """Have something at each path; remove it afterwards if we made it, it is unchanged, and nobody else needs it.

        Yields the device and the inode of each.
        """
        self.recover()
        wanted = tuple(dict.fromkeys(paths))
        self._take(wanted)
        try:
            yield {path: self._held[path].identity for path in wanted}
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

    def close(self) -> None:
        """Take the record away when nothing is left in it; the next use begins another."""
        with self._lock:
            self._log.close()

    def _take(self, paths: tuple[str, ...]) -> None:
        with self._lock:
            fresh = [path for path in paths if path not in self._held]
            try:
                if fresh:
                    with Parents() as parents:
                        self._lay(fresh, parents)
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

    def _lay(self, paths: list[str], parents: Parents) -> None:
        """Make the folders unless they are there, and hold a shared lock on each."""
        missing = paths
        for _ in range(_ATTEMPTS):
            absent = [path for path in missing if not os.path.lexists(path)]
            if absent:
                self._make(absent, parents)
            missing = [path for path in missing if path not in self._held and not self._lock_existing(path, parents)]
            if not missing:
                return
            # removed or being removed by another process, which found itself to be the last; or the workspace is gone
            sleep(_PAUSE_SECONDS)
        raise _unprotected(missing[0], "it cannot be made, or another process keeps it locked")

    def _make(self, paths: list[str], parents: Parents) -> None:
        """Make folders, recorded, and lock them; one that another process makes meanwhile is not ours."""
        self._log.add([Made(path, _UNKNOWN) for path in paths])
        new: list[str] = []
        made: list[Made] = []
        try:
            for path in paths:
                with suppress(FileExistsError, FileNotFoundError):
                    _make(path, parents)
                    new.append(path)
                    # one that cannot be locked is being removed by another process, which may crash: it stays recorded
                    if self._lock_existing(path, parents, is_mine=True):
                        made.append(Made(path, os.fstat(self._held[path].fd).st_ino))
        finally:
            self._log.add(made)
            self._log.drop([path for path in paths if path not in new], self._held)

    def _lock_existing(self, path: str, parents: Parents, *, is_mine: bool = False) -> bool:
        """Hold the folder at a path; False when there is none any more, or it is being removed."""
        try:
            fd = _open(path, parents)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _refusal(path, error) from error
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if _is_at(fd, path, parents):
                self._held[path] = _Held(fd, is_mine)
                return True
        os.close(fd)
        return False

    def _let_go(self, paths: list[str]) -> None:
        gone: list[str] = []
        fds: list[int] = []
        try:
            with Parents() as parents:
                for path in paths:
                    held = self._held.pop(path)
                    fds.append(held.fd)
                    if not held.is_mine:
                        self._remove_left(held.fd, path, parents)
                    elif _remove(held.fd, path, parents):
                        gone.append(path)
        finally:
            _close_soon(fds)
        self._log.drop(gone, self._held)

    def _remove_left(self, fd: int, path: str, parents: Parents) -> None:
        """Remove a folder that was there before us, if another process has made it and left it to us."""
        found = Made(path, os.fstat(fd).st_ino)
        for record in self._find_records():
            # a record may vanish while we look
            with suppress(OSError):
                if found in _read(record) and _remove(fd, path, parents):
                    _clear(record)

    def _find_records(self) -> list[str]:
        try:
            return [os.path.join(self._records, name) for name in os.listdir(self._records)]
        except FileNotFoundError:
            return []


class _Log:
    """The record of one process: what it is about to make, has made and has removed, one entry after the other.

    The file is locked for as long as the process lives, so that others know whose it is; a first entry is there before
    a folder is made, a second from then on has its inode too, so that what someone else puts in its place is not taken
    for ours. Nothing is synced: what a crash of the whole machine leaves is an empty folder.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = ""
        self._fd = -1
        self._process = 0
        self._entries: dict[str, int] = {}

    def add(self, made: Iterable[Made]) -> None:
        """Write down folders before they are made, or with their inodes afterwards."""
        told = list(made)
        if not told:
            return
        try:
            self._have_file()
            _append(self._fd, (_entry("+", *one) for one in told))
        except OSError as error:
            raise _unprotected(told[0].path, f"{self._folder}: {error.strerror}") from error
        self._entries.update(told)

    def drop(self, paths: Iterable[str], held: Container[str]) -> None:
        """Write down that folders are gone; what others have removed for us is forgotten too."""
        dropped = [path for path in paths if self._entries.pop(path, None) is not None]
        if not dropped:
            return
        self._entries = {
            path: inode for path, inode in self._entries.items() if path in held or _is_left(Made(path, inode))
        }
        # a record that cannot be written says too much: of what is gone, which the next use finds out
        with suppress(OSError):
            if not self._entries:
                os.ftruncate(self._fd, 0)
            elif os.fstat(self._fd).st_size > _LOG_BYTES:
                self._begin()
            else:
                _append(self._fd, (_entry("-", path, _UNKNOWN) for path in dropped))

    def close(self) -> None:
        """Remove the file, unless something is left that it is needed for."""
        if self._fd >= 0 and self._process == os.getpid():
            if not self._entries:
                _forget(self._path)
            os.close(self._fd)
        self._fd = -1

    def _have_file(self) -> None:
        """Begin a file unless there is one that is ours, and that nobody has removed."""
        if self._fd < 0 or not os.fstat(self._fd).st_nlink:
            self._begin()
        elif self._process != os.getpid():
            # in the child of a fork: the parent goes on with its own
            self._entries = {}
            self._begin()

    def _begin(self) -> None:
        """Begin a new file with what there is to tell; only then let go of the old one."""
        path, fd = self._open()
        try:
            _append(fd, (_entry("+", *one) for one in self._entries.items()))
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
                # someone has cleared the state directory
                os.makedirs(self._folder, 0o700, exist_ok=True)
                continue
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:
                return path, fd
            os.close(fd)  # taken for one of the dead before it was locked


class _Held:
    """The lock on one folder, how many commands of this process share it, and whether this process made it."""

    def __init__(self, fd: int, is_mine: bool) -> None:
        self.fd = fd
        self.is_mine = is_mine
        self.users = 0
        status = os.fstat(fd)
        self.identity = status.st_dev, status.st_ino


def _append(fd: int, entries: Iterable[bytes]) -> None:
    data = b"".join(entries)
    written = os.write(fd, data)
    if written != len(data):
        os.ftruncate(fd, os.fstat(fd).st_size - written)  # what comes next must not become a part of it
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _entry(sign: str, path: str, inode: int) -> bytes:
    return os.fsencode(f"{sign}{inode}{path}\0")


def _read(record: str) -> list[Made]:
    """Return what a record says is there. An entry without its end was never acted on."""
    fd = os.open(record, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        entries = file.read().split(b"\0")[:-1]
    found: dict[str, int] = {}
    for entry in entries:
        number, slash, rest = os.fsdecode(entry[1:]).partition("/")
        if entry[:1] == b"+" and number.isdecimal():
            found[slash + rest] = int(number)
        else:
            found.pop(slash + rest, None)
    return [Made(*one) for one in found.items()]


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
    """Make a file that never lacks its content: git gives up on an empty `commondir`."""
    try:
        fd = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=folder)
        made = None
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
        made = f"{name}.{os.urandom(4).hex()}"
        fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
    try:
        os.write(fd, _CONTENTS[name])
        if made is None:
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder, follow_symlinks=True)
        else:
            os.link(made, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(fd)
        if made is not None:
            os.unlink(made, dir_fd=folder)


def _open(path: str, parents: Parents) -> int:
    folder, name = parents.of(path)
    return os.open(name, _OPEN if name in _CONTENTS else _OPEN | os.O_DIRECTORY, dir_fd=folder)


def _clear(record: str) -> None:
    """Remove the folders of a record that a crash has left, and the record when its process is gone."""
    with Parents() as parents:
        settled = [_clear_one(made, parents) for made in _read(record)]
    fd = os.open(record, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if all(settled):
                _forget(record)
    finally:
        os.close(fd)


def _clear_one(made: Made, parents: Parents) -> bool:
    try:
        fd = _open(made.path, parents)
    except OSError:
        return True  # never made, gone, or no folder any more
    try:
        is_made = made.inode in (_UNKNOWN, os.fstat(fd).st_ino)
        return not is_made or _remove(fd, made.path, parents)
    finally:
        os.close(fd)


def _remove(fd: int, path: str, parents: Parents) -> bool:
    """Remove what is open when it is as we made it and nobody covers it; False when that is left to others."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False  # the last of its users removes it, else the next use
    try:
        if _is_at(fd, path, parents):
            folder, name = parents.of(path)
            if not is_file(path) or stat.S_ISDIR(os.fstat(fd).st_mode):
                os.rmdir(name, dir_fd=folder)
            elif _is_as_made(fd, path):
                os.unlink(name, dir_fd=folder)
    except PermissionError:
        return False  # the program has closed the folder around it: left to the next use
    except OSError:
        pass  # what is not empty has become the user's
    return True


def _is_as_made(fd: int, path: str) -> bool:
    content = _CONTENTS[os.path.basename(path)]
    return stat.S_ISREG(os.fstat(fd).st_mode) and os.pread(fd, len(content) + 1, 0) == content


def _close_soon(fds: list[int]) -> None:
    """Close descriptors; on a thread where the system frees what was removed only then, and may wait for the disk."""
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


def _is_left(made: Made) -> bool:
    try:
        return made.inode in (_UNKNOWN, os.lstat(made.path).st_ino)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # nobody can look


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
        f"{path} is missing and cannot be kept from being made: {problem}.",
        suggestion="Make the workspace folder writable for its owner, or run the command under the profile read-only.",
        path=path,
    )
