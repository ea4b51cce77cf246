"""A host's connection to a process that serves several hosts: its session, and its front loop."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hilt.runtime import Runtime
from hilt.surfaces.mcp.call_tasks import CallTasks
from hilt.surfaces.mcp.front import Front
from hilt.surfaces.mcp.pipe import FAREWELL, new_session
from hilt.surfaces.mcp.sessions import Session
from hilt.surfaces.mcp.tool_list import Choice

_NAME = re.compile("mcp-[0-9a-f]{16}")


class HostConnection:
    """One host, and its session."""

    def __init__(
        self,
        runtime: Runtime,
        descriptor: int,
        options: Mapping[str, str],
        environ: Mapping[str, str],
        tasks: CallTasks,
    ) -> None:
        """Serve a host with these options and this environment on a socket; `tasks` outlive the connection."""
        chosen = options.get("session") or environ.get("HILT_SESSION")
        proposed = options.get("connection", "")
        self.session = chosen or (proposed if _NAME.fullmatch(proposed) else new_session())
        self._is_private = chosen is None
        self._runtime = runtime
        self._tasks = tasks
        choice = Choice("search" in options, "lean" in options)
        farewell = FAREWELL if "connection" in options else b""  # only our own pipe understands it
        session = Session(self.session)
        self.front = Front(
            runtime, choice, session, descriptor, descriptor, farewell=farewell, tasks=tasks, shares=True
        )

    def run(self) -> None:
        """Serve until the host disconnects; then end its session, unless the user chose its name."""
        self._runtime.watch_deadlines()
        self.front.run()
        if self._is_private and self.front.is_complete:
            self._tasks.end((self._runtime.parts.id, self.session))
            self._runtime.end_session(self.session)
