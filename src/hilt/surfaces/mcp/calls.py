"""The tools/call requests from the SDK: progress and questions go to the client from its event loop (ADR 0060)."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import mcp  # noqa: F401  # all of it before its modules, which import each other, or two threads fail
import mcp_types as types
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hilt.call import Call, Result
from hilt.catalog import built_in_names
from hilt.desk.approvals import POLL_SECONDS
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.mcp.attendant import Responses
from hilt.surfaces.mcp.call_tasks import AFTER_SECONDS, CallTask, CallTasks
from hilt.surfaces.mcp.client_call import ClientCall, Failure, OpenForms, Rounds, missing_capability
from hilt.surfaces.mcp.content import call_answer, error_result, replace_surrogates
from hilt.surfaces.mcp.plain import APPROVAL, LOG_LEVELS, SESSION, Client, client_of
from hilt.surfaces.mcp.sessions import Session
from hilt.surfaces.oneshot import for_resident

Ctx = ServerRequestContext[Any, Any]
HandOver = Callable[[Call], Result]

BEAT_SECONDS = 1.0
STEP = 0.001  # the increment of a heartbeat without real progress
EVENTS_MAX = 256  # unsent events of a call; more are dropped


class Calls:
    """Runs the calls of all clients."""

    def __init__(
        self,
        runtime: Runtime,
        offload: Callable[[Callable[[], Any]], asyncio.Future[Any]],
        hand_over: HandOver | None = None,
        tasks: CallTasks | None = None,
        owner: str | None = None,
        *,
        approves: bool = True,
    ) -> None:
        """Run calls on a runtime; `offload` runs slow work, `hand_over` runs calls that must outlive this process.

        `tasks` are the tasks of the process; those of a connection belong to its session, `owner`. Clients are asked
        for approvals only with `approves`.
        """
        self._approves = approves
        self._runtime = runtime
        self._hand_over = hand_over
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
        raw = ctx.params or {}
        responses = raw.get("inputResponses") or {}
        request = CallRequest(self, ctx, params.name)
        call: ClientCall | None = None
        if is_modern(ctx) and params.request_state is not None:
            named = session_of().name if SESSION in (raw.get("_meta") or {}) else None
            call = _checked(self._rounds.take(params.request_state, params.name, params.arguments, named))
        session = session_of() if call is None else call.session
        session.calls += 1
        goes_on = False  # after this request
        try:
            if call is not None:
                await self._offload(partial(call.answer, responses, request))
            else:
                by = client(ctx)
                made = self._call_of(ctx, params, session, by)
                handed_over = await self._handed_over(session, made)
                if handed_over is not None:
                    return handed_over
                call = ClientCall(
                    self._runtime,
                    session,
                    made,
                    by,
                    request,
                    approves=self._approves,
                    wait=None if is_modern(ctx) else request.wait,
                    inputs=responses,
                )
                await self._start(call)
            result = await self._result(ctx, request, call)
            goes_on = result.get("resultType") in ("task", "input_required")
            return result
        except ToolError as error:
            if call is not None:
                call.end(error)
            return error_result(error)
        finally:
            request.close()
            if call is not None and not goes_on:
                call.end()
            session.calls -= 1
            session.used = time.monotonic()

    def _call_of(self, ctx: Ctx, params: types.CallToolRequestParams, session: Session, by: Client) -> Call:
        approval = ((ctx.params or {}).get("_meta") or {}).get(APPROVAL)
        if not isinstance(approval, str) or not _ID.fullmatch(approval):
            approval = session.answered(params.name, params.arguments, self._runtime)
        return Call(params.name, params.arguments, session=session.name, client=by.name, approval=approval)

    async def _result(self, ctx: Ctx, request: CallRequest, call: ClientCall) -> dict[str, Any]:
        """Return the result of a request: of its call, or its questions, or a task."""
        modern = is_modern(ctx)
        seconds = AFTER_SECONDS if modern and "tasks" in client(ctx).can else None
        while True:
            event = await request.next(seconds)
            if event == "ended":
                outcome = _checked(call.outcome(modern=modern))
                if call.sets_mode:
                    self.mode_set()
                return outcome
            if event is None:
                seconds = None
                task = self._tasks.add(call, self._owner)
                if task is not None:
                    return {"resultType": "task", **task.summary()}
            elif modern:
                return self._rounds.keep(call)
            else:
                await self._ask(ctx, call)

    async def _start(self, call: ClientCall) -> None:
        """Start a call; a tool that is not built in is resolved on another thread, because that may be slow."""
        name = call.call.tool
        if name in self._built_in and not self._runtime.parts.catalog.find(name).tool.traits.finds_tools:
            call.start()  # resolved without reading files
        else:
            await self._offload(call.start)

    async def _ask(self, ctx: Ctx, call: ClientCall) -> None:
        """Ask a client that has a connection, and continue the call with its answers."""
        try:
            answers = await self.ask_first(ctx, call.attendant.needs, call.forms)
        except ToolError as error:
            call.end(error)
            return
        await self._offload(partial(call.answer, {} if answers is None else answers))

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
            await _log(ctx, "notice", f"This was answered elsewhere, by {polling.result()}.", "hilt")
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

    def task(self, ctx: Ctx, id: str) -> CallTask:
        """Return the task with this id, for a client that supports tasks."""
        if not is_modern(ctx):
            raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=ctx.method)
        if "tasks" not in client(ctx).can:
            _checked(missing_capability("tasks"))
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
        return call_answer(session, call, result, prepared)


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


class CallRequest:
    """One request, for its call: passes on what the call reports and asks. Lives in the event loop."""

    def __init__(self, calls: Calls, ctx: Ctx, tool: str) -> None:
        self._calls = calls
        self._ctx = ctx
        self._tool = tool
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._asking: dict[asyncio.Task[None], Future[Responses]] = {}
        self._progress = Progress(ctx)
        self._has_ended = False
        self._levels = allowed_log_levels(ctx.protocol_version, ctx.meta)

    async def next(self, seconds: float | None = None) -> str | None:
        """Return "ended", or "asked" if the call has questions; None after this many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    kind, values = await self._events.get()
                    if kind in ("ended", "asked"):
                        return kind
                    await self._handle(kind, values)
        return None

    def close(self) -> None:
        """Stop reporting, and asking."""
        self._has_ended = True
        self._progress.end()
        for task in self._asking:
            task.cancel()
        unasked = [self._events.get_nowait() for _ in range(self._events.qsize())]
        for answer in (*self._asking.values(), *(values[2] for kind, values in unasked if kind == "ask")):
            answer.cancel()

    async def _handle(self, kind: str, values: Any) -> None:
        if kind == "progress":
            await self._progress.report(*values)
        elif kind == "log" and values[0] in self._levels:
            level, data = values
            await _log(self._ctx, level, data, self._tool)
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

    def asked(self) -> None:
        """Report that the call has questions."""
        self._post("asked", None)

    def ended(self) -> None:
        """Report that the call has ended."""
        self._post("ended", None)

    def send(self, kind: str, values: tuple[Any, ...]) -> None:
        """Report progress, or a log message, unless the client does not read."""
        if self._events.qsize() <= EVENTS_MAX:
            self._post(kind, values)

    def _post(self, kind: str, values: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._events.put_nowait, (kind, values))

    def wait(self, requests: Mapping[str, Any], forms: OpenForms | None) -> Responses:
        """Ask the client and wait, on a thread of the runtime."""
        answer: Future[Responses] = Future()
        self._post("ask", (requests, forms, answer))
        if self._has_ended:
            answer.cancel()
        try:
            return answer.result()
        except CancelledError:
            raise ToolError("cancelled", "The call was cancelled.") from None


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


T = TypeVar("T")


def _checked(outcome: T | Failure) -> T:
    """Return a value, or raise the protocol error that took its place."""
    if isinstance(outcome, Failure):
        raise MCPError(code=outcome.code, message=outcome.message, data=outcome.data)
    return outcome


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


async def _log(ctx: Ctx, level: Any, data: Any, logger: str) -> None:
    """Send a log message to a client, unless its connection has a higher level."""
    minimum = connection_of(ctx).state.get("level", "debug")
    if is_modern(ctx) or LOG_LEVELS.index(level) >= LOG_LEVELS.index(minimum):
        params = types.LoggingMessageNotificationParams(level=level, data=replace_surrogates(data), logger=logger)
        note = types.LoggingMessageNotification(params=params)
        await ctx.session.send_notification(note, related_request_id=ctx.request_id)


_ID = re.compile("[0-9a-f]{12}")  # a complete approval id: prefixes would be easier to guess
