"""MCP over HTTP: loopback unless an address is given, a token always, no page of a browser can reach it."""

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
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from uvicorn.protocols.http.h11_impl import H11Protocol

from hilt import wire
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.cli import Usage
from hilt.surfaces.mcp.command import ServeOptions
from hilt.surfaces.mcp.messages import BATCHES, Wrong, batch_of, message_of
from hilt.surfaces.mcp.replies import Joined, Reply, Send
from hilt.surfaces.mcp.resources import Provider
from hilt.surfaces.mcp.server import Choice, Serving
from hilt.surfaces.mcp.sessions import IDLE_SECONDS, SESSIONS_MAX

PATH = "/mcp"
TOKEN_FILE = "mcp-token"  # noqa: S105 -- its name
BODY_BYTES = 16 << 20
BODY_SECONDS = 30
VALUES_MAX = 500_000  # in a body; the server stands still while it reads one
HEAD_SECONDS = 10  # for the first line and the headers of a request
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
    serving = Serving(runtime, choice, single=single, providers=providers)
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
                print("hilt mcp: what clients send, the token too, can be read on the network.", file=sys.stderr)
            print(f"hilt mcp: listening on {address.url}", file=sys.stderr, flush=True)
            await server.serve(sockets=[listener])
    finally:
        tidying.cancel()
        serving.close()
        listener.close()


class _HttpConnection(H11Protocol):
    """A connection that makes room for itself: when there are too many, one that asks for nothing is ended."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the place of the oldest connection without a request, then of the oldest that was answered."""
        super().connection_made(transport)
        self.since = time.monotonic()
        if len(self.connections) < (self.limit_concurrency or CONNECTIONS_MAX):
            return
        silent = [
            one for one in self.connections if isinstance(one, _HttpConnection) and one is not self and one.is_silent
        ]
        if silent:
            oldest = min(silent, key=lambda one: (one.cycle is not None, one.since))
            self.connections.discard(oldest)
            oldest.transport.abort()

    @property
    def is_silent(self) -> bool:
        """Whether there is no request, or one that was answered."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete


class _Uvicorn(uvicorn.Server):
    """Ends connections that ask for nothing: they would take the place of others, and need no token for that."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        # connections without a request, or with one that was answered, and since when
        self._silent: dict[tuple[Any, Any], float] = {}

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to who started this."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Look after connections, ten times a second."""
        now = time.monotonic()
        cycles = [(one, getattr(one, "cycle", self)) for one in self.server_state.connections]
        # what comes after an answer counts when it is a whole request, not byte by byte
        silent = [pair for pair in cycles if pair[1] is None or getattr(pair[1], "response_complete", False)]
        self._silent = {pair: self._silent.get(pair, now) for pair in silent}
        for (one, _), since in self._silent.items():
            if now - since > HEAD_SECONDS:
                one.transport.close()
        return await super().on_tick(counter)


def _connections_max() -> int:
    """Return how many connections there may be: files must be left to open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return CONNECTIONS_MAX if limit < 0 else max(min(CONNECTIONS_MAX, limit // 2), 2)


def read_address(text: str) -> Address:
    """Return where to listen: any free port of 127.0.0.1 when nothing is said."""
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
        raise Usage(f"there is no port {port}")
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
        why = os.strerror(error.errno or 0)
        advice = "Choose another port, or none for any that is free."
        raise ToolError("permission_denied", f"{address.url} cannot be used: {why}.", suggestion=advice) from error
    listener.setblocking(False)  # noqa: FBT003 -- the way of the library
    return listener


# --- who may come in ------------------------------------------------------------------------------------------------


def _token(runtime: Runtime, address: Address, *, wanted: bool) -> str | None:
    """Return the token that clients must have; it is made once, and told then."""
    if not wanted:
        if not address.is_loopback:
            raise Usage("--no-token is for loopback addresses only: anybody on the network could run commands here")
        print(
            "hilt mcp: WARNING: without a token, every program and user of this machine can use these tools.",
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
        f"hilt mcp: the token of this server, told only now, is {token}\n"
        f"           It is kept in {path}. Clients send it as the header: Authorization: Bearer TOKEN",
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
            f"{path} is not a token that only its owner can read.",
            suggestion="Remove it; the next start makes a new one.",
        )
    return token


class RequestGuard:
    """Lets in who has the token and comes to the right address; a page of a browser, from nowhere else."""

    def __init__(self, app: Callable[..., Awaitable[None]], address: Address, token: str | None) -> None:
        self._app = app
        self._under_way: set[tuple[bytes | None, str | None]] = set()  # requests, by session and id
        self._token = None if token is None else token.encode()
        named = {address.host}
        if address.is_loopback:
            named |= {"127.0.0.1", "::1", "localhost"}
        shown = {f"[{host}]" if ":" in host else host for host in named}
        # without a port where a name alone means the same
        self._hosts = {f"{host}:{address.port}" for host in shown} | (shown if address.port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}
        if ipaddress.ip_address(address.host).is_unspecified:
            self._hosts = set()  # any name may lead here; the token keeps strangers out

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
        """Hand on a request whose body every other surface would take, too."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(receive)
        except TimeoutError:
            await _refuse(send, 408, f"the body did not come within {BODY_SECONDS} s")
            return
        if body is None:
            return  # the client is gone
        if len(body) > BODY_BYTES:
            await _refuse(send, 413, f"the body has more than {BODY_BYTES} bytes")
            return
        if _is_heavy(body):
            await _refuse(send, 413, f"the body holds more than {VALUES_MAX} values")
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
        except Wrong as error:
            if error.id is not None and "method" not in value:
                # a call may wait for it: what is no answer is a failure
                await self._one(scope, error.answer, json.dumps(error.answer).encode(), receive, _nowhere)
            await _refuse(send, 400, error.reason, error.code, error.id)
            return
        async with Reply(send, holds=not is_batch) as reply:
            if is_batch:
                await self._batch(scope, value, receive, reply)
            else:
                await self._one(scope, value, body, receive, reply)

    async def _one(self, scope: Scope, value: dict[str, Any], body: bytes, receive: Receive, send: Send) -> None:
        """Hand on one message, unless a request of its session with the same id is not answered yet."""
        key = _header(scope, b"mcp-session-id"), str(value["id"]) if {"id", "method"} <= value.keys() else None
        if key in self._under_way:
            await _refuse(send, 400, "a request with this id is under way", INVALID_REQUEST, value["id"])
            return
        whole: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replayed() -> MutableMapping[str, Any]:
            return whole.pop() if whole else await receive()

        if None not in key:
            self._under_way.add(key)
        try:
            await self._app(scope, replayed, send)
        finally:
            self._under_way.discard(key)

    async def _batch(self, scope: Scope, values: list[Any], receive: Receive, send: Send) -> None:
        """Hand on the messages of a batch one by one, and answer with all that comes back."""
        try:
            messages, wrong = batch_of(values)
        except Wrong as error:
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
        await joined.end([one.answer for one in wrong if not one.is_error])

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        host = _only(headers, b"host")
        if host is None or (self._hosts and host.lower() not in self._hosts):
            return 421, "the Host header is not that of this server"
        origins = headers.get(b"origin")
        if origins is not None and _only(headers, b"origin") not in self._origins:
            return 403, "the Origin header is not that of this server"
        if self._token is not None:
            sent = headers.get(b"authorization", [])
            scheme, _, token = (sent[0] if len(sent) == 1 else b"").partition(b" ")
            if not hmac.compare_digest(token.strip(), self._token) or scheme.lower() != b"bearer":
                return 401, "the token is missing or wrong"
        if scope["path"] != PATH:
            return 404, f"there is only {PATH}"
        return None


async def _body(receive: Receive) -> bytes | None:
    """Return the body of a request, a little more than the limit at most; None when the client is gone."""
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
    """Whether a body holds more values than anybody means; what stands inside of texts counts as one."""
    if len(body) <= VALUES_MAX:
        return False
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 2 * VALUES_MAX:
        return True
    outside = b"".join(bare.split(b'"')[::2])
    return sum(map(outside.count, (b",", b"[", b"{"))) > VALUES_MAX


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


def _only(headers: dict[bytes, list[bytes]], name: bytes) -> str | None:
    found = headers.get(name, [])
    return found[0].decode("latin-1") if len(found) == 1 else None


async def _nowhere(message: MutableMapping[str, Any]) -> None:
    return None


async def _refuse(send: Send, status: int, reason: str, code: int = REFUSED, id: Any = None) -> None:
    body = json.dumps(Wrong(code, reason, id).answer).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),  # who is refused keeps no place, whatever else is still to come
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
