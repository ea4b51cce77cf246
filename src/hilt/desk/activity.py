"""What happens now in all of a user's processes: their events as they occur, and the connected MCP hosts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hilt.errors import ToolError
from hilt.state.callers import CallObserver
from hilt.state.connected_hosts import ConnectedHost as ConnectedHost
from hilt.state.connected_hosts import HostObserver
from hilt.state.connected_hosts import Transport as Transport
from hilt.state.connected_hosts import connected_hosts as connected_hosts
from hilt.state.connected_hosts import mark_host as mark_host
from hilt.state.events import EVENTS_MAX, EventStore, NewEvent, mark_serving
from hilt.state.events import EventRow as EventRow
from hilt.state.locks import ProcessMark as ProcessMark
from hilt.state.observer import StateObserver

POLL_SECONDS = 0.05
TIDY_SECONDS = 1.0
PRUNE_SECONDS = 60.0
PRUNE_EVENTS = 2_000  # also prune after this many new events
BATCH = 500


class EventWatch:
    """Follows the events of all processes, which publish them as long as there is a watch."""

    def __init__(
        self,
        state: str,
        workspaces: dict[str, str],
        received: Callable[[list[EventRow]], object],
        *,
        days: int,
        megabytes: int,
    ) -> None:
        """Pass new events to `received`, on the thread of the watch; remove those over the limits.

        `workspaces` maps the ids of workspaces to their folders.
        """
        self._mark = mark_serving(state)
        self._limits = {"days": days, "megabytes": megabytes}
        self._received = received
        self._events = EventStore(state)
        self._reading = EventStore(state)  # a second connection, for clients that read older events
        self._observer = StateObserver(state, workspaces)
        self._hosts = HostObserver(state)
        self._calls = CallObserver(state, self._reading)
        self.first = self._position = self._events.last()  # the newest event when the watch began
        self._unpruned = PRUNE_EVENTS + 1  # prune at the start
        self._pruned_at = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="hilt-events", daemon=True)

    def start(self) -> None:
        """Publish that the server has started, and start reading."""
        self._events.append(NewEvent("server", {"status": "started"}))
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._ended.set()
        self._thread.join(timeout=1)
        self._mark.close()

    def newest(self) -> int:
        """Return the number of the newest event, which may not have been received yet."""
        return self._reading.last()

    def stored(self, seq: int) -> list[EventRow]:
        """Return up to BATCH events after a number, from the store."""
        return self._reading.after(seq, BATCH)

    def _follow(self) -> None:
        """Observe the databases until the watch ends."""
        version, tidied_at = -1, 0.0
        while not self._ended.wait(POLL_SECONDS):
            try:
                for event in self._observer.poll():
                    self._events.append(event)
                current = self._reading.version()
                if current != version:
                    version = current
                    self._read()
                now = time.monotonic()
                if now - tidied_at > TIDY_SECONDS:
                    tidied_at = now
                    for event in (*self._hosts.poll(), *self._calls.poll()):
                        self._events.append(event)
                    self._events.forget(self._position)
                if now - self._pruned_at > PRUNE_SECONDS or self._unpruned > PRUNE_EVENTS:
                    self._pruned_at, self._unpruned = now, 0
                    self._events.prune(**self._limits, most=EVENTS_MAX - 2 * PRUNE_EVENTS)
            except ToolError:
                continue  # the database is busy or the disk is full: retry at the next poll
            except RuntimeError:
                return  # the reader's event loop has ended

    def _read(self) -> None:
        while rows := self._reading.after(self._position, BATCH):
            self._position = rows[-1].seq
            self._unpruned += len(rows)
            self._received(rows)
