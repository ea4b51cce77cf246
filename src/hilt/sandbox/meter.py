"""How much memory all processes below a warden have together, looked at now and then.

The warden imports this module alone, as it does nothing else of hilt (keeper.py tells why).
"""

from __future__ import annotations

import os
import stat
from time import process_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SOONEST_SECONDS, _LATEST_SECONDS = 0.01, 2.0
_COST_RATIO = 20  # a look that takes long is followed by a pause so many times as long

_OWN = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
_SHARED_OUT = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")


class Meter:
    """Compares the memory of a tree of processes with a limit."""

    def __init__(self, limit: int, rate: int, descendants: Callable[[], Iterable[int]]) -> None:
        """`rate` is how many bytes can be filled in a second.

        `descendants` finds the processes where the kernel does not list the children of each.
        """
        self._limit = limit
        self._descendants = descendants
        self._rate = rate
        self._shared_before = _system_shared()

    def look(self) -> tuple[int, float]:
        """Return the bytes in use when they are over the limit, else 0, and how many seconds the next look can wait."""
        began = process_time()
        used = self._measure()
        if used > self._limit:
            return used, 0.0
        # nobody can have filled the rest before; but looking must not cost much, either
        earliest = (self._limit - used) / self._rate
        cost = (process_time() - began) * _COST_RATIO
        return 0, min(max(earliest, cost, _SOONEST_SECONDS), _LATEST_SECONDS)

    def _measure(self) -> int:
        pids = self._processes()
        upper = {pid: _upper(pid) for pid in pids}
        hidden = self._unmapped(pids)
        used = sum(upper.values()) + hidden
        if used <= self._limit:
            return used
        # Pages that a fork shares with its parent were counted for both. Now they are shared out, which takes longer;
        # twice, because a process that ends meanwhile leaves its share to others.
        return hidden + min(sum(_share(pid, most) for pid, most in upper.items()) for _ in range(2))

    def _processes(self) -> list[int]:
        found: dict[int, None] = {}
        new = [os.getpid()]
        while new:
            parent = new.pop()
            try:
                for task in os.listdir(f"/proc/{parent}/task"):
                    with open(f"/proc/{parent}/task/{task}/children", "rb", buffering=0) as file:
                        children = [pid for pid in map(int, file.readall().split()) if pid not in found]
                    found.update(dict.fromkeys(children))
                    new += children
            except FileNotFoundError:
                if parent == os.getpid():  # a kernel that does not list them; otherwise the process is gone
                    return list(self._descendants())
            except OSError:
                continue
        return list(found)

    def _unmapped(self, pids: Iterable[int]) -> int:
        """The size of files in memory that processes have open, when there is more of such memory than before."""
        shared = _system_shared()
        if shared - self._shared_before < self._limit // 8:
            self._shared_before = min(self._shared_before, shared)
            return 0
        files: dict[tuple[int, int], int] = {}
        for pid in pids:
            files.update(_own_shm(pid))
            try:
                for name in os.listdir(f"/proc/{pid}/fd"):
                    path = f"/proc/{pid}/fd/{name}"
                    if os.readlink(path).startswith("/memfd:"):
                        status = os.stat(path)
                        if stat.S_ISREG(status.st_mode):
                            files[status.st_dev, status.st_ino] = status.st_blocks * 512
            except OSError:
                continue  # the process or its file is gone, or is not ours to look at
        return sum(files.values())


def _upper(pid: int) -> int:
    try:
        return _read_sum(f"/proc/{pid}/status", _OWN)
    except OSError:
        return 0  # it is gone


def _own_shm(pid: int) -> dict[tuple[int, int], int]:
    """What a sandbox's own /dev/shm holds, where a process has one that is not the machine's."""
    path = f"/proc/{pid}/root/dev/shm"
    try:
        device = os.stat(path).st_dev
        if device == os.stat("/dev/shm").st_dev:  # noqa: S108
            return {}
        status = os.statvfs(path)
    except OSError:
        return {}
    return {(device, 0): (status.f_blocks - status.f_bfree) * status.f_frsize}


def _share(pid: int, most: int) -> int:
    """What a process has of its pages when each is divided among those that have it; `most` where that is not told."""
    try:
        return _read_sum(f"/proc/{pid}/smaps_rollup", _SHARED_OUT)
    except PermissionError:
        return most
    except FileNotFoundError:  # an old kernel, or the process is gone
        return most if os.path.exists(f"/proc/{pid}") else 0
    except OSError:
        return 0


def _read_sum(path: str, names: tuple[bytes, ...]) -> int:
    """Add up fields that are in kilobytes."""
    with open(path, "rb", buffering=0) as file:
        text = file.readall()
    found = (int(text[at + len(name) :].split(None, 1)[0]) for name in names if (at := text.find(name)) >= 0)
    return sum(found) << 10


def _system_shared() -> int:
    return _read_sum("/proc/meminfo", (b"Shmem:",))
