"""The parser of Codex patches; the grammar is in hilt.text.patching."""

from __future__ import annotations

from collections.abc import Sequence

from hilt.text.operations import KINDS, Operation, PatchHunk, PatchLine, invalid
from hilt.text.unified import parse_ranges

BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"
_SECTIONS = (_END, _ADD, _DELETE, _UPDATE)
_FILE = f"'{_ADD}PATH', '{_DELETE}PATH', '{_UPDATE}PATH' or '{_END}'"


def parse_codex(lines: Sequence[str], first: int, last: int) -> list[Operation]:
    """Return the operations of lines[first:last + 1]; the first line is the opening marker, the last is not blank."""
    return _Parser([line.removesuffix("\r") for line in lines[: last + 1]], first + 1).parse()


class _Parser:
    def __init__(self, lines: list[str], at: int) -> None:
        if lines[-1].strip() != _END:
            raise invalid(len(lines), lines[-1], f"'{_END}' as the last line")
        self.lines = [*lines[:-1], _END]
        self.at = at

    def parse(self) -> list[Operation]:
        operations = []
        while (line := self._skip_blank_lines().strip()) != _END:
            if path := _after(_ADD, line):
                operations.append(self._add(path))
            elif path := _after(_DELETE, line):
                self.at += 1
                operations.append(Operation("delete", path))
            elif path := _after(_UPDATE, line):
                operations.append(self._update(path))
            else:
                raise invalid(self.at + 1, line, _FILE)
        if self.at != len(self.lines) - 1:
            raise invalid(self.at + 2, self.lines[self.at + 1], f"nothing after '{_END}'")
        if not operations:
            raise invalid(self.at + 1, line, f"'{_ADD}PATH', '{_DELETE}PATH' or '{_UPDATE}PATH'")
        return operations

    def _skip_blank_lines(self) -> str:
        while not self.lines[self.at].strip():
            self.at += 1
        return self.lines[self.at]

    def _add(self, path: str) -> Operation:
        self.at += 1
        start = self.at
        while self.lines[self.at].startswith("+"):
            self.at += 1
        content = "".join(line[1:] + "\n" for line in self.lines[start : self.at])
        if not self._skip_blank_lines().strip().startswith("*** "):
            raise invalid(self.at + 1, self.lines[self.at], f"'+' before each line of the new file, or {_FILE}")
        return Operation("add", path, content=content)

    def _update(self, path: str) -> Operation:
        header = self.at
        self.at += 1
        move_to = _after(_MOVE, self.lines[self.at].rstrip())
        self.at += move_to is not None
        hunks: list[PatchHunk] = []
        while not self._at_marker(*_SECTIONS):
            if hunks and not self._at_marker("@@"):
                raise invalid(self.at + 1, self.lines[self.at], f"'@@' or {_FILE}")
            hunks.append(self._hunk())
        if not hunks and move_to is None:
            raise invalid(header + 1, self.lines[header], "hunks or a '*** Move to: PATH' below it")
        return Operation("update", path, move_to=move_to, hunks=tuple(hunks))

    def _at_marker(self, *markers: str) -> bool:
        """Whether a marker follows; skips blank lines before it. An indented marker is content."""
        at = self.at
        while not self.lines[at]:
            at += 1
        if self.lines[at].startswith(markers):
            self.at = at
            return True
        return False

    def _hunk(self) -> PatchHunk:
        start = self.at
        anchors: list[str] = []
        ranges = None
        while self._at_marker("@@"):
            header = self.lines[self.at].rstrip().removesuffix(" @@")
            ranges = parse_ranges(header)
            if ranges is None and header[3:].strip():
                anchors.append(header[3:])
            self.at += 1
        body: list[PatchLine] = []
        while not self._at_marker("@@", _END_OF_FILE, *_SECTIONS):
            while not self.lines[self.at]:
                body.append(PatchLine("context", ""))
                self.at += 1
            line = self.lines[self.at]
            if line[0] not in KINDS:
                raise invalid(self.at + 1, line, "a line that starts with a space, '+' or '-'")
            body.append(PatchLine(KINDS[line[0]], line[1:]))
            self.at += 1
        if not body:
            raise invalid(start + 1, self.lines[start], "lines that start with a space, '+' or '-' below it")
        at_end = self._at_marker(_END_OF_FILE)
        self.at += at_end
        return PatchHunk(tuple(body), tuple(anchors), at_end, *(ranges[:2] if ranges else ()))


def _after(marker: str, line: str) -> str | None:
    return line[len(marker) :].strip() or None if line.startswith(marker) else None
