"""Recovery of changes that a dead process left unfinished."""

from __future__ import annotations

from typing import NamedTuple

from hilt.errors import ToolError
from hilt.files import writing
from hilt.files.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.state.history import RecordedChange, Recording, Snapshot


class Recovered(NamedTuple):
    """The outcome for an interrupted change; with an error, it stays unfinished and the next call retries."""

    change: RecordedChange
    report: dict[str, object]
    error: ToolError | None = None


def recover_all(workspace: Workspace) -> list[Recovered]:
    """Complete each interrupted change, or restore its files."""
    results: list[Recovered] = []
    for change, recording in workspace.store.history().interrupted():
        # the user already approved the change when it was made
        recovery_workspace = Workspace(workspace.store, workspace.session, workspace.fence)
        try:
            if change.layer:
                from hilt.files import command_changes

                results.append(Recovered(change, command_changes.recover(recovery_workspace, change, recording)))
                continue
            recovery_workspace.replace_kinds(file.path for file in change.snapshots)
            with recovery_workspace.locked(file.path for file in change.snapshots):
                for file in change.snapshots:
                    recovery_workspace.ask(file.path)
                results.append(Recovered(change, _recover(recovery_workspace, change, recording)))
        except ToolError as error:
            workspace.fence.check()
            report: dict[str, object] = {"change": change.id, "outcome": "failed", "reason": error.message}
            results.append(Recovered(change, report, error))
        finally:
            recording.release()
    return results


def _recover(workspace: Workspace, change: RecordedChange, recording: Recording) -> dict[str, object]:
    door = workspace.door
    states = [writing.state(door, file) for file in change.snapshots]
    for position, file in enumerate(change.snapshots):
        writing.remove_temporary(door, file, change.id, position)
    if all(state == "new" for state in states):
        for file in change.snapshots:
            if file.after is None:
                writing.remove_folders(door, file.folders)
        recording.keep()
        return {"change": change.id, "outcome": "completed", "files": len(change.snapshots)}
    skipped = []
    for position, (file, state) in reversed(list(enumerate(zip(change.snapshots, states, strict=True)))):
        if state == "foreign" or (state == "new" and not _roll_back(workspace, file, change.id, position)):
            skipped.append(file.path)
        if file.before is None:
            writing.remove_folders(door, file.folders)
    if skipped:
        # another program wrote these files meanwhile: keep the old contents for undo
        recording.keep()
        return {"change": change.id, "outcome": "restored", "left_alone": skipped[::-1]}
    recording.drop()
    return {"change": change.id, "outcome": "restored", "files": len(change.snapshots)}


def _roll_back(workspace: Workspace, file: Snapshot, id: str, position: int) -> bool:
    """Restore the old contents; return False if they are damaged, and keep the new ones."""
    try:
        data = None if file.before is None else workspace.store.history().blobs.read(file.before)
    except ToolError:
        return False
    writing.put_back(workspace.door, file, data, id, position)
    return True
