"""The private folders of sessions: locking, measuring and removing them.

Commands see them as /tmp, and could fill the disk. So their size is measured while commands run: in slices, so that
nothing waits for a large tree, and more often the closer they are to the limit.
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
from hilt.handles import LISTED, Closing, remove_tree
from hilt.sandbox.spawning import Excess

_SLICE_SECONDS = 0.003
_SLICE_ENTRIES = 128  # between two checks of the clock
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.02, 2.0
_BYTES_PER_SECOND = 1 << 30  # how fast a program can write
_COST_RATIO = 20  # measuring takes at most 1/20 of the time
_SLACK_BYTES = 1 << 20
_MAX_EXCESS_BYTES = 256 << 20  # no command starts if the limit is exceeded by this, or by 100% if that is more


class Room:
    """The private folder of a session while commands run in it.

    It is unknown which command wrote what, so the newest is ended first, and another one only if the folder keeps
    growing. If the folder exceeds the limit before a command starts, the command may run to delete files, but must not
    enlarge the folder. Far beyond the limit no command may start.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.due = 0.0
        self._lock = threading.Lock()
        self._stays: list[Stay] = []
        self._limit = 0
        self._allowed = 0
        self._is_known = False  # whether the whole folder was measured once
        self._restart_walk()

    def enter(self, stay: Stay) -> None:
        """Register a command that is about to start."""
        with self._lock:
            self._limit = stay.limit
            if not self._is_known:
                self._measure_anew()
            now = monotonic()
            if now >= self.due and self._measure(now):
                raise ToolError(
                    "resource_limit",
                    f"The command was not run: {_folders(self._counted)} or more, far above the limit of "
                    f"{megabytes(stay.limit)} (shell.tmp_mb).",
                    suggestion=f"Ask the user to delete the contents of {self.path}, or to end the session.",
                    path=self.path,
                )
            self._stays.append(stay)

    def leave(self, stay: Stay) -> bool:
        """Remove a command that has ended; return whether it was the last one."""
        with self._lock:
            if stay in self._stays:
                self._stays.remove(stay)
            if stay.exceeded:
                self._measure_anew()  # the others are not responsible for what it wrote until its end
            return not self._stays

    def check(self, stay: Stay) -> Excess | None:
        """Measure a slice, and return the excess if this command is to be ended for it."""
        with self._lock:
            now = monotonic()
            # a command that is being ended may need some time; the others must not be ended for it
            if now >= self.due and not any(other.exceeded for other in self._stays) and self._measure(now):
                self._stays[-1].exceeded = Excess("room", self._counted, self._limit)
            return stay.exceeded

    def _measure_anew(self) -> None:
        """Restart measuring; until the size is known, only far above the limit counts as excess."""
        self._is_known = False
        self._allowed = self._limit + max(self._limit, _MAX_EXCESS_BYTES)
        self.due = 0.0
        self._restart_walk()

    def _restart_walk(self) -> None:
        self._walk = _sizes(self.path)
        self._counted = 0
        self._cost = 0.0

    def _measure(self, now: float) -> bool:
        """Measure the next slice; return whether the allowed size is exceeded."""
        is_whole = True
        began = thread_time()  # CPU time only
        for number, size in zip(count(1), self._walk, strict=False):
            self._counted += size
            if self._counted > self._allowed:
                self.due = now + _MIN_PAUSE_SECONDS
                return True
            if number % _SLICE_ENTRIES == 0 and thread_time() > began + _SLICE_SECONDS:
                is_whole = False
                break
        spent = thread_time() - began
        self._cost += spent
        if not is_whole:
            self.due = now + spent * _COST_RATIO
            return False
        maximum = self._counted + _SLACK_BYTES
        self._allowed = max(self._limit, min(self._allowed, maximum) if self._is_known else maximum)
        self._is_known = True
        # the remaining space cannot be filled sooner
        earliest = min((self._allowed - self._counted) / _BYTES_PER_SECOND, _MAX_PAUSE_SECONDS)
        self.due = now + max(earliest, self._cost * _COST_RATIO, _MIN_PAUSE_SECONDS)
        self._restart_walk()
        return False


class Stay:
    """One command in a room, as `capturing.run` and jobs poll it."""

    def __init__(self, room: Room, limit: int) -> None:
        self.limit = limit
        self.exceeded: Excess | None = None
        self._room = room

    def due(self) -> float:
        """When to measure next."""
        return self._room.due

    def check(self) -> Excess | None:
        """Return the excess if this command is to be ended for it."""
        return self._room.check(self)


class Rooms:
    """The rooms that are in use. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rooms: dict[str, Room] = {}

    @contextmanager
    def stay(self, path: str, limit: int) -> Iterator[Stay]:
        """Watch the size of a session's folder while a command runs; `limit` in bytes."""
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


def describe(exceeded: Excess, memory_setting: str = "shell.memory_mb") -> str:
    """Describe the limit that a command exceeded."""
    limit = megabytes(exceeded.limit)
    if exceeded.resource == "room":
        return f"{_folders(exceeded.used)}; the limit is {limit} (shell.tmp_mb)"
    used = megabytes(exceeded.used)
    return f"its processes used {used} of memory together; the limit is {limit} ({memory_setting})"


def advise(exceeded: Excess) -> str:
    """Return what to do about it."""
    if exceeded.resource == "room":
        return (
            "Delete files that are no longer needed in the session's /tmp, /var/tmp and ~/.cache, or write elsewhere."
        )
    return "Make the command use less memory or fewer processes."


def megabytes(size: int) -> str:
    """Format a size; rounded up, so that an exceeded limit does not look equal to it."""
    return f"{-(-size >> 20)} MB"


def _folders(size: int) -> str:
    return f"the session's private /tmp, /var/tmp and ~/.cache hold {megabytes(size)}"


def _sizes(path: str) -> Iterator[int]:
    """Yield the disk usage of each file and folder below a path, without following links."""
    folders = [path]
    linked: set[int] = set()
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    with suppress(OSError):  # already gone
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


# --- creating and removing them -----------------------------------------------------------------------------------


def private_folder(state: str, workspace: str, session: str) -> str:
    """Return the private folder of a session."""
    return os.path.join(state, "sandbox", workspace, session)


@contextmanager
def hold(path: str) -> Iterator[None]:
    """Create the folder of a session, and lock it against removal."""
    import fcntl

    while True:
        os.makedirs(path, 0o700, exist_ok=True)
        try:
            folder = os.open(path, LISTED)
        except FileNotFoundError:
            continue  # already removed
        fcntl.flock(folder, fcntl.LOCK_SH)
        if _is_at(folder, path):
            break
        os.close(folder)
    with Closing(folder):
        os.utime(folder)  # records the last use
        yield


def remove(path: str, *, unused_since: float | None = None) -> bool:
    """Remove the folder of a session unless it is in use, or was used since then; return whether it was removed."""
    import fcntl

    with suppress(OSError), Closing(os.open(path, LISTED)) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if unused_since is not None and os.fstat(folder).st_mtime >= unused_since:
            return False
        for name in os.listdir(folder):
            remove_tree(folder, name)
        os.rmdir(path)
        return True
    return False  # in use, or not fully removable: retried later


def remove_unused(rooms: str, unused_since: float) -> None:
    """Remove the folders of sessions, in all workspaces, that were last used before then."""
    with suppress(OSError):
        for workspace in os.listdir(rooms):
            inner = os.path.join(rooms, workspace)
            with suppress(OSError):
                for session in os.listdir(inner):
                    remove(os.path.join(inner, session), unused_since=unused_since)
                os.rmdir(inner)  # fails unless it is empty


def _is_at(folder: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(folder), os.lstat(path))
    except FileNotFoundError:
        return False
