"""The hashes of the newest rows of the trail, in a file beside the database, to detect truncation (ADR 0017).

The file is a ring of a fixed number of slots. The newest row is the one with the largest number.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from hilt.state.directory import Writing

SLOTS = 32
_WIDTH = 8 + 32 + 8  # the number, the hash, and the number again
_BEYOND = 1 << 50  # more rows than any trail has


class Head:
    """The numbers and hashes of the newest rows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._writing = Writing(os.path.dirname(path))
        # closing the descriptor while it is in use could redirect a write to another file
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._noted = 0  # the last row that this object has noted in the open file

    def exists(self) -> bool:
        """Whether the file exists."""
        return os.path.exists(self._path)

    def open(self) -> None:
        """Create the file if it is missing; once there is a row, verification reports a missing file."""
        with self._lock:
            self._open()

    def next_number(self, last: int) -> int:
        """Return the number for the row after row `last`; numbers of lost rows are not reused."""
        number = last + 1
        with self._lock:
            descriptor = self._descriptor or self._open()
            with self._writing:
                slot = os.pread(descriptor, 8, number % SLOTS * _WIDTH)
        # if there ever was a later row, the slot of this number has this number or a larger one
        if int.from_bytes(slot, "big") < number:
            return number
        return max((last, *self.read())) + 1

    def note(self, number: int, hash: bytes, *, again: bool = False) -> None:
        """Note a row that has been committed; with `again`, only if the process that committed it died before that."""
        if again and number == self._noted:
            return
        # the number is at both ends, so that a reader detects a partially written note
        name = number.to_bytes(8, "big")
        with self._lock:
            descriptor = self._descriptor or self._open()
            with self._writing:
                if again and os.pread(descriptor, 8, number % SLOTS * _WIDTH) >= name:
                    return
                os.pwrite(descriptor, name + hash + name, number % SLOTS * _WIDTH)
            self._noted = number

    def read(self) -> dict[int, bytes]:
        """Return the noted hashes by row number; empty if there is no file."""
        data = b""
        with self._writing, suppress(FileNotFoundError), open(self._path, "rb") as file:
            data = file.read(SLOTS * _WIDTH)
        hashes: dict[int, bytes] = {}
        for slot in range(len(data) // _WIDTH):
            note = data[slot * _WIDTH : (slot + 1) * _WIDTH]
            number = int.from_bytes(note[:8], "big")
            # 0: an unused slot
            if note[:8] == note[-8:] and 0 < number < _BEYOND and number % SLOTS == slot:
                hashes[number] = note[8:-8]
        return hashes

    def close(self) -> None:
        """Close the file; the next row opens it again."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor, self._noted = None, 0

    def _open(self) -> int:
        if self._descriptor is None:
            with self._writing:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                if hasattr(os, "posix_fallocate") and os.fstat(descriptor).st_size < SLOTS * _WIDTH:
                    # noting a committed row must not fail because the disk is full
                    try:
                        os.posix_fallocate(descriptor, 0, SLOTS * _WIDTH)
                    except OSError:
                        os.close(descriptor)
                        raise
            self._descriptor = descriptor
        return self._descriptor
