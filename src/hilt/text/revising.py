"""A text with pending replacements, which can be searched without rebuilding the text each time.

Searching for many parts one by one reads the whole text once per part. A sweep reads it once for all parts: it samples
the text at every stride-th character, and each part has a window of offsets, one of which is sampled in any occurrence.
The text of replacements is sampled at every character when it is added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hilt.text.encodings import Span
from hilt.text.lines import occurrences

SEARCHES = 16  # single searches of a text before a sweep pays off
_STRIDES = (16, 8, 4, 2, 1)
_SHORT_STRIDE = 2  # up to this stride, there is a sweep for each length of a part
_PARTS_MIN = 128  # for a sweep to pay off at stride 1; fewer at longer strides
_PARTS_PER_SWEEP = 8192
_SAMPLES_MAX = 64  # samples of a part to choose its window from
_HITS_MAX = 16  # places stored per sample; more common samples are not used
_SPANS_MAX = 256  # replacements whose surroundings are searched one by one
_BLOCKS = 256  # blocks of the text, each with a line count


class _SampleWindow(NamedTuple):
    """The samples used to find a part: the offset of the first, how many there are, and their length."""

    start: int
    stride: int
    size: int

    def samples(self, part: str) -> Iterator[tuple[int, str]]:
        for offset in range(self.start, self.start + self.stride):
            yield offset, part[offset : offset + self.size]


class SamplePlaces:
    """The places in a text where samples of the parts to search for occur."""

    def __init__(self, text: str, parts: Sequence[str]) -> None:
        self.text = text
        self.hits: dict[str, list[int]] = {}
        self.sizes: set[int] = set()
        self._parts = parts
        self._windows: dict[str, _SampleWindow] = {}
        self._searches = 0

    def window(self, part: str) -> _SampleWindow | None:
        """Return the sample window of a part; None if the whole text must be searched instead."""
        self._searches += 1
        if self._searches == SEARCHES:
            self._sweep_all()
        return self._windows.get(part)

    def _sweep_all(self) -> None:
        groups: dict[tuple[int, int], list[str]] = {}
        for part in dict.fromkeys(self._parts):
            stride = next((stride for stride in _STRIDES if 4 * stride <= len(part)), None)
            if stride is not None:
                # short samples occur too often: short parts have samples as long as possible
                shortest = 4 * stride if stride > _SHORT_STRIDE else len(part)
                groups.setdefault((stride, shortest - stride + 1), []).append(part)
        for (stride, size), parts in groups.items():
            for first in range(0, len(parts), _PARTS_PER_SWEEP):
                batch = parts[first : first + _PARTS_PER_SWEEP]
                if len(batch) * stride >= _PARTS_MIN:
                    self._sweep(batch, stride, size)

    def _sweep(self, parts: Sequence[str], stride: int, size: int) -> None:
        hits_of: dict[str, list[int]] = {
            part[at : at + size]: [] for part in parts for at in range(min(len(part) - size + 1, _SAMPLES_MAX))
        }
        text = self.text
        for at in range(0, len(text) - size + 1, stride):
            hits = hits_of.get(text[at : at + size])
            if hits is not None and len(hits) <= _HITS_MAX:
                hits.append(at)
        for part in parts:
            counts = [len(hits_of[part[at : at + size]]) for at in range(min(len(part) - size + 1, _SAMPLES_MAX))]
            sums = [sum(counts[at : at + stride]) for at in range(len(counts) - stride + 1)]
            window = _SampleWindow(sums.index(min(sums)), stride, size)
            samples = [sample for _, sample in window.samples(part)]
            if all(len(hits_of[sample]) <= _HITS_MAX for sample in samples):
                self._windows[part] = window
                self.sizes.add(size)
                self.hits.update((sample, hits_of[sample]) for sample in samples)


class Revision:
    """A text and its pending replacements, which do not overlap.

    Offsets refer to the original text. Search results apply to the text after the replacements.
    """

    def __init__(self, places: SamplePlaces) -> None:
        self.text = places.text
        self.spans: list[Span] = []  # in the order of the text
        self.latest = Span(0, 0, "")
        self._places = places
        self._starts: list[int] = []
        self._block = len(self.text) // _BLOCKS + 1
        self._growth: list[tuple[int, int]] = []  # lines and characters added by each replacement
        self._blocks: list[tuple[int, int]] = []  # lines and added characters of each block
        # by sample: the start of a replacement, and the offset from it
        self._new_hits: dict[str, list[tuple[int, int]]] | None = None

    def find_only(self, part: str) -> int | None:
        """Return the offset of the part; None unless it occurs exactly once and not in replaced text."""
        window = self._places.window(part)
        places = self._by_search(part) if window is None else self._by_samples(part, window)
        return next(iter(places)) if places is not None and len(places) == 1 else None

    def _by_search(self, part: str) -> set[int] | None:
        if len(self.spans) > _SPANS_MAX:
            return None
        places: set[int] = set()
        for at in occurrences(self.text, part):
            if not self.touches(at, at + len(part)):
                places.add(at)
            if len(places) > 1:
                return None
        size = len(part) - 1
        for span in self.spans:
            if part in self.before(span.start, size) + span.new + self.after(span.end, size):
                return None
        return places

    def _by_samples(self, part: str, window: _SampleWindow) -> set[int] | None:
        if self._new_hits is None:
            self._new_hits = {}
            for span in self.spans:
                self._sample(span, self._new_hits)
        places: set[int] = set()
        for offset, sample in window.samples(part):
            for at in self._places.hits[sample]:
                if self.touches(at, at + window.size):
                    continue
                start, end = at - offset, at - offset + len(part)
                if not self.touches(max(start, 0), end):
                    if self.text.startswith(part, start) and start >= 0:
                        places.add(start)
                elif self.before(at, offset) + self.after(at, len(part) - offset) == part:
                    return None
            new_hits = self._new_hits.get(sample, ())
            if len(new_hits) > _HITS_MAX or any(self._occurs(part, at, away - offset) for at, away in new_hits):
                return None
        return places

    def _occurs(self, part: str, at: int, away: int) -> bool:
        """Whether the part starts `away` characters after the start of the replacement at offset `at`."""
        span = self.spans[bisect_left(self._starts, at)]
        head = self.before(at, -away) if away < 0 else ""
        if len(head) < -away:
            return False
        behind = span.new[max(away, 0) :][: len(part) - len(head)]
        return part == head + behind + self.after(span.end, len(part) - len(head) - len(behind))

    def touches(self, start: int, end: int) -> bool:
        """Whether a replacement overlaps the range between two offsets."""
        index = bisect_left(self._starts, end) - 1  # the last one that starts before the end
        return index >= 0 and self.spans[index].end > start

    def add(self, span: Span) -> None:
        """Add a replacement that does not overlap any other."""
        index = bisect_left(self._starts, span.start)
        growth = (
            span.new.count("\n") - self.text.count("\n", span.start, span.end),
            len(span.new) - (span.end - span.start),
        )
        self.latest = span
        self.spans.insert(index, span)
        self._starts.insert(index, span.start)
        self._growth.insert(index, growth)
        if self._blocks:
            block = span.start // self._block
            lines, characters = self._blocks[block]
            self._blocks[block] = lines + growth[0], characters + growth[1]
        if self._new_hits is not None:
            self._sample(span, self._new_hits)

    def _sample(self, span: Span, new_hits: dict[str, list[tuple[int, int]]]) -> None:
        for size in self._places.sizes:
            head = self.before(span.start, size - 1)
            surroundings = head + span.new + self.after(span.end, size - 1)
            for at in range(len(surroundings) - size + 1):
                sample = surroundings[at : at + size]
                if sample in self._places.hits:
                    new_hits.setdefault(sample, []).append((span.start, at - len(head)))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line, from 1, and the offset that a place has after the replacements."""
        if not self._blocks:
            starts = range(0, len(self.text) + 1, self._block)
            self._blocks = [(self.text.count("\n", start, start + self._block), 0) for start in starts]
            for start, (more_lines, more_characters) in zip(self._starts, self._growth, strict=True):
                lines, characters = self._blocks[start // self._block]
                self._blocks[start // self._block] = lines + more_lines, characters + more_characters
        block = offset // self._block
        first = bisect_left(self._starts, block * self._block)
        in_block = self._growth[first : bisect_left(self._starts, offset)]
        lines = 1 + self.text.count("\n", block * self._block, offset)
        for more_lines, more_characters in (*self._blocks[:block], *in_block):
            lines += more_lines
            offset += more_characters
        return lines, offset

    def before(self, at: int, count: int) -> str:
        """Return up to `count` characters before an offset that is not inside a replacement."""
        pieces: list[str] = []
        index = bisect_left(self._starts, at)
        while count > 0:
            floor = self.spans[index - 1].end if index else 0
            pieces.append(self.text[max(floor, at - count) : at])
            count -= len(pieces[-1])
            if not index or count <= 0:
                break
            index -= 1
            pieces.append(self.spans[index].new[-count:])
            count -= len(pieces[-1])
            at = self.spans[index].start
        return "".join(reversed(pieces))

    def after(self, at: int, count: int) -> str:
        """Return up to `count` characters from an offset that is not inside a replacement."""
        pieces: list[str] = []
        index = bisect_left(self._starts, at)
        while count > 0:
            ceiling = self._starts[index] if index < len(self.spans) else len(self.text)
            pieces.append(self.text[at : min(ceiling, at + count)])
            count -= len(pieces[-1])
            if index == len(self.spans) or count <= 0:
                break
            pieces.append(self.spans[index].new[:count])
            count -= len(pieces[-1])
            at = self.spans[index].end
            index += 1
        return "".join(pieces)
