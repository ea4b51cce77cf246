"""Disk space in the state directory reserved for a full disk, in one file with two parts (ADR 0023).

The first part holds trail rows that could not be written to the database yet. It is overwritten in place, so writing
to it needs no free space. The second part is released when a person clears the undo history: clearing needs some
space before it frees any.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hilt.state.directory import Writing, free_bytes, open_private, unwritable

ROWS_BYTES = 128 << 10
BALLAST_BYTES = 448 << 10
NEEDED_BYTES = 128 << 10  # minimum free space to start a call: for its row and the database pages written with it
_PENDING_BYTES = ROWS_BYTES // 2  # the other half is for calls that are already running
_HEADER = 8  # holds the number of bytes of rows that follow


class Reserve:
    """Pending rows, one line of bytes each. Safe to use from many threads and processes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory = os.path.dirname(path)
        self._lock = threading.Lock()
        self._descriptor: int | None = None

    def check(self, *, full: bool = False) -> bool:
        """Raise unless a call's row can be stored even if the disk fills up; return whether rows are pending.

        With `full`, the disk may already be full.
        """
        with self._lock:
            if self._descriptor is not None and not _is_usable(self._descriptor):
                self._close()
            descriptor = self._descriptor or self._open()
            free = None if full else free_bytes(descriptor)
            if free is not None and free < NEEDED_BYTES:
                raise unwritable("the disk is full", self._directory)
            used = _used(descriptor)
            if used > _PENDING_BYTES:
                raise unwritable("too many rows of the audit trail are pending", self._directory)
            return used > 0

    def has_pending(self) -> bool:
        """Whether rows are pending; does not create the file."""
        try:
            with open(self._path, "rb", buffering=0) as file:
                return file.read(_HEADER).strip(b"\0") != b""
        except OSError:
            return False

    def put(self, row: bytes) -> None:
        """Store a row, which must not contain a line break."""
        with self._locked() as descriptor:
            used = _used(descriptor)
            end = used + len(row) + 1
            if _HEADER + end > ROWS_BYTES:
                raise unwritable("the space for pending rows of the audit trail is full", self._directory)
            # the count is written last, so that a partially written row does not count
            os.pwrite(descriptor, row + b"\n", _HEADER + used)
            os.pwrite(descriptor, end.to_bytes(_HEADER, "big"), 0)

    @contextmanager
    def drain(self) -> Iterator[list[bytes]]:
        """Yield the pending rows; they are cleared when the block ends without an error."""
        with self._locked() as descriptor:
            yield os.pread(descriptor, _used(descriptor), _HEADER).splitlines()
            os.pwrite(descriptor, bytes(_HEADER), 0)

    def release_ballast(self) -> None:
        """Release the second part; it is reserved again once there is space."""
        with self._locked() as descriptor:
            os.ftruncate(descriptor, ROWS_BYTES)
            self._close()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @contextmanager
    def _locked(self) -> Iterator[int]:
        with self._lock, Writing(self._directory):
            descriptor = self._descriptor or self._open()
            with _flocked(descriptor):
                yield descriptor

    def _open(self) -> int:
        with Writing(self._directory):
            descriptor = open_private(self._path)
            try:
                if os.fstat(descriptor).st_size < ROWS_BYTES + BALLAST_BYTES:
                    self._fill(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        self._descriptor = descriptor
        return descriptor

    def _fill(self, descriptor: int) -> None:
        """Write the missing part of the file: a sparse file would not reserve any space."""
        with _flocked(descriptor):
            size = os.fstat(descriptor).st_size
            if size < ROWS_BYTES:
                _write_all(descriptor, bytes(ROWS_BYTES - size), size)
                size = ROWS_BYTES
            free = free_bytes(self._directory)
            if free is None or free < 4 * BALLAST_BYTES:
                return  # leave the free space to calls
            try:
                _write_all(descriptor, bytes(ROWS_BYTES + BALLAST_BYTES - size), size)
            except OSError:
                os.ftruncate(descriptor, ROWS_BYTES)


def _is_usable(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return status.st_nlink > 0 and status.st_size >= ROWS_BYTES


def _used(descriptor: int) -> int:
    used = int.from_bytes(os.pread(descriptor, _HEADER, 0), "big")
    return min(used, ROWS_BYTES - _HEADER)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    while data:
        count = os.pwrite(descriptor, data, offset)
        data, offset = data[count:], offset + count


@contextmanager
def _flocked(descriptor: int) -> Iterator[None]:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):  # closed in the meantime, which also unlocks it
            fcntl.flock(descriptor, fcntl.LOCK_UN)
