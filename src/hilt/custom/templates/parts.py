"""The parts of a script that has placeholders: marks, sections and references, and why a script cannot be used.

body    = { text | "{{" name "}}" | section }
section = ( "{{#" | "{{^" ) name "}}" body "{{/" name "}}"
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

Shell = Literal["bash", "sh"]
# words: a word, or one for each element; one: a single word; text: inside double quotes; single, ansi: inside '…', $'…'
Manner = Literal["words", "one", "text", "single", "ansi", "number"]

_MARK = re.compile(r"\{\{[ \t]*([#^/]?)[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\}\}")


class Unbindable(Exception):
    """A template that cannot be used: why, and the line of its file."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Reference:
    """A placeholder as it stands in the script: by which manner it refers to its value, and what it asks of that."""

    __slots__ = ("is_number", "is_present", "line", "manner", "name")

    def __init__(self, name: str, manner: Manner, line: int) -> None:
        self.name = name
        self.manner = manner
        self.line = line
        self.is_number = manner == "number"  # it is evaluated, so that it must be a whole number
        self.is_present = False  # without it, the next word would be the command


class Mark(NamedTuple):
    """A placeholder, or the begin or end of a section, as it is written."""

    sign: str
    name: str
    text: str


Part = str | Reference
Items = list[tuple[str | Mark, int]]  # characters and marks, with their offsets


def split(body: str, names: Collection[str]) -> Items:
    """Return the characters and marks of a script. A name with a dash is a mark only where a parameter has it."""
    items: Items = []
    at = 0
    for found in _MARK.finditer(body):
        if "-" not in found[2] or found[2] in names:
            items += zip(body[at : found.start()], range(at, found.start()), strict=True)
            items.append((Mark(found[1], found[2], found[0]), found.start()))
            at = found.end()
    return [*items, *zip(body[at:], range(at, len(body)), strict=True)]


def present(
    items: Items, names: Collection[str], given: Collection[str], first_line: int = 1
) -> Iterator[tuple[str | Mark, int]]:
    """Yield what is there when these values are given; the marks of sections on other names stay."""
    opened: list[tuple[Mark, int]] = []
    hidden = 0
    line = first_line
    for item, offset in items:
        line += item == "\n"
        if not isinstance(item, Mark) or not item.sign or item.name not in names:
            if not hidden:
                yield item, offset
        elif item.sign != "/":
            opened.append((item, line))
            hidden += (item.name in given) is (item.sign == "^")
        elif opened and opened[-1][0].name == item.name:
            hidden -= (item.name in given) is (opened.pop()[0].sign == "^")
        else:
            expected = f"; {opened[-1][0].text} is still open" if opened else ""
            raise Unbindable(f"{item.text} closes a section that is not open{expected}", line)
    for mark, begun in opened:
        raise Unbindable(f"{mark.text} is never closed", begun)
