"""Reports changes of approvals, questions, tasks and agents in state.db, by any process.

It compares rows of the database, so that a change is reported even if its process was killed right after the commit.
"""

from __future__ import annotations

import time

from hilt.state.events import NewEvent
from hilt.state.tables import open_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

# type of event -> the two columns that identify a row, and the columns of the event
_QUERIES = {
    "approval": "SELECT workspace, id, state, session, answered_by, expires_at FROM approvals",
    "question": "SELECT workspace, id, state, session, answered_by, expires_at FROM questions",
    "task": "SELECT workspace, id, status, owner, '', updated FROM tasks",
    "agent": "SELECT workspace, id, status, parent, '', changed FROM agents",
}

Key = tuple[str, str, object]  # type, workspace, id


class StateObserver:
    """Compares state.db with its rows at the previous call. Not safe to use from several threads."""

    def __init__(self, state: str, workspaces: dict[str, str]) -> None:
        """`workspaces` maps the ids of workspaces to their folders, for the events."""
        self._db = open_state(state)
        self._workspaces = workspaces
        self._rows: dict[Key, tuple[object, ...]] | None = None
        self._version = -1
        self._expires = 0  # when the next pending row expires: the database does not change then

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def poll(self) -> list[NewEvent]:
        """Return the changes since the last call; none on the first call."""
        if not self._db.exists():
            self._rows = {}
            return []
        now = time.time_ns()
        version = int(self._db.read(lambda db: db.execute("PRAGMA data_version").fetchone())[0])
        if version == self._version and not 0 < self._expires <= now:
            return []
        before, self._version = self._rows, version
        self._rows = rows = self._db.read(lambda db: _read(db, now))
        expiring = [row[3] for key, row in rows.items() if row[0] == "pending" and key[0] in ("approval", "question")]
        self._expires = min((int(str(moment)) for moment in expiring), default=0)
        if before is None:
            return []
        return [self._event(key, row) for key, row in rows.items() if before.get(key) != row]

    def _event(self, key: Key, row: tuple[object, ...]) -> NewEvent:
        type, workspace, id = key
        status, who, by, moment = row
        unique = f"{type} {workspace} {id} {status} {moment}"
        fields = {"id": id, "workspace": self._workspaces.get(workspace, ""), "status": status}
        if type == "task":
            return NewEvent(type, {**fields, "owner": who}, key=unique)
        if type == "agent":
            return NewEvent(type, {**fields, "parent": who}, key=unique)
        return NewEvent(type, {**fields, "session": who, "answered_by": by}, key=unique)


def _read(db: sqlite3.Connection, now: int) -> dict[Key, tuple[object, ...]]:
    rows: dict[Key, tuple[object, ...]] = {}
    for type, query in _QUERIES.items():
        for workspace, id, status, who, by, moment in db.execute(query):
            if type in ("approval", "question") and status == "pending" and moment <= now:
                status = "expired"
            rows[type, workspace, id] = (status, who, by, moment)
    return rows
