"""A draft of a change, and its atomic commit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.files import writing
from hilt.files.workspace import FORCED_BYTES, MAX_BYTES, CommittedFile, Workspace
from hilt.files.writing import OldFile
from hilt.formats.digests import sha256
from hilt.handles import Closing
from hilt.state.trail import Stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.state.history import Recording, Snapshot


_COMMANDS = ("run_shell", "shell_exec")
_CLOCK_NS = 10_000_000  # by how much the clock of a file system may be behind


class _Step(NamedTuple):
    """The change of one file, and its position among them."""

    position: int
    file: Snapshot
    old: OldFile
    data: bytes | None


class Draft:
    """A pending change: the old and new contents of its targets."""

    def __init__(self, workspace: Workspace, operation: str, paths: Sequence[str], *, force: bool, fresh: bool) -> None:
        self._workspace = workspace
        self._operation = operation
        self._old: dict[str, OldFile] = {}
        self._new: dict[str, bytes | None] = {}
        self._modes: dict[str, int] = {}
        self._hashes: dict[str, bytes | None] = {}
        budget = FORCED_BYTES
        for path in paths:
            self._old[path] = writing.read_target(
                workspace.door, path, limit=min(budget, FORCED_BYTES if force else MAX_BYTES), force=force
            )
            budget -= len(self._old[path].data or b"")
        if fresh:
            self._reject_stale(paths)

    def _reject_stale(self, paths: Sequence[str]) -> None:
        workspace = self._workspace
        stamps = workspace.store.trail.stamps(workspace.store.id, workspace.session, paths)
        for path, stamp in stamps.items():
            now = self._old[path].hash
            if now != stamp.hash:
                event = "was removed" if now is None else "appeared" if stamp.hash is None else "changed"
                advice = "Call read_file, so that the session sees that the file is gone, and repeat the change."
                by_itself = ", while your own command ran" if self._changed_by_command(path) else ""
                raise ToolError(
                    "stale_file",
                    f"{path} {event} since this session last read it{by_itself}.",
                    suggestion=advice if now is None else None,
                    path=path,
                )

    def _changed_by_command(self, path: str) -> bool:
        """Whether a command of this session ran when a file was changed or removed."""
        workspace = self._workspace
        with workspace.door.place(path, write=True) as place:
            changed = place.status.st_ctime_ns if place.status else os.fstat(place.folder).st_ctime_ns
        since = (changed - _CLOCK_NS) / 1e9
        rows = workspace.store.trail.rows(since=since, workspace=workspace.store.id, session=workspace.session)
        starts = (row.entry.at - row.entry.micros * 1000 for row in rows if row.entry.tool in _COMMANDS)
        return any(start <= changed + _CLOCK_NS for start in starts)

    def resolve(self, path: str) -> str:
        """Return the path of a target as used in this draft."""
        return self._workspace.resolve(path)

    def old(self, path: str) -> bytes | None:
        """Return the original contents of a target; None if it did not exist."""
        return self._old[path].data

    def read(self, path: str) -> bytes | None:
        """Return the contents of a target in this draft."""
        return self._new[path] if path in self._new else self._old[path].data

    def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Set the contents of a target; its mode is unchanged unless one is given."""
        self._new[path] = data
        if mode is not None:
            self._modes[path] = writing.safe_mode(mode)

    def delete(self, path: str) -> None:
        """Delete a target."""
        self._new[path] = None
        self._modes.pop(path, None)

    def old_mode(self, path: str) -> int | None:
        """Return the original permission bits of a target."""
        return self._old[path].mode

    def mode(self, path: str) -> int | None:
        """Return the permission bits of a target in this draft."""
        return self._modes.get(path, self._old[path].mode)

    def targets(self) -> list[str]:
        """Return the paths of all targets."""
        return list(self._old)

    def differs(self) -> bool:
        """Whether the draft changes anything."""
        return any(map(self._differs, self._new))

    def commit(self, *, remove_folders: Sequence[str] = ()) -> str | None:
        """Make the change atomically; return its id for undo, or None if nothing differs.

        `remove_folders` are removed if they contained deleted files and are empty now.
        """
        workspace = self._workspace
        targets = [(self._old[path], data) for path, data in self._new.items() if self._differs(path)]
        if workspace.door.replaced:
            targets.sort(key=lambda target: target[1] is not None)  # a file must go before it becomes a folder
        self._hashes = {old.path: None if data is None else sha256(data) for old, data in targets}
        steps = [
            _Step(position, self._snapshot(old, data, remove_folders), old, data)
            for position, (old, data) in enumerate(targets)
        ]
        workspace.fence.commit()
        id = None
        if steps:
            contents = [(step.file, step.old.data) for step in steps]
            recording = workspace.store.history().begin(workspace.session, self._operation, contents, workspace.call)
            self._carry_out(recording, steps)
            id = recording.id
            workspace.committed |= {old.path: CommittedFile(old.data, data) for old, data in targets}
        for path in self._new:
            workspace.seen.pop(path, None)
        # Only files that the session has read are checked for staleness, so only those get a new stamp. This is done
        # while the files are locked, because another call of the session may be waiting for them.
        trail, place = workspace.store.trail, (workspace.store.id, workspace.session)
        stamped = trail.stamps(*place, self._new)
        if stamped:
            # the change is complete: if this fails, the session must read the files again
            with suppress(ToolError):
                trail.stamp(*place, {path: self._stamp(path) for path in stamped})
        return id

    def _differs(self, path: str) -> bool:
        mode = self._modes.get(path)
        return self._new[path] != self._old[path].data or (mode is not None and mode != self._old[path].mode)

    def _snapshot(self, old: OldFile, data: bytes | None, remove_folders: Sequence[str]) -> Snapshot:
        from hilt.state.history import Snapshot

        folders: tuple[str, ...] = ()
        if old.status is None:
            with self._workspace.door.place(old.path, write=True) as place:
                end = len(place.parts) - 1
                start = end - len(place.missing)
                folders = tuple(place.root.display_path(place.parts[: i + 1]) for i in range(start, end))
        else:
            # rename ignores that the owner made the file read-only
            if not old.writable:
                raise ToolError("permission_denied", f"{old.path} is read-only.", path=old.path)
            if data is None:
                folders = tuple(sorted(folder for folder in set(remove_folders) if old.path.startswith(folder + "/")))
        after = self._hashes[old.path]
        new_mode = None if data is None else self._modes.get(old.path)
        return Snapshot(old.path, old.hash, old.mode or 0, len(old.data or b""), after, folders, new_mode)

    def _carry_out(self, recording: Recording, steps: Sequence[_Step]) -> None:
        done: set[int] = set()
        try:
            if self._workspace.door.replaced:
                self._make_way(recording.id, steps, done)
            for step in steps:
                if step.data is not None:
                    self._prepare(recording.id, step, step.data)
            folders: dict[str, str] = {}
            for step in steps:
                if step.position not in done:
                    self._swap(recording.id, step)
                    done.add(step.position)
                folders.setdefault(step.file.path.rpartition("/")[0], step.file.path)
            for path in folders.values():
                with self._workspace.door.place(path, write=True) as place:
                    writing.sync(place.folder)
            for step in steps:
                if step.data is None:
                    writing.remove_folders(self._workspace.door, step.file.folders)
            recording.keep()
        except BaseException as error:
            try:
                self._roll_back(recording, steps, done)
            except (ToolError, OSError) as rollback_error:
                message = f"{error} Rolling back the change failed too ({rollback_error}); the next call recovers it."
                advice = (
                    rollback_error.suggestion
                    if isinstance(rollback_error, ToolError)
                    else "Ask the user to free disk space."
                )
                raise ToolError("resource_limit", message, suggestion=advice, change=recording.id) from error
            raise
        finally:
            recording.release()  # if unfinished, the next call recovers it

    def _make_way(self, id: str, steps: Sequence[_Step], done: set[int]) -> None:
        """Delete files first, and then folders that become files."""
        door = self._workspace.door
        emptied = set()
        for step in steps:
            if step.data is None:
                self._swap(id, step)
                done.add(step.position)
                path = step.file.path
                emptied |= {path[:end] for end in range(len(path)) if path[end] == "/"}
        written = {step.file.path for step in steps if step.file.before is None}
        removed = [folder for folder in emptied if any(f"{folder}/".startswith(f"{path}/") for path in written)]
        writing.remove_folders(door, sorted(removed))
        for path in written & set(door.replaced):
            with door.place(path, write=True) as place, suppress(FileNotFoundError):
                os.rmdir(place.name, dir_fd=place.folder)

    def _prepare(self, id: str, step: _Step, data: bytes) -> None:
        """Write the new file next to its target."""
        path, temporary = step.file.path, writing.temporary_name(id, step.position)
        with self._workspace.door.place(path, write=True) as place, Closing(writing.make_folders(place)) as folder:
            mode = self._modes.get(path, None if place.status is None else writing.safe_mode(step.file.mode))
            writing.write_temporary(folder, place.name, temporary, data, mode, place.status)

    def _swap(self, id: str, step: _Step) -> None:
        """Replace the old file with the new one, if it has not changed since the draft was made."""
        path, temporary = step.file.path, writing.temporary_name(id, step.position)
        with self._workspace.door.place(path, write=True) as place:
            if writing.identity(place.status) != writing.identity(step.old.status):
                raise ToolError("stale_file", f"{path} changed while it was being written.", path=path)
            if step.data is None:
                os.unlink(place.name, dir_fd=place.folder)
            else:
                os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)

    def _roll_back(self, recording: Recording, steps: Sequence[_Step], done: set[int]) -> None:
        door = self._workspace.door
        for step in reversed(steps):
            if step.position in done and writing.state(door, step.file) == "new":
                writing.put_back(door, step.file, step.old.data, recording.id, step.position)
            writing.remove_temporary(door, step.file, recording.id, step.position)
            if step.file.before is None:
                writing.remove_folders(door, step.file.folders)
        recording.drop()

    def _stamp(self, path: str) -> Stamp:
        hash = self._hashes.get(path, self._old[path].hash)
        if hash is None:
            return Stamp(0, 0, None)
        with self._workspace.door.place(path, write=True) as place:
            status = place.status
        return Stamp(status.st_size, status.st_mtime_ns, hash) if status else Stamp(0, 0, hash)
