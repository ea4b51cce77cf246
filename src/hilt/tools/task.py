"""Manage the tasks of a workspace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError, missing_argument
from hilt.formats.times import rfc3339
from hilt.output import views
from hilt.params import Items
from hilt.schema import fields, quoted
from hilt.state.board import BLOCKERS_MAX, LARGEST_ID, OWNER_CHARACTERS, Status, Task, TaskChange

PAGE = 100  # tasks of one list

_DIGITS = re.compile("[0-9]{1,19}")

_LISTED = "id:integer title:string status:string ready:boolean blockedBy:[integer] owner?:string"
_TASK = fields(f"{_LISTED} description?:string created:string updated:string")
_BRIEF = fields("id:integer title:string")
_ANSWER = {
    "type": "object",
    "anyOf": [
        fields("task:task became_ready?:[brief]", task=_TASK, brief=_BRIEF),
        fields("tasks:[task] total_count:integer truncated:boolean next?:next", task=fields(_LISTED)),
    ],
}


@tool(effects="control", output=_ANSWER, traits=Traits(plan=True))
def task(
    ctx: Context,
    action: Literal["create", "get", "list", "update"],
    title: str | None = None,
    description: str | None = None,
    taskId: int | str | None = None,  # named as in j-cli, like blockedBy
    status: Status | None = None,
    blockedBy: Annotated[list[int | str], Items(maximum=BLOCKERS_MAX)] | None = None,
    ready: bool = False,
    owner: str | None = None,
) -> Output:
    """Manage the task board that all agents of this workspace share.

    To claim one, update it to in_progress with your name as owner; busy means that another agent has it.

    Details:
    Returns JSON: task, or for list tasks, total_count and truncated, with next, the call for the next page. A task has
    id, title, status, ready, blockedBy and if set owner and description. It is ready if it is pending and everything in
    blockedBy is completed. An update to completed also returns became_ready, the tasks that waited only for this one.
    Any status may follow any other. A claim without an owner is made in the name of the session. A pending task that
    has an owner is reserved for them, and a completed one must be set to pending before another agent can claim it;
    setting a task to pending releases it. An update with another owner and no status hands the task over. Cycles,
    unknown blockers, empty titles and unknown states are rejected. Ids count from 1 and are never reused. The
    board keeps up to 1,000 open tasks and the last 1,000 completed ones. Control and invisible characters are removed.

    Args:
        action: create needs title; get and update need taskId.
        title: Up to 200 characters.
        description: Up to 8,000 characters.
        taskId: Task id; list starts from it.
        status: New status, or list filter.
        blockedBy: Ids of all tasks to complete first.
        ready: List only tasks that can be started.
        owner: Who works on it, or list filter.
    """
    board = ctx.board
    first = None if taskId is None else _id("taskId", taskId)
    if action == "list":
        owner = None if owner is None else _line(owner)
        page = board.page(ready=ready, status=status, owner=owner, first=first or 1, limit=PAGE)
        data: dict[str, Any] = {
            "tasks": [_listed(item) for item in page.tasks],
            "total_count": page.total,
            "truncated": len(page.tasks) < page.total,
        }
        if data["truncated"]:
            args = {"action": "list", "taskId": page.tasks[-1].id + 1, "status": status, "ready": ready, "owner": owner}
            data["next"] = {"tool": "task", "args": {name: value for name, value in args.items() if value}}
        return Output(data=data, view=_table(page.tasks, page.total))
    if action == "create" and not title:
        raise missing_argument(action, "title")
    if action != "create" and first is None:
        raise missing_argument(action, "taskId")
    if action == "get":
        item = board.get(first or 0)
        return Output(data={"task": _full(item)}, view=_table([item], 1))
    change = TaskChange(
        None if title is None else _line(title),
        None if description is None else _visible(description).strip(),
        status,
        None if owner is None else _line(owner),
        None if blockedBy is None else tuple(_id("blockedBy", id) for id in blockedBy),
    )
    session = _line(ctx.session)[:OWNER_CHARACTERS]
    if action == "create":
        created = board.create(change, session, commit=ctx.fence.commit)
        return Output(data={"task": _full(created)}, view=_table([created], 1))
    if change == TaskChange():
        advice = "Send status, owner, title, description or blockedBy."
        raise ToolError("invalid_args", "update changes nothing.", suggestion=advice)
    updated, became_ready = board.update(first or 0, change, session, commit=ctx.fence.commit)
    data = {"task": _full(updated)}
    if change.status == "completed":
        data["became_ready"] = [{"id": item.id, "title": item.title} for item in became_ready]
    return Output(data=data, view=_table([updated, *became_ready], 1 + len(became_ready)))


def _id(name: str, value: int | str) -> int:
    """Return the id of a task; "1" is the same as 1."""
    digits = value.strip() if isinstance(value, str) else ""
    number = value if isinstance(value, int) else int(digits) if _DIGITS.fullmatch(digits) else 0
    if 0 < number <= LARGEST_ID:
        return number
    advice = 'Use an id from action "list", such as 1.'
    raise ToolError("invalid_args", f"{name} is not the id of a task: {quoted(value)}.", suggestion=advice)


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text  # saves an import
    from hilt.formats.invisible import visible

    return visible(text)


def _line(text: str) -> str:
    return " ".join(_visible(text).split())


def _listed(item: Task) -> dict[str, Any]:
    data: dict[str, Any] = {"id": item.id, "title": item.title, "status": item.status, "ready": item.is_ready}
    data["blockedBy"] = list(item.blockers)
    return {**data, "owner": item.owner} if item.owner else data


def _full(item: Task) -> dict[str, Any]:
    text = {"description": item.description} if item.description else {}
    return {**_listed(item), **text, "created": rfc3339(item.created), "updated": rfc3339(item.updated)}


_COLUMNS = {"id": "Task", "status": "Status", "owner": "Owner", "blocked": "Blocked by", "title": "Title"}


def _table(items: Sequence[Task], total: int) -> dict[str, Any]:
    rows = [
        {
            "id": item.id,
            "status": "ready" if item.is_ready else item.status,
            "owner": item.owner,
            "blocked": ", ".join(map(str, item.blockers)),
            "title": item.title,
        }
        for item in items
    ]
    return views.table(_COLUMNS, rows, total)
