"""Edit several files, all or none."""

from typing import Annotated, Any, NamedTuple

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import tool
from hilt.editing import (
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
from hilt.errors import ToolError
from hilt.params import Count, Items, WritePath
from hilt.text.encodings import Span
from hilt.text.matching import Match, find_edit
from hilt.workspace import Draft


class Edit(NamedTuple):
    """One edit.

    Args:
        path: File.
        old_text: Must occur once.
        new_text: Empty deletes.
        fuzzy_indent: As in edit_file.
        show_context: Lines to return around.
        if_checksum: SHA-256 of the file.
    """

    path: WritePath
    old_text: str
    new_text: str
    fuzzy_indent: bool = False
    show_context: Count = 0
    if_checksum: str | None = None


@tool(effects="write")
def multi_edit(
    ctx: Context, edits: Annotated[list[Edit], Items(1)], dry_run: bool = False, force: bool = False
) -> Output:
    """Make several edits, in one file or many: all, or none when any fails. `undo` takes all back.

    Each as edit_file does, in order, on what earlier ones wrote; none may overlap.

    Args:
        edits: In order.
        dry_run: Return the diff, write nothing.
        force: Also files over 50 MB.
    """
    for index, edit in enumerate(edits):
        if not edit.old_text:
            raise ToolError("old_text_empty", f"edits[{index}] ({edit.path}): old_text is empty.", index=index)
    with ctx.workspace.change("multi_edit", [edit.path for edit in edits], force=force) as draft:
        batch = _Batch(draft)
        for index, edit in enumerate(edits):
            ctx.fence.check()
            batch.add(index, edit)
        batch.refuse_failures(len(edits))
        changes = [document.change for document in batch.documents.values()]
        meta: dict[str, Any] = {
            "files": list(batch.documents),
            "edit": {"diff": diff_text(changes), "first_changed_line": changes[0].first_changed_line},
            "edits": [
                {"index": done.position, "path": done.document.path, **edit_facts(done.match)} for done in batch.done
            ],
        }
        if dry_run:
            return preview(changes, meta, otherwise="[dry-run] the edits change nothing.", many=True)
        for path, document in batch.documents.items():
            draft.write(path, document.data)
        if not draft.differs():
            raise ToolError("edit_no_change", "The edits undo each other: nothing would change.")
        undo = draft.commit()
    lines = [_line(done) for done in batch.done]
    text = f"applied {len(edits)} edit{'s' * (len(edits) != 1)}:\n" + "\n".join(lines)
    return changed(text, changes, meta, undo, many=True)


class _Done(NamedTuple):
    position: int
    edit: Edit
    document: Document
    match: Match
    context: str


def _line(done: _Done) -> str:
    text = described(done.document.path, done.match)
    return f"{text}\n--- context ---\n{done.context}" if done.context else text


class _Batch:
    """Edits checked one after the other, with everything that is wrong collected."""

    def __init__(self, draft: Draft) -> None:
        self.documents: dict[str, Document] = {}
        self.done: list[_Done] = []
        self._draft = draft
        self._failures: list[tuple[int, str, ToolError]] = []
        self._ranges: dict[str, list[tuple[int, Span]]] = {}

    def add(self, index: int, edit: Edit) -> None:
        path = self._draft.resolve(edit.path)
        try:
            require(path, self._draft.old(path), if_checksum=edit.if_checksum)
            document = self.documents.get(path) or open_document(self._draft, path)
            self._refuse_overlap(index, edit, document)
            match = document.edit(edit.old_text, edit.new_text, fuzzy_indent=edit.fuzzy_indent)
        except ToolError as error:
            self._failures.append((index, path, error))
            return
        self.documents[path] = document
        context = context_lines(document, match, edit.show_context) if edit.show_context else ""
        self.done.append(_Done(index, edit, document, match, context))

    def _refuse_overlap(self, index: int, edit: Edit, document: Document) -> None:
        """Refuse an edit whose place in the original text overlaps that of an earlier one."""
        try:
            span = find_edit(
                document.before, edit.old_text, edit.new_text, path=document.path, fuzzy_indent=edit.fuzzy_indent
            ).span
        except ToolError:
            return  # it aims at what an earlier edit wrote, or fails below
        ranges = self._ranges.setdefault(document.path, [])
        for other, taken in ranges:
            if span.start < taken.end and taken.start < span.end:
                raise ToolError(
                    "edit_overlap",
                    f"edits[{other}] and edits[{index}] overlap in {document.path}.",
                    indices=[other, index],
                )
        ranges.append((index, span))

    def refuse_failures(self, count: int) -> None:
        """Raise when anything failed: the first error, with all of them told."""
        if not self._failures:
            return
        first = self._failures[0][2]
        lines = [f"edits[{index}] {path}: {error.message}" for index, path, error in self._failures]
        told = [
            {"index": index, "path": path, "error": error.message, "error_code": error.code}
            for index, path, error in self._failures
        ]
        message = f"{len(lines)} of {count} edits failed, nothing was changed:\n" + "\n".join(lines)
        details = {**first.details, "failures": told}
        raise ToolError(first.code, message, suggestion=first.suggestion, **details)
