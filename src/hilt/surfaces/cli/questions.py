"""Questions of `ask_user` on a terminal: the user picks by number, or types an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hilt.errors import ToolError
from hilt.formats.invisible import one_line, revealed
from hilt.surfaces.terminal_prompt import Terminal


def ask_all(screen: Terminal, questions: Sequence[Any]) -> dict[str, Any]:
    """Ask the questions on a terminal; return the answers by question."""
    return {question.question: _ask(screen, question) for question in questions}


def _ask(screen: Terminal, question: Any) -> Any:
    header = f"[{one_line(question.header)}] " if question.header else ""
    screen.write(f"\n{header}{revealed(question.question)}\n")
    for number, option in enumerate(question.options, 1):
        description = f" - {one_line(option.description)}" if option.description else ""
        screen.write(f"  {number}. {one_line(option.label)}{description}\n")
    many = " (several, separated by commas)" if question.multi_select else ""
    screen.write(f"Number or your own answer{many}: ")
    line = screen.read()
    if not line:
        raise ToolError("no_one_to_ask", "The user did not answer.")
    words = line.strip().split(",") if question.multi_select else [line.strip()]
    chosen = [_chosen(word.strip(), question.options) for word in words if word.strip()]
    return chosen if question.multi_select else (chosen[0] if chosen else "")


def _chosen(word: str, options: Sequence[Any]) -> str:
    if word.isdecimal() and 1 <= int(word) <= len(options):
        return str(options[int(word) - 1].label)
    return word
