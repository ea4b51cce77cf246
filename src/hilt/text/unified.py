"""The parser of unified diffs; the grammar is in hilt.text.patching."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from hilt.errors import ToolError
from hilt.text.operations import BINARY, KINDS, Operation, PatchHunk, PatchLine, WholeContents, invalid

_OPENINGS = ("diff ", "--- ", "Index: ", "@@", "Only in ", "Binary files ")  # of the first line of a diff
_PROSE = ("From ", "commit ")  # the first line of the mail or commit around a diff

_RANGES = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))?(?= @@|$)")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_TWO_NAMES = re.compile(r'("(?:[^"\\]|\\.)*"|[^"]*?) ("(?:[^"\\]|\\.)*"|b/[^"]*)')
_NOWHERE = "/dev/null"
_GIT_KEYS = (
    *("old mode", "new mode", "deleted file mode", "new file mode", "rename from", "rename to", "similarity index"),
    *("dissimilarity index", "index"),
)
_MODES = ("old mode", "new mode", "deleted file mode", "new file mode")
_NOT_FILES = ("120000", "160000")  # symbolic links, submodules
_INDEX = re.compile(r"([0-9a-f]{40})\.\.[0-9a-f]{40}(?: \d+)?")
_LITERAL = re.compile(r"literal (\d{1,12})")
_BINARY_DIFFERS = re.compile("Binary files .+ and .+ differ$").match
_FRACTION = re.compile(r"\.0+(?= )")  # of a second
_SPACES_MAX = 100  # in a "diff --git" line
_BODY = "a line that starts with a space, '+', '-' or '\\'"


def parse_unified(lines: Sequence[str], first: int, last: int, path: str | None) -> list[Operation]:
    """Return the operations of lines[first:last + 1]; `path` is used if there are no headers."""
    patch = list(lines[: last + 1])
    # CRLF on every line comes from the transport of the patch; on only some lines, from the file
    if all(line.endswith("\r") for line in lines[first:last]):
        patch = [line.removesuffix("\r") for line in patch]
    return _Parser(patch, first).parse(path)


def is_unified(lines: Sequence[str], first: int) -> bool:
    """Whether lines[first:] are a unified diff, perhaps after a mail, a commit or a list of files."""
    opened = lines[first].startswith((*_OPENINGS, *_PROSE))
    return opened or any(line.startswith("diff --git ") or _are_names(lines, at) for at, line in enumerate(lines))


def parse_ranges(header: str) -> tuple[int, int, int] | None:
    """Return the old start, old count and new count that a hunk header states."""
    match = _RANGES.match(header)
    # numbers are hints: the first digits of absurd ones are enough
    return (int(match[1][:18]), int((match[2] or "1")[:18]), int((match[3] or "1")[:18])) if match else None


class _Parser:
    def __init__(self, lines: list[str], at: int) -> None:
        self.lines = lines
        self.at = at

    def parse(self, path: str | None) -> list[Operation]:
        operations: list[Operation] = []
        prose = not self.lines[self.at].startswith(_OPENINGS)
        while self.at < len(self.lines):
            line = self.lines[self.at]
            prose = prose or line.startswith(_PROSE)
            if line.startswith("diff --git ") or self._at_names(before_hunk=prose):
                operations.append(self._file())
                prose = False
            elif _BINARY_DIFFERS(line) and not prose:
                raise self._without_contents()
            elif line.startswith("@@") and path is not None and not operations:
                operations.append(Operation("update", path, hunks=self._hunks(), unified=True))
            elif line.startswith(("@", "+", "-")) and line.rstrip() not in ("---", "--") and not prose:
                raise invalid(self.at + 1, line, "'--- PATH' and '+++ PATH' before the first hunk of a file")
            else:
                self.at += 1
        if not operations:
            raise ToolError("patch_invalid", "The patch has no file header and no hunk.", line=len(self.lines))
        return operations

    def _at_names(self, *, before_hunk: bool = False) -> bool:
        return _are_names(self.lines, self.at, before_hunk=before_hunk)

    def _file(self) -> Operation:
        start = self.at
        header = self._git_header() if not self._at_names() else {}
        old, new = header.get("old"), header.get("new")
        hunks: tuple[PatchHunk, ...] = ()
        whole = None
        if self.at < len(self.lines) and self.lines[self.at].rstrip("\r") == BINARY:
            whole = self._whole(header.get("index", ""))
        elif self.at < len(self.lines) and self._at_names():
            names = self.lines[self.at][4:], self.lines[self.at + 1][4:]
            stripped = _strip_prefixes(_unquote(names[0]), _unquote(names[1]))
            if _NOWHERE not in stripped or not old:
                old, new = stripped
            # diff -N names missing files too, and dates them 1970
            old, new = (_NOWHERE if _is_missing(line) else name for line, name in zip(names, (old, new), strict=True))
            self.at += 2
            hunks = self._hunks()
        if any(header.get(key, "").endswith(_NOT_FILES) for key in (*_MODES, "index")):
            raise invalid(start + 1, self.lines[start], "a regular file; links and submodules are not supported")
        deleted = "deleted file mode" in header or new == _NOWHERE
        path = _unquote(header["rename from"] + "\t") if "rename from" in header else old if deleted else new
        target = _unquote(header["rename to"] + "\t") if "rename to" in header else None
        mode = header.get("new file mode") or header.get("new mode")
        if not path or path == _NOWHERE or ("rename from" in header) != (target is not None):
            raise invalid(start + 1, self.lines[start], "a header with the file name")
        if "new file mode" in header or old == _NOWHERE:
            return Operation("add", path, content=self._content(hunks, start), unified=True, mode=mode, whole=whole)
        if deleted:
            return Operation("delete", path, hunks=hunks, unified=True, whole=whole)
        if not (hunks or target or mode or whole):
            raise invalid(start + 1, self.lines[start], "hunks, a rename or a new mode below it")
        return Operation("update", path, move_to=target, hunks=hunks, unified=True, mode=mode, whole=whole)

    def _whole(self, index: str) -> WholeContents:
        """Read the new contents of a binary file, and skip the old ones if they follow."""
        ids = _INDEX.fullmatch(index)
        if ids is None:
            raise invalid(self.at + 1, self.lines[self.at], "an index line with two full ids before it")
        self.at += 1
        contents = self._literal()
        if self.at < len(self.lines) and self.lines[self.at].startswith(("literal ", "delta ")):
            self._packed_lines()
        return WholeContents(ids[1], contents)

    def _literal(self) -> bytes:
        from hilt.text.binary_patch import unpack

        start = self.at
        header = self.lines[start] if start < len(self.lines) else ""
        size = _LITERAL.fullmatch(header.rstrip("\r"))
        if size is None:
            raise invalid(start + 1, header, "'literal SIZE'; binary deltas are not supported")
        try:
            return unpack(int(size[1]), iter(self._packed_lines()))
        except ValueError as error:
            raise ToolError(
                "patch_invalid",
                f"The binary file on line {start + 1} of the patch is damaged: {error}.",
                line=start + 1,
            ) from None

    def _packed_lines(self) -> list[str]:
        first = self.at = self.at + 1
        while self.at < len(self.lines) and self.lines[self.at].rstrip("\r"):
            self.at += 1
        lines = [line.rstrip("\r") for line in self.lines[first : self.at]]
        self.at += 1
        return lines

    def _git_header(self) -> dict[str, str]:
        """Parse a "diff --git" header into a dictionary of its lines by keyword."""
        old, new = _git_names(self.lines[self.at])
        header = {"old": old, "new": new}
        self.at += 1
        while self.at < len(self.lines) and not self._at_names():
            line = self.lines[self.at].rstrip("\r")
            if line.startswith("Binary files "):
                raise self._without_contents()
            if line.startswith("copy "):
                raise invalid(self.at + 1, line, "an addition of the whole file; copies are not supported")
            key = next((key for key in _GIT_KEYS if line.startswith(key + " ")), None)
            if key is None:
                break
            header[key] = line[len(key) + 1 :]
            self.at += 1
        return header

    def _without_contents(self) -> ToolError:
        return ToolError(
            "patch_invalid",
            f"Line {self.at + 1} of the patch changes a binary file whose contents are not in the patch.",
            suggestion="Create the patch with git diff --binary, or remove the file from it.",
            line=self.at + 1,
        )

    def _hunks(self) -> tuple[PatchHunk, ...]:
        hunks = []
        while self.at < len(self.lines) and self.lines[self.at].startswith("@@"):
            hunks.append(self._hunk())
        return tuple(hunks)

    def _hunk(self) -> PatchHunk:
        start = self.at
        ranges = parse_ranges(self.lines[start])
        anchor = "" if ranges else self.lines[start][2:].rstrip().removesuffix("@@").strip()
        remaining = ranges[1:] if ranges else None
        body: list[PatchLine] = []
        self.at += 1
        while self.at < len(self.lines) and not self._at_hunk_end(remaining):
            line = self.lines[self.at]
            self.at += 1
            if line.startswith("\\") and body:
                body[-1] = body[-1]._replace(ended=False)
                continue
            blank = not line.rstrip("\r")
            if not blank and line[0] not in KINDS:
                raise invalid(self.at, line, _BODY)
            body.append(PatchLine("context", line) if blank else PatchLine(KINDS[line[0]], line[1:]))
            if remaining:
                remaining = (remaining[0] - (body[-1].kind != "added"), remaining[1] - (body[-1].kind != "removed"))
        if not body:
            raise invalid(start + 1, self.lines[start], f"{_BODY} below it")
        anchors = (anchor,) if anchor.strip(".") else ()
        at_end = not all(line.ended for line in body)
        return PatchHunk(tuple(body), anchors, at_end, *(ranges[:2] if ranges else ()))

    def _at_hunk_end(self, remaining: tuple[int, int] | None) -> bool:
        """Whether the hunk ends before the next line; `remaining` counts the old and new lines still expected."""
        line, *following = self.lines[self.at : self.at + 3]
        if line.startswith(("@@", "diff ", "Index: ")):
            return True
        complete = remaining is not None and max(remaining) <= 0
        if self._at_names():
            # a removed "-- " and an added "++ " look like names: if only those two remain, require git's prefixes
            before_hunk = self._at_names(before_hunk=True)
            by_git = line.startswith(("--- a/", '--- "a/', "--- /dev/null"))
            return remaining is None or complete or (before_hunk and (by_git or remaining != (1, 1)))
        if not complete or line.startswith("\\"):
            return False
        if not line.rstrip("\r"):
            line = following[0] if following else ""
        return line[:1] not in KINDS or line.rstrip() == "--"

    def _content(self, hunks: Sequence[PatchHunk], start: int) -> str:
        lines = [line for hunk in hunks for line in hunk.lines]
        if any(line.kind != "added" for line in lines):
            raise invalid(start + 1, self.lines[start], "only lines that start with '+' below it, as the file is new")
        return "".join(line.text + "\n" * line.ended for line in lines)


def _are_names(lines: Sequence[str], at: int, *, before_hunk: bool = False) -> bool:
    following = lines[at + 1 : at + 3]
    if not (lines[at].startswith("--- ") and following and following[0].startswith("+++ ")):
        return False
    return not before_hunk or following[-1].startswith("@@")


def _git_names(line: str) -> tuple[str, str]:
    """Return both names of a "diff --git" line; without quotes, split it where both parts name the same file."""
    names = line[len("diff --git ") :].rstrip("\r")
    for space in islice(re.finditer(" ", names), _SPACES_MAX):
        old, new = _strip_prefixes(names[: space.start()], names[space.end() :])
        if old == new and not names.startswith('"'):
            return old, new
    match = _TWO_NAMES.fullmatch(names)
    old, new = (match[1], match[2]) if match else ("", "")
    return _strip_prefixes(_unquote(old), _unquote(new))


def _strip_prefixes(old: str, new: str) -> tuple[str, str]:
    """Return the names without their first folders, if only those differ: a/ and b/, i/ and w/, or any others."""
    old_first, _, old_inner = old.partition("/")
    new_first, _, new_inner = new.partition("/")
    if old_first and new_first and old_first != new_first and old_inner and old_inner == new_inner:
        return old_inner, new_inner
    if not (old.startswith(("a/", _NOWHERE)) and new.startswith(("b/", _NOWHERE))):
        return old, new
    return old.removeprefix("a/"), new.removeprefix("b/")


def _is_missing(name: str) -> bool:
    """Whether the name in a header is that of no file: /dev/null, or one of 1970."""
    path, _, date = name.rstrip().partition("\t")
    if not date:
        return path == _NOWHERE
    from datetime import datetime

    try:
        return datetime.strptime(_FRACTION.sub("", date), "%Y-%m-%d %H:%M:%S %z").timestamp() == 0
    except ValueError:
        return False


def _unquote(name: str) -> str:
    """Return the path with C escapes decoded, or without the tab and timestamp after it.

    Where no tab ends the path, blanks at its end are ignored: models leave them.
    """
    if not name.startswith('"'):
        path, tab, _ = name.partition("\t")
        return path if tab else path.rstrip()
    raw = name[1 : name.rfind('"')].encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(_unescape, raw).decode("utf-8", "surrogateescape")


def _unescape(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPED.get(code, code)
