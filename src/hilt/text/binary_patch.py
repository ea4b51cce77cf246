"""Binary files in patches, as literals of `git diff --binary`: deflated, in lines of base 85.

binary = "index " old ".." new "GIT binary patch" "literal " size line* blank
line   = length base-85            length: A to Z for 1 to 26 bytes, a to z for 27 to 52
"""

from __future__ import annotations

import base64
import hashlib
import string
import zlib
from collections.abc import Iterator

from hilt.text.operations import BINARY

_LENGTHS = string.ascii_uppercase + string.ascii_lowercase  # for 1 to 52 bytes
_MISSING = "0" * 40


def blob_id(data: bytes | None, digits: int = 40) -> str:
    """Return the git object id of a file's contents; zeros for a missing file. 64 digits mean SHA-256."""
    if data is None:
        return _MISSING
    digest = hasher(digits)
    digest.update(b"blob %d\0" % len(data))
    digest.update(data)
    return digest.hexdigest()


def hasher(digits: int) -> hashlib._Hash:
    """Return a new hash object for a repository whose ids have this many digits."""
    return hashlib.new("sha1" if digits == 40 else "sha256", usedforsecurity=False)


def literal(old: bytes | None, new: bytes | None) -> str:
    """Return the lines that replace the whole contents of a file, after the other lines of its git header."""
    packed = zlib.compress(new or b"", 9)
    lines = [f"index {blob_id(old)}..{blob_id(new)}", BINARY, f"literal {len(new or b'')}"]
    for start in range(0, len(packed), len(_LENGTHS)):
        piece = packed[start : start + len(_LENGTHS)]
        padded = piece + b"\0" * (-len(piece) % 4)
        lines.append(_LENGTHS[len(piece) - 1] + base64.b85encode(padded).decode())
    return "\n".join(lines) + "\n\n"


def unpack(size: int, lines: Iterator[str]) -> bytes:
    """Return the contents of a literal of this size; raise ValueError if it is damaged."""
    packed = bytearray()
    for line in lines:
        if line[0] not in _LENGTHS:
            raise ValueError(f"a line has the invalid length {line[0]!r}")
        length = _LENGTHS.index(line[0]) + 1
        packed += base64.b85decode(line[1:])[:length]
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(bytes(packed), size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(data) != size or not inflater.eof:
        raise ValueError(f"it has {len(data)} bytes instead of {size}")
    return data
