"""The front loop of MCP on a connection: one JSON-RPC message per line, and nothing else.

It answers plain messages itself, which are all that most sessions contain, and forwards others to the SDK, whose
imports take longer than everything else. The SDK then receives the handshake again. The loop runs no tool.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from hilt import wire
from hilt.call_threads import CallThreads
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.mcp.active_requests import CANCELLED, FrontLoop, Requests, error_response, response
from hilt.surfaces.mcp.client_call import Rounds
from hilt.surfaces.mcp.content import Choice
from hilt.surfaces.mcp.lines import BUSY, IN_USE, LINES_MAX, REQUESTS_MAX, LineInput, LineOutput
from hilt.surfaces.mcp.pipe import TOOLS_CHANGED, is_pipe
from hilt.surfaces.mcp.plain import (
    BATCHES,
    LOG_LEVELS,
    Client,
    client_in,
    handshake_of,
    handshake_result,
    is_modern,
    plain_of,
    request_of,
)
from hilt.surfaces.mcp.sessions import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.desk.activity import ProcessMark
    from hilt.surfaces.mcp.call_tasks import CallTasks
    from hilt.surfaces.mcp.calls import HandOver
    from hilt.surfaces.mcp.resources import Provider
    from hilt.surfaces.mcp.server import Serving

CLOSE_SECONDS = 5.0  # for the SDK to end its calls
FLUSH_SECONDS = 1.0  # for a client to read the last responses

PARSE_ERROR = -32700
INVALID_REQUEST = -32600

_CHUNK_BYTES = 1 << 18
_RETRY_MS = 5
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
        providers: Sequence[Provider] = (),
        hand_over: HandOver | None = None,
        farewell: bytes = b"",
        tasks: CallTasks | None = None,
        shares: bool = False,
    ) -> None:
        """Serve a runtime on two descriptors, which may be the same.

        `providers` add resources and prompts, and `hand_over` runs calls that must outlive this process. `farewell` is
        written at the end if the front loop has retired. `tasks` are the tasks of the process, if they outlive the
        connection. With `shares`, the process serves other clients too, and few calls start at the same time.
        """
        self._runtime = runtime
        self._choice = choice
        self._session = session
        self._input = input
        self._providers = providers
        self._hand_over = hand_over
        self._farewell = farewell
        self._tasks = tasks
        self._shares = shares
        self._output = LineOutput(output)
        self._output_descriptor = output
        self._threads = CallThreads(4)  # for work other than calls
        self._rounds = Rounds()
        self._requests = Requests(
            runtime,
            choice,
            session,
            self._output,
            self._rounds,
            self._threads,
            self,
            hands_over=hand_over is not None,
            completes=bool(providers),
        )
        self._tools = ToolChanges(runtime, self._output, self._notifies)
        self._lock = threading.RLock()
        self._forwarded: set[Any] = set()  # ids of requests that the SDK answers
        self._waiting: deque[Any] = deque()  # messages that wait for the client to read, or for a slot
        self._lines = LineInput()
        self._sdk: SdkThread | None = None
        self._host: ProcessMark | None = None
        self._opening: dict[str, Any] | None = None  # the first message for the SDK
        self._version = ""  # of the handshake
        self._has_era = False
        self._is_initialized = False
        self._forwards_all = False
        self._has_ended = False
        self._is_retiring = False
        self.is_complete = False  # whether the client has ended the session
        self.replayed = f"hilt-{os.urandom(8).hex()}"
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
        questions = self._requests.questions
        while not (self._has_ended or self._output.is_closed or (self._is_retiring and self._is_idle)):
            if is_reading is not (not self._is_full):
                is_reading = not is_reading
                if is_reading:
                    ready.register(self._input, select.POLLIN)
                else:
                    ready.unregister(self._input)
            for descriptor, _ in ready.poll(_RETRY_MS if self._waiting and self._shares else questions.wait_ms):
                if descriptor == self._wake:
                    os.read(self._wake, _CHUNK_BYTES)
                elif descriptor == self._input:
                    if not self._read_some():
                        self.is_complete = True
                        return
                elif descriptor == self._output_descriptor:
                    return
            questions.check()
            self._continue()

    @property
    def _is_idle(self) -> bool:
        return not (len(self._requests) or self._forwarded or self._waiting)

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
        while self._waiting and (self._has_room or self._requests.is_blocked):
            message = self._waiting.popleft()
            if self._requests.is_blocked and (request := request_of(message)) is not None:
                self._output.send(error_response(request[0], BUSY, f"{REQUESTS_MAX} requests are active"))
            else:
                self._handle(message)

    @property
    def _has_room(self) -> bool:
        return self._output.has_room and self._requests.has_room(shares=self._shares)

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
        if self._requests.questions.take(message):
            return
        if isinstance(message, list) and self._version == BATCHES:
            rest = [part for part in message if not self._requests.questions.take(part)]
            if len(rest) < len(message):
                if not rest:
                    return
                message = rest
        for part in message if isinstance(message, list) else [message]:
            if isinstance(part, dict) and part.get("method") == CANCELLED:
                self._cancel(part)
        if _may_wait(message) and (self._waiting or not self._has_room):
            self._waiting.append(message)
        else:
            self._handle(message)

    def _handle(self, message: Any) -> None:
        request = request_of(message)
        if request is not None and self.is_active(request[0]):
            self._output.send(error_response(request[0], INVALID_REQUEST, IN_USE))
        elif self._forwards_all:
            self.forward(message)
        elif not self._has_era:
            self._open(message)
        elif request is None and _is_notification(message):
            self._is_initialized = self._is_initialized or message["method"] == _INITIALIZED
            if self._sdk is not None:
                self.forward(message)
        elif (plain := plain_of(message, modern=self._requests.is_modern)) is None:
            if request is not None and request[1] == "initialize":
                self._forwards_all = True  # the SDK negotiates again
            elif request is not None and request[1] == "logging/setLevel" and request[2].get("level") in LOG_LEVELS:
                self._requests.questions.log_level = request[2]["level"]
            self.forward(message)
        else:
            self._requests.answer(plain, message)

    def _open(self, message: Any) -> None:
        """Handle the first message, which determines the era of the protocol."""
        handshake = handshake_of(message)
        if handshake is not None:
            self._has_era = True
            self._version = handshake.version
            self._requests.client = handshake.client
            self._opening = {**message, "id": self.replayed}
            text = self._requests.instructions
            result = handshake_result(handshake.version, text, completes=bool(self._providers))
            self._output.send(response(handshake.id, result))
        elif is_modern(message) and message["method"] != "initialize":
            self._has_era = self._requests.is_modern = True
            meta = {"_meta": message["params"]["_meta"]}
            plain = plain_of(message, modern=True)
            if plain is not None:
                self._opening = {"jsonrpc": "2.0", "id": self.replayed, "method": "server/discover", "params": meta}
                self._requests.answer(plain, message)
            else:
                self.forward(message)
        else:
            self._forwards_all = True
            self.forward(message)
        client = client_in(message)
        if client is not None:
            self._threads.put(partial(self._mark_host, client))

    def _mark_host(self, client: Client) -> None:
        """List the host as connected until it disconnects; without a state directory, it is not listed."""
        from hilt.desk.activity import mark_host

        runtime, session = self._runtime, self._session.name
        with suppress(OSError), self._lock:
            if not self._has_ended and self._host is None:
                self._host = mark_host(
                    runtime.parts.state,
                    client.program,
                    client.version,
                    workspace=runtime.parts.root,
                    session=session,
                    transport="stdio",
                )

    def _cancel(self, message: Mapping[str, Any]) -> None:
        """Cancel a request that waits, or is answered here: it gets no response."""
        params = message.get("params")
        id = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(id, int | str):
            self._waiting = deque(item for item in self._waiting if not _is_request(item, id))
            self._requests.cancel(id)

    # --- the SDK, and who answers requests ------------------------------------------------------------------------

    def forward(self, message: Any) -> None:
        """Let the SDK answer a message."""
        request = request_of(message)
        with self._lock:
            if self._has_ended:
                return
            if request is not None:
                self._forwarded.add(request[0])
            if self._sdk is None:
                self._threads.put(lambda: self.listed(lambda: False))
                self._sdk = self._tools.sdk = SdkThread(self._serving, self._output, self)
                if self._opening is not None:
                    self._sdk.feed(self._opening)
                if self._is_initialized:
                    self._sdk.feed({"jsonrpc": "2.0", "method": _INITIALIZED})
            self._sdk.feed(message)

    def _serving(self) -> Serving:
        from hilt.surfaces.mcp.server import Serving

        return Serving(
            self._runtime,
            self._choice,
            single=self._session,
            providers=self._providers,
            hand_over=self._hand_over,
            rounds=self._rounds,
            tasks=self._tasks,
        )

    def is_active(self, id: Any) -> bool:
        """Whether a request with this id has not been answered yet."""
        if id in self._requests:
            return True
        with self._lock:
            return id in self._forwarded or (self._sdk is not None and id in self._sdk.active)

    def settled(self, id: Any) -> None:
        """Record that the SDK has answered a request, or will not."""
        with self._lock:
            self._forwarded.discard(id)
        if self._is_retiring:
            self.resume()

    def finished(self) -> None:
        """Record that a request was answered without the SDK, or will not be."""
        if self._waiting or self._is_retiring:
            self.resume()

    def listed(self, has_changed: Callable[[], bool]) -> None:
        """Record that the client knows the tools; `has_changed` returns whether they have changed since."""
        if self._tools.watch():
            with suppress(ToolError):
                if has_changed():
                    self._tools.announce()

    def tools_changed(self) -> None:
        """Notify the client that its tools may have changed."""
        self._tools.announce()

    def _notifies(self) -> bool:
        """Whether the client accepts notifications on its connection."""
        return self._is_initialized and not self._requests.is_modern

    def _close(self) -> None:
        with self._lock:
            self._has_ended = True
        had_none = self._requests.close()
        if self._sdk is not None:
            self._sdk.end(CLOSE_SECONDS)
        self._threads.close()
        if self._is_retiring and had_none and not self.is_complete:
            self._output.write(self._farewell)
        self._output.close(FLUSH_SECONDS)
        with self._lock:  # other threads may still call `resume`
            wake, waker, self._waker = self._wake, self._waker, -1
            host = self._host
        self._tools.close()
        if host is not None:
            host.close()
        os.close(wake)
        os.close(waker)


class SdkThread:
    """Serves the messages that are not plain, with the SDK in an event loop on its own thread."""

    def __init__(self, build: Callable[[], Serving], output: LineOutput, front: FrontLoop) -> None:
        """`build` returns the server; it is called in the event loop."""
        self.messages: deque[Any] = deque()  # that the SDK has not read
        self.has_ended = False  # whether no further message will come
        self.active: Collection[Any] = ()  # ids of the requests that the SDK is answering
        self.wake: Callable[[], None] = lambda: None  # lets the SDK read
        self._build = build
        self._output = output
        self._front = front
        self._serving: Serving | None = None
        self._thread = threading.Thread(target=self._run, name="hilt-mcp-sdk", daemon=True)
        self._thread.start()

    def feed(self, message: Any) -> None:
        """Queue a message for the SDK."""
        self.messages.append(message)
        self.wake()

    def end(self, seconds: float) -> None:
        """End the input, and wait up to this long until all calls have ended."""
        self.has_ended = True
        self.wake()
        self._thread.join(seconds)

    def announce(self, kind: str) -> bool:
        """Notify the client of a change, if it wants to know; return False before the SDK is loaded."""
        if self._serving is None:
            return False
        self._serving.announce(kind)
        return True

    @property
    def is_full(self) -> bool:
        """Whether too many messages are waiting."""
        return len(self.messages) > LINES_MAX

    def _run(self) -> None:
        import asyncio

        from hilt.surfaces.mcp.messages import serve

        async def main() -> None:
            self._serving = self._build()
            await serve(self._serving, self._output, self._front, self)

        try:
            asyncio.run(main())
        finally:
            self._front.stop()  # no further request would be answered


class ToolChanges:
    """Notifies the client of a connection when its tools have changed."""

    def __init__(self, runtime: Runtime, output: LineOutput, notifies: Callable[[], bool]) -> None:
        """`notifies` returns whether the client accepts notifications."""
        self.sdk: SdkThread | None = None  # which notifies the client once it is loaded
        self._runtime = runtime
        self._output = output
        self._notifies = notifies
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._is_watching = self._has_unread_change = False
        self._stop: Callable[[], None] | None = None

    def watch(self) -> bool:
        """Watch the tools, from when a client may want to know of changes: the imports are slow.

        Return False if they are watched already.
        """
        with self._lock:
            if self._is_watching or self._ended.is_set():
                return False
            self._is_watching = True
        stop = self._runtime.parts.listen(self.announce)
        with self._lock:
            self._stop = stop
        if self._ended.is_set():
            stop()  # the connection has ended in the meantime
        return True

    def announce(self) -> None:
        """Notify the client, unless the same notification is still unread."""
        if (self.sdk is not None and self.sdk.announce("tools")) or not self._notifies():
            return
        if self._output.is_read:
            self._has_unread_change = False
        if not self._has_unread_change:
            self._output.write(TOOLS_CHANGED)
            self._has_unread_change = not self._output.is_read

    def close(self) -> None:
        """Stop watching."""
        self._ended.set()
        if self._stop is not None:
            self._stop()


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
