"""Edit a file."""

from tongs.call import Output
from tongs.context import Context
from tongs.declaration import tool
from tongs.editing import changed, context_lines, described, edit_facts, open_document, preview, require
from tongs.errors import ToolError
from tongs.params import Count, WritePath


@tool(effects="write")
def edit_file(
    ctx: Context,
    path: WritePath,
    old_text: str,
    new_text: str,
    dry_run: bool = False,
    fuzzy_indent: bool = False,
    show_context: Count = 0,
    if_checksum: str | None = None,
    force: bool = False,
) -> Output:
    """Replace one piece of text in a file. `undo` takes it back.

    old_text must occur exactly once. When it does not occur, blanks at line ends, typographic quotes and dashes,
    Unicode spaces and line endings are overlooked, if that leaves exactly one place. Only the matched text changes:
    encoding, line endings and every other byte stay.

    Args:
        path: File to edit, relative to the workspace.
        old_text: Text to find, copied exactly; include a neighbouring line when it occurs more than once.
        new_text: Text to put in its place; empty deletes it.
        dry_run: Show the change as a unified diff and write nothing.
        fuzzy_indent: Also accept old_text with another indentation, and indent new_text as the file does.
        show_context: Also return this many lines around the change, changed lines marked with a star.
        if_checksum: Edit only when the file has this SHA-256.
        force: Allow editing a file larger than 50 MB.
    """
    if not old_text:
        raise ToolError("old_text_empty", "old_text is empty.")
    with ctx.workspace.change("edit_file", [path], force=force) as draft:
        target = draft.resolve(path)
        require(target, draft.old(target), if_checksum=if_checksum)
        document = open_document(draft, target)
        match = document.edit(old_text, new_text, fuzzy_indent=fuzzy_indent)
        change = document.change
        meta: dict[str, object] = {"path": target, "edit": {"diff": change.diff, **edit_facts(match)}}
        if dry_run:
            return preview([change], meta, otherwise="")
        draft.write(target, document.data)
        undo = draft.commit()
    text = described(target, match)
    if show_context:
        text += "\n--- context ---\n" + context_lines(document, match, show_context)
    return changed(text, [change], meta, undo)
