"""The tools of MCP servers as Tools: definitions are accepted once, servers start on demand and stop with hilt.

Listing tools with accepted definitions starts nothing. A tool can be called only while its server describes it exactly
as accepted; changed and new definitions must be accepted by the user (`hilt mcp trust`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, NamedTuple

from hilt.authority import rulebook
from hilt.call import Output
from hilt.context import Context
from hilt.custom.definition import Execute
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.places import command
from hilt.servers.configured import Configured, Server, Trusts, configured, project_files
from hilt.servers.definitions import (
    PREFIX,
    START_SECONDS,
    AcceptedTool,
    Difference,
    Raw,
    assign_names,
    difference,
    tool_of,
)
from hilt.servers.pins import Pins
from hilt.surroundings import Surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.servers.sdk_client import Connection, Loop

LIST_SECONDS = 10.0  # how long listing waits for servers whose tools are not known yet
IDLE_SECONDS = 600.0
TRIES = 3  # for a server that exits just when it is called
FIRST_DELAY = 0.5
LONGEST_DELAY = 60.0
POLL_SECONDS = 1.0
CLOSE_SECONDS = 5.0


class State(NamedTuple):
    """The state of one server, for people."""

    server: Server
    tools: tuple[AcceptedTool, ...] | None  # None: it was never started
    difference: Difference
    running: bool
    failure: str
    notes: tuple[str, ...]
    log: str


class Servers:
    """All servers of a workspace. Thread-safe; does no work before the first lookup."""

    def __init__(
        self,
        root: str,
        surroundings: Surroundings,
        state: str,
        *,
        personal: Mapping[str, Any],
        trusts: Trusts,
        idle: float = IDLE_SECONDS,
    ) -> None:
        """`personal` are the servers of the user's settings; `trusts` decides which files of the project count."""
        self.root = root
        self.surroundings = surroundings
        self.state = state
        self.idle = idle
        self._personal = personal
        self._trusts = trusts
        self._lock = threading.RLock()
        self._loop: Loop | None = None
        self._stamp: object = None
        self._configured = Configured()
        self._links: dict[str, _Link] = {}
        self._closed = False

    def close(self) -> None:
        """Stop all servers."""
        with self._lock:
            self._closed = True
            links, self._links = list(self._links.values()), {}
            loop, self._loop = self._loop, None
        _end(links)
        if loop is not None:
            loop.close()

    def configured(self) -> Configured:
        """Return the configured servers; the files are read again when they or their trust changed."""
        with self._lock:
            paths = [file.full for file in project_files(self.root)]
            database = os.path.join(self.state, "state.db")
            stamp = [rulebook.status(path, follow=True) for path in (*paths, database, database + "-wal")]
            if self._stamp is None or self._stamp != stamp:
                self._configured = configured(self.root, self._personal, self._trusts)
                self._stamp = stamp if all(map(rulebook.is_settled, stamp)) else None
                self._relink()
            return self._configured

    def known(self) -> list[AcceptedTool]:
        """Return the accepted definitions; start nothing."""
        return [accepted for link in self._usable() for accepted in (link.pins.read() or {}).values()]

    def names(self) -> list[str]:
        """Return the names of the known tools; start nothing."""
        return [accepted.listed_name for accepted in self.known()]

    def tools(self) -> list[Tool]:
        """Return all tools, sorted by name; start servers whose tools are not known yet, and wait briefly for them."""
        links = self._usable()
        unlisted = [link for link in links if link.pins.read() is None]
        starting = [(link, future) for link in unlisted if (future := link.begin()) is not None]
        # do not wait for a server that failed or that was already waited for; listeners are notified later
        awaited = [(link.began, future) for link, future in starting if not link.failures]
        if awaited:
            last_began = max(began for began, _ in awaited)
            wait([future for _, future in awaited], max(0.0, last_began + LIST_SECONDS - time.monotonic()))
        tools = [self._tool(link, accepted) for link in links for accepted in (link.pins.read() or {}).values()]
        return sorted(tools, key=lambda tool: tool.name)

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name, or None; raise the reason if it is not trusted or its server does not start."""
        if not name.startswith(PREFIX):
            return None
        self._refuse_untrusted(name)
        for link in self._usable():
            if not name.startswith(f"{PREFIX}{link.server.name}__"):
                continue
            pinned = link.pins.read()
            if pinned is None:
                # a server that failed before must not delay a lookup
                link.connected(None, patience=START_SECONDS if not link.failures else 0.0)
                pinned = link.pins.read() or {}
            for accepted in pinned.values():
                if accepted.listed_name == name:
                    return self._tool(link, accepted)
            self._refuse_new(link, name, pinned)
        return None

    def states(self) -> list[State]:
        """Return the state of every server; start nothing."""
        self.configured()
        with self._lock:
            links = list(self._links.values())
        return [link.state() for link in links]

    def offer(self, name: str) -> tuple[Pins, Server, list[Raw]]:
        """Start a server and return its current definitions, for the user to accept."""
        link = self._link(name)
        link.connected(None, patience=START_SECONDS)
        return link.pins, link.server, link.described

    # --- links ----------------------------------------------------------------------------------------------------

    def loop(self) -> Loop:
        """Return the thread of the connections; started on first use."""
        with self._lock:
            if self._closed:
                raise ToolError("cancelled", "hilt is closing.")
            if self._loop is None:
                from hilt.servers.sdk_client import Loop

                self._loop = Loop()
            return self._loop

    def _relink(self) -> None:
        """Stop the servers whose entries were removed or changed."""
        stale_links = [
            link for link in self._links.values() if self._configured.servers.get(link.server.name) != link.server
        ]
        for link in stale_links:
            del self._links[link.server.name]
        for name, server in self._configured.servers.items():
            if name not in self._links and not self._closed:
                self._links[name] = _Link(self, server)
        for link in stale_links:
            link.close()

    def _usable(self) -> list[_Link]:
        self.configured()
        with self._lock:
            return [link for link in self._links.values() if not link.server.disabled]

    def _link(self, name: str) -> _Link:
        """Return a server by its name, as it is configured now."""
        self.configured()
        with self._lock:
            link = self._links.get(name)
        if link is None or link.server.disabled:
            state = "is disabled" if link is not None else "is not configured, or its file is not trusted"
            raise ToolError(
                "not_found",
                f"The MCP server {name} {state}.",
                suggestion=f"List the servers: {command('mcp', 'list')}",
            )
        return link

    def _tool(self, link: _Link, accepted: AcceptedTool) -> Tool:
        return link.tool(accepted, lambda tool: self._execute(link.server, accepted, tool))

    def _execute(self, server: Server, accepted: AcceptedTool, tool: str) -> Execute:
        def run(ctx: Context, args: dict[str, Any]) -> Output:
            from hilt.servers.results import output_of
            from hilt.servers.sdk_client import Unsent

            # trust may have been revoked since the lookup
            link = self._link(server.name)
            if link.server != server:
                raise _changed(server)
            for _ in range(TRIES):
                connection = link.connected(ctx.fence, patience=START_SECONDS)
                link.refuse_changed(connection, tool, accepted)
                with suppress(Unsent):
                    answer = connection.call(tool, args, ctx)
                    link.failures = 0
                    return output_of(answer, accepted.listed_name, ctx.overflow.limit)
            raise ToolError("busy", f"The MCP server {server.name} exits as soon as it is started.")

        return run

    def _refuse_untrusted(self, name: str) -> None:
        for path, names in self.configured().untrusted.items():
            if any(name.startswith(f"{PREFIX}{server}__") for server in names):
                raise ToolError(
                    "untrusted",
                    f"{name} belongs to an MCP server in {os.path.basename(path)}, which is not trusted.",
                    suggestion=f"Ask the user to review it: {command('trust', path)}",
                    path=path,
                )

    def _refuse_new(self, link: _Link, name: str, pinned: Mapping[str, AcceptedTool]) -> None:
        offered = link.pins.offered() or []
        named_tools, _ = assign_names(link.server.name, offered, pinned)
        for accepted in named_tools:
            if accepted.listed_name == name:
                raise _untrusted(link.server.name, f"{name} is new and has not been accepted yet.")


def watch(servers: Callable[[], Servers | None], callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback`, from a separate thread, after every later change; return a function that stops this.

    Tools change for many reasons: a server starts, a configuration file or its trust changes, or another process
    accepts definitions. Polling the known tools once a second covers all of them.
    """

    def current_tools() -> list[AcceptedTool]:
        current = servers()
        return [] if current is None else current.known()

    def run() -> None:
        last = before
        while not ended.wait(POLL_SECONDS):
            with suppress(Exception):  # the next poll tries again
                now = current_tools()
                if now != last and not ended.is_set():
                    last = now
                    callback()

    def stop() -> None:
        ended.set()
        if thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)

    before = current_tools()
    ended = threading.Event()
    thread = threading.Thread(target=run, name="hilt-servers-watch", daemon=True)
    thread.start()
    return stop


class _Link:
    """One configured server: its accepted definitions, its connection, and when to retry."""

    def __init__(self, servers: Servers, server: Server) -> None:
        self.server = server
        self.pins = Pins(servers.state, server)
        self.failures = 0
        self.began = 0.0  # when it was started last
        self.described: list[Raw] = []  # the server's last definitions
        self._servers = servers
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._ending: list[Future[None]] = []  # replaced connections
        self._closed = False
        self._retry_at = 0.0
        self._reason = ""
        self._tools: dict[str, tuple[AcceptedTool, Tool]] = {}

    def close(self) -> list[Future[None]]:
        """Stop the server permanently; return futures that resolve when it and its predecessors have stopped."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            ending = self._ending
        if connection is None:
            return ending
        connection.close()
        return [*ending, connection.done]

    def state(self) -> State:
        """Return the state of the server."""
        pinned = self.pins.read()
        offered = self.pins.offered()
        changes = difference(pinned.values(), offered) if pinned is not None and offered is not None else Difference()
        with self._lock:
            running = self._connection is not None and self._connection.is_running
            tools = None if pinned is None else tuple(pinned.values())
            return State(self.server, tools, changes, running, self._reason, self.pins.notes(), self.pins.log)

    def tool(self, accepted: AcceptedTool, execute: Callable[[str], Execute]) -> Tool:
        """Return the Tool of a definition; it is cached."""
        with self._lock:
            cached = self._tools.get(accepted.listed_name)
            if cached is None or cached[0] != accepted:
                cached = self._tools[accepted.listed_name] = (accepted, tool_of(self.server, accepted, execute))
            return cached[1]

    def begin(self) -> Future[None] | None:
        """Start the server unless it runs; None if it must not be retried yet."""
        loop = self._servers.loop()  # before taking this lock: a thread that holds the other lock may wait for this one
        with self._lock:
            if self._closed:
                return None  # the entry was removed or lost its trust after the lookup
            if self._connection is None or not self._connection.is_running:
                if time.monotonic() < self._retry_at:
                    return None
                from hilt.servers.sdk_client import Connection

                before = [] if self._connection is None else [self._connection.done]
                self._ending = [done for done in (*self._ending, *before) if not done.done()]
                self.began = time.monotonic()
                self._connection = Connection(
                    loop,
                    self.server,
                    root=self._servers.root,
                    surroundings=self._servers.surroundings,
                    log=self.pins.log,
                    define=self._define,
                    ended=self._ended,
                    idle=self._servers.idle,
                )
            return self._connection.ready

    def connected(self, fence: Fence | None, patience: float) -> Connection:
        """Return the running server, started if needed; raise if it fails or takes longer than `patience` seconds."""
        ready = self.begin()
        with self._lock:
            connection = self._connection
        if ready is None or connection is None:
            raise self._retry_later()
        settled = threading.Event()
        ready.add_done_callback(lambda _: settled.set())
        if fence is not None:
            fence.watch(settled.set)
        # the start has its own timeout; leave it a margin
        settled.wait(patience + 5.0 if patience else 0.0)
        if fence is not None:
            fence.check()
        if not ready.done():
            raise ToolError("busy", f"The MCP server {self.server.name} is still starting.")
        ready.result()
        return connection

    def refuse_changed(self, connection: Connection, tool: str, accepted: AcceptedTool) -> None:
        """Raise if the current definition of a tool is not the accepted one."""
        now = connection.hashes.get(tool)
        current = (self.pins.read() or {}).get(tool)
        if current is None or current.hash != accepted.hash:
            message = f"A new definition of {accepted.listed_name} was just accepted."
            raise ToolError("tool_invalid", message, suggestion="Retry the call.")
        if now == accepted.hash:
            return
        if now is None:
            raise ToolError(
                "not_found",
                f"The MCP server {self.server.name} no longer has a tool {tool!r}.",
                suggestion="Use another tool; list_tools shows them.",
            )
        new = next((raw for raw in self.described if raw["name"] == tool), {})
        changed = sorted(key for key in {**accepted.raw, **new} if accepted.raw.get(key) != new.get(key))
        # do not quote the new definition: nobody has accepted it
        raise _untrusted(
            self.server.name,
            f"The MCP server {self.server.name} changed the definition of {accepted.listed_name} after it was accepted:"
            f" {', '.join(changed)}.",
            changed=changed,
            accepted=accepted.hash,
            now=now,
        )

    def _retry_later(self) -> ToolError:
        with self._lock:
            if self._closed:
                return _changed(self.server)
            remaining = max(0.0, self._retry_at - time.monotonic())
            reason = self._reason or f"The MCP server {self.server.name} is not running."
        return ToolError(
            "busy",
            f"{reason} The next attempt is in {remaining:.1f} s.",
            suggestion=f"Retry the call in {remaining:.0f} s, or continue without it.",
            retry_in=round(remaining, 3),
        )

    def _define(self, definitions: list[Raw], notes: list[str]) -> None:
        """Accept the definitions of the first start; later, store differing ones for review."""
        pinned = self.pins.read()
        self.described = definitions
        if pinned is None:
            accepted, clashes = assign_names(self.server.name, definitions, {})
            pinned = self.pins.pin(accepted)
            notes = [*notes, *clashes]
        changes = difference(pinned.values(), definitions)
        self.pins.offer(definitions if changes else None, notes)

    def _ended(self, failure: ToolError | None) -> None:
        with self._lock:
            if failure is not None:
                self.failures += 1
                self._reason = failure.message
                delay = FIRST_DELAY * 2 ** min(self.failures - 1, 10)
                self._retry_at = time.monotonic() + min(delay, LONGEST_DELAY)


def _end(links: list[_Link]) -> None:
    """Stop servers concurrently, and wait for them."""
    ending = [future for link in links for future in link.close()]
    if ending:
        wait(ending, 2 * LIST_SECONDS)


def _changed(server: Server) -> ToolError:
    return ToolError("tool_invalid", f"The MCP server {server.name} has just changed.")


def _untrusted(server: str, message: str, **details: object) -> ToolError:
    return ToolError(
        "untrusted",
        message,
        suggestion=f"Ask the user to review the difference: {command('mcp', 'trust', server)}",
        server=server,
        **details,
    )
