"""Edit a file."""

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.files.editing import changed, context_lines, described, edit_facts, open_document, preview, require
from hilt.params import Count, WritePath


@tool(effects="write", traits=Traits(profile="nano"))
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
    replace_all: bool = False,
) -> Output:
    """Replace text that occurs exactly once in a file. `undo` reverts it.

    Refused if the file changed since you read it.

    Details:
    If old_text does not occur, the match ignores trailing whitespace, typographic quotes and dashes, Unicode spaces and
    line endings, provided exactly one place matches. Only the matched text changes; encoding, line endings and all
    other bytes are preserved. With show_context, changed lines are marked with an asterisk.

    Args:
        path: File in the workspace.
        old_text: Exact text to replace; must be unique in the file.
        new_text: Replacement; empty deletes.
        dry_run: Preview the diff only.
        fuzzy_indent: Ignore indentation of old_text; indent new_text to fit.
        show_context: Lines to return around the change.
        if_checksum: Fail unless the file has this SHA-256.
        force: Allow files over 50 MB.
        replace_all: Replace every occurrence.
    """
    if not old_text:
        raise ToolError("old_text_empty", "old_text is empty.")
    with ctx.workspace.change("edit_file", [path], force=force) as draft:
        target = draft.resolve(path)
        require(target, draft.old(target), if_checksum=if_checksum)
        document = open_document(draft, target)
        edit = document.edit_all if replace_all else document.edit
        match = edit(old_text, new_text, fuzzy_indent=fuzzy_indent)
        change = document.change
        meta: dict[str, object] = {"path": target, "edit": {"diff": change.diff, **edit_facts(match)}}
        if dry_run:
            return preview(draft, [change], meta, otherwise="")
        draft.write(target, document.data)
        undo = draft.commit()
    text = described(target, match)
    if show_context:
        text += "\n--- context ---\n" + context_lines(document, match, show_context)
    return changed(text, [change], meta, undo)
