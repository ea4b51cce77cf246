"""The fallback for ripgrep in Python, with the same output format, for when ripgrep is missing or broken.

It runs as a child process, because a Python regular expression may never finish and only a process can be killed. It
reads its task from its argument, and the files to search from its working directory or standard input.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from hilt.search import globs, ignores, regexes
from hilt.search.ignores import Rules
from hilt.search.reach import MARKS
from hilt.search.ripgrep import FIRST_FD
from hilt.search.selection import EXCLUDED
from hilt.search.walking import FILE, WalkedFolder, walk

UNSUPPORTED = 3  # exit code for a pattern that only ripgrep supports
# a failure must not exit with 1, which means no matches
LAUNCH = """import os, sys
sys.path.insert(0, sys.argv[1])
try:
    from hilt.search.fallback import main
    main(sys.argv[2])
finally:
    os._exit(70)
"""


def main(task_text: str) -> None:
    """Run the task and exit like ripgrep: 0 for matches, 1 for none, 2 for errors."""
    task = json.loads(task_text)
    writer = _EventWriter()
    try:
        has_output = _FallbackSearch(task, writer).run()
        writer.flush()
    except regexes.Unsupported as error:
        sys.stderr.write(f"{error}\n")
        os._exit(UNSUPPORTED)
    except BrokenPipeError:
        os._exit(2)
    # skip cleanup: nothing needs it, and freeing a large heap takes time
    os._exit(2 if writer.failures else 0 if has_output else 1)


class _EventWriter:
    """Standard output in large chunks, and error messages."""

    def __init__(self) -> None:
        self.failures = 0
        self._pending: list[bytes] = []
        self._size = 0

    def put(self, data: bytes) -> None:
        self._pending.append(data)
        self._size += len(data)
        if self._size > 1 << 16:
            self.flush()

    def event(self, kind: str, data: dict[str, Any]) -> None:
        text = json.dumps({"type": kind, "data": data}, separators=(",", ":"), ensure_ascii=False)
        self.put(text.encode() + b"\n")

    def flush(self) -> None:
        view = memoryview(b"".join(self._pending))
        while view:
            view = view[os.write(1, view) :]
        self._pending.clear()
        self._size = 0

    def failed(self, path: str, error: OSError) -> None:
        self.failures += 1
        printable = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        sys.stderr.write(f"rg: ./{printable}: {os.strerror(error.errno or 0)} (os error {error.errno})\n")


class _FallbackSearch:
    def __init__(self, task: dict[str, Any], writer: _EventWriter) -> None:
        self._task = task
        self._writer = writer
        self._totals = [0, 0, 0]  # searched files, matched lines, matches
        pattern = task.get("pattern")
        options = (
            {} if pattern is None else {name: pattern[name] for name in ("literal", "ignore_case", "lines", "crlf")}
        )
        self._regex = re.compile("") if pattern is None else regexes.compiled(pattern["text"], **options)

    def run(self) -> bool:
        """Write the requested output; return whether there was any."""
        mode = self._task["mode"]
        has_output = False
        for path, descriptor in self._files():
            if mode == "files":
                self._writer.put(b"./" + os.fsencode(path) + b"\0")
                has_output = True
                continue
            try:
                data = _read(descriptor)
            except OSError as error:
                self._writer.failed(path, error)
                continue
            has_output = self._search(path, data) or has_output
        if mode == "json":
            searched, lines, matches = self._totals
            stats = {"matched_lines": lines, "matches": matches, "searches": searched}
            self._writer.event("summary", {"stats": stats})
        return has_output

    def _files(self) -> Iterator[tuple[str, int]]:
        """Yield paths and, if contents are requested, open files."""
        if self._task.get("stdin"):
            yield "<stdin>", 0
            return
        inherited = self._task.get("open", 0)
        if inherited:
            yield from ((str(number), number) for number in range(FIRST_FD, FIRST_FD + inherited))
            return
        listed = self._task.get("paths")
        opening = self._task["mode"] != "files"
        handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        files = ((handle, path, path) for path in listed) if listed is not None else self._walk(handle)
        for folder, path, name in files:
            if not opening:
                yield path, -1
                continue
            try:
                descriptor = os.open(name, FILE, dir_fd=folder)
            except OSError as error:
                self._writer.failed(path, error)
                continue
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    yield path, descriptor
            finally:
                os.close(descriptor)

    def _walk(self, handle: int) -> Iterator[tuple[int, str, str]]:
        gate = WalkFilter(
            names=self._task["names"],
            hidden=self._task["hidden"],
            sensitive=self._task["sensitive"],
            above=None if self._task["no_ignore"] else self._task["above"],
            repository=self._task["repository"],
        )
        return walk(handle, gate.wants, failed=self._writer.failed, enter=gate.enter, leave=gate.leave)

    # --- one file -------------------------------------------------------------------------------------------------

    def _search(self, path: str, data: bytes) -> bool:
        for mark, codec in MARKS:
            if data.startswith(mark):
                data = data[2:].decode(codec, "replace").encode()
                break
        data = data.removeprefix(b"\xef\xbb\xbf")
        self._totals[0] += 1
        if b"\0" in data:
            return False
        matched = self._multiline(data) if self._task["pattern"]["multiline"] else self._by_line(data)
        matches = list(matched)
        if not matches:
            return False
        lines = sum(1 for match in matches)
        spans = sum(len(match[3]) for match in matches)
        self._totals[1] += lines
        self._totals[2] += spans
        if self._task["mode"] == "count":
            count = spans if self._task["pattern"]["multiline"] else lines
            self._writer.put(b"./" + os.fsencode(path) + b"\0%d\n" % count)
            return True
        self._write_file(path, data, matches, lines, spans)
        return True

    def _by_line(self, data: bytes) -> Iterator[tuple[int, int, bytes, list[dict[str, Any]]]]:
        """Yield number, offset, text and spans of each line that matches."""
        offset = 0
        limit = self._task.get("per_file")
        count = 0
        for number, line in enumerate(data.split(b"\n"), 1):
            last = offset + len(line) >= len(data)
            if last and not line:
                return
            whole = line if last else line + b"\n"
            spans = self._spans(line.removesuffix(b"\r") if self._task["pattern"]["crlf"] else line)
            if spans:
                yield number, offset, whole, spans
                count += 1
                if limit is not None and count >= limit:
                    return
            offset += len(whole)

    def _multiline(self, data: bytes) -> Iterator[tuple[int, int, bytes, list[dict[str, Any]]]]:
        """Yield each match with the lines it is on."""
        number, counted = 1, 0
        for span in self._spans(data):
            start, end = span["start"], span["end"]
            if start == len(data):
                return  # an empty match at the end, which ripgrep does not report
            first = data.rfind(b"\n", 0, start) + 1
            stop = data.find(b"\n", max(start, end - 1))
            stop = len(data) if stop < 0 else stop + 1
            number += data.count(b"\n", counted, first)
            counted = first
            yield number, first, data[first:stop], [{**span, "start": start - first, "end": end - first}]

    def _spans(self, data: bytes) -> list[dict[str, Any]]:
        text = data.decode("utf-8", "surrogateescape")
        replacement = self._task["pattern"]["replacement"]
        spans: list[dict[str, Any]] = []
        at = done = 0  # bytes and characters so far
        for match in _iter_matches(self._regex, text):
            start, end = match.span()
            at += _size(text[done:start])
            span: dict[str, Any] = {"match": _value(_bytes(match[0])), "start": at}
            at += _size(match[0])
            done = end
            span["end"] = at
            if replacement is not None:
                span["replacement"] = _value(_bytes(regexes.expanded(replacement, match)))
            spans.append(span)
        return spans

    def _write_file(
        self,
        path: str,
        data: bytes,
        matches: list[tuple[int, int, bytes, list[dict[str, Any]]]],
        lines: int,
        spans: int,
    ) -> None:
        path_value = _value(os.fsencode(path if path == "<stdin>" else f"./{path}"))
        self._writer.event("begin", {"path": path_value})
        context = self._task["context"]
        matched_lines = {number for number, _, text, _ in matches for number in range(number, number + _height(text))}
        rows = list(_lines_with_offsets(data)) if context else []
        written: set[int] = set()
        for number, offset, text, submatches in matches:
            last = number + _height(text)
            before = [line for line in range(max(1, number - context), number) if line not in matched_lines]
            self._context(path_value, rows, before, written)
            fields = {"path": path_value, "lines": _value(text), "line_number": number, "absolute_offset": offset}
            self._writer.event("match", {**fields, "submatches": submatches})
            after = [line for line in range(last, min(len(rows), last + context - 1) + 1) if line not in matched_lines]
            self._context(path_value, rows, after, written)
        stats = {"searches": 1, "searches_with_match": 1, "matched_lines": lines, "matches": spans}
        self._writer.event("end", {"path": path_value, "binary_offset": None, "stats": stats})

    def _context(
        self, path: dict[str, str], rows: list[tuple[int, bytes]], numbers: list[int], written: set[int]
    ) -> None:
        for number in numbers:
            if number not in written:
                written.add(number)
                offset, line = rows[number - 1]
                fields = {"path": path, "lines": _value(line), "line_number": number, "absolute_offset": offset}
                self._writer.event("context", {**fields, "submatches": []})


class WalkFilter:
    """Decides which files to search; the rules of a folder apply until the walk leaves it."""

    def __init__(
        self,
        *,
        names: list[str],
        hidden: bool,
        sensitive: list[str],
        above: list[str] | None,
        repository: bool,
    ) -> None:
        self._named = globs.matcher([glob for name in names for glob in globs.parse(name)]) if names else None
        self._hidden = hidden
        self._sensitive = frozenset(name.lower() for name in sensitive)
        self._ignoring = above is not None
        self._repository = repository
        rules = Rules(ignores.lines("\n".join(above or ()).encode("utf-8", "surrogateescape")))
        # (path of the folder, its rules, whether the rules above it apply)
        self._rules: list[tuple[str, Rules | None, bool]] = [("", rules, True)]

    def enter(self, folder: WalkedFolder) -> None:
        """Add the rules of a folder."""
        rules = None
        names = {entry.name for entry in folder.entries}
        if self._ignoring and ignores.NAME in names:
            rules = _rules(folder.handle)
        top = self._repository and ".git" in names and bool(folder.path)
        self._rules.append((folder.path, rules, not top))

    def leave(self, folder: WalkedFolder) -> None:
        """Remove the rules of a folder."""
        self._rules.pop()

    def wants(self, folder: WalkedFolder, entry: os.DirEntry[str], *, is_folder: bool) -> bool:
        """Whether to search a file, or enter a folder."""
        name = entry.name
        if name.lower() in self._sensitive or (not self._hidden and name.startswith(".")):
            return False
        if is_folder and name in EXCLUDED:
            return False
        if self._ignoring and self._is_ignored(folder.path + name, folder=is_folder):
            return False
        return is_folder or self._named is None or self._named(name)

    def _is_ignored(self, path: str, *, folder: bool) -> bool:
        for prefix, rules, inherits in reversed(self._rules):
            if rules is not None:
                verdict = rules.verdict(path[len(prefix) :], folder=folder)
                if verdict is not None:
                    return verdict
            if not inherits:
                return False
        return False


def _rules(folder: int) -> Rules | None:
    try:
        descriptor = os.open(ignores.NAME, FILE, dir_fd=folder)  # git ignores links, too
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return Rules(ignores.lines(os.read(descriptor, ignores.FILE_BYTES)))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, 1 << 24):
        pieces.append(piece)
    return b"".join(pieces)


def _iter_matches(regex: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches like ripgrep: an empty match right after a match does not count."""
    at, last = 0, -1
    while at <= len(text) and (match := regex.search(text, at)) is not None:
        start, at = match.span()
        if start == at:
            at += 1
            if start == last:
                continue
        last = match.end()
        yield match


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(_bytes(text))


def _lines_with_offsets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its byte offset."""
    offset = 0
    while offset < len(data):
        end = data.find(b"\n", offset) + 1 or len(data)
        yield offset, data[offset:end]
        offset = end


def _height(text: bytes) -> int:
    return text.removesuffix(b"\n").count(b"\n") + 1


def _value(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"bytes": b64encode(data).decode("ascii")}


def command(task: dict[str, Any]) -> list[str]:
    """Return the command that runs a task."""
    return [sys.executable, "-I", "-S", "-c", LAUNCH, _home(), json.dumps(task)]


def needed() -> tuple[str, ...]:
    """Return the files and folders that the command needs to run."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return (sys.base_prefix, os.path.join(sys.prefix, "pyvenv.cfg"), _home(), *filter(os.path.isabs, folders))


def _home() -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def environment() -> dict[str, str]:
    """Return the variables that the interpreter may need to find its libraries."""
    from hilt import variables

    return variables.libraries(os.environ)
