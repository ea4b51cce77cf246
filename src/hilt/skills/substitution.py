"""Fills the arguments of a skill or command into its text: `$ARGUMENTS`, and `$1`, `$2`, … as shell words.

The text is read once, from left to right. Placeholders in the arguments are not filled in.
"""

from __future__ import annotations

import re

from hilt.errors import ToolError

TEXT_CHARACTERS = 2 << 20  # of the filled-in text

_PLACEHOLDER = re.compile(r"\$(?:ARGUMENTS(?![A-Za-z0-9_])|([1-9][0-9]{0,3})(?![0-9]))")


def fill_in(text: str, arguments: str) -> str:
    """Return the text with the arguments filled in; missing ones are empty.

    Arguments of a text without placeholders are added at its end.
    """
    words = _words(arguments)
    size = len(text)

    def value(match: re.Match[str]) -> str:
        nonlocal size
        position = match[1]
        filled = arguments if position is None else words[int(position) - 1] if int(position) <= len(words) else ""
        size += len(filled)
        if size > TEXT_CHARACTERS:
            raise ToolError(
                "limit_exceeded",
                f"With its arguments, the text has more than {TEXT_CHARACTERS:,} characters.",
                suggestion="Pass shorter arguments.",
            )
        return filled

    filled, count = _PLACEHOLDER.subn(value, text)
    if arguments.strip() and not count:
        return f"{filled.rstrip()}\n\nARGUMENTS: {arguments}\n"
    return filled


def _words(arguments: str) -> list[str]:
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()  # an apostrophe, not a quote
