"""Finds the commands that awk and sed programs start, and the files they write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

_AWK_GRAMMAR = r"""
    (?P<blank>[ \t\r]+|\\\r?\n|\#[^\n]*)
  | (?P<string>"(?:[^"\\\n]|\\.|\\\n)*")
  | (?P<name>[A-Za-z_][A-Za-z_0-9:]*)
  | (?P<number>[0-9][0-9A-Za-z_.]*)
  | (?P<sign>\|\||\|&|&&|\+\+|--|[-+*/%^=!<>]=|\*\*|.|\n)
    """
_AWK_KEYWORDS = frozenset(("print", "printf", "return", "in", "else", "do", "case", "exit", "getline", "delete"))
_AWK_HIDDEN = r'\|\s*&?\s*(?:"|getline)|system\s*\('
_AWK_ESCAPES = {"n": "\n", "t": "\t", "/": "/", '"': '"', "\\": "\\"}
_SED_PLAIN = frozenset("=dDgGhHnNpPxzFlLqQ{}")
_SED_UNTIL_LINE = frozenset("rRwWaic")
_SED_FLAGS = frozenset("gpiImM0123456789we")


def awk_starts(program: str) -> list[str | None]:
    """Return the commands that an awk program passes to a shell; None for one that it computes."""
    tokens = _awk_tokens(program)
    commands: list[str | None] = []
    for index, (kind, text) in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else ("", "")
        after = tokens[index + 2][1] if index + 2 < len(tokens) else ""
        if kind == "name" and text == "system" and following[1] == "(":
            ends = index + 3 < len(tokens) and tokens[index + 3][1] == ")"
            commands.append(_awk_string(tokens[index + 2][1]) if ends and tokens[index + 2][0] == "string" else None)
        elif kind == "sign" and text in ("|", "|&"):
            if following[1] == "getline":
                before = tokens[index - 1] if index else ("", "")
                is_whole = index < 2 or tokens[index - 2][1] in ("{", ";", "(", "\n", "while", "if", ")")
                commands.append(_awk_string(before[1]) if before[0] == "string" and is_whole else None)
            else:
                is_whole = after in ("", ";", "}", "\n")
                commands.append(_awk_string(following[1]) if following[0] == "string" and is_whole else None)
        elif (kind == "sign" and text == "@") or (kind == "regex" and _search_hidden(text)):
            commands.append(None)
    return commands


def awk_writes(program: str) -> list[str | None]:
    """Return the files that an awk program prints to; None for one that it computes."""
    tokens = _awk_tokens(program)
    paths: list[str | None] = []
    depth: int | None = None  # of brackets since a print; elsewhere, > compares
    for index, (kind, text) in enumerate(tokens):
        if kind == "name" and text in ("print", "printf"):
            depth = 0
        elif depth is None or kind != "sign":
            continue
        elif text in "([":
            depth += 1
        elif text in ")]":
            depth -= 1
        elif text in (";", "}", "\n", "|", "|&"):
            depth = None
        elif text == ">" and depth <= 0:
            target = [token for token in tokens[index + 1 : index + 4] if token[1] != ">"]
            is_whole = len(target) < 2 or target[1][1] in (";", "}", "\n")
            paths.append(_awk_string(target[0][1]) if target and target[0][0] == "string" and is_whole else None)
            depth = None
    return paths


def _awk_tokens(program: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    pattern = _awk_pattern()
    position = 0
    while position < len(program):
        if program[position] == "/" and not _is_awk_operand(tokens):
            end = _awk_regex_end(program, position)
            if end:
                tokens.append(("regex", program[position:end]))
                position = end
                continue
        match = pattern.match(program, position)
        if match is None:
            break
        if match.lastgroup != "blank":
            tokens.append((str(match.lastgroup), match.group()))
        position = match.end()
    return tokens


@cache
def _awk_pattern() -> re.Pattern[str]:
    import re

    return re.compile(_AWK_GRAMMAR, re.VERBOSE | re.DOTALL)


def _search_hidden(text: str) -> bool:
    import re

    return re.search(_AWK_HIDDEN, text) is not None


def _is_awk_operand(tokens: Sequence[tuple[str, str]]) -> bool:
    """Whether the last token ends an operand, so that a slash after it divides."""
    for kind, text in reversed(tokens):
        if text in ("++", "--"):
            continue
        return kind in ("string", "number", "regex") or (kind == "name" and text not in _AWK_KEYWORDS) or text in ")]$"
    return False


def _awk_regex_end(program: str, position: int) -> int:
    in_class = False
    index = position + 1
    while index < len(program) and program[index] != "\n":
        character = program[index]
        if character == "\\":
            index += 1
        elif character == "[":
            in_class = True
        elif character == "]":
            in_class = False
        elif character == "/" and not in_class:
            return index + 1
        index += 1
    return 0


def _awk_string(token: str) -> str | None:
    """Return the value of a string; None if it contains an unsupported escape."""
    pieces = []
    body = iter(token[1:-1])
    for character in body:
        if character == "\\":
            escaped = _AWK_ESCAPES.get(next(body, ""))
            if escaped is None:
                return None
            pieces.append(escaped)
        else:
            pieces.append(character)
    return "".join(pieces)


def sed_starts(script: str) -> bool:
    """Whether a sed script runs a command, or cannot be parsed."""
    # implementations differ on whether a delimiter inside [...] ends a field
    return _SedParser(script, classes=True).runs(or_unknown=True) or _SedParser(script, classes=False).runs(
        or_unknown=False
    )


def sed_writes(script: str) -> list[str]:
    """Return the files that a sed script writes."""
    parser = _SedParser(script, classes=True)
    parser.runs(or_unknown=True)
    return parser.writes


class _SedUnknown(Exception):
    """The script cannot be parsed further."""


class _SedParser:
    """One pass over a sed script."""

    def __init__(self, script: str, *, classes: bool) -> None:
        self._script = script
        self._classes = classes
        self._position = 0
        self.writes: list[str] = []

    def runs(self, *, or_unknown: bool) -> bool:
        """Whether the script has an e command or s///e; `or_unknown` is returned if it cannot be parsed."""
        try:
            while self._position < len(self._script):
                if self._peek() in " \t\n;":
                    self._position += 1
                elif self._peek() == "#":
                    self._skip_line()
                else:
                    self._skip_addresses()
                    if self._command():
                        return True
        except (IndexError, _SedUnknown):
            return or_unknown
        return False

    def _peek(self) -> str:
        return self._script[self._position]

    def _take(self) -> str:
        character = self._script[self._position]
        self._position += 1
        return character

    def _skip_addresses(self) -> None:
        while True:
            character = self._peek()
            if character.isdigit() or character in " \t,$~+!":
                self._position += 1
            elif character in "/\\":
                self._position += 1
                self._skip_field("/" if character == "/" else self._take(), pattern=True)
                while self._peek() in "IM":
                    self._position += 1
            else:
                return

    def _skip_field(self, delimiter: str, *, pattern: bool) -> None:
        """Skip to after the delimiter that ends a field."""
        while (character := self._take()) != delimiter:
            if character == "\\":
                self._position += 1
            elif character == "[" and pattern and self._classes:
                self._skip_class()

    def _skip_class(self) -> None:
        self._position += self._peek() == "^"
        self._position += self._peek() == "]"
        while self._take() != "]":
            pass

    def _command(self) -> bool:
        """Skip one command; return whether it runs something."""
        letter = self._take()
        if letter == "e":
            return True
        if letter in _SED_UNTIL_LINE:
            self._skip_line(is_file=letter in "wW")
        elif letter in ":btTv":
            while self._position < len(self._script) and self._peek() not in ";\n":
                self._position += 1
        elif letter in "sy":
            delimiter = self._take()
            if delimiter in "\\\n":
                raise _SedUnknown
            self._skip_field(delimiter, pattern=letter == "s")
            self._skip_field(delimiter, pattern=False)
            return self._flags()
        elif letter not in _SED_PLAIN:
            raise _SedUnknown
        else:
            while self._position < len(self._script) and (self._peek().isdigit() or self._peek() == " "):
                self._position += 1
        return False

    def _flags(self) -> bool:
        while self._position < len(self._script) and self._peek() not in " \t\n;}#":
            letter = self._take()
            if letter == "e":
                return True
            if letter == "w":
                self._skip_line(is_file=True)
                return False
            if letter not in _SED_FLAGS:
                raise _SedUnknown
        return False

    def _skip_line(self, *, is_file: bool = False) -> None:
        start = self._position
        while self._position < len(self._script) and self._peek() != "\n":
            self._position += 2 if self._peek() == "\\" else 1
        if is_file:
            self.writes.append(self._script[start : self._position].strip())
        self._position += 1


class SedScripts:
    """The scripts among the arguments of sed; `files` is true if one of them is read from a file."""

    def __init__(self, arguments: Sequence[str | None]) -> None:
        self.scripts: list[str | None] = []
        self.files = False
        self.in_place = False
        operands: list[str | None] = []
        index = 0
        while index < len(arguments):
            word = arguments[index]
            index += 1
            if word is None or not word.startswith("-") or word == "-":
                operands.append(word)
            elif word == "--":
                operands += arguments[index:]
                break
            elif word.startswith("--"):
                index += self._long(word, arguments[index] if index < len(arguments) else None)
            else:
                index += self._short(word, arguments[index] if index < len(arguments) else None)
        if not self.scripts and not self.files and operands:
            self.scripts.append(operands[0])

    def _long(self, word: str, following: str | None) -> int:
        name, equals, value = word[2:].partition("=")
        if name and "expression".startswith(name):
            self.scripts.append(value if equals else following)
            return not equals
        if name and "file".startswith(name):
            self.files = True
            return not equals
        self.in_place = self.in_place or bool(name and "in-place".startswith(name))
        return not equals and bool(name) and "line-length".startswith(name) and name != "l"

    def _short(self, word: str, following: str | None) -> int:
        for place, letter in enumerate(word[1:], 1):
            rest = word[place + 1 :]
            if letter == "e":
                self.scripts.append(rest or following)
                return not rest
            if letter == "f":
                self.files = True
                return not rest
            if letter == "l":
                return not rest
            if letter in "iI":
                self.in_place = True
                return 0
        return 0
