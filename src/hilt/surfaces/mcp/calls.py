"""One tools/call: runs on the runtime's threads, is cancelled with its request, and sends progress and questions."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import mcp_types as types
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hilt.active_call import ActiveCall
from hilt.call import Call, Result
from hilt.catalog import built_in_names
from hilt.desk.approvals import POLL_SECONDS
from hilt.errors import ToolError
from hilt.pipeline import Prepared
from hilt.runtime import Runtime
from hilt.surfaces.mcp.attendant import Attending, ClientAnswers, Responses
from hilt.surfaces.mcp.call_tasks import AFTER_SECONDS, CallTask, CallTasks, Failure, Outcome
from hilt.surfaces.mcp.clients import Client, client_of
from hilt.surfaces.mcp.content import call_answer, error_result, replace_surrogates
from hilt.surfaces.mcp.first_run import FirstRun
from hilt.surfaces.mcp.names import APPROVAL, SESSION, TASKS
from hilt.surfaces.mcp.open_forms import OpenForms
from hilt.surfaces.mcp.sessions import Session
from hilt.surfaces.oneshot import for_resident

Ctx = ServerRequestContext[Any, Any]
HandOver = Callable[[Call], Result]
TakeFirstRun = Callable[[Any], FirstRun | None]  # by the id of the request

BEAT_SECONDS = 1.0
STEP = 0.001  # the increment of a heartbeat without real progress
ROUNDS_MAX = 1000  # calls that wait for the client's next request
ROUND_SECONDS = 600.0
EVENTS_MAX = 256  # unsent events of a call; more are dropped


class OpenCall(NamedTuple):
    """A call that ended with questions, and its state for when the client retries it."""

    run: CallRun | FirstRun
    replies: ClientAnswers
    forms: OpenForms
    session: Session
    key: str
    until: float


class Rounds:
    """Calls that continue with the client's next request, by a secret that is valid once."""

    def __init__(self) -> None:
        self._open: dict[str, OpenCall] = {}

    def keep(
        self, run: CallRun | FirstRun, replies: ClientAnswers, forms: OpenForms, session: Session, key: str
    ) -> str:
        """Store a call, and return the secret that identifies it."""
        now = time.monotonic()
        self.end(before=now)
        while len(self._open) >= ROUNDS_MAX:
            self._end(next(iter(self._open)))
        state = secrets.token_urlsafe(24)
        self._open[state] = OpenCall(run, replies, forms, session, key, now + ROUND_SECONDS)
        return state

    def take(self, state: str, key: str, session: str | None) -> OpenCall:
        """Return the call that a request continues, which must be the same call in the same session."""
        open_call = self._open.get(state)
        if open_call is None or open_call.key != key or open_call.until < time.monotonic():
            raise _bad_state()
        if session is not None and session != open_call.session.name:
            raise _bad_state()
        del self._open[state]
        return open_call

    def end(self, before: float = float("inf")) -> None:
        """End the calls that expired before this time: nobody will answer them."""
        for state in [state for state, open_call in self._open.items() if open_call.until < before]:
            self._end(state)

    def _end(self, state: str) -> None:
        open_call = self._open.pop(state)
        open_call.run.abandon(ToolError("approval_timeout", "The client did not answer in time."))
        open_call.forms.close()


def _key(params: types.CallToolRequestParams) -> str:
    return json.dumps([params.name, params.arguments], sort_keys=True)


def _bad_state() -> MCPError:
    data = {"reason": "invalid_request_state"}
    return MCPError(code=INVALID_PARAMS, message="Invalid or expired requestState", data=data)


class Calls:
    """Runs the calls of all clients."""

    def __init__(
        self,
        runtime: Runtime,
        offload: Callable[[Callable[[], Any]], asyncio.Future[Any]],
        hand_over: HandOver | None = None,
        take_first_run: TakeFirstRun | None = None,
        tasks: CallTasks | None = None,
        owner: str | None = None,
        *,
        approves: bool = True,
    ) -> None:
        """Run calls on a runtime; `offload` runs slow work, `hand_over` runs calls that must outlive this process.

        `take_first_run` returns the first run of a call that ended with questions in the front loop. `tasks` are the
        tasks of the process; those of a connection belong to its session, `owner`. Clients are asked for approvals
        only with `approves`.
        """
        self.approves = approves
        self._runtime = runtime
        self._hand_over = hand_over
        self._take_first_run: TakeFirstRun = take_first_run or (lambda id: None)
        self._tasks = tasks or CallTasks()
        self._owner = runtime.parts.id, owner
        self._offload = offload
        self._built_in = frozenset(built_in_names())
        self._rounds = Rounds()
        self.mode_set: Callable[[], None] = lambda: None  # called when the mode of a session has changed
        self.asking = 0  # calls that wait for an answer from a client

    def close(self) -> None:
        """End the calls that are waiting for their client."""
        self._rounds.end()

    def end_idle(self) -> None:
        """End the calls whose client did not answer in time."""
        self._rounds.end(before=time.monotonic())

    async def call(
        self, ctx: Ctx, params: types.CallToolRequestParams, session_of: Callable[[], Session]
    ) -> dict[str, Any]:
        """Answer one request."""
        modern = is_modern(ctx)
        raw = ctx.params or {}
        meta = raw.get("_meta") or {}
        first_run = self._take_first_run(ctx.request_id)
        replies = ClientAnswers() if first_run is None else first_run.replies
        responses = raw.get("inputResponses") or {}
        if modern and params.request_state is not None:
            session_name = session_of().name if SESSION in meta else None
            open_call = self._rounds.take(params.request_state, _key(params), session_name)
            replies, session, forms = open_call.replies, open_call.session, open_call.forms
            open_call.run.attending.take(responses)
            if forms.is_open:
                await self._offload(forms.settle)
        else:
            session = session_of()
            replies.inputs.update(responses)
            forms = self.forms(session.name, replies)
        approval = meta.get(APPROVAL)
        if not isinstance(approval, str) or not _ID.fullmatch(approval):
            approval = session.answered(params.name, params.arguments, self._runtime) if first_run is None else None
        by, can, *_ = client(ctx)
        call = Call(params.name, params.arguments, session=session.name, client=by, approval=approval)
        session.calls += 1
        progress = Progress(ctx)
        run: CallRun | FirstRun | None = None
        try:
            handed_over = None if first_run is not None else await self._handed_over(session, call)
            if handed_over is not None:
                return handed_over
            while True:
                session.alone = session.alone or None in replies.approvals.values()
                run = first_run or CallRun(self, ctx, call, replies, can, progress, by=by, alone=session.alone)
                result = await run.result(AFTER_SECONDS if modern and "tasks" in can else None)
                first_run = None
                if result is None:
                    task = self._as_task(run, session, call, replies, can)
                    if task is not None:
                        return {"resultType": "task", **task.summary()}
                    result = await run.result()
                attending = run.attending
                if result is None or (attending.missing is not None and modern):
                    raise _missing_capability(str(attending.missing))
                if not attending.needs:
                    return self._answer(session, call, result, run.prepared, is_forwarded=run.is_forwarded)
                replies.ended(result)
                attending.sent()
                await self._offload(partial(forms.open, attending.asked, attending.questions))
                if modern:
                    state = self._rounds.keep(run, replies, forms, session, _key(params))
                    required = {"resultType": "input_required", "inputRequests": attending.needs}
                    return {**required, "requestState": state}
                answers = await self.ask_first(ctx, attending.needs, forms)
                if answers is not None:
                    if any(answers[name] is None for name in attending.needs):
                        can = can - {"form"}  # the client declares forms but does not answer them
                    attending.take({name: answer for name, answer in answers.items() if answer is not None})
                if forms.is_open:
                    await self._offload(forms.settle)
        except ToolError as error:
            if run is not None:
                run.abandon(error)
            return error_result(error)
        except asyncio.CancelledError:
            if run is not None:
                run.abandon(ToolError("cancelled", f"The call of {call.tool} was cancelled."))
            raise
        finally:
            progress.end()
            if forms.is_open and not (modern and run is not None and run.attending.needs):
                self._offload(forms.close)
            session.calls -= 1
            session.used = time.monotonic()

    def forms(self, session: str | None, replies: ClientAnswers) -> OpenForms:
        """Return the forms of one call in a session; none is open yet."""
        return OpenForms(self._runtime, session or self._runtime.session, replies)

    async def ask_first(self, ctx: Ctx, requests: Mapping[str, Any], forms: OpenForms) -> Responses | None:
        """Ask a client that has a connection; return None if the forms are answered elsewhere first."""
        if not forms.is_open:
            return await self.ask(ctx, requests)
        asking = asyncio.create_task(self.ask(ctx, requests))
        polling = asyncio.create_task(self._answered_by(forms))
        try:
            await asyncio.wait((asking, polling), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            await _log_notice(ctx, f"This was answered elsewhere, by {polling.result()}.")
            return None
        finally:
            # cancelling notifies the client that it need not answer
            asking.cancel()
            polling.cancel()
            await asyncio.gather(asking, polling, return_exceptions=True)

    async def _answered_by(self, forms: OpenForms) -> str:
        """Wait until the forms are answered elsewhere, and return by whom."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            by: str | None = await self._offload(forms.answered_by)
            if by is not None:
                return by

    def _as_task(
        self, run: CallRun | FirstRun, session: Session, call: Call, replies: ClientAnswers, can: frozenset[str]
    ) -> CallTask | None:
        """Continue a call as a task; return None if it has just ended, or if there are too many tasks."""
        if not isinstance(run, CallRun):
            return None

        def answer(result: Result, running: ActiveCall | None, attending: Attending) -> Outcome:
            prepared = None if running is None else running.prepared
            is_forwarded = running is not None and running.call.through is not None
            try:
                if attending.missing is not None:
                    raise _missing_capability(attending.missing)
                return self._answer(session, call, result, prepared, is_forwarded=is_forwarded)
            except MCPError as error:
                return Failure(error.error.code, error.error.message, error.error.data)

        def renew(task: CallTask) -> Attending:
            return Attending(
                replies,
                can,
                by=str(call.client),
                alone=session.alone,
                approves=self.approves,
                send=partial(_note, task),
                wait=None,
            )

        def ended() -> None:
            session.calls -= 1

        task = CallTask(
            self._runtime, call, run.running, run.attending, replies=replies, renew=renew, answer=answer, ended=ended
        )
        if not self._tasks.add(task, self._owner):
            return None
        session.calls += 1
        if run.detach(task):
            return task
        session.calls -= 1
        self._tasks.drop(task)
        return None

    def task(self, ctx: Ctx, id: str) -> CallTask:
        """Return the task with this id, for a client that supports tasks."""
        if not is_modern(ctx):
            raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=ctx.method)
        if "tasks" not in client(ctx).can:
            raise _missing_capability("tasks")
        task = self._tasks.find(id, self._owner)
        if task is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown task: {id[:100]}")
        return task

    async def _handed_over(self, session: Session, call: Call) -> dict[str, Any] | None:
        """Run a call that needs background jobs in the resident process; return None for any other call."""
        hand_over = self._hand_over
        prepared = None
        if hand_over is not None:
            prepared = await self._offload(lambda: for_resident(self._runtime, call))
        if hand_over is None or prepared is None:
            return None
        result: Result = await self._offload(lambda: hand_over(call))
        if result.error is not None and result.error.code == "resident_required":
            return None  # not reachable: running the call here rejects and records it
        if result.error is None and prepared.tool.output is not None:
            with suppress(ValueError):  # a tool may still return text
                result = result._replace(text="", data=json.loads(result.text))
        return self._answer(session, call, result, prepared)

    def _answer(
        self, session: Session, call: Call, result: Result, prepared: Prepared | None, *, is_forwarded: bool = False
    ) -> dict[str, Any]:
        error = result.error
        # an unknown name in the arguments of tool_call is the model's error, not the client's
        if error is not None and error.code == "unknown_tool" and prepared is None and not is_forwarded:
            raise unknown_tool(call.tool, error)
        if prepared is not None and prepared.tool.traits.sets_mode:
            self.mode_set()
        return call_answer(session, call, result, prepared)

    async def submit(self, call: Call, done: Callable[[Result], None], **options: Any) -> None:
        """Start a call; a tool that is not built in is resolved on another thread, because that may be slow."""
        is_quick = (
            call.tool in self._built_in and not self._runtime.parts.catalog.find(call.tool).tool.traits.finds_tools
        )
        if is_quick:  # resolved without reading files
            self._runtime.submit(call, done, **options)
        else:
            await self._offload(lambda: self._runtime.submit(call, done, **options))

    async def ask(self, ctx: Ctx, requests: Mapping[str, Any]) -> Responses:
        """Ask a client that has a connection; None for requests that it does not answer."""
        answers: Responses = dict.fromkeys(requests)
        seconds = self._runtime.settings["approvals.timeout_s"]
        self.asking += 1
        try:
            async with asyncio.timeout(seconds):
                for name, request in requests.items():
                    answers[name] = await _ask(ctx, request)
        except TimeoutError:
            raise ToolError("approval_timeout", f"Nobody answered within {seconds:g} s.") from None
        except (MCPError, ValueError):
            pass  # not supported by the client, or an invalid response
        finally:
            self.asking -= 1
        return answers


class Progress:
    """Reports progress to a client that asked for it, with a heartbeat every second."""

    def __init__(self, ctx: Ctx) -> None:
        self._session = ctx.session
        self._started = time.monotonic()
        self._sent = False  # since the last heartbeat
        self._counts = False  # whether the tool reports progress itself; otherwise elapsed seconds are sent
        self._last = -1.0
        self._total: float | None = None
        meta = (ctx.params or {}).get("_meta") or {}
        self._task = asyncio.create_task(self._beat()) if meta.get("progressToken") is not None else None

    def end(self) -> None:
        """Stop reporting."""
        if self._task is not None:
            self._task.cancel()

    async def report(self, done: float, total: float | None, message: str) -> None:
        """Report the progress of the tool."""
        if self._task is not None:
            self._counts = True
            await self._send(done, total, message)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            if not self._sent:
                elapsed = round(time.monotonic() - self._started, 1)
                await self._send(self._last if self._counts else elapsed, self._total, f"{elapsed:g} s")
            self._sent = False

    async def _send(self, done: float, total: float | None, message: str) -> None:
        if done <= self._last:
            done = self._last + STEP  # progress must increase, whatever a tool reports
            total = total if total is None or total >= done else None
        self._last, self._total, self._sent = done, total, True
        await self._session.report_progress(done, total, replace_surrogates(message) or None)


class CallRun:
    """One run of a call, driven from the event loop."""

    def __init__(
        self,
        calls: Calls,
        ctx: Ctx,
        call: Call,
        replies: ClientAnswers,
        can: frozenset[str],
        progress: Progress,
        *,
        by: str,
        alone: bool,
    ) -> None:
        self._calls = calls
        self._ctx = ctx
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._running: ActiveCall | None = None
        self._asking: dict[asyncio.Task[None], Future[Responses]] = {}
        self._progress = progress
        self._event_id = replies.event_id
        self._is_abandoned = False
        self._is_submitted = False
        self._lock = threading.Lock()
        self._has_result = False
        self._task: CallTask | None = None
        self._levels = allowed_log_levels(ctx.protocol_version, ctx.meta)
        self.attending = Attending(
            replies,
            can,
            by=by,
            alone=alone,
            approves=calls.approves,
            send=self._send,
            wait=None if is_modern(ctx) else self._wait,
            open_forms=lambda session, replies: calls.forms(session or call.session, replies),
        )

    @property
    def running(self) -> ActiveCall | None:
        """The running call; None before it has started."""
        return self._running

    @property
    def prepared(self) -> Prepared | None:
        """The prepared call; None before the run has started."""
        return None if self._running is None else self._running.prepared

    @property
    def is_forwarded(self) -> bool:
        """Whether the call named its tool in its arguments."""
        return self._running is not None and bool(self._running.call.through)

    def detach(self, task: CallTask) -> bool:
        """Pass the result to a task; return False if it has already arrived."""
        with self._lock:
            if not self._has_result:
                self._task = task
            return not self._has_result

    def abandon(self, error: ToolError) -> None:
        """Record a call that ends between a question and its answer."""
        if self.attending.needs and self._running is not None:
            self._running.abandon(error)

    async def result(self, seconds: float | None = None) -> Result | None:
        """Run the call to its end, and cancel it if the request is cancelled; return None after this many seconds."""
        ended = False
        limit = asyncio.timeout(seconds)
        try:
            if not self._is_submitted:
                self._is_submitted = True
                await self._calls.submit(self._call, self._done, began=self._began, attendant=self.attending)
            async with limit:
                while True:
                    kind, values = await self._events.get()
                    if kind == "done":
                        ended = True
                        return values  # type: ignore[no-any-return]
                    await self._handle(kind, values)
        except TimeoutError:
            if not limit.expired():
                raise
            ended = True
            return None
        finally:
            self._is_abandoned = not ended
            if self._running is not None and not ended:
                self._running.cancel()
            for task, answer in self._asking.items():
                task.cancel()
                answer.cancel()

    async def _handle(self, kind: str, values: Any) -> None:
        if kind == "progress":
            await self._progress.report(*values)
        elif kind == "log" and values[0] in self._levels:
            level, data = values
            if is_modern(self._ctx) or _is_wanted(self._ctx, level):
                params = types.LoggingMessageNotificationParams(
                    level=level, data=replace_surrogates(data), logger=self._call.tool
                )
                note = types.LoggingMessageNotification(params=params)
                await self._ctx.session.send_notification(note, related_request_id=self._ctx.request_id)
        elif kind == "ask":
            requests, forms, answer = values
            self._asking[self._loop.create_task(self._fetch(requests, forms, answer))] = answer

    async def _fetch(self, requests: Mapping[str, Any], forms: OpenForms | None, answer: Future[Responses]) -> None:
        responses: Responses | None = None
        with suppress(ToolError):
            if forms is None:
                responses = await self._calls.ask(self._ctx, requests)
            else:
                responses = await self._calls.ask_first(self._ctx, requests, forms)
        if not answer.done():
            answer.set_result(dict.fromkeys(requests) if responses is None else responses)

    # --- called from other threads --------------------------------------------------------------------------------

    def _began(self, running: ActiveCall) -> None:
        self._running = running
        running.event_id = self._event_id
        if self._is_abandoned:
            running.cancel()  # the request was cancelled before the call started

    def _done(self, result: Result) -> None:
        with self._lock:
            self._has_result = True
            task = self._task
        if task is None:
            self._send("done", result)
        else:
            task.ended(self.attending, result)

    def _send(self, kind: str, values: Any) -> None:
        if self._task is not None:
            _note(self._task, kind, values)
            return
        if kind in ("progress", "log") and self._events.qsize() > EVENTS_MAX:
            return  # the client does not read: do not fill up memory
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, (kind, values))
        except RuntimeError:
            return  # the loop has ended

    def _wait(self, requests: Mapping[str, Any], forms: OpenForms | None) -> Responses:
        """Ask the client and wait, on a thread of the runtime; this does not count towards the tool's timeout."""
        if self._is_abandoned:
            raise ToolError("cancelled", "The call was cancelled.")
        answer: Future[Responses] = Future()
        running, started = self._running, time.perf_counter()
        deadline = float("inf")
        if running is not None:
            deadline, running.deadline = running.deadline, float("inf")
        self._send("ask", (requests, forms, answer))
        try:
            return answer.result()
        except CancelledError:
            raise ToolError("cancelled", "The call was cancelled.") from None
        finally:
            if running is not None:
                running.deadline = deadline + time.perf_counter() - started


def _note(task: CallTask, kind: str, values: Any) -> None:
    """Show the progress messages of a call on its task."""
    if kind == "progress" and values[2]:
        task.note(values[2])


def connection_of(ctx: Ctx) -> Connection:
    """Return the SDK's connection object of a request, which lives as long as the client is connected."""
    return ctx.session._connection  # the SDK has no public access yet


def is_modern(ctx: Ctx) -> bool:
    """Whether a request uses a protocol version without a handshake."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def client(ctx: Ctx) -> Client:
    """Return the client of a request, as declared by itself."""
    params, declared = ctx.session.client_params, ctx.session.client_capabilities
    info = {} if params is None else params.client_info.model_dump(mode="json", by_alias=True, exclude_none=True)
    capabilities = {} if declared is None else declared.model_dump(mode="json", by_alias=True, exclude_none=True)
    return client_of(info, capabilities)


def unknown_tool(name: str, error: ToolError) -> MCPError:
    """Return the protocol error for an unknown tool name."""
    similar = error.message.partition(". ")[2]
    return MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {name[:100]}" + (f". {similar}" if similar else ""))


def _missing_capability(capability: str) -> MCPError:
    message = f"The call needs a client with the capability {capability}"
    required: dict[str, Any] = {capability: {}} if capability != "tasks" else {"extensions": {TASKS: {}}}
    data: dict[str, Any] = {"requiredCapabilities": required}
    return MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message=message, data=data)


_RESULTS: dict[str, type[types.Result]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


async def _ask(ctx: Ctx, request: Mapping[str, Any]) -> dict[str, Any]:
    method = str(request.get("method"))
    typed = types.server_request_adapter.validate_python(dict(request), by_name=False)
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    response = await ctx.session.send_request(typed, _RESULTS[method], metadata=metadata)
    return response.model_dump(mode="json", by_alias=True, exclude_none=True)


async def _log_notice(ctx: Ctx, message: str) -> None:
    """Send a log message to a client that has a connection."""
    if _is_wanted(ctx, "notice"):
        params = types.LoggingMessageNotificationParams(level="notice", data=replace_surrogates(message), logger="hilt")
        note = types.LoggingMessageNotification(params=params)
        await ctx.session.send_notification(note, related_request_id=ctx.request_id)


_ID = re.compile("[0-9a-f]{12}")  # a complete approval id: prefixes would be easier to guess

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def _is_wanted(ctx: Ctx, level: str) -> bool:
    """Whether a client with a connection wants messages of this log level."""
    minimum = connection_of(ctx).state.get("level", "debug")
    return _LEVELS.index(level) >= _LEVELS.index(minimum)
