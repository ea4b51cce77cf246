"""Lines of the chat: calls, views, errors and the status, with terminal control characters made visible."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hilt.call import Result
from hilt.errors import ToolError
from hilt.formats.invisible import one_line
from hilt.output import terminal
from hilt.output.advice import next_step
from hilt.output.terminal import BOLD, DIM, GREEN, RED, YELLOW, inert

_ARGUMENT_CHARACTERS = 60
_DIFF_LINES = 12  # shown below a finished call
_TEXT_LINES = 40  # of a result without a view


class Ink(NamedTuple):
    """How wide lines may be, and whether they may have colours."""

    width: int
    color: bool

    def paint(self, text: str, sgr: str) -> str:
        """Return a text in a colour."""
        return terminal.painted(text, sgr, color=self.color)

    def clip(self, text: str, room: int | None = None) -> str:
        """Return a text on one line, cut with … if it does not fit."""
        return terminal.clip(one_line(text), max(1, self.width - 1 if room is None else room))

    def markdown(self, text: str) -> str:
        """Return Markdown as lines."""
        return "".join(f"{line}\n" for line in terminal.markdown(text, width=self.width - 1, color=self.color))


def brief(args: dict[str, Any] | str) -> str:
    """Return the arguments of a call on one line, the longest ones cut."""
    if isinstance(args, str):
        return args
    if len(args) == 1:
        return _value(next(iter(args.values())), 4 * _ARGUMENT_CHARACTERS)
    first, *rest = [(name, _value(value, _ARGUMENT_CHARACTERS)) for name, value in args.items()] or [("", "")]
    return "  ".join([first[1], *(f"{name}={value}" for name, value in rest)])


def _value(value: Any, limit: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    text = " ".join(text[: 2 * limit].split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def started(ink: Ink, tool: str, args: dict[str, Any] | str, progress: str) -> str:
    """Return the line of a running call."""
    text = f"{tool} {brief(args)}" + (f"  {progress}" if progress else "")
    return ink.paint(ink.clip(f"… {text}"), YELLOW)


def finished(ink: Ink, number: int, tool: str, args: dict[str, Any] | str, result: Result) -> str:
    """Return the line of a finished call, and the first lines of its diff."""
    mark, sgr = ("✓", GREEN) if result.ok else ("✗", RED)
    outcome = _outcome(result)
    heading = f"{mark} {number} {one_line(tool)}"
    room = max(10, ink.width - len(heading) - len(outcome) - 4)
    arguments = ink.clip(brief(args), room) if args else ""
    line = " ".join(filter(None, [ink.paint(heading, sgr), arguments, ink.paint(outcome, DIM)]))
    if result.error is not None:
        message = ink.clip(f"{result.error.code}: {result.error.message}", ink.width - 5)
        return f"{line}\n    {ink.paint(message, RED)}\n"
    return f"{line}\n{_change(ink, result)}"


def _outcome(result: Result) -> str:
    view = result.view
    if result.error is not None or view is None or view["type"] == "none":
        return ""
    text = terminal.summary(view)
    code = view.get("exitCode", 0) if view["type"] == "shell-output" else 0
    return f"({text})" if not code else f"({text}, exit code {code})"


def _change(ink: Ink, result: Result) -> str:
    """Return the first lines of a diff, indented."""
    if result.view is None or result.view["type"] not in ("diff", "diffs"):
        return ""
    all_lines = terminal.render(result.view, width=ink.width - 5, color=ink.color).split("\n")
    lines = all_lines[:_DIFF_LINES]
    if len(all_lines) > len(lines):
        lines.append(ink.paint(f"… {len(all_lines) - len(lines)} more lines: Ctrl-O", DIM))
    return "".join(f"    {line}\n" for line in lines)


def opened(ink: Ink, number: int, tool: str, args: dict[str, Any] | str, result: Result) -> str:
    """Return a call with everything that its result shows to a person."""
    rule = ink.paint(ink.clip(f"── {number} {tool} {'─' * ink.width}"), DIM)
    arguments = args if isinstance(args, str) else "\n".join(f"{name}: {_full(value)}" for name, value in args.items())
    return f"{rule}\n{note(ink, arguments)}{body(ink, result)}"


def body(ink: Ink, result: Result) -> str:
    """Return a result: its error, its view, or the first lines of its text."""
    if result.error is not None:
        return error(ink, result.error)
    if result.view is not None and result.view["type"] != "none":
        view = {key: value for key, value in result.view.items() if key != "collapsed"}
        return terminal.render(view, width=ink.width - 1, color=ink.color) + "\n"
    lines = inert(result.result).split("\n")
    more = [ink.paint(f"… {len(lines) - _TEXT_LINES:,} more lines", DIM)] if len(lines) > _TEXT_LINES else []
    return "".join(f"{line}\n" for line in [*lines[:_TEXT_LINES], *more])


def note(ink: Ink, text: str) -> str:
    """Return lines for the person that are not part of the conversation."""
    return "".join(f"{ink.paint(line, DIM)}\n" for line in inert(text).split("\n"))


def _full(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def error(ink: Ink, problem: ToolError) -> str:
    """Return an error with its next step."""
    step = next_step(problem)
    advice = f"{inert(step)}\n" if step else ""
    return f"{ink.paint(problem.code, RED)}: {inert(problem.message)}\n{advice}"


def person(ink: Ink, text: str) -> str:
    """Return a message of the person as it stays on the screen."""
    first, *rest = inert(text).split("\n")
    return "".join(f"{ink.paint(line, BOLD)}\n" for line in [f"> {first}", *(f"  {line}" for line in rest)])


def status(ink: Ink, fields: list[str]) -> str:
    """Return the status line: as many of the fields as fit."""
    fitting = list(fields)
    while len(fitting) > 1 and len(" · ".join(fitting)) > ink.width - 1:
        fitting.pop()
    return ink.paint(ink.clip(" · ".join(fitting)), DIM)
