"""The todo lists of sessions, in state.db."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from hilt.errors import ToolError
from hilt.state.tables import open_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

TodoStatus = Literal["pending", "in_progress", "completed", "cancelled"]

TODOS_MAX = 200
CONTENT_CHARACTERS = 1_000
LIST_BYTES = 64 * 1024
LISTS_MAX = 500  # of one workspace; older lists are removed
KEPT_DAYS = 30  # for sessions that were never ended

_DAY = 24 * 3600 * 1_000_000_000


class Todo(NamedTuple):
    """One item of a todo list. Ids are compared as strings."""

    id: str | int
    content: str
    status: TodoStatus


class TodoLists:
    """The todo lists of one workspace, one for each session."""

    def __init__(self, directory: str, workspace: str) -> None:
        self._db = open_state(directory)
        self.close = self._db.close
        self._workspace = workspace

    def read(self, session: str) -> list[Todo]:
        """Return the list of a session."""
        if not self._db.exists():
            return []
        return self._db.read(lambda db: self._load(db, session))

    def change(
        self, session: str, change: Callable[[list[Todo]], list[Todo]], *, commit: Callable[[], None]
    ) -> list[Todo]:
        """Replace a list with the result of `change`, atomically; `commit` is called last and may raise to abort."""

        def work(db: sqlite3.Connection) -> list[Todo]:
            todos = change(self._load(db, session))
            items = json.dumps(todos, ensure_ascii=False, separators=(",", ":"))
            size = len(items.encode())
            if size > LIST_BYTES:
                raise ToolError(
                    "invalid_args",
                    f"The list has {size} bytes; the limit is {LIST_BYTES}.",
                    suggestion="Remove completed todos, or shorten their content.",
                    limit=LIST_BYTES,
                )
            now = time.time_ns()
            db.execute("INSERT OR REPLACE INTO todos VALUES (?,?,?,?)", (self._workspace, session, items, now))
            db.execute("DELETE FROM todos WHERE workspace=? AND at<?", (self._workspace, now - KEPT_DAYS * _DAY))
            oldest = "SELECT session FROM todos WHERE workspace=? ORDER BY at DESC LIMIT -1 OFFSET ?"
            for (name,) in db.execute(oldest, (self._workspace, LISTS_MAX)).fetchall():
                db.execute("DELETE FROM todos WHERE workspace=? AND session=?", (self._workspace, name))
            commit()
            return todos

        return self._db.write(work)

    def clear(self, session: str) -> bool:
        """Delete the list of a session; return whether there was one."""
        query = "DELETE FROM todos WHERE workspace=? AND session=?"
        return self._db.change(query, (self._workspace, session))

    def _load(self, db: sqlite3.Connection, session: str) -> list[Todo]:
        query = "SELECT items FROM todos WHERE workspace=? AND session=?"
        row = db.execute(query, (self._workspace, session)).fetchone()
        items: list[list[Any]] = [] if row is None else json.loads(row[0])
        return [Todo(*item) for item in items]
