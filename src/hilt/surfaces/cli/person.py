"""What only a person at a terminal may answer, and who answers the questions of a call.

A tool of a model must not answer for the person. In the sandbox it cannot, because the state directory is hidden there;
a command that runs without one is still below a process of hilt, and the first thing here is to look for those.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from hilt import places
from hilt.errors import ToolError
from hilt.surfaces.cli.ancestry import hilt_above
from hilt.surfaces.cli.prompt import Terminal, controlling_terminal, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.state.approvals import Asked, UserAnswer

_ONE_AT_A_TIME = threading.Lock()


def person() -> dict[str, Any]:
    """Return who answers questions: the person at this terminal, if there is one."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return {}

    def asker(asked: Asked) -> UserAnswer:
        from hilt.state.approvals import UserAnswer
        from hilt.surfaces.cli.prompt import prompt

        with _ONE_AT_A_TIME, controlling_terminal() as screen:
            said = prompt(asked, read=screen.read, write=screen.write, width=screen.width, color=screen.color)
        return UserAnswer(said.kind, said.reason, "terminal")

    from hilt.surfaces.cli.questions import questioner

    return {"asker": asker, "questioner": questioner}


def answered(command: str, work: Callable[[Terminal], int]) -> int:
    """Do the work of a command for a person at a terminal, and for nobody else."""
    found = hilt_above(os.getpid())
    if found is not None:
        raise _refused(command, f"This one was started below hilt itself ({one_line(found)}).")
    try:
        if not os.isatty(0):
            raise ToolError("no_one_to_ask", "The input is not a terminal.")
        with controlling_terminal() as screen:
            return work(screen)
    except ToolError as error:
        if error.code != "no_one_to_ask":
            raise
        raise _refused(command, error.message) from error


def _refused(command: str, reason: str) -> ToolError:
    return ToolError(
        "denied",
        f"hilt {command} is for a person at a terminal. {reason}",
        suggestion=f"Ask the user to run in a terminal of their own: {places.command(command)}",
    )
