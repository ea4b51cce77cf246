"""Polls the total memory of all processes below a warden (ADR 0024).

The warden imports this module without the rest of hilt (keeper.py explains why).
"""

from __future__ import annotations

import os
import stat
from time import process_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.01, 2.0
_COST_RATIO = 20  # the pause is at least this many times as long as the measurement

_RESIDENT = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
_PROPORTIONAL = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")


class Meter:
    """Compares the memory of a tree of processes with a limit."""

    def __init__(self, limit: int, rate: int, descendants: Callable[[], Iterable[int]]) -> None:
        """`rate` is how many bytes of memory can be filled per second.

        `descendants` finds the processes where the kernel does not list the children of a process.
        """
        self._limit = limit
        self._descendants = descendants
        self._rate = rate
        self._shared_before = _system_shared()

    def measure(self) -> tuple[int, float]:
        """Return the bytes in use if over the limit, else 0, and the seconds until the next measurement."""
        began = process_time()
        used = self._measure()
        if used > self._limit:
            return used, 0.0
        # the remaining memory cannot be filled sooner, and measuring must stay cheap
        earliest = (self._limit - used) / self._rate
        cost = (process_time() - began) * _COST_RATIO
        return 0, min(max(earliest, cost, _MIN_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)

    def _measure(self) -> int:
        pids = self._processes()
        upper_bounds = {pid: _upper_bound(pid) for pid in pids}
        unmapped = self._unmapped(pids)
        used = sum(upper_bounds.values()) + unmapped
        if used <= self._limit:
            return used
        # Pages shared after a fork were counted for each process. The proportional share is exact, but takes longer to
        # read. It is read twice, because a process that ends in between leaves its share to others.
        return unmapped + min(sum(_share(pid, bound) for pid, bound in upper_bounds.items()) for _ in range(2))

    def _processes(self) -> list[int]:
        descendants: dict[int, None] = {}
        pending = [os.getpid()]
        while pending:
            parent = pending.pop()
            try:
                for task in os.listdir(f"/proc/{parent}/task"):
                    with open(f"/proc/{parent}/task/{task}/children", "rb", buffering=0) as file:
                        children = [pid for pid in map(int, file.readall().split()) if pid not in descendants]
                    descendants.update(dict.fromkeys(children))
                    pending += children
            except FileNotFoundError:
                if parent == os.getpid():  # the kernel does not list children; otherwise the process is gone
                    return list(self._descendants())
            except OSError:
                continue
        return list(descendants)

    def _unmapped(self, pids: Iterable[int]) -> int:
        """Return the size of open memory files, measured only if the system's shared memory has grown."""
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
                continue  # the process or its file is gone, or inaccessible
        return sum(files.values())


def _upper_bound(pid: int) -> int:
    try:
        return _read_sum(f"/proc/{pid}/status", _RESIDENT)
    except OSError:
        return 0  # the process is gone


def _own_shm(pid: int) -> dict[tuple[int, int], int]:
    """Return the size of a sandbox's private /dev/shm, if the process has one."""
    path = f"/proc/{pid}/root/dev/shm"
    try:
        device = os.stat(path).st_dev
        if device == os.stat("/dev/shm").st_dev:  # noqa: S108
            return {}
        status = os.statvfs(path)
    except OSError:
        return {}
    return {(device, 0): (status.f_blocks - status.f_bfree) * status.f_frsize}


def _share(pid: int, upper_bound: int) -> int:
    """Return the proportional share of a process in its pages; `upper_bound` where the kernel does not report it."""
    try:
        return _read_sum(f"/proc/{pid}/smaps_rollup", _PROPORTIONAL)
    except PermissionError:
        return upper_bound
    except FileNotFoundError:  # an old kernel, or the process is gone
        return upper_bound if os.path.exists(f"/proc/{pid}") else 0
    except OSError:
        return 0


def _read_sum(path: str, names: tuple[bytes, ...]) -> int:
    """Return the sum of fields in kilobytes, as bytes."""
    with open(path, "rb", buffering=0) as file:
        text = file.readall()
    values = (int(text[start + len(name) :].split(None, 1)[0]) for name in names if (start := text.find(name)) >= 0)
    return sum(values) << 10


def _system_shared() -> int:
    return _read_sum("/proc/meminfo", (b"Shmem:",))
