"""Write a file."""

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.files.editing import changed, diff_of_bytes, preview, require
from hilt.output import views
from hilt.params import WritePath
from hilt.text.encodings import UTF8, encode


@tool(effects="write", traits=Traits(profile="nano"))
def write_file(
    ctx: Context,
    path: WritePath,
    content: str,
    dry_run: bool = False,
    if_checksum: str | None = None,
    if_absent: bool = False,
    force: bool = False,
) -> Output:
    """Create or overwrite a file, creating folders. `undo` restores the old one.

    Refused if the file changed since you read it. To change a part, use edit_file.

    Details:
    Does not overwrite a file that someone else changed after this session read it. An existing file keeps its mode.

    Args:
        path: File in the workspace.
        content: Complete new contents.
        dry_run: Preview the diff only.
        if_checksum: Fail unless the existing file has this SHA-256.
        if_absent: Fail if the file exists.
        force: Allow files over 50 MB.
    """
    with ctx.workspace.change("write_file", [path], force=force) as draft:
        target = draft.resolve(path)
        old, new = draft.old(target), encode(content, UTF8)
        require(target, old, if_checksum=if_checksum, if_absent=if_absent)
        change = diff_of_bytes(target, old, new)
        meta: dict[str, object] = {"path": target, "size": len(new), "created": old is None}
        if dry_run:
            if old is None:
                text = f"[dry-run] would create {target} ({len(new)} bytes)"
                return preview(draft, [change], meta, otherwise="")._replace(text=text)
            same = "already has this content" if old == new else "already has this text; its encoding becomes UTF-8"
            return preview(draft, [change], meta, otherwise=f"[dry-run] {target} {same}.")
        draft.write(target, new)
        undo = draft.commit()
    text = f"wrote {len(new)} bytes to {target}"
    if old is None:
        return Output(text, view=views.code(target, content, created=True), meta={**meta, "undo": undo})
    return changed(text, [change], meta, undo)
