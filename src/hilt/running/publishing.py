"""Publishes calls as events while `hilt serve` runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

from hilt import wire
from hilt.call import Json, Result
from hilt.output.redaction import Redactor
from hilt.state.events import EventStore, NewEvent, is_served
from hilt.state.trail import TrailEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.processes.jobs import JobState
    from hilt.running.active_call import ActiveCall


SERVED_SECONDS = 0.1  # between two checks whether a server still runs


class Publication(NamedTuple):
    """Where calls are published, what is removed from them, and whether their contents may be kept."""

    state: str
    root: str  # of the workspace
    environ: Mapping[str, str]
    keeps: bool


class Publisher:
    """Appends the calls of one runtime to the events. Safe to use from many threads."""

    def __init__(self, publication: Publication) -> None:
        self._state = publication.state
        self._root = publication.root
        self._keeps = publication.keeps
        self._events = EventStore(publication.state)
        self._redactor = Redactor(publication.environ)
        self._served_until = 0.0

    def publish(self, active: ActiveCall, entry: TrailEntry, result: Result) -> None:
        """Publish a call that has ended, if a server runs."""
        if not self._is_served():
            return
        facts: dict[str, Json] = {
            "workspace": self._root,
            "session": entry.session,
            "tool": entry.tool,
            "verdict": entry.decision,
            "reason": entry.reason,
            "approver": entry.approver,
            "outcome": entry.outcome,
            "ms": entry.micros / 1000,
            "change": result.meta.get("undo"),
        }
        if self._keeps:
            args = active.call.args if active.prepared is None else active.prepared.args
            facts["args"] = self._redactor.json(args)
            facts["votes"] = [
                {"verdict": vote.verdict, "voter": vote.voter, "reason": vote.reason} for vote in active.votes
            ]
            facts["envelope"] = self._redactor.json(wire.envelope(result))
        self._events.append(NewEvent("call", facts, kept=self._keeps))

    def _is_served(self) -> bool:
        """Whether a server runs, or did a moment ago."""
        now = time.monotonic()
        if now > self._served_until and is_served(self._state):
            self._served_until = now + SERVED_SECONDS
        return now <= self._served_until

    def close(self) -> None:
        """Close the database."""
        self._events.close()


def publish_job(state: str, root: str, job: JobState) -> None:
    """Publish that a job has started or ended, if a server runs; its command is in the list of jobs."""
    if not is_served(state):
        return
    facts = {"workspace": root, "session": job.job.session, "id": job.job.id, "status": job.status}
    with closing(EventStore(state)) as events:
        events.append(NewEvent("job", {**facts, "exit_code": job.exit_code}))
