"""Swap names of a folder with links atomically and as fast as possible, until the input ends.

Run as `python -m tests.search.exchanging FOLDER NAME...`: each NAME is swapped with NAME.link. Prints the count.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys

_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}
_EXCHANGE = 2


def exchange(folder: int, first: str, second: str) -> None:
    """Swap two names of a folder."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = _RENAMEAT2[os.uname().machine]
    if libc.syscall(number, folder, os.fsencode(first), folder, os.fsencode(second), _EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    folder = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
    names = sys.argv[2:]
    print("ready", flush=True)
    rounds = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        for name in names * 20:
            exchange(folder, name, f"{name}.link")
            rounds += 1
    print(rounds)
