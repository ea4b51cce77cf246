"""Whose call it is: the hilt session behind each MCP client, ended when the client is gone.

A client with a connection has one session for as long as the connection lasts. A client without, as over HTTP since
2026-07-28, has a new one for each request unless it names one with `_meta["dev.hilt/session"]`: the name is a secret
of the client, since whoever knows it goes on with the session. The answer to a request that named none carries a name.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.runtime import Runtime
from hilt.surfaces.mcp.names import SESSION

SESSIONS_MAX = 1000  # of clients without connection, and of clients with one
IDLE_SECONDS = 1800.0
NAMED_SECONDS = 300.0  # a session that its client has named is safe from others for so long after each use
NAME_CHARACTERS = 200
_WAITING_MAX = 100


class Session:
    """One client's stay."""

    def __init__(self, name: str, told: str | None = None) -> None:
        self.name = name
        self.told = told  # the name that the client may go on with, when it does not know it yet
        self.calls = 0  # under way
        self.alone = False  # its client closes forms by itself
        self.used = time.monotonic()
        self._waiting: dict[str, str] = {}  # approvals that calls wait for, by call

    def waits_for(self, tool: str, args: Any, approval: str) -> None:
        """Note that a call will be made again when a person has answered."""
        while len(self._waiting) >= _WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[_call_key(tool, args)] = approval

    def answered(self, tool: str, args: Any, runtime: Runtime) -> str | None:
        """Return the approval of a call that was made before, once a person has answered it."""
        found = self._waiting.get(_call_key(tool, args)) if self._waiting else None
        if found is None:
            return None
        with suppress(ToolError):
            if runtime.authority.approvals().find(found).state == "pending":
                return None
        del self._waiting[_call_key(tool, args)]
        return found


class Sessions:
    """The sessions of one server. Used from the event loop only."""

    def __init__(self, runtime: Runtime, single: str | None, later: Callable[[Callable[[], None]], None]) -> None:
        """Take the session that all clients have, if they have one; `later` runs something on another thread."""
        self._runtime = runtime
        self._single = None if single is None else Session(single)
        self._later = later
        self._named: dict[str, Session] = {}  # of clients without connection; the one used last is last
        self._fresh: dict[str, Session] = {}  # likewise, of those that did not name one

    def of_connection(self, id: str) -> Session:
        """Return the session of a connection; whoever asked for it ends it."""
        return self._single or Session(f"mcp-{id}")

    def of_request(self, meta: Mapping[str, Any], *, calls: bool) -> Session:
        """Return the session that a request of a client without connection names, or a new one.

        A new one is kept, for the client to go on with, when the request calls a tool.
        """
        if self._single is not None:
            return self._single
        told = meta.get(SESSION)
        if told is None:
            return self._new(calls=calls)
        if not isinstance(told, str) or not 0 < len(told) <= NAME_CHARACTERS:
            raise ToolError("invalid_request", f"{SESSION} must be text of at most {NAME_CHARACTERS} characters.")
        name = _session_name(told)
        found = self._named.pop(name, None) or self._fresh.pop(name, None)
        if found is None:
            self._make_room()
            found = Session(name)
        found.told = None
        found.used = time.monotonic()
        self._named[name] = found
        return found

    def _new(self, *, calls: bool) -> Session:
        secret = secrets.token_urlsafe(16)
        session = Session(_session_name(secret), secret)
        if calls:
            self._make_room()
            self._fresh[session.name] = session
        return session

    def end(self, session: Session) -> None:
        """End what the session has running, and forget what it has read."""
        if session is self._single:
            return
        self._named.pop(session.name, None)
        self._fresh.pop(session.name, None)
        self._later(lambda: self._forget(session.name))

    def _forget(self, name: str) -> None:
        with suppress(ToolError):  # what cannot be forgotten now grows old
            self._runtime.end_session(name)

    def end_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """End the sessions without connection that nobody has used for so long."""
        oldest = time.monotonic() - seconds
        for session in [*self._named.values(), *self._fresh.values()]:
            if not session.calls and session.used < oldest:
                self.end(session)

    def _make_room(self) -> None:
        """End the session that is missed least, when there are too many: one that nobody named, or has used lately."""
        if len(self._named) + len(self._fresh) < SESSIONS_MAX:
            return
        oldest = time.monotonic() - NAMED_SECONDS
        known = (*self._fresh.values(), *(session for session in self._named.values() if session.used < oldest))
        idle = next((session for session in known if not session.calls), None)
        if idle is None:
            raise ToolError("busy", f"{SESSIONS_MAX} clients are at work already.")
        self.end(idle)


def _session_name(secret: str) -> str:
    # by its digest: a name that a client makes up must not be that of another kind of session
    return f"mcp-{sha256(secret.encode('utf-8', 'backslashreplace')).hex()[:32]}"


def _call_key(tool: str, args: Any) -> str:
    return json.dumps([tool, args], sort_keys=True, default=repr)
