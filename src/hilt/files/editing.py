"""Edits of text in a draft and their output, shared by all tools that write."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from hilt.call import Output, ShownChange, ShownFile
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.output import views
from hilt.text import diffing, encodings
from hilt.text.encodings import Span
from hilt.text.lines import line_number
from hilt.text.matching import EditMatch, find_all, find_edit, match_fuzzy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.draft import Draft
    from hilt.text.likeness import TextPage

SHOWN_CHARACTERS = 1_000_000  # of the diff that a person sees before they approve a change
_START_CHARACTERS = 200  # of a file, enough to tell a script


class Document:
    """A file's bytes and text, changed together so that bytes outside the edits are preserved."""

    def __init__(self, path: str, data: bytes) -> None:
        if encodings.is_binary(data[:512]):
            raise ToolError(
                "binary_file", f"{path} is binary ({len(data)} bytes); tools can only change text.", path=path
            )
        self.path = path
        self.data = data
        self.text, self.encoding = encodings.decode(data)
        self.before = self.text
        self._pages: list[TextPage] = []

    def show_mark(self) -> None:
        """Make the UTF-8 byte order mark part of the text, as diff and git do."""
        if self.encoding.name == "utf-8" and self.encoding.bom:
            self.text = self.before = "\ufeff" + self.text
            self.encoding = encodings.UTF8

    def apply(self, spans: list[Span]) -> None:
        """Replace the spans of the current text."""
        text = self.text
        self.data = encodings.splice(self.data, text, self.encoding, spans)
        pieces: list[str] = []
        position = 0
        for span in sorted(spans):
            pieces += (text[position : span.start], span.new)
            position = span.end
        self.text = "".join((*pieces, text[position:]))

    @property
    def change(self) -> FileDiff:
        """The change so far."""
        return FileDiff(self.path, _visible(self.before, self.encoding), _visible(self.text, self.encoding))

    def edit(self, old_text: str, new_text: str, *, fuzzy_indent: bool, nearest: bool = True) -> EditMatch:
        """Replace the only occurrence of the text."""
        match = find_edit(
            self.text,
            old_text,
            new_text,
            path=self.path,
            fuzzy_indent=fuzzy_indent,
            read=self._page,
            nearest=nearest,
        )
        self.apply([match.span])
        return match

    def edit_all(self, old_text: str, new_text: str, *, fuzzy_indent: bool) -> EditMatch:
        """Replace every occurrence of the text; if there is none, the only fuzzy match."""
        text = self.text
        spans = find_all(text, old_text, new_text, path=self.path, fuzzy_indent=fuzzy_indent)
        if len(spans) < 2:
            return self.edit(old_text, new_text, fuzzy_indent=fuzzy_indent)
        first = line_number(text, spans[0].start)
        last = line_number(text, spans[-1].end - 1)
        self.apply(spans)
        return EditMatch(spans[0], exact=True, first_line=first, last_line=last, occurrences=len(spans))

    def original_span(self, old_text: str, new_text: str, *, fuzzy_indent: bool) -> Span | None:
        """Return the span that an edit would replace in the original text; None if it does not apply there."""
        try:
            if old_text not in self.before:
                page = self._page(self.before)
                match = match_fuzzy(page, old_text, new_text, path=self.path, fuzzy_indent=fuzzy_indent)
                return None if match is None else match.span
            return find_edit(self.before, old_text, new_text, path=self.path, fuzzy_indent=fuzzy_indent).span
        except ToolError:
            return None

    def _page(self, text: str) -> TextPage:
        """Return a text prepared for fuzzy comparison; the original and the latest text are cached."""
        from hilt.text.likeness import read_page

        page = next((page for page in self._pages if page.text is text), None)
        if page is None:
            page = read_page(text)
            self._pages = [*(cached for cached in self._pages if cached.text is self.before), page]
        return page

    def around(self, match: EditMatch, lines: int) -> tuple[str, str]:
        """Return the text before and after the latest edit, at least this many lines of each where available."""
        start, end, size = match.span.start, match.span.start + len(match.span.new), 4096
        while True:
            before, after = self.text[max(start - size, 0) : start], self.text[end : end + size]
            enough_before = len(before) < size or before.count("\n") > lines
            if enough_before and (len(after) < size or after.count("\n") > lines):
                return before, after
            size *= 8


def open_document(draft: Draft, path: str) -> Document:
    """Return a target of the draft as a document."""
    data = draft.read(path)
    if data is None:
        raise ToolError("file_not_found", f"{path} does not exist.", path=path)
    return Document(path, data)


def require(path: str, data: bytes | None, *, if_checksum: str | None = None, if_absent: bool = False) -> None:
    """Raise unless a file meets the caller's preconditions."""
    if if_checksum and if_absent:
        raise ToolError(
            "invalid_args", "if_checksum and if_absent are mutually exclusive.", suggestion="Pass only one of them."
        )
    if if_absent and data is not None:
        raise ToolError("already_exists", f"{path} already exists ({len(data)} bytes).", path=path)
    if if_checksum:
        checksum = None if data is None else sha256(data).hex()
        if checksum != if_checksum.lower():
            state = "does not exist" if checksum is None else f"has the checksum {checksum[:12]}…"
            raise ToolError("stale_file", f"{path} {state}, not {if_checksum[:12]}….", path=path)


class FileDiff:
    """One file's change as text: before and after, None for a missing file."""

    def __init__(self, path: str, before: str | None, after: str | None, new_path: str | None = None) -> None:
        self.path = path
        self.before = before
        self.after = after
        self.new_path = new_path
        self.executable = (False, False)  # before and after
        self.action = ""  # in words, if it is not clear from the texts
        self.missing = ""  # why the diff does not have the contents
        self.is_hidden = False  # from tools: only the person who approves the change sees that there is one

    @cached_property
    def hunks(self) -> list[diffing.Hunk]:
        """The hunks that differ."""
        return diffing.compare(self.before or "", self.after or "")

    @property
    def first_changed_line(self) -> int | None:
        """The number of the first line that differs, in the new text."""
        for hunk in self.hunks[:1]:
            before = next(index for index, change in enumerate(hunk.changes) if change.kind != "context")
            return max(hunk.new_start, 1) + before
        return None

    @property
    def diff(self) -> str:
        """The unified diff, as git apply accepts it."""
        return diffing.unified_diff(
            self.before, self.after, self.path, new_path=self.new_path, hunks=self.hunks, executable=self.executable
        )

    @property
    def view(self) -> dict[str, Any]:
        """The diff as a view for people."""
        path = self.new_path or self.path
        view = views.diff(path, diffing.stripped(self.hunks))
        return {**view, "title": f"{views.encodable(path)} ({self.facts})"} if self.facts else view

    @property
    def facts(self) -> str:
        """What the diff does not show, in words."""
        return "; ".join(filter(None, (self.action, self.missing and f"not shown: {self.missing}")))

    @property
    def shown(self) -> ShownFile:
        """The file as a person sees it in the list of a change."""
        from hilt.policy.later import runner

        path, text = self.new_path or self.path, self.after or ""
        runs = runner(path, executable=self.executable[1], start=text[:_START_CHARACTERS])
        return ShownFile(views.encodable(path), self._action, runs, self.missing)

    @property
    def _action(self) -> str:
        if self.action:
            return self.action
        if self.before is None or self.after is None:
            return "created" if self.before is None else "deleted"
        if self.new_path is not None:
            return f"renamed from {views.encodable(self.path)}"
        if self.executable[0] != self.executable[1]:
            return "made executable" if self.executable[1] else "made not executable"
        return "modified"


def diff_of_bytes(path: str, before: bytes | None, after: bytes | None, *, new_path: str | None = None) -> FileDiff:
    """Return a change of whole contents; binary contents are shown as their size and hash."""
    diff = FileDiff(path, _as_text(before), _as_text(after), new_path)
    if any(data is not None and encodings.is_binary(data[:512]) for data in (before, after)):
        diff.missing = "its contents are binary"
    elif before != after and diff.before == diff.after:
        diff.missing = "its text stays the same, its bytes change"
    return diff


def _as_text(data: bytes | None) -> str | None:
    if data is None:
        return None
    if encodings.is_binary(data[:512]):
        return f"[binary: {len(data)} bytes, SHA-256 {sha256(data).hex()[:12]}]\n"
    return _visible(*encodings.decode(data))


def shown_change(changes: Iterable[FileDiff]) -> ShownChange:
    """Return a change as a person sees it: what needs attention comes first, and no file is cut in the middle."""
    files: list[ShownFile] = []
    pieces: list[str] = []
    room = SHOWN_CHARACTERS
    rows = [(change.shown, change) for change in changes]
    for shown, change in sorted(rows, key=lambda row: not (row[0].runs or row[0].missing)):
        diff = change.diff
        if len(diff) > room:
            shown, diff = shown._replace(missing="its diff is too long"), ""
        room -= len(diff)
        files.append(shown)
        pieces.append(diff)
    return ShownChange(tuple(files), "".join(pieces))


def _visible(text: str, encoding: encodings.Encoding) -> str:
    # a diff must include the byte order mark: other programs treat it as part of the first line
    mark = "\ufeff" if encoding.bom and encoding.name == "utf-8" else ""
    return mark + encodings.visible(text)


def diff_text(changes: Iterable[FileDiff]) -> str:
    """Return the diffs of several files as one."""
    return "".join(change.diff for change in changes)


def diff_view(changes: list[FileDiff], *, many: bool = False) -> dict[str, Any]:
    """Return the view of a change; with `many`, always a list."""
    if len(changes) == 1 and not many:
        return changes[0].view
    return views.diffs(change.view for change in changes if not change.is_hidden)


def edit_facts(match: EditMatch) -> dict[str, Any]:
    """Return the metadata of an edit."""
    facts = {
        "first_changed_line": match.first_line,
        "last_changed_line": match.first_line + match.span.new.rstrip("\n").count("\n"),
        "match": "exact" if match.exact else "fuzzy",
    }
    if match.occurrences == 1:
        return facts
    del facts["last_changed_line"]
    return {**facts, "occurrences": match.occurrences}


def context_lines(document: Document, match: EditMatch, around: int) -> str:
    """Return the lines around the latest edit, numbered, with a star at changed ones."""
    before, after = document.around(match, around)
    lines = f"{before}{match.span.new}{after}".split("\n")
    number = match.first_line - before.count("\n")  # of the first of these lines
    total = number - 1 + len(lines) - (1 if lines[-1] == "" and len(lines) > 1 else 0)
    first, last = match.first_line, match.first_line + match.span.new.rstrip("\n").count("\n")
    if not match.span.new and (not before or before.endswith("\n")):
        last = first - 1  # whole lines were deleted: no remaining line is marked
    start, end = max(1, first - around), min(total, last + around)
    width = len(str(end))
    visible_lines = [encodings.visible(line.removesuffix("\r")) for line in lines[start - number : end - number + 1]]
    return "\n".join(
        f"{number:>{width}}{'*' if first <= number <= last else ' '}| {line}"
        for number, line in enumerate(visible_lines, start)
    )


def described(path: str, match: EditMatch) -> str:
    """Describe an edit in one line."""
    if match.occurrences > 1:
        return f"edited {path}: {match.occurrences} occurrences on lines {match.first_line}-{match.last_line} replaced"
    count = match.last_line - match.first_line + 1
    new = match.span.new.rstrip("\r\n").count("\n") + 1 if match.span.new else 0
    counts = f"({count} line{'s' * (count != 1)}) replaced with {new} line{'s' * (new != 1)}"
    text = f"edited {path}: lines {match.first_line}-{match.last_line} {counts}"
    return text if match.exact else text + " (fuzzy match: whitespace, quotes or line endings differed)"


def changed(
    text: str, changes: list[FileDiff], meta: dict[str, Any], undo: str | None, *, many: bool = False
) -> Output:
    """Return the output of a completed change."""
    if undo is not None:
        meta["undo"] = undo
    return Output(text, view=diff_view(changes, many=many), meta=meta)


def preview(
    draft: Draft, changes: list[FileDiff], meta: dict[str, Any], *, otherwise: str, many: bool = False
) -> Output:
    """Return the output of a dry run: the diff, or `otherwise` if it is empty."""
    for change in changes:
        if change.executable == (False, False) and change.new_path is None and change.before is not None:
            change.executable = ((draft.mode(change.path) or 0) & 0o111 != 0,) * 2
    view = diff_view(changes, many=many)
    text = diff_text(changes) or otherwise
    return Output(text, view=view, meta={**meta, "dry_run": True}, change=shown_change(changes))
