"""Lets one program at a time write in a folder, for systems where a sandbox cannot be made by handle.

There a program that still runs could lead the mounts of the next one astray by renaming folders. So each program holds
a lock for as long as it runs: alone on the folders that it can write, shared on all folders above them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic, sleep

from hilt.errors import ToolError
from hilt.formats.digests import sha256

_WAIT_SECONDS = 20.0
_PAUSE_SECONDS = 0.01


@contextmanager
def alone(folder: str, roots: tuple[str, ...]) -> Iterator[None]:
    """Hold the locks of the roots, which are files in a folder; raise when another program keeps them."""
    os.makedirs(folder, 0o700, exist_ok=True)
    above = {outer for root in roots for outer in _above(root)} - set(roots)
    kinds = {**dict.fromkeys(above, fcntl.LOCK_SH), **dict.fromkeys(roots, fcntl.LOCK_EX)}
    until = monotonic() + _WAIT_SECONDS
    with ExitStack() as stack:
        while not _take(stack, folder, kinds):
            stack.close()
            if monotonic() > until:
                raise ToolError(
                    "busy",
                    f"Another command still runs in {roots[0]}, and this system can confine only one at a time.",
                    suggestion="Wait for it, or end it with job_stop. `hilt doctor` says what the sandbox lacks.",
                    path=roots[0],
                )
            sleep(_PAUSE_SECONDS)
        yield


def _take(stack: ExitStack, folder: str, kinds: dict[str, int]) -> bool:
    for path in sorted(kinds):
        name = sha256(os.fsencode(path)).hex()[:16]
        fd = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, fd)
        try:
            fcntl.flock(fd, kinds[path] | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _above(path: str) -> Iterator[str]:
    while path != (path := os.path.dirname(path)):
        yield path
