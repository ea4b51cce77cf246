"""Read the todo list of a session."""

from __future__ import annotations

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.output import views
from hilt.schema import fields

_TODO = fields("id:string|integer content:string status:string")


@tool(effects="read", output=fields("todos:[todo]", todo=_TODO), traits=Traits(anywhere=True, lasting="last"))
def todo_read(ctx: Context) -> Output:
    """Read the todo list of this session: id, content and status of every item."""
    todos = ctx.todos.read(ctx.session)
    return Output(data={"todos": [todo._asdict() for todo in todos]}, view=views.todo_list(todos))
