"""Fills the arguments of a skill or command into its text: `$ARGUMENTS`, and `$1`, `$2`, … as shell words.

The text is read once, from left to right. Placeholders in the arguments are not filled in. Prices, formulas and scripts
have dollar signs and digits, too: `$5` is a placeholder only if there is a fifth word, and nothing precedes it that
makes it part of something else.
"""

from __future__ import annotations

import re

from hilt.errors import ToolError

TEXT_CHARACTERS = 2 << 20  # of the filled-in text

_PLACEHOLDER = re.compile(r"\$ARGUMENTS(?![A-Za-z0-9_])|(?<![A-Za-z0-9$])\$([1-9][0-9]{0,3})(?![0-9])")


def fill_in(text: str, arguments: str, *, drops_missing: bool = False) -> str:
    """Return the text with the arguments filled in; those of a text without placeholders are added at its end.

    Placeholders for missing arguments stay, since the text may mean something else; `drops_missing` makes them empty.
    """
    words = _words(arguments)
    size, filled_in = len(text), 0

    def value(match: re.Match[str]) -> str:
        nonlocal size, filled_in
        position = int(match[1] or 0)
        if position > len(words) or not words:
            return "" if drops_missing else match[0]
        filled = words[position - 1] if position else arguments
        filled_in += 1
        size += len(filled)
        if size > TEXT_CHARACTERS:
            raise ToolError(
                "limit_exceeded",
                f"With its arguments, the text has more than {TEXT_CHARACTERS:,} characters.",
                suggestion="Pass shorter arguments.",
            )
        return filled

    filled = _PLACEHOLDER.sub(value, text)
    return filled if filled_in or not words else f"{filled.rstrip()}\n\nARGUMENTS: {arguments}\n"


def _words(arguments: str) -> list[str]:
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()  # an apostrophe, not a quote
