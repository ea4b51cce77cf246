"""The hilt session of each MCP client, which ends when the client disconnects.

A client with a connection has one session for as long as the connection lasts. A client without one, as over HTTP since
2026-07-28, has a new session for each request unless it names one in `_meta["dev.hilt/session"]`. The name is a secret
of the client: whoever knows it can continue the session. The response to a request without a name contains a new one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from hilt.desk import approvals
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.runtime import Runtime
from hilt.surfaces.mcp.plain import SESSION

SESSIONS_MAX = 1000  # of clients without a connection, and of clients with one
IDLE_SECONDS = 1800.0
NAMED_SECONDS = 300.0  # after each use, in which a named session is not ended to make room for others
NAME_CHARACTERS = 200
_WAITING_MAX = 100


class Session:
    """The session of one client."""

    def __init__(self, name: str, offered: str | None = None) -> None:
        self.name = name
        self.offered = offered  # the name to offer to a client that has not named its session
        self.calls = 0  # active
        self.alone = False  # whether its client has no user, and closes forms by itself
        self.used = time.monotonic()
        self._waiting: dict[str, str] = {}  # approvals that calls are waiting for, by call

    def waits_for(self, tool: str, args: Any, approval: str) -> None:
        """Record that the client will repeat a call once its approval is answered."""
        while len(self._waiting) >= _WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[_call_key(tool, args)] = approval

    def answered(self, tool: str, args: Any, runtime: Runtime) -> str | None:
        """Return the approval that a repeated call is waiting for, once it is answered."""
        approval = self._waiting.get(_call_key(tool, args)) if self._waiting else None
        if approval is None:
            return None
        with suppress(ToolError):
            if approvals.find(runtime.parts.state, approval).state == "pending":
                return None
        self._waiting.pop(_call_key(tool, args), None)
        return approval


class Sessions:
    """The sessions of one server. Used from the event loop only."""

    def __init__(self, runtime: Runtime, single: Session | None, later: Callable[[Callable[[], None]], None]) -> None:
        """All clients share the session `single`, unless it is None; `later` runs work on another thread."""
        self._runtime = runtime
        self._single = single
        self._later = later
        self._named: dict[str, Session] = {}  # of clients without a connection, least recently used first
        self._fresh: dict[str, Session] = {}  # likewise, of clients that did not name one

    def of_connection(self, id: str) -> Session:
        """Return the session of a connection, which the caller must end."""
        return self._single or Session(f"mcp-{id}")

    def of_request(self, meta: Mapping[str, Any], *, calls: bool) -> Session:
        """Return the session that a request of a client without a connection names, or a new one.

        A new session is kept for the client to continue if the request calls a tool.
        """
        if self._single is not None:
            return self._single
        secret = meta.get(SESSION)
        if secret is None:
            return self._new(calls=calls)
        if not isinstance(secret, str) or not 0 < len(secret) <= NAME_CHARACTERS:
            raise ToolError("invalid_request", f"{SESSION} must be a string of 1 to {NAME_CHARACTERS} characters.")
        name = _session_name(secret)
        session = self._named.pop(name, None) or self._fresh.pop(name, None)
        if session is None:
            self._make_room()
            session = Session(name)
        session.offered = None
        session.used = time.monotonic()
        self._named[name] = session
        return session

    def _new(self, *, calls: bool) -> Session:
        import secrets

        secret = secrets.token_urlsafe(16)
        session = Session(_session_name(secret), secret)
        if calls:
            self._make_room()
            self._fresh[session.name] = session
        return session

    def end(self, session: Session) -> None:
        """End a session and its jobs, and forget what it has read."""
        if session is self._single:
            return
        self._named.pop(session.name, None)
        self._fresh.pop(session.name, None)
        self._later(lambda: self._forget(session.name))

    def _forget(self, name: str) -> None:
        with suppress(ToolError):  # otherwise it expires later
            self._runtime.end_session(name)

    def end_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """End the sessions without a connection that have been idle for this long."""
        oldest = time.monotonic() - seconds
        for session in [*self._named.values(), *self._fresh.values()]:
            if not session.calls and session.used < oldest:
                self.end(session)

    def _make_room(self) -> None:
        """At the limit, end an idle session: first one without a name, then a named one not used recently."""
        if len(self._named) + len(self._fresh) < SESSIONS_MAX:
            return
        oldest = time.monotonic() - NAMED_SECONDS
        candidates = (*self._fresh.values(), *(session for session in self._named.values() if session.used < oldest))
        idle = next((session for session in candidates if not session.calls), None)
        if idle is None:
            raise ToolError("busy", f"All {SESSIONS_MAX} sessions are in use.")
        self.end(idle)


def _session_name(secret: str) -> str:
    # a digest, so that a name chosen by a client cannot match another kind of session
    return f"mcp-{sha256(secret.encode('utf-8', 'backslashreplace')).hex()[:32]}"


def _call_key(tool: str, args: Any) -> str:
    return json.dumps([tool, args], sort_keys=True, default=repr)
