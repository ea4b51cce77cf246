"""Mends changes that a dead process left half done."""

from __future__ import annotations

from typing import NamedTuple

from hilt.errors import ToolError
from hilt.files import writing
from hilt.files.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.state.history import RecordedChange, Recording, Snapshot


class Mended(NamedTuple):
    """What became of a change that was cut off; with an error, it stays unfinished and the next call tries again."""

    change: RecordedChange
    report: dict[str, object]
    error: ToolError | None = None


def mend_all(workspace: Workspace) -> list[Mended]:
    """Complete each change that was cut off, or put its files back."""
    results: list[Mended] = []
    for change, recording in workspace.store.history().cut_off():
        # the user was asked about the change when it was made
        own = Workspace(workspace.store, workspace.session, workspace.fence)
        try:
            with own.locked(file.path for file in change.snapshots):
                for file in change.snapshots:
                    own.ask(file.path)
                results.append(Mended(change, _mend(own, change, recording)))
        except ToolError as error:
            workspace.fence.check()
            report: dict[str, object] = {"change": change.id, "outcome": "not mended", "reason": error.message}
            results.append(Mended(change, report, error))
        finally:
            recording.release()
    return results


def _mend(workspace: Workspace, change: RecordedChange, recording: Recording) -> dict[str, object]:
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
    left_alone = []
    for position, (file, state) in enumerate(zip(change.snapshots, states, strict=True)):
        if state == "foreign" or (state == "new" and not _take_back(workspace, file, change.id, position)):
            left_alone.append(file.path)
        if file.before is None:
            writing.remove_folders(door, file.folders)
    if left_alone:
        # something else wrote these in between: what they held before stays reachable
        recording.keep()
        return {"change": change.id, "outcome": "taken back", "left_alone": left_alone}
    recording.drop()
    return {"change": change.id, "outcome": "taken back", "files": len(change.snapshots)}


def _take_back(workspace: Workspace, file: Snapshot, id: str, position: int) -> bool:
    """Put the old contents back; False when they are damaged: better the new ones than none."""
    try:
        data = None if file.before is None else workspace.store.history().blob(file.before)
    except ToolError:
        return False
    writing.put_back(workspace.door, file, data, id, position)
    return True
