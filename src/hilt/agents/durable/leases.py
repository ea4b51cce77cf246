"""This process as the owner of agents: a lock on this machine and, for other machines, a lease that it renews.

The kernel releases the lock of a process that is killed; for other machines its lease expires, by the clock of the
database.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from hilt import __version__
from hilt.agents.durable.stores import machine_name
from hilt.errors import ToolError
from hilt.state.agent_database import owners_folder
from hilt.state.agent_runs import OwnerRecord
from hilt.state.locks import ProcessMark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.runtime import Runtime

_RENEWALS = 3  # within a lease
_CLOSE_SECONDS = 2.0


class TakenOver(Exception):
    """Another process has taken over the agent that this one runs."""


class AgentOwner:
    """A living owner of agents, until it is closed."""

    def __init__(self, runtime: Runtime, slots: int) -> None:
        """`slots` is how many agents a worker runs at once; 0: this process runs only those that no worker takes."""
        self.name = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._mark = ProcessMark(owners_folder(runtime.parts.state), self.name)
        self.record = OwnerRecord(self.name, machine_name(runtime.parts.state), __version__, slots, 0)
        store = runtime.parts.roster
        # agents that keep all connections busy must not delay the renewal of the lease
        self._database = store.database.separate()
        self._runs = store.runs.within(self._database)
        self._lease = float(runtime.settings["agents.lease_s"]) if store.database.is_shared else None
        self._is_registered = bool(slots) or self._lease is not None
        self._ended = threading.Event()
        if self._is_registered:
            self._runs.register(self.record, self._lease)
        self._renewing: threading.Thread | None = None
        if self._lease is not None:
            renewing = threading.Thread(target=self._renew, args=(self._lease,), name="hilt-lease", daemon=True)
            self._renewing = renewing
            renewing.start()

    def _renew(self, lease: float) -> None:
        while not self._ended.wait(lease / _RENEWALS):
            with suppress(ToolError):  # the database is unreachable, so nobody else can take over either
                self._runs.register(self.record, lease)

    def close(self) -> None:
        """Give up the lease and the lock."""
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join(_CLOSE_SECONDS)  # it could register this process again
        if self._is_registered:
            with suppress(ToolError):
                self._runs.unregister(self.name)
        self._database.close()
        self._mark.close()
