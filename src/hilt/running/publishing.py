"""Publishes calls as events while `hilt serve` runs."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import NamedTuple

from hilt import wire
from hilt.call import Json, Origin, Result
from hilt.output.redaction import Redactor
from hilt.state.callers import end_key, mark_caller, start_key
from hilt.state.events import EventStore, NewEvent, encode, is_served
from hilt.state.locks import ProcessMark
from hilt.state.trail import TrailEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.active_call import ActiveCall
    from hilt.processes.jobs import JobState


SERVED_SECONDS = 0.1  # between two checks whether a server is running
START_SECONDS = 0.05  # after which a call that has not ended is published as started


class Publication(NamedTuple):
    """Where calls are published, the environment whose secrets are redacted, and whether contents may be stored."""

    state: str
    root: str  # of the workspace
    environ: Mapping[str, str]
    keeps_contents: bool
    origin_of: Callable[[str], Origin]


class Publisher:
    """Appends the calls of one runtime to the events. Safe to use from many threads."""

    def __init__(self, publication: Publication) -> None:
        self._state = publication.state
        self._root = publication.root
        self._keeps_contents = publication.keeps_contents
        self._origin_of = publication.origin_of
        self._events = EventStore(publication.state)
        self._redactor = Redactor(publication.environ)
        self._served_until = 0.0
        self._lock = threading.Lock()
        self._open: set[str] = set()  # ids of the calls in progress
        self._started: set[str] = set()  # of these, the ones whose start was published
        self._mark: tuple[str, ProcessMark] | None = None
        self._begun: deque[tuple[float, ActiveCall]] = deque()  # calls to publish as started, and when they began
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_ended = False

    def begin(self, active: ActiveCall) -> None:
        """Publish the start of a call, unless it ends soon: most calls do, and publishing their end is enough."""
        if not self._is_served():
            return
        active.event_id = id = os.urandom(8).hex()
        with self._lock:
            self._open.add(id)
            self._begun.append((time.monotonic(), active))
            if self._thread is None:
                self._thread = threading.Thread(target=self._publish_starts, name="hilt-starts", daemon=True)
                self._thread.start()
        if not self._woken.is_set():
            self._woken.set()

    def _publish_starts(self) -> None:
        while self._woken.wait() and not self._has_ended:
            time.sleep(START_SECONDS)
            self._woken.clear()
            while self._begun and self._begun[0][0] < time.monotonic() - START_SECONDS:
                active = self._begun.popleft()[1]
                if active.event_id in self._open:
                    self._publish_start(active)
            if self._begun:
                self._woken.set()

    def _publish_start(self, active: ActiveCall) -> None:
        prepared = active.prepared
        fields: dict[str, Json] = {
            "id": active.event_id,
            "workspace": self._root,
            "session": active.session,
            **self._origin_of(active.session)._asdict(),
            "tool": prepared.tool.name if prepared else active.call.tool[:200],
        }
        if self._keeps_contents:
            fields["args"] = prepared.args if prepared else active.call.args
        with self._lock, suppress(Exception):  # the end of the call is published anyway
            if active.event_id in self._open:  # the end must not be published before the start
                self._mark = self._mark or mark_caller(self._state)
                fields["process"] = self._mark[0]
                self._append("call_started", fields, start_key(active.event_id))
                self._started.add(active.event_id)

    def publish(self, active: ActiveCall, entry: TrailEntry, result: Result) -> None:
        """Publish the end of a call, if a server is running or its start was published."""
        with self._lock:
            self._open.discard(active.event_id)
            key = end_key(active.event_id) if active.event_id in self._started else None
            self._started.discard(active.event_id)
        if key is None and not self._is_served():
            return
        fields: dict[str, Json] = {
            "id": active.event_id or os.urandom(8).hex(),
            "workspace": self._root,
            "session": entry.session,
            "run": entry.run,
            "parent": entry.parent,
            "agent": entry.agent,
            "tool": entry.tool,
            "verdict": entry.decision,
            "reason": entry.reason,
            "approver": entry.approver,
            "outcome": entry.outcome,
            "ms": entry.micros / 1000,
            "change": result.meta.get("undo"),
        }
        if self._keeps_contents:
            fields["args"] = active.call.args if active.prepared is None else active.prepared.args
            fields["votes"] = [
                {"verdict": vote.verdict, "voter": vote.voter, "reason": vote.reason} for vote in active.votes
            ]
            fields["envelope"] = wire.envelope(result)
        self._append("call", fields, key)

    def _append(self, type: str, fields: dict[str, Json], key: str | None) -> None:
        data = encode(fields)
        if not self._redactor.is_clean(data):
            fields, data = self._redactor.json(fields), ""
        self._events.append(NewEvent(type, fields, kept=self._keeps_contents, key=key), data)

    def _is_served(self) -> bool:
        """Whether a server is running, or was a moment ago."""
        now = time.monotonic()
        if now > self._served_until and is_served(self._state):
            self._served_until = now + SERVED_SECONDS
        return now <= self._served_until

    def close(self) -> None:
        """Stop publishing, and close the database."""
        self._has_ended = True
        self._woken.set()
        self._events.close()
        with self._lock:
            if self._mark is not None:
                self._mark[1].close()
                self._mark = None


def publish_job(state: str, root: str, job: JobState) -> None:
    """Publish that a job has started or ended, if a server is running; the list of jobs has its command."""
    if not is_served(state):
        return
    fields = {"workspace": root, "session": job.job.session, "id": job.job.id, "status": job.status}
    with closing(EventStore(state)) as events:
        events.append(NewEvent("job", {**fields, "exit_code": job.exit_code}))
