"""Words of bash source after quote removal, as far as their value is known before the command runs."""

from __future__ import annotations

import re
from typing import NamedTuple

_LITERAL = str.maketrans("", "", "\\'\"`$*?[]{}~<>()|&;!# \t\n")
_ANSI_BODY = r"(?:[^'\\]|\\.)*+\\?"
_ANSI_ESCAPE = r"\\(?:(x[0-9a-fA-F]{0,2}|u[0-9a-fA-F]{0,4}|U[0-9a-fA-F]{0,8})|([0-7]{1,3})|c(.)|(.?))"
_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class ShellWord(NamedTuple):
    """One word: its source, and its value after quote removal, if known before the command runs."""

    text: str
    value: str | None
    pattern: bool = False  # contains an unquoted wildcard
    name: str | None = None  # what follows the last slash, known more often than the whole value
    broken: bool = False  # contains an unquoted character that ends a word


def unquote(text: str) -> ShellWord:
    """Return a word with its value after quote removal; the value is None if the shell would compute it."""
    if text.translate(_LITERAL) == text or text == "((":
        return ShellWord(text, text, pattern=False, name=text.rpartition("/")[2])
    return _Unquoting(text).word()


class _Unquoting:
    """One pass over the source of a word."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces: list[str | None] = []  # None for a quoted expansion
        self._computed = False
        self._splits = False  # an unquoted expansion or brace: may become several words
        self._pattern = False
        self._braces = 0
        self._had_comma = False
        self._broken = False

    def word(self) -> ShellWord:
        position = 0
        while position < len(self._text):
            position = self._step(position)
        if self._splits or self._computed:
            return ShellWord(self._text, None, pattern=self._pattern, name=self._name(), broken=self._broken)
        value = "".join(piece for piece in self._pieces if piece is not None)
        name = value.rpartition("/")[2]
        return ShellWord(self._text, value, pattern=self._pattern, name=name, broken=self._broken)

    def _name(self) -> str | None:
        """The text after the last slash, if no expansion can change it."""
        if self._splits:
            return None
        tail = ""
        for piece in reversed(self._pieces):
            if piece is None:
                return None
            if "/" in piece:
                return piece.rpartition("/")[2] + tail
            tail = piece + tail
        return None

    def _step(self, position: int) -> int:
        text = self._text
        character = text[position]
        if character == "\\":
            self._pieces.append(text[position + 1 : position + 2].replace("\n", ""))
            return position + 2
        if character == "'":
            end = text.find("'", position + 1)
            end = len(text) if end < 0 else end
            self._pieces.append(text[position + 1 : end])
            return end + 1
        if character == '"':
            return self._double(position + 1)
        if character == "$":
            return self._dollar(position)
        if character == "`" or (character in "<>" and text[position + 1 : position + 2] == "("):
            self._splits = True
            return len(text)
        if (
            character in "*?"
            or (character == "[" and "]" in text[position + 1 :])
            or (character in "@!+" and text[position + 1 : position + 2] == "(")
        ):
            self._pattern = True
        self._brace(position, character)
        self._broken = self._broken or character in " \t\n;&|<>()"
        self._pieces.append(character)
        return position + 1

    def _brace(self, position: int, character: str) -> None:
        if character == "{":
            self._braces += 1
        elif self._braces and (character == "," or self._text.startswith("..", position)):
            self._had_comma = True
        elif character == "}" and self._had_comma:
            self._splits = True

    def _dollar(self, position: int) -> int:
        text = self._text
        following = text[position + 1 : position + 2]
        if following == "'":
            value, end = _ansi(text, position + 2)
            self._pieces.append(value)
            return end
        if following == '"':
            return self._double(position + 2)
        if following and (following.isalnum() or following in "_{([@*#?-$!"):
            self._splits = True
            return len(text)
        self._pieces.append("$")
        return position + 1

    def _double(self, position: int) -> int:
        text = self._text
        while position < len(text):
            character = text[position]
            following = text[position + 1 : position + 2]
            if character == '"':
                self._pieces.append("")
                return position + 1
            if character == "\\" and following and following in '\\"$`\n':
                self._pieces.append(following.replace("\n", ""))
                position += 2
            elif character == "`" or (
                character == "$" and following and (following.isalnum() or following in "_{([@*#?-$!")
            ):
                position = self._quoted_expansion(position)
            else:
                self._pieces.append(character)
                position += 1
        return position

    def _quoted_expansion(self, position: int) -> int:
        """Skip a plain "$name" or "${name}"; anything more complex makes the rest of the word unknown."""
        text = self._text
        self._computed = True
        self._pieces.append(None)
        end = position + 1
        if text[end : end + 1] == "{":
            close = text.find("}", end)
            if close > 0 and text[end + 1 : close].isidentifier():
                return close + 1
        elif text[end : end + 1].isidentifier():
            while end < len(text) and (text[end].isalnum() or text[end] == "_"):
                end += 1
            return end
        elif text[position] == "$" and text[end : end + 1] not in ("(", "["):
            return end + 1
        self._splits = True
        return len(text)


def _ansi(text: str, position: int) -> tuple[str, int]:
    """Return the value of a $'...' string whose text starts here, and the offset after it."""
    body = re.compile(_ANSI_BODY, re.DOTALL).match(text, position)
    end = position if body is None else body.end()
    return re.sub(_ANSI_ESCAPE, _ansi_character, text[position:end], flags=re.DOTALL), min(end + 1, len(text))


def _ansi_character(escape: re.Match[str]) -> str:
    hexadecimal, octal, control, letter = escape.groups()
    if hexadecimal is not None:
        number = int(hexadecimal[1:] or "0", 16)
        return chr(number) if 0 < number < 0x110000 else ""
    if octal is not None:
        return chr(int(octal, 8) & 0xFF)
    return chr(ord(control) & 0x1F) if control is not None else _ESCAPES.get(letter, letter)
