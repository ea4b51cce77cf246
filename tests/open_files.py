"""The files that the process of a test has open."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress


def open_below(*folders: str) -> list[str]:
    """Return the paths of the open files in some folders, sorted; threads of earlier tests may have others open."""
    inside = tuple(os.path.realpath(folder) for folder in folders)
    paths = []
    for number in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # closed in the meantime, or not a file
            paths.append(_path_of(number))
    return sorted(path for path in paths if path.startswith(inside))


def _path_of(number: int) -> str:
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(number, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{number}")
