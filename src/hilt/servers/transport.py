"""Transports to MCP servers: a process on pipes, or HTTP; both bounded, so that no server can exhaust the client.

The size of a message is limited, and so is the number of unsolicited messages: a server that floods is disconnected. A
process is started and stopped by the keeper, like every process of hilt, so none outlives it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import mcp  # noqa: F401  # all of it before its modules, which import each other, or two threads fail
from mcp.client._transport import ReadStream, TransportStreams, WriteStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
    jsonrpc_message_adapter,
)
from mcp_types.methods import validate_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from hilt.custom.launching import VARIABLES
from hilt.errors import ToolError
from hilt.processes.piped import PipedProgram, start_piped
from hilt.servers.configured import Server
from hilt.servers.definitions import NOTES_MAX, TOOLS_MAX, clean, visible
from hilt.surroundings import Surroundings
from hilt.web import certificates

MESSAGE_BYTES = 8 << 20
WINDOW_SECONDS = 10.0
WINDOW_MESSAGES = 2000  # unsolicited ones
WINDOW_BYTES = 256 << 20
LOG_BYTES = 1 << 20
NOISE_BYTES = 2048
FLAW_MAX = 200  # characters of the problem with a tool

_CHUNK_BYTES = 1 << 16
_GRACE_SECONDS = 0.3
_DRAIN_SECONDS = 0.05  # between two reads of output that is discarded
_HTTP_SECONDS = 30.0
_SILENCE_SECONDS = 3600.0  # longer than anyone takes to fill in a form
_LIST = "tools/list"


class FloodGate:
    """Counts what arrives from one server, and closes when it sends too much."""

    def __init__(self) -> None:
        self.reason = ""  # why it closed
        self.arrived = 0
        self.ended = anyio.Event()
        self.noise = bytearray()  # output that is not a message
        self.version = LATEST_HANDSHAKE_VERSION  # the negotiated version of the protocol
        self.malformed: list[str] = []  # problems of malformed tools in the received lists
        self._pending: dict[Any, str] = {}
        self._began = time.monotonic()
        self._messages = 0
        self._bytes = 0

    def expect_response(self, id: Any, method: str) -> None:
        """Expect a response."""
        self._pending[id] = method

    def close(self, reason: str) -> None:
        """Accept no more messages."""
        self.reason = self.reason or reason
        self.ended.set()

    def count_message(self, item: SessionMessage | Exception | None) -> bool:
        """Count a message, or None for other output; False if that is too much."""
        self.arrived += 1
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id in self._pending:
            if self._pending.pop(message.id) == _LIST and isinstance(message, JSONRPCResponse):
                self.malformed += _drop_malformed(message.result, self.version)
                del self.malformed[NOTES_MAX:]
            return not self.reason
        self._messages += 1
        return self.count_bytes(0)

    def count_bytes(self, size: int) -> bool:
        """Count bytes, solicited or not; False if they are too many."""
        now = time.monotonic()
        if now - self._began > WINDOW_SECONDS:
            self._began, self._messages, self._bytes = now, 0, 0
        self._bytes += size
        if self._messages > WINDOW_MESSAGES or self._bytes > WINDOW_BYTES:
            self.close("it sent too many unsolicited messages or too much data")
        return not self.reason

    def record_noise(self, data: bytes) -> None:
        """Keep the end of a server's other output for error messages."""
        self.noise += data
        del self.noise[:-NOISE_BYTES]


def _drop_malformed(page: dict[str, Any], version: str) -> list[str]:
    """Remove malformed tools from a list, which the SDK would reject as a whole; return the problems."""
    tools = page.get("tools")
    if not isinstance(tools, list):
        return []
    page["tools"] = tools = tools[: TOOLS_MAX + 1]  # the rest is ignored
    if _flaw(page, version) is None or _flaw({**page, "tools": []}, version) is not None:
        return []  # the list is valid, or invalid even without tools
    flaws = [_flaw({**page, "tools": [tool]}, version) for tool in tools]
    page["tools"] = [tool for tool, flaw in zip(tools, flaws, strict=True) if flaw is None]
    names = [tool.get("name") if isinstance(tool, dict) else None for tool in tools]
    return [
        f"{visible(name[:100]) if isinstance(name, str) else f'tool {number}'}: its definition is malformed: {flaw}"
        for number, (name, flaw) in enumerate(zip(names, flaws, strict=True), 1)
        if flaw is not None
    ]


def _flaw(page: dict[str, Any], version: str) -> str | None:
    try:
        validate_server_result(_LIST, version, page)
        ListToolsResult.model_validate(page, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"][2:])
        return clean(f"{place}: {first['msg']}".removeprefix(": "), FLAW_MAX)
    except ValueError as error:
        return clean(str(error), FLAW_MAX)
    return None


class _GatedReader:
    """The messages of a server, counted by its gate."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], gate: FloodGate) -> None:
        self._inner = inner
        self._gate = gate

    @property
    def last_context(self) -> Any:
        """The context of the request that the last message answers, if the transport knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._gate.close("it closed the connection")
            raise
        if not self._gate.count_message(item):
            raise anyio.EndOfStream
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> _GatedReader:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _GatedReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _GatedWriter:
    """The messages to a server; the gate learns which responses to expect."""

    def __init__(self, inner: WriteStream[SessionMessage], gate: FloodGate) -> None:
        self._inner = inner
        self._gate = gate

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(item.message, JSONRPCRequest):
            self._gate.expect_response(item.message.id, item.message.method)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> _GatedWriter:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def open_transport(
    server: Server, gate: FloodGate, *, root: str, surroundings: Surroundings, log: str
) -> AbstractAsyncContextManager[TransportStreams]:
    """Return the transport to a server whose variables are expanded."""
    if server.transport == "stdio":
        return _gated(_stdio(server, gate, root, surroundings, log), gate)
    return _gated(_http(server, gate), gate)


@asynccontextmanager
async def _gated(
    transport: AbstractAsyncContextManager[TransportStreams], gate: FloodGate
) -> AsyncIterator[TransportStreams]:
    async with transport as (reading, writing):
        yield _GatedReader(reading, gate), _GatedWriter(writing, gate)


# --- a process ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _stdio(
    server: Server, gate: FloodGate, root: str, surroundings: Surroundings, log: str
) -> AsyncIterator[TransportStreams]:
    starting = _Starting()
    try:
        running = await anyio.to_thread.run_sync(starting.run, lambda: _start(server, root, surroundings))
    except BaseException:
        starting.abandon()
        raise
    read_sink, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, write_source = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with read_sink, reading, writing, write_source, anyio.create_task_group() as tasks:
            tasks.start_soon(_read, running, gate, read_sink)
            tasks.start_soon(_write, running, gate, write_source)
            tasks.start_soon(_log, running, gate, log)
            try:
                yield reading, writing
            finally:
                tasks.cancel_scope.cancel()
    finally:
        # in a separate thread, which continues if the loop is closed before this task runs again
        ending = threading.Thread(target=running.end, name="hilt-server-end", daemon=True)
        ending.start()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(ending.join)


class _Starting:
    """A start that may be abandoned while it runs in its thread: the process is then stopped once it exists."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._running: PipedProgram | None = None

    def run(self, start: Callable[[], PipedProgram]) -> PipedProgram:
        running = start()
        with self._lock:
            self._running = running
            is_abandoned = self._is_abandoned
        if is_abandoned:
            running.end()
        return running

    def abandon(self) -> None:
        with self._lock:
            self._is_abandoned = True
            running = self._running
        if running is not None:
            threading.Thread(target=running.end, name="hilt-server-end", daemon=True).start()


def _start(server: Server, root: str, surroundings: Surroundings) -> PipedProgram:
    # a nested hilt starts no servers: a cycle would never end
    env = {**surroundings.environment(server.env, only=VARIABLES), "HILT_NESTED": "1"}
    # in the workspace, npx and python -m run what a hostile project or a command put there
    folder = root if server.cwd or server.source == "project" else "/"
    cwd = os.path.join(folder, os.path.expanduser(server.cwd))
    command = os.path.expanduser(server.command)
    if "/" in command:
        program: str | None = os.path.join(cwd, command)
    else:
        program = surroundings.find(command, env)
    if program is None:
        raise ToolError(
            "runtime_missing",
            f"{command}, the command of the MCP server {server.name}, is not on the PATH."
            f"{surroundings.advice(command)}",
            suggestion=f"Ask the user to install {command}.",
        )
    return start_piped([program, *server.args], cwd=cwd, env=env, grace=_GRACE_SECONDS)


async def _read(running: PipedProgram, gate: FloodGate, sink: Any) -> None:
    unread = bytearray()
    async with sink:
        while data := await _read_some(running.stdout):
            searched = len(unread)
            unread += data
            while (end := unread.find(b"\n", searched)) >= 0:
                line = bytes(unread[:end])
                del unread[: end + 1]
                searched = 0
                if not await _deliver(line, gate, sink):
                    return
            if len(unread) > MESSAGE_BYTES:
                gate.close(f"it sent a message of more than {MESSAGE_BYTES >> 20} MiB")
                return
        gate.close(await anyio.to_thread.run_sync(running.outcome))


async def _deliver(line: bytes, gate: FloodGate, sink: Any) -> bool:
    """Deliver one line; False to stop reading."""
    if not gate.count_bytes(len(line)) or not line.strip():
        return gate.count_message(None)
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        repaired = await anyio.to_thread.run_sync(_repaired, line)
        if repaired is None:
            gate.record_noise(line[:NOISE_BYTES] + b"\n")
            return gate.count_message(None)
        message = repaired
    try:
        await sink.send(SessionMessage(message))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return False
    return True


def _repaired(line: bytes) -> JSONRPCMessage | None:
    """Return a message with lone surrogates replaced, or an error for an invalid response; else None.

    Without it, a call would wait for an unreadable response until it times out.
    """
    try:
        value = json.loads(line.decode("utf-8", "replace"))
        repaired = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return None
    with suppress(ValidationError):
        return jsonrpc_message_adapter.validate_json(repaired, by_name=False)
    id = value.get("id") if isinstance(value, dict) and "method" not in value else None
    if not isinstance(id, int | str):
        return None
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=INTERNAL_ERROR, message="its response is invalid"))


async def _write(running: PipedProgram, gate: FloodGate, source: Any) -> None:
    async with source:
        async for item in source:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            unsent = memoryview(text.encode("utf-8", "surrogatepass") + b"\n")
            while unsent:
                await anyio.wait_writable(running.stdin)
                try:
                    unsent = unsent[os.write(running.stdin, unsent[:_CHUNK_BYTES]) :]
                except BlockingIOError:
                    continue
                except OSError:
                    return  # reading its output reports the exit


async def _log(running: PipedProgram, gate: FloodGate, log: str) -> None:
    """Log the beginning of the server's standard error to a file, and discard the rest slowly."""
    os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    remaining = LOG_BYTES
    try:
        while data := await _read_some(running.stderr):
            gate.record_noise(data)
            if remaining:
                os.write(file, data[:remaining])
                remaining = max(0, remaining - len(data))
            else:
                await anyio.sleep(_DRAIN_SECONDS)
    finally:
        os.close(file)


async def _read_some(pipe: int) -> bytes:
    """Return the next bytes of a pipe, b"" at its end."""
    while True:
        await anyio.wait_readable(pipe)
        try:
            return os.read(pipe, _CHUNK_BYTES)
        except BlockingIOError:
            continue
        except OSError:
            return b""


# --- HTTP -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _http(server: Server, gate: FloodGate) -> AsyncIterator[TransportStreams]:
    # no compressed responses: their size does not bound the decompressed size
    headers = {**server.headers, "accept-encoding": "identity"}

    def client(
        headers: dict[str, str] | None = headers, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=_Bounded(httpx2.AsyncHTTPTransport(verify=certificates.httpx_default()), gate),
            headers=headers,
            timeout=httpx2.Timeout(_HTTP_SECONDS, read=max(_SILENCE_SECONDS, server.seconds)),
            follow_redirects=False,
        )

    if server.transport == "sse":
        async with sse_client(server.url, headers, httpx_client_factory=client) as streams:
            yield streams
    else:
        async with (
            client() as opened,
            streamable_http_client(server.url, http_client=opened, max_sse_event_size=MESSAGE_BYTES) as streams,
        ):
            yield streams


class _Bounded(httpx2.AsyncBaseTransport):
    """HTTP with bounded responses."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, gate: FloodGate) -> None:
        self._inner = inner
        self._gate = gate

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; a response that is compressed or too long ends the connection."""
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            await response.aclose()
            raise httpx2.RemoteProtocolError("The server compressed its response, which was not requested.")
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = _Counted(response.stream, None if is_stream else MESSAGE_BYTES, self._gate)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    """The body of a response; raises when it grows too long."""

    def __init__(self, inner: Any, limit: int | None, gate: FloodGate) -> None:
        self._inner = inner
        self._limit = limit
        self._gate = gate
        self._bytes = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            self._bytes += len(part)
            if self._limit is not None and self._bytes > self._limit:
                self._gate.close(f"it sent a message of more than {self._limit >> 20} MiB")
            if not self._gate.count_bytes(len(part)):
                raise httpx2.ReadError("The response is too long.")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
