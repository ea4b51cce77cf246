"""MCP over standard input and output: one JSON-RPC message per line, and nothing else.

The lines are read and written here instead of by the SDK, so that invalid lines are answered, unread output does not
pile up, and no library can print into the protocol.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from mcp.server.lowlevel.server import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from mcp_types.jsonrpc import ErrorData, JSONRPCError, JSONRPCRequest, JSONRPCResponse

from hilt import wire
from hilt.errors import ToolError
from hilt.surfaces.mcp.messages import BATCHES, InvalidMessage, Message, batch_of, message_of
from hilt.surfaces.mcp.standard_streams import Wires

REQUESTS_MAX = 512  # active requests; at this limit, reading pauses
UNREAD_BYTES = 16 << 20  # of answers that the client has not read; beyond this, reading pauses
LINES_MAX = 256  # lines read and not yet handled
FLUSH_SECONDS = 1.0
BUSY = -32000

_CHUNK_BYTES = 1 << 18
_IN_USE = "a request with this id is still active"


async def serve(server: Server[Any], wires: Wires, asks: Callable[[], bool]) -> None:
    """Serve one client until its input ends; `asks` returns whether a call waits for an answer from the client."""
    output = await _ReplyStream.open(wires.output)
    input = _Input(output, asks)
    stop = await input.open(wires.input)
    try:
        await serve_dual_era_loop(server, input, output, lifespan_state={})
    finally:
        stop()
        await output.flush(FLUSH_SECONDS)


class _RequestBatch:
    """The requests of a batch, whose answers are sent together."""

    def __init__(self, open: set[Any], answers: list[dict[str, Any]]) -> None:
        self.open = open
        self.answers = answers


class _ReplyStream(asyncio.BaseProtocol):
    """The stream that the SDK writes messages to."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._descriptor = -1
        self._room = asyncio.Event()
        self._room.set()
        self._is_last = False
        self._lock = asyncio.Lock()
        self.settled: Callable[[Any], None] = lambda id: None  # called with the id of each answered request
        self.lost: Callable[[], None] = lambda: None  # called when the client has closed its end
        self.has_read: Callable[[], None] = lambda: None
        self.has_asked: Callable[[], None] = lambda: None
        self.asked: set[Any] = set()  # ids of our requests that the client has not answered
        self.version = ""  # of the protocol, set by the handshake
        self.batches: dict[Any, _RequestBatch] = {}  # by the ids of unanswered requests

    @classmethod
    async def open(cls, descriptor: int) -> _ReplyStream:
        """Return a stream that writes to a descriptor of any kind."""
        output = cls()
        output._descriptor = descriptor
        if _is_pipe(descriptor):
            loop = asyncio.get_running_loop()
            file = os.fdopen(descriptor, "wb", buffering=0)
            output._transport, _ = await loop.connect_write_pipe(lambda: output, file)
            output._transport.set_write_buffer_limits(high=UNREAD_BYTES)
        return output

    def pause_writing(self) -> None:
        """Pause: the client does not read."""
        if not self._is_last:
            self._room.clear()

    def resume_writing(self) -> None:
        """Resume: the client has read."""
        self._room.set()
        self.has_read()

    def connection_lost(self, error: Exception | None) -> None:
        """Stop waiting: the client has disconnected."""
        self._room.set()
        self.lost()

    def finish(self) -> None:
        """Stop waiting for the client to read: only the last answers remain."""
        self._is_last = True
        self.resume_writing()

    @property
    def has_room(self) -> bool:
        """Whether the client keeps up with reading."""
        return self._room.is_set()

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self.asked.add(message.id)
            self.has_asked()
        if isinstance(message, JSONRPCResponse):
            self.version = message.result.get("protocolVersion", self.version)
            await self.answer(message.id, {"jsonrpc": "2.0", "id": message.id, "result": message.result})
        elif isinstance(message, JSONRPCError):
            await self.answer(message.id, message.model_dump(mode="json", by_alias=True, exclude_unset=True))
        else:
            await self.write(message.model_dump(mode="json", by_alias=True, exclude_unset=True))
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self.settled(message.id)

    async def answer(self, id: Any, message: dict[str, Any] | None) -> None:
        """Write an answer, or a batch of them once it is complete; None means that a request has no answer."""
        batch = self.batches.pop(id, None)
        if batch is not None:
            batch.open.discard(id)
            batch.answers += [message] if message is not None else []
            if batch.answers and not batch.open:
                await self.write(batch.answers)
        elif message is not None:
            await self.write(message)

    async def write(self, message: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Write one line, once the client keeps up with reading."""
        async with self._lock:
            await self._room.wait()
            data = _encoded(message)
            if self._transport is None:
                with suppress(OSError):
                    await _in_thread(lambda: _write_all(self._descriptor, data))
            elif not self._transport.is_closing():
                self._transport.write(data)

    async def flush(self, seconds: float) -> None:
        """Wait up to this long until everything is read, then close the descriptor."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        for batch in set(self.batches.values()):
            if batch.answers:
                transport.write(_encoded(batch.answers))  # the other requests will not be answered
        self._is_last = False
        transport.set_write_buffer_limits(high=0)
        if transport.get_write_buffer_size():
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._room.wait()
        transport.abort()

    async def aclose(self) -> None:
        """Do nothing: the last answers may still be unsent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class _Input(asyncio.Protocol):
    """The stream that the SDK reads messages from; answers invalid lines itself."""

    def __init__(self, output: _ReplyStream, asks: Callable[[], bool]) -> None:
        self._output = output
        self._asks = asks
        self._lines: deque[bytes | ToolError] = deque()
        self._part = bytearray()
        self._skipped = 0  # bytes of an overlong line
        self._ended = False
        self._more = asyncio.Event()
        self._parts: deque[Message] = deque()  # of a batch
        self._waiting: deque[JSONRPCRequest] = deque()  # until the client has read
        self._under_way: set[Any] = set()
        self._fewer = asyncio.Event()
        self._pause: Callable[[], None] = lambda: None
        self._resume: Callable[[], None] = lambda: None
        output.settled = self._settled
        output.lost = self._end
        output.has_read = self._more.set
        output.has_asked = self._fewer.set

    async def open(self, descriptor: int) -> Callable[[], None]:
        """Start reading a descriptor of any kind; return a function that stops it."""
        loop = asyncio.get_running_loop()
        if not _is_pipe(descriptor):
            return self._read_in_thread(loop, descriptor)
        transport, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(descriptor, "rb", buffering=0))
        self._pause, self._resume = transport.pause_reading, transport.resume_reading
        return transport.close

    def _read_in_thread(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> Callable[[], None]:
        free = threading.Event()
        free.set()
        self._pause, self._resume = free.clear, free.set

        def read() -> None:
            data = b"\n"
            while data:
                free.wait()
                try:
                    data = os.read(descriptor, _CHUNK_BYTES)
                except OSError:
                    data = b""
                with suppress(RuntimeError):  # the loop has ended
                    if data:
                        loop.call_soon_threadsafe(self.data_received, data)
                    else:
                        loop.call_soon_threadsafe(self.eof_received)

        threading.Thread(target=read, name="hilt-input", daemon=True).start()
        return lambda: None

    # --- bytes into lines -----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Split the received bytes into lines."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._finish(line)
        self._keep(rest)
        if len(self._lines) > LINES_MAX:
            self._pause()
        self._more.set()

    def _keep(self, data: bytes) -> None:
        if self._skipped or len(self._part) + len(data) > wire.MAX_REQUEST_BYTES + 1:
            self._skipped += len(self._part) + len(data)
            self._part.clear()
        else:
            self._part += data

    def _finish(self, data: bytes) -> None:
        self._keep(data)
        if self._skipped:
            self._lines.append(wire.too_large(self._skipped))
            self._skipped = 0
        else:
            self._lines.append(bytes(self._part))
        self._part.clear()

    def eof_received(self) -> None:
        """Handle a last line without a newline, and end."""
        if self._part.strip():
            self._finish(b"")
        self._end()

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._fewer.set()
        self._output.finish()

    def _resume_reading(self) -> None:
        if not self._ended:
            with suppress(RuntimeError):
                self._resume()

    # --- lines into messages --------------------------------------------------------------------------------------

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            await asyncio.sleep(0)  # let other tasks run during a flood of lines
            try:
                message = await self._next()
            except InvalidMessage as wrong:
                if wrong.id in self._output.asked:
                    return SessionMessage(_failed(wrong))
                if not wrong.is_error:
                    await self._output.write(wrong.answer)
                continue
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                self._output.asked.discard(message.id)
            if not isinstance(message, JSONRPCRequest):
                return SessionMessage(message)
            if message.id in self._under_way:
                await self._refuse(message.id, INVALID_REQUEST, _IN_USE)
            elif await self._has_room():
                self._under_way.add(message.id)
                return SessionMessage(message, self._metadata(message.id))
            else:
                await self._refuse(message.id, BUSY, f"{REQUESTS_MAX} requests are active")

    async def _next(self) -> Message:
        """Return the next message. While the client does not read, requests wait, but cancellations do not."""
        while True:
            if self._waiting and self._output.has_room:
                return self._waiting.popleft()
            if (self._parts or self._lines) and len(self._waiting) < LINES_MAX:
                message = self._parts.popleft() if self._parts else await self._message(self._lines.popleft())
                if isinstance(message, JSONRPCRequest) and not self._output.has_room:
                    self._waiting.append(message)
                elif message is not None:
                    return message
            elif self._ended:
                raise StopAsyncIteration
            else:
                self._more.clear()
                if not self._lines:
                    self._resume_reading()
                await self._more.wait()

    async def _message(self, line: bytes | ToolError) -> Message | None:
        """Return the message of a line; None for an empty line, and for a batch, whose messages are queued."""
        if isinstance(line, ToolError):
            raise InvalidMessage(INVALID_REQUEST, line.message)
        if not line.strip():
            return None
        try:
            value = wire.decode_value(line)
        except ToolError as error:
            raise InvalidMessage(PARSE_ERROR, error.message) from None
        if not isinstance(value, list) or self._output.version != BATCHES:
            return message_of(value)
        await self._take(*batch_of(value))
        return None

    async def _take(self, messages: list[Message], wrong: list[InvalidMessage]) -> None:
        """Queue the messages of a batch; its errors are answered together with the rest."""
        known = self._output.batches
        batch = _RequestBatch(set(), [])
        for message in messages:
            if not isinstance(message, JSONRPCRequest):
                self._parts.append(message)
            elif message.id in self._under_way or message.id in known:
                wrong.append(InvalidMessage(INVALID_REQUEST, _IN_USE, message.id))
            else:
                self._parts.append(message)
                batch.open.add(message.id)
        asked = self._output.asked
        self._parts += [_failed(error) for error in wrong if error.id in asked]
        batch.answers += [error.answer for error in wrong if error.id not in asked and not error.is_error]
        known.update(dict.fromkeys(batch.open, batch))
        if batch.answers and not batch.open:
            await self._output.write(batch.answers)

    async def _has_room(self) -> bool:
        """Wait for room, unless the message that would make room may be queued behind this request."""
        while len(self._under_way) >= REQUESTS_MAX:
            if self._asks() or self._ended:
                return False
            self._fewer.clear()
            await self._fewer.wait()
        return True

    def _metadata(self, id: Any) -> ServerMessageMetadata:
        async def unanswered() -> None:
            await self._output.answer(id, None)
            self._settled(id)

        return ServerMessageMetadata(on_request_unanswered=unanswered)

    def _settled(self, id: Any) -> None:
        self._under_way.discard(id)
        self._fewer.set()

    async def _refuse(self, id: Any, code: int, reason: str) -> None:
        await self._output.answer(id, InvalidMessage(code, reason, id).answer)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        return await self.__anext__()

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        """Stop reading."""
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _failed(wrong: InvalidMessage) -> JSONRPCError:
    """Return an invalid response to one of our requests as a failed one."""
    known = ErrorData(code=wrong.code, message=wrong.reason)
    return JSONRPCError.model_construct(jsonrpc="2.0", id=wrong.id, error=known)


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _encoded(message: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    text = _COMPACT(message)
    if not text.isascii():
        # some readers treat these as line ends, and would split the message

        text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")
    return text.encode("utf-8", "replace") + b"\n"


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


async def _in_thread(work: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)
