"""The tools of other MCP servers as Tools of this catalogue: accepted once, started when needed, ended with hilt.

Nothing is started to list tools whose definitions were accepted before. A tool is called only while its server
describes it exactly as it was accepted; what changed, and what is new, waits for a person (`hilt mcp trust`).
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
from hilt.servers.configured import FILES, Configured, Server, Trusts, configured
from hilt.servers.definitions import PREFIX, START_SECONDS, AcceptedTool, Difference, Raw, difference, named, tool_of
from hilt.servers.pins import Pins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.servers.client import Connection, Loop

LIST_SECONDS = 10.0  # that a list of tools waits for servers whose tools are not known yet
TRIES = 3  # at a server that ends of itself just when it is called
FIRST_DELAY = 0.5
LONGEST_DELAY = 60.0


class State(NamedTuple):
    """What people are told of one server."""

    server: Server
    tools: tuple[AcceptedTool, ...] | None  # None: it was never started
    difference: Difference
    running: bool
    failure: str
    notes: tuple[str, ...]
    log: str


class Servers:
    """All servers of a workspace. May be used from many threads; no work before the first look."""

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        state: str,
        *,
        personal: Mapping[str, Any],
        trusts: Trusts,
        idle: float | None = None,
    ) -> None:
        """`personal` are the servers of the user's settings; `trusts` says which files of the project count."""
        self._root = root
        self._environ = environ
        self._state = state
        self._personal = personal
        self._trusts = trusts
        self._idle = idle
        self._lock = threading.RLock()
        self._loop: Loop | None = None
        self._stamp: object = None
        self._configured = Configured()
        self._links: dict[str, _Link] = {}
        self._closed = False

    def close(self) -> None:
        """End all servers."""
        with self._lock:
            self._closed = True
            links, self._links = list(self._links.values()), {}
            loop, self._loop = self._loop, None
        _end(links)
        if loop is not None:
            loop.close()

    def configured(self) -> Configured:
        """Return which servers there are now; the files are read again when they or what is trusted changed."""
        with self._lock:
            paths = [os.path.join(self._root, name) for name in FILES]
            database = os.path.join(self._state, "state.db")
            found = [rulebook.status(path, follow=True) for path in (*paths, database, database + "-wal")]
            if self._stamp is None or self._stamp != found:
                self._configured = configured(self._root, self._personal, self._trusts)
                self._stamp = found if all(map(rulebook.is_settled, found)) else None
                self._relink()
            return self._configured

    def known(self) -> list[AcceptedTool]:
        """Return the definitions that are accepted; nothing is started."""
        return [kept for link in self._usable() for kept in (link.pins.read() or {}).values()]

    def names(self) -> list[str]:
        """Return the names of the tools that are known; nothing is started."""
        return [kept.shown for kept in self.known()]

    def tools(self) -> list[Tool]:
        """Return all tools, by name; servers whose tools are not known yet are started, and waited for a while."""
        links = self._usable()
        unknown = [link for link in links if link.pins.read() is None]
        starting = [(link, future) for link in unknown if (future := link.begin()) is not None]
        # nobody waits for a server that has failed, or that others have waited for; who listens is told of it later
        hopeful = [(link.began, future) for link, future in starting if not link.failures]
        if hopeful:
            last = max(began for began, _ in hopeful)
            wait([future for _, future in hopeful], max(0.0, last + LIST_SECONDS - time.monotonic()))
        found = [self._tool(link, kept) for link in links for kept in (link.pins.read() or {}).values()]
        return sorted(found, key=lambda tool: tool.name)

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name; one that is not trusted, or whose server does not start, raises why."""
        if not name.startswith(PREFIX):
            return None
        self._refuse_untrusted(name)
        for link in self._usable():
            if not name.startswith(f"{PREFIX}{link.server.name}__"):
                continue
            known = link.pins.read()
            if known is None:
                # a server that has failed before must not hold up whoever only looks for a name
                link.connected(None, patience=START_SECONDS if not link.failures else 0.0)
                known = link.pins.read() or {}
            for kept in known.values():
                if kept.shown == name:
                    return self._tool(link, kept)
            self._refuse_new(link, name, known)
        return None

    def states(self) -> list[State]:
        """Return what there is to tell of every server; nothing is started."""
        self.configured()
        with self._lock:
            links = list(self._links.values())
        return [link.state() for link in links]

    def offer(self, name: str) -> tuple[Pins, Server, list[Raw]]:
        """Start a server and return what it describes now, for a person who may accept it."""
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
                from hilt.servers.client import Loop

                self._loop = Loop()
            return self._loop

    def _relink(self) -> None:
        """End the servers that are there no longer, or not as they were."""
        gone = [link for link in self._links.values() if self._configured.servers.get(link.server.name) != link.server]
        for link in gone:
            del self._links[link.server.name]
        for name, server in self._configured.servers.items():
            if name not in self._links and not self._closed:
                self._links[name] = _Link(self, server, self._root, self._environ, self._state, self._idle)
        for link in gone:
            link.close()

    def _usable(self) -> list[_Link]:
        self.configured()
        with self._lock:
            return [link for link in self._links.values() if not link.server.disabled]

    def _link(self, name: str) -> _Link:
        """Return a server by its name, as it is configured now."""
        self.configured()
        with self._lock:
            found = self._links.get(name)
        if found is None or found.server.disabled:
            state = "is disabled" if found is not None else "is not configured, or its file is not trusted"
            raise ToolError(
                "not_found",
                f"The MCP server {name} {state}.",
                suggestion=f"{command('mcp', 'list')} shows which there are.",
            )
        return found

    def _tool(self, link: _Link, kept: AcceptedTool) -> Tool:
        return link.tool(kept, lambda tool: self._execute(link.server, kept, tool))

    def _execute(self, server: Server, kept: AcceptedTool, tool: str) -> Execute:
        def run(ctx: Context, args: dict[str, Any]) -> Output:
            from hilt.servers.client import Unsent
            from hilt.servers.results import output_of

            # what was trusted when the name was looked up may not be any more
            link = self._link(server.name)
            if link.server != server:
                raise _changed(server)
            for _ in range(TRIES):
                connection = link.connected(ctx.fence, patience=START_SECONDS)
                link.refuse_changed(connection, tool, kept)
                with suppress(Unsent):
                    answer = connection.call(tool, args, ctx)
                    link.failures = 0
                    return output_of(answer, kept.shown, ctx.overflow.limit)
            raise ToolError("busy", f"The MCP server {server.name} ends as soon as it is started.")

        return run

    def _refuse_untrusted(self, name: str) -> None:
        for path, names in self.configured().untrusted.items():
            if any(name.startswith(f"{PREFIX}{server}__") for server in names):
                raise ToolError(
                    "untrusted",
                    f"{name} is of an MCP server that {os.path.basename(path)} names, and that file is not trusted.",
                    suggestion=f"Ask the user to look at it: {command('trust', path)}",
                    path=path,
                )

    def _refuse_new(self, link: _Link, name: str, known: Mapping[str, AcceptedTool]) -> None:
        offered = link.pins.offered() or []
        shown, _ = named(link.server.name, offered, known)
        for kept in shown:
            if kept.shown == name:
                raise _untrusted(link.server.name, f"{name} is new, and nobody has accepted it yet.")


class _Link:
    """One configured server: its accepted definitions, its connection, and when it may be tried again."""

    def __init__(
        self,
        servers: Servers,
        server: Server,
        root: str,
        environ: Mapping[str, str],
        state: str,
        idle: float | None,
    ) -> None:
        self.server = server
        self.pins = Pins(state, server)
        self.failures = 0
        self.began = 0.0  # when it was started last
        self.described: list[Raw] = []  # what the server said last
        self._servers = servers
        self._root = root
        self._environ = environ
        self._options = {} if idle is None else {"idle": idle}
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._ending: list[Future[None]] = []  # connections that another has taken the place of
        self._closed = False
        self._retry_at = 0.0
        self._reason = ""
        self._made: dict[str, tuple[AcceptedTool, Tool]] = {}

    def close(self) -> list[Future[None]]:
        """End the server, if it runs, for good; what is returned tells when it has ended, and those before it."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            ending = self._ending
        if connection is None:
            return ending
        connection.close()
        return [*ending, connection.done]

    def state(self) -> State:
        """Return what there is to tell."""
        known = self.pins.read()
        offered = self.pins.offered()
        differs = difference(known.values(), offered) if known is not None and offered is not None else Difference()
        with self._lock:
            running = self._connection is not None and self._connection.lives
            tools = None if known is None else tuple(known.values())
            return State(self.server, tools, differs, running, self._reason, self.pins.notes(), self.pins.log)

    def tool(self, kept: AcceptedTool, execute: Callable[[str], Execute]) -> Tool:
        """Return the Tool of a definition, made once."""
        with self._lock:
            made = self._made.get(kept.shown)
            if made is None or made[0] != kept:
                made = self._made[kept.shown] = (kept, tool_of(self.server, kept, execute))
            return made[1]

    def begin(self) -> Future[None] | None:
        """Start the server unless it runs; None when it may not be tried yet."""
        loop = self._servers.loop()  # before the lock: who holds the other one may want ours
        with self._lock:
            if self._closed:
                return None  # who holds this link found it before its entry, or the trust in it, was gone
            if self._connection is None or not self._connection.lives:
                if time.monotonic() < self._retry_at:
                    return None
                from hilt.servers.client import Connection

                before = [] if self._connection is None else [self._connection.done]
                self._ending = [done for done in (*self._ending, *before) if not done.done()]
                self.began = time.monotonic()
                self._connection = Connection(
                    loop,
                    self.server,
                    root=self._root,
                    environ=self._environ,
                    log=self.pins.log,
                    define=self._define,
                    ended=self._ended,
                    **self._options,
                )
            return self._connection.ready

    def connected(self, fence: Fence | None, patience: float) -> Connection:
        """Return the running server, started if need be; raise why there is none, or that it takes longer than this."""
        ready = self.begin()
        with self._lock:
            connection = self._connection
        if ready is None or connection is None:
            raise self._resting()
        looked = threading.Event()
        ready.add_done_callback(lambda _: looked.set())
        if fence is not None:
            fence.watch(looked.set)
        # the start has its own limit; this one is for what surrounds it
        looked.wait(patience + 5.0 if patience else 0.0)
        if fence is not None:
            fence.check()
        if not ready.done():
            raise ToolError("busy", f"The MCP server {self.server.name} is being started.")
        ready.result()
        return connection

    def refuse_changed(self, connection: Connection, tool: str, kept: AcceptedTool) -> None:
        """Raise when the server does not describe a tool as it was accepted."""
        now = connection.hashes.get(tool)
        accepted = (self.pins.read() or {}).get(tool)
        if accepted is None or accepted.hash != kept.hash:
            raise ToolError("tool_invalid", f"{kept.shown} was just accepted anew.", suggestion="Send the call again.")
        if now == kept.hash:
            return
        if now is None:
            raise ToolError(
                "not_found",
                f"The MCP server {self.server.name} has no tool {tool!r} any more.",
                suggestion="Use another tool; list_tools shows them.",
            )
        new = next((raw for raw in self.described if raw["name"] == tool), {})
        changed = sorted(key for key in {**kept.raw, **new} if kept.raw.get(key) != new.get(key))
        # what it says now is for people to read first: nobody has accepted it
        raise _untrusted(
            self.server.name,
            f"The MCP server {self.server.name} describes {kept.shown} otherwise than it was accepted:"
            f" {', '.join(changed)} changed.",
            changed=changed,
            accepted=kept.hash,
            now=now,
        )

    def _resting(self) -> ToolError:
        with self._lock:
            if self._closed:
                return _changed(self.server)
            left = max(0.0, self._retry_at - time.monotonic())
            reason = self._reason or f"The MCP server {self.server.name} does not run."
        return ToolError(
            "busy",
            f"{reason} The next try is in {left:.1f} s.",
            suggestion=f"Send the call again in {left:.0f} s, or go on without it.",
            retry_in=round(left, 3),
        )

    def _define(self, definitions: list[Raw], notes: list[str]) -> None:
        """Accept what the server says at its first start; later, keep what differs for people to look at."""
        known = self.pins.read()
        self.described = definitions
        if known is None:
            kept, clashes = named(self.server.name, definitions, {})
            known = self.pins.pin(kept)
            notes = [*notes, *clashes]
        self.pins.note(notes)
        differs = difference(known.values(), definitions)
        self.pins.offer(definitions if differs else None)

    def _ended(self, failure: ToolError | None) -> None:
        with self._lock:
            if failure is not None:
                self.failures += 1
                self._reason = failure.message
                delay = FIRST_DELAY * 2 ** min(self.failures - 1, 10)
                self._retry_at = time.monotonic() + min(delay, LONGEST_DELAY)


def _end(links: list[_Link]) -> None:
    """End servers all at once, and wait until they have."""
    ending = [future for link in links for future in link.close()]
    if ending:
        wait(ending, 2 * LIST_SECONDS)


def _changed(server: Server) -> ToolError:
    return ToolError("tool_invalid", f"The MCP server {server.name} has just changed.")


def _untrusted(server: str, message: str, **details: object) -> ToolError:
    return ToolError(
        "untrusted",
        message,
        suggestion=f"Ask the user to look at the difference: {command('mcp', 'trust', server)}",
        server=server,
        **details,
    )
