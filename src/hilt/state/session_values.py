"""Values that belong to a session and outlive its processes, such as its mode."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from hilt.call import Json
from hilt.state.tables import open_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

KEPT_DAYS = 30  # for sessions that were never ended

_DAY = 24 * 3600 * 1_000_000_000


class SessionValues:
    """JSON values by workspace, session and key."""

    def __init__(self, directory: str) -> None:
        self._db = open_state(directory)
        self.close = self._db.close

    def get(self, workspace: str, session: str, key: str) -> Json | None:
        """Return a value, or None if it is not set."""
        return self.all(workspace, session).get(key)

    def all(self, workspace: str, session: str) -> dict[str, Json]:
        """Return every value of a session by its key."""
        query = "SELECT key, value FROM session_values WHERE workspace=? AND session=? ORDER BY key"
        return {key: json.loads(value) for key, value in self._db.rows(query, (workspace, session))}

    def set(self, workspace: str, session: str, key: str, value: Json | None) -> None:
        """Store a value; None removes it."""
        self._db.write(lambda db: _put(db, workspace, session, key, value))

    def change(self, workspace: str, session: str, key: str, change: Callable[[Json | None], Json | None]) -> Json:
        """Replace a value with the result of `change`, atomically across processes; return the new value."""

        def work(db: sqlite3.Connection) -> Json:
            query = "SELECT value FROM session_values WHERE workspace=? AND session=? AND key=?"
            row = db.execute(query, (workspace, session, key)).fetchone()
            value = change(None if row is None else json.loads(row[0]))
            _put(db, workspace, session, key, value)
            return value

        return self._db.write(work)

    def changed_since(self, workspace: str, session: str, since: float) -> bool:
        """Whether a value of a session was stored after this time, in seconds since the epoch."""
        query = "SELECT 1 FROM session_values WHERE workspace=? AND session=? AND at>=? LIMIT 1"
        return bool(self._db.rows(query, (workspace, session, int(since * 1_000_000_000))))

    def clear(self, workspace: str, session: str) -> bool:
        """Delete every value of a session; return whether there were any."""
        query = "DELETE FROM session_values WHERE workspace=? AND session=?"
        return self._db.change(query, (workspace, session))


def _put(db: sqlite3.Connection, workspace: str, session: str, key: str, value: Json | None) -> None:
    now = time.time_ns()
    db.execute("DELETE FROM session_values WHERE at<?", (now - KEPT_DAYS * _DAY,))
    if value is None:
        db.execute("DELETE FROM session_values WHERE workspace=? AND session=? AND key=?", (workspace, session, key))
        return
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    db.execute("INSERT OR REPLACE INTO session_values VALUES (?,?,?,?,?)", (workspace, session, key, text, now))
