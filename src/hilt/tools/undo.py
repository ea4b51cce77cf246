"""Browse snapshots and restore files."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from hilt.call import Output, Touch
from hilt.context import Context
from hilt.declaration import tool
from hilt.errors import ToolError
from hilt.files.draft import Draft
from hilt.files.editing import FileDiff, changed, diff_of_bytes, diff_text, diff_view, require, shown_change
from hilt.formats.times import rfc3339
from hilt.output import views
from hilt.params import Bounds
from hilt.schema import TEXT, fields
from hilt.state.history import LayerStep, RecordedChange, Snapshot


def _touches(args: dict[str, Any]) -> Iterator[Touch]:
    # only the history knows which files a restore writes, so it counts as the whole workspace
    if args["action"] in ("restore", "clear"):
        yield Touch("write", ".")
    else:
        yield Touch("read", ".")


def _writes(ctx: Context, args: dict[str, Any]) -> list[str]:
    if args["action"] not in ("preview", "restore") or not args.get("id"):
        return []
    try:
        path = args.get("path")
        change = ctx.workspace.find_change(args["id"])
        if change.layer:
            return _written_by_command(ctx, change, path)
        return [file.path for file in _selected(change, None if path is None else ctx.workspace.resolve(path))]
    except ToolError:
        return []  # the tool itself reports the error


_SNAPSHOT = fields(
    "id:string path:string timestamp:string operation:string size:integer created?:boolean deleted?:boolean "
    "conflict?:boolean"
)
_LIST = fields("snapshots:[snapshot] count:integer total:integer", snapshot=_SNAPSHOT) | {TEXT: True}


@tool(effects="write", touches=_touches, output=_LIST, writes=_writes)
def undo(
    ctx: Context,
    action: Literal["list", "preview", "restore", "clear"],
    id: str | None = None,
    limit: Annotated[int, Bounds(minimum=1, maximum=10_000, clamp=True)] | None = None,
    path: str | None = None,
    dry_run: bool = False,
    if_checksum: str | None = None,
    force: bool = False,
) -> Output:
    """List the snapshots taken before every change, and restore files.

    One id is one call: restore reverts all its files, and can itself be undone.

    Details:
    A restore removes files that the call created and recreates files that it deleted. Without limit, list returns all
    snapshots. The changes of a command can be restored if its result says so; paths of folders end with a slash. A
    conflict is a file that someone else changed while the command ran: restore with its path writes the command's
    version.

    Args:
        action: list: newest first; preview: diff of a restore; clear: delete all snapshots.
        id: For preview and restore; any unique prefix works.
        limit: Maximum snapshots to list.
        path: Restore only this file.
        dry_run: Only report what would change.
        if_checksum: Fail unless the file has this SHA-256.
        force: Allow files over 50 MB.
    """
    if action == "list":
        return _list(ctx, limit)
    if action == "clear":
        if dry_run:
            return Output(f"[dry-run] would clear {ctx.workspace.snapshot_count()} snapshots")
        return Output(f"cleared {ctx.workspace.clear_history()} snapshots")
    if not id:
        raise ToolError(
            "invalid_args",
            f"Missing required argument for {action}: id.",
            suggestion='Use action "list" to see the ids.',
        )
    change = ctx.workspace.find_change(id)
    if change.layer:
        if if_checksum:
            raise ToolError("invalid_args", "if_checksum does not apply to the change of a command.")
        return _undo_command(ctx, change, path, is_preview=action == "preview" or dry_run)
    files = _selected(change, None if path is None else ctx.workspace.resolve(path))
    if action == "preview" or dry_run:
        return _preview(ctx, change, files, force=force)
    return _restore(ctx, change, files, if_checksum=if_checksum, force=force)


def _list(ctx: Context, limit: int | None) -> Output:
    total = ctx.workspace.snapshot_count()
    snapshots = []
    for change in ctx.workspace.changes(limit):
        for file in change.snapshots:
            entry: dict[str, Any] = {
                "id": change.id,
                "path": file.path,
                "timestamp": rfc3339(change.at),
                "operation": change.operation,
                "size": file.size,
            }
            if file.before is None:
                entry["created"] = True
            elif file.after is None:
                entry["deleted"] = True
            snapshots.append(entry)
        snapshots += _listed_steps(ctx, change) if change.layer else ()
    snapshots = snapshots[:limit]
    data = {"snapshots": snapshots, "count": len(snapshots), "total": total}
    names = ("id", "path", "timestamp", "operation", "action")
    rows = [{**entry, "action": _action(entry)} for entry in snapshots]
    return Output(data=data, view=views.table({name: name for name in names}, rows, total))


def _listed_steps(ctx: Context, change: RecordedChange) -> list[dict[str, Any]]:
    from hilt.files.command_changes import shown_path

    entries = []
    for step in change.steps:
        entry = {
            "id": change.id,
            "path": views.encodable(shown_path(ctx.workspace, step)),
            "timestamp": rfc3339(change.at),
            "operation": change.operation,
            "size": step.size,
        }
        if step.kind == "conflict":
            entry["conflict"] = True
        elif not step.before.inode:
            entry["created"] = True
        elif not step.after.inode:
            entry["deleted"] = True
        entries.append(entry)
    return entries


def _action(entry: dict[str, Any]) -> str:
    return next((action for action in ("created", "deleted", "conflict") if action in entry), "modified")


def _selected(change: RecordedChange, path: str | None) -> list[Snapshot]:
    files = [file for file in change.snapshots if path is None or file.path == path]
    if not files:
        changed_paths = ", ".join(file.path for file in change.snapshots[:20])
        raise ToolError("not_found", f"The call {change.id} did not change {path}; it changed {changed_paths}.")
    return files


def _restore_to_draft(ctx: Context, draft: Draft, files: list[Snapshot]) -> list[FileDiff]:
    """Write the old contents to the draft and return the resulting changes."""
    changes = []
    for file in files:
        ctx.fence.check()
        now = draft.old(file.path)
        old = None if file.before is None else ctx.workspace.contents(file.before)
        if old is None:
            if now is not None:
                draft.delete(file.path)
        else:
            draft.write(file.path, old, mode=file.mode)
        if now != old:
            change = diff_of_bytes(file.path, now, old)
            change.executable = ((draft.old_mode(file.path) or 0) & 0o111 != 0, (file.mode or 0) & 0o111 != 0)
            changes.append(change)
    return changes


def _preview(ctx: Context, change: RecordedChange, files: list[Snapshot], *, force: bool) -> Output:
    with ctx.workspace.change("undo", [file.path for file in files], force=force, fresh=False) as draft:
        changes = _restore_to_draft(ctx, draft, files)
    otherwise = f"Nothing to restore: the files are the same as before {change.operation} {change.id}."
    return _previewed(changes, otherwise, change.id)


def _previewed(changes: list[FileDiff], otherwise: str, id: str) -> Output:
    """Return what a restore would change: as a diff, and as a list of what the diff does not show."""
    notes = [f"[{change.path}: {change.facts}]\n" for change in changes if change.facts and not change.is_hidden]
    text = "".join([diff_text(changes), *notes])
    for change in changes:
        if change.before is None or change.after is None:
            change.action = change.shown.action  # in the titles: a view of lines does not say it
    view = diff_view(changes, many=len(changes) > 1) if changes else views.none(otherwise)
    return Output(text or otherwise, view=view, meta={"id": id}, change=shown_change(changes))


def _restore(
    ctx: Context, change: RecordedChange, files: list[Snapshot], *, if_checksum: str | None, force: bool
) -> Output:
    with ctx.workspace.change("undo", [file.path for file in files], force=force, fresh=False) as draft:
        if if_checksum:
            if len(files) != 1:
                raise ToolError(
                    "invalid_args",
                    f"if_checksum applies to one file; {change.id} has {len(files)}.",
                    suggestion="Send path to choose one file.",
                )
            require(files[0].path, draft.old(files[0].path), if_checksum=if_checksum)
        changes = _restore_to_draft(ctx, draft, files)
        id = draft.commit(remove_folders=[folder for file in files if file.before is None for folder in file.folders])
    if not changes:
        text = f"Nothing to restore: the files are the same as before {change.operation} {change.id}."
        return Output(text, view=views.none(text), meta={"id": change.id})
    lines = [
        f"{'deleted' if file.after is None else 'recreated' if file.before is None else 'restored'} {file.path}"
        for file in changes
    ]
    text = (
        f"restored {len(lines)} file{'s' * (len(lines) != 1)} to before {change.operation} {change.id}:\n"
        + "\n".join(lines)
    )
    return changed(text, changes, {"id": change.id, "files": [file.path for file in changes]}, id)


# --- changes of commands


def _undo_command(ctx: Context, change: RecordedChange, path: str | None, *, is_preview: bool) -> Output:
    from hilt.files import command_changes

    label = f"{change.operation} {change.id}"
    if path is None:
        steps, denied = command_changes.restorable(ctx.workspace, change)
    else:
        selected = _steps_of(ctx, change, path)
        if selected.inner:
            return _restore_inner(ctx, change, selected, is_preview=is_preview)
        steps, denied = list(selected.steps), []
    if is_preview:
        diffs = list(command_changes.restore_diffs(ctx.workspace, change, steps))
        return _previewed(diffs, f"Nothing to restore: the files are the same as before {label}.", change.id)
    # a part of a repository that git ignored when the command replaced it may now be read
    with ctx.processes.disarming(change.layer) as watch:
        restored = command_changes.restore(ctx.workspace, change, steps)
    skipped = [command_changes.shown_path(ctx.workspace, step) for step in denied]
    skipped += () if restored is None else restored.conflicts
    meta: dict[str, Any] = {"id": change.id, "left_alone": skipped} if skipped else {"id": change.id}
    if restored is None or not restored.id:
        text = f"Nothing to restore: the files are the same as before {label}."
        if skipped:
            text = f"Nothing was restored: the versions before {label} are gone, or tools may not read them."
        return Output(text, view=views.none(text), meta=meta)
    text = f"restored {restored.files} file{'s' * (restored.files != 1)} to before {label}"
    meta["files"] = [file.path for file in restored.diffs]
    text += f"\nskipped: {', '.join(skipped)}" if skipped else ""
    text += "".join(f"\n[disarmed: {note}]" for note in watch.notes())
    return changed(text, list(restored.diffs), meta, restored.id, many=True)


class _CommandSteps(NamedTuple):
    steps: tuple[LayerStep, ...]
    inner: str  # the path of a file in the folder of the only step; empty for whole steps


def _steps_of(ctx: Context, change: RecordedChange, path: str) -> _CommandSteps:
    from hilt.files.command_changes import restorable, shown_path

    paths = [(shown_path(ctx.workspace, step).rstrip("/"), step) for step in change.steps if step.kind != "mode"]
    target = path.rstrip("/")
    steps = [step for changed_path, step in paths if changed_path == target]
    if any(step.kind == "folder" for step in steps):
        allowed, _ = restorable(ctx.workspace, change)
        inside = {step for changed_path, step in paths if changed_path.startswith(target + "/")}
        steps = [step for step in allowed if step in steps or step in inside]
    if steps:
        return _CommandSteps(tuple(steps), "")
    for outer, step in paths:
        if target.startswith(outer + "/") and step.kind != "folder":
            return _CommandSteps((step,), target[len(outer) + 1 :])
    changed_paths = ", ".join([changed_path for changed_path, _ in paths[:20]])
    raise ToolError("not_found", f"The call {change.id} did not change {path}; it changed {changed_paths}.")


def _restore_inner(ctx: Context, change: RecordedChange, selected: _CommandSteps, *, is_preview: bool) -> Output:
    """Restore one file of a folder that the command has deleted or replaced."""
    from hilt.files import command_changes

    [step] = selected.steps
    path = f"{command_changes.shown_path(ctx.workspace, step).rstrip('/')}/{selected.inner}"
    old = command_changes.old_file(ctx.workspace, change, step, selected.inner)
    if old is None:
        raise ToolError("not_found", f"{path} was not a file before {change.operation} {change.id}.", path=path)
    with ctx.workspace.change("undo", [path], fresh=False) as draft:
        diff = diff_of_bytes(path, draft.old(path), old[0])
        if is_preview:
            return _previewed([diff], f"Nothing to restore: {path} is the same.", change.id)
        draft.write(path, old[0], mode=old[1])
        id = draft.commit()
    return changed(f"restored {path} to before {change.operation} {change.id}", [diff], {"id": change.id}, id)


def _written_by_command(ctx: Context, change: RecordedChange, path: str | None) -> list[str]:
    from hilt.files import command_changes

    if path is not None:
        return [path]
    steps, _ = command_changes.restorable(ctx.workspace, change)
    return [command_changes.shown_path(ctx.workspace, step).rstrip("/") for step in steps if step.kind != "mode"]
