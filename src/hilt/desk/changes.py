"""The changes of a workspace that can be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from hilt.call import Call
from hilt.formats.times import Moment
from hilt.output.views import encodable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hilt.runtime import Runtime
    from hilt.state.history import RecordedChange


Action = Literal["created", "deleted", "modified"]


class ChangedPath(NamedTuple):
    """One file or folder of a change."""

    path: str
    action: Action
    size: int


class EarlierFile(NamedTuple):
    """A file as it was before a change."""

    change: str
    operation: str
    path: str
    size: int
    blob: bytes


class Change(NamedTuple):
    """What one call changed."""

    id: str
    session: str
    operation: str
    time: Moment
    files: tuple[ChangedPath, ...]


def newest(runtime: Runtime) -> list[Change]:
    """Return the newest changes first."""
    return [
        Change(change.id, change.session, change.operation, Moment(change.at), tuple(_paths(change)))
        for change in runtime.parts.history.changes()
    ]


def snapshots(runtime: Runtime, session: str, limit: int) -> Iterator[EarlierFile]:
    """Yield the files as they were before the newest changes of a session."""
    for change in runtime.parts.history.changes(limit, session=session):
        yield from _snapshots(change)


def snapshot(runtime: Runtime, session: str, id: str, path: str) -> EarlierFile | None:
    """Return a file as it was before a change of a session; None if the change did not have it."""
    change = runtime.parts.history.find(id)
    matches = (found for found in _snapshots(change) if found.path == path)
    return next(matches, None) if change.session == session else None


def content(runtime: Runtime, snapshot: EarlierFile) -> bytes:
    """Return the content of a file as it was."""
    return runtime.parts.history.blobs.read(snapshot.blob)


def exists(runtime: Runtime, id: str) -> bool:
    """Whether this is the complete id of a change; raise if it could be the beginning of one but is not."""
    is_id = bool(id) and not id.strip("0123456789abcdef")
    return is_id and runtime.parts.history.find(id).id == id


def undo(action: str, id: str) -> Call:
    """Return the call that previews or restores a change."""
    return Call("undo", {"action": action, "id": id}, dialect="jinn")


def _snapshots(change: RecordedChange) -> Iterator[EarlierFile]:
    for file in change.snapshots:
        if file.before is not None:
            yield EarlierFile(change.id, change.operation, file.path, file.size, file.before)


def _paths(change: RecordedChange) -> Iterator[ChangedPath]:
    for file in change.snapshots:
        action: Action = "created" if file.before is None else "deleted" if file.after is None else "modified"
        yield ChangedPath(file.path, action, file.size)
    for step in change.steps:
        action = "created" if not step.before.inode else "modified" if step.after.inode else "deleted"
        yield ChangedPath(encodable(step.path), action, step.size)
