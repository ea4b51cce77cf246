"""The one door to files for tools: reads that are remembered, and changes that happen whole or not at all."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import itemgetter
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.files.door import Door, Place, Root, not_a_file, plain_error
from hilt.formats.digests import Digest, sha256
from hilt.state.trail import Stamp, Trail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.state.history import Change, History, Recording, Snapshot

MAX_BYTES = 50 * 1024 * 1024
FORCED_BYTES = 4 * MAX_BYTES  # of all files of one change: they are held in memory, with what becomes of them
SYNCED_TOGETHER = 64  # new files that are open at once
CHUNK_BYTES = 1024 * 1024


class Found(NamedTuple):
    """A file that was read: its path as callers see it, its bytes, its status."""

    path: str
    data: bytes
    status: os.stat_result


class _Old(NamedTuple):
    """A target of a change as it was when the change looked at it; status None: it was not there."""

    path: str
    data: bytes | None
    digest: Digest | None
    status: os.stat_result | None
    writable: bool = True

    @property
    def hash(self) -> bytes | None:
        """The SHA-256 of the data."""
        return None if self.digest is None else self.digest.value()

    @property
    def mode(self) -> int | None:
        """The permission bits."""
        return None if self.status is None else stat.S_IMODE(self.status.st_mode)


class Store(NamedTuple):
    """Where a workspace keeps what must survive a call."""

    id: str
    door: Door
    history: Callable[[], History]  # most calls only read, and need none
    journal: str
    trail: Trail
    locks: str


class Workspace:
    """The folders an agent may use, as one call of one session sees them."""

    def __init__(self, store: Store, session: str, fence: Fence) -> None:
        self._store = store
        self.door = store.door.for_call()
        self._session = session
        self._fence = fence
        self.seen: dict[str, Stamp | None] = {}  # what the session saw of files, stored when the call is recorded

    @property
    def root(self) -> str:
        """The first folder of the workspace on this machine; only for dialects whose documents promise it."""
        return self.door.roots[0].real

    def judge(self, path: str, *, write: bool) -> None:
        """Raise when the text of a path is refused; opening it applies the same rules to what is really there."""
        self.door.judge(path, write=write)

    def ask(self, path: str) -> list[str]:
        """Return the names in a path that the user is asked about; the caller sees to it that this happens."""
        return self.door.ask(path)

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, path: str, *, limit: int = MAX_BYTES, remember: bool = True) -> Found:
        """Return a file's bytes, and remember that this session saw them."""
        with self.stream(path, limit=limit, remember=remember) as stream:
            return Found(stream.path, stream.all(), stream.status)

    def checksum(self, path: str) -> str | None:
        """Return the SHA-256 of a file that this call has read, by its path as callers see it."""
        stamp = self.seen.get(path)
        return stamp.hash.hex() if stamp is not None and stamp.hash is not None else None

    @contextmanager
    def stream(self, path: str, *, limit: int = MAX_BYTES, remember: bool = True) -> Iterator[Stream]:
        """Open a file for reading in pieces; once it was read to its end, the session counts as having seen it."""
        try:
            with self.door.open_file(path) as (descriptor, status, place):
                if status.st_size > limit:
                    raise too_large(place.path, status.st_size, limit)
                stream = Stream(descriptor, status, place.path, limit, self._fence)
                yield stream
                if remember and stream.hash is not None:
                    # a file that grew or shrank while it was read has no size and time that belong together
                    now = os.fstat(descriptor)
                    self.seen[place.path] = Stamp(stream.size, now.st_mtime_ns, stream.hash)
        except ToolError as error:
            if error.code == "file_not_found":
                self._forget(path)
            raise

    def _forget(self, path: str) -> None:
        with suppress(ToolError):
            root, parts = self.door.locate(path)
            self.seen[root.shown([part for part in parts if part not in ("", ".")])] = None

    def status(self, path: str) -> tuple[str, os.stat_result]:
        """Return the path as callers see it and its status; links that stay inside are followed."""
        with self.door.place(path) as place:
            if place.status is None:
                raise ToolError("file_not_found", f"{place.path} does not exist.", path=place.path)
            return place.path, place.status

    def resolve(self, path: str) -> str:
        """Return a path as callers see it, by text alone, as befits files that are not reached through links."""
        root, parts = self.door.locate(path)
        names: list[str] = []
        for part in parts:
            if part == "..":
                names.pop()
            elif part not in ("", "."):
                names.append(part)
        return root.shown(names)

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        try:
            self.status(path)
        except ToolError as error:
            if error.code == "file_not_found":
                return False
            raise
        return True

    def walk(self, path: str, *, depth: int, hidden: bool = False) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield (path, entry) below a folder, in the order of paths, without following links.

        Sensitive names never appear. A folder that vanishes or cannot be read is passed over.
        """
        with self.door.open_folder(path) as (descriptor, place):
            yield from self._walk(descriptor, place, depth, hidden=hidden)

    def _walk(self, folder: int, place: Place, depth: int, *, hidden: bool) -> Iterator[tuple[str, os.DirEntry[str]]]:
        prefix = place.root.shown(place.parts)
        base = "" if prefix == "." else prefix + "/"
        handles = [folder]
        # by a stack of our own: generators inside generators cost a step per level for every entry
        levels = [(base, place.parts, iter(self._entries(folder, place.root, place.parts, hidden=hidden)))]
        try:
            while levels:
                base, parts, entries = levels[-1]
                for name, entry in entries:
                    yield base + name, entry
                    if len(levels) < depth and name.endswith("/"):
                        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                        try:
                            handles.append(os.open(entry.name, flags, dir_fd=handles[-1]))
                        except OSError:
                            continue
                        if self.door.marked is not None and self.door.marked(os.fstat(handles[-1])):
                            os.close(handles.pop())
                            continue
                        inner = (*parts, entry.name)
                        levels.append(
                            (base + name, inner, iter(self._entries(handles[-1], place.root, inner, hidden=hidden)))
                        )
                        break
                else:
                    levels.pop()
                    if levels:
                        os.close(handles.pop())
        finally:
            for handle in handles[1:]:
                os.close(handle)

    def _entries(
        self, folder: int, root: Root, parts: tuple[str, ...], *, hidden: bool
    ) -> list[tuple[str, os.DirEntry[str]]]:
        """Return what a folder shows, folders with a slash behind their names, in the order that whole paths have."""
        self._fence.check()
        door = self.door
        suspect = door.rules.suspect
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if not hidden and name[0] == ".":
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                # told here by the first character, and not by a call, for the sake of folders with many names
                is_suspect = is_folder or suspect is None or name[0] in suspect or not name.isascii()
                if (is_suspect or door.barrier is not None) and door.is_sensitive(root, (*parts, name)):
                    continue
                found.append((name + "/" if is_folder else name, entry))
        found.sort(key=itemgetter(0))
        return found

    # --- changing -------------------------------------------------------------------------------------------------

    @contextmanager
    def change(
        self, operation: str, paths: Iterable[str], *, force: bool = False, fresh: bool = True
    ) -> Iterator[Draft]:
        """Lock the targets and yield a draft of the change; it happens when `commit` is called on it.

        With `fresh`, a file that this session read and that has changed since is refused.
        """
        shown = list(dict.fromkeys(self._target(path) for path in dict.fromkeys(paths)))
        while True:
            with self._locked(shown):
                # whoever changes these files holds these locks, so that what is unfinished now was cut off
                if not self._store.history().is_unfinished(shown):
                    yield Draft(self, operation, shown, force=force, fresh=fresh)
                    return
            for change, _, error in self._mend_all():
                if error is not None and not {file.path for file in change.snapshots}.isdisjoint(shown):
                    raise error
            self._fence.check()
            time.sleep(0.01)  # somebody else may be mending it

    def _locked(self, paths: Iterable[str]) -> AbstractContextManager[None]:
        """Hold the locks of these targets, which are those of the files themselves, whatever workspace they are in."""
        from hilt.state import locks

        names = []
        for path in paths:
            root, parts = self.door.locate(path)
            names.append("/".join((root.real.rstrip("/"), *(part for part in parts if part not in ("", ".")))))
        return locks.targets(self._store.locks, names, self._fence.check)

    def _target(self, path: str) -> str:
        with self.door.place(path, write=True) as place:
            if place.status is not None and not stat.S_ISREG(place.status.st_mode):
                raise not_a_file(place.path, place.status.st_mode)
            if not place.path.isascii() and any("\ud800" <= character <= "\udfff" for character in place.path):
                raise ToolError("invalid_args", "Tools change only files whose names are UTF-8.")  # as snapshots are
            return place.path

    # --- history --------------------------------------------------------------------------------------------------

    def changes(self, limit: int | None = None) -> list[Change]:
        """Return the changes that can be undone, newest first."""
        return self._store.history().changes(limit)

    def snapshot_count(self) -> int:
        """Return how many snapshots there are."""
        return self._store.history().total()

    def find_change(self, prefix: str) -> Change:
        """Return the change with this id or unique beginning of one."""
        return self._store.history().find(prefix)

    def contents(self, hash: bytes) -> bytes:
        """Return contents kept by a snapshot."""
        return self._store.history().blob(hash)

    def clear_history(self) -> int:
        """Forget all snapshots of the workspace."""
        self._fence.commit()
        return self._store.history().clear()

    # --- recovery -------------------------------------------------------------------------------------------------

    def recover(self) -> list[dict[str, object]]:
        """Mend changes that a dead process left half done; return what was done about each."""
        # every change under way, of a living process or a dead one, has a marker there; most calls find no folder
        if not os.access(self._store.journal, os.F_OK) or not os.listdir(self._store.journal):
            return []
        return [report for _, report, _ in self._mend_all()]

    def _mend_all(self) -> list[tuple[Change, dict[str, object], ToolError | None]]:
        done: list[tuple[Change, dict[str, object], ToolError | None]] = []
        for change, recording in self._store.history().cut_off():
            # the user was asked about the change when it was made
            own = Workspace(self._store, self._session, self._fence)
            try:
                with self._locked(file.path for file in change.snapshots):
                    for file in change.snapshots:
                        own.ask(file.path)
                    done.append((change, own._mend(change, recording), None))
            except ToolError as error:
                self._fence.check()
                # it stays unfinished, and the next call tries again
                report: dict[str, object] = {"change": change.id, "outcome": "not mended", "reason": error.message}
                done.append((change, report, error))
            finally:
                recording.release()
        return done

    def _mend(self, change: Change, recording: Recording) -> dict[str, object]:
        states = [self._state(file) for file in change.snapshots]
        for position, file in enumerate(change.snapshots):
            self._remove_temporary(file, change.id, position)
        if all(state == "new" for state in states):
            for file in change.snapshots:
                if file.after is None:
                    self._remove_folders(file.folders)
            recording.keep()
            return {"change": change.id, "outcome": "completed", "files": len(change.snapshots)}
        alone = []
        for position, (file, state) in enumerate(zip(change.snapshots, states, strict=True)):
            if state == "foreign" or (state == "new" and not self._take_back(file, change.id, position)):
                alone.append(file.path)
            if file.before is None:
                self._remove_folders(file.folders)
        if alone:
            # something else wrote these in between: what they held before stays reachable
            recording.keep()
            return {"change": change.id, "outcome": "taken back", "left_alone": alone}
        recording.drop()
        return {"change": change.id, "outcome": "taken back", "files": len(change.snapshots)}

    def _state(self, file: Snapshot) -> str:
        """Return whether a target of a cut-off change is "old", "new" or "foreign"."""
        try:
            now = self._look(file.path)
        except ToolError:
            return "foreign"  # not a file any more
        if now.hash == file.after and file.new_mode in (None, now.mode):
            return "new"
        return "old" if now.hash == file.before else "foreign"

    def _take_back(self, file: Snapshot, id: str, position: int) -> bool:
        """Put the old contents back; False when they are damaged: better the new ones than none."""
        try:
            data = None if file.before is None else self._store.history().blob(file.before)
        except ToolError:
            return False
        self._put_back(file, data, id, position)
        return True

    def _look(self, path: str, *, limit: int = FORCED_BYTES, force: bool = True) -> _Old:
        """Return a target of a change as it is now."""
        with self.door.place(path, write=True) as place:
            if place.status is None:
                return _Old(path, None, None, None)
            if not stat.S_ISREG(place.status.st_mode):
                raise not_a_file(path, place.status.st_mode)
            if place.status.st_size > limit:
                raise _unchangeable(path, place.status.st_size, limit, force=force)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(place.name, flags, dir_fd=place.folder)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise not_a_file(path, status.st_mode)
                self.door.check_object(status, path)
                # a change shows what it replaces
                self.door.check_rules(place.root, place.parts, write=False)
                data = _read_all(descriptor, min(status.st_size, limit), limit)
                if len(data) > limit:
                    raise _unchangeable(path, len(data), limit, force=force)
                by_us = os.access in os.supports_effective_ids
                writable = os.access(place.name, os.W_OK, dir_fd=place.folder, effective_ids=by_us)
                return _Old(path, data, Digest(data), status, writable)
            finally:
                os.close(descriptor)

    def _remove_temporary(self, file: Snapshot, id: str, position: int) -> None:
        with suppress(ToolError, OSError), self.door.place(file.path, write=True) as place:
            os.unlink(temporary_name(id, position), dir_fd=place.folder)

    def _put_back(self, file: Snapshot, data: bytes | None, id: str, position: int) -> None:
        with self.door.place(file.path, write=True) as place:
            if data is None:
                os.unlink(place.name, dir_fd=place.folder)
            else:
                folder = _make_folders(place)
                try:
                    temporary = temporary_name(id, position)
                    with _Unsynced() as unsynced:
                        written = _write_temporary(folder, place.name, temporary, data, file.mode, place.status)
                        unsynced.add(written, file.path)
                        unsynced.sync()
                    os.rename(temporary, place.name, src_dir_fd=folder, dst_dir_fd=folder)
                finally:
                    os.close(folder)
            _sync(place.folder)

    def _remove_folders(self, folders: Sequence[str]) -> None:
        """Remove folders that the change had made, as far as they are empty."""
        for path in reversed(folders):
            with suppress(ToolError, OSError), self.door.place(path, write=True) as place:
                os.rmdir(place.name, dir_fd=place.folder)


class Stream:
    """An open file that is hashed as it is read."""

    def __init__(self, descriptor: int, status: os.stat_result, path: str, limit: int, fence: Fence) -> None:
        self.path = path
        self.status = status
        self.size = 0
        self.hash: bytes | None = None  # known once the end was reached
        self._descriptor = descriptor
        self._limit = limit
        self._fence = fence

    def __iter__(self) -> Iterator[bytes]:
        from hashlib import sha256 as incremental

        digest = incremental()
        while chunk := self._next(CHUNK_BYTES):
            digest.update(chunk)
            yield chunk
        self.hash = digest.digest()

    def all(self) -> bytes:
        """Read to the end."""
        # one piece where the size is true, which keeps a large file in memory once and a small one out of large buffers
        size = max(self.status.st_size + 1, 4096)
        pieces = [self._next(size)]
        while len(pieces[-1]) == size:
            size = CHUNK_BYTES
            pieces.append(self._next(size))
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.hash = sha256(data)
        return data

    def _next(self, size: int) -> bytes:
        self._fence.check()
        piece = os.read(self._descriptor, size)
        self.size += len(piece)
        if self.size > self._limit:
            raise too_large(self.path, self.size, self._limit)
        return piece


class Draft:
    """A change in the making: what the targets hold now, and what they are to hold."""

    def __init__(self, workspace: Workspace, operation: str, paths: Sequence[str], *, force: bool, fresh: bool) -> None:
        self._workspace = workspace
        self._operation = operation
        self._old: dict[str, _Old] = {}
        self._new: dict[str, bytes | None] = {}
        self._modes: dict[str, int] = {}
        self._hashes: dict[str, bytes | None] = {}
        left = FORCED_BYTES
        for path in paths:
            self._old[path] = workspace._look(path, limit=min(left, FORCED_BYTES if force else MAX_BYTES), force=force)
            left -= len(self._old[path].data or b"")
        if fresh:
            self._refuse_stale(paths)

    def _refuse_stale(self, paths: Sequence[str]) -> None:
        workspace = self._workspace
        stamps = workspace._store.trail.stamps(workspace._store.id, workspace._session, paths)
        for path, stamp in stamps.items():
            now = self._old[path].hash
            if now != stamp.hash:
                what = "was removed" if now is None else "appeared" if stamp.hash is None else "changed"
                advice = "Call read_file, which then takes note that it is gone, and repeat the change."
                raise ToolError(
                    "stale_file",
                    f"{path} {what} after this session last saw it.",
                    suggestion=advice if now is None else None,
                    path=path,
                )

    def resolve(self, path: str) -> str:
        """Return the path of a target as the draft knows it."""
        return self._workspace.resolve(path)

    def old(self, path: str) -> bytes | None:
        """Return what a target held when the change began, None when it was not there."""
        return self._old[path].data

    def read(self, path: str) -> bytes | None:
        """Return what a target holds in this draft."""
        return self._new[path] if path in self._new else self._old[path].data

    def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Let the target hold this; its mode is kept unless one is given."""
        self._new[path] = data
        if mode is not None:
            self._modes[path] = mode

    def delete(self, path: str) -> None:
        """Let the target be gone."""
        self._new[path] = None
        self._modes.pop(path, None)

    def old_mode(self, path: str) -> int | None:
        """Return the permission bits that a target had when the change began."""
        return self._old[path].mode

    def mode(self, path: str) -> int | None:
        """Return the permission bits that a target has in this draft."""
        return self._modes.get(path, self._old[path].mode)

    def targets(self) -> list[str]:
        """Return the paths of all targets."""
        return list(self._old)

    def differs(self) -> bool:
        """Whether the draft changes anything."""
        return any(map(self._differs, self._new))

    def commit(self, *, remove_folders: Sequence[str] = ()) -> str | None:
        """Make the change, all of it or nothing; return its id for undo, None when nothing differs.

        Of the folders named, those go that held files which the change deletes and are empty then.
        """
        workspace = self._workspace
        targets = [(self._old[path], data) for path, data in self._new.items() if self._differs(path)]
        digests = [None if data is None else Digest(data) for _, data in targets]
        self._hashes = {
            old.path: None if digest is None else digest.value()
            for (old, _), digest in zip(targets, digests, strict=True)
        }
        files = [self._snapshot(old, data, remove_folders) for old, data in targets]
        workspace._fence.commit()
        id = None
        if files:
            history = workspace._store.history()
            contents = [(file, old.data) for file, (old, _) in zip(files, targets, strict=True)]
            recording = history.begin(workspace._session, self._operation, contents, self._link)
            self._carry_out(recording, files, targets)
            id = recording.id
        for path in self._new:
            workspace.seen.pop(path, None)
        # Only what the session has read is guarded, so only that is stamped anew; and now, while the files are locked:
        # another call of the session may be waiting for them.
        trail, place = workspace._store.trail, (workspace._store.id, workspace._session)
        read = trail.stamps(*place, self._new)
        if read:
            # the change is made: where this cannot be noted, the session has to read the files again
            with suppress(ToolError):
                trail.stamp(*place, {path: self._stamp(path) for path in read})
        return id

    def _link(self, path: str, destination: str) -> bool:
        """Give a target that the change replaces a second name, for the history to keep it under."""
        with self._workspace.door.place(path, write=True) as place:
            if place.status is None or place.status.st_nlink != 1:
                return False  # under another name it could go on changing
            if _identity(place.status) != _identity(self._old[path].status):
                return False
            try:
                os.link(place.name, destination, src_dir_fd=place.folder, follow_symlinks=False)
                descriptor = os.open(destination, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                return False  # another file system, or one without links
            try:
                os.fsync(descriptor)
                return os.fstat(descriptor).st_ino == place.status.st_ino
            finally:
                os.close(descriptor)

    def _differs(self, path: str) -> bool:
        mode = self._modes.get(path)
        return self._new[path] != self._old[path].data or (mode is not None and mode != self._old[path].mode)

    def _snapshot(self, old: _Old, data: bytes | None, remove_folders: Sequence[str]) -> Snapshot:
        from hilt.state.history import Snapshot

        folders: tuple[str, ...] = ()
        if old.status is None:
            with self._workspace.door.place(old.path, write=True) as place:
                end = len(place.parts) - 1
                start = end - len(place.missing)
                folders = tuple(place.root.shown(place.parts[: i + 1]) for i in range(start, end))
        else:
            # a rename would replace a file that its owner made read-only; that is not ours to overrule
            if not old.writable:
                raise ToolError("permission_denied", f"{old.path} is read-only.", path=old.path)
            if data is None:
                folders = tuple(sorted(folder for folder in set(remove_folders) if old.path.startswith(folder + "/")))
        after = self._hashes[old.path]
        new_mode = None if data is None else self._modes.get(old.path)
        return Snapshot(old.path, old.hash, old.mode or 0, len(old.data or b""), after, folders, new_mode)

    def _carry_out(
        self, recording: Recording, files: Sequence[Snapshot], targets: Sequence[tuple[_Old, bytes | None]]
    ) -> None:
        done: list[int] = []
        try:
            with _Unsynced(many=len(files) > 1) as unsynced:
                for position, (file, (_, data)) in enumerate(zip(files, targets, strict=True)):
                    if data is not None:
                        unsynced.add(self._prepare(recording.id, position, file, data), file.path)
                unsynced.sync()
            folders: dict[str, str] = {}
            for position, (file, (old, data)) in enumerate(zip(files, targets, strict=True)):
                self._swap(recording.id, position, file, old, data)
                done.append(position)
                folders.setdefault(file.path.rpartition("/")[0], file.path)
            for path in folders.values():
                with self._workspace.door.place(path, write=True) as place:
                    _sync(place.folder)
            for file in files:
                if file.after is None:
                    self._workspace._remove_folders(file.folders)
            recording.keep()
        except BaseException as error:
            try:
                self._take_back(recording, targets, files, done)
            except (ToolError, OSError) as second:
                message = f"{error} Taking the change back failed too ({second}); the next call mends it."
                advice = second.suggestion if isinstance(second, ToolError) else "Ask the user to free disk space."
                raise ToolError("resource_limit", message, suggestion=advice, change=recording.id) from error
            raise
        finally:
            recording.release()  # what could not be settled here, the next call mends

    def _prepare(self, id: str, position: int, file: Snapshot, data: bytes) -> int:
        """Write the new file beside its target; return a handle of it, for it to be synced."""
        with self._workspace.door.place(file.path, write=True) as place:
            folder = _make_folders(place)
            try:
                mode = self._modes.get(file.path, file.mode if place.status is not None else None)
                return _write_temporary(folder, place.name, temporary_name(id, position), data, mode, place.status)
            finally:
                os.close(folder)

    def _swap(self, id: str, position: int, file: Snapshot, old: _Old, data: bytes | None) -> None:
        """Put the new file in the place of the old one, if that is still what the change looked at."""
        with self._workspace.door.place(file.path, write=True) as place:
            if _identity(place.status) != _identity(old.status):
                raise ToolError("stale_file", f"{file.path} changed while it was being written.", path=file.path)
            if data is None:
                os.unlink(place.name, dir_fd=place.folder)
            else:
                os.rename(temporary_name(id, position), place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)

    def _take_back(
        self,
        recording: Recording,
        targets: Sequence[tuple[_Old, bytes | None]],
        files: Sequence[Snapshot],
        done: Sequence[int],
    ) -> None:
        workspace = self._workspace
        for position in reversed(done):
            if workspace._state(files[position]) == "new":
                workspace._put_back(files[position], targets[position][0].data, recording.id, position)
        for position, file in enumerate(files):
            workspace._remove_temporary(file, recording.id, position)
            if file.before is None:
                workspace._remove_folders(file.folders)
        recording.drop()

    def _stamp(self, path: str) -> Stamp:
        hash = self._hashes.get(path, self._old[path].hash)
        if hash is None:
            return Stamp(0, 0, None)
        with self._workspace.door.place(path, write=True) as place:
            status = place.status
        return Stamp(status.st_size, status.st_mtime_ns, hash) if status else Stamp(0, 0, hash)


def temporary_name(id: str, position: int) -> str:
    """Return the name under which a new file waits beside its target."""
    return f".hilt-{id}-{position}"


def too_large(path: str, size: int, limit: int, suggestion: str | None = None) -> ToolError:
    """Return the error for a file over a limit."""
    message = f"{path} has {size} bytes; the limit is {limit} ({limit // (1024 * 1024)} MB)."
    return ToolError("file_too_large", message, suggestion=suggestion, path=path, size=size)


def _unchangeable(path: str, size: int, limit: int, *, force: bool) -> ToolError:
    """Return the error for a file that is too large to be changed."""
    most = f"{FORCED_BYTES // (1024 * 1024)} MB"
    if limit < MAX_BYTES or (force and limit < FORCED_BYTES):
        message = (
            f"{path} has {size} bytes; with the files before it, the change would hold more than {most} in memory."
        )
        return ToolError("file_too_large", message, suggestion="Change fewer files at once.", path=path, size=size)
    advice = f"Change it by a command with run_shell: tools hold a file in memory, {most} at most."
    if not force and size <= FORCED_BYTES:
        advice = f"Pass force: true to change it all the same, up to {most}."
    return too_large(path, size, limit, suggestion=advice)


def _identity(status: os.stat_result | None) -> tuple[int, ...] | None:
    # without the time of the last change to the inode: giving it a second name is one
    return None if status is None else (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns)


def _read_all(descriptor: int, size: int, limit: int) -> bytes:
    """Read to the end, or a little further than the limit; in one piece where the size is true."""
    wanted = max(size + 1, 4096)
    chunks = [os.read(descriptor, wanted)]
    left = limit - len(chunks[0])
    while len(chunks[-1]) == wanted and left >= 0:
        wanted = CHUNK_BYTES
        chunks.append(os.read(descriptor, wanted))
        left -= len(chunks[-1])
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _make_folders(place: Place) -> int:
    """Make the missing folders of a place and return a handle of the last one."""
    folder = os.dup(place.folder)
    for name in place.missing:
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
                _sync(folder)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _write_temporary(
    folder: int, name: str, temporary: str, data: bytes, mode: int | None, like: os.stat_result | None
) -> int:
    """Write a new file beside its target, with the target's mode, owner and attributes where possible."""
    # what replaces a private file is at no moment readable for others
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if like is not None:
            _copy_attributes(folder, name, descriptor, like)
        if mode is not None:
            os.fchmod(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class _Unsynced:
    """New files that are written and not yet safe on the disk. Many are synced together in half the time."""

    def __init__(self, *, many: bool = False) -> None:
        self._files: list[tuple[int, str]] = []  # descriptor and path
        self._many = many and hasattr(os, "posix_fadvise")

    def __enter__(self) -> _Unsynced:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor, _path in self._files:
            os.close(descriptor)

    def add(self, descriptor: int, path: str) -> None:
        self._files.append((descriptor, path))
        if self._many:
            # makes the kernel begin to write; then no sync waits for a place on the disk to be found
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if len(self._files) == SYNCED_TOGETHER:
            self.sync()

    def sync(self) -> None:
        while self._files:
            descriptor, path = self._files[-1]
            try:
                os.fsync(descriptor)
            except OSError as error:
                raise plain_error(error, path) from error
            self._files.pop()
            os.close(descriptor)


def _copy_attributes(folder: int, name: str, descriptor: int, like: os.stat_result) -> None:
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        with suppress(OSError):
            os.fchown(descriptor, like.st_uid, like.st_gid)
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            for attribute in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
        finally:
            os.close(source)


def _sync(folder: int) -> None:
    # handles of the walk may be for paths only; syncing needs one that is open for reading
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
