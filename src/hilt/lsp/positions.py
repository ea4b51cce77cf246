"""Positions: columns count characters for the caller, and the negotiated units for the server."""

from __future__ import annotations

import re
from typing import NamedTuple

ENCODINGS = ("utf-32", "utf-8", "utf-16")  # in order of preference: utf-32 counts characters

_LINE_END = re.compile(r"\r\n|\r|\n")


class Position(NamedTuple):
    """A position in a text: line and character, both counted from 0."""

    line: int
    character: int


class SourceLines:
    """The lines of a text as the protocol counts them: they end with CR, LF or both."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def __len__(self) -> int:
        return len(self._starts)

    def line(self, number: int) -> str:
        """Return a line without its ending; empty for a line that does not exist."""
        if not 0 <= number < len(self._starts):
            return ""
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)
        return self.text[self._starts[number] : end].rstrip("\r\n")

    def offset(self, position: Position) -> int:
        """Return the offset of a position in characters; a position past the end of a line is its end."""
        if position.line >= len(self._starts):
            return len(self.text)
        return self._starts[position.line] + min(position.character, len(self.line(position.line)))


def to_units(line: str, character: int, encoding: str) -> int:
    """Return the column of a character of a line in the units of an encoding.

    A lone surrogate, which represents an invalid byte, counts as the question mark that replaces it in a message.
    """
    if encoding == "utf-32" or line.isascii():
        return min(character, len(line))
    before = line[:character]
    if encoding == "utf-8":
        return len(before.encode("utf-8", "replace"))
    return len(before.encode("utf-16-le", "replace")) // 2


def to_character(line: str, units: int, encoding: str) -> int:
    """Return the character of a line at a column in the units of an encoding."""
    if encoding == "utf-32" or line.isascii():
        return min(units, len(line))
    data = line.encode("utf-8" if encoding == "utf-8" else "utf-16-le", "replace")
    end = units if encoding == "utf-8" else units * 2
    codec = "utf-8" if encoding == "utf-8" else "utf-16-le"
    return len(data[:end].decode(codec, "ignore"))


def find_symbol(line: str, symbol: str) -> int | None:
    """Return the index of a name in a line, as a whole word if there is one."""
    match = re.search(rf"(?<![\w$]){re.escape(symbol)}(?![\w$])", line)
    if match is not None:
        return match.start()
    start = line.find(symbol)
    return None if start < 0 else start
