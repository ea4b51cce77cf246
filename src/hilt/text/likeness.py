"""Finds places that match a model's copy of a text except for whitespace, quotes, dashes or line endings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

from hilt.text.indentation import map_indents, reindent
from hilt.text.lines import occurrences
from hilt.text.sequences import equal_runs

BLANKS = " \t\f\v"
STRAY = "\ufffd"

_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b"
_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f"

# one character for one, so that offsets in the folded text are valid in the original text
_FOLDED = {ord(character): " " for character in _SPACES}
_FOLDED |= {ord(character): "-" for character in _DASHES}
_FOLDED |= {ord(character): "'" for character in _SINGLE_QUOTES}
_FOLDED |= {ord(character): '"' for character in _DOUBLE_QUOTES}
# invalid bytes are shown as U+FFFD, which a model then sends back
_FOLDED |= dict.fromkeys(range(0xDC80, 0xDD00), STRAY)

_FOLDABLE = "[" + "".join(map(chr, _FOLDED)) + "]"

_TRAILING = BLANKS + "\r"
PLACES_MAX = 100  # the search for a copy stops after this many places


class TextPage:
    """A text prepared for comparison: its line ending, its lines, raw and normalized (plain), and their offsets."""

    def __init__(self, text: str, feed: str, lines: list[str], plain: list[str], starts: list[int]) -> None:
        self.text = text
        self.feed = feed
        self.lines = lines
        self.plain = plain
        self.starts = starts

    @cached_property
    def joined(self) -> str:
        """The plain lines as one text; the last line gets an ending, because a copy may add a missing one."""
        return "\n".join(self.plain) + "\n" * bool(self.plain[-1])

    @cached_property
    def unindented(self) -> str:
        """The plain lines without their indentation as one text, with a line feed before and after each."""
        return "\n" + "\n".join(line.strip() for line in self.plain) + "\n"

    @cached_property
    def stripped(self) -> frozenset[str]:
        """Every plain line without its indentation."""
        return frozenset(line.strip() for line in self.plain)


class TextPlace(NamedTuple):
    """Characters start to end of a page, and the plain lines of the copy that match its lines, one to one.

    If the copy ends with a line ending that the file lacks, `unended` is set and the copy has no line for it.
    `indents` maps each indentation of the copy to that of the file.
    """

    start: int
    end: int
    copy: list[str]
    unended: bool = False
    indents: Mapping[str, str] = {}


def read_page(text: str) -> TextPage:
    """Prepare a text for comparison; CR ends its lines only if it has no LF at all (classic Mac)."""
    feed = "\r" if "\r" in text and "\n" not in text else "\n"
    lines = text.split(feed)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    return TextPage(text, feed, lines, _plain_lines(text, feed), starts)


def find_similar(page: TextPage, copy: str) -> list[TextPlace]:
    """Return the first places that differ from the copy only in trailing whitespace, quotes, dashes or line endings."""
    lines = _plain_lines(copy, "\n")
    if lines == [""]:
        return []
    haystack = page.joined
    tail = fold(copy).rpartition("\n")[2]
    part = "\n".join([*lines[:-1], tail])
    ranges = [(at, at + len(part)) for at in islice(occurrences(haystack, part), PLACES_MAX)]
    if tail != lines[-1]:
        # the file may lack trailing whitespace of the copy, but only at the end of a line
        part = "\n".join(lines)
        ranges += ((at, at + len(part)) for at in islice(occurrences(haystack, part + "\n"), PLACES_MAX))
    return [_place(page, haystack, at, end, lines) for at, end in ranges]


def find_reindented(page: TextPage, copy: str) -> list[TextPlace]:
    """Return the first places that also differ from the copy in indentation."""
    lines = _plain_lines(copy, "\n")
    body = lines[:-1] if len(lines) > 1 and not lines[-1] else lines
    if not any(body):
        return []
    haystack = page.unindented
    needle = "\n" + "\n".join(line.strip() for line in body) + "\n"
    places = []
    for at in islice(occurrences(haystack, needle), PLACES_MAX):
        first = haystack.count("\n", 0, at)
        after = first + len(body)
        indents = map_indents(body, page.plain[first:after])
        if indents is None:
            continue
        unended = body is not lines and after == len(page.lines)
        includes_ending = body is not lines and not unended
        end = (
            page.starts[after]
            if includes_ending
            else page.starts[after - 1] + len(page.lines[after - 1].removesuffix("\r"))
        )
        places.append(TextPlace(page.starts[first], end, lines if includes_ending else body, unended, indents))
    return places


def rewrite(page: TextPage, place: TextPlace, new_text: str, ending: str) -> str:
    """Return new_text for the place: lines that are also in the copy keep the file's form; new lines get `ending`."""
    file_lines = page.text[place.start : place.end].split(page.feed)
    new_lines, plain = new_text.split("\n"), _plain_lines(new_text, "\n")
    if place.unended and not plain[-1]:
        new_lines, plain = new_lines[:-1] or [""], plain[:-1] or [""]
    unchanged = {run.new + i: run.old + i for run in equal_runs(place.copy, plain) for i in range(run.length)}
    new_lines = _restore_strays(file_lines, new_lines, unchanged)
    if place.indents:
        new_lines = reindent(new_lines, place.indents)
    pieces: list[str] = []
    for index, line in enumerate(new_lines):
        old = unchanged.get(index)
        text = line if old is None else file_lines[old]
        # the last line of a place has no ending to preserve, and a CR at the end of a line is part of its ending
        after = page.feed if old is not None and old < len(file_lines) - 1 else ending
        pieces += (text.removesuffix("\r"), "\r\n" if text.endswith("\r") else after)
    return "".join(pieces[:-1])


def _plain_lines(text: str, feed: str) -> list[str]:
    return [line.rstrip(_TRAILING) for line in fold(text).split(feed)]


def _place(page: TextPage, haystack: str, at: int, end: int, lines: list[str]) -> TextPlace:
    """Return the place of haystack[at:end] in the text of the page; haystack is the joined plain lines."""
    first, last = haystack.count("\n", 0, at), haystack.count("\n", 0, end)
    start = page.starts[first] + at - (haystack.rfind("\n", 0, at) + 1)
    if last == len(page.lines):
        return TextPlace(start, len(page.text), lines[:-1], unended=True)
    return TextPlace(start, page.starts[last] + end - (haystack.rfind("\n", 0, end) + 1), lines)


def _restore_strays(file_lines: Sequence[str], new_lines: list[str], unchanged: Mapping[int, int]) -> list[str]:
    """Restore invalid bytes where changed lines have U+FFFD in their place."""
    unchanged_old = set(unchanged.values())
    strays = [c for i, line in enumerate(file_lines) if i not in unchanged_old for c in line if fold(c) == STRAY]
    changed = "".join(line for i, line in enumerate(new_lines) if i not in unchanged)
    if not strays or changed.count(STRAY) != len(strays):
        return new_lines
    supply = iter(strays)
    return [
        line if i in unchanged else "".join(next(supply) if c == STRAY else c for c in line)
        for i, line in enumerate(new_lines)
    ]


def fold(text: str) -> str:
    """Return the text with typographic quotes, dashes and spaces replaced by plain ones; the length is unchanged."""
    if text.isascii() or re.search(_FOLDABLE, text) is None:
        return text
    return text.translate(_FOLDED)
