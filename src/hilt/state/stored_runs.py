"""Runs: sessions with everything that they started, as rows of state.db.

A run is noted in the transaction of what it stores: a change, a question, a cost. A session that only reads has no row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from hilt.call import Origin
from hilt.state.tables import open_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

KEPT_DAYS = 400  # after the last use

_NANO = 1_000_000_000


class StoredRun(NamedTuple):
    """A stored run; times in nanoseconds since 1970."""

    id: str
    began: int
    used: int


class RunCost(NamedTuple):
    """The requests of a run, or of one agent in it, to one model; `cost` is in dollars, without the unpriced ones."""

    agent: str
    model: str
    requests: int
    unpriced: int
    input_tokens: int
    output_tokens: int
    cost: float


# returns the note of a session's run, to be made in the transaction of what the run stores
NoteRun = Callable[[str], Callable[["sqlite3.Connection"], Origin]]


def note(workspace: str, origin: Origin, db: sqlite3.Connection) -> Origin:
    """Store that a run is in use, and return its origin. Runs that were not used for a long time are removed."""
    now = time.time_ns()
    query = "INSERT INTO runs VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET used=max(used, excluded.used)"
    db.execute(query, (workspace, origin.run, now, now))
    oldest = now - KEPT_DAYS * 86_400 * _NANO
    old = db.execute("DELETE FROM runs WHERE used<? RETURNING workspace, id", (oldest,)).fetchall()
    db.executemany("DELETE FROM run_costs WHERE workspace=? AND run=?", old)
    return origin


def no_note(session: str) -> Callable[[sqlite3.Connection], Origin]:
    """Return a note that stores nothing, for stores without a runtime."""
    return lambda db: Origin(session)


class Runs:
    """The stored runs of one workspace."""

    def __init__(self, directory: str, workspace: str) -> None:
        self._db = open_state(directory)
        self.close = self._db.close
        self._workspace = workspace

    def newest(self, limit: int) -> list[StoredRun]:
        """Return the runs that were used last, newest first."""
        query = "SELECT id, began, used FROM runs WHERE workspace=? ORDER BY used DESC, id LIMIT ?"
        return [StoredRun(*row) for row in self._rows(query, limit)]

    def get(self, id: str) -> StoredRun | None:
        """Return a run, or None."""
        rows = self._rows("SELECT id, began, used FROM runs WHERE workspace=? AND id=?", id)
        return StoredRun(*rows[0]) if rows else None

    def changes(self, id: str) -> list[str]:
        """Return the ids of the changes of a run that can be undone, newest first."""
        query = "SELECT id FROM changes WHERE workspace=? AND run=? AND NOT open AND previewed='' ORDER BY number DESC"
        return [change for (change,) in self._rows(query, id)]

    def waiting(self, id: str) -> list[str]:
        """Return the ids of the approvals that calls of a run wait for."""
        query = "SELECT id FROM approvals WHERE workspace=? AND run=? AND state='pending' ORDER BY asked_at"
        return [approval for (approval,) in self._rows(query, id)]

    def costs(self, id: str) -> list[RunCost]:
        """Return what a run has cost, by agent and model, the most expensive first."""
        query = """SELECT agent, model, requests, unpriced, input_tokens, output_tokens, nanodollars FROM run_costs
                   WHERE workspace=? AND run=? ORDER BY nanodollars DESC, agent, model"""
        return [RunCost(*row)._replace(cost=row[-1] / _NANO) for row in self._rows(query, id)]

    def _rows(self, query: str, value: object) -> list[tuple[Any, ...]]:
        return self._db.rows(query, (self._workspace, value))
