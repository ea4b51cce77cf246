"""The pattern of a search: what is checked before ripgrep parses it, its groups, and its faults."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.search.ripgrep import Pattern

PATTERN_CHARACTERS = 30_000  # an argument of a program may have at most 128 KB
_PYTHON_CHARACTERS = 200  # of a pattern that Python may match, too
# escapes and classes, whose parentheses are plain characters, and parentheses
_PIECE = re.compile(
    r"(?s)\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\(\?P?<(?P<name>[^>=!]+)>|(?P<plain>\((?!\?))|[()]"
)
_RETURN = re.compile(r"\r|(?<!\\)(?:\\\\)*\\(?:r|x0d|x\{0*d\}|u000d|u\{0*d\}|U0000000d|U\{0*d\})", re.IGNORECASE)
# whitespace and comments are ignored from here on
_VERBOSE = re.compile(r"\(\?[A-Za-z]*x[A-Za-z]*(?:-[A-Za-z]+)?\)")
_REFERENCE = re.compile(r"\$(?:(\$)|([0-9A-Za-z_]+)|\{([^}]{0,100})\})")
_CARET = re.compile(r"^( +)\^+", re.MULTILINE)


def read_pattern(
    text: str, *, literal: bool, ignore_case: bool, multiline: bool, lines: bool = True, replacement: str | None = None
) -> Pattern:
    """Return the pattern to search for; ripgrep itself rejects an invalid regular expression."""
    if not text:
        raise ToolError("invalid_regex", "The pattern is empty.", suggestion="Send a pattern to search for.")
    if len(text) > PATTERN_CHARACTERS:
        raise ToolError(
            "invalid_regex",
            f"The pattern is longer than {PATTERN_CHARACTERS} characters.",
            suggestion="Search for a part of it.",
        )
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ToolError(
            "invalid_regex",
            "The pattern contains a NUL character or a lone surrogate, which a text file cannot contain.",
        )
    # with a carriage return in the pattern, lines end only with a line feed
    crlf = "\r" not in text if literal else not _RETURN.search(text)
    verbose = not literal and "#" in text and _VERBOSE.search(text) is not None
    return Pattern(text, literal, ignore_case, multiline, lines, replacement, crlf, verbose)


def invalid_pattern(pattern: Pattern, printed: str) -> ToolError:
    """Return the error for a pattern that ripgrep rejected; `printed` says why, with a mark below the fault."""
    if "not allowed in a regex" in printed:
        return ToolError(
            "invalid_regex",
            "The pattern contains a line break, but without multiline a match cannot span lines.",
            suggestion="Send multiline: true.",
        )
    text = pattern.text
    reason = printed.strip().rpartition("error: ")[2].partition("\n")[0].removeprefix("rg: ")
    mark = None if "\n" in text else _CARET.search(printed)
    # minus four spaces of indentation, the group that ripgrep puts around a pattern, and our own flag
    position = None if mark is None else max(0, len(mark[1]) - len("    (?:") - (0 if pattern.lines else len("(?-m)")))
    if reason == "unclosed group" and (len(text) - len(text.rstrip("\\"))) % 2:
        reason, position = "a backslash ends the pattern", len(text) - 1
    elif reason == "unclosed group":  # the mark is below the outermost one
        reason, position = "the ( is not closed", _unclosed(text)
    where = "" if position is None else f" at character {position + 1}"
    return ToolError(
        "invalid_regex",
        f"The pattern is not a valid regular expression: {reason}{where}.",
        suggestion="Fix the pattern, or send literal: true to search for exactly this text.",
        **({} if position is None else {"position": position}),
    )


def _unclosed(text: str) -> int:
    opened: list[int] = []
    for piece in _PIECE.finditer(text):
        if piece[0] == ")":
            del opened[-1:]
        elif piece[0].startswith("("):
            opened.append(piece.start())
    return opened[-1] if opened else 0


class PatternGroups(NamedTuple):
    """How many groups a pattern has, and the names of those that have one."""

    number: int
    names: tuple[str, ...]


def groups(text: str) -> PatternGroups:
    """Return the groups of a pattern."""
    pieces = list(_PIECE.finditer(text))
    return PatternGroups(
        sum(bool(piece["name"] or piece["plain"]) for piece in pieces),
        tuple(piece["name"] for piece in pieces if piece["name"]),
    )


def references(replacement: str) -> list[tuple[str, int]]:
    """Return the groups that a replacement refers to, each with its position."""
    names = ((match[2] or match[3], match.start()) for match in _REFERENCE.finditer(replacement) if not match[1])
    return [(name, at) for name, at in names if name is not None]


def braced(replacement: str, names: Collection[str]) -> str:
    """Return the replacement with ${1}x for $1x, which would otherwise refer to a group 1x."""

    def value(reference: re.Match[str]) -> str:
        name = reference[2] or ""
        number = name[: len(name) - len(name.lstrip("0123456789"))]
        return reference[0] if not number or number == name or name in names else f"${{{number}}}{name[len(number) :]}"

    return _REFERENCE.sub(value, replacement)


def ends_with_empty_match(pattern: Pattern, line: str) -> bool:
    """Whether a pattern that ripgrep accepts matches the empty text after a line; False if Python cannot tell."""
    # counts could repeat an empty match for hours
    if pattern.literal or "{" in pattern.text or len(pattern.text) > _PYTHON_CHARACTERS:
        return False
    source = re.sub(r"\(\?<(?![=!])", "(?P<", pattern.text).replace("\\z", "\\Z")
    flags = (re.MULTILINE if pattern.lines else 0) | (re.IGNORECASE if pattern.ignore_case else 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return re.compile(source, flags).match(line, len(line)) is not None
        except (re.error, RecursionError, OverflowError):
            return False


def expanded_at_end(replacement: str) -> str:
    """Return the replacement of an empty match, whose groups are all empty."""
    return _REFERENCE.sub(lambda reference: "$" if reference[1] else "", replacement)
