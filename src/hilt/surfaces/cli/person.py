"""Commands that only a person at a terminal may run, and the person who answers the questions of a call.

A tool must not answer for the person. The sandbox prevents it by hiding the state directory; a command outside the
sandbox is still a descendant of a hilt process, and `run_for_person` checks for those first.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from hilt import places
from hilt.call import ApprovalRequest, UserAnswer
from hilt.errors import ToolError
from hilt.formats.invisible import one_line, revealed
from hilt.surfaces.cli.ancestry import hilt_above
from hilt.surfaces.terminal_prompt import PersonPrompt, Terminal, ask_all, controlling_terminal, note_elsewhere

if TYPE_CHECKING:
    from hilt.desk.personal_files import SettingsChange
    from hilt.surfaces.cli.parsing import Namespace, Options, Run


Pause = Callable[[], AbstractContextManager[None]]


def person(pause: Pause = nullcontext) -> dict[str, Any]:
    """Return the callbacks that prompt the person at this terminal; empty if there is none.

    A prompt is shown within `pause`.
    """
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return {}

    one_at_a_time = threading.Lock()
    return {
        "asker": PersonPrompt(partial(_approve, one_at_a_time, pause)),
        "questioner": PersonPrompt(partial(_answer, one_at_a_time, pause)),
    }


def _approve(one_at_a_time: threading.Lock, pause: Pause, asked: ApprovalRequest, settled: int | None) -> UserAnswer:
    """Prompt the person at this terminal to approve a call, one prompt at a time."""
    from hilt.surfaces.terminal_prompt import prompt

    with one_at_a_time, pause(), controlling_terminal(settled) as screen:
        answer = prompt(asked, screen)
        screen.write(note_elsewhere(settled))
    return answer


def _answer(
    one_at_a_time: threading.Lock, pause: Pause, questions: Sequence[Any], settled: int | None
) -> dict[str, Any]:
    """Ask the questions on the terminal of this process; return the answers by question."""
    with one_at_a_time, pause(), controlling_terminal(settled) as screen:
        try:
            return ask_all(screen, questions)
        finally:
            note = note_elsewhere(settled)
            screen.write(note and f"\n{note}")


def for_person(command: str) -> Callable[[Callable[[Terminal, Options, Namespace], int]], Run]:
    """Make a command of a function that only a person at the terminal may run."""
    return lambda work: (
        lambda options, arguments: run_for_person(command, lambda screen: work(screen, options, arguments))
    )


def run_for_person(command: str, work: Callable[[Terminal], int]) -> int:
    """Run the work of a command if a person is at the terminal; raise `denied` otherwise."""
    refuse_tools(command)
    try:
        if not os.isatty(0):
            raise ToolError("no_one_to_ask", "The input is not a terminal.")
        with controlling_terminal() as screen:
            return work(screen)
    except ToolError as error:
        if error.code != "no_one_to_ask":
            raise
        raise _refused(command, error.message) from error


def change_text(change: SettingsChange) -> str:
    """Return the path and the difference of a change, as text."""
    return f"{change.place}\n{revealed(change.difference)}\n"


def confirm(screen: Terminal, change: SettingsChange, write: Callable[[SettingsChange], object]) -> bool:
    """Show a change, prompt, and write it; return whether it was written."""
    screen.write(f"{change.place}\n" + screen.page().diff(change.difference, whole=True))
    if not screen.agrees("Write this?" if change.after is not None else "Delete this file?"):
        screen.write("Nothing was written.\n")
        return False
    write(change)
    return True


def refuse_tools(command: str) -> None:
    """Raise if a tool runs this command."""
    ancestor = hilt_above(os.getpid())
    if ancestor is not None:
        raise _refused(command, f"This process was started by hilt itself ({one_line(ancestor)}).")


def _refused(command: str, reason: str) -> ToolError:
    return ToolError(
        "denied",
        f"hilt {command} requires a person at a terminal. {reason}",
        suggestion=f"A person runs it in a terminal: {places.command(*command.split())}",
    )
