"""The body of an answer: unpacked while it arrives, and cut where it grows too long."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.web.connection import BrokenConnection, Response

ACCEPTED = "gzip, deflate"
STEP_BYTES = 64 * 1024  # that a packed body may become at once

_GZIP = 31  # what zlib calls the format
_GZIP_START = b"\x1f\x8b"


class HttpBody(NamedTuple):
    """Bytes, and whether they are not all there were."""

    data: bytes
    cut: bool


def read(response: Response, most: int) -> HttpBody:
    """Return at most that many bytes of a body, unpacked."""
    encodings = [word.strip().lower() for word in response.headers.get("content-encoding", "").split(",")]
    encodings = [word for word in encodings if word not in ("", "identity")]
    if len(encodings) > 1 or not set(encodings) <= {"gzip", "x-gzip", "deflate"}:
        raise ToolError(
            "network_error",
            f"The answer is encoded as {', '.join(encodings)[:100]!a}, which was not asked for.",
            suggestion="Try another address.",
        )
    pieces = _unpacked(response.chunks, encodings[0]) if encodings else response.chunks
    data = bytearray()
    try:
        for piece in pieces:
            data += piece
            if len(data) > most:
                return HttpBody(bytes(data[:most]), cut=True)
    except BrokenConnection:
        return HttpBody(bytes(data), cut=True)
    except zlib.error as error:
        if not data:
            raise ToolError(
                "network_error", f"The answer is not {encodings[0]}, as it says: {error}.", suggestion="Try later."
            ) from error
        return HttpBody(bytes(data), cut=True)
    return HttpBody(bytes(data), cut=False)


def _unpacked(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield what the chunks hold, in small steps: a few bytes may stand for very many."""
    unpacker = None
    began = False
    for chunk in chunks:
        data = chunk
        while data:
            if unpacker is None:
                if began and not data.startswith(_GZIP_START[:1]):
                    return  # what follows the last member is nothing of it
                unpacker, began = zlib.decompressobj(_format(encoding, data)), True
            yield unpacker.decompress(data, STEP_BYTES)
            data = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
            unpacker = None if unpacker.eof else unpacker
    if unpacker is not None:
        raise BrokenConnection


def _format(encoding: str, start: bytes) -> int:
    """Return the format of zlib; some servers send deflate without its header."""
    if encoding != "deflate":
        return _GZIP
    is_zlib = start[0] & 0x0F == 8 and (len(start) < 2 or (start[0] << 8 | start[1]) % 31 == 0)
    return zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS
