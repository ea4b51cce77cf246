"""The body of a response: decompressed while it arrives, and truncated at a size limit."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.web.connection import BrokenConnection, Response

ACCEPTED = "gzip, deflate"
STEP_BYTES = 64 * 1024  # decompressed at a time

_GZIP = 31  # wbits of zlib for gzip
_GZIP_START = b"\x1f\x8b"


class HttpBody(NamedTuple):
    """The bytes read, and whether the body was longer."""

    data: bytes
    truncated: bool


def read(response: Response, max_bytes: int) -> HttpBody:
    """Return at most `max_bytes` bytes of a body, decompressed."""
    encodings = [word.strip().lower() for word in response.headers.get("content-encoding", "").split(",")]
    encodings = [word for word in encodings if word not in ("", "identity")]
    if len(encodings) > 1 or not set(encodings) <= {"gzip", "x-gzip", "deflate"}:
        raise ToolError(
            "network_error",
            f"The response has the encoding {', '.join(encodings)[:100]!a}, which was not requested.",
            suggestion="Try another address.",
        )
    pieces = _decompressed(response.chunks, encodings[0]) if encodings else response.chunks
    data = bytearray()
    try:
        for piece in pieces:
            data += piece
            if len(data) > max_bytes:
                return HttpBody(bytes(data[:max_bytes]), truncated=True)
    except BrokenConnection:
        return HttpBody(bytes(data), truncated=True)
    except zlib.error as error:
        if not data:
            raise ToolError(
                "network_error", f"The response is not valid {encodings[0]}: {error}.", suggestion="Try later."
            ) from error
        return HttpBody(bytes(data), truncated=True)
    return HttpBody(bytes(data), truncated=False)


def _decompressed(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Decompress in small steps, because a few bytes may expand to gigabytes."""
    decompressor = None
    has_started = False
    for chunk in chunks:
        data = chunk
        while data:
            if decompressor is None:
                if has_started and not data.startswith(_GZIP_START[:1]):
                    return  # trailing garbage after the last gzip member
                decompressor, has_started = zlib.decompressobj(_format(encoding, data)), True
            yield decompressor.decompress(data, STEP_BYTES)
            data = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
            decompressor = None if decompressor.eof else decompressor
    if decompressor is not None:
        raise BrokenConnection


def _format(encoding: str, start: bytes) -> int:
    """Return wbits for zlib; some servers send deflate without the zlib header."""
    if encoding != "deflate":
        return _GZIP
    is_zlib = start[0] & 0x0F == 8 and (len(start) < 2 or (start[0] << 8 | start[1]) % 31 == 0)
    return zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS
