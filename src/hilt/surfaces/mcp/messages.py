"""JSON-RPC messages of MCP clients: validation, batches, and the streams between the front loop and the SDK.

Invalid messages are answered here instead of by the SDK.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import mcp  # noqa: F401  # all of it before its modules, which import each other, or two threads fail
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INVALID_REQUEST
from mcp_types.jsonrpc import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from hilt.surfaces.mcp.front import Front, SdkThread
from hilt.surfaces.mcp.lines import IN_USE, LINES_MAX, LineOutput
from hilt.surfaces.mcp.plain import BATCHES, error_response
from hilt.surfaces.mcp.server import Serving

BATCH_MAX = 256

Message = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError


class InvalidMessage(Exception):
    """An invalid message: the reason, and its id if it has one."""

    def __init__(self, code: int, reason: str, id: Any = None, *, is_error: bool = False) -> None:
        self.code = code
        self.reason = reason
        self.id = id
        self.is_error = is_error  # an error message, which must not be answered with another

    @property
    def answer(self) -> dict[str, Any]:
        """The error response."""
        return error_response(self.id, self.code, self.reason)


def message_of(value: Any) -> Message:
    """Return the message in a decoded value."""
    if not isinstance(value, dict):
        reason = "batches are not supported" if isinstance(value, list) else "a message must be a JSON object"
        raise InvalidMessage(INVALID_REQUEST, reason)
    id = value.get("id")
    has_id = isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool))
    valid_id = id if has_id else None
    if value.get("jsonrpc") != "2.0":
        raise InvalidMessage(INVALID_REQUEST, 'jsonrpc must be "2.0"', valid_id)
    if "method" not in value:
        return _response(value, valid_id)
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        raise InvalidMessage(INVALID_REQUEST, "method must be a string", valid_id)
    if "id" in value and not has_id:
        raise InvalidMessage(INVALID_REQUEST, "id must be a string or an integer")
    if not isinstance(params, dict) and "params" in value:
        raise InvalidMessage(INVALID_REQUEST, "params must be an object", valid_id)
    if has_id:
        return JSONRPCRequest.model_construct(jsonrpc="2.0", id=id, method=method, params=params)
    return JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params)


def _response(value: dict[str, Any], id: Any) -> JSONRPCResponse | JSONRPCError:
    """Return the client's response to one of our requests."""
    error, result = value.get("error"), value.get("result")
    if isinstance(result, dict) and id is not None:
        return JSONRPCResponse.model_construct(jsonrpc="2.0", id=id, result=result)
    if isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str):
        data = ErrorData(code=error["code"], message=error["message"], data=error.get("data"))
        return JSONRPCError.model_construct(jsonrpc="2.0", id=id, error=data)
    reason = "the message has no method" if id is None else "the message has neither method nor result"
    raise InvalidMessage(INVALID_REQUEST, reason, id, is_error=error is not None)


def batch_of(values: list[Any]) -> tuple[list[Message], list[InvalidMessage]]:
    """Return the messages of a batch, and the errors of those that are invalid."""
    if not 0 < len(values) <= BATCH_MAX:
        raise InvalidMessage(INVALID_REQUEST, f"a batch must have 1 to {BATCH_MAX} messages, not {len(values)}")
    messages: list[Message] = []
    invalid: list[InvalidMessage] = []
    ids: set[str] = set()
    for value in values:
        try:
            message = message_of(value)
            if isinstance(message, JSONRPCRequest):
                if message.method == "initialize":
                    raise InvalidMessage(INVALID_REQUEST, "initialize must not be in a batch", message.id)

                if str(message.id) in ids:
                    raise InvalidMessage(INVALID_REQUEST, "another request of the batch has this id", message.id)
                ids.add(str(message.id))
        except InvalidMessage as error:
            invalid.append(error)
        else:
            messages.append(message)
    return messages, invalid


# --- streams --------------------------------------------------------------------------------------------------------


async def serve(serving: Serving, output: LineOutput, front: Front, thread: SdkThread) -> None:
    """Serve one client until its input ends."""
    replies = _ReplyStream(output, front.replayed)
    messages = _ClientMessages(replies, front, thread)
    try:
        await serve_dual_era_loop(serving.server, messages, replies, lifespan_state={})
    finally:
        replies.end()
        serving.close()


class _RequestBatch:
    """The requests of a batch, whose answers are sent together."""

    def __init__(self, open: set[Any], answers: list[dict[str, Any]]) -> None:
        self.open = open
        self.answers = answers


class _ReplyStream:
    """The stream that the SDK writes messages to."""

    def __init__(self, output: LineOutput, replayed: str) -> None:
        self._output = output
        self._replayed = replayed
        self.settled: Callable[[Any], None] = lambda id: None  # called with the id of each answered request
        self.has_asked: Callable[[], None] = lambda: None
        self.asked: set[Any] = set()  # ids of our requests that the client has not answered
        self.version = ""  # of the protocol, set by the handshake
        self.batches: dict[Any, _RequestBatch] = {}  # by the ids of unanswered requests

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self.asked.add(message.id)
            self.has_asked()
        elif isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self.settled(message.id)  # first, because the client may reuse the id as soon as it has the response
        if isinstance(message, JSONRPCResponse):
            self.version = message.result.get("protocolVersion", self.version)
            await self.answer(message.id, {"jsonrpc": "2.0", "id": message.id, "result": message.result})
        elif isinstance(message, JSONRPCError):
            await self.answer(message.id, message.model_dump(mode="json", by_alias=True, exclude_unset=True))
        else:
            self.write(message.model_dump(mode="json", by_alias=True, exclude_unset=True))

    async def answer(self, id: Any, message: dict[str, Any] | None) -> None:
        """Write a response, or a batch once it is complete; None means that a request gets no response."""
        batch = self.batches.pop(id, None)
        if batch is not None:
            batch.open.discard(id)
            batch.answers += [message] if message is not None else []
            if batch.answers and not batch.open:
                self.write(batch.answers)
        elif message is not None and id != self._replayed:
            self.write(message)

    def write(self, message: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Write one line."""
        self._output.send(message)

    def end(self) -> None:
        """Write the responses of incomplete batches."""
        for batch in set(self.batches.values()):
            if batch.answers:
                self.write(batch.answers)

    async def aclose(self) -> None:
        """Do nothing: the last responses may still be unsent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class _ClientMessages:
    """The stream that the SDK reads messages from; answers invalid messages itself."""

    def __init__(self, output: _ReplyStream, front: Front, thread: SdkThread) -> None:
        self._output = output
        self._front = front
        self._thread = thread
        self._more = asyncio.Event()  # set when a message or the end may have come
        self._parts: deque[Message] = deque()  # of a batch
        self._active: set[Any] = set()
        self._loop = asyncio.get_running_loop()
        output.settled = self._settled
        output.has_asked = front.resume
        thread.active = self._active
        thread.wake = self._wake

    def _wake(self) -> None:
        """Check again for messages; called from any thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._more.set)

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            await asyncio.sleep(0)  # let other tasks run during a flood of lines
            try:
                message = await self._next()
            except InvalidMessage as error:
                if error.id in self._output.asked:
                    return SessionMessage(_error_response(error))
                if not error.is_error:
                    self._output.write(error.answer)
                continue
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                self._output.asked.discard(message.id)
            if not isinstance(message, JSONRPCRequest):
                return SessionMessage(message)
            if message.id in self._active:
                await self._output.answer(message.id, InvalidMessage(INVALID_REQUEST, IN_USE, message.id).answer)
            else:
                self._active.add(message.id)
                return SessionMessage(message, self._metadata(message.id))

    async def _next(self) -> Message:
        """Return the next message."""
        while True:
            if self._parts:
                return self._parts.popleft()
            self._more.clear()
            if waiting := self._thread.messages:
                if len(waiting) == LINES_MAX:
                    self._front.resume()
                value = waiting.popleft()
                if not isinstance(value, list) or self._output.version != BATCHES:
                    return message_of(value)
                self._take(*batch_of(value))
            elif self._thread.has_ended:
                raise StopAsyncIteration
            else:
                await self._more.wait()

    def _take(self, messages: list[Message], invalid: list[InvalidMessage]) -> None:
        """Queue the messages of a batch; its errors are answered together with the rest."""
        batches = self._output.batches
        batch = _RequestBatch(set(), [])
        for message in messages:
            if not isinstance(message, JSONRPCRequest):
                self._parts.append(message)
            elif message.id in self._active or message.id in batches:
                invalid.append(InvalidMessage(INVALID_REQUEST, IN_USE, message.id))
            else:
                self._parts.append(message)
                batch.open.add(message.id)
        asked = self._output.asked
        self._parts += [_error_response(error) for error in invalid if error.id in asked]
        batch.answers += [error.answer for error in invalid if error.id not in asked and not error.is_error]
        batches.update(dict.fromkeys(batch.open, batch))
        if batch.answers and not batch.open:
            self._output.write(batch.answers)

    def _metadata(self, id: Any) -> ServerMessageMetadata:
        async def unanswered() -> None:
            self._settled(id)
            await self._output.answer(id, None)

        return ServerMessageMetadata(on_request_unanswered=unanswered)

    def _settled(self, id: Any) -> None:
        self._active.discard(id)
        self._front.settled(id)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        return await self.__anext__()

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        """Stop reading."""
        self._thread.has_ended = True
        self._more.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _error_response(error: InvalidMessage) -> JSONRPCError:
    """Convert an invalid response to one of our requests into an error response."""
    data = ErrorData(code=error.code, message=error.reason)
    return JSONRPCError.model_construct(jsonrpc="2.0", id=error.id, error=data)
