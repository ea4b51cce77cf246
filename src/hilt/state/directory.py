"""The state directory: its free space, and the error if it is not writable."""

from __future__ import annotations

import os

from hilt.errors import ToolError

# how long a caller waits for other writers before it gets the error `busy`
PATIENCE_SECONDS = 60.0


def free_bytes(path: str | int) -> int | None:
    """Return the free space of the file system of a path or descriptor in bytes, or None if it is unknown."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    # only root may use the reserved blocks
    return status.f_frsize * (status.f_bavail if os.geteuid() else status.f_bfree)


def unwritable(reason: str, directory: str) -> ToolError:
    """Return the error for a state directory, or a folder in it, that cannot be written."""
    free = free_bytes(directory)
    free_note = "" if free is None else f", {free >> 10} KB free"
    return ToolError(
        "resource_limit",
        f"The state directory cannot be written: {reason} ({directory}{free_note}).",
        suggestion=(
            "Ask the user to free disk space: `hilt state clean` removes caches and old data, `hilt undo clear` "
            "the undo history of a folder. Or set HILT_STATE_DIR to another folder."
        ),
        directory=directory,
        free_bytes=free,
    )


class Writing:
    """Turns any OSError in its block into the error for a state directory that cannot be written."""

    # a class, because every call enters several of these, and a generator takes four times as long

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise unwritable(os.strerror(error.errno or 0), self._directory) from error


def open_private(path: str) -> int:
    """Open a file for reading and writing; it and its folder are created for the user alone."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return os.open(path, flags, 0o600)
