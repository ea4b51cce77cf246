"""Parses the output of `rg --json` as a stream: keeps the first matches by path and line, and counts the others.

ripgrep writes one object per line, and all lines of a file together: begin, match and context, end. A line may be as
long as the file, so the parser does not wait for the end of a line.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from bisect import insort
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from hilt.search.reach import SearchedContents

LINE_CHARACTERS = 200
MATCHED_LINES = 20  # lines shown of a longer match
EVENT_BYTES = 1 << 20  # longer events are not kept in memory
RAW_BYTES = 2048  # shorter events are kept unparsed, because most are never shown

_BEGIN, _MATCH, _CONTEXT, _END = (b'{"type":"%s"' % kind for kind in (b"begin", b"match", b"context", b"end"))
_SUMMARY = b'"type":"summary"'
# the end of one file, and in most cases the beginning of the next, exactly as ripgrep writes them
_OFFSET = b'"binary_offset":'
_FILE_BOUNDARY = re.compile(
    _OFFSET + rb'(null|\d+),"stats":\{"elapsed":\{"secs":\d+,"nanos":\d+,"human":"[\d.]+s"\},"searches":\d+,'
    rb'"searches_with_match":\d+,"bytes_searched":\d+,"bytes_printed":\d+,"matched_lines":(\d+),"matches":(\d+)\}\}\}\n'
    rb'(?:\{"type":"begin","data":\{"path":\{"text":"\./([^"\\\n]*)"\}\}\}\n)?'
)
_CONTINUATION = bytes(range(0x80, 0xC0))  # continuation bytes of UTF-8


class SearchMatch(NamedTuple):
    """A match: its first line and column (in characters), from 1; the text of its lines; its last line."""

    line: int
    column: int
    text: str
    end_line: int


class MatchedFile(NamedTuple):
    """The matches of a file, the texts of the reported lines by number, and how much of it has changed since."""

    path: str
    matches: list[SearchMatch]
    lines: dict[int, str]
    gone_matches: int = 0
    gone_lines: int = 0  # context lines


class Events:
    """Parses the output of ripgrep; `accepts` decides whether the matches of a path count."""

    def __init__(self, accepts: Callable[[str], bool], *, keep: int, per_match: bool, per_file: int | None) -> None:
        self.counts: dict[str, int] = {}  # matches by path
        self.binary: list[str] = []  # some of the binary files
        self.truncated: dict[str, int] = {}  # files with only their first matches reported, and how many
        self.complete = False
        self._accepts = accepts
        self._keep = keep
        self._per_match = per_match  # not per line
        self._per_file = per_file
        self._kept: list[tuple[str, int, _FileEvents]] = []
        self._kept_matches = 0
        self._rest = b""
        self._long: _LongEventParser | None = None
        self._path = ""
        self._wanted = False
        self._file: _FileEvents | None = None
        self._skipping = False

    def feed(self, chunk: bytes) -> None:
        """Parse the next chunk."""
        if self._long is not None:
            chunk = self._long.feed(chunk)
            if not self._long.ended:
                return
            if self._file is not None:
                self._file.take_long(self._long)
            self._long = None
        data = self._rest + chunk if self._rest else chunk
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        self._lines(data, end)
        if len(self._rest) > EVENT_BYTES:
            self._long = _LongEventParser(self._rest)
            self._rest = b""

    def matched(self, opened: Callable[[str], AbstractContextManager[SearchedContents | None]]) -> list[MatchedFile]:
        """Return the kept matches that are still in the files that `opened` opens, sorted by path."""
        remaining = self._keep
        files = []
        for path, count, file in self._kept:
            with opened(path) as contents:
                files.append(file.matched(min(count, remaining), contents))
            remaining -= count
        return files

    def _lines(self, data: bytes, end: int) -> None:
        at = 0
        while at < end:
            if self._skipping:
                # cannot occur in text: quotation marks are escaped there
                at = data.find(_END, at, end)
                if at < 0:
                    return
                self._skipping = False
            if data.startswith(_END, at):
                at = self._next_file(data, at, end)
                continue
            stop = data.find(b"\n", at, end)
            if data.startswith(_MATCH, at) or data.startswith(_CONTEXT, at):
                if self._file is not None and stop - at > EVENT_BYTES:
                    self._file.take_long(_LongEventParser(data[at : stop + 1]))
                elif self._file is not None:
                    self._skipping = not self._file.take(data[at:stop])
            elif data.startswith(_BEGIN, at):
                path = plain(json.loads(data[at:stop])["data"]["path"])
                self._begin(path.decode("utf-8", "surrogateescape").removeprefix("./"))
            elif data.find(_SUMMARY, at, stop) >= 0:
                self.complete = True  # the summary comes last
            at = stop + 1

    def _next_file(self, data: bytes, at: int, end: int) -> int:
        """Parse the end of a file and, if it follows, the beginning of the next; return the offset of the next line."""
        boundary = _FILE_BOUNDARY.match(data, data.find(_OFFSET, at, end), end)
        if boundary is not None:
            self._end(boundary[1] != b"null", int(boundary[2]), int(boundary[3]))
            if boundary[4] is not None:
                self._begin(boundary[4].decode())
            return boundary.end()
        stop = data.find(b"\n", at, end)
        facts = json.loads(data[at:stop])["data"]
        stats = facts["stats"]
        self._end(facts["binary_offset"] is not None, stats["matched_lines"], stats["matches"])
        return stop + 1

    def _begin(self, path: str) -> None:
        self._path = path
        self._wanted = self._accepts(path)
        # matches after the last one kept are only counted
        needed = self._kept_matches < self._keep or path < self._kept[-1][0] if self._keep else False
        self._file = _FileEvents(path, self._keep, per_match=self._per_match) if self._wanted and needed else None
        self._skipping = self._file is None

    def _end(self, is_binary: bool, lines: int, matches: int) -> None:
        if not self._wanted:
            return
        if is_binary:
            if len(self.binary) < 10:
                self.binary.append(self._path)
            return
        count = matches if self._per_match else lines
        self.counts[self._path] = count
        if self._per_file is not None and count >= self._per_file:
            self.truncated[self._path] = count
        file = self._file
        if file is not None and file.count:
            insort(self._kept, (file.path, file.count, file), key=_first)
            self._kept_matches += file.count
            while self._kept_matches - self._kept[-1][1] >= self._keep:
                self._kept_matches -= self._kept.pop()[1]


def _first(entry: tuple[str, int, _FileEvents]) -> str:
    return entry[0]


def plain(value: Any) -> bytes:
    """Return the text, decoded from base64 if it is not UTF-8."""
    return value["text"].encode() if "text" in value else b64decode(value["bytes"])


class _FileEvents:
    """The matches of one file, in order, up to `keep`."""

    def __init__(self, path: str, keep: int, *, per_match: bool) -> None:
        self.path = path
        self.count = 0
        self._keep = keep
        self._per_match = per_match
        self._events: list[bytes | _Event | _LongEvent] = []

    def take(self, line: bytes) -> bool:
        """Add one event; return False if no more are needed."""
        is_match = line.startswith(_MATCH)
        if is_match and self.count >= self._keep:
            return False
        if not self._per_match and len(line) <= RAW_BYTES:
            self.count += is_match
            self._events.append(line)
        else:
            event = _event(line, self._keep - self.count, per_match=self._per_match)
            self.count += event.matches
            self._events.append(event)
        return True

    def take_long(self, long: _LongEventParser) -> None:
        """Add an event that was too long to keep."""
        event = long.event()
        if event.matches and self.count >= self._keep:
            return
        self.count += event.matches
        self._events.append(event)

    def matched(self, count: int, contents: SearchedContents | None) -> MatchedFile:
        """Return the first matches of the file that are still in its contents."""
        matches: list[SearchMatch | None] = []
        lines: dict[int, str] = {}
        gone_lines = 0
        for event in self._events:
            if isinstance(event, bytes):
                event = _event(event, self._keep, per_match=self._per_match)
            read = None if contents is None else event.read(contents)
            if read is None:
                matches += [None] * event.matches
                gone_lines += not event.matches
            else:
                matches += read.matches
                lines.update(read.lines)
        present = [match for match in matches[:count] if match is not None]
        return MatchedFile(self.path, present, lines, min(count, len(matches)) - len(present), gone_lines)


class _Read(NamedTuple):
    """The matches of an event, one for each line or each match, and the texts of its lines."""

    matches: list[SearchMatch]
    lines: dict[int, str]


class _Event(NamedTuple):
    """One event: the position of its lines in the file, a hash of their content, and the matches in them."""

    line: int
    offset: int
    size: int
    hash: int
    matches: int  # how many; 0 for context lines
    spans: list[tuple[int, int]]
    per_match: bool

    def read(self, contents: SearchedContents) -> _Read | None:
        """Return the matches and lines from the file itself; None if its content has changed."""
        raw = contents.read(self.offset, self.size)
        if len(raw) != self.size or hash(raw) != self.hash:
            return None
        texts = raw.removesuffix(b"\n").split(b"\n")
        lines = {self.line + index: shorten(decode_line(text)) for index, text in enumerate(texts[: 4 * MATCHED_LINES])}
        if not self.matches:
            return _Read([], lines)
        if self.per_match:
            return _Read([_spanned(raw, texts, self.line, start, end) for start, end in self.spans], lines)
        # ripgrep gives no position for an empty match at the end of a file without a final newline
        start = self.spans[0][0] if self.spans else len(raw.removesuffix(b"\n"))
        column = characters(raw[:start]) + 1
        lines[self.line] = shorten(decode_line(raw.removesuffix(b"\n")), column)
        return _Read([SearchMatch(self.line, column, lines[self.line], self.line)], lines)


def _event(line: bytes, limit: int, *, per_match: bool) -> _Event:
    data = json.loads(line)["data"]
    raw = plain(data["lines"])
    is_match = line.startswith(_MATCH)
    spans = [(submatch["start"], submatch["end"]) for submatch in data["submatches"][: limit if per_match else 1]]
    count = 0 if not is_match else len(spans) if per_match else 1
    return _Event(data["line_number"], data["absolute_offset"], len(raw), hash(raw), count, spans, per_match)


def _spanned(raw: bytes, texts: list[bytes], first: int, start: int, end: int) -> SearchMatch:
    """Return a match that may span lines."""
    before = raw.count(b"\n", 0, start)
    # a match that ends with a newline does not extend into the next line
    after = raw.count(b"\n", 0, max(start, end - 1))
    column = characters(raw[raw.rfind(b"\n", 0, start) + 1 : start]) + 1
    rows = [shorten(decode_line(texts[before]) if before < len(texts) else "", column)]
    rows += [shorten(decode_line(text)) for text in texts[before + 1 : min(after + 1, before + MATCHED_LINES)]]
    if after - before >= MATCHED_LINES:
        rows.append(f"… ({after - before + 1 - MATCHED_LINES} more lines)")
    return SearchMatch(first + before, column, "\n".join(rows), first + after)


def characters(data: bytes) -> int:
    """Return the number of characters in the bytes; each invalid byte counts as one."""
    return len(data) if data.isascii() else len(data.translate(None, _CONTINUATION))


def decode_line(line: bytes) -> str:
    """Return a line for display, without a trailing carriage return."""
    return line.removesuffix(b"\r").decode("utf-8", "replace")


def shorten(text: str, column: int = 1) -> str:
    """Return at most 200 characters of a line, around the column."""
    if len(text) <= LINE_CHARACTERS:
        return text
    # a third of the text is before the match
    start = min(max(0, column - 1 - LINE_CHARACTERS // 3), len(text) - LINE_CHARACTERS)
    end = start + LINE_CHARACTERS
    before, after = start > 0, end < len(text)
    return "…" * before + text[start + before : end - after] + "…" * after


class _LongEventParser:
    """An event that is too long for memory: its beginning, and the numbers after its text."""

    _WANTED = (b',"line_number":', b'"absolute_offset":', b'},"start":')

    def __init__(self, head: bytes) -> None:
        self.ended = False
        self._head = head[: 4 * LINE_CHARACTERS * 4]
        self._is_match = head.startswith(_MATCH)
        self._numbers: list[int] = []
        self._window = b""
        self.feed(head)

    def feed(self, chunk: bytes) -> bytes:
        """Parse the next chunk; return the bytes after the end of the event."""
        stop = chunk.find(b"\n")
        rest = b""
        if stop >= 0:
            self.ended = True
            chunk, rest = chunk[:stop], chunk[stop + 1 :]
        data = self._window + chunk
        at = 0
        while len(self._numbers) < len(self._WANTED):
            needle = self._WANTED[len(self._numbers)]
            position = data.find(needle, at)
            if position < 0:
                at = max(at, len(data) - len(needle))
                break
            number = re.compile(rb"\d+(?=\D)").match(data, position + len(needle))
            if number is None and not self.ended:
                at = position  # its digits are in the next chunk
                break
            self._numbers.append(int(number[0]) if number is not None else 0)
            at = position + len(needle)
        self._window = b"" if self.ended or len(self._numbers) == len(self._WANTED) else data[at:]
        return rest

    def event(self) -> _LongEvent:
        """Return the parsed event."""
        line, offset, start = (*self._numbers, 0, 0, 0)[:3]
        return _LongEvent(line, offset, start, int(self._is_match), self._beginning())

    def _beginning(self) -> bytes:
        match = re.search(rb'"lines":\{"(text|bytes)":"((?:[^"\\]|\\.)*)', self._head)
        if match is None:
            return b""
        piece = match[2]
        if match[1] == b"bytes":
            return b64decode(piece[: len(piece) // 4 * 4])
        text = piece.decode("utf-8", "ignore")
        for excess in range(12):  # the text may end inside an escape
            try:
                value: str = json.loads(f'"{text[: len(text) - excess]}"')
                return value.encode()
            except ValueError:
                continue
        return b""


class _LongEvent(NamedTuple):
    """An event that was too long to keep: the offset of its line in the file, and of the match in the line."""

    line: int
    offset: int
    start: int
    matches: int
    beginning: bytes

    def read(self, contents: SearchedContents) -> _Read | None:
        """Return the match or the context line from the file itself; None if the line now begins differently."""
        if not self.beginning or contents.read(self.offset, len(self.beginning)) != self.beginning:
            return None
        if not self.matches:
            return _Read([], {self.line: shorten(decode_line(self.beginning) + "…")})
        match = self._around(contents)
        return None if match is None else _Read([match], {})

    def _around(self, contents: SearchedContents) -> SearchMatch | None:
        """Read the text around the match, and count the characters before it."""
        column = 1
        for at in range(0, self.start, 1 << 20):
            column += characters(contents.read(self.offset + at, min(1 << 20, self.start - at)))
        margin = 4 * LINE_CHARACTERS
        before = contents.read(self.offset + max(0, self.start - margin), min(self.start, margin))
        after, _, _ = contents.read(self.offset + self.start, margin).partition(b"\n")
        if not after and len(before) < min(self.start, margin):
            return None  # the file is shorter now
        lead = decode_line(before.lstrip(_CONTINUATION))
        text = shorten(lead + decode_line(after), len(lead) + 1)
        if self.start > margin and not text.startswith("…"):
            text = "…" + text[1:]
        return SearchMatch(self.line, column, text, self.line)
