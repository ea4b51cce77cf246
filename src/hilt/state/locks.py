"""Locks between processes: flock on files, released by the kernel when the holder dies (ADR 0008)."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from zlib import crc32

from hilt.state.directory import Writing, open_private

MARK_BYTES = 16_384
BUCKETS = 256  # each held lock uses a descriptor, and 1,024 per process is a common limit


class ProcessMark:
    """A file that is locked while its process lives, so that other processes can see that it does."""

    def __init__(self, folder: str, name: str, content: bytes = b"") -> None:
        self._path = os.path.join(folder, name)
        new = os.path.join(folder, f".{name}")
        self._descriptor = -1
        while self._descriptor < 0:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):  # another process removed the empty folder
                self._descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            os.write(self._descriptor, content)
            os.rename(new, self._path)  # no process ever sees it unlocked
        except OSError:
            os.close(self._descriptor)
            raise

    def close(self) -> None:
        """Remove the mark, and its folder with the last one; may be called again."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.unlink(self._path)
                os.rmdir(os.path.dirname(self._path))
            os.close(self._descriptor)
            self._descriptor = -1


def read_mark(folder: str, name: str) -> bytes | None:
    """Return the content of a mark; None if its process is dead, whose mark is removed."""
    path = os.path.join(folder, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(descriptor, MARK_BYTES)
    else:
        with suppress(OSError):
            os.unlink(path)
        return None
    finally:
        os.close(descriptor)


def living_marks(folder: str) -> list[bytes]:
    """Return the contents of the marks in a folder; those of dead processes are removed, and so is an empty folder."""
    contents: list[bytes] = []
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            with suppress(OSError):
                mark = None if name.startswith(".") else read_mark(folder, name)  # those with a dot are being made
                contents += () if mark is None else (mark,)
        if not contents:
            with suppress(OSError):
                os.rmdir(folder)
    return contents


def try_lock(path: str) -> int | None:
    """Open the file and lock it; return its descriptor, or None if it is missing or another process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


@contextmanager
def held(path: str, check: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait for the lock of a file and hold it; `check` is called while waiting and may raise."""
    with Writing(os.path.dirname(path)):
        descriptor = open_private(path)
    try:
        pause = 0.0005
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                check()
                time.sleep(pause)
                pause = min(pause * 1.5, 0.02)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def targets(directory: str, paths: Iterable[str], check: Callable[[], None]) -> Iterator[None]:
    """Hold the locks of several targets at once, always in the same order to avoid deadlocks.

    Targets share a fixed number of lock files, so that the folder does not grow. Names are case-folded because some
    file systems ignore case.
    """
    numbers = sorted({crc32(path.casefold().encode("utf-8", "surrogateescape")) % BUCKETS for path in paths})
    with ExitStack() as stack:
        for number in numbers:
            stack.enter_context(held(os.path.join(directory, f"{number:02x}"), check))
        yield
