"""The parts of a script that has placeholders: marks, references and sections, and why a script cannot be used."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

Shell = Literal["bash", "sh"]
# words: a word, or one for each element; one: a single word; text: inside double quotes; single, ansi: inside '…', $'…'
Manner = Literal["words", "one", "text", "single", "ansi", "number"]

_MARK = re.compile(r"\{\{[ \t]*([#^/]?)[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\}\}")


def marks(body: str, names: Collection[str]) -> Iterator[re.Match[str]]:
    """Yield the marks of a script. A name with a dash is one only where a parameter has it: else it is other text."""
    return (found for found in _MARK.finditer(body) if "-" not in found[2] or found[2] in names)


class Unbindable(Exception):
    """A template that cannot be used: why, and the line of its file."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Reference:
    """A placeholder as it stands in the script: by which manner it refers to its value, and what it asks of that."""

    __slots__ = ("at", "is_number", "is_present", "line", "manner", "name")

    def __init__(self, name: str, manner: Manner, line: int, at: int) -> None:
        self.name = name
        self.at = at  # its place among the items of the script
        self.manner = manner
        self.line = line
        self.is_number = manner == "number"  # it is evaluated, so that it must be a whole number
        self.is_present = False  # without it, the next word would be the command


class Section(NamedTuple):
    """A part of the script that is there when its value is given, or, inverted, when it is not."""

    name: str
    inverted: bool
    parts: list[Part]


Part = str | Reference | Section


class Mark(NamedTuple):
    """A placeholder, or the begin or end of a section, as it is written."""

    sign: str
    name: str
    text: str


class Word(NamedTuple):
    """Where in its command the shell was."""

    start: int | None
    at_command: bool | None
    words: list[str]
    known: int  # how many words there were then: the list goes on


def some(reference: Reference | None) -> list[Reference]:
    """Return a list of what may be there."""
    return [] if reference is None else [reference]
