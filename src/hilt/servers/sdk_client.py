"""Connections to MCP servers with the SDK's client, in one background thread; used from the threads of calls.

Requests and notifications for a running call (progress, forms) are handled on the call's own thread, so that a user who
takes long to answer does not block other calls.
"""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.to_thread
import mcp  # noqa: F401  # all of it before its modules, which import each other, or two threads fail
import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hilt import __version__
from hilt.context import Context
from hilt.errors import ToolError
from hilt.servers.configured import Server, expanded, secrets
from hilt.servers.definitions import (
    NOTES_MAX,
    START_SECONDS,
    TOOLS_MAX,
    Raw,
    clean,
    cleaned,
    digest,
    is_visible,
    usable,
)
from hilt.servers.transport import FloodGate, open_transport
from hilt.surroundings import Surroundings

RELIST_SECONDS = 0.5  # minimum time between two list requests, however often a server reports changes
PAGES_MAX = 100
FORMS_MAX = 20  # of one call
PRINTED_MAX = 600  # characters of a server's output in a message
FORM_BYTES = 32 * 1024

_CLOSE_SECONDS = 10.0
_REASON_SECONDS = 2.0  # to wait for the reason why a connection was closed
_LOOK_SECONDS = 0.5  # between checks of a server with a call longer than the idle time
_NOT_NEEDED = "it is no longer needed"  # the reason for a normal stop

_CURRENT: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


class Unsent(Exception):
    """The server stopped before the call was sent, so the call can be retried."""


class Loop:
    """The thread that runs all connections."""

    def __init__(self) -> None:
        # keep the SDK's log messages about servers off the terminal
        for name in ("mcp", "client"):
            logging.getLogger(name).addHandler(logging.NullHandler())
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="hilt-servers", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run a coroutine in the thread."""
        with self._lock:
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise ToolError("cancelled", "hilt is closing.")

    def soon(self, function: Callable[..., None], *args: Any) -> None:
        """Call a function in the thread, unless it is closing."""
        with self._lock:
            if not self._closed:
                self._loop.call_soon_threadsafe(function, *args)

    def close(self) -> None:
        """Stop the thread; cancel whatever still runs in it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        # start the coroutines submitted last, so that they can be cancelled
        self._loop.run_until_complete(asyncio.sleep(0))
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class Exchange:
    """A running call: requests of its server are handled on the thread that waits for the result."""

    def __init__(self, ctx: Context) -> None:
        self.attendant = ctx.attendant
        self.answering = 0.0  # seconds that a user took to answer
        self._ctx = ctx
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._progress: tuple[float, float | None, str] | None = None
        self._forms = 0
        self._waiting: set[asyncio.Future[dict[str, Any] | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        """Wake the waiting thread, so that it checks its state."""
        self._queue.put(None)

    def attend(self, seconds: float) -> None:
        """Handle the next request, waiting at most this long for one."""
        try:
            task = self._queue.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return
        if task is not None:
            task()

    def end(self) -> None:
        """Cancel the forms that still wait for an answer."""
        if self._loop is not None:
            for future in list(self._waiting):
                _post(self._loop, future, {"action": "cancel"})

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress; it replaces progress that has not been reported yet."""
        if not math.isfinite(progress):
            return
        step = (
            progress,
            total if total is not None and math.isfinite(total) else None,
            clean(message or "", PRINTED_MAX),
        )
        with self._lock:
            was_reported, self._progress = self._progress is None, step
        if was_reported:
            self._queue.put(self.report_progress)

    def report_progress(self) -> None:
        """Report the latest progress, unless it was already reported."""
        with self._lock:
            step, self._progress = self._progress, None
        if step is not None:
            self._ctx.progress(*step)

    async def elicit(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Ask the user to fill in a form; None if no user is available to answer."""
        attendant = self.attendant
        self._forms += 1
        if attendant is None or self._forms > FORMS_MAX:
            return None
        self._loop = loop = asyncio.get_running_loop()
        future: asyncio.Future[dict[str, Any] | None] = loop.create_future()

        def ask() -> None:
            started = time.monotonic()
            # raises, and so ends the call, for a client that can answer only with its next request
            _post(loop, future, attendant.elicit(message, schema))
            self.answering += time.monotonic() - started

        self._waiting.add(future)
        self._queue.put(ask)
        try:
            return await future
        finally:
            self._waiting.discard(future)


def _post(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[dict[str, Any] | None], answer: dict[str, Any] | None
) -> None:
    with suppress(RuntimeError):  # the loop is closed, so nobody waits
        loop.call_soon_threadsafe(_answer, future, answer)


def _answer(future: asyncio.Future[dict[str, Any] | None], answer: dict[str, Any] | None) -> None:
    if not future.done():
        future.set_result(answer)


class Connection:
    """One running server. `define` is called with its tools, `ended` with the failure that stopped it, or None."""

    def __init__(
        self,
        loop: Loop,
        server: Server,
        *,
        root: str,
        surroundings: Surroundings,
        log: str,
        define: Callable[[list[Raw], list[str]], None],
        ended: Callable[[ToolError | None], None],
        idle: float,
    ) -> None:
        self.server = server
        self.hashes: dict[str, str] = {}  # of its current definitions
        self.ready: Future[None] = Future()
        self.done: Future[None] = Future()
        self._loop = loop
        self._root = root
        self._surroundings = surroundings
        self._log = log
        self._define = define
        self._ended = ended
        self._idle = idle
        self._used = time.monotonic()
        self._silences = 0
        self._secrets: list[str] = []
        self._active: set[Exchange] = set()
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._gate: FloodGate | None = None
        self._stale: anyio.Event | None = None
        self._starting: anyio.CancelScope | None = None
        self._closing = False
        loop.submit(self._serve())

    @property
    def is_running(self) -> bool:
        """Whether it is running or starting."""
        return not self.done.done() and not self._closing

    def close(self) -> None:
        """Stop the server; `done` resolves when it has stopped."""
        self._closing = True
        self._loop.soon(self._stop)

    def call(self, tool: str, args: dict[str, Any], ctx: Context) -> types.CallToolResult:
        """Run a tool and return its result; raise on timeout or when the call is cancelled.

        Raises `Unsent` if the server has just stopped, for example because it was idle.
        """
        exchange = Exchange(ctx)
        with self._lock:
            self._active.add(exchange)
            self._used = time.monotonic()
        gate = self._gate
        before = gate.arrived if gate is not None else 0
        seconds = self.server.seconds
        deadline = time.monotonic() + seconds
        future = self._loop.submit(self._call(exchange, tool, args))
        future.add_done_callback(lambda _: exchange.wake())
        ctx.fence.watch(exchange.wake)
        try:
            while not future.done():
                remaining = deadline + exchange.answering - time.monotonic()
                if remaining <= 0:
                    self._note_silence(before)
                    raise ToolError(
                        "timeout", f"The MCP server {self.server.name} did not answer within {seconds:g} s."
                    )
                exchange.attend(remaining)
                ctx.fence.check()
            exchange.report_progress()  # the result may have come before this thread woke up
            result: types.CallToolResult = future.result()
        except MCPError as error:
            raise self._rpc_error(error) from None
        except (ToolError, Unsent):
            raise
        except CancelledError:
            raise self.failure("stopped before it answered") from None
        except Exception as error:  # whatever the SDK raises for an invalid response
            raise self._invalid_response(error) from error
        finally:
            future.cancel()  # notifies the server, unless it has answered
            exchange.end()
            with self._lock:
                self._active.discard(exchange)
                self._used = time.monotonic()
        self._silences = 0
        return result

    def failure(self, what: str, why: str = "") -> ToolError:
        """Return the error for a server that stopped, with the reason and its last output."""
        gate = self._gate
        reason = gate.reason if gate is not None and gate.reason else clean(why, PRINTED_MAX) or "no reason given"
        printed = clean(gate.noise.decode("utf-8", "replace")[-PRINTED_MAX:]) if gate is not None else ""
        explanation = f"{reason.rstrip('.')}." + (f" It printed: {printed}" if printed else "")
        for secret in self._secrets:
            explanation = explanation.replace(secret, "…")
        return ToolError(
            "tool_failed",
            f"The MCP server {self.server.name} {what}: {explanation}",
            suggestion="Retry the call; the server is restarted.",
        )

    def _note_silence(self, before: int) -> None:
        """Stop a server that let two calls in a row time out without sending anything."""
        gate = self._gate
        self._silences = self._silences + 1 if gate is not None and gate.arrived == before else 0
        if gate is not None and self._silences >= 2:
            self._loop.soon(gate.close, "it stopped responding")

    def _rpc_error(self, error: MCPError) -> ToolError:
        if error.code == types.CONNECTION_CLOSED:
            # sent to all calls; the reason is known once the connection has ended
            if error.message == "Connection closed":
                wait([self.done], _REASON_SECONDS)
            return self.failure("stopped before it answered", error.message)
        code = "invalid_args" if error.code == types.INVALID_PARAMS else "tool_failed"
        return ToolError(
            code,
            f"The MCP server {self.server.name} returned an error: {clean(error.message)}",
            rpc_code=error.code,
        )

    def _invalid_response(self, error: BaseException) -> ToolError:
        reason = clean(str(error), PRINTED_MAX)
        return ToolError("tool_failed", f"The MCP server {self.server.name} sent an invalid response: {reason}")

    # --- in the thread of the loop --------------------------------------------------------------------------------

    async def _serve(self) -> None:
        failure: ToolError | None = None
        started = False
        self._gate = gate = FloodGate()
        self._stale = anyio.Event()
        try:
            if self._closing:
                raise ToolError("cancelled", "hilt is closing.")
            server = expanded(self.server, self._surroundings.given)
            self._secrets = secrets(self.server, self._surroundings.given)
            transport = open_transport(server, gate, root=self._root, surroundings=self._surroundings, log=self._log)
            client = Client(
                transport,
                cache=None,
                client_info=types.Implementation(name="hilt", version=__version__),
                elicitation_callback=self._elicited,
                message_handler=self._received,
            )
            with anyio.CancelScope(deadline=anyio.current_time() + START_SECONDS) as scope:
                self._starting = scope
                async with client:
                    # a foreign schema can keep the SDK's validation, and with it this thread, busy forever
                    client.session.validate_tool_result = _unchecked  # type: ignore[method-assign]
                    await self._list(client)
                    scope.deadline, self._starting = math.inf, None
                    self._client = client
                    started = True
                    self.ready.set_result(None)
                    await self._attend(client)
            if scope.cancelled_caught:
                gate.close(f"it was not ready within {START_SECONDS:g} s")
        except ToolError as error:
            failure = error
        except BaseException as error:  # noqa: BLE001  # a server can make any part of the SDK fail
            gate.close(_summary(error))
            if isinstance(error, asyncio.CancelledError):
                gate.reason = _NOT_NEEDED
        finally:
            if failure is None and gate.reason != _NOT_NEEDED:
                failure = self.failure("failed" if started else "did not start")
            self._finish(failure)

    def _finish(self, failure: ToolError | None) -> None:
        self._client = None
        self._ended(failure)
        if not self.ready.done():
            self.ready.set_exception(failure or ToolError("cancelled", "hilt is closing."))
        self.done.set_result(None)

    def _stop(self) -> None:
        if self._gate is not None:
            self._gate.close(_NOT_NEEDED)
        if self._starting is not None:
            self._starting.cancel()

    async def _list(self, client: Client) -> None:
        """Request all definitions and pass them to `define`."""
        candidates: list[Raw] = []
        notes: list[str] = []
        cursor: str | None = None
        gate = self._gate
        assert gate is not None  # noqa: S101
        gate.version, gate.malformed = client.protocol_version, notes
        for _ in range(PAGES_MAX):
            try:
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    break  # it has no tools
                raise
            tools = [tool.model_dump(by_alias=True, mode="json", exclude_unset=True) for tool in page.tools]
            # filter page by page, so that unusable definitions do not pile up
            page_definitions, page_notes = await anyio.to_thread.run_sync(usable, tools)
            candidates += page_definitions
            notes += page_notes
            before, cursor = cursor, page.next_cursor
            if not cursor or cursor == before or len(candidates) > TOOLS_MAX:
                break  # an empty or repeated cursor ends the list
        definitions, further_notes = await anyio.to_thread.run_sync(usable, candidates)
        await anyio.to_thread.run_sync(self._define, definitions, [*notes, *further_notes][:NOTES_MAX])
        self.hashes = {raw["name"]: digest(raw) for raw in definitions}

    async def _attend(self, client: Client) -> None:
        """Return when the server stops, is closed, or was idle for too long."""
        gate = self._gate
        assert gate is not None  # noqa: S101
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow, client)
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                tasks.start_soon(self._subscribe, client)
            while not gate.ended.is_set():
                remaining = self._idle - (time.monotonic() - self._used)
                if remaining <= 0 and not self._active:
                    gate.close(_NOT_NEEDED)
                with anyio.move_on_after(remaining if remaining > 0 else _LOOK_SECONDS):
                    await gate.ended.wait()
            self._closing, self._client = True, None
            tasks.cancel_scope.cancel()

    async def _follow(self, client: Client) -> None:
        """Request the definitions again when the server reports a change."""
        while self._stale is not None:
            await self._stale.wait()
            self._stale = anyio.Event()
            try:
                with anyio.fail_after(START_SECONDS):
                    await self._list(client)
            except Exception as error:  # noqa: BLE001  # keep the last definitions
                if self._gate is not None:
                    self._gate.record_noise(f"tools/list: {_summary(error)}\n".encode())
            await anyio.sleep(RELIST_SECONDS)

    async def _subscribe(self, client: Client) -> None:
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                async for event in subscription:
                    if isinstance(event, ToolsListChanged):
                        self._note_change()
        except Exception as error:  # noqa: BLE001  # without it, changes are noticed at the next start
            if self._gate is not None:
                self._gate.record_noise(f"subscriptions/listen: {_summary(error)}\n".encode())

    async def _received(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._note_change()

    def _note_change(self) -> None:
        if self._stale is not None:
            self._stale.set()

    async def _call(self, exchange: Exchange, tool: str, args: dict[str, Any]) -> types.CallToolResult:
        client = self._client
        if client is None:
            raise Unsent
        _CURRENT.set(exchange)
        return await client.call_tool(tool, args, progress_callback=exchange.progress)

    async def _elicited(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Show a form to the user of the call that it belongs to, with the name of the server."""
        exchange = _CURRENT.get() or self._only_exchange()
        if exchange is None or not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")
        schema = params.model_dump(by_alias=True, mode="json", exclude_unset=True)["requestedSchema"]
        if len(str(schema)) > FORM_BYTES or not is_visible(schema):
            return types.ElicitResult(action="decline")
        message = f"The MCP server {self.server.name} asks: {clean(params.message)}"
        answer = await exchange.elicit(message, cleaned(schema))
        action = (answer or {}).get("action")
        if action == "accept":
            return types.ElicitResult(action="accept", content=(answer or {}).get("content") or {})
        return types.ElicitResult(action="cancel" if action == "cancel" else "decline")

    def _only_exchange(self) -> Exchange | None:
        """Return the call of a request that does not name one; None unless all active calls have the same client."""
        with self._lock:
            active = list(self._active)
        attendants = {id(exchange.attendant) for exchange in active}
        return active[0] if len(attendants) == 1 else None


async def _unchecked(name: str, result: types.CallToolResult) -> None:
    return None


def _summary(error: BaseException) -> str:
    """Return the message of an error; for a group, that of its first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = clean(str(error), PRINTED_MAX).rstrip(".")
    return text or type(error).__name__
