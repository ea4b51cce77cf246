"""The line of a file that most resembles a line which is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hilt.text.encodings import visible

SHOWN = 200  # characters of a line that an error quotes
_LEAST_LIKENESS = 40
_COMPARED = 100_000  # lines of a file that are compared; of a longer file only its beginning


class Nearest(NamedTuple):
    """A line by its number, counted from 1, and its text, cut for a message."""

    line: int
    text: str


def nearest_line(lines: Sequence[str], wanted: str) -> Nearest | None:
    """Return the first of the most similar lines, or None when nothing resembles the wanted one."""
    if not wanted.strip():
        return None
    from rapidfuzz import fuzz, process

    # cut first: the cost of a comparison grows with the length of both
    choices = [line.strip()[:SHOWN] for line in lines[:_COMPARED]]
    found = process.extractOne(wanted.strip()[:SHOWN], choices, scorer=fuzz.ratio, score_cutoff=_LEAST_LIKENESS)
    return None if found is None else Nearest(found[2] + 1, quote(lines[found[2]]))


def quote(line: str) -> str:
    """Return a line as an error shows it: no ending, no stray bytes, at most 200 characters."""
    bare = visible(line.rstrip("\r\n"))
    return bare if len(bare) <= SHOWN else bare[:SHOWN] + "…"
