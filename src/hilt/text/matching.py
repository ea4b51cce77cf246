"""Where an edit applies: the one place that matches old_text, and the text to write there."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.text.encodings import Span, visible
from hilt.text.lines import count_lines, dominant_ending, line_number, occurrences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.text.likeness import TextPage

_LISTED_MAX = 10  # line numbers in an error
_MANY = 1000  # more occurrences share one line ending: finding the nearest for each could take long
_OCCURRENCES_MAX = 100_000  # for one edit
_BARE_FEED = re.compile(r"(?<!\r)\n")


class EditMatch(NamedTuple):
    """The change to make, whether old_text matched exactly, and the lines, from 1, that it covers.

    If several occurrences change, the span is that of the first, and the lines cover all of them.
    """

    span: Span
    exact: bool
    first_line: int
    last_line: int
    occurrences: int = 1


def find_edit(
    text: str,
    old_text: str,
    new_text: str,
    *,
    path: str,
    fuzzy_indent: bool = False,
    read: Callable[[str], TextPage] | None = None,
    nearest: bool = True,
) -> EditMatch:
    """Return the only change that replaces old_text with new_text; raise unless there is exactly one.

    `read` prepares the text for comparison, for callers that cache pages. Without `nearest`, the error does not name
    the nearest line: finding it takes longer than everything else.
    """
    if not old_text:
        raise ToolError("old_text_empty", f"old_text is empty; it must match one place in {path}.")
    exact = list(islice(occurrences(text, old_text), _LISTED_MAX))
    if len(exact) > 1:
        # beyond those listed, overlapping occurrences count once, so that one pass is enough
        more = text.count(old_text, exact[-1] + 1) if len(exact) == _LISTED_MAX else 0
        raise _not_unique(text, exact, len(exact) + more, path)
    if exact:
        span = _span_at(text, exact[0], old_text, new_text, fuzzy_indent=fuzzy_indent)
        return _match(text, span, path, exact=True)
    from hilt.text.likeness import read_page

    page = (read or read_page)(text)
    match = match_fuzzy(page, old_text, new_text, path=path, fuzzy_indent=fuzzy_indent)
    if match is None:
        raise _not_found(page, old_text, path, fuzzy_indent=fuzzy_indent, nearest=nearest)
    return match


def find_all(text: str, old_text: str, new_text: str, *, path: str, fuzzy_indent: bool) -> list[Span]:
    """Return the changes that replace every occurrence of old_text, from left to right; none if it does not occur."""
    if old_text not in text and "\r\n" in text:
        old_text = _BARE_FEED.sub("\r\n", old_text)
    count = text.count(old_text)
    if count > _OCCURRENCES_MAX:
        advice = "Replace a longer text that occurs less often."
        raise ToolError(
            "limit_exceeded",
            f"old_text occurs {count} times in {path}; the limit is {_OCCURRENCES_MAX}.",
            suggestion=advice,
        )
    ending = dominant_ending(text) if count > _MANY else None
    spans: list[Span] = []
    at = text.find(old_text)
    while at >= 0:
        span = _span_at(text, at, old_text, new_text, fuzzy_indent=fuzzy_indent, ending=ending)
        if spans and span.start < spans[-1].end:
            raise ToolError("edit_overlap", f"Two occurrences of old_text in {path} share a line ending.")
        spans.append(span)
        at = text.find(old_text, at + len(old_text))
    if spans and all(span.new == text[span.start : span.end] for span in spans):
        raise _no_change(path)
    return spans


def _span_at(
    text: str, at: int, old_text: str, new_text: str, *, fuzzy_indent: bool, ending: str | None = None
) -> Span:
    start, end = at, at + len(old_text)
    if fuzzy_indent:
        from hilt.text.indentation import adopt_indent

        new_text = adopt_indent(text, at, old_text, new_text)
    # if old_text has both line endings, those of new_text are literal
    literal = "\r\n" in old_text and _BARE_FEED.search(old_text) is not None
    original = new_text
    if not literal:
        new_text = new_text.replace("\r\n", "\n")
    if text[start] == "\n" and text[start - 1 : start] == "\r":
        start -= 1  # never split a CRLF
        new_text = "\r" + new_text if new_text.startswith("\n") else new_text
    new = new_text if literal else _BARE_FEED.sub(ending or _ending_at(text, start, end), new_text)
    if new == text[start:end] and "\r\n" in original:
        new = original  # only the line endings change
    return Span(start, end, new)


def match_fuzzy(page: TextPage, old_text: str, new_text: str, *, path: str, fuzzy_indent: bool) -> EditMatch | None:
    """Return the only change at a place similar to old_text, or None if there is none."""
    # deferred: most edits match exactly and do not need them
    from hilt.text.indentation import adopt_indent
    from hilt.text.likeness import PLACES_MAX, find_reindented, find_similar, rewrite

    text = page.text
    places = find_similar(page, old_text)
    if not places and fuzzy_indent:
        places = find_reindented(page, old_text)
    if not places:
        return None
    if len(places) > 1:
        starts = [place.start for place in places]
        raise _not_unique(text, starts, len(places), path, is_minimum=len(places) >= PLACES_MAX)
    place = places[0]
    if fuzzy_indent and not place.indents:
        new_text = adopt_indent(text, place.start, old_text, new_text)
    if "\r\n" in old_text and "\r\n" not in text[place.start : place.end]:
        new_text = new_text.replace("\r\n", "\n")  # old_text uses CRLF where the file does not
    new = rewrite(page, place, new_text, _ending_at(text, place.start, place.end))
    return _match(text, Span(place.start, place.end, new), path, exact=False)


def _match(text: str, span: Span, path: str, *, exact: bool) -> EditMatch:
    if span.new == text[span.start : span.end]:
        raise _no_change(path)
    first = line_number(text, span.start)
    return EditMatch(span, exact, first, first + text.count("\n", span.start, span.end - 1))


def _no_change(path: str) -> ToolError:
    return ToolError("edit_no_change", f"The edit would not change {path}: old_text and new_text are equivalent.")


def _ending_at(text: str, start: int, end: int) -> str:
    """Return the line ending for new text: the one that it replaces, or else that of the surrounding lines."""
    if "\n" in text[start:end]:
        return dominant_ending(text[start:end])
    feed = text.find("\n", end)
    if feed < 0:
        feed = text.rfind("\n", 0, start)
    return dominant_ending(text[max(feed - 1, 0) : feed + 1] if feed >= 0 else text)


def _not_unique(text: str, offsets: Sequence[int], count: int, path: str, *, is_minimum: bool = False) -> ToolError:
    listed = offsets[:_LISTED_MAX]
    lines = sorted({line_number(text, offset) for offset in listed})
    places = f"on line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"
    more = f" and {count - len(listed)} more" if count > len(listed) else ""
    times = f"at least {count}" if is_minimum else str(count)
    return ToolError(
        "edit_not_unique", f"old_text occurs {times} times in {path}, {places}{more}.", lines=lines, count=count
    )


def _not_found(page: TextPage, old_text: str, path: str, *, fuzzy_indent: bool, nearest: bool) -> ToolError:
    from hilt.text.likeness import find_reindented

    length = count_lines(page.text)
    message = f"old_text is not in {path}, which has {length} line{'' if length == 1 else 's'}."
    copied = [line.strip() for line in old_text.split("\n")]
    number, target = next(
        ((number, line) for number, line in enumerate(copied, 1) if line and line not in page.stripped), (1, copied[0])
    )
    closest = nearest_line(page.lines, target) if nearest else None
    suggestion = None
    details: dict[str, object] = {}
    if closest is not None:
        message += (
            f" The closest match for its line {number}, {quote(target)!r}, is line {closest.line}: {closest.text!r}."
        )
        details = {"nearest_line": closest.line, "nearest_text": closest.text}
    shifted = [] if fuzzy_indent else find_reindented(page, old_text)
    if len(shifted) == 1:
        line = line_number(page.text, shifted[0].start)
        suggestion = f"It occurs on line {line} with different indentation; pass fuzzy_indent: true."
    return ToolError("edit_not_found", message, suggestion=suggestion, **details)


class Ranges:
    """Numbered ranges. Adjacent ranges do not overlap; an empty range overlaps one that contains it."""

    def __init__(self) -> None:
        # both are sorted, because no two ranges overlap
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._numbers: list[int] = []

    def overlapping(self, start: int, end: int) -> list[int]:
        """Return the numbers of the ranges that overlap this one."""
        return self._numbers[bisect_right(self._ends, start) : bisect_left(self._starts, end)]

    def add(self, start: int, end: int, number: int = 0) -> None:
        """Add a range that overlaps no other."""
        index = bisect_right(self._starts, start)
        while index and self._ends[index - 1] > end:
            index -= 1
        self._starts.insert(index, start)
        self._ends.insert(index, end)
        self._numbers.insert(index, number)


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
