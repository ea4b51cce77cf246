"""Validates the pattern of a search."""

from __future__ import annotations

from hilt.errors import ToolError
from hilt.search.ripgrep import Pattern

PATTERN_CHARACTERS = 30_000  # an argument of a program may have at most 128 KB


def read_pattern(
    text: str, *, literal: bool, ignore_case: bool, multiline: bool, lines: bool = True, replacement: str | None = None
) -> Pattern:
    """Validate a pattern; an error gives the position of the fault."""
    from hilt.search import regexes

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
    verbose, returns = False, "\r" in text
    if not literal:
        try:
            translated = regexes.translate(text, ignore_case=ignore_case, lines=lines)
        except regexes.BadPattern as error:
            raise invalid_pattern_error(error.problem, error.position) from None
        except RecursionError:
            raise invalid_pattern_error("it is nested too deeply", None) from None
        verbose, returns = translated.verbose, translated.returns
        if translated.line_ends and not multiline:
            raise line_break_error()
    return Pattern(text, literal, ignore_case, multiline, lines, replacement, not returns, verbose)


def line_break_error() -> ToolError:
    """Return the error for a pattern with a line break in a search by lines."""
    return ToolError(
        "invalid_regex",
        "The pattern contains a line break, but without multiline a match cannot span lines.",
        suggestion="Send multiline: true.",
    )


def invalid_pattern_error(reason: str, position: int | None) -> ToolError:
    """Return the error for an invalid pattern."""
    where = "" if position is None else f" at character {position + 1}"
    return ToolError(
        "invalid_regex",
        f"The pattern is not a valid regular expression: {reason}{where}.",
        suggestion="Fix the pattern, or send literal: true to search for exactly this text.",
        **({} if position is None else {"position": position}),
    )
