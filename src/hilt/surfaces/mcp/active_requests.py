"""The requests of one client that the front loop answers itself, and the questions that it asks meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Protocol

from hilt.call import Call
from hilt.call_threads import CallThreads
from hilt.catalog import built_in_names, dialect
from hilt.desk.approvals import POLL_SECONDS
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.mcp.attendant import Responses
from hilt.surfaces.mcp.client_call import ClientCall, Failure, Rounds
from hilt.surfaces.mcp.content import COMPLETE, Choice, instructions, tool_list
from hilt.surfaces.mcp.lines import REQUESTS_MAX, LineOutput
from hilt.surfaces.mcp.plain import (
    LOG_LEVELS,
    SERVER_INFO,
    SERVER_KEY,
    UNCACHED,
    Client,
    Plain,
    discovery_result,
    is_form_response,
)
from hilt.surfaces.mcp.sessions import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.declaration import Traits

STARTING_MAX = 2  # calls of one client that have just started, if the process serves other clients too
STARTING_SECONDS = 0.02  # for which a call counts as just started

CONNECTION_CLOSED = -32000
CANCELLED = "notifications/cancelled"

_FIRST_ID = 1 << 30  # of our requests; the SDK counts its own from 1


class FrontLoop(Protocol):
    """The part of the front loop that those who answer requests use, from any thread."""

    replayed: str  # the id of the request that repeats the handshake; the client already has the response

    def is_active(self, id: Any) -> bool:
        """Whether the front loop is answering a request with this id."""

    def forward(self, message: Any) -> None:
        """Let the SDK answer a message."""

    def settled(self, id: Any) -> None:
        """Record that a forwarded request was answered, or will not be."""

    def finished(self) -> None:
        """Record that a request was answered without the SDK, or will not be."""

    def listed(self, has_changed: Callable[[], bool]) -> None:
        """Record that the client knows the tools; `has_changed` returns whether they have changed since."""

    def tools_changed(self) -> None:
        """Notify the client that its tools may have changed."""

    def stop(self) -> None:
        """End the connection."""

    def resume(self) -> None:
        """Check again what the loop waits for."""


class ActiveRequest:
    """A request that the front loop answers itself, and what its call reports to."""

    def __init__(self, requests: Requests, plain: Plain, message: Any) -> None:
        self._requests = requests
        self.plain = plain
        self.message = message
        self.since = time.monotonic()
        self.is_cancelled = False
        self.call: ClientCall | None = None

    def asked(self) -> None:
        """Let the client answer the questions of the call."""
        self._requests.ask(self)

    def ended(self) -> None:
        """Respond with the outcome of the call."""
        self._requests.respond(self)

    def send(self, kind: str, values: tuple[Any, ...]) -> None:
        """Drop progress and log messages: a plain request does not ask for them."""


class Requests:
    """Answers plain requests. Calls run on the runtime's threads, and the thread that ends one writes the response."""

    def __init__(
        self,
        runtime: Runtime,
        choice: Choice,
        session: Session,
        output: LineOutput,
        rounds: Rounds,
        threads: CallThreads,
        front: FrontLoop,
        *,
        hands_over: bool,
        completes: bool,
    ) -> None:
        """Answer requests of a client; with `hands_over`, calls that must outlive this process are not answered."""
        self.is_modern = False
        self.client: Client | None = None  # of the handshake
        self._runtime = runtime
        self._choice = choice
        self._session = session
        self._output = output
        self._rounds = rounds
        self._threads = threads
        self._hands_over = hands_over
        self._completes = completes
        self._front = front
        self._lock = threading.RLock()
        self._active: dict[int | str, ActiveRequest] = {}
        self._local_tools = _local_tools(runtime)
        self.questions = ClientQuestions(output, runtime.settings["approvals.timeout_s"], threads.put, front.resume)

    def __contains__(self, id: Any) -> bool:
        with self._lock:
            return id in self._active

    def __len__(self) -> int:
        return len(self._active)

    def has_room(self, *, shares: bool) -> bool:
        """Whether another request may start; with `shares`, the process serves other clients too."""
        if len(self._active) >= REQUESTS_MAX:
            return False
        if not shares or len(self._active) < STARTING_MAX:
            return True
        # a flood of short calls would slow down other clients; long calls mostly wait
        with self._lock:
            request = next(islice(reversed(self._active.values()), STARTING_MAX - 1, None), None)
        return request is None or time.monotonic() - request.since > STARTING_SECONDS

    @property
    def is_blocked(self) -> bool:
        """Whether only the client's answers can make room: they may be queued behind its next requests."""
        return len(self._active) >= REQUESTS_MAX and self.questions.is_open

    def answer(self, plain: Plain, message: Any) -> None:
        """Answer a request, or let the SDK do it."""
        client = plain.client or self.client
        if plain.method == "ping":
            self._output.send(response(plain.id, {}))
        elif plain.method == "server/discover":
            self._send(plain.id, discovery_result(self.instructions, completes=self._completes))
        elif client is None or (plain.method == "tools/call" and not self._runs_here(plain.params)):
            self._front.forward(message)
        else:
            request = ActiveRequest(self, plain, message)
            with self._lock:
                self._active[plain.id] = request
            if plain.method == "tools/list":
                self._threads.put(partial(self._list, request, client))
            else:
                self._call(request, client)

    @property
    def instructions(self) -> str:
        """The instructions for the client's model."""
        return instructions(search=self._choice.search, dialect=self._runtime.settings["dialect"])

    def _send(self, id: Any, result: dict[str, Any]) -> None:
        """Send a result in the format of the client's era."""
        if self.is_modern:
            result = {**COMPLETE, **result, "_meta": {**result.get("_meta", {}), SERVER_KEY: SERVER_INFO}}
        else:
            result.pop("resultType", None)
        self._output.send(response(id, result))

    def _list(self, request: ActiveRequest, client: Client) -> None:
        """Send the list of tools; the SDK reports errors."""
        asks = "form" in client.can and not self._session.alone
        current = partial(tool_list, self._runtime, self._choice, self._session.name, client_asks=asks)
        try:
            tools = current()
        except Exception:  # noqa: BLE001 -- the SDK fails in the same way, and reports it
            with self._lock:
                if not request.is_cancelled:
                    self._front.forward(request.message)
                self._finish(request)
            return
        if self._finish(request):
            self._send(request.plain.id, {**(UNCACHED if self.is_modern else {}), "tools": tools})
        self._front.listed(lambda: current() != tools)

    # --- calls ----------------------------------------------------------------------------------------------------

    def _runs_here(self, params: Mapping[str, Any]) -> bool:
        """Whether a call is answered here: not if its tool may ask while it runs, as custom tools and agents do."""
        name, arguments = params["name"], params.get("arguments", {})
        if name not in self._local_tools:
            return False
        traits = self._traits(name)
        if traits.forwards:
            inner = arguments.get("name")
            return not self._hands_over and inner in self._local_tools and not self._traits(inner).returns_patches
        return not traits.returns_patches and (not self._hands_over or traits.needs_jobs is None)

    def _traits(self, name: str) -> Traits:
        return self._runtime.parts.catalog.find(name, self._runtime.settings["dialect"]).tool.traits

    def _call(self, request: ActiveRequest, client: Client) -> None:
        params, session = request.plain.params, self._session
        name, arguments, responses = params["name"], params.get("arguments"), params.get("inputResponses", {})
        if "requestState" in params:
            kept = self._rounds.take(params["requestState"], name, arguments, None)
            if isinstance(kept, Failure):
                self._finish(request)
                self._output.send(error_response(request.plain.id, kept.code, kept.message, kept.data))
                return
            request.call = kept
            self._threads.put(partial(kept.answer, responses, request))
            return
        approval = session.answered(name, arguments, self._runtime)
        call = Call(name, arguments, session=session.name, client=client.name, approval=approval)
        request.call = ClientCall(self._runtime, session, call, client, request, inputs=responses)
        request.call.start()

    def ask(self, request: ActiveRequest) -> None:
        """Ask the questions of a call, by requests to the client or in the response; called from any thread."""
        call = request.call
        assert call is not None  # noqa: S101
        if not self.is_modern:
            self.questions.ask(call)
            if request.is_cancelled:
                self.questions.withdraw(call)
            return
        result = self._rounds.keep(call)
        if self._finish(request):
            self._send(request.plain.id, result)
        else:
            call.end()

    def respond(self, request: ActiveRequest) -> None:
        """Respond to a call that has ended; called from any thread."""
        call = request.call
        if call is None or not self._finish(request):
            return
        outcome = call.outcome(modern=self.is_modern)
        if isinstance(outcome, Failure):
            self._output.send(error_response(request.plain.id, outcome.code, outcome.message, outcome.data))
        else:
            self._send(request.plain.id, outcome)
        if call.sets_mode:
            self._front.tools_changed()

    def _finish(self, request: ActiveRequest) -> bool:
        """Remove a request that has ended; return whether to send a response."""
        with self._lock:
            if self._active.get(request.plain.id) is request:
                del self._active[request.plain.id]
            needs_response = not request.is_cancelled
        self._front.finished()
        return needs_response

    def cancel(self, id: int | str) -> None:
        """Cancel a request: it gets no response. A client may send the id with another type than in the request."""
        with self._lock:
            request = self._active.get(id) or next(
                (other for other_id, other in self._active.items() if str(other_id) == str(id)), None
            )
            if request is None:
                return
            request.is_cancelled = True
        self._end(request)

    def close(self) -> bool:
        """End all requests; return whether there were none."""
        with self._lock:
            active = list(self._active.values())
            unanswered = [request.plain.id for request in active if not request.is_cancelled]
            for request in active:
                request.is_cancelled = True
        for id in unanswered:
            self._output.send(error_response(id, CONNECTION_CLOSED, "Connection closed"))
        for request in active:
            self._end(request)
        self._rounds.end()
        return not active

    def _end(self, request: ActiveRequest) -> None:
        if request.call is not None:
            request.call.end()
            self.questions.withdraw(request.call)


class ClientQuestions:
    """Requests to a client with a connection to fill in the forms of calls. Used from many threads."""

    def __init__(
        self,
        output: LineOutput,
        seconds: float,
        later: Callable[[Callable[[], None]], None],
        wake: Callable[[], None],
    ) -> None:
        """Wait this long for a response; `later` runs work on another thread, and `wake` lets `check` be called."""
        self.log_level: Any = "debug"
        self._output = output
        self._seconds = seconds
        self._later = later
        self._wake = wake
        self._lock = threading.Lock()
        self._open: dict[int, _Question] = {}  # by the ids of their requests
        self._next_id = _FIRST_ID

    @property
    def is_open(self) -> bool:
        """Whether the client has not answered a question."""
        return bool(self._open)

    @property
    def wait_ms(self) -> float | None:
        """How long the front loop may wait before it calls `check`; None if no question is open."""
        if not self._open:
            return None
        with self._lock:
            questions = list(self._open.values())
        seconds = min((question.until - time.monotonic() for question in questions), default=0.0)
        if any(question.call.forms.is_open for question in questions):
            seconds = min(seconds, POLL_SECONDS)
        return max(seconds, 0.001) * 1000

    def ask(self, call: ClientCall) -> None:
        """Send the questions of a call."""
        question = _Question(call, time.monotonic() + self._seconds)
        requests = []
        with self._lock:
            for name, request in call.attendant.needs.items():
                id, self._next_id = self._next_id, self._next_id + 1
                question.names[id] = name
                self._open[id] = question
                requests.append({"jsonrpc": "2.0", "id": id, **request})
        for request in requests:
            self._output.send(request)
        self._wake()

    def take(self, message: Any) -> bool:
        """Receive a message if it is a response to a question; return whether it is."""
        if not isinstance(message, dict) or "method" in message:
            return False
        id, result = message.get("id"), message.get("result")
        if isinstance(id, str) and id.isdecimal() and id.isascii():
            id = int(id[:20])  # some clients change the type
        if not isinstance(id, int) or not _FIRST_ID <= id < self._next_id:
            return False
        with self._lock:
            question = self._open.pop(id, None)
            if question is None:
                return True  # too late
            is_valid = message.get("jsonrpc") == "2.0" and is_form_response(result)
            question.responses[question.names.pop(id)] = result if is_valid else None
            is_complete = not question.names
        if is_complete:
            answer = partial(question.call.answer, question.responses)
            if question.call.forms.is_open:
                self._later(answer)  # it uses the database
            else:
                answer()
        return True

    def withdraw(self, call: ClientCall, answered_by: str | None = None) -> bool:
        """Tell the client that it need not answer; return False if it has."""
        with self._lock:
            ids = [id for id, question in self._open.items() if question.call is call]
            for id in ids:
                del self._open[id]
        if ids and answered_by and LOG_LEVELS.index("notice") >= LOG_LEVELS.index(self.log_level):
            note = {"level": "notice", "logger": "hilt", "data": f"This was answered elsewhere, by {answered_by}."}
            self._output.send({"jsonrpc": "2.0", "method": "notifications/message", "params": note})
        for id in ids:
            params = {"requestId": id, "reason": "caller cancelled"}
            self._output.send({"jsonrpc": "2.0", "method": CANCELLED, "params": params})
        return bool(ids)

    def check(self) -> None:
        """End calls whose questions were not answered in time, and continue those that were answered elsewhere."""
        with self._lock:
            questions = list(dict.fromkeys(self._open.values()))
        for question in questions:
            if question.until < time.monotonic():
                if self.withdraw(question.call):
                    error = ToolError("approval_timeout", f"Nobody answered within {self._seconds:g} s.")
                    self._later(partial(question.call.end, error))
            elif question.call.forms.is_open and not question.is_being_checked:
                question.is_being_checked = True
                self._later(partial(self._check_elsewhere, question))

    def _check_elsewhere(self, question: _Question) -> None:
        by = None
        with suppress(ToolError):  # it is checked again
            by = question.call.forms.answered_by()
        question.is_being_checked = False
        if by is not None and self.withdraw(question.call, by):
            question.call.answer({})


class _Question:
    """The requests for the forms of one call."""

    def __init__(self, call: ClientCall, until: float) -> None:
        self.call = call
        self.until = until
        self.names: dict[int, str] = {}  # of the unanswered requests, by id
        self.responses: Responses = {}
        self.is_being_checked = False


def _local_tools(runtime: Runtime) -> frozenset[str]:
    """Return the names of built-in tools, including their names in the current dialect."""
    names = frozenset(built_in_names())
    current = runtime.settings["dialect"]
    if current is None:
        return names
    return names | {name for name, entry in dialect(current).items() if entry.tool in names}


def response(id: Any, result: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a request."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def error_response(id: Any, code: int, reason: str, data: Any = None) -> dict[str, Any]:
    """Return an error as the response to a request."""
    error = {"code": code, "message": reason}
    return {"jsonrpc": "2.0", "id": id, "error": error if data is None else {**error, "data": data}}
