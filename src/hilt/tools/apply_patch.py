"""Apply a patch, all or nothing."""

from collections.abc import Iterator
from typing import Any

from hilt.call import Output, Touch
from hilt.context import Context
from hilt.declaration import tool
from hilt.errors import ToolError
from hilt.files.draft import Draft
from hilt.files.editing import Document, FileDiff, changed, diff_of_bytes, diff_text, open_document, preview, require
from hilt.text.encodings import UTF8, encode
from hilt.text.patching import Operation, apply_hunks, parse_patch


def _touches(args: dict[str, Any]) -> Iterator[Touch]:
    for operation in parse_patch(args["patch"], path=args.get("path")):
        yield Touch("write", operation.path)
        if operation.move_to is not None:
            yield Touch("write", operation.move_to)


@tool(effects="write", touches=_touches)
def apply_patch(
    ctx: Context,
    patch: str,
    dry_run: bool = False,
    path: str | None = None,
    if_checksums: dict[str, str] | None = None,
    force: bool = False,
    as_codex: bool = False,
) -> Output:
    """Apply a patch to any number of files, all or nothing. `undo` reverts it.

    Takes a unified diff, or: `*** Begin Patch`; for each file `*** Add File: PATH` (each line starts with +),
    `*** Delete File: PATH` or `*** Update File: PATH` (optionally `*** Move to: PATH`, then hunks: `@@`, optionally
    followed by a line to search for first, then lines starting with a space, - or +); `*** End Patch`.

    Details:
    Context is matched exactly first, then ignoring whitespace and typographic characters. A hunk that matches in two
    places is rejected, unless the line after its `@@` selects one.

    Args:
        patch: Patch text.
        dry_run: Preview the diff only.
        path: File to patch, if the unified diff has no file header.
        if_checksums: Fail unless each path has this SHA-256.
        force: Allow files over 50 MB.
        as_codex: Apply each hunk at its next match, and replace files that the patch adds.
    """
    operations = parse_patch(patch, path=path)
    targets = [target for change in operations for target in (change.path, change.move_to) if target is not None]
    with ctx.workspace.change("apply_patch", targets, force=force) as draft:
        touched = {draft.resolve(target) for target in targets}
        for name, checksum in (if_checksums or {}).items():
            target = draft.resolve(name)
            if target not in touched:
                raise ToolError("invalid_args", f"if_checksums names {name}, which the patch does not touch.")
            require(target, draft.old(target), if_checksum=checksum)
        applied = [_apply(draft, operation, as_codex) for operation in operations]
        changes = _changes(draft, applied)
        meta: dict[str, Any] = {"files": list(dict.fromkeys(change.new_path or change.path for change in changes))}
        if changes:
            meta["edit"] = {"diff": diff_text(changes), "first_changed_line": changes[0].first_changed_line}
        if dry_run:
            return preview(draft, changes, meta, otherwise="[dry-run] the patch changes nothing.", many=True)
        if not draft.differs():
            raise ToolError("edit_no_change", "The patch changes nothing: the files already have these changes.")
        undo = draft.commit()
    count = len(applied)
    text = f"applied patch with {count} operation{'s' * (count != 1)}:\n" + "\n".join(line for line, _ in applied)
    return changed(text, changes, meta, undo, many=True)


def _apply(draft: Draft, operation: Operation, as_codex: bool) -> tuple[str, Operation]:
    path = draft.resolve(operation.path)
    data = draft.read(path)
    if operation.kind == "add":
        if data is not None and (operation.unified or not as_codex):
            raise ToolError("already_exists", f"{path} already exists; the patch adds it.", path=path)
        whole = operation.whole
        content = encode(operation.content or "", UTF8) if whole is None else whole.data
        draft.write(path, content, mode=_mode(operation, None))
        return f"added {path}", operation
    if data is None:
        raise ToolError("file_not_found", f"{path} does not exist; the patch {operation.kind}s it.", path=path)
    if operation.whole is not None:
        _check_id(path, data, operation.whole.before)
    if operation.kind == "delete":
        if operation.hunks:
            remainder = _patched(draft, path, operation, as_codex)  # the diff must contain everything it deletes
            if remainder.data:
                raise ToolError(
                    "patch_conflict",
                    f"The patch deletes {path} but lacks {len(remainder.data)} bytes of it.",
                    suggestion="Create the patch from the complete current text, or use *** Delete File.",
                    path=path,
                )
        draft.delete(path)
        return f"deleted {path}", operation
    if operation.whole is not None:
        new = operation.whole.data
    else:
        new = _patched(draft, path, operation, as_codex).data if operation.hunks else data
    mode = _mode(operation, draft.mode(path))
    if operation.move_to is None:
        draft.write(path, new, mode=mode)
        return f"updated {path}", operation
    target = draft.resolve(operation.move_to)
    if target != path:
        draft.delete(path)
    draft.write(target, new, mode=mode)
    return f"moved {path} to {target}", operation


def _check_id(path: str, data: bytes, expected: str) -> None:
    """Raise unless the file has the git id that the patch expects."""
    from hilt.text.binary_patch import blob_id

    id = blob_id(data)
    if id != expected:
        raise ToolError(
            "patch_conflict",
            f"{path} differs from the file that the patch was made for: its git id is {id}, not {expected}.",
            suggestion="Create the patch from the current file.",
            path=path,
        )


def _mode(operation: Operation, before: int | None) -> int | None:
    """Return the permissions after an operation; a git diff distinguishes only plain and executable files."""
    if operation.mode is None:
        return before
    if before is None:
        return 0o755 if operation.mode.endswith("755") else None
    return before | 0o111 if operation.mode.endswith("755") else before & ~0o111


def _patched(draft: Draft, path: str, operation: Operation, as_codex: bool) -> Document:
    document = open_document(draft, path)
    if any(line.text.startswith("\ufeff") for hunk in operation.hunks for line in hunk.lines):
        document.show_mark()
    document.apply(apply_hunks(document.text, operation._replace(path=path), as_codex=as_codex))
    return document


def _changes(draft: Draft, applied: list[tuple[str, Operation]]) -> list[FileDiff]:
    """Return the combined change of each file; a moved file is one change."""
    origins: dict[str, str] = {}
    for _, operation in applied:
        if operation.move_to is not None:
            source = draft.resolve(operation.path)
            origins[draft.resolve(operation.move_to)] = origins.pop(source, source)
    moved: dict[str, str] = {}
    sources: set[str] = set()
    for path, source in origins.items():
        is_gone = draft.old(source) is not None and draft.read(source) is None
        is_new = draft.old(path) is None and draft.read(path) is not None
        if is_gone and is_new and source not in sources:
            moved[path] = source
            sources.add(source)
    changes = []
    for path in draft.targets():
        if path in sources:
            continue
        source = moved.get(path, path)
        change = diff_of_bytes(source, draft.old(source), draft.read(path), new_path=path if path in moved else None)
        change.executable = (_is_executable(draft.old_mode(source)), _is_executable(draft.mode(path)))
        if draft.old(path) != draft.read(path) or change.diff:
            changes.append(change)
    return changes


def _is_executable(mode: int | None) -> bool:
    return bool((mode or 0) & 0o100)
