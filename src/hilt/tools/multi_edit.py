"""Edit several files, all or none."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import tool
from hilt.errors import ToolError
from hilt.files.draft import Draft
from hilt.files.editing import (
    Document,
    changed,
    context_lines,
    described,
    diff_text,
    edit_facts,
    open_document,
    preview,
    require,
)
from hilt.params import Count, Items, WritePath
from hilt.text.matching import EditMatch, Ranges

NEAREST_MAX = 10  # failures that report the nearest line


class Edit(NamedTuple):
    """One edit.

    Args:
        path: File to edit.
        old_text: Exact text to replace; must be unique.
        new_text: Replacement; empty deletes.
        fuzzy_indent: As in edit_file.
        show_context: Lines to return around the change.
        if_checksum: Fail unless the file has this SHA-256.
        replace_all: Replace every occurrence.
    """

    path: WritePath
    old_text: str
    new_text: str
    fuzzy_indent: bool = False
    show_context: Count = 0
    if_checksum: str | None = None
    replace_all: bool = False


@tool(effects="write")
def multi_edit(
    ctx: Context, edits: Annotated[list[Edit], Items(1)], dry_run: bool = False, force: bool = False
) -> Output:
    """Make several edits in one file or many; all or nothing. `undo` reverts them.

    Each works like edit_file, on the result of the edits before it; edits must not overlap.

    Args:
        edits: Edits to make, in order.
        dry_run: Preview the diff only.
        force: Allow files over 50 MB.
    """
    for index, edit in enumerate(edits):
        if not edit.old_text:
            raise ToolError("old_text_empty", f"edits[{index}] ({edit.path}): old_text is empty.", index=index)
    with ctx.workspace.change("multi_edit", [edit.path for edit in edits], force=force) as draft:
        batch = _EditBatch(draft, edits)
        for index, edit in enumerate(edits):
            ctx.fence.check()
            batch.add(index, edit)
        batch.raise_failures(len(edits))
        changes = [document.change for document in batch.documents.values()]
        meta: dict[str, Any] = {
            "files": list(batch.documents),
            "edit": {"diff": diff_text(changes), "first_changed_line": changes[0].first_changed_line},
            "edits": [
                {"index": applied.position, "path": applied.document.path, **edit_facts(applied.match)}
                for applied in batch.applied
            ],
        }
        if dry_run:
            return preview(draft, changes, meta, otherwise="[dry-run] the edits change nothing.", many=True)
        for path, document in batch.documents.items():
            draft.write(path, document.data)
        if not draft.differs():
            raise ToolError("edit_no_change", "The edits cancel each other out: nothing would change.")
        undo = draft.commit()
    lines = [_line(applied) for applied in batch.applied]
    text = f"applied {len(edits)} edit{'s' * (len(edits) != 1)}:\n" + "\n".join(lines)
    return changed(text, changes, meta, undo, many=True)


class _AppliedEdit(NamedTuple):
    position: int
    edit: Edit
    document: Document
    match: EditMatch
    context: str


def _line(applied: _AppliedEdit) -> str:
    text = described(applied.document.path, applied.match)
    return f"{text}\n--- context ---\n{applied.context}" if applied.context else text


class _Failure(NamedTuple):
    # not the error itself: its traceback would keep every searched text in memory
    position: int
    path: str
    code: str
    message: str
    suggestion: str | None
    details: dict[str, Any]


class _EditBatch:
    """Edits checked one by one; failures are collected."""

    def __init__(self, draft: Draft, edits: Sequence[Edit]) -> None:
        self.documents: dict[str, Document] = {}
        self.applied: list[_AppliedEdit] = []
        self._draft = draft
        self._failures: list[_Failure] = []
        self._opened: dict[str, Document] = {}
        self._verified: set[tuple[str, str | None]] = set()
        self._edited: dict[str, Ranges] = {}
        self._edits = Counter(draft.resolve(edit.path) for edit in edits)

    def add(self, index: int, edit: Edit) -> None:
        path = self._draft.resolve(edit.path)
        try:
            if (path, edit.if_checksum) not in self._verified:
                require(path, self._draft.old(path), if_checksum=edit.if_checksum)
                self._verified.add((path, edit.if_checksum))
            document = self._open(path)
            self._check_overlap(index, edit, document)
            nearest = len(self._failures) < NEAREST_MAX
            if edit.replace_all:
                match = document.edit_all(edit.old_text, edit.new_text, fuzzy_indent=edit.fuzzy_indent)
            else:
                match = document.edit(edit.old_text, edit.new_text, fuzzy_indent=edit.fuzzy_indent, nearest=nearest)
        except ToolError as error:
            self._failures.append(_Failure(index, path, error.code, error.message, error.suggestion, error.details))
            return
        self.documents[path] = document
        context = context_lines(document, match, edit.show_context) if edit.show_context else ""
        self.applied.append(_AppliedEdit(index, edit, document, match, context))

    def _open(self, path: str) -> Document:
        if path not in self._opened:
            self._opened[path] = open_document(self._draft, path)
        return self._opened[path]

    def _check_overlap(self, index: int, edit: Edit, document: Document) -> None:
        """Reject an edit whose range in the original text overlaps an earlier one."""
        if self._edits[document.path] == 1:
            return
        span = document.original_span(edit.old_text, edit.new_text, fuzzy_indent=edit.fuzzy_indent)
        if span is None:
            return  # it matches text that an earlier edit wrote, or fails below
        edited = self._edited.setdefault(document.path, Ranges())
        others = edited.overlapping(span.start, span.end)
        if others:
            other = min(others)
            raise ToolError(
                "edit_overlap",
                f"edits[{other}] and edits[{index}] overlap in {document.path}.",
                indices=[other, index],
            )
        edited.add(span.start, span.end, index)

    def raise_failures(self, count: int) -> None:
        """Raise the first error, with all failures in its message and details."""
        if not self._failures:
            return
        first = self._failures[0]
        lines = [f"edits[{failure.position}] {failure.path}: {failure.message}" for failure in self._failures]
        reported = [
            {"index": failure.position, "path": failure.path, "error": failure.message, "error_code": failure.code}
            for failure in self._failures
        ]
        message = f"{len(lines)} of {count} edits failed; nothing was changed:\n" + "\n".join(lines)
        details = {**first.details, "failures": reported}
        raise ToolError(first.code, message, suggestion=first.suggestion, **details)
