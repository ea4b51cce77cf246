"""SHA-256 without loading OpenSSL for small data."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from hashlib import sha256 as _small
else:
    try:
        # without the version, a folder of the workspace on sys.path would be searched for the missing module
        if sys.version_info >= (3, 12):
            from _sha2 import sha256 as _small
        else:
            from _sha256 import sha256 as _small
    except ImportError:
        from hashlib import sha256 as _small

# from this size, OpenSSL is faster despite its import
LARGE_BYTES = 256 * 1024


# from this size, a thread is worth it: hashing releases the GIL
BACKGROUND_BYTES = 1024 * 1024


class Digest:
    """The SHA-256 of some data, computed in the background if the data is large."""

    __slots__ = ("_thread", "_value")

    def __init__(self, data: bytes) -> None:
        self._value = b""
        self._thread: threading.Thread | None = None
        if len(data) < BACKGROUND_BYTES:
            self._value = sha256(data)
            return
        import threading

        self._thread = threading.Thread(target=self._compute, args=(data,))
        self._thread.start()

    def _compute(self, data: bytes) -> None:
        self._value = sha256(data)

    def value(self) -> bytes:
        """Return the digest; wait for it if needed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self._value


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 of the data."""
    if len(data) < LARGE_BYTES:
        return _small(data).digest()
    import hashlib

    return hashlib.sha256(data).digest()
