"""What a command reads from its standard input, as far as that is known before it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hilt.shell.quoting import ShellWord
from hilt.shell.syntax import Command

PRINTERS = frozenset(("echo", "printf", "cat"))
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", '\\"': '"'}


def literal_input(command: Command) -> str | None:
    """Return the text that a command reads: of a here-document, or printed by the program before it in a pipe."""
    if command.given is not None or command.writer is None:
        return command.given
    return _printed(command.writer)


def _printed(writer: Command) -> str | None:
    """Return what a command prints, if that is literal."""
    name = writer.words[0].value if writer.words else None
    values = _literals(writer.words[1:])
    is_piped = len(writer.redirections) == (writer.given is not None)
    if values is None or writer.assignments or not is_piped:
        return None
    if name == "cat":
        return literal_input(writer) if values in ([], ["-"]) else None
    if name == "echo":
        end = "\n"
        if values[:1] == ["-n"]:
            values, end = values[1:], ""
        text = " ".join(values) + end
        # some shells read backslashes
        return None if text.startswith("-") or "\\" in text else text
    if name == "printf" and values:
        return _formatted(*values)
    return None


def _formatted(form: str, *values: str) -> str | None:
    escapes = re.findall(r"\\.?", form, re.DOTALL)
    if form.startswith("-") or any(escape not in _ESCAPES for escape in escapes) or form.count("%") != form.count("%s"):
        return None
    if form.count("%s") > 1 or (values and "%s" not in form):
        return None
    text = re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], form)
    return "".join(text.replace("%s", value) for value in values) if values else text.replace("%s", "")


def _literals(words: Sequence[ShellWord]) -> list[str] | None:
    """Return the values of words; None if one is not known, or may become others."""
    if any(word.value is None or word.pattern for word in words):
        return None
    return [word.value for word in words if word.value is not None]
