"""Finds where the hunks of a patch apply, and the changes they make there."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, groupby, islice

from hilt.errors import ToolError
from hilt.text.encodings import Span
from hilt.text.likeness import fold
from hilt.text.lines import dominant_ending, split_lines
from hilt.text.matching import Ranges, nearest_line, quote
from hilt.text.operations import Operation, PatchHunk, PatchLine

_LISTED_MAX = 10  # line numbers in an error
_PLACES_MAX = 100  # places to check before a hunk is rejected as ambiguous
_LONE_RETURN = re.compile(r"\r(?!\n)")
_ANY_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def apply_hunks(text: str, operation: Operation, *, as_codex: bool = False) -> list[Span]:
    """Return the changes, in order, that the hunks make to the text; raise unless each hunk matches one place.

    The spans contain only removed and added lines. Added lines get the line ending of the lines they replace, or else
    the most common one of the file. If a unified diff matches the file including line endings, they are written
    unchanged. `as_codex`: a hunk takes the first match after the previous hunk, and added lines get the line ending of
    the first line of the file.
    """
    as_codex = as_codex and not operation.unified
    try:
        return _Placement(text, split_lines(text), operation, as_codex).spans()
    except ToolError as conflict:
        if operation.unified or _LONE_RETURN.search(text) is None:
            raise
        try:
            # in the Codex format a carriage return also ends a line
            return _Placement(text, _ANY_LINE.findall(text), operation, as_codex).spans()
        except ToolError:
            raise conflict from None


def _literal(line: str) -> str:
    return line.removesuffix("\n")


def _bare(line: str) -> str:
    return line.rstrip("\r\n")


def _unpadded(line: str) -> str:
    return line.rstrip()


def _unspaced(line: str) -> str:
    return "".join(line.split())


def _normalized(line: str) -> str:
    from unicodedata import normalize

    return _unspaced(fold(normalize("NFKC", line)))


_Form = Callable[[str], str]
_FORMS: tuple[_Form, ...] = (_bare, _unpadded, _unspaced, _normalized)


def _only_appends(hunk: PatchHunk) -> bool:
    return not hunk.anchors and hunk.old_start is None and all(line.kind == "added" for line in hunk.lines)


class _View:
    """The lines of a text in one normalized form."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._joined = "\n" + "\n".join(lines) + "\n"
        self._feeds = list(accumulate((len(line) + 1 for line in lines), initial=0))

    def search(self, target: Sequence[str], first: int) -> Iterator[int]:
        """Yield each line number, from `first` on, where a sequence of lines starts."""
        part = "\n" + "\n".join(target) + "\n"
        at = self._joined.find(part, self._feeds[first])
        while at >= 0:
            yield bisect_left(self._feeds, at)
            at = self._joined.find(part, at + 1)


class _Placement:
    """Places the hunks of one operation in a text."""

    def __init__(self, text: str, lines: list[str], operation: Operation, as_codex: bool) -> None:
        self.lines = lines
        self.operation = operation
        self.as_codex = as_codex
        self.forms = (_literal, *_FORMS) if operation.unified else _FORMS
        self.offsets = list(accumulate(map(len, lines), initial=0))
        self.ending = dominant_ending(lines[0] if as_codex and lines else text)
        self.unended = bool(lines) and not lines[-1].endswith(("\n", "\r"))
        self.views: dict[_Form, _View] = {}
        self.occupied = Ranges()  # the lines of earlier hunks
        self.next_line = 0  # after the previous hunk
        self.drift = 0  # how far the previous hunk is from its stated line
        self.number = 0  # of the current hunk, from 1

    def spans(self) -> list[Span]:
        spans: list[Span] = []
        # lines for the end of the file come last: the hunks after them are still in file order
        for number, hunk in sorted(enumerate(self.operation.hunks, 1), key=lambda pair: _only_appends(pair[1])):
            self.number = number
            spans += self._apply(hunk)
        return sorted(spans, key=lambda span: (span.start, span.end))

    def _apply(self, hunk: PatchHunk) -> Iterator[Span]:
        placed = self._place(hunk)
        if placed is None and hunk.lines[-1][:2] == ("context", ""):
            # blank lines before the next marker often do not belong to the hunk
            size = len(hunk.lines)
            while size and hunk.lines[size - 1][:2] == ("context", ""):
                size -= 1
            hunk = hunk._replace(lines=hunk.lines[:size])
            placed = self._place(hunk)
        if placed is None:
            old = [line.text for line in hunk.lines if line.kind != "added"]
            raise self._not_found(old, "line", at_end=hunk.at_end)
        first, form = placed
        size = sum(line.kind != "added" for line in hunk.lines)
        if not self.occupied.overlapping(first, first + size):  # an insertion may be inside an earlier hunk
            self.occupied.add(first, first + size)
        self.next_line = first + size
        if hunk.old_start is not None and size:
            self.drift = first - (hunk.old_start - 1)
        yield from self._changes(hunk.lines, first, literal=form is _literal)

    def _place(self, hunk: PatchHunk) -> tuple[int, _Form] | None:
        """Return the line at which the hunk applies and the strictest form in which it matches."""
        old = [line.text for line in hunk.lines if line.kind != "added"]
        if not old:
            # without old lines, the line endings of the patch cannot be compared with those of the file
            return self._insertion(hunk), _literal if self.operation.unified and self.ending == "\n" else _bare
        for form in self.forms:
            first = self._fit(hunk, [form(line) for line in old], form)
            if first is not None:
                return first, form
        return None

    def _insertion(self, hunk: PatchHunk) -> int:
        if hunk.anchors:
            places = [anchor + 1 for anchor in self._anchors(hunk.anchors) if anchor + 1 >= self._floor()]
            if not places:
                raise self._not_found(hunk.anchors[-1:], "anchor")
            return self._only(places)
        if hunk.old_start is None or hunk.at_end:
            return len(self.lines)
        # an empty range states the line before it
        first = hunk.old_start - (hunk.old_count != 0) + self.drift
        return min(max(first, 0), len(self.lines))

    def _fit(self, hunk: PatchHunk, target: list[str], form: _Form) -> int | None:
        view, size = self._view(form), len(target)
        last = len(self.lines) - size

        def fits(first: int) -> bool:
            return 0 <= first <= last and view.lines[first : first + size] == target and self._is_free(first, size)

        if hunk.at_end:
            return next((first for first in (last, last - self._blank_tail) if fits(first)), None)
        if hunk.old_start is not None:
            stated = hunk.old_start - 1
            guess = next((first for first in (stated + self.drift, stated) if fits(first)), None)
            if guess is not None:
                return guess
        anchors = self._anchors(hunk.anchors) if hunk.anchors else [self._floor()]
        matches = (first for first in view.search(target, anchors[0]) if self._is_free(first, size))
        places = list(islice(matches, _PLACES_MAX))
        if hunk.anchors:
            # an anchor selects the first place below it; one that occurs twice may select two
            below = (bisect_left(places, anchor) for anchor in anchors)
            places = sorted({places[index] for index in below if index < len(places)})
        return self._only(places) if places else None

    def _anchors(self, anchors: Sequence[str]) -> list[int]:
        """Return the lines that match the last anchor, each the first below a match of the previous anchor."""
        lines = self._find_anchor(anchors[0], self._floor())
        if not lines:
            # a second hunk in a function may repeat the anchor of the first
            lines = self._find_anchor(anchors[0], 0)[-1:]
        for anchor in anchors[1:]:
            matches = self._find_anchor(anchor, lines[0] + 1) if lines else []
            below = (bisect_left(matches, line + 1) for line in lines)
            lines = sorted({matches[index] for index in below if index < len(matches)})
        if not lines:
            raise self._not_found(anchors, "anchor")
        return lines

    def _find_anchor(self, anchor: str, first: int) -> list[int]:
        searches = (self._view(form).search([form(anchor)], first) for form in _FORMS)
        return next(filter(None, (list(islice(search, _PLACES_MAX)) for search in searches)), [])

    def _floor(self) -> int:
        """Return the first line to search: in the Codex format, hunks are in file order."""
        return 0 if self.operation.unified else self.next_line

    def _is_free(self, first: int, size: int) -> bool:
        return first >= self._floor() and not self.occupied.overlapping(first, first + size)

    @cached_property
    def _blank_tail(self) -> int:
        if self.operation.unified:
            return 0
        return next((n for n, line in enumerate(reversed(self.lines)) if line.strip()), len(self.lines))

    def _view(self, form: _Form) -> _View:
        if form not in self.views:
            self.views[form] = _View([form(line) for line in self.lines])
        return self.views[form]

    def _changes(self, lines: Sequence[PatchLine], at: int, *, literal: bool) -> Iterator[Span]:
        """Yield a span for each run of removed and added lines of a hunk whose first old line is line `at`."""
        for context, run in groupby(lines, key=lambda line: line.kind == "context"):
            part = list(run)
            removed = sum(line.kind == "removed" for line in part)
            if not context:
                added = [line for line in part if line.kind == "added"]
                yield Span(self.offsets[at], self.offsets[at + removed], self._written(added, at, removed, literal))
            at += len(part) if context else removed

    def _written(self, added: Sequence[PatchLine], at: int, removed: int, literal: bool) -> str:
        replaced = "".join(self.lines[at : at + removed])
        from_replaced = "\n" in replaced and not self.as_codex
        ending = "\n" if literal else dominant_ending(replaced) if from_replaced else self.ending
        pieces: list[str] = []
        if at + removed == len(self.lines):
            if self.unended and added and not removed:
                pieces.append(ending)
            self.unended = False
        texts = (line.text if literal else line.text.removesuffix("\r") for line in added)
        pieces += (text + ending * line.ended for text, line in zip(texts, added, strict=True))
        return "".join(pieces)

    def _only(self, places: Sequence[int]) -> int:
        if len(places) == 1 or self.as_codex:
            return places[0]
        lines = [place + 1 for place in places[:_LISTED_MAX]]
        more = f" and {len(places) - len(lines)} more" if len(places) > len(lines) else ""
        raise self._conflict(
            f"matches {len(places)} places, at lines {', '.join(map(str, lines))}{more}.",
            "Add context lines, or an '@@' line with the function or class above, so that it matches only one place.",
            lines=lines,
        )

    def _not_found(self, target: Sequence[str], what: str, *, at_end: bool = False) -> ToolError:
        present = set(self._view(_unspaced).lines)
        missing = next((line for line in target if _unspaced(line) not in present), None)
        nearest = nearest_line(self.lines, target[0] if missing is None else missing)
        if missing is None:
            places = self._view(_unspaced).search([_unspaced(line) for line in target], 0)
            where = "at its end" if at_end else "below its anchor or the previous hunk"
            where = where if next(places, None) is not None else "in this order"
            message = f"does not match: its lines from {quote(target[0])!r} on are in the file, but not {where}."
        else:
            message = f"does not match: its {what} {quote(missing)!r} is not in the file."
        if nearest is None:
            return self._conflict(message)
        message += f" The closest match is line {nearest.line}: {nearest.text!r}."
        return self._conflict(message, nearest_line=nearest.line, nearest_text=nearest.text)

    def _conflict(self, message: str, suggestion: str | None = None, **details: object) -> ToolError:
        path = self.operation.path
        message = f"Hunk {self.number} for {path} {message}"
        return ToolError("patch_conflict", message, suggestion=suggestion, path=path, hunk=self.number, **details)
