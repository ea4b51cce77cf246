"""Exchange names of a folder with links, in one step each and as fast as can be, until the input ends.

Run as `python -m tests.search.exchanging FOLDER NAME...`: each NAME is exchanged with NAME.link. Prints how often.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys

_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}
_EXCHANGE = 2


def exchange(folder: int, one: str, other: str) -> None:
    """Let two names of a folder change places."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = _RENAMEAT2[os.uname().machine]
    if libc.syscall(number, folder, os.fsencode(one), folder, os.fsencode(other), _EXCHANGE) != 0:
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
