"""The framing of LSP messages: a header with the length of each message, then JSON; independent of I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MESSAGE_BYTES = 64 << 20
NOISE_BYTES = 1 << 20  # total output that is not part of a message
HEADER_BYTES = 8192

_LENGTH = re.compile(rb"content-length:[ \t]*(\d{1,12})[ \t]*\r?\Z", re.IGNORECASE)
_FIELD = re.compile(rb"[A-Za-z-]+:")


class BrokenStream(Exception):
    """The output of a server breaks the protocol; the message gives the reason."""


def encode(message: dict[str, Any]) -> bytes:
    """Return a message with its header."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Frames:
    """Splits the output of a server into messages; lines that a library prints between them are noise."""

    def __init__(self) -> None:
        self.noise = bytearray()  # only its end
        self._unread = bytearray()
        self._length: int | None = None
        self._in_body = False
        self._noise_bytes = 0

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages that are complete with these bytes."""
        self._unread += data
        while True:
            if not self._in_body and not self._read_header():
                return
            length = self._length or 0
            if len(self._unread) < length:
                return
            body = bytes(self._unread[:length])
            del self._unread[:length]
            self._in_body, self._length = False, None
            yield _decode(body)

    def _read_header(self) -> bool:
        """Consume header lines; return whether a body follows."""
        while (end := self._unread.find(b"\n")) >= 0:
            line = bytes(self._unread[:end])
            del self._unread[: end + 1]
            length = _LENGTH.search(line)
            if length is not None:
                self._add_noise(line[: length.start()])
                self._length = int(length[1])
                if self._length > MESSAGE_BYTES:
                    raise BrokenStream(f"it announced a message of {self._length} bytes")
            elif not line.strip() and self._length is not None:
                self._in_body = True
                return True
            elif self._length is None or not _FIELD.match(line):
                self._add_noise(line + b"\n" if line.strip() else b"")
        if len(self._unread) > HEADER_BYTES:
            self._add_noise(bytes(self._unread))
            self._unread.clear()
        return False

    def _add_noise(self, data: bytes) -> None:
        if data:
            self._noise_bytes += len(data)
            self.noise += data
            del self.noise[:-4096]
            if self._noise_bytes > NOISE_BYTES:
                raise BrokenStream("it printed too much text that is not a message")


def _decode(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise BrokenStream("it sent a message that is not JSON, or whose length is wrong") from None
    if not isinstance(message, dict):
        raise BrokenStream("it sent a message that is not an object")
    return message
