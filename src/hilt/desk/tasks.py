"""The tasks of a workspace: list them, add one, change one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from hilt.formats.invisible import SOMETHING_VISIBLE, visible
from hilt.formats.times import Moment
from hilt.schema import Schema
from hilt.state import board
from hilt.state.board import LARGEST_ID, Status, TaskChange

if TYPE_CHECKING:
    from hilt.runtime import Runtime

STATUS: Schema = {"type": "string", "enum": list(get_args(Status))}
# what a person can set
FIELDS: dict[str, Schema] = {
    "title": {"type": "string", "minLength": 1, "maxLength": board.TITLE_CHARACTERS, "pattern": SOMETHING_VISIBLE},
    "description": {"type": "string", "maxLength": board.DESCRIPTION_CHARACTERS},
    "status": STATUS,
    "owner": {"type": "string", "maxLength": board.OWNER_CHARACTERS},
    "blockedBy": {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": LARGEST_ID},
        "maxItems": board.BLOCKERS_MAX,
    },
}


class ListedTask(NamedTuple):
    """One task. It is ready if it is pending and the tasks that block it are completed."""

    id: int
    title: str
    description: str
    status: Status
    owner: str  # "" for nobody
    ready: bool
    blockedBy: tuple[int, ...]  # as in the tool's arguments
    created: Moment
    updated: Moment


def newest(runtime: Runtime, status: Status | None = None) -> list[ListedTask]:
    """Return the tasks, of one status if given, the newest first."""
    tasks = runtime.parts.board.page(status=status, first=1, limit=LARGEST_ID).tasks
    return list(map(_task, reversed(tasks)))


def add(runtime: Runtime, fields: Mapping[str, Any], session: str) -> ListedTask:
    """Add a task with these valid fields."""
    return _task(runtime.parts.board.create(_change(fields), session, commit=_no_commit))


def change(runtime: Runtime, id: int, fields: Mapping[str, Any], session: str) -> ListedTask:
    """Change these valid fields of a task; raise if there is none with this id."""
    return _task(runtime.parts.board.update(id, _change(fields), session, commit=_no_commit).task)


def parse_id(text: str) -> int | None:
    """Return the id of a task in a text; None if it cannot be one."""
    is_id = text.isascii() and text.isdecimal() and 0 < len(text) < 20 and 0 < int(text) <= LARGEST_ID
    return int(text) if is_id else None


def _change(fields: Mapping[str, Any]) -> TaskChange:
    texts = {name: " ".join(visible(fields[name]).split()) for name in ("title", "owner") if name in fields}
    if "description" in fields:
        texts["description"] = visible(fields["description"]).strip()
    blockers = tuple(map(int, fields["blockedBy"])) if "blockedBy" in fields else None
    return TaskChange(**texts, status=fields.get("status"), blockers=blockers)


def _task(task: board.Task) -> ListedTask:
    return ListedTask(
        id=task.id,
        title=task.title,
        description=task.description,
        status=task.status,
        owner=task.owner,
        ready=task.is_ready,
        blockedBy=task.blockers,
        created=Moment(task.created),
        updated=Moment(task.updated),
    )


def _no_commit() -> None:
    return None
