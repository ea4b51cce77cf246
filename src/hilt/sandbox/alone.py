"""Lets one program at a time write to a folder, for systems without mounts by handle.

There a running program could redirect the mounts of the next one by renaming folders. So each program holds locks while
it runs: exclusive ones on the folders that it can write, shared ones on all their parent folders.
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
    """Hold the locks of the roots, as files in `folder`; raise when another program does not release them."""
    os.makedirs(folder, 0o700, exist_ok=True)
    parents = {parent for root in roots for parent in _parents(root)} - set(roots)
    lock_kinds = {**dict.fromkeys(parents, fcntl.LOCK_SH), **dict.fromkeys(roots, fcntl.LOCK_EX)}
    deadline = monotonic() + _WAIT_SECONDS
    with ExitStack() as stack:
        while not _acquire(stack, folder, lock_kinds):
            stack.close()
            if monotonic() > deadline:
                raise ToolError(
                    "busy",
                    f"Another command is still running in {roots[0]}, and this system can confine only one at a time.",
                    suggestion="Wait for it, or stop it with job_stop. `hilt doctor` shows what the sandbox lacks.",
                    path=roots[0],
                )
            sleep(_PAUSE_SECONDS)
        yield


def _acquire(stack: ExitStack, folder: str, lock_kinds: dict[str, int]) -> bool:
    for path in sorted(lock_kinds):
        name = sha256(os.fsencode(path)).hex()[:16]
        fd = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, fd)
        try:
            fcntl.flock(fd, lock_kinds[path] | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _parents(path: str) -> Iterator[str]:
    while path != (path := os.path.dirname(path)):
        yield path
