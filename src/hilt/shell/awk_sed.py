"""Finds the commands that awk and sed programs start, and the files they write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hilt.shell import programs

_AWK_GRAMMAR = r"""
    (?P<blank>[ \t\r]+|\\\r?\n|\#[^\n]*)
  | (?P<string>"(?:[^"\\\n]|\\.|\\\n)*")
  | (?P<name>[A-Za-z_][A-Za-z_0-9:]*)
  | (?P<number>[0-9][0-9A-Za-z_.]*)
  | (?P<sign>\|\||\|&|&&|\+\+|--|[-+*/%^=!<>]=|\*\*|.|\n)
    """
_AWK_REGEX = r"(?s)/(?:\\.|\[(?:\\.|[^]\\\n])*\]|[^/\\[\n])*/"
_AWK_KEYWORDS = frozenset(("print", "printf", "return", "in", "else", "do", "case", "exit", "getline", "delete"))
_AWK_HIDDEN = r'\|\s*&?\s*(?:"|getline)|system\s*\('
_AWK_ESCAPES = {"n": "\n", "t": "\t", "/": "/", '"': '"', "\\": "\\"}
_SED_PLAIN = frozenset("=dDgGhHnNpPxzFlLqQ{}")
_SED_UNTIL_LINE = frozenset("rRwWaic")
_SED_LINE = r"(?:\\.|[^\\\n])*+\\?"


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
        elif (kind == "sign" and text == "@") or (kind == "regex" and re.search(_AWK_HIDDEN, text)):
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
    pattern = re.compile(_AWK_GRAMMAR, re.VERBOSE | re.DOTALL)
    position = 0
    while position < len(program):
        if program[position] == "/" and not _is_awk_operand(tokens):
            regex = re.compile(_AWK_REGEX).match(program, position)
            if regex:
                tokens.append(("regex", regex[0]))
                position = regex.end()
                continue
        match = pattern.match(program, position)
        if match is None:
            break
        if match.lastgroup != "blank":
            tokens.append((str(match.lastgroup), match.group()))
        position = match.end()
    return tokens


def _is_awk_operand(tokens: Sequence[tuple[str, str]]) -> bool:
    """Whether the last token ends an operand, so that a slash after it divides."""
    for kind, text in reversed(tokens):
        if text in ("++", "--"):
            continue
        return kind in ("string", "number", "regex") or (kind == "name" and text not in _AWK_KEYWORDS) or text in ")]$"
    return False


def _awk_string(token: str) -> str | None:
    """Return the value of a string; None if it contains an unsupported escape."""
    body = token[1:-1]
    if any(escape[1] not in _AWK_ESCAPES for escape in re.findall(r"(?s)\\.", body)):
        return None
    return re.sub(r"(?s)\\(.)", lambda escape: _AWK_ESCAPES[escape[1]], body)


def sed_starts(script: str) -> bool:
    """Whether a sed script runs a command, or cannot be parsed."""
    # implementations differ on whether a delimiter inside [...] ends a field
    return _sed_runs(script, classes=True, or_unknown=True) or _sed_runs(script, classes=False, or_unknown=False)


def _sed_runs(script: str, *, classes: bool, or_unknown: bool) -> bool:
    try:
        return any(path is None for path in _sed_effects(script, classes=classes))
    except _SedUnknown:
        return or_unknown


def sed_writes(script: str) -> list[str]:
    """Return the files that a sed script writes."""
    paths: list[str] = []
    with suppress(_SedUnknown):
        paths += (path for path in _sed_effects(script, classes=True) if path is not None)
    return paths


class _SedUnknown(Exception):
    """The script cannot be parsed further."""


def _sed_effects(script: str, *, classes: bool) -> Iterator[str | None]:
    """Yield the files that a script writes, and None for each command that it runs."""
    position = 0

    def take(pattern: str) -> re.Match[str]:
        nonlocal position
        match = re.compile(pattern, re.DOTALL).match(script, position)
        if match is None:
            raise _SedUnknown
        position = match.end()
        return match

    def skip_field(delimiter: str, *, pattern: bool) -> None:
        """Skip to after the delimiter that ends a field."""
        end = re.escape(delimiter)
        has_classes = pattern and classes and delimiter != "["
        take((rf"(?:\\.|\[\^?+\]?+[^]]*+\]|[^\\\[{end}])*+" if has_classes else rf"(?:\\.|[^\\{end}])*+") + end)

    while True:
        take(r"(?:[ \t\n;]|#(?:\\.|[^\\\n])*+\\?)*+")
        if position == len(script):
            return
        while (address := take(r"[\d \t,$~+!]*+(?:(/)|\\(.))?+"))[1] or address[2]:
            skip_field(address[1] or address[2], pattern=True)
            take("[IM]*")
        letter = take(".")[0]
        if letter == "e":
            yield None
        elif letter in _SED_UNTIL_LINE:
            line = take(_SED_LINE)[0]
            if letter in "wW":
                yield line.strip()
        elif letter in ":btTv":
            take(r"[^;\n]*")
        elif letter in "sy":
            delimiter = take(r"[^\\\n]")[0]
            skip_field(delimiter, pattern=letter == "s")
            skip_field(delimiter, pattern=False)
            take("[gpiImM0-9]*")
            flag = take(r"[ew]|(?=[ \t\n;}#])|\Z")[0]
            if flag:
                yield None if flag == "e" else take(_SED_LINE)[0].strip()
        elif letter in _SED_PLAIN:
            take(r"[\d ]*")
        else:
            raise _SedUnknown


class SedScripts:
    """The scripts among the arguments of sed; `files` is true if one of them is read from a file."""

    def __init__(self, arguments: Sequence[str | None]) -> None:
        self.scripts = programs.option_values(arguments, "e", "expression", stops="fliI")
        self.files = programs.has_flag(arguments, "f", "file", values="eliI")
        self.in_place = programs.has_flag(arguments, "iI", "in-place", values="efl")
        if not self.scripts and not self.files:
            options = programs.Options("efl", ("expression", "file", "line-length"))
            self.scripts = programs.positionals(arguments, options)[:1]
