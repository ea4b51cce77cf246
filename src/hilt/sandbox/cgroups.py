"""Control groups: a limit on the memory of all processes of one command, enforced by the kernel.

Each command gets a group, in the nearest ancestor of hilt's own group that allows it and counts memory. Its folder is
locked while in use: if the lock can be taken, the owner is gone.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic, sleep

from hilt.handles import Closing

_PREFIX = "hilt-"
_EMPTY_SECONDS = 1.0  # killed processes have left their group by then


class Group:
    """A group for one command. Closing it kills its remaining processes, and removes it."""

    def __init__(self, parent: str, settings: Mapping[str, str]) -> None:
        import fcntl

        while True:
            self._path = os.path.join(parent, _PREFIX + os.urandom(8).hex())
            os.mkdir(self._path, 0o755)
            try:
                self._folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # another process swept it before it was locked
            fcntl.flock(self._folder, fcntl.LOCK_EX)
            if os.path.isdir(self._path):
                break
            os.close(self._folder)
        self.entrance = -1
        try:
            for name, value in settings.items():
                self._write(name, value)
            # a program enters by writing to it
            self.entrance = os.open("cgroup.procs", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._folder)
        except BaseException:
            self.close()
            raise

    def was_exceeded(self) -> bool:
        """Whether the kernel killed processes because of the limit."""
        return any(self._events().get(name, 0) for name in ("oom_kill", "oom_group_kill"))

    def peak(self) -> int:
        """Return the peak memory in bytes; 0 where the kernel does not report it."""
        with suppress(OSError, ValueError):
            return int(self._read("memory.peak"))
        return 0

    def close(self) -> None:
        """Kill the processes in the group, and remove it; if that fails, the next hilt process removes it."""
        if self._folder < 0:
            return
        if self.entrance >= 0:
            os.close(self.entrance)
        _remove(self._path, self._folder)
        os.close(self._folder)
        self._folder = self.entrance = -1

    def _events(self) -> dict[str, int]:
        try:
            fields = self._read("memory.events").split()
        except OSError:
            return {}
        return dict(zip(fields[::2], map(int, fields[1::2]), strict=False))

    def _write(self, name: str, value: str) -> None:
        with Closing(os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._folder)) as descriptor:
            os.write(descriptor, value.encode())

    def _read(self, name: str) -> str:
        return _read_at(self._folder, name)


class Groups:
    """Creates groups that limit memory, where supported. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parent: str | None = None
        self._is_looked_up = False

    def parent(self) -> str | None:
        """Return the folder for new groups; None where they are not supported. Looked up once."""
        with self._lock:
            if not self._is_looked_up:
                self._is_looked_up = True
                self._parent = find_parent()
                if self._parent is not None:
                    sweep(self._parent)
            return self._parent

    def make(self, memory: int) -> Group | None:
        """Return a new group limited to this many bytes; None where groups are not supported."""
        parent = self.parent()
        if parent is None:
            return None
        settings = {"memory.max": str(memory), "memory.oom.group": "1"}
        with suppress(OSError):
            return Group(parent, {**settings, "memory.swap.max": "0"})
        try:  # a kernel without swap accounting
            return Group(parent, settings)
        except OSError:
            self.give_up()
            return None

    def give_up(self) -> None:
        """Create no more groups: they do not work here."""
        with self._lock:
            self._parent = None


def find_parent() -> str | None:
    """Return the nearest group, from our own upwards, that counts memory and lets us create groups."""
    if sys.platform != "linux":
        return None
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            own_group = next(line[3:].rstrip("\n") for line in file if line.startswith("0::"))
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split() for line in file if " - cgroup2 " in line]
    except (OSError, StopIteration):
        return None
    for _, _, _, root, mount, *_ in mounts:
        visible = own_group.removeprefix(root.rstrip("/"))
        if own_group.startswith(root) and ".." not in own_group.split("/"):
            folder = os.path.join(mount, visible.lstrip("/")).rstrip("/")
            while folder.startswith(mount):
                if _allows_groups(folder):
                    return folder
                folder = os.path.dirname(folder)
    return None


def sweep(parent: str) -> None:
    """Remove the groups of processes that were killed."""
    import fcntl

    with suppress(OSError):
        for name in os.listdir(parent):
            if not name.startswith(_PREFIX):
                continue
            path = os.path.join(parent, name)
            with (
                suppress(OSError),
                Closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as folder,
            ):
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path, folder)


def _allows_groups(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "cgroup.subtree_control"), encoding="ascii") as file:
            counts_memory = "memory" in file.read().split()
    except OSError:
        return False
    return counts_memory and all(os.access(path, os.W_OK) for path in (folder, os.path.join(folder, "cgroup.procs")))


def _remove(path: str, folder: int) -> None:
    deadline = monotonic() + _EMPTY_SECONDS
    while True:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError:
            if monotonic() > deadline:
                return
            with (  # needs a newer kernel
                suppress(OSError),
                Closing(os.open("cgroup.kill", os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)) as descriptor,
            ):
                os.write(descriptor, b"1")
            sleep(0.005)
        else:
            return


def _read_at(folder: int, name: str) -> str:
    with Closing(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)) as descriptor:
        return os.read(descriptor, 1 << 16).decode()
