"""The front loop of MCP on a connection: one JSON-RPC message per line, and nothing else.

It answers plain messages itself, which are all that most sessions contain, and forwards others to the SDK, whose
imports take longer than everything else. The SDK then receives the handshake again. The loop runs no tool: a call runs
on the runtime's threads, and the thread that ends it writes the response. The SDK continues a call that ends with
questions.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from hilt import wire
from hilt.active_call import ActiveCall
from hilt.call import Call, Result
from hilt.call_threads import CallThreads
from hilt.catalog import built_in_names, dialect
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.mcp.attendant import Attending, ClientAnswers
from hilt.surfaces.mcp.clients import Client
from hilt.surfaces.mcp.content import COMPLETE, call_answer
from hilt.surfaces.mcp.first_run import FirstRun
from hilt.surfaces.mcp.instructions import instructions
from hilt.surfaces.mcp.line_output import LineOutput
from hilt.surfaces.mcp.names import FLUSH_SECONDS, LINES_MAX, REQUESTS_MAX
from hilt.surfaces.mcp.pipe import TOOLS_CHANGED, is_pipe
from hilt.surfaces.mcp.plain import (
    SERVER_INFO,
    SERVER_KEY,
    UNCACHED,
    Plain,
    client_in,
    discovery_result,
    handshake_of,
    handshake_result,
    is_modern,
    plain_of,
    request_of,
)
from hilt.surfaces.mcp.sdk_thread import SdkThread
from hilt.surfaces.mcp.sessions import Session
from hilt.surfaces.mcp.tool_list import Choice, tool_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.declaration import Traits
    from hilt.desk.activity import HostMark
    from hilt.surfaces.mcp.call_tasks import CallTasks
    from hilt.surfaces.mcp.calls import HandOver
    from hilt.surfaces.mcp.resources import Provider
    from hilt.surfaces.mcp.server import Serving

STARTING_MAX = 2  # calls of one client that have just started, if the process serves other clients too
STARTING_SECONDS = 0.02  # for which a call counts as just started
CLOSE_SECONDS = 5.0  # for the SDK to end its calls

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
CONNECTION_CLOSED = -32000

_CHUNK_BYTES = 1 << 18
_RETRY_MS = 5
_IN_USE = "a request with this id is still active"
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
        self._lock = threading.RLock()
        self._active: dict[int | str, _ActiveRequest] = {}  # requests answered here, by id
        self._forwarded: set[Any] = set()  # ids of requests that the SDK answers
        self._first_runs: dict[Any, FirstRun] = {}  # of forwarded calls, by request id
        self._waiting: deque[tuple[bytes, Any]] = deque()  # messages that wait for the client to read, or for a slot
        self._lines = _Lines()
        self._sdk: SdkThread | None = None
        self._client: Client | None = None  # of the handshake
        self._host: HostMark | None = None
        self._opening: dict[str, Any] | None = None  # the first message for the SDK
        self._is_modern = False
        self._has_era = False
        self._is_initialized = False
        self._forwards_all = False
        self._has_unread_change = False
        self._has_ended = False
        self._is_retiring = False
        self.is_complete = False  # whether the client has ended the session
        self._is_listening = False
        self._stop_listening: Callable[[], None] | None = None
        self._local_tools = _local_tools(runtime)
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
        """Wake the loop, to check what is waiting; called from any thread."""
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
            for descriptor, _ in ready.poll(_RETRY_MS if self._waiting and self._shares else None):
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
        return not (self._active or self._forwarded or self._waiting)

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
        """Handle waiting messages as long as there is room."""
        while self._waiting and self._has_room:
            self._handle(*self._waiting.popleft())

    @property
    def _has_room(self) -> bool:
        if not self._output.has_room or len(self._active) >= REQUESTS_MAX:
            return False
        if not self._shares or len(self._active) < STARTING_MAX:
            return True
        # a flood of short calls would slow down other clients; long calls mostly wait
        with self._lock:
            request = next(islice(reversed(self._active.values()), STARTING_MAX - 1, None), None)
        return request is None or time.monotonic() - request.since > STARTING_SECONDS

    # --- messages -------------------------------------------------------------------------------------------------

    def _receive(self, line: bytes | ToolError) -> None:
        """Handle a line, or let its message wait; notifications and responses do not wait."""
        if isinstance(line, ToolError):
            self._output.send(_error(None, INVALID_REQUEST, line.message))
            return
        if not line.strip():
            return
        try:
            message = wire.decode_value(line)
        except ToolError as error:
            self._output.send(_error(None, PARSE_ERROR, error.message))
            return
        for part in message if isinstance(message, list) else [message]:
            if isinstance(part, dict) and part.get("method") == _CANCELLED:
                self._cancel(part)
        if _may_wait(message) and (self._waiting or not self._has_room):
            self._waiting.append((line, message))
        else:
            self._handle(line, message)

    def _handle(self, line: bytes, message: Any) -> None:
        request = request_of(message)
        if request is not None and self.is_active(request[0]):
            self._output.send(_error(request[0], INVALID_REQUEST, _IN_USE))
        elif self._forwards_all:
            self._forward(line, request)
        elif not self._has_era:
            self._open(line, message)
        elif request is None and self._is_notification(message):
            self._is_initialized = self._is_initialized or message["method"] == _INITIALIZED
            if self._sdk is not None:
                self._forward(line)
        elif (plain := plain_of(message, modern=self._is_modern)) is None:
            if request is not None and request[1] == "initialize":
                self._forwards_all = True  # the SDK negotiates again
            self._forward(line, request)
        else:
            self._answer(plain, line)

    def _open(self, line: bytes, message: Any) -> None:
        """Handle the first message, which determines the era of the protocol."""
        handshake = handshake_of(message)
        if handshake is not None:
            self._has_era = True
            self._client = handshake.client
            self._opening = {**message, "id": self.replayed}
            text = instructions(search=self._choice.search, dialect=self._runtime.settings["dialect"])
            result = handshake_result(handshake.version, text, completes=bool(self._providers))
            self._output.send(_response(handshake.id, result))
        elif is_modern(message) and message["method"] != "initialize":
            self._has_era = self._is_modern = True
            meta = {"_meta": message["params"]["_meta"]}
            plain = plain_of(message, modern=True)
            if plain is not None:
                self._opening = {"jsonrpc": "2.0", "id": self.replayed, "method": "server/discover", "params": meta}
                self._answer(plain, line)
            else:
                self._forward(line, request_of(message))
        else:
            self._forwards_all = True
            self._forward(line, request_of(message))
        client = client_in(message)
        if client is not None:
            self._threads.put(partial(self._mark_host, client))

    def _mark_host(self, client: Client) -> None:
        """List the host as connected until it disconnects; without a state directory, it is not listed."""
        from hilt.desk.activity import HostMark

        runtime, session = self._runtime, self._session.name
        with suppress(OSError), self._lock:
            if not self._has_ended and self._host is None:
                self._host = HostMark(
                    runtime.parts.state,
                    client.program,
                    client.version,
                    workspace=runtime.parts.root,
                    session=session,
                    transport="stdio",
                )

    @staticmethod
    def _is_notification(message: Any) -> bool:
        """Whether a message is a valid notification."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or "id" in message:
            return False
        return isinstance(message.get("method"), str) and isinstance(message.get("params", {}), dict)

    def _cancel(self, message: Mapping[str, Any]) -> None:
        """Cancel a request that is answered here: it gets no response."""
        params = message.get("params")
        id = params.get("requestId") if isinstance(params, dict) else None
        if not isinstance(id, int | str):
            return
        self._waiting = deque(item for item in self._waiting if not _is_request(item[1], id))
        with self._lock:
            # a client may send the id with another type than in the request
            request = self._active.get(id) or next(
                (other for other_id, other in self._active.items() if str(other_id) == str(id)), None
            )
            if request is None:
                return
            request.is_cancelled = True
            running = request.running
        if running is not None:
            running.cancel()

    # --- responses ------------------------------------------------------------------------------------------------

    def _answer(self, plain: Plain, line: bytes) -> None:
        client = plain.client or self._client
        if plain.method == "ping":
            self._output.send(_response(plain.id, {}))
        elif plain.method == "server/discover":
            text = instructions(search=self._choice.search, dialect=self._runtime.settings["dialect"])
            self._send_result(plain.id, discovery_result(text, completes=bool(self._providers)))
        elif client is None or (plain.method == "tools/call" and not self._runs_here(plain.params)):
            self._forward(line, (plain.id, plain.method, plain.params))
        else:
            request = _ActiveRequest(plain, line, client)
            with self._lock:
                self._active[plain.id] = request
            if plain.method == "tools/list":
                self._threads.put(partial(self._list, request))
            else:
                self._call(request)

    def _send_result(self, id: Any, result: dict[str, Any]) -> None:
        """Send a result in the format of the client's era."""
        if self._is_modern:
            result = {**COMPLETE, **result, "_meta": {**result.get("_meta", {}), SERVER_KEY: SERVER_INFO}}
        else:
            result.pop("resultType", None)
        self._output.send(_response(id, result))

    def _list(self, request: _ActiveRequest) -> None:
        """Send the list of tools; the SDK reports errors."""
        asks = "form" in request.client.can and not self._session.alone
        current = partial(tool_list, self._runtime, self._choice, self._session.name, client_asks=asks)
        try:
            tools = current()
        except Exception:  # noqa: BLE001 -- the SDK fails in the same way, and reports it
            self._forward_request(request)
            return
        if self._finish(request):
            self._send_result(request.plain.id, {**(UNCACHED if self._is_modern else {}), "tools": tools})
        if not self._is_listening:
            self._listen()
            with suppress(ToolError):
                if current() != tools:
                    self._tools_changed()

    def _runs_here(self, params: Mapping[str, Any]) -> bool:
        """Whether the front loop runs a call: not if it may ask the client, as custom tools and agents do."""
        name, arguments = params["name"], params.get("arguments", {})
        if name not in self._local_tools:
            return False
        traits = self._traits(name)
        if traits.forwards:
            inner = arguments.get("name")
            return self._hand_over is None and inner in self._local_tools and not self._traits(inner).returns_patches
        return not traits.returns_patches and (self._hand_over is None or traits.needs_jobs is None)

    def _traits(self, name: str) -> Traits:
        return self._runtime.parts.catalog.find(name, self._runtime.settings["dialect"]).tool.traits

    def _call(self, request: _ActiveRequest) -> None:
        params, client, session = request.plain.params, request.client, self._session
        name, arguments = params["name"], params.get("arguments")
        approval = session.answered(name, arguments, self._runtime)
        call = Call(name, arguments, session=session.name, client=client.name, approval=approval)
        replies = ClientAnswers()
        attending = Attending(
            replies, client.can, by=client.name, alone=session.alone, send=lambda kind, values: None, wait=None
        )
        request.attending, request.replies, request.call = attending, replies, call
        done = partial(self._called, request)
        self._runtime.submit(call, done, began=partial(self._began, request), attendant=attending)

    def _began(self, request: _ActiveRequest, running: ActiveCall) -> None:
        request.running = running
        if request.replies is not None:
            running.event_id = request.replies.event_id

    def _called(self, request: _ActiveRequest, result: Result) -> None:
        """Respond to a call that has ended, or let the SDK continue it; called from any thread."""
        running, attending, replies, call = request.running, request.attending, request.replies, request.call
        if running is None or attending is None or replies is None or call is None:
            return
        if attending.needs:
            self._forward_request(request, FirstRun(running, result, attending, replies))
            return
        if not self._finish(request):
            return
        prepared = running.prepared
        self._send_result(request.plain.id, call_answer(self._session, call, result, prepared))
        if prepared is not None and prepared.tool.traits.sets_mode:
            self._tools_changed()

    def _finish(self, request: _ActiveRequest) -> bool:
        """Remove a request that has ended; return whether to send a response."""
        with self._lock:
            if self._active.get(request.plain.id) is request:
                del self._active[request.plain.id]
            needs_response = not request.is_cancelled
        if self._waiting or self._is_retiring:
            self.resume()
        return needs_response

    def _forward_request(self, request: _ActiveRequest, first_run: FirstRun | None = None) -> None:
        """Let the SDK answer a request, unless it was cancelled."""
        with self._lock:
            if self._finish(request) and not self._has_ended:
                if first_run is not None:
                    self._first_runs[request.plain.id] = first_run
                self._forward(request.line, (request.plain.id, request.plain.method, request.plain.params))
                return
        if first_run is not None:
            first_run.abandon(ToolError("cancelled", f"The call of {request.plain.params['name']} was cancelled."))

    # --- the SDK --------------------------------------------------------------------------------------------------

    def _forward(self, line: bytes, request: tuple[Any, str, Mapping[str, Any]] | None = None) -> None:
        with self._lock:
            if request is not None:
                self._forwarded.add(request[0])
            if self._sdk is None:
                self._sdk = self._start_sdk()
                if self._opening is not None:
                    self._sdk.feed(json.dumps(self._opening).encode())
                if self._is_initialized:
                    self._sdk.feed(json.dumps({"jsonrpc": "2.0", "method": _INITIALIZED}).encode())
            self._sdk.feed(line)

    def _start_sdk(self) -> SdkThread:
        self._threads.put(self._listen)
        return SdkThread(self._serving, self._output, self)

    def _serving(self) -> Serving:
        from hilt.surfaces.mcp.server import Serving

        return Serving(
            self._runtime,
            self._choice,
            single=self._session,
            providers=self._providers,
            hand_over=self._hand_over,
            take_first_run=self._take_first_run,
            tasks=self._tasks,
        )

    def _take_first_run(self, id: Any) -> FirstRun | None:
        with self._lock:
            return self._first_runs.pop(id, None)

    def is_active(self, id: Any) -> bool:
        """Whether a request with this id has not been answered yet."""
        with self._lock:
            if id in self._forwarded or id in self._active:
                return True
            return self._sdk is not None and self._sdk.is_active(id)

    def settled(self, id: Any) -> None:
        """Record that the SDK has answered a request, or will not."""
        with self._lock:
            self._forwarded.discard(id)
            first_run = self._first_runs.pop(id, None)
        if self._is_retiring:
            self.resume()
        if first_run is not None:
            first_run.abandon(ToolError("cancelled", "The call was cancelled."))

    # --- changes --------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Watch the tools once a client may want to know of changes; not earlier, because the imports are slow."""
        with self._lock:
            if self._is_listening or self._has_ended:
                return
            self._is_listening = True
        stop = self._runtime.parts.listen(self._tools_changed)
        with self._lock:
            if self._waker >= 0:
                self._stop_listening = stop
                return
        stop()  # the connection has ended in the meantime

    def _tools_changed(self) -> None:
        if self._sdk is not None and self._sdk.announce("tools"):
            return
        if self._is_initialized and not self._is_modern:
            if self._output.is_read:
                self._has_unread_change = False
            if not self._has_unread_change:
                self._output.write(TOOLS_CHANGED)
                self._has_unread_change = not self._output.is_read

    # --- the end --------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        with self._lock:
            self._has_ended = True
            active = list(self._active.values())
            unanswered = [request.plain.id for request in active if not request.is_cancelled]
            for request in active:
                request.is_cancelled = True
        for id in unanswered:
            self._output.send(_error(id, CONNECTION_CLOSED, "Connection closed"))
        for request in active:
            if request.running is not None:
                request.running.cancel()
        if self._sdk is not None:
            self._sdk.end(CLOSE_SECONDS)
        for id in list(self._first_runs):
            self.settled(id)
        self._threads.close()
        if self._is_retiring and not active and not self.is_complete:
            self._output.write(self._farewell)
        self._output.close(FLUSH_SECONDS)
        with self._lock:  # other threads may still call `resume`
            wake, waker, self._waker = self._wake, self._waker, -1
            stop, host = self._stop_listening, self._host
        if stop is not None:
            stop()
        if host is not None:
            host.close()
        os.close(wake)
        os.close(waker)


class _ActiveRequest:
    """A request that the front loop answers itself."""

    def __init__(self, plain: Plain, line: bytes, client: Client) -> None:
        self.plain = plain
        self.line = line
        self.client = client
        self.since = time.monotonic()
        self.is_cancelled = False
        self.call: Call | None = None
        self.running: ActiveCall | None = None
        self.attending: Attending | None = None
        self.replies: ClientAnswers | None = None


class _Lines:
    """Splits bytes into lines; the bytes of a line that is too long are counted and dropped."""

    def __init__(self) -> None:
        self._part = bytearray()
        self._skipped = 0

    def split(self, data: bytes) -> list[bytes | ToolError]:
        """Return the lines that these bytes complete."""
        *lines, rest = data.split(b"\n")
        complete = [self._finish(line) for line in lines]
        self._keep(rest)
        return complete

    def rest(self) -> list[bytes | ToolError]:
        """Return the last line if it has no newline."""
        return [self._finish(b"")] if self._part.strip() else []

    def _keep(self, data: bytes) -> None:
        if self._skipped or len(self._part) + len(data) > wire.MAX_REQUEST_BYTES + 1:
            self._skipped += len(self._part) + len(data)
            self._part.clear()
        else:
            self._part += data

    def _finish(self, data: bytes) -> bytes | ToolError:
        self._keep(data)
        skipped, self._skipped = self._skipped, 0
        line = bytes(self._part)
        self._part.clear()
        return wire.too_large(skipped) if skipped else line


def _local_tools(runtime: Runtime) -> frozenset[str]:
    """Return the names of built-in tools, including their names in the current dialect."""
    names = frozenset(built_in_names())
    current = runtime.settings["dialect"]
    if current is None:
        return names
    return names | {name for name, entry in dialect(current).items() if entry.tool in names}


def _is_request(message: Any, id: Any) -> bool:
    return isinstance(message, dict) and "method" in message and str(message.get("id")) == str(id)


def _may_wait(message: Any) -> bool:
    """Whether a message may wait: cancellations, responses and pings must not."""
    if not isinstance(message, dict):
        return isinstance(message, list)
    return "id" in message and "method" in message and message["method"] != "ping"


def _response(id: Any, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def _error(id: Any, code: int, reason: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": reason}}
