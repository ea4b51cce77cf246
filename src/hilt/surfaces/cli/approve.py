"""`hilt approve` and `hilt deny`: list calls that wait for approval, and answer them."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Literal

from hilt import places
from hilt.call import UserAnswer
from hilt.desk import approvals
from hilt.desk.approvals import Approval
from hilt.desk.audit import workspace_id
from hilt.errors import ToolError
from hilt.formats.invisible import one_line
from hilt.formats.times import duration_seconds
from hilt.surfaces import Usage
from hilt.surfaces.cli.layout import local_time
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import for_person, run_for_person
from hilt.surfaces.terminal_prompt import BY, Terminal, prompt

_SECOND = 1_000_000_000
_LONGEST_SECONDS = 9999 * 86_400
_COMMAND_MAX = 200
_VALUE_MAX = 40


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Without ID, pending calls are listed; --workspace DIR lists those of one folder. Requires a
person at a terminal: no tool can approve its own calls."""
    parser.add_argument("id", metavar="ID", nargs="?", help="The id of the approval; any unique prefix works")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--once", dest="kind", action="store_const", const="once", help="Allow this one call")
    answer.add_argument("--always", dest="kind", action="store_const", const="always", help="Allow all calls like it")
    span = "Allow all calls like it for this time, such as 30m, 8h or 7d"
    parser.add_argument("--for", dest="seconds", metavar="TIME", type=_seconds, help=span)
    show = parser.command("show", "Show a pending call in full, without answering it", _show)
    show.add_argument("id", metavar="ID", help="The id of the approval; any unique prefix works")
    show.examples = [("hilt approve show 4c1e", "Show the whole call")]
    parser.examples = [
        ("hilt approve", "List pending calls"),
        ("hilt approve 4c1e", "Show one, and prompt for an answer"),
        ("hilt approve 4c1e --for 8h", "Allow this call and calls like it for eight hours"),
    ]


def build_deny(parser: Parser) -> None:
    """Declare the arguments of `hilt deny`."""
    parser.run = _deny
    parser.details = "Also revokes an approval that was given and not used yet. Requires a person at a terminal."
    parser.add_argument("id", metavar="ID", help="The id of the approval; any unique prefix works")
    parser.add_argument("--reason", metavar="TEXT", default="", help="The reason to give the agent")
    parser.examples = [("hilt deny 4c1e --reason 'use the staging database'", "Deny a call with a reason")]


def _run(options: Options, arguments: Namespace) -> int:
    id, kind = arguments.id, arguments.kind
    if arguments.seconds is not None:
        if id is None or kind == "once":
            raise Usage("--for needs the id of an approval, and cannot be used with --once")
        kind = "always"
    if id is None and kind is not None:
        raise Usage(f"--{kind} needs the id of an approval")
    return run_for_person("approve", lambda screen: _approve(screen, options, id, kind, arguments.seconds))


def _approve(
    screen: Terminal, options: Options, id: str | None, kind: Literal["once", "always"] | None, seconds: int | None
) -> int:
    state = places.state_dir(os.environ)
    if id is None:
        workspace = workspace_id(options["workspace"]) if "workspace" in options else None
        return _list_pending(screen, approvals.pending(state, workspace))
    approval = _pending(state, id)
    return _settle(state, approval, _choose(screen, approval, kind), seconds)


@for_person("approve")
def _show(screen: Terminal, options: Options, arguments: Namespace) -> int:
    approval = approvals.find(places.state_dir(os.environ), arguments.id)
    sys.stdout.write(screen.page().draw(approval.asked, whole=True))
    return 0


def _seconds(value: str) -> int:
    seconds = duration_seconds(value)
    if not seconds or seconds > _LONGEST_SECONDS:
        raise Usage(f"--for needs a time such as 30m, 8h or 7d, not {value!r}")
    return seconds


def _pending(state: str, id: str) -> Approval:
    approval = approvals.find(state, id)
    if approval.state == "pending":
        return approval
    raise ToolError(
        "not_found",
        f"The approval {approval.id} is not pending: it is {approval.state}.",
        suggestion=f"To list pending approvals: {places.command('approve')}",
    )


def _choose(screen: Terminal, approval: Approval, kind: Literal["once", "always"] | None) -> UserAnswer:
    if kind is None:
        try:
            return prompt(approval.asked, screen)
        except KeyboardInterrupt:
            screen.write("Interrupted; the call was not answered.\n")
            raise
    sys.stdout.write(screen.page().draw(approval.asked, whole=True))
    return UserAnswer(kind, by=BY)


def _settle(state: str, approval: Approval, answer: UserAnswer, seconds: int | None) -> int:
    settled = approvals.answer(state, approval.id, answer, seconds=seconds, revokes=True)
    if answer.kind == "preview":
        sys.stdout.write(
            "The call shows a preview and prompts again. If it no longer waits, it does so when repeated.\n"
        )
        return 0
    if answer.kind == "deny":
        sys.stdout.write("Denied.\n")
        return 1
    until = time.strftime("%H:%M", time.localtime(settled.expires_at // _SECOND))
    sys.stdout.write(f"Approved for one call, until {until}. To revoke: {places.command('deny', settled.id)}\n")
    if answer.kind == "always":
        expires = time.time_ns() + (seconds or 0) * _SECOND
        for rule in approval.asked.rules:
            span = "Always allowed here" if seconds is None else f"Allowed here until {local_time(expires)}"
            sys.stdout.write(f"{span}: {one_line(rule)}\n")
        sys.stdout.write(f"To list and revoke such grants: {places.command('grants')}\n")
    return 0


@for_person("deny")
def _deny(_: Terminal, options: Options, arguments: Namespace) -> int:
    state = places.state_dir(os.environ)
    before = approvals.find(state, arguments.id)
    approvals.answer(state, before.id, UserAnswer("deny", arguments.reason, BY), revokes=True)
    sys.stdout.write(f"Denied: {one_line(before.asked.tool)}, {_summary(before)}\n")
    if before.state == "approved":
        sys.stdout.write(f"It was approved before. To review the grants stored with it: {places.command('grants')}\n")
    return 0


def _list_pending(screen: Terminal, pending: list[Approval]) -> int:
    if not pending:
        sys.stdout.write("No calls are waiting for approval. What was asked before: hilt log\n")
        return 0
    page = screen.page()
    for approval in pending:
        asked = approval.asked
        seconds_left = max(0, approval.expires_at - time.time_ns()) // _SECOND
        where = one_line(f"{asked.workspace or approval.workspace}, session {approval.session}")
        sys.stdout.write(f"{approval.id}  {one_line(asked.tool)}  ({_span(seconds_left)} left)  {where}\n")
        sys.stdout.write(page.text(_summary(approval), whole=True))
        sys.stdout.write(f"  why: {one_line(asked.reason)}\n")
    sys.stdout.write(f"\nTo answer: {places.command('approve', 'ID')}. To deny: hilt deny ID [--reason TEXT]\n")
    return 0


def _summary(approval: Approval) -> str:
    """Return the command or the arguments of a call on one short line."""
    asked = approval.asked
    if asked.command:
        return _short(asked.command, _COMMAND_MAX)
    texts = [
        f"{one_line(name)}: {_short(value if isinstance(value, str) else json.dumps(value), _VALUE_MAX)}"
        for name, value in asked.arguments.items()
    ]
    return _short(", ".join(texts), _COMMAND_MAX) or "no arguments"


def _short(text: str, limit: int) -> str:
    line = one_line(text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _span(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
