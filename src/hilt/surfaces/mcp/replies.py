"""The reply to an HTTP request: JSON if the result is the first message, otherwise a buffered stream of events.

The SDK always answers requests of the older protocol with a stream, and an unread stream blocks all others of its
session. Some clients reject events over 1 MiB, but accept JSON of any size.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Self

HOLD_SECONDS = 10.0  # to wait for a result that can be sent as JSON
UNREAD_BYTES = 1 << 20  # of a stream; beyond this, notifications are dropped

Sent = MutableMapping[str, Any]
Send = Callable[[Sent], Awaitable[None]]

_EVENT = b"event: message\r\ndata: "
_NOTE = _EVENT + b'{"jsonrpc":"2.0","method":'
_STREAM = b"text/event-stream"
_LAST: Sent = {"type": "http.response.body", "body": b"", "more_body": False}
_STREAM_HEADERS = (b"content-type", b"connection", b"x-accel-buffering")


class Reply:
    """The `send` function of one request; senders never wait for the reader of a stream."""

    def __init__(self, send: Send, *, holds: bool) -> None:
        """With `holds`, delay the start of a stream, which may become JSON."""
        self._send = send
        self._holds = holds
        self._held: Sent | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._streams = False
        self._answered = False
        self._unread = 0
        self._queue: deque[Sent] = deque()
        self._writer: asyncio.Task[None] | None = None

    async def __call__(self, message: Sent) -> None:
        if message["type"] == "http.response.start":
            self._streams = _is_stream(message)
            if self._streams and self._holds:
                self._held = message
                self._timer = asyncio.get_running_loop().call_later(HOLD_SECONDS, self._release)
                return
        if not self._streams:
            await self._send(message)
        elif self._held is not None and (answer := _answer(message.get("body", b""))) is not None:
            self._answer(self._held, answer)
        elif not self._answered:
            self._release()
            self._put(message)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, failed: object, *_: object) -> None:
        """Wait until the client has read everything."""
        try:
            if self._held is not None and failed is None:
                self._release()
                self._put(_LAST)
            if self._writer is not None and failed is None:
                await self._writer
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._writer is not None:
                self._writer.cancel()

    def _answer(self, start: Sent, body: bytes) -> None:
        self._answered, self._held = True, None
        headers = [(name, value) for name, value in start["headers"] if name not in _STREAM_HEADERS]
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        self._put({**start, "headers": headers})
        self._put({**_LAST, "body": body})

    def _release(self) -> None:
        """Start the delayed stream."""
        held, self._held = self._held, None
        if held is not None:
            self._put(held)

    def _put(self, message: Sent) -> None:
        body = message.get("body", b"")
        if self._unread + len(body) > UNREAD_BYTES and body.startswith((_NOTE, b":")):
            return
        self._unread += len(body)
        self._queue.append(message)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self._queue:
            message = self._queue.popleft()
            await self._send(message)
            self._unread -= len(message.get("body", b""))


class Joined:
    """The stream that answers a batch, joined from the responses to its messages."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._began = False
        self._rejected: list[tuple[Sent, Sent]] = []

    def part(self) -> Send:
        """Return the `send` function of one message."""
        start: Sent = {}

        async def send(message: Sent) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message.get("body") and _is_stream(start):
                await self._write(message["body"])
            elif start["status"] >= 400:
                self._rejected.append((start, message))

        return send

    async def end(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Send the remaining answers and end the stream; if every message was rejected, send the rejection itself."""
        if self._rejected and not self._began:
            for message in self._rejected[0]:
                await self._send(message)
            return
        for body in (
            *(message["body"] for _, message in self._rejected),
            *(json.dumps(answer).encode() for answer in answers),
        ):
            await self._write(_EVENT + body + b"\r\n\r\n")
        if not self._began:
            await self._send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await self._send(_LAST)

    async def _write(self, event: bytes) -> None:
        if not self._began:
            self._began = True
            headers = [(b"content-type", _STREAM), (b"cache-control", b"no-cache, no-transform")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": event, "more_body": True})


def _is_stream(start: Sent) -> bool:
    headers: dict[bytes, bytes] = dict(start["headers"])
    return headers.get(b"content-type", b"").startswith(_STREAM)


_VALUE = json.JSONDecoder().raw_decode


def _answer(event: bytes) -> bytes | None:
    """Return the message of an event that answers a request; None for requests and notifications of the server."""
    start = b'{"jsonrpc":"2.0","id":'
    if not event.startswith(_EVENT + start):
        return None
    message = event[len(_EVENT) :].rstrip(b"\r\n")
    text = message.decode()
    _, end = _VALUE(text, len(start))
    return message if text.startswith((',"result":', ',"error":'), end) else None
