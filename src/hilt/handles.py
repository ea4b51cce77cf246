"""Folders and files opened by handle: a path is resolved name by name, without following links."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from errno import EINVAL, ELOOP, ENOENT, ENOSYS, ENOTDIR, ESTALE
from typing import Self

from hilt.errors import ToolError

# errors that opening a path raises if it was replaced at that moment
SWAPPED = (EINVAL, ELOOP, ENOENT, ENOTDIR, ESTALE)

# how to open the folders on the way, a folder that is listed, and a file that is read
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_RENAME_EXCHANGE = 2


class Closing:
    """Closes a descriptor at the end of a `with` block, which gets it."""

    __slots__ = ("_handle",)

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __enter__(self) -> int:
        return self._handle

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def open_folder(path: str, start: int | None = None, *, mode: int | None = None) -> int:
    """Return a handle of a folder; the path is real and absolute, or relative to the folder `start`.

    With `mode`, missing folders are made with it.
    """
    handle = os.open("/", FOLDER) if start is None else os.dup(start)
    for name in filter(None, path.split("/")):
        try:
            try:
                inner = os.open(name, FOLDER, dir_fd=handle)
            except FileNotFoundError:
                if mode is None:
                    raise
                os.mkdir(name, mode, dir_fd=handle)
                inner = os.open(name, FOLDER, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def put_file(path: str, data: bytes, *, mode: int = 0o600, only_new: bool = False, synced: bool = False) -> bool:
    """Put a file in its place at once, with `only_new` only if there is none; return whether that was done.

    Its folder is created. No process sees a part of it, or another file under its temporary name.
    """
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, mode), "wb") as file:
            file.write(data)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        if not only_new:
            os.replace(temporary, path)
            return True
        with suppress(FileExistsError):
            os.link(temporary, path)
            return True
        return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def exchange(folder: int, name: str, other: str) -> bool:
    """Swap two names in a folder atomically; False if the system or file system does not support it."""
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(folder, os.fsencode(name), folder, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (EINVAL, ENOSYS):
        return False
    raise OSError(number, os.strerror(number), name)


def open_in_folder(path: str, flags: int) -> int:
    """Open something by its real path; fails if a link is on the path."""
    outer, _, name = path.rstrip("/").rpartition("/")
    with Closing(open_folder(outer)) as folder:
        return os.open(name or ".", flags, dir_fd=folder)


def read_regular(handle: int, limit: int) -> bytes | None:
    """Return the bytes of an open regular file, at most one more than the limit; None if it is something else."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        return None
    with open(handle, "rb", closefd=False) as file:
        return file.read(limit + 1)


def open_below(root: str, relative: str) -> int:
    """Open a folder below a root for listing, and return its descriptor; fails if a link is on the path."""
    if any(name in (".", "..") for name in relative.split("/")):
        raise OSError(EINVAL, os.strerror(EINVAL), relative)
    outer, _, name = relative.rpartition("/")
    handle = os.open(root, FOLDER)
    try:
        if outer:
            inner = open_folder(outer, handle)
            os.close(handle)
            handle = inner
        return os.open(name or ".", LISTED, dir_fd=handle)
    finally:
        os.close(handle)


def remove_path(path: str) -> None:
    """Remove a file, or a folder and its contents, as far as possible; the path around it is real."""
    with suppress(OSError), Closing(open_folder(os.path.dirname(path))) as parent:
        remove_tree(parent, os.path.basename(path))


def remove_tree(parent: int, name: str) -> None:
    """Remove a file, or a folder and its contents, as far as possible, whatever programs have put there.

    Inner folders are moved up before they are emptied, so that the depth does not matter.
    """
    pending = [name]
    while pending:
        pending += _empty(parent, pending[-1]) or _remove_last(parent, pending)


def _remove_last(parent: int, pending: list[str]) -> list[str]:
    name = pending.pop()
    with suppress(OSError):
        try:
            os.rmdir(name, dir_fd=parent)
        except NotADirectoryError:
            os.unlink(name, dir_fd=parent)
    return []


def _empty(parent: int, name: str) -> list[str]:
    """Remove the files of a folder, move its folders up, and return their new names."""
    moved: list[str] = []
    with suppress(OSError), Closing(os.open(name, FOLDER, dir_fd=parent)) as handle:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
        with Closing(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=handle)) as folder:
            for inner in os.listdir(folder):
                try:
                    os.unlink(inner, dir_fd=folder)
                except (IsADirectoryError, PermissionError):
                    moved.append(_move_up(parent, folder, inner))
    return moved


def _move_up(parent: int, folder: int, name: str) -> str:
    with Closing(os.open(name, FOLDER, dir_fd=folder)) as inner:
        os.chmod(f"/proc/self/fd/{inner}", 0o700)  # moving a folder writes to it
    new = f".removed-{os.urandom(8).hex()}"
    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=parent)
    return new


class Parents:
    """Handles of parent folders, each opened once; closed together."""

    def __init__(self) -> None:
        self._handles: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles.values():
            os.close(handle)

    def of(self, path: str) -> tuple[int, str]:
        """Return a handle of the parent folder of a path, and its name there."""
        outer, _, name = path.rpartition("/")
        handle = self._handles.get(outer)
        if handle is None:
            handle = self._handles[outer] = open_folder(outer or "/")
        return handle, name


def renamed() -> ToolError:
    """Return the error for a program that did not start because folders were renamed during its setup."""
    return ToolError(
        "busy",
        "Folders were renamed while the sandbox was set up, so the command was not started.",
        suggestion="Retry, and stop any background job that keeps renaming folders.",
        renamed=True,
    )
