"""`hilt deny ID`: no to a call that waits for approval, or that was approved and has not run."""

from __future__ import annotations

import os
import sys
from contextlib import closing

from hilt import places
from hilt.state.approvals import Approvals
from hilt.surfaces.cli.approve import BY, summary
from hilt.surfaces.cli.person import answered
from hilt.surfaces.cli.prompt import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser


def build(parser: Parser) -> None:
    """Say what the command takes."""
    parser.run = _run
    parser.details = "An approval that was given, and not used yet, is taken back. It needs a person at a terminal."
    parser.add_argument("id", metavar="ID", help="The id of the approval; a unique beginning will do")
    parser.add_argument("--reason", metavar="TEXT", default="", help="What the agent is told")
    parser.examples = [("hilt deny 4c1e --reason 'use the staging database'", "Deny a call, and say why")]


def _run(options: Options, given: Namespace) -> int:
    return answered("deny", lambda _: _deny(given.id, given.reason))


def _deny(id: str, reason: str) -> int:
    with closing(Approvals(places.state_dir(os.environ))) as approvals:
        before = approvals.find(id)
        approvals.answer(before.id, approved=False, reason=reason, by=BY)
    sys.stdout.write(f"Denied: {one_line(before.asked.tool)}, {summary(before)}\n")
    if before.state == "approved":
        sys.stdout.write(f"It had been approved. Rules that were kept with it: {places.command('grants')}\n")
    return 0
