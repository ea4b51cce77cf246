"""The front loop of MCP on a connection: one JSON-RPC message per line, and nothing else (ADR 0034).

The imports of the SDK take longer than everything else at the start. Until the SDK is loaded, the loop answers what
hosts send first: the handshake, pings, and the list of tools. The SDK then receives the handshake again, and answers
everything. The loop also limits how many requests are active.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hilt import wire
from hilt.call_threads import CallThreads
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.mcp.content import COMPLETE, Choice, instructions, tool_list
from hilt.surfaces.mcp.lines import BUSY, IN_USE, LINES_MAX, REQUESTS_MAX, LineInput, LineOutput
from hilt.surfaces.mcp.pipe import is_pipe
from hilt.surfaces.mcp.plain import (
    INVALID_REQUEST,
    SERVER_INFO,
    SERVER_KEY,
    UNCACHED,
    Client,
    Plain,
    discovery_result,
    error_response,
    handshake_of,
    handshake_result,
    is_modern,
    plain_of,
    request_of,
)
from hilt.surfaces.mcp.sessions import Session

if TYPE_CHECKING:
    from hilt.surfaces.mcp.call_tasks import CallTasks
    from hilt.surfaces.mcp.server import Serving

CLOSE_SECONDS = 5.0  # for the SDK to end its calls
FLUSH_SECONDS = 1.0  # for a client to read the last responses

IDLE_MS = 2000  # after the handshake, until the SDK is loaded in any case

CONNECTION_CLOSED = -32000
PARSE_ERROR = -32700

_CHUNK_BYTES = 1 << 18
_CANCELLED = "notifications/cancelled"
_INITIALIZED = "notifications/initialized"


class Front:
    """Serves one client, until its input ends."""

    def __init__(
        self,
        runtime: Runtime,
        choice: Choice,
        session: Session,
        input: int,
        output: int,
        *,
        farewell: bytes = b"",
        tasks: CallTasks | None = None,
    ) -> None:
        """Serve a runtime on two descriptors, which may be the same.

        `farewell` is written at the end if the front loop has retired. `tasks` are the tasks of the process, if they
        outlive the connection.
        """
        self._runtime = runtime
        self._choice = choice
        self._session = session
        self._input = input
        self._farewell = farewell
        self._tasks = tasks
        self._output = LineOutput(output)
        self._output_descriptor = output
        self._threads = CallThreads(2)  # that list the tools
        self._lock = threading.RLock()
        self._active: set[int | str] = set()  # ids of the requests that have not been answered
        self._waiting: deque[Any] = deque()  # messages that wait for the client to read, or for a slot
        self._lines = LineInput()
        self._sdk: SdkThread | None = None
        self._opening: dict[str, Any] | None = None  # the first message for the SDK
        self._client: Client | None = None  # of the handshake
        self._is_modern = self._has_era = self._is_initialized = False
        self._listed: Callable[[], bool] = lambda: False  # whether the tools have changed since they were listed
        self._has_ended = False
        self._is_retiring = False
        self.is_complete = False  # whether the client has ended the session
        self.replayed = f"hilt-{os.urandom(8).hex()}"  # the id of the opening; the client already has the response
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._output.has_read = self._output.lost = self.resume

    # --- reading --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the input ends, the client stops reading, or `stop` is called."""
        try:
            self._read()
        finally:
            self._close()

    def stop(self) -> None:
        """End serving; called from a signal handler, or any thread."""
        self._has_ended = True
        self.resume()

    def retire(self) -> None:
        """End serving as soon as no request is active; called from any thread."""
        self._is_retiring = True
        self.resume()

    def resume(self) -> None:
        """Check again what the loop waits for; called from any thread."""
        with self._lock, suppress(OSError):  # a full pipe wakes the loop anyway
            if self._waker >= 0:
                os.write(self._waker, b"\0")

    def _read(self) -> None:
        ready = select.poll()
        ready.register(self._wake, select.POLLIN)
        if self._output_descriptor != self._input and is_pipe(self._output_descriptor):
            ready.register(self._output_descriptor, 0)  # only reports that the client has closed it
        is_reading = False
        while not (self._has_ended or self._output.is_closed or (self._is_retiring and self._is_idle)):
            if is_reading is not (not self._is_full):
                is_reading = not is_reading
                if is_reading:
                    ready.register(self._input, select.POLLIN)
                else:
                    ready.unregister(self._input)
            events = ready.poll(IDLE_MS if self._has_era and self._sdk is None else None)
            if not events:
                self._load()
            for descriptor, _ in events:
                if descriptor == self._wake:
                    os.read(self._wake, _CHUNK_BYTES)
                elif descriptor == self._input:
                    if not self._read_some():
                        self.is_complete = True
                        return
                elif descriptor == self._output_descriptor:
                    return
            self._continue()

    @property
    def _is_idle(self) -> bool:
        return not (self._active or self._waiting)

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= LINES_MAX or (self._sdk is not None and self._sdk.is_full)

    def _read_some(self) -> bool:
        """Handle the next bytes; return False at the end of the input."""
        try:
            data = os.read(self._input, _CHUNK_BYTES)
        except OSError:
            data = b""
        for line in self._lines.split(data) if data else self._lines.rest():
            self._receive(line)
        return bool(data)

    def _continue(self) -> None:
        """Handle waiting messages as long as there is room, or refuse them if only answers can make room."""
        while self._waiting and (self._has_room or self._is_blocked):
            message = self._waiting.popleft()
            if self._is_blocked and (request := request_of(message)) is not None:
                self._output.send(error_response(request[0], BUSY, f"{REQUESTS_MAX} requests are active"))
            else:
                self._handle(message)

    @property
    def _has_slot(self) -> bool:
        return len(self._active) < REQUESTS_MAX and (self._sdk is None or len(self._sdk.active) < REQUESTS_MAX)

    @property
    def _has_room(self) -> bool:
        return self._output.has_room and self._has_slot

    @property
    def _is_blocked(self) -> bool:
        """Whether only the client's answers can make room: they may be queued behind its next requests."""
        return not self._has_slot and self._sdk is not None and self._sdk.asks

    # --- messages -------------------------------------------------------------------------------------------------

    def _receive(self, line: bytes | ToolError) -> None:
        """Handle a line, or let its message wait; notifications and responses do not wait."""
        if isinstance(line, ToolError):
            self._output.send(error_response(None, INVALID_REQUEST, line.message))
            return
        if not line.strip():
            return
        try:
            message = wire.decode_value(line)
        except ToolError as error:
            self._output.send(error_response(None, PARSE_ERROR, error.message))
            return
        for part in message if isinstance(message, list) else [message]:
            if isinstance(part, dict) and part.get("method") == _CANCELLED:
                self._cancel(part)
        if _may_wait(message) and (self._waiting or not self._has_room):
            self._waiting.append(message)
        else:
            self._handle(message)

    def _handle(self, message: Any) -> None:
        request = request_of(message)
        if request is not None and request[0] in self._active:
            self._output.send(error_response(request[0], INVALID_REQUEST, IN_USE))
        elif self._sdk is not None and (self._sdk.is_ready or not self._has_era):
            self._forward(message)
        elif not self._has_era:
            self._open(message)
        elif (plain := plain_of(message, modern=self._is_modern)) is not None:
            self._answer(plain, message)
        elif request is None and _is_notification(message):
            self._is_initialized = self._is_initialized or message["method"] == _INITIALIZED
            if self._sdk is not None:
                self._forward(message)
        else:
            self._forward(message)

    def _open(self, message: Any) -> None:
        """Handle the first message, which determines the era of the protocol."""
        handshake = handshake_of(message)
        if handshake is not None:
            self._has_era = True
            self._client = handshake.client
            self._opening = {**message, "id": self.replayed}
            self._send(handshake.id, handshake_result(handshake.version, self._instructions))
        elif is_modern(message) and message["method"] != "initialize":
            self._has_era = self._is_modern = True
            plain = plain_of(message, modern=True)
            if plain is not None:
                meta = {"_meta": message["params"]["_meta"]}
                self._opening = {"jsonrpc": "2.0", "id": self.replayed, "method": "server/discover", "params": meta}
                self._answer(plain, message)
            else:
                self._forward(message)
        else:
            self._forward(message)

    @property
    def _instructions(self) -> str:
        return instructions(search=self._choice.search, dialect=self._runtime.settings["dialect"])

    def _answer(self, plain: Plain, message: Any) -> None:
        """Answer a plain request."""
        client = plain.client or self._client
        if plain.method == "ping":
            self._send(plain.id, {})
        elif plain.method == "server/discover":
            self._send(plain.id, discovery_result(self._instructions))
        elif client is not None:
            with self._lock:
                self._active.add(plain.id)
            self._threads.put(partial(self._list, plain, client, message))

    def _list(self, plain: Plain, client: Client, message: Any) -> None:
        """Send the list of tools, and load the SDK for what follows; it reports errors."""
        asks = "form" in client.can and not self._session.alone
        current = partial(tool_list, self._runtime, self._choice, self._session.name, client_asks=asks)
        try:
            tools = current()
        except Exception:  # noqa: BLE001 -- the SDK fails in the same way, and reports it
            self._forward(message)
            return
        if self._settle(plain.id):
            self._send(plain.id, {**(UNCACHED if self._is_modern else {}), "tools": tools})
        self._listed = lambda: current() != tools
        self._load()

    def _send(self, id: Any, result: dict[str, Any]) -> None:
        """Send a result in the format of the client's era."""
        if self._is_modern:
            result = {**COMPLETE, **result, "_meta": {SERVER_KEY: SERVER_INFO}}
        self._output.send({"jsonrpc": "2.0", "id": id, "result": result})

    def _cancel(self, message: Mapping[str, Any]) -> None:
        """Cancel a request that the SDK does not know: it gets no response."""
        params = message.get("params")
        id = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(id, int | str):
            self._waiting = deque(item for item in self._waiting if not _is_request(item, id))
            if self._sdk is None:
                self._settle(id)

    # --- the SDK --------------------------------------------------------------------------------------------------

    def _load(self) -> SdkThread | None:
        """Start the SDK, unless it has been started; return None if the connection has ended."""
        with self._lock:
            if self._sdk is None and not self._has_ended:
                opening = [] if self._opening is None else [self._opening]
                opening += [{"jsonrpc": "2.0", "method": _INITIALIZED}] if self._is_initialized else []
                self._sdk = SdkThread(opening, self._serving, self._output, self)
            return self._sdk

    def _forward(self, message: Any) -> None:
        """Let the SDK answer a message."""
        request = request_of(message)
        with self._lock:
            sdk = self._load()
            if sdk is not None and not self._has_ended:
                if request is not None:
                    self._active.add(request[0])
                sdk.feed(message)

    def _serving(self) -> Serving:
        from hilt.surfaces.mcp.server import Serving

        return Serving(
            self._runtime,
            self._choice,
            single=self._session,
            tasks=self._tasks,
            changed_before=self._has_changed,
            transport="stdio",
        )

    def _has_changed(self) -> bool:
        return self._listed()

    def settled(self, id: Any) -> None:
        """Record that the SDK has answered a request, or will not."""
        self._settle(id)
        if self._is_retiring or self._waiting:
            self.resume()

    def _settle(self, id: Any) -> bool:
        """Return whether a request is still to be answered; afterwards, it is not."""
        with self._lock:
            was_active = id in self._active
            self._active.discard(id)
            return was_active

    def _close(self) -> None:
        with self._lock:
            self._has_ended = True
            was_idle, unanswered = self._is_idle, list(self._active)
        if self._sdk is not None:
            self._sdk.end(CLOSE_SECONDS)
        for id in unanswered:
            if self._settle(id):
                self._output.send(error_response(id, CONNECTION_CLOSED, "Connection closed"))
        self._threads.close()
        if self._is_retiring and was_idle and not self.is_complete:
            self._output.write(self._farewell)
        self._output.close(FLUSH_SECONDS)
        with self._lock:  # other threads may still call `resume`
            wake, waker, self._waker = self._wake, self._waker, -1
        os.close(wake)
        os.close(waker)


class SdkThread:
    """Serves messages with the SDK, in an event loop on its own thread."""

    def __init__(
        self, opening: list[dict[str, Any]], build: Callable[[], Serving], output: LineOutput, front: Front
    ) -> None:
        """`build` returns the server; it is called in the event loop. `opening` has been answered."""
        self.messages: deque[Any] = deque(opening)  # that the SDK has not read
        self.has_ended = False  # whether no further message will come
        self.active: Collection[Any] = ()  # ids of the requests that the SDK is answering
        self.wake: Callable[[], None] = lambda: None  # lets the SDK read
        self._build = build
        self._output = output
        self._front = front
        self._lock = threading.Lock()
        self._is_needed = False
        self._serving: Serving | None = None
        self._thread = threading.Thread(target=self._run, name="hilt-mcp-sdk", daemon=True)
        self._thread.start()

    def feed(self, message: Any) -> None:
        """Queue a message for the SDK."""
        self._is_needed = True
        self.messages.append(message)
        self.wake()

    def end(self, seconds: float) -> None:
        """End the input, and wait up to this long until all calls have ended; not if there was no message."""
        with self._lock:
            self.has_ended = True
        self.wake()
        if self.is_ready or self._is_needed:
            self._thread.join(seconds)

    @property
    def is_ready(self) -> bool:
        """Whether the SDK is loaded."""
        return self._serving is not None

    @property
    def asks(self) -> bool:
        """Whether a call is waiting for an answer from the client."""
        return self._serving is not None and self._serving.asks

    @property
    def is_full(self) -> bool:
        """Whether too many messages are waiting."""
        return len(self.messages) > LINES_MAX

    def _run(self) -> None:
        import asyncio

        from hilt.surfaces.mcp.messages import serve

        async def main() -> None:
            with self._lock:
                if self.has_ended and not self._is_needed:
                    return
                self._serving = self._build()
            await serve(self._serving, self._output, self._front, self)

        try:
            asyncio.run(main())
        finally:
            self._front.stop()  # no further request would be answered


def _is_notification(message: Any) -> bool:
    """Whether a message is a valid notification."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or "id" in message:
        return False
    return isinstance(message.get("method"), str) and isinstance(message.get("params", {}), dict)


def _is_request(message: Any, id: Any) -> bool:
    return isinstance(message, dict) and "method" in message and str(message.get("id")) == str(id)


def _may_wait(message: Any) -> bool:
    """Whether a message may wait: cancellations, responses and pings must not."""
    if not isinstance(message, dict):
        return isinstance(message, list)
    return "id" in message and "method" in message and message["method"] != "ping"
