"""SHA-256 without the price of loading OpenSSL for a few bytes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha256 as _small
else:
    try:
        from _sha2 import sha256 as _small  # Python 3.12 and later
    except ImportError:
        try:
            from _sha256 import sha256 as _small
        except ImportError:
            from hashlib import sha256 as _small

# from here on OpenSSL, several times as fast, has earned back its import
LARGE_BYTES = 256 * 1024


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 of the data."""
    if len(data) < LARGE_BYTES:
        return _small(data).digest()
    import hashlib

    return hashlib.sha256(data).digest()
