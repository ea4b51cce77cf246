"""MCP over HTTP: on loopback by default, with a token, and protected from web pages."""

from __future__ import annotations

import asyncio
import gc
import hmac
import ipaddress
import json
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Self

import mcp  # noqa: F401  # all of it before its modules, which import each other, or two threads fail
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import decode_header_value
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from mcp_types.jsonrpc import HEADER_MISMATCH

from hilt import wire
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces import Usage
from hilt.surfaces.http.listening import Address, HttpServer, listen, server_config
from hilt.surfaces.http.requests import (
    BODY_BYTES,
    BadBody,
    Disconnected,
    OwnHosts,
    Receive,
    Scope,
    bearer,
    headers_of,
    read_body,
)
from hilt.surfaces.http.tokens import stored_token
from hilt.surfaces.mcp.command import ServeOptions
from hilt.surfaces.mcp.content import Choice
from hilt.surfaces.mcp.messages import InvalidMessage, batch_of, message_of
from hilt.surfaces.mcp.plain import BATCHES
from hilt.surfaces.mcp.server import TASK_METHODS, Serving
from hilt.surfaces.mcp.sessions import IDLE_SECONDS, SESSIONS_MAX, Session

PATH = "/mcp"
TOKEN_FILE = "mcp-token"  # noqa: S105 -- its name
REFUSED = -32000
HOLD_SECONDS = 10.0  # to wait for a result that can be sent as JSON
UNREAD_BYTES = 1 << 20  # of a stream; beyond this, notifications are dropped

Sent = MutableMapping[str, Any]
Send = Callable[[Sent], Awaitable[None]]

_EVENT = b"event: message\r\ndata: "
_NOTE = _EVENT + b'{"jsonrpc":"2.0","method":'
_STREAM = b"text/event-stream"
_LAST: Sent = {"type": "http.response.body", "body": b"", "more_body": False}
_STREAM_HEADERS = (b"content-type", b"connection", b"x-accel-buffering")


def url_of(address: Address) -> str:
    """Return the URL of the server."""
    return f"http://{address.netloc}{PATH}"


async def over_http(runtime: Runtime, flags: ServeOptions, single: str | None) -> None:
    """Serve HTTP until cancelled."""
    address = read_address(flags.http or "")
    token = _token(runtime, address, required=flags.token)
    listener = listen(address)
    address = address._replace(port=listener.getsockname()[1])
    choice = Choice(flags.search, flags.lean)
    serving = Serving(runtime, choice, single=None if single is None else Session(single))
    manager = session_manager(serving)
    config = server_config(RequestGuard(manager.handle_request, OwnHosts(address), token), ws="none")
    server = HttpServer(config)
    gc.freeze()
    gc.enable()
    tidying = asyncio.create_task(serving.tidy())
    try:
        async with manager.run():
            if not address.is_loopback:
                print("hilt mcp: WARNING: traffic and token are not encrypted on the network.", file=sys.stderr)
            print(f"hilt mcp: listening on {url_of(address)}", file=sys.stderr, flush=True)
            await server.serve(sockets=[listener])
    finally:
        tidying.cancel()
        serving.close()
        listener.close()


def session_manager(serving: Serving) -> StreamableHTTPSessionManager:
    """Return the SDK's sessions for a server, with our limits."""
    return StreamableHTTPSessionManager(
        serving.server,
        session_idle_timeout=IDLE_SECONDS,
        max_request_body_size=BODY_BYTES,
        max_sessions=SESSIONS_MAX,
    )


def read_address(text: str) -> Address:
    """Parse the address to listen on; an empty text means any free port of 127.0.0.1."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = (text, "0") if not text.isdecimal() else ("", text)
    host = host.strip("[]") or "127.0.0.1"
    host = {"localhost": "127.0.0.1"}.get(host, host)
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError:
        raise Usage(f"--http takes an address such as 127.0.0.1:8000, not {text!r}") from None
    if not port.isdecimal() or number > 65535:
        raise Usage(f"--http takes a port from 0 to 65535, not {port}")
    return Address(host, number)


# --- access control -------------------------------------------------------------------------------------------------


def _token(runtime: Runtime, address: Address, *, required: bool) -> str | None:
    """Return the token that clients must send; print it once, when it is created."""
    if not required:
        if not address.is_loopback:
            raise Usage("--no-token needs a loopback address: otherwise anyone on the network could run commands")
        print(
            "hilt mcp: WARNING: without a token, every program and user on this machine can use these tools.",
            file=sys.stderr,
        )
        return None
    token = stored_token(runtime.parts.state, TOKEN_FILE)
    if token.is_new:
        print(
            f"hilt mcp: the token of this server, printed only once, is {token.text}\n"
            f"           It is stored in {token.path}. Clients send it as the header: Authorization: Bearer TOKEN",
            file=sys.stderr,
        )
    return token.text


class RequestGuard:
    """Rejects requests without the token, for another host, or from web pages of another origin."""

    def __init__(self, app: Callable[..., Awaitable[None]], access: OwnHosts | None, token: str | None) -> None:
        """Forward valid requests to `app`. `access` or `token` is None if something else has checked it."""
        self._app = app
        self._access = access
        self._active: set[tuple[bytes | None, str | None]] = set()  # active requests, by session and id
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _reject(send, *refusal)
        elif scope["method"] == "POST":
            await self._post(scope, receive, send)
        else:
            async with Reply(send, holds=False) as reply:
                await self._app(scope, receive, reply)

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Validate the body like every other surface, and forward the request."""
        try:
            body = await read_body(headers_of(scope["headers"]), receive)
        except BadBody as error:
            await _reject(send, error.status, error.reason)
            return
        except Disconnected:
            return
        try:
            value = wire.decode_value(body)
        except ToolError as error:
            await _reject(send, 400, error.message, PARSE_ERROR)
            return
        is_batch = isinstance(value, list) and _header(scope, b"mcp-protocol-version") in (None, BATCHES.encode())
        try:
            if not is_batch:
                message_of(value)
        except InvalidMessage as error:
            if error.id is not None and "method" not in value:
                # a call may be waiting for this response: report it as failed
                await self._forward(scope, error.answer, json.dumps(error.answer).encode(), receive, _discard)
            await _reject(send, 400, error.reason, error.code, error.id)
            return
        if not is_batch and not _has_task_header(scope, value):
            reason = "the Mcp-Name header does not match params.taskId"
            await _reject(send, 400, reason, HEADER_MISMATCH, value.get("id"))
            return
        async with Reply(send, holds=not is_batch) as reply:
            if is_batch:
                await self._batch(scope, value, receive, reply)
            else:
                await self._forward(scope, value, body, receive, reply)

    async def _forward(self, scope: Scope, value: dict[str, Any], body: bytes, receive: Receive, send: Send) -> None:
        """Forward one message, unless a request of the session with the same id is still active."""
        key = _header(scope, b"mcp-session-id"), str(value["id"]) if {"id", "method"} <= value.keys() else None
        if key in self._active:
            await _reject(send, 400, "a request with this id is still active", INVALID_REQUEST, value["id"])
            return
        unread: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replayed() -> MutableMapping[str, Any]:
            return unread.pop() if unread else await receive()

        if None not in key:
            self._active.add(key)
        try:
            await self._app(scope, replayed, send)
        finally:
            self._active.discard(key)

    async def _batch(self, scope: Scope, values: list[Any], receive: Receive, send: Send) -> None:
        """Forward the messages of a batch separately, and join their responses."""
        try:
            messages, invalid = batch_of(values)
        except InvalidMessage as error:
            await _reject(send, 400, error.reason, error.code)
            return
        if _header(scope, b"mcp-session-id") is None:
            await _reject(send, 400, "a batch needs a session", INVALID_REQUEST)
            return
        joined = Joined(send)
        async with asyncio.TaskGroup() as tasks:
            for message in messages:
                value = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
                work = self._forward(scope, value, json.dumps(value).encode(), receive, joined.part())
                tasks.create_task(work)
        await joined.end([error.answer for error in invalid if not error.is_error])

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = headers_of(scope["headers"])
        refusal = None if self._access is None else self._access.refusal(headers)
        if refusal is not None:
            return refusal
        if self._token is not None and not hmac.compare_digest(bearer(headers) or b"", self._token):
            return 401, "the token is missing or invalid"
        if scope["path"] != PATH:
            return 404, f"the only path is {PATH}"
        return None


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


def _has_task_header(scope: Scope, message: dict[str, Any]) -> bool:
    """Whether a request about a task has the task id in its Mcp-Name header; the SDK checks other requests."""
    params = message.get("params")
    if message.get("method") not in TASK_METHODS or not isinstance(params, dict) or "taskId" not in params:
        return True
    name = _header(scope, b"mcp-name")
    return name is not None and decode_header_value(name.decode("latin-1").strip()) == params["taskId"]


async def _discard(message: MutableMapping[str, Any]) -> None:
    return None


async def _reject(send: Send, status: int, reason: str, code: int = REFUSED, id: Any = None) -> None:
    body = json.dumps(InvalidMessage(code, reason, id).answer).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),  # a rejected client must not keep a connection open
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# --- replies --------------------------------------------------------------------------------------------------------


class Reply:
    """The `send` function of one request: JSON if the result is the first message, otherwise a stream of events.

    The SDK always answers requests of the older protocol with a stream, and an unread stream blocks all others of its
    session, so senders never wait for the reader. Some clients reject events over 1 MiB, but accept JSON of any size.
    """

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
