"""The task board of a workspace: one for all sessions, agents and processes, in state.db.

Every change is one transaction, so that only one of two agents gets a task that both claim, and blockers can never
form a cycle. Ids count from 1 and are never reused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from hilt.errors import ToolError
from hilt.state.tables import open_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

Status = Literal["pending", "in_progress", "completed"]

TITLE_CHARACTERS = 200
DESCRIPTION_CHARACTERS = 8_000
OWNER_CHARACTERS = 100
BLOCKERS_MAX = 50  # of one task
OPEN_MAX = 1_000  # tasks that are not completed
COMPLETED_KEPT = 1_000  # older completed tasks are removed
LARGEST_ID = 2**63 - 1  # the largest integer in SQLite

_SHOWN_MAX = 10  # ids in a message

_COLUMNS = "id, title, description, status, owner, created, updated"
_READY = (
    "status='pending' AND NOT EXISTS (SELECT 1 FROM task_blockers AS edge JOIN tasks AS blocker "
    "ON blocker.workspace=edge.workspace AND blocker.id=edge.blocker "
    "WHERE edge.workspace=tasks.workspace AND edge.task=tasks.id AND blocker.status<>'completed')"
)


class Task(NamedTuple):
    """One task; times in nanoseconds since 1970. It is ready if it is pending and its blockers are completed."""

    id: int
    title: str
    description: str
    status: Status
    owner: str  # "" for nobody
    created: int
    updated: int
    is_ready: bool
    blockers: tuple[int, ...]


class TaskChange(NamedTuple):
    """New values for a task; None keeps the current one."""

    title: str | None = None
    description: str | None = None
    status: Status | None = None
    owner: str | None = None
    blockers: tuple[int, ...] | None = None


class TaskPage(NamedTuple):
    """One page of the matching tasks, by id, and how many match from its first id on."""

    tasks: list[Task]
    total: int


class TaskUpdate(NamedTuple):
    """A task after a change, and the tasks that the change made ready."""

    task: Task
    became_ready: list[Task]


class Board:
    """The tasks of one workspace."""

    def __init__(self, directory: str, workspace: str) -> None:
        self._db = open_state(directory)
        self.close = self._db.close
        self._workspace = workspace

    def create(self, change: TaskChange, session: str, *, commit: Callable[[], None]) -> Task:
        """Add a task; `commit` is called last and may raise to prevent it."""
        title = _checked(change).title or ""

        def work(db: sqlite3.Connection) -> Task:
            workspace, now = self._workspace, time.time_ns()
            db.execute(
                "INSERT INTO boards VALUES (?, 1) ON CONFLICT (workspace) DO UPDATE SET last=last+1", (workspace,)
            )
            (id,) = db.execute("SELECT last FROM boards WHERE workspace=?", (workspace,)).fetchone()
            if id in (change.blockers or ()):
                raise _missing([id])
            row = (workspace, id, "pending", "", now, now, title, "")
            db.execute("INSERT INTO tasks VALUES (?,?,?,?,?,?,?,?)", row)
            task = self._apply(db, self._get(db, id), change, session, now)
            commit()
            return task

        return self._db.write(work)

    def get(self, id: int) -> Task:
        """Return a task."""
        if not self._db.exists():
            raise _missing([id])
        return self._db.read(lambda db: self._get(db, id))

    def page(
        self, *, ready: bool = False, status: Status | None = None, owner: str | None = None, first: int, limit: int
    ) -> TaskPage:
        """Return the matching tasks whose id is at least `first`."""
        if not self._db.exists():
            return TaskPage([], 0)
        condition = "id>=?"
        filters: list[object] = [min(first, LARGEST_ID)]
        if status is not None:
            condition += " AND status=?"
            filters.append(status)
        if owner is not None:
            condition += " AND owner=?"
            filters.append(owner)
        if ready:
            condition += f" AND {_READY}"

        def work(db: sqlite3.Connection) -> TaskPage:
            tasks = self._select(db, f"{condition} ORDER BY id LIMIT ?", [*filters, limit])
            count = f"SELECT count(*) FROM tasks WHERE workspace=? AND {condition}"  # noqa: S608  # constants only
            return TaskPage(tasks, int(db.execute(count, (self._workspace, *filters)).fetchone()[0]))

        return self._db.read(work)

    def update(self, id: int, change: TaskChange, session: str, *, commit: Callable[[], None]) -> TaskUpdate:
        """Change a task. Claiming one that has another owner is an error; without an owner, the session claims it."""
        _checked(change)

        def work(db: sqlite3.Connection) -> TaskUpdate:
            before = self._get(db, id)
            task = self._apply(db, before, change, session, time.time_ns())
            became_ready: list[Task] = []
            if task.status == "completed" and before.status != "completed":
                blocked = "SELECT task FROM task_blockers WHERE workspace=? AND blocker=?"
                condition = f"id IN ({blocked}) AND {_READY} ORDER BY id"
                became_ready = self._select(db, condition, [self._workspace, id])
                self._remove_oldest(db)
            commit()
            return TaskUpdate(task, became_ready)

        return self._db.write(work)

    # --- inside a transaction -------------------------------------------------------------------------------------

    def _apply(self, db: sqlite3.Connection, task: Task, change: TaskChange, session: str, now: int) -> Task:
        owner = _owner_after(task, change, session)
        status = change.status or task.status
        if change.blockers is not None:
            self._block(db, task.id, dict.fromkeys(change.blockers))
        db.execute(
            "UPDATE tasks SET title=?, description=?, status=?, owner=?, updated=? WHERE workspace=? AND id=?",
            (
                task.title if change.title is None else change.title,
                task.description if change.description is None else change.description,
                *(status, owner, now, self._workspace, task.id),
            ),
        )
        count = "SELECT count(*) FROM tasks WHERE workspace=? AND status<>'completed'"
        if status != "completed" and db.execute(count, (self._workspace,)).fetchone()[0] > OPEN_MAX:
            raise ToolError(
                "limit_exceeded",
                f"The board already has {OPEN_MAX} open tasks.",
                suggestion="Complete some of them first.",
                limit=OPEN_MAX,
            )
        return self._get(db, task.id)

    def _block(self, db: sqlite3.Connection, id: int, blockers: Iterable[int]) -> None:
        """Replace the blockers of a task; raise if one is missing or waits for the task itself."""
        workspace = self._workspace
        existing = {existing for (existing,) in db.execute("SELECT id FROM tasks WHERE workspace=?", (workspace,))}
        missing = [blocker for blocker in blockers if blocker not in existing]
        if missing:
            raise _missing(missing)
        db.execute("DELETE FROM task_blockers WHERE workspace=? AND task=?", (workspace, id))
        edges: dict[int, list[int]] = {}
        for task, blocker in db.execute("SELECT task, blocker FROM task_blockers WHERE workspace=?", (workspace,)):
            edges.setdefault(task, []).append(blocker)
        cycle = _cycle(edges, id, blockers)
        if cycle is not None:
            path = " → ".join(map(str, cycle if len(cycle) <= _SHOWN_MAX else [*cycle[: _SHOWN_MAX - 1], "…", id]))
            raise ToolError(
                "invalid_args",
                f"Task {id} cannot wait for task {cycle[1]}: the blockers would form the cycle {path}.",
                suggestion="Remove one of these blockers.",
                cycle=cycle,
            )
        db.executemany("INSERT INTO task_blockers VALUES (?,?,?)", [(workspace, id, blocker) for blocker in blockers])

    def _remove_oldest(self, db: sqlite3.Connection) -> None:
        """Remove the oldest completed tasks beyond COMPLETED_KEPT; no task waits for them."""
        workspace = self._workspace
        query = (
            "SELECT id FROM tasks WHERE workspace=? AND status='completed' "
            "ORDER BY updated DESC, id DESC LIMIT -1 OFFSET ?"
        )
        for (id,) in db.execute(query, (workspace, COMPLETED_KEPT)).fetchall():
            db.execute("DELETE FROM tasks WHERE workspace=? AND id=?", (workspace, id))
            db.execute("DELETE FROM task_blockers WHERE workspace=? AND (task=? OR blocker=?)", (workspace, id, id))

    def _get(self, db: sqlite3.Connection, id: int) -> Task:
        tasks = self._select(db, "id=?", [id]) if 0 < id <= LARGEST_ID else []
        if not tasks:
            raise _missing([id])
        return tasks[0]

    def _select(self, db: sqlite3.Connection, condition: str, values: Sequence[object]) -> list[Task]:
        query = f"SELECT {_COLUMNS}, {_READY} FROM tasks WHERE workspace=? AND {condition}"  # noqa: S608  # constants only
        rows = db.execute(query, (self._workspace, *values)).fetchall()
        edges = "SELECT blocker FROM task_blockers WHERE workspace=? AND task=? ORDER BY blocker"
        tasks: list[Task] = []
        for id, title, description, status, owner, created, updated, ready in rows:
            blockers = tuple(blocker for (blocker,) in db.execute(edges, (self._workspace, id)))
            tasks.append(Task(id, title, description, status, owner, created, updated, bool(ready), blockers))
        return tasks


def _checked(change: TaskChange) -> TaskChange:
    """Return the change; raise if the title is empty or a text is too long."""
    limits = {"title": TITLE_CHARACTERS, "description": DESCRIPTION_CHARACTERS, "owner": OWNER_CHARACTERS}
    for name, limit in limits.items():
        size = len(getattr(change, name) or "")
        if size > limit:
            raise ToolError(
                "invalid_args",
                f"{name} has {size} characters; the limit is {limit}.",
                suggestion="Shorten it; write long text to a file and mention its path.",
                limit=limit,
            )
    if change.title == "":
        raise ToolError("invalid_args", "title is empty.", suggestion="Describe the task in a few words.")
    return change


def _owner_after(task: Task, change: TaskChange, session: str) -> str:
    """Return the owner of a task after a change; raise if another owner has it."""
    if change.status == "pending" and task.status != "pending":
        return change.owner or ""  # released, or reserved for another owner
    if change.status is None or change.status == "pending":
        return task.owner if change.owner is None else change.owner
    owner = change.owner or ""
    if change.status == "in_progress":
        # a pending task with an owner is reserved for them
        owner = owner or (task.owner if task.status == "pending" else "") or session
    # completed tasks count too: an agent with an old list must not do the work again
    is_claimed = change.status == "in_progress" or task.status == "in_progress"
    if is_claimed and owner and task.owner not in ("", owner):
        again = "; to do it again, set it to pending first" if task.status == "completed" else ""
        raise ToolError(
            "busy",
            f"Task {task.id} is {_CLAIMED[task.status]}; its owner is {task.owner}.",
            suggestion=f'Choose another task: action "list" with ready true{again}.',
            id=task.id,
            owner=task.owner,
        )
    return owner or task.owner


_CLAIMED = {"pending": "reserved", "in_progress": "in progress", "completed": "completed"}


def _cycle(edges: dict[int, list[int]], id: int, blockers: Iterable[int]) -> list[int] | None:
    """Return the shortest path from a task through these blockers back to it, or None."""
    waits_for: dict[int, int] = {}  # each task reached, and the task that waits for it
    queue = [(blocker, id) for blocker in blockers]
    for reached, waiting in queue:
        if reached == id:
            path = [id]
            while waiting != id:
                path.append(waiting)
                waiting = waits_for[waiting]
            return [id, *path[:0:-1], id]
        if reached not in waits_for:
            waits_for[reached] = waiting
            queue += [(blocker, reached) for blocker in edges.get(reached, ())]
    return None


def _missing(ids: Sequence[int]) -> ToolError:
    listed = ", ".join(str(id) for id in ids[:_SHOWN_MAX])
    message = f"There is no task {listed}." if len(ids) == 1 else f"There are no tasks {listed}."
    return ToolError("not_found", message, suggestion='Use an id from action "list".', ids=list(ids[:_SHOWN_MAX]))
