"""The private folders of sessions: who uses them, how much they hold, and their end.

Commands write to them as to /tmp, and the disk would be their only bound. So they are measured while commands run: in
slices, so that nobody waits for a large tree, and more often the closer they are to their limit.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from time import monotonic, thread_time

from hilt.errors import ToolError
from hilt.sandbox.process import Excess

_SLICE_SECONDS = 0.003
_SLICE_ENTRIES = 128  # between two looks at the clock
_SOONEST_SECONDS, _LATEST_SECONDS = 0.02, 2.0
_BYTES_PER_SECOND = 1 << 30  # that a program can write
_COST_RATIO = 20  # measuring takes at most one part in so many of the time
_SLACK_BYTES = 1 << 20
_FAR_BYTES = 256 << 20  # at least so much beyond the limit, no command starts


class Room:
    """The private folder of a session while commands run in it.

    Nobody knows who wrote what, so the newest command is ended first, and another one only if the folder goes on
    growing. When it is over the limit before a command starts, that command may run, to delete something, but not make
    it larger; far beyond the limit none may.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.due = 0.0
        self._lock = threading.Lock()
        self._stays: list[Stay] = []
        self._limit = 0
        self._allowed = 0
        self._is_known = False  # whether a tour has come to its end
        self._begin_tour()

    def enter(self, stay: Stay) -> None:
        """Note that a command is about to start."""
        with self._lock:
            self._limit = stay.limit
            if not self._is_known:
                self._measure_anew()
            now = monotonic()
            if now >= self.due and self._measure(now):
                raise ToolError(
                    "resource_limit",
                    f"The command was not run: {_folders(self._counted)} or more, far beyond the limit of "
                    f"{megabytes(stay.limit)} (shell.tmp_mb).",
                    suggestion=f"Ask the user to delete what is in {self.path}, or to end the session.",
                    path=self.path,
                )
            self._stays.append(stay)

    def leave(self, stay: Stay) -> bool:
        """Note that a command has ended; tell whether it was the last one."""
        with self._lock:
            if stay in self._stays:
                self._stays.remove(stay)
            if stay.exceeded:
                self._measure_anew()  # what it wrote until its end is not for the others to answer for
            return not self._stays

    def look(self, stay: Stay) -> Excess | None:
        """Measure a little, and return what is too much when this command has to answer for it."""
        with self._lock:
            now = monotonic()
            # one that was told to end may take a moment, and the others are not to blame for it
            if now >= self.due and not any(other.exceeded for other in self._stays) and self._measure(now):
                self._stays[-1].exceeded = Excess("room", self._counted, self._limit)
            return stay.exceeded

    def _measure_anew(self) -> None:
        """Find out what is there; until that is known, only what is far beyond the limit is too much."""
        self._is_known = False
        self._allowed = self._limit + max(self._limit, _FAR_BYTES)
        self.due = 0.0
        self._begin_tour()

    def _begin_tour(self) -> None:
        self._tour = _sizes(self.path)
        self._counted = 0
        self._cost = 0.0

    def _measure(self, now: float) -> bool:
        """Go on with the tour for a while; tell whether it has found more than is allowed."""
        is_whole = True
        began = thread_time()  # waiting for a processor is no cost
        for number, size in zip(count(1), self._tour, strict=False):
            self._counted += size
            if self._counted > self._allowed:
                self.due = now + _SOONEST_SECONDS
                return True
            if number % _SLICE_ENTRIES == 0 and thread_time() > began + _SLICE_SECONDS:
                is_whole = False
                break
        spent = thread_time() - began
        self._cost += spent
        if not is_whole:
            self.due = now + spent * _COST_RATIO
            return False
        most = self._counted + _SLACK_BYTES
        self._allowed = max(self._limit, min(self._allowed, most) if self._is_known else most)
        self._is_known = True
        # nobody can have filled the rest before
        earliest = min((self._allowed - self._counted) / _BYTES_PER_SECOND, _LATEST_SECONDS)
        self.due = now + max(earliest, self._cost * _COST_RATIO, _SOONEST_SECONDS)
        self._begin_tour()
        return False


class Stay:
    """One command in a room: what `process.run` and jobs watch."""

    def __init__(self, room: Room, limit: int) -> None:
        self.limit = limit
        self.exceeded: Excess | None = None
        self._room = room

    def due(self) -> float:
        """When to look next."""
        return self._room.due

    def look(self) -> Excess | None:
        """Return what is too much when this command has to answer for it."""
        return self._room.look(self)


class Rooms:
    """The rooms that are in use. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rooms: dict[str, Room] = {}

    @contextmanager
    def stay(self, path: str, limit: int) -> Iterator[Stay]:
        """Watch the folder of a session while a command runs, for more than so many bytes."""
        with self._lock:
            room = self._rooms.setdefault(path, Room(path))
            stay = Stay(room, limit)
            try:
                room.enter(stay)
            except ToolError:
                self._leave(room, stay)
                raise
        try:
            yield stay
        finally:
            with self._lock:
                self._leave(room, stay)

    def _leave(self, room: Room, stay: Stay) -> None:
        if room.leave(stay):
            self._rooms.pop(room.path, None)


def describe(exceeded: Excess) -> str:
    """Say what a command had too much of."""
    limit = megabytes(exceeded.limit)
    if exceeded.resource == "room":
        return f"{_folders(exceeded.used)}; the limit is {limit} (shell.tmp_mb)"
    used = megabytes(exceeded.used)
    return f"its processes used {used} of memory together; the limit is {limit} (shell.memory_mb)"


def advise(exceeded: Excess) -> str:
    """Say what to do about it."""
    if exceeded.resource == "room":
        return "Delete what is no longer needed in /tmp, /var/tmp and ~/.cache of the session, or write elsewhere."
    return "Let the command do less at once, or with fewer processes."


def megabytes(size: int) -> str:
    """Return a size as people read it; rounded up, so that what is over a limit does not look equal to it."""
    return f"{-(-size >> 20)} MB"


def _folders(size: int) -> str:
    return f"the session's private /tmp, /var/tmp and ~/.cache hold {megabytes(size)}"


def _sizes(path: str) -> Iterator[int]:
    """Yield what each file and folder below a path takes on the disk; links are not followed."""
    folders = [path]
    linked: set[int] = set()
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    with suppress(OSError):  # gone meanwhile
                        status = entry.stat(follow_symlinks=False)
                        if stat.S_ISDIR(status.st_mode):
                            folders.append(entry.path)
                        elif status.st_nlink > 1:
                            if status.st_ino in linked:
                                continue
                            linked.add(status.st_ino)
                        yield status.st_blocks * 512
        except OSError:
            continue


# --- their beginning and their end --------------------------------------------------------------------------------


def private_folder(state: str, workspace: str, session: str) -> str:
    """Return the private folder of a session."""
    return os.path.join(state, "sandbox", workspace, session)


@contextmanager
def held(path: str) -> Iterator[None]:
    """Make the folder of a session, and keep others from removing it."""
    import fcntl

    while True:
        os.makedirs(path, 0o700, exist_ok=True)
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # removed meanwhile
        fcntl.flock(folder, fcntl.LOCK_SH)
        if _is_at(folder, path):
            break
        os.close(folder)
    try:
        os.utime(folder)  # when it was last used
        yield
    finally:
        os.close(folder)


def remove(path: str, *, unused_since: float | None = None) -> bool:
    """Remove the folder of a session unless a command runs there, or it was used since then."""
    import fcntl

    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if unused_since is not None and os.fstat(folder).st_mtime >= unused_since:
            return False
        _empty(folder)
        os.rmdir(path)
    except OSError:
        return False  # in use, or not all of it could be removed: another time
    finally:
        os.close(folder)
    return True


def remove_unused(rooms: str, unused_since: float) -> None:
    """Remove the folders of all sessions, in all workspaces, that were last used before then."""
    with suppress(OSError):
        for workspace in os.listdir(rooms):
            inner = os.path.join(rooms, workspace)
            with suppress(OSError):
                for session in os.listdir(inner):
                    remove(os.path.join(inner, session), unused_since=unused_since)
                os.rmdir(inner)  # fails while it holds anything


def _is_at(folder: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(folder), os.lstat(path))
    except FileNotFoundError:
        return False


def _empty(top: int) -> None:
    """Remove everything in an open folder; links are not followed.

    Folders inside folders are moved up before they are emptied, so the depth of the tree does not matter.
    """
    numbers = count()
    while names := os.listdir(top):
        for name in names:
            if not _unlinked(name, top):
                folder = _opened(name, top)
                try:
                    for inner in os.listdir(folder):
                        if not _unlinked(inner, folder):
                            _make_ours(inner, folder)
                            os.rename(inner, _free_name(top, numbers), src_dir_fd=folder, dst_dir_fd=top)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)


def _unlinked(name: str, folder: int) -> bool:
    """Remove a file; False when it is a folder."""
    if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
        return False
    os.unlink(name, dir_fd=folder)
    return True


def _opened(name: str, parent: int) -> int:
    _make_ours(name, parent)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)


def _make_ours(name: str, parent: int) -> None:
    """Let its owner read, write and enter a folder, which nobody else can reach."""
    if os.lstat(name, dir_fd=parent).st_mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)


def _free_name(folder: int, numbers: Iterator[int]) -> str:
    while True:
        name = f"moved-{next(numbers)}"
        try:
            os.lstat(name, dir_fd=folder)
        except FileNotFoundError:
            return name
