"""Finds the line of a file that is most similar to a missing line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hilt.text.encodings import visible

SHOWN = 200  # characters of a line to quote in an error
_MIN_SIMILARITY = 40  # percent
_LINES_MAX = 100_000  # lines to compare, from the start of the file


class Nearest(NamedTuple):
    """A line number, from 1, and its text, truncated for a message."""

    line: int
    text: str


def nearest_line(lines: Sequence[str], target: str) -> Nearest | None:
    """Return the first of the most similar lines, or None if no line is similar."""
    if not target.strip():
        return None
    from rapidfuzz import fuzz, process

    # truncate first: the cost of a comparison grows with the length of both
    choices = [line.strip()[:SHOWN] for line in lines[:_LINES_MAX]]
    best = process.extractOne(target.strip()[:SHOWN], choices, scorer=fuzz.ratio, score_cutoff=_MIN_SIMILARITY)
    return None if best is None else Nearest(best[2] + 1, quote(lines[best[2]]))


def quote(line: str) -> str:
    """Return a line for an error message: no line ending, no invalid bytes, at most 200 characters."""
    bare = visible(line.rstrip("\r\n"))
    return bare if len(bare) <= SHOWN else bare[:SHOWN] + "…"
