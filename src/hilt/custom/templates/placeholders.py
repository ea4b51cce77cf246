"""The parts of a script with placeholders: marks, sections and references, and the error for an unusable script.

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
    """A template is unusable: the reason, and the line of its file."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Reference:
    """A placeholder in the script: how it refers to its value, and what it requires of the value."""

    __slots__ = ("is_number", "is_present", "line", "manner", "name")

    def __init__(self, name: str, manner: Manner, line: int) -> None:
        self.name = name
        self.manner = manner
        self.line = line
        self.is_number = manner == "number"  # the shell evaluates it, so it must be an integer
        self.is_present = False  # without it, the next word would be the command


class Mark(NamedTuple):
    """A placeholder, or the start or end of a section, as written."""

    sign: str
    name: str
    text: str


Part = str | Reference
Items = list[tuple[str | Mark, int]]  # characters and marks, with their offsets


def has_marks(body: str, names: Collection[str]) -> bool:
    """Whether a script has a mark."""
    return next(_marks(body, names), None) is not None


def _marks(body: str, names: Collection[str]) -> Iterator[re.Match[str]]:
    return (match for match in _MARK.finditer(body) if "-" not in match[2] or match[2] in names)


def split(body: str, names: Collection[str]) -> Items:
    """Return the characters and marks of a script. A name with a dash is a mark only if a parameter has that name."""
    items: Items = []
    end = 0
    for match in _marks(body, names):
        items += zip(body[end : match.start()], range(end, match.start()), strict=True)
        items.append((Mark(match[1], match[2], match[0]), match.start()))
        end = match.end()
    return [*items, *zip(body[end:], range(end, len(body)), strict=True)]


def present(
    items: Items, names: Collection[str], enabled: Collection[str], first_line: int = 1
) -> Iterator[tuple[str | Mark, int]]:
    """Yield the items outside disabled sections; section marks with unknown names stay."""
    opened: list[tuple[Mark, int]] = []
    disabled = 0
    line = first_line
    for item, offset in items:
        line += item == "\n"
        if not isinstance(item, Mark) or not item.sign or item.name not in names:
            if not disabled:
                yield item, offset
        elif item.sign != "/":
            opened.append((item, line))
            disabled += (item.name in enabled) is (item.sign == "^")
        elif opened and opened[-1][0].name == item.name:
            disabled -= (item.name in enabled) is (opened.pop()[0].sign == "^")
        else:
            expected = f"; {opened[-1][0].text} is still open" if opened else ""
            raise Unbindable(f"{item.text} closes a section that is not open{expected}", line)
    for mark, start_line in opened:
        raise Unbindable(f"{mark.text} is never closed", start_line)
