"""Runs, what a person tries, watches and pays for: a session with everything that it started (ADR 0059)."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from hilt.errors import ToolError
from hilt.formats.times import Moment
from hilt.state.stored_runs import RunCost, Runs, StoredRun

if TYPE_CHECKING:
    from hilt.runtime import Runtime

_SECOND = 1_000_000_000


class Run(NamedTuple):
    """A run; its id is that of the session that began it."""

    id: str
    began: Moment
    used: Moment


class RunCall(NamedTuple):
    """A call of a run: by an agent, or by the session itself if that is empty."""

    time: Moment
    session: str
    tool: str
    outcome: str
    call: str  # the caller's id for it
    parent: str  # the call that started the agent
    agent: str


class RunDetails(NamedTuple):
    """A run with what it has done."""

    run: Run
    calls: tuple[RunCall, ...]  # the newest, oldest first
    agents: tuple[str, ...]
    changes: tuple[str, ...]  # that can be undone, newest first
    approvals: tuple[str, ...]  # that it waits for
    costs: tuple[RunCost, ...]  # by agent and model


def runs(runtime: Runtime, limit: int = 50) -> list[Run]:
    """Return the runs of a workspace, those used last first; of those that only read, the sessions that still exist."""
    with closing(Runs(runtime.parts.state, runtime.parts.id)) as store:
        records = _records(runtime, store, limit)
    newest = sorted(records.values(), key=lambda record: (-record.used, record.id))
    return list(map(_run, newest[:limit]))


def show(runtime: Runtime, id: str, limit: int = 200) -> RunDetails:
    """Return a run with its newest calls; raise not_found without one."""
    parts = runtime.parts
    with closing(Runs(parts.state, parts.id)) as store:
        record = _records(runtime, store, 0).get(id) or store.get(id)
        if record is None:
            raise ToolError("not_found", f"There is no run {id}.", suggestion="List the runs of the workspace.")
        entries = [row.entry for row in parts.trail.rows(workspace=parts.id, run=id, limit=limit)]
        return RunDetails(
            _run(record),
            tuple(RunCall(Moment(e.at), e.session, e.tool, e.outcome, e.call, e.parent, e.agent) for e in entries),
            tuple(parts.roster.below(id)[1:]),
            tuple(store.changes(id)),
            tuple(store.waiting(id)),
            tuple(store.costs(id)),
        )


def _records(runtime: Runtime, store: Runs, limit: int) -> dict[str, StoredRun]:
    """Return the stored runs used last, and those of the sessions in the trail."""
    known = {record.id: record for record in store.newest(limit)}
    for session, started, used in runtime.parts.trail.sessions(runtime.parts.id):
        id = runtime.parts.authority.origin(session).run
        began, last = started * _SECOND, used * _SECOND
        record = known.get(id) or store.get(id) or StoredRun(id, began, last)
        known[id] = StoredRun(id, min(record.began, began), max(record.used, last))
    return known


def _run(record: StoredRun) -> Run:
    return Run(record.id, Moment(record.began), Moment(record.used))
