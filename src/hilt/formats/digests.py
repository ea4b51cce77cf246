"""SHA-256 without loading OpenSSL for small data."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
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


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 of the data."""
    if len(data) < LARGE_BYTES:
        return _small(data).digest()
    import hashlib

    return hashlib.sha256(data).digest()
