"""The MCP server: the request handlers for clients, on top of one runtime."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import mcp  # noqa: F401  # all of it before its modules, which import each other, or two threads fail
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from hilt import __version__
from hilt.call_threads import CallThreads
from hilt.desk.activity import ProcessMark, Transport, mark_host
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.event_loop import offload
from hilt.surfaces.mcp.call_tasks import CallTasks
from hilt.surfaces.mcp.calls import Calls, Ctx, HandOver, client, connection_of, is_modern
from hilt.surfaces.mcp.content import COMPLETE, Choice, instructions, tool_list
from hilt.surfaces.mcp.plain import SESSION, TASKS, Client
from hilt.surfaces.mcp.resources import Resources
from hilt.surfaces.mcp.sessions import Session, Sessions

TIDY_SECONDS = 60.0
VISIT_SECONDS = 300.0  # for which a host without a connection is listed after its last request
MARKS_MAX = 64  # listed hosts with a connection, and without: each takes a file descriptor
SUBSCRIPTIONS_MAX = 256
TASK_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
RESOURCE_NOT_FOUND = -32002  # up to protocol version 2025-11-25

_FRESH = CacheHint(ttl_ms=0, scope="private")
_CACHED = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
_LISTS: dict[str, ServerEvent] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}


class Serving:
    """One server over one runtime, for any number of clients. Lives in one event loop."""

    def __init__(
        self,
        runtime: Runtime,
        choice: Choice,
        *,
        single: Session | None,
        hand_over: HandOver | None = None,
        tasks: CallTasks | None = None,
        approves: bool = True,
        changed_before: Callable[[], bool] = lambda: False,
        transport: Transport = "http",
    ) -> None:
        """Serve a runtime.

        All clients share the session `single`; with None, each has its own. `hand_over` runs calls that must outlive
        this process. `tasks` are the tasks of the process, if they outlive this server. Without `approves`, clients are
        agents: they are not asked to approve their own calls. `changed_before` returns whether the tools have changed
        since the client listed them, before this server began.
        """
        self._runtime = runtime
        self._choice = choice
        self._loop = asyncio.get_running_loop()
        self._threads = CallThreads(16)  # for slow work other than calls
        self._sessions = Sessions(runtime, single, self._threads.put)
        self._single = single
        owner = None if single is None else single.name
        self._calls = Calls(runtime, self.offload, hand_over, tasks, owner, approves=approves)
        self._calls.mode_set = lambda: self.announce("tools")  # modes hide tools
        self._resources = Resources(runtime)
        self._bus = InMemorySubscriptionBus()
        self._connections: set[Connection] = set()
        self._changed_before = changed_before
        self._transport = transport
        self._visitors: dict[tuple[str, ...], _Visitor] = {}  # hosts without a connection, by name and version
        self._tasks: set[asyncio.Task[None]] = set()
        self._stops = [runtime.parts.listen(lambda: self.announce("tools"))]
        self._skills_watched: asyncio.Future[Any] | None = None
        self.server = self._server()

    def close(self) -> None:
        """Stop listening."""
        for stop in self._stops:
            stop()
        for task in self._tasks:
            task.cancel()
        self._end_visits(seconds=-1)
        self._calls.close()
        self._threads.close()

    @property
    def asks(self) -> bool:
        """Whether a call is waiting for an answer from a client."""
        return self._calls.asking > 0

    def offload(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run slow work on another thread."""
        return offload(self._loop, self._threads, work)

    async def tidy(self) -> None:
        """End idle sessions, for as long as the server runs."""
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            self._sessions.end_idle()
            self._calls.end_idle()
            self._end_visits()

    def _server(self) -> Server[Any]:
        listen = ListenHandler(self._bus, max_subscriptions=SUBSCRIPTIONS_MAX)
        server = _McpServer(
            "hilt",
            version=__version__,
            title="hilt",
            instructions=instructions(search=self._choice.search, dialect=self._runtime.settings["dialect"]),
            cache_hints=dict.fromkeys(_CACHED, _FRESH),  # type: ignore[arg-type]
            get_tool_input_schema=lambda name: None,  # clients need not repeat arguments in headers
            on_list_tools=self._list_tools,  # type: ignore[arg-type]
            on_call_tool=self._call_tool,  # type: ignore[arg-type]
            on_list_resources=self._list_resources,  # type: ignore[arg-type]
            on_list_resource_templates=self._list_templates,  # type: ignore[arg-type]
            on_read_resource=self._read_resource,  # type: ignore[arg-type]
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=listen,
            on_list_prompts=self._list_prompts,  # type: ignore[arg-type]
            on_get_prompt=self._get_prompt,  # type: ignore[arg-type]
        )
        # passed to the constructor, these would cause deprecation warnings
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)
        server.extensions = {TASKS: {}}
        for method, handler in zip(TASK_METHODS, (self._get_task, self._update_task, self._cancel_task), strict=True):
            server.add_request_handler(method, _TaskParams, handler)
        server.middleware.clear()  # the runtime creates the spans, for all surfaces
        return server

    # --- clients --------------------------------------------------------------------------------------------------

    async def _initialized(self, ctx: Ctx, params: types.NotificationParams) -> None:
        connection = connection_of(ctx)
        if not is_modern(ctx) and connection not in self._connections:
            self._connections.add(connection)
            connection.exit_stack.callback(self._connections.discard, connection)
            if len(self._connections) <= MARKS_MAX:
                session = self._session(ctx).name
                with suppress(OSError):  # then it is only not listed
                    mark = await self.offload(partial(self._mark, client(ctx), session))
                    connection.exit_stack.callback(mark.close)
            if await self.offload(self._changed_before):
                self.announce("tools")

    def _mark(self, host: Client, session: str) -> ProcessMark:
        """List a host as connected."""
        runtime = self._runtime
        return mark_host(
            runtime.parts.state,
            host.program,
            host.version,
            workspace=runtime.parts.root,
            session=session,
            transport=self._transport,
        )

    async def _mark_visitor(self, ctx: Ctx) -> None:
        """List a host without a connection as connected, until it has been idle for VISIT_SECONDS."""
        if connection_of(ctx).session_id is not None:
            return
        host = client(ctx)
        visitor = self._visitors.get(host[2:])
        if visitor is not None:
            visitor.used = time.monotonic()
            return
        if len(self._visitors) < MARKS_MAX:
            visitor = self._visitors[host[2:]] = _Visitor()
            with suppress(OSError):
                session = "" if self._single is None else self._single.name
                visitor.mark = await self.offload(partial(self._mark, host, session))

    def _end_visits(self, seconds: float = VISIT_SECONDS) -> None:
        oldest = time.monotonic() - seconds
        for names, visitor in list(self._visitors.items()):
            if visitor.used < oldest:
                del self._visitors[names]
                visitor.end()

    def _session(self, ctx: Ctx, *, calls: bool = False) -> Session:
        connection = connection_of(ctx)
        meta = (ctx.params or {}).get("_meta") or {}
        # a client that names a session continues it, even on another connection
        if connection.session_id is None or SESSION in meta:
            try:
                return self._sessions.of_request(meta, calls=calls)
            except ToolError as error:
                raise MCPError(code=INVALID_PARAMS, message=error.message) from None
        session: Session | None = connection.state.get("session")
        if session is None:
            session = connection.state["session"] = self._sessions.of_connection(connection.session_id)
            connection.exit_stack.callback(self._sessions.end, session)
        return session

    async def _set_level(self, ctx: Ctx, params: types.SetLevelRequestParams) -> dict[str, Any]:
        connection_of(ctx).state["level"] = params.level
        return {}

    # --- tools ----------------------------------------------------------------------------------------------------

    async def _list_tools(self, ctx: Ctx, params: types.PaginatedRequestParams) -> dict[str, Any]:
        _reject_cursor(params)
        await self._mark_visitor(ctx)
        session = self._session(ctx)
        asks = "form" in client(ctx).can and not session.alone
        tools = await self.offload(lambda: tool_list(self._runtime, self._choice, session.name, client_asks=asks))
        return {**COMPLETE, "tools": tools}

    async def _call_tool(self, ctx: Ctx, params: types.CallToolRequestParams) -> dict[str, Any]:
        await self._mark_visitor(ctx)
        return await self._calls.call(ctx, params, lambda: self._session(ctx, calls=True))

    # --- tasks ----------------------------------------------------------------------------------------------------

    async def _get_task(self, ctx: Ctx, params: _TaskParams) -> dict[str, Any]:
        task = self._calls.task(ctx, params.task_id)
        await self.offload(task.check_answers)
        return {**COMPLETE, **task.details()}

    async def _update_task(self, ctx: Ctx, params: _TaskParams) -> dict[str, Any]:
        task = self._calls.task(ctx, params.task_id)
        await self.offload(lambda: task.update(params.input_responses or {}))
        return {**COMPLETE}

    async def _cancel_task(self, ctx: Ctx, params: _TaskParams) -> dict[str, Any]:
        await self.offload(self._calls.task(ctx, params.task_id).cancel)
        return {**COMPLETE}

    # --- resources and prompts ------------------------------------------------------------------------------------

    async def _list_resources(self, ctx: Ctx, params: types.PaginatedRequestParams) -> dict[str, Any]:
        _reject_cursor(params)
        await self._watch_skills()
        session = self._session(ctx).name
        return {**COMPLETE, "resources": await self.offload(lambda: self._resources.all(session))}

    async def _list_templates(self, ctx: Ctx, params: types.PaginatedRequestParams) -> dict[str, Any]:
        _reject_cursor(params)
        return {**COMPLETE, "resourceTemplates": self._resources.templates()}

    async def _read_resource(self, ctx: Ctx, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        session = self._session(ctx).name
        try:
            contents = await self.offload(lambda: self._resources.read(session, params.uri))
        except ToolError as error:
            code = INVALID_PARAMS if is_modern(ctx) else RESOURCE_NOT_FOUND
            raise MCPError(code=code, message=error.message, data={"uri": params.uri}) from None
        return {**COMPLETE, "contents": contents}

    async def _subscribe(self, ctx: Ctx, params: types.SubscribeRequestParams) -> types.EmptyResult:
        uris = connection_of(ctx).state.setdefault("uris", set())
        if len(uris) < SUBSCRIPTIONS_MAX:
            uris.add(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Ctx, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        connection_of(ctx).state.get("uris", set()).discard(str(params.uri))
        return types.EmptyResult()

    async def _list_prompts(self, ctx: Ctx, params: types.PaginatedRequestParams) -> dict[str, Any]:
        _reject_cursor(params)
        await self._watch_skills()
        return {**COMPLETE, "prompts": await self.offload(self._resources.prompts)}

    async def _get_prompt(self, ctx: Ctx, params: types.GetPromptRequestParams) -> dict[str, Any]:
        session = self._session(ctx).name
        try:
            prompt: dict[str, Any] = await self.offload(
                lambda: self._resources.prompt(session, params.name, params.arguments or {})
            )
        except ToolError as error:
            raise MCPError(code=INVALID_PARAMS, message=error.message) from None
        return {**COMPLETE, **prompt}

    async def _watch_skills(self) -> None:
        """Watch the skills from the first time that a client lists them: scanning would slow down every start."""
        if self._skills_watched is None:
            self._skills_watched = self.offload(self._start_watching_skills)
        await self._skills_watched

    def _start_watching_skills(self) -> None:
        def changed() -> None:
            self.announce("prompts")
            self.announce("resources")

        with suppress(ToolError, OSError):
            self._stops.append(self._runtime.parts.skill_watch.add(changed))

    # --- notifications --------------------------------------------------------------------------------------------

    def announce(self, kind: str) -> None:
        """Notify clients of changed "tools", "prompts" or "resources", or of the resource with this URI.

        Called from any thread.
        """
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._announce, kind)

    def _announce(self, kind: str) -> None:
        self._spawn(self._publish(kind))

    async def _publish(self, kind: str) -> None:
        """Notify subscribed clients of a change to a list, or to the resource with this URI."""
        await self._bus.publish(_LISTS.get(kind) or ResourceUpdated(uri=kind))
        for connection in list(self._connections):
            if kind in _LISTS:
                self._notify(connection, f"notifications/{kind}/list_changed", None)
            elif kind in connection.state.get("uris", ()):
                self._notify(connection, "notifications/resources/updated", {"uri": kind})

    def _notify(self, connection: Connection, method: str, params: dict[str, Any] | None) -> None:
        """Notify one client, unless the same notification is still unread."""
        unread: set[str] = connection.state.setdefault("notes", set())
        note = f"{method} {params}"
        if note not in unread:
            unread.add(note)
            self._spawn(self._send_notification(connection, method, params), lambda: unread.discard(note))

    async def _send_notification(self, connection: Connection, method: str, params: dict[str, Any] | None) -> None:
        await connection.notify(method, params)

    def _spawn(self, work: Coroutine[Any, Any, None], done: Callable[[], None] = lambda: None) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            done()

        task.add_done_callback(ended)


class _Visitor:
    """A host without a connection, and when it made its last request."""

    def __init__(self) -> None:
        self.mark: ProcessMark | None = None
        self.used = time.monotonic()

    def end(self) -> None:
        """List the host as disconnected."""
        if self.mark is not None:
            self.mark.close()


class _TaskParams(types.RequestParams):
    """The parameters of all requests about a task."""

    task_id: str
    input_responses: dict[str, Any] | None = None


def _reject_cursor(params: types.PaginatedRequestParams | None) -> None:
    """Reject a cursor: every list has one page, so no valid cursor exists."""
    if params is not None and params.cursor:
        raise MCPError(code=INVALID_PARAMS, message="Invalid cursor")


class _McpServer(Server[Any]):
    """Declares on every transport that lists may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *rest: Any, **more: Any
    ) -> InitializationOptions:
        """Return the options for the initialize handshake."""
        changes = NotificationOptions(
            tools_changed=True, resources_changed=True, prompts_changed="prompts/list" in self._request_handlers
        )
        return super().create_initialization_options(notification_options or changes, *rest, **more)
