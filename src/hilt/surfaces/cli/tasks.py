"""`hilt tasks`: list, add and update the tasks of a workspace."""

from __future__ import annotations

import sys
from typing import Any

from hilt.call import Call, Result
from hilt.desk.tasks import STATUS
from hilt.output.terminal import inert
from hilt.runtime import Runtime
from hilt.surfaces import Usage
from hilt.surfaces.cli.call import show
from hilt.surfaces.cli.layout import print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import person
from hilt.surfaces.opening import open_runtime


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _list
    parser.details = """All agents of a workspace share one board of tasks. A task is ready when it is pending and
everything that blocks it is completed. Without a command, the tasks are listed."""
    listing = parser.command("list", "List the tasks", _list)
    for below in (parser, listing):
        below.add_argument("--ready", action="store_true", help="Only tasks that can be started")
        below.add_argument("--status", metavar="STATUS", choices=STATUS["enum"], help="Only tasks with this status")
        below.add_argument("--owner", metavar="NAME", help="Only tasks of this owner")
    adding = parser.command("add", "Add a task", _add)
    adding.add_argument("title", metavar="TITLE", help="What is to be done")
    showing = parser.command("show", "Show a task with its description", _show)
    updating = parser.command("update", "Change a task", _update)
    for below in (showing, updating):
        below.add_argument("id", metavar="ID", help="The id of the task")
    updating.add_argument("--status", metavar="STATUS", choices=STATUS["enum"], help="The new status")
    updating.add_argument("--title", metavar="TITLE", help="The new title")
    for below in (adding, updating):
        below.add_argument("--description", metavar="TEXT", help="Details for whoever works on it")
        below.add_argument("--owner", metavar="NAME", help="Who works on it")
        below.add_argument(
            "--blocked-by", metavar="IDS", help="The tasks to complete first, such as 1,2; none for none"
        )
    for below in (parser, listing, adding, showing, updating):
        below.add_argument("--json", action="store_true", help="Print JSON")
    updating.details = """Options that are not given keep their value. An update to in_progress claims the task for its
owner and fails if another owner has it; going back to pending releases it."""
    updating.examples = [
        ("hilt tasks update 2 --status in_progress --owner ann", "Claim a task"),
        ("hilt tasks update 2 --status completed", "Complete it; tasks that became ready are listed"),
        ("hilt tasks update 3 --blocked-by none", "Remove what blocks a task"),
    ]
    parser.examples = [
        ("hilt tasks", "List the tasks"),
        ("hilt tasks list --ready", "List what can be started"),
        ("hilt tasks add 'Write the tests' --blocked-by 1", "Add a task that waits for another"),
        ("hilt tasks show 2", "Show a task"),
    ]


def _list(options: Options, arguments: Namespace) -> int:
    args = {"action": "list", "status": arguments.status, "owner": arguments.owner, "ready": arguments.ready}
    with open_runtime(options, **person()) as runtime:
        result = _call(runtime, args)
        tasks = list(result.data["tasks"]) if result.ok else []
        rows = list(result.view["rows"]) if result.view is not None else []
        while result.ok and "next" in result.data:
            result = _call(runtime, result.data["next"]["args"])
            if result.ok and result.view is not None:
                tasks += result.data["tasks"]
                rows += result.view["rows"]
    if not result.ok or result.view is None:
        return show(result, raw=False)
    if arguments.json:
        return print_json({"tasks": tasks})
    if not tasks:
        sys.stdout.write("There are no tasks. To add one: hilt tasks add TITLE\n")
        return 0
    return show(result._replace(view={**result.view, "rows": rows, "totalRows": len(rows)}), raw=False)


def _add(options: Options, arguments: Namespace) -> int:
    return _change(options, arguments, {"action": "create", "title": arguments.title})


def _update(options: Options, arguments: Namespace) -> int:
    args = {"action": "update", "taskId": arguments.id, "title": arguments.title, "status": arguments.status}
    if all(value is None for value in (*_fields(arguments).values(), arguments.title, arguments.status)):
        raise Usage("nothing to change: pass --status, --owner, --title, --description or --blocked-by")
    return _change(options, arguments, args)


def _show(options: Options, arguments: Namespace) -> int:
    with open_runtime(options, **person()) as runtime:
        result = _call(runtime, {"action": "get", "taskId": arguments.id})
    status = _printed(result, as_json=arguments.json)
    if result.ok and not arguments.json and "description" in result.data["task"]:
        sys.stdout.write(f"\n{inert(result.data['task']['description'])}\n")
    return status


def _change(options: Options, arguments: Namespace, args: dict[str, Any]) -> int:
    with open_runtime(options, **person()) as runtime:
        result = _call(runtime, {**args, **_fields(arguments)})
    return _printed(result, as_json=arguments.json)


def _fields(arguments: Namespace) -> dict[str, Any]:
    blockers: str | None = arguments.blocked_by
    words = [] if blockers in (None, "", "none") else [word.strip() for word in str(blockers).split(",")]
    return {
        "description": arguments.description,
        "owner": arguments.owner,
        "blockedBy": None if blockers is None else words,
    }


def _call(runtime: Runtime, args: dict[str, Any]) -> Result:
    return runtime.request(Call("task", args, dialect="jinn"))


def _printed(result: Result, *, as_json: bool) -> int:
    return print_json(result.data) if as_json and result.ok else show(result, raw=False)
