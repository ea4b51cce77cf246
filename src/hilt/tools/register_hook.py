"""Register, list and remove the hooks of a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from hilt.call import Output, Touch
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import missing_argument
from hilt.output import views
from hilt.params import Bounds, Count
from hilt.policy.hook_protocol import EVENTS, LONGEST_SECONDS, SECONDS
from hilt.schema import TEXT, Schema, fields

_HELP = """\
A hook is a command that runs at an event, in the workspace, as bash -c COMMAND.

It reads one JSON object on standard input:
  event      name of the event
  session    id of the session
  tool       name of the tool (events of calls)
  arguments  arguments, validated, with defaults filled in; or the data about to be sent
  touches    what the call touches: [{"effect": "write", "target": "src/a.py"}]
  result     result, as text or JSON (after success)
  error      {"code", "message"} (after failure)

It prints nothing, or one JSON object with any of:
  decision   allow: no objection; never overrides a rule, a mode or another hook
             ask: prompt the user; deny: block the call, or withhold the result
             skip: do not run the call, and return result instead; stop: block the call and end the agent
  reason     why, for the model and the user
  context    text for the model, added to the result
  arguments  new arguments, which are validated and decided on again
  result     new result

Exit status 2 means deny, with standard error as the reason. Any other non-zero status, a signal, a timeout or invalid
output is a failure of the hook: on_failure decides whether that blocks the call or is ignored.

Hooks run in the order personal, project, session. Each of the three numbers its hooks of an event from 0. Session hooks
run in the sandbox, with no network unless commands have it; they end with the session.

Event: its decisions; what can be changed; default of on_failure
"""


def _touches(args: dict[str, Any]) -> Iterator[Touch]:
    if args["action"] == "register" and args.get("command"):
        # it runs later, but the prompt must show the command and its risk
        yield Touch("execute", args["command"])


_REMOVED = fields("event:string index:integer match?:string command:string timeout?:number on_failure?:string")
_LISTED = fields(
    "source:string event:string index:integer match?:string command:string timeout:number on_failure:string "
    "file?:string"
)
_ANSWER: Schema = {
    "type": "object",
    "anyOf": [
        fields("event:string index:integer"),
        fields("removed:hook", hook=_REMOVED),
        fields("hooks:[hook] count:integer problems?:[string] notes?:[string]", hook=_LISTED),
    ],
    TEXT: True,
}


@tool(
    effects="control",
    touches=_touches,
    output=_ANSWER,
    traits=Traits(approval="always", no_approval_actions=frozenset({"list", "help"}), unhooked=True),
)
def register_hook(
    ctx: Context,
    action: Literal["register", "list", "remove", "help"],
    event: str | None = None,
    command: str | None = None,
    match: str | None = None,
    timeout: Annotated[float, Bounds(minimum=0.1, maximum=LONGEST_SECONDS)] = SECONDS,
    on_failure: Literal["block", "ignore"] | None = None,
    index: Count | None = None,
) -> Output:
    """Manage hooks of this session: commands that run at an event and may block or change it.

    The user is asked first. help: the protocol.

    Details:
    register returns JSON: event, index. list returns hooks, including those of the user and the project. A hook takes
    effect with the next call.

    Args:
        action: register needs event and command; remove needs event and index.
        event: Event name, such as pre_tool_execution.
        command: Shell command to run, sandboxed.
        match: Only matching calls: write_file, Write(path:src/**), Bash(git push:*).
        timeout: Seconds until the hook fails.
        on_failure: If the hook fails. Default: block before a call, ignore after.
        index: Hook to remove, counted from 0 for each event.
    """
    if action == "help":
        return Output(_HELP + "".join(f"  {_line(name)}\n" for name in EVENTS), view=views.none("The hook protocol"))
    if action == "list":
        return _list(ctx)
    if event is None:
        raise missing_argument(action, "event")
    if action == "remove":
        if index is None:
            raise missing_argument(action, "index")
        removed = ctx.hooks.remove(event, index, ctx.fence.commit)
        return _output(f"removed: {event} {index}", {"removed": {"event": event, "index": index, **removed}})
    if command is None:
        raise missing_argument(action, "command")
    fields = {"event": event, "match": match, "command": command, "timeout": timeout, "on_failure": on_failure}
    entry = {name: value for name, value in fields.items() if value is not None}
    hook = ctx.hooks.register(entry, ctx.fence.commit)
    return _output(f"registered: {event} {hook.number}", {"event": event, "index": hook.number})


def _list(ctx: Context) -> Output:
    registry = ctx.hooks
    hooks = [
        {"source": hook.source, "index": hook.number, **hook.as_dict(), **({"file": hook.file} if hook.file else {})}
        for hook in registry.hooks
    ]
    data: dict[str, Any] = {"hooks": hooks, "count": len(hooks)}
    if registry.problems:
        data["problems"] = [problem.reason for problem in registry.problems]
    if registry.notes:
        data["notes"] = list(registry.notes)
    columns = {name: name.capitalize() for name in ("source", "event", "index", "match", "command")}
    return Output(data=data, view=views.table(columns, hooks))


def _output(text: str, data: dict[str, Any]) -> Output:
    return Output(data=data, view=views.none(text))


def _line(name: str) -> str:
    moment = EVENTS[name]
    return f"{name}: {', '.join(moment.decisions)}; {', '.join(moment.changes) or 'nothing'}; {moment.on_failure}"
