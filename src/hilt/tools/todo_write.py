"""Write the todo list of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.output import views
from hilt.params import Items
from hilt.schema import fields
from hilt.state.todos import CONTENT_CHARACTERS, TODOS_MAX, Todo, TodoStatus

ID_CHARACTERS = 64

_TODO = fields("id:string|integer content:string status:string")


class TodoChange(NamedTuple):
    """A new todo, or the new values of one.

    Args:
        id: Default: the next free number.
        content: What to do.
        status: Default: pending.
    """

    id: str | int | None = None
    content: str | None = None
    status: TodoStatus | None = None


@tool(
    effects="control",
    output=fields("todos:[todo]", todo=_TODO),
    traits=Traits(anywhere=True, plan=True, lasting="last"),
)
def todo_write(
    ctx: Context, todos: Annotated[list[TodoChange], Items(maximum=TODOS_MAX)], merge: bool = False
) -> Output:
    """Write the todo list of this session, to plan and track several steps.

    Only one todo may be in_progress. Returns the list.

    Details:
    Without merge, the list is replaced. With merge, todos with an existing id are updated, omitted fields keep their
    value, and other todos are appended; the order is kept. The ids 1 and "1" are the same. A call that would leave two
    todos in progress is rejected. A list has at most 200 todos of 1,000 characters and 64 KB in total. Control and
    invisible characters are removed. The list is kept until the session ends, at most 30 days after its last change.

    Args:
        todos: The whole list, or the changes to merge.
        merge: Update by id and append, instead of replacing the list.
    """
    changes = [_checked(index, todo) for index, todo in enumerate(todos)]
    result = ctx.todos.change(ctx.session, lambda old: _merged(old if merge else [], changes), commit=ctx.fence.commit)
    return Output(data={"todos": [todo._asdict() for todo in result]}, view=views.todo_list(result))


def _checked(index: int, todo: TodoChange) -> TodoChange:
    """Return a todo with clean texts, or raise."""
    id = _clean(todo.id) if isinstance(todo.id, str) else todo.id
    content = None if todo.content is None else _clean(todo.content)
    if id == "" or (isinstance(id, str) and len(id) > ID_CHARACTERS) or (isinstance(id, int) and abs(id) >= 2**53):
        raise _invalid(f"todos[{index}].id must have 1 to {ID_CHARACTERS} characters, or be an integer below 2^53.")
    if content is not None and not 0 < len(content) <= CONTENT_CHARACTERS:
        reason = "is empty" if not content else f"has {len(content)} characters; the limit is {CONTENT_CHARACTERS}"
        raise _invalid(f"todos[{index}].content {reason}.")
    return TodoChange(id, content, todo.status)


def _merged(old: Sequence[Todo], changes: Sequence[TodoChange]) -> list[Todo]:
    """Return the list after the changes; raise if it is invalid."""
    todos = {str(todo.id): todo for todo in old}
    changed_ids = [str(change.id) for change in changes if change.id is not None]
    duplicates = sorted({id for id in changed_ids if changed_ids.count(id) > 1})
    if duplicates:
        raise _invalid(f"The id {duplicates[0]!r} occurs more than once.")
    used_ids = {*todos, *changed_ids}
    number = 0
    for index, change in enumerate(changes):
        id = change.id
        if id is None:
            number = next(free for free in range(number + 1, len(used_ids) + 2) if str(free) not in used_ids)
            id = number
            used_ids.add(str(id))
        todo = todos.get(str(id))
        if todo is None and change.content is None:
            raise _invalid(f"todos[{index}] is new (id {id!r}) and has no content.")
        if todo is None:
            todo = Todo(id, "", "pending")
        todos[str(id)] = Todo(todo.id, change.content or todo.content, change.status or todo.status)
    active = [todo for todo in todos.values() if todo.status == "in_progress"]
    if len(active) > 1:
        ids = ", ".join(str(todo.id) for todo in active[:10])
        raise _invalid(f"{len(active)} todos would be in_progress (ids {ids}); at most one may be.")
    if len(todos) > TODOS_MAX:
        raise _invalid(f"The list would have {len(todos)} todos; the limit is {TODOS_MAX}.")
    return list(todos.values())


def _clean(text: str) -> str:
    if not text.isascii() or not text.isprintable():  # most texts save the import
        from hilt.formats.invisible import visible

        text = visible(text)
    return " ".join(text.split())


def _invalid(message: str) -> ToolError:
    return ToolError("invalid_args", message, suggestion="Nothing was changed; correct the list and send it again.")
