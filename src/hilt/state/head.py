"""The newest rows of the trail, noted in a file beside the database, so that rows cut off its end are missed.

Each row has a place of its own among a few that are used in turn. Processes that append at the same time therefore
write to different places and need no lock between them; the newest row is the largest number in the file.
"""

from __future__ import annotations

import os
import threading

from hilt.state.db import unwritable, writing

PLACES = 32
_WIDTH = 8 + 32 + 8  # the number, the hash, and the number again
_BEYOND = 1 << 50  # no trail has so many rows


class Head:
    """The numbers and hashes of the newest rows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()  # a descriptor that is closed meanwhile may already be another file's
        self._descriptor: int | None = None

    def exists(self) -> bool:
        """Whether there is such a file."""
        return os.path.exists(self._path)

    def open(self) -> None:
        """Make the file if it is missing: from the first row on, its absence means something."""
        with self._lock:
            self._open()

    def note(self, number: int, hash: bytes) -> None:
        """Write down a row that has been committed."""
        # the number stands at both ends: a reader then knows a note that is only half written
        name = number.to_bytes(8, "big")
        with self._lock:
            descriptor = self._descriptor or self._open()
            try:
                os.pwrite(descriptor, name + hash + name, number % PLACES * _WIDTH)
            except OSError as error:
                raise unwritable(os.strerror(error.errno or 0), os.path.dirname(self._path)) from error

    def read(self) -> dict[int, bytes]:
        """Return the hashes of the rows that are noted, by number; nothing when there is no file."""
        try:
            with open(self._path, "rb") as file:
                data = file.read(PLACES * _WIDTH)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise unwritable(os.strerror(error.errno or 0), os.path.dirname(self._path)) from error
        found: dict[int, bytes] = {}
        for place in range(len(data) // _WIDTH):
            note = data[place * _WIDTH : (place + 1) * _WIDTH]
            number = int.from_bytes(note[:8], "big")
            # 0: a place that is not used yet
            if note[:8] == note[-8:] and 0 < number < _BEYOND and number % PLACES == place:
                found[number] = note[8:-8]
        return found

    def close(self) -> None:
        """Close the file; the next row opens it again."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None:
            with writing(os.path.dirname(self._path)):
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                if hasattr(os, "posix_fallocate") and os.fstat(descriptor).st_size < PLACES * _WIDTH:
                    # a note of a row that is committed must not fail because the disk is full
                    try:
                        os.posix_fallocate(descriptor, 0, PLACES * _WIDTH)
                    except OSError:
                        os.close(descriptor)
                        raise
            self._descriptor = descriptor
        return self._descriptor
