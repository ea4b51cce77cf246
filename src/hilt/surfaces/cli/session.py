"""`hilt session end`: end a session and its background jobs."""

from __future__ import annotations

import sys

from hilt.output.terminal import inert
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    ending = parser.command("end", "End the session and its background jobs, and forget what it has read", _end)
    ending.examples = [
        ("hilt session end", "End the default session of this folder"),
        ("hilt session end --session review", "End another one"),
    ]


def _end(options: Options, arguments: Namespace) -> int:
    from hilt.surfaces import resident

    jobs = resident.end_session(options)
    with open_runtime(options) as runtime:
        runtime.fire("session_end")
        ended = runtime.end_session(runtime.session)
        name = inert(runtime.session)
    sys.stdout.write(f"session {name} {'ended' if ended or jobs else 'has not been used here'}\n")
    if jobs:
        sys.stdout.write(f"{jobs} background job{'s' * (jobs != 1)} ended with it\n")
    return 0
