"""The changes of a workspace that can be undone."""

from __future__ import annotations

from typing import Literal, NamedTuple

from hilt.call import Call
from hilt.formats.times import Moment
from hilt.output.views import encodable

TYPE_CHECKING = False
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


def exists(runtime: Runtime, id: str) -> bool:
    """Whether this is the complete id of a change; raise if it could be the beginning of one but is not."""
    is_id = bool(id) and not id.strip("0123456789abcdef")
    return is_id and runtime.parts.history.find(id).id == id


def undo(action: str, id: str) -> Call:
    """Return the call that previews or restores a change."""
    return Call("undo", {"action": action, "id": id}, dialect="jinn")


def _paths(change: RecordedChange) -> Iterator[ChangedPath]:
    for file in change.snapshots:
        action: Action = "created" if file.before is None else "deleted" if file.after is None else "modified"
        yield ChangedPath(file.path, action, file.size)
    for step in change.steps:
        action = "created" if not step.before.inode else "modified" if step.after.inode else "deleted"
        yield ChangedPath(encodable(step.path), action, step.size)
