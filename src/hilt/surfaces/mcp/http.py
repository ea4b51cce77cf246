"""MCP over HTTP: on loopback by default, with a token, and out of reach of web pages."""

from __future__ import annotations

import asyncio
import gc
import hmac
import ipaddress
import json
import os
import resource
import secrets
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import decode_header_value
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from mcp_types.jsonrpc import HEADER_MISMATCH
from uvicorn.protocols.http.h11_impl import H11Protocol

from hilt import wire
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.cli import Usage
from hilt.surfaces.mcp.command import ServeOptions
from hilt.surfaces.mcp.messages import BATCHES, InvalidMessage, batch_of, message_of
from hilt.surfaces.mcp.replies import Joined, Reply, Send
from hilt.surfaces.mcp.resources import Provider
from hilt.surfaces.mcp.server import TASK_METHODS, Serving
from hilt.surfaces.mcp.sessions import IDLE_SECONDS, SESSIONS_MAX, Session
from hilt.surfaces.mcp.tool_list import Choice

PATH = "/mcp"
TOKEN_FILE = "mcp-token"  # noqa: S105 -- its name
BODY_BYTES = 16 << 20
BODY_SECONDS = 30
VALUES_MAX = 500_000  # in a body; decoding one blocks the server
HEAD_SECONDS = 10  # for the request line and the headers
CONNECTIONS_MAX = 512
HEADER_BYTES = 64 << 10
STOP_SECONDS = 2
REFUSED = -32000

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def url(self) -> str:
        """The address of the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"


async def over_http(runtime: Runtime, flags: ServeOptions, single: str | None, providers: Sequence[Provider]) -> None:
    """Serve HTTP until cancelled."""
    address = read_address(flags.http or "")
    token = _token(runtime, address, wanted=flags.token)
    listener = _listening(address)
    address = address._replace(port=listener.getsockname()[1])
    choice = Choice(flags.search, flags.lean)
    serving = Serving(runtime, choice, single=None if single is None else Session(single), providers=providers)
    manager = StreamableHTTPSessionManager(
        serving.server,
        session_idle_timeout=IDLE_SECONDS,
        max_request_body_size=BODY_BYTES,
        max_sessions=SESSIONS_MAX,
    )
    config = uvicorn.Config(
        RequestGuard(manager.handle_request, address, token),
        http=_HttpConnection,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_connections_max(),
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    server = _Uvicorn(config)
    gc.freeze()
    gc.enable()
    tidying = asyncio.create_task(serving.tidy())
    try:
        async with manager.run():
            if not address.is_loopback:
                print("hilt mcp: WARNING: traffic and token are not encrypted on the network.", file=sys.stderr)
            print(f"hilt mcp: listening on {address.url}", file=sys.stderr, flush=True)
            await server.serve(sockets=[listener])
    finally:
        tidying.cancel()
        serving.close()
        listener.close()


class _HttpConnection(H11Protocol):
    """A connection that, at the limit, replaces an idle one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """At the limit, close the oldest connection without a request, or else the oldest that was answered."""
        super().connection_made(transport)
        self.since = time.monotonic()
        if len(self.connections) < (self.limit_concurrency or CONNECTIONS_MAX):
            return
        others = [other for other in self.connections if isinstance(other, _HttpConnection) and other is not self]
        idle = [other for other in others if other.is_idle]
        if idle:
            oldest = min(idle, key=lambda other: (other.cycle is not None, other.since))
            self.connections.discard(oldest)
            oldest.transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether there is no request, or only an answered one."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete


class _Uvicorn(uvicorn.Server):
    """Closes idle connections, which would block others without needing a token."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        # connections without a request, or with an answered one, and since when
        self._idle: dict[tuple[Any, Any], float] = {}

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the caller."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Close connections that have been idle too long; called ten times a second."""
        now = time.monotonic()
        cycles = [(connection, getattr(connection, "cycle", self)) for connection in self.server_state.connections]
        # after an answer, only a complete request counts, so that single bytes cannot keep a connection open
        idle = [pair for pair in cycles if pair[1] is None or getattr(pair[1], "response_complete", False)]
        self._idle = {pair: self._idle.get(pair, now) for pair in idle}
        for (connection, _), since in self._idle.items():
            if now - since > HEAD_SECONDS:
                connection.transport.close()
        return await super().on_tick(counter)


def _connections_max() -> int:
    """Return the limit of connections, which leaves file descriptors for other uses."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return CONNECTIONS_MAX if limit < 0 else max(min(CONNECTIONS_MAX, limit // 2), 2)


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


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(256)
    except OSError as error:
        listener.close()
        reason = os.strerror(error.errno or 0)
        advice = "Choose another port, or omit it to use any free port."
        raise ToolError("permission_denied", f"Cannot listen on {address.url}: {reason}.", suggestion=advice) from error
    listener.setblocking(False)  # noqa: FBT003 -- the library's signature
    return listener


# --- access control -------------------------------------------------------------------------------------------------


def _token(runtime: Runtime, address: Address, *, wanted: bool) -> str | None:
    """Return the token that clients must send; print it once, when it is created."""
    if not wanted:
        if not address.is_loopback:
            raise Usage("--no-token needs a loopback address: anybody on the network could run commands here")
        print(
            "hilt mcp: WARNING: without a token, every program and user on this machine can use these tools.",
            file=sys.stderr,
        )
        return None
    path = os.path.join(runtime.state, TOKEN_FILE)
    with suppress(FileNotFoundError):
        return _kept_token(path)
    token = secrets.token_urlsafe(32)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _kept_token(path)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
    print(
        f"hilt mcp: the token of this server, printed only once, is {token}\n"
        f"           It is stored in {path}. Clients send it as the header: Authorization: Bearer TOKEN",
        file=sys.stderr,
    )
    return token


def _kept_token(path: str) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), encoding="ascii", errors="replace") as file:
        status = os.fstat(file.fileno())
        token = file.read(1000).strip()
    if status.st_mode & 0o077 or status.st_uid != os.geteuid() or len(token) < 20:
        raise ToolError(
            "permission_denied",
            f"{path} does not contain a token, or others can read it.",
            suggestion="Delete it; the next start creates a new one.",
        )
    return token


class RequestGuard:
    """Rejects requests without the token, for another host, or from web pages of another origin."""

    def __init__(self, app: Callable[..., Awaitable[None]], address: Address, token: str | None) -> None:
        self._app = app
        self._under_way: set[tuple[bytes | None, str | None]] = set()  # active requests, by session and id
        self._token = None if token is None else token.encode()
        names = {address.host}
        if address.is_loopback:
            names |= {"127.0.0.1", "::1", "localhost"}
        hosts = {f"[{host}]" if ":" in host else host for host in names}
        # the default port may be omitted
        self._hosts = {f"{host}:{address.port}" for host in hosts} | (hosts if address.port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}
        if ipaddress.ip_address(address.host).is_unspecified:
            self._hosts = set()  # any host name may resolve to this machine; the token keeps strangers out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(send, *refusal)
        elif scope["method"] == "POST":
            await self._post(scope, receive, send)
        else:
            async with Reply(send, holds=False) as reply:
                await self._app(scope, receive, reply)

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Validate the body as every other surface does, and pass the request on."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(receive)
        except TimeoutError:
            await _refuse(send, 408, f"the body did not arrive within {BODY_SECONDS} s")
            return
        if body is None:
            return  # the client has disconnected
        if len(body) > BODY_BYTES:
            await _refuse(send, 413, f"the body has more than {BODY_BYTES} bytes")
            return
        if _is_heavy(body):
            await _refuse(send, 413, f"the body has more than {VALUES_MAX} values")
            return
        try:
            value = wire.decode_value(body)
        except ToolError as error:
            await _refuse(send, 400, error.message, PARSE_ERROR)
            return
        is_batch = isinstance(value, list) and _header(scope, b"mcp-protocol-version") in (None, BATCHES.encode())
        try:
            if not is_batch:
                message_of(value)
        except InvalidMessage as error:
            if error.id is not None and "method" not in value:
                # a call may be waiting for this response: report it as failed
                await self._one(scope, error.answer, json.dumps(error.answer).encode(), receive, _nowhere)
            await _refuse(send, 400, error.reason, error.code, error.id)
            return
        if not is_batch and not _names_task(scope, value):
            reason = "the Mcp-Name header does not match params.taskId"
            await _refuse(send, 400, reason, HEADER_MISMATCH, value.get("id"))
            return
        async with Reply(send, holds=not is_batch) as reply:
            if is_batch:
                await self._batch(scope, value, receive, reply)
            else:
                await self._one(scope, value, body, receive, reply)

    async def _one(self, scope: Scope, value: dict[str, Any], body: bytes, receive: Receive, send: Send) -> None:
        """Pass one message on, unless a request of the session with the same id is still active."""
        key = _header(scope, b"mcp-session-id"), str(value["id"]) if {"id", "method"} <= value.keys() else None
        if key in self._under_way:
            await _refuse(send, 400, "a request with this id is still active", INVALID_REQUEST, value["id"])
            return
        unread: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replayed() -> MutableMapping[str, Any]:
            return unread.pop() if unread else await receive()

        if None not in key:
            self._under_way.add(key)
        try:
            await self._app(scope, replayed, send)
        finally:
            self._under_way.discard(key)

    async def _batch(self, scope: Scope, values: list[Any], receive: Receive, send: Send) -> None:
        """Pass the messages of a batch on one by one, and join their answers."""
        try:
            messages, wrong = batch_of(values)
        except InvalidMessage as error:
            await _refuse(send, 400, error.reason, error.code)
            return
        if _header(scope, b"mcp-session-id") is None:
            await _refuse(send, 400, "a batch needs a session", INVALID_REQUEST)
            return
        joined = Joined(send)
        async with asyncio.TaskGroup() as tasks:
            for message in messages:
                value = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
                work = self._one(scope, value, json.dumps(value).encode(), receive, joined.part())
                tasks.create_task(work)
        await joined.end([error.answer for error in wrong if not error.is_error])

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        host = _only(headers, b"host")
        if host is None or (self._hosts and host.lower() not in self._hosts):
            return 421, "the Host header does not match this server"
        origins = headers.get(b"origin")
        if origins is not None and _only(headers, b"origin") not in self._origins:
            return 403, "the Origin header does not match this server"
        if self._token is not None:
            sent = headers.get(b"authorization", [])
            scheme, _, token = (sent[0] if len(sent) == 1 else b"").partition(b" ")
            if not hmac.compare_digest(token.strip(), self._token) or scheme.lower() != b"bearer":
                return 401, "the token is missing or invalid"
        if scope["path"] != PATH:
            return 404, f"the only path is {PATH}"
        return None


async def _body(receive: Receive) -> bytes | None:
    """Return the body of a request, cut soon after the limit; None if the client has disconnected."""
    body = bytearray()
    while len(body) <= BODY_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(body)


def _is_heavy(body: bytes) -> bool:
    """Whether a body has too many values; a string counts as one, whatever it contains."""
    if len(body) <= VALUES_MAX:
        return False
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 2 * VALUES_MAX:
        return True
    outside = b"".join(bare.split(b'"')[::2])
    return sum(map(outside.count, (b",", b"[", b"{"))) > VALUES_MAX


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


def _names_task(scope: Scope, message: dict[str, Any]) -> bool:
    """Whether a request about a task has its id in the header, for intermediaries; the SDK checks other requests."""
    params = message.get("params")
    if message.get("method") not in TASK_METHODS or not isinstance(params, dict) or "taskId" not in params:
        return True
    sent = _header(scope, b"mcp-name")
    return sent is not None and decode_header_value(sent.decode("latin-1").strip()) == params["taskId"]


def _only(headers: dict[bytes, list[bytes]], name: bytes) -> str | None:
    values = headers.get(name, [])
    return values[0].decode("latin-1") if len(values) == 1 else None


async def _nowhere(message: MutableMapping[str, Any]) -> None:
    return None


async def _refuse(send: Send, status: int, reason: str, code: int = REFUSED, id: Any = None) -> None:
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
