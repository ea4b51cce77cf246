"""`hilt deny ID`: deny a call that waits for approval, or that was approved and has not run yet."""

from __future__ import annotations

import os
import sys

from hilt import places
from hilt.call import UserAnswer
from hilt.desk import approvals
from hilt.formats.invisible import one_line
from hilt.surfaces.cli.approve import summary
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import run_for_person
from hilt.surfaces.terminal_prompt import BY


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = "Also revokes an approval that was given and not used yet. Requires a person at a terminal."
    parser.add_argument("id", metavar="ID", help="The id of the approval; any unique prefix works")
    parser.add_argument("--reason", metavar="TEXT", default="", help="The reason to give the agent")
    parser.examples = [("hilt deny 4c1e --reason 'use the staging database'", "Deny a call with a reason")]


def _run(options: Options, arguments: Namespace) -> int:
    return run_for_person("deny", lambda _: _deny(arguments.id, arguments.reason))


def _deny(id: str, reason: str) -> int:
    state = places.state_dir(os.environ)
    before = approvals.find(state, id)
    approvals.answer(state, before.id, UserAnswer("deny", reason, BY), revokes=True)
    sys.stdout.write(f"Denied: {one_line(before.asked.tool)}, {summary(before)}\n")
    if before.state == "approved":
        sys.stdout.write(f"It was approved before. To review the grants stored with it: {places.command('grants')}\n")
    return 0
