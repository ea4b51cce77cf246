"""Where an edit applies: the one place that old_text can mean, and what is written there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hilt.errors import ToolError
from hilt.text.encodings import Span
from hilt.text.lines import count_lines, dominant_ending, line_number, occurrences

if TYPE_CHECKING:
    from hilt.text.likeness import TextPage

_LISTED = 10  # line numbers that an error names
_BARE_FEED = re.compile(r"(?<!\r)\n")


class EditMatch(NamedTuple):
    """The change to make, whether old_text was found as it stands, and the lines, from 1, that it covers."""

    span: Span
    exact: bool
    first_line: int
    last_line: int


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
    """Return the only change that puts new_text in place of old_text; an error says why there is none.

    `read` prepares the text for comparison, for callers that keep pages. Without `nearest`, an error does not name the
    nearest line: to find it takes longer than all the rest.
    """
    if not old_text:
        raise ToolError("old_text_empty", f"old_text is empty, so it names no place in {path}.")
    exact = list(islice(occurrences(text, old_text), _LISTED))
    if len(exact) > 1:
        # beyond those listed, overlapping ones are counted once: a count in one sweep, whatever the text repeats
        more = text.count(old_text, exact[-1] + 1) if len(exact) == _LISTED else 0
        raise _not_unique(text, exact, len(exact) + more, path)
    if exact:
        return match_at(text, exact[0], old_text, new_text, path=path, fuzzy_indent=fuzzy_indent)
    from hilt.text.likeness import read_page

    page = (read or read_page)(text)
    match = match_alike(page, old_text, new_text, path=path, fuzzy_indent=fuzzy_indent)
    if match is None:
        raise _not_found(page, old_text, path, fuzzy_indent=fuzzy_indent, nearest=nearest)
    return match


def match_at(text: str, at: int, old_text: str, new_text: str, *, path: str, fuzzy_indent: bool) -> EditMatch:
    """Return the change that puts new_text in place of the old_text at an offset of the text."""
    start, end = at, at + len(old_text)
    if fuzzy_indent:
        from hilt.text.indentation import settle

        new_text = settle(text, at, old_text, new_text)
    # an old_text that tells both endings apart means those of new_text as they are
    literal = "\r\n" in old_text and _BARE_FEED.search(old_text) is not None
    written = new_text
    if not literal:
        new_text = new_text.replace("\r\n", "\n")
    if text[start] == "\n" and text[start - 1 : start] == "\r":
        start -= 1  # a line ending is kept or replaced whole
        new_text = "\r" + new_text if new_text.startswith("\n") else new_text
    new = new_text if literal else _BARE_FEED.sub(_ending_at(text, start, end), new_text)
    if new == text[start:end] and "\r\n" in written:
        new = written  # nothing but the endings is to change
    return _match(text, Span(start, end, new), path, exact=True)


def match_alike(page: TextPage, old_text: str, new_text: str, *, path: str, fuzzy_indent: bool) -> EditMatch | None:
    """Return the only change at a place that is like old_text, None when no place is."""
    # imported here: most edits are exact and need none of it
    from hilt.text.indentation import settle
    from hilt.text.likeness import MOST_PLACES, alike, indented, rewrite

    text = page.text
    places = alike(page, old_text)
    if not places and fuzzy_indent:
        places = indented(page, old_text)
    if not places:
        return None
    if len(places) > 1:
        starts = [place.start for place in places]
        raise _not_unique(text, starts, len(places), path, least=len(places) >= MOST_PLACES)
    place = places[0]
    if fuzzy_indent and not place.indents:
        new_text = settle(text, place.start, old_text, new_text)
    if "\r\n" in old_text and "\r\n" not in text[place.start : place.end]:
        new_text = new_text.replace("\r\n", "\n")  # its author writes CRLF for whatever the file has
    new = rewrite(page, place, new_text, _ending_at(text, place.start, place.end))
    return _match(text, Span(place.start, place.end, new), path, exact=False)


def _match(text: str, span: Span, path: str, *, exact: bool) -> EditMatch:
    if span.new == text[span.start : span.end]:
        raise ToolError(
            "edit_no_change", f"The edit would leave {path} as it is: old_text and new_text are equivalent."
        )
    first = line_number(text, span.start)
    return EditMatch(span, exact, first, first + text.count("\n", span.start, span.end - 1))


def _ending_at(text: str, start: int, end: int) -> str:
    """Return the line ending that text written there takes: the one it replaces, else that of the lines around it."""
    if "\n" in text[start:end]:
        return dominant_ending(text[start:end])
    feed = text.find("\n", end)
    if feed < 0:
        feed = text.rfind("\n", 0, start)
    return dominant_ending(text[max(feed - 1, 0) : feed + 1] if feed >= 0 else text)


def _not_unique(text: str, offsets: Sequence[int], count: int, path: str, *, least: bool = False) -> ToolError:
    listed = offsets[:_LISTED]
    lines = sorted({line_number(text, offset) for offset in listed})
    places = f"on line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"
    rest = f" and {count - len(listed)} more" if count > len(listed) else ""
    times = f"at least {count}" if least else str(count)
    return ToolError(
        "edit_not_unique", f"old_text occurs {times} times in {path}, {places}{rest}.", lines=lines, count=count
    )


def _not_found(page: TextPage, old_text: str, path: str, *, fuzzy_indent: bool, nearest: bool) -> ToolError:
    from hilt.text.likeness import indented
    from hilt.text.nearest import nearest_line, quote

    length = count_lines(page.text)
    message = f"old_text is not in {path}, which has {length} line{'' if length == 1 else 's'}."
    copied = [line.strip() for line in old_text.split("\n")]
    number, wanted = next(
        ((number, line) for number, line in enumerate(copied, 1) if line and line not in page.stripped), (1, copied[0])
    )
    like = nearest_line(page.lines, wanted) if nearest else None
    suggestion = None
    details: dict[str, object] = {}
    if like is not None:
        message += f" The nearest to its line {number}, {quote(wanted)!r}, is line {like.line}: {like.text!r}."
        details = {"nearest_line": like.line, "nearest_text": like.text}
    shifted = [] if fuzzy_indent else indented(page, old_text)
    if len(shifted) == 1:
        line = line_number(page.text, shifted[0].start)
        suggestion = f"It is on line {line} with another indentation: pass fuzzy_indent: true."
    return ToolError("edit_not_found", message, suggestion=suggestion, **details)
