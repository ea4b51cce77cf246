"""File access for tools: tracked reads and atomic changes."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import itemgetter
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.files.door import Door, Place, Root, plain_error
from hilt.formats.digests import sha256
from hilt.handles import LISTED
from hilt.state.trail import Stamp, Trail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.draft import Draft
    from hilt.state.history import History, RecordedChange

MAX_BYTES = 50 * 1024 * 1024
FORCED_BYTES = 4 * MAX_BYTES  # of all files of one change: old and new contents are held in memory
CHUNK_BYTES = 1024 * 1024


class FileContents(NamedTuple):
    """A file that was read: its path as callers see it, its bytes and its status."""

    path: str
    data: bytes
    status: os.stat_result


class CommittedFile(NamedTuple):
    """A file before and after a change; None if it did not or does not exist."""

    before: bytes | None
    after: bytes | None


class Store(NamedTuple):
    """The state of a workspace that its calls share."""

    id: str
    door: Door
    history: Callable[[], "History"]  # opened on demand: most calls only read
    journal: str
    trail: Trail
    locks: str


class Workspace:
    """The folders an agent may use, as one call of one session sees them."""

    def __init__(self, store: Store, session: str, fence: Fence, call: str = "") -> None:
        """`call` is the caller's id for the call, which the journal records."""
        self.store = store
        self.call = call
        self.door = store.door.for_call()
        self.session = session
        self.fence = fence
        self.committed: dict[str, CommittedFile] = {}  # files that the call has changed
        self.seen: dict[str, Stamp | None] = {}  # files that the session has seen; stored when the call is recorded

    @property
    def root(self) -> str:
        """The absolute path of the first workspace folder; only for dialects whose specification exposes it."""
        return self.door.roots[0].real

    def judge(self, path: str, *, write: bool) -> None:
        """Raise if a path is denied by its text; opening it applies the same rules to the resolved path."""
        self.door.judge(path, write=write)

    def is_readable(self, path: str) -> bool:
        """Whether the text of a path allows reading it."""
        try:
            self.judge(path, write=False)
        except ToolError:
            return False
        return True

    def ask(self, path: str) -> list[str]:
        """Return the names in a path that need the user's approval; the caller must ask for it."""
        return self.door.ask(path)

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, path: str, *, limit: int = MAX_BYTES, remember: bool = True) -> FileContents:
        """Return a file's bytes, and remember that this session has seen them."""
        stream = self._open(path, limit)
        try:
            data = stream.all()
            if remember:
                self._remember(stream)
            return FileContents(stream.path, data, stream.status)
        finally:
            stream.close()

    def checksum(self, path: str) -> str | None:
        """Return the SHA-256 of a file that this call has read, by its path as callers see it."""
        stamp = self.seen.get(path)
        return stamp.hash.hex() if stamp is not None and stamp.hash is not None else None

    @contextmanager
    def stream(self, path: str, *, limit: int = MAX_BYTES, remember: bool = True) -> Iterator["FileStream"]:
        """Open a file for reading in pieces; once read to the end, the session has seen it."""
        stream = self._open(path, limit)
        try:
            yield stream
            if remember and stream.hash is not None:
                self._remember(stream)
        finally:
            stream.close()

    def _open(self, path: str, limit: int) -> "FileStream":
        try:
            descriptor, status, shown_path = self.door.open(path)
        except ToolError as error:
            if error.code == "file_not_found":
                self._forget(path)
            raise
        stream = FileStream(descriptor, status, shown_path, limit, self.fence)
        if status.st_size > limit:
            stream.close()
            raise too_large(shown_path, status.st_size, limit)
        return stream

    def _remember(self, stream: "FileStream") -> None:
        # use the number of bytes read, not the size, since the file may have changed meanwhile
        self.seen[stream.path] = Stamp(stream.size, stream.status.st_mtime_ns, stream.hash)

    def _forget(self, path: str) -> None:
        with suppress(ToolError):
            root, parts = self.door.locate(path)
            self.seen[root.display_path([part for part in parts if part not in ("", ".")])] = None

    def status(self, path: str) -> tuple[str, os.stat_result]:
        """Return the path as callers see it and its status; links that stay inside are followed."""
        with self.door.place(path) as place:
            if place.status is None:
                raise ToolError("file_not_found", f"{place.path} does not exist.", path=place.path)
            return place.path, place.status

    def resolve(self, path: str) -> str:
        """Return a path as callers see it, without accessing the disk; for paths without links."""
        root, parts = self.door.locate(path)
        names: list[str] = []
        for part in parts:
            if part == "..":
                names.pop()
            elif part not in ("", "."):
                names.append(part)
        return root.display_path(names)

    def full_path(self, path: str) -> str:
        """Return the absolute path of a path as callers see it."""
        root, parts = self.door.locate(path)
        return root.full([part for part in parts if part not in ("", ".")])

    def exists(self, path: str) -> bool:
        """Whether the path exists."""
        try:
            self.status(path)
        except ToolError as error:
            if error.code == "file_not_found":
                return False
            raise
        return True

    def walk(self, path: str, *, depth: int, hidden: bool = False) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Yield (path, entry) below a folder, sorted by path, without following links.

        Sensitive names are omitted. A folder that disappears or cannot be read is skipped.
        """
        with self.door.open_folder(path) as (descriptor, place):
            yield from self._walk(descriptor, place, depth, hidden=hidden)

    def _walk(self, folder: int, place: Place, depth: int, *, hidden: bool) -> Iterator[tuple[str, os.DirEntry[str]]]:
        prefix = place.root.display_path(place.parts)
        base = "" if prefix == "." else prefix + "/"
        handles = [folder]
        # an explicit stack: nested generators would cost one step per level for every entry
        levels = [(base, place.parts, iter(self._entries(folder, place.root, place.parts, hidden=hidden)))]
        try:
            while levels:
                base, parts, entries = levels[-1]
                for name, entry in entries:
                    yield base + name, entry
                    if len(levels) < depth and name.endswith("/"):
                        try:
                            handles.append(os.open(entry.name, LISTED, dir_fd=handles[-1]))
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
        """Return the visible entries of a folder, sorted; the names of folders end with a slash."""
        self.fence.check()
        door = self.door
        suspect = door.rules.suspect
        visible = []
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if not hidden and name[0] == ".":
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                # inlined check of the first character: a call would be slow for large folders
                is_suspect = is_folder or suspect is None or name[0] in suspect or not name.isascii()
                if (is_suspect or door.barrier is not None) and door.is_sensitive(root, (*parts, name)):
                    continue
                visible.append((name + "/" if is_folder else name, entry))
        visible.sort(key=itemgetter(0))
        return visible

    # --- changing -------------------------------------------------------------------------------------------------

    @contextmanager
    def change(
        self, operation: str, paths: Iterable[str], *, force: bool = False, fresh: bool = True
    ) -> Iterator["Draft"]:
        """Lock the targets and yield a draft of the change; nothing is written before its `commit`.

        With `fresh`, files that have changed since this session read them are rejected.
        """
        from hilt.files.draft import Draft
        from hilt.files.writing import target_path

        names = list(dict.fromkeys(paths))
        self.replace_kinds(map(self.resolve, names))
        target_paths = list(dict.fromkeys(target_path(self.door, path) for path in names))
        while True:
            with self.locked(target_paths):
                # every writer of these files holds these locks, so an unfinished change was interrupted
                if not self.store.history().is_unfinished(target_paths, map(self.full_path, target_paths)):
                    yield Draft(self, operation, target_paths, force=force, fresh=fresh)
                    return
            from hilt.files.recovery import recover_all

            for recovered in recover_all(self):
                targets = {file.path for file in recovered.change.snapshots}
                if recovered.error is not None and (recovered.change.layer or not targets.isdisjoint(target_paths)):
                    raise recovered.error
            self.fence.check()
            time.sleep(0.01)  # another process may be recovering it

    def replace_kinds(self, paths: Iterable[str]) -> None:
        """Let a change of these targets replace files with folders and folders with files."""
        targets = set(paths)
        above = {path[:end] for path in targets for end in range(len(path)) if path[end] == "/"}
        self.door.replaced = targets & above

    def locked(self, paths: Iterable[str]) -> AbstractContextManager[None]:
        """Hold the locks of these targets; all workspaces that contain the files share them."""
        from hilt.state import locks

        return locks.targets(self.store.locks, map(self.full_path, paths), self.fence.check)

    def locked_paths(self, paths: Iterable[str]) -> AbstractContextManager[None]:
        """Like `locked`, for absolute paths."""
        from hilt.state import locks

        return locks.targets(self.store.locks, paths, self.fence.check)

    # --- history --------------------------------------------------------------------------------------------------

    def changes(self, limit: int | None = None) -> list["RecordedChange"]:
        """Return the changes that can be undone, newest first."""
        return self.store.history().changes(limit)

    def snapshot_count(self) -> int:
        """Return the number of snapshots."""
        return self.store.history().total()

    def find_change(self, prefix: str) -> "RecordedChange":
        """Return the change with this id or unique prefix."""
        return self.store.history().find(prefix)

    def contents(self, hash: bytes) -> bytes:
        """Return the contents of a snapshot."""
        return self.store.history().blobs.read(hash)

    def clear_history(self) -> int:
        """Delete all snapshots of the workspace."""
        self.fence.commit()
        return self.store.history().clear()

    # --- recovery -------------------------------------------------------------------------------------------------

    def recover(self) -> list[dict[str, object]]:
        """Recover changes that a dead process left unfinished; return a report for each."""
        # every unfinished change has a marker there; usually the folder does not exist
        if not os.access(self.store.journal, os.F_OK) or not os.listdir(self.store.journal):
            return []
        from hilt.files.recovery import recover_all

        return [recovered.report for recovered in recover_all(self)]


class FileStream:
    """An open file that is hashed as it is read."""

    def __init__(self, descriptor: int, status: os.stat_result, path: str, limit: int, fence: Fence) -> None:
        self.path = path
        self.status = status
        self.size = 0
        self.hash: bytes | None = None  # known after reading to the end
        self.descriptor = descriptor
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
        # a single read if the size is right: a large file is in memory only once, and a small one needs no large buffer
        size = max(self.status.st_size + 1, 4096)
        pieces = [self._next(size)]
        while len(pieces[-1]) == size:
            size = CHUNK_BYTES
            pieces.append(self._next(size))
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.hash = sha256(data)
        return data

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)

    def _next(self, size: int) -> bytes:
        self._fence.check()
        try:
            piece = os.read(self.descriptor, size)
        except OSError as error:
            raise plain_error(error, self.path) from error
        self.size += len(piece)
        if self.size > self._limit:
            raise too_large(self.path, self.size, self._limit)
        return piece


def too_large(path: str, size: int, limit: int, suggestion: str | None = None) -> ToolError:
    """Return the error for a file over the size limit."""
    message = f"{path} has {size} bytes; the limit is {limit} ({limit // (1024 * 1024)} MB)."
    return ToolError("file_too_large", message, suggestion=suggestion, path=path, size=size)
