"""The one door to files for tools: reads that are remembered, and changes that happen whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import itemgetter
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.files.door import Door, Place, Root
from hilt.formats.digests import sha256
from hilt.state.trail import Stamp, Trail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.draft import Draft
    from hilt.state.history import History, RecordedChange

MAX_BYTES = 50 * 1024 * 1024
FORCED_BYTES = 4 * MAX_BYTES  # of all files of one change: they are held in memory, with what becomes of them
CHUNK_BYTES = 1024 * 1024


class FileContents(NamedTuple):
    """A file that was read: its path as callers see it, its bytes, its status."""

    path: str
    data: bytes
    status: os.stat_result


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
        self.store = store
        self.door = store.door.for_call()
        self.session = session
        self.fence = fence
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

    def read(self, path: str, *, limit: int = MAX_BYTES, remember: bool = True) -> FileContents:
        """Return a file's bytes, and remember that this session saw them."""
        with self.stream(path, limit=limit, remember=remember) as stream:
            return FileContents(stream.path, stream.all(), stream.status)

    def checksum(self, path: str) -> str | None:
        """Return the SHA-256 of a file that this call has read, by its path as callers see it."""
        stamp = self.seen.get(path)
        return stamp.hash.hex() if stamp is not None and stamp.hash is not None else None

    @contextmanager
    def stream(self, path: str, *, limit: int = MAX_BYTES, remember: bool = True) -> Iterator[FileStream]:
        """Open a file for reading in pieces; once it was read to its end, the session counts as having seen it."""
        try:
            with self.door.open_file(path) as (descriptor, status, place):
                if status.st_size > limit:
                    raise too_large(place.path, status.st_size, limit)
                stream = FileStream(descriptor, status, place.path, limit, self.fence)
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
        self.fence.check()
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
        from hilt.files.draft import Draft
        from hilt.files.writing import target_path

        shown = list(dict.fromkeys(target_path(self.door, path) for path in dict.fromkeys(paths)))
        while True:
            with self.locked(shown):
                # whoever changes these files holds these locks, so that what is unfinished now was cut off
                if not self.store.history().is_unfinished(shown):
                    yield Draft(self, operation, shown, force=force, fresh=fresh)
                    return
            from hilt.files.recovery import mend_all

            for mended in mend_all(self):
                targets = {file.path for file in mended.change.snapshots}
                if mended.error is not None and not targets.isdisjoint(shown):
                    raise mended.error
            self.fence.check()
            time.sleep(0.01)  # somebody else may be mending it

    def locked(self, paths: Iterable[str]) -> AbstractContextManager[None]:
        """Hold the locks of these targets, which are those of the files themselves, whatever workspace they are in."""
        from hilt.state import locks

        names = []
        for path in paths:
            root, parts = self.door.locate(path)
            names.append("/".join((root.real.rstrip("/"), *(part for part in parts if part not in ("", ".")))))
        return locks.targets(self.store.locks, names, self.fence.check)

    # --- history --------------------------------------------------------------------------------------------------

    def changes(self, limit: int | None = None) -> list[RecordedChange]:
        """Return the changes that can be undone, newest first."""
        return self.store.history().changes(limit)

    def snapshot_count(self) -> int:
        """Return how many snapshots there are."""
        return self.store.history().total()

    def find_change(self, prefix: str) -> RecordedChange:
        """Return the change with this id or unique beginning of one."""
        return self.store.history().find(prefix)

    def contents(self, hash: bytes) -> bytes:
        """Return contents kept by a snapshot."""
        return self.store.history().blob(hash)

    def clear_history(self) -> int:
        """Forget all snapshots of the workspace."""
        self.fence.commit()
        return self.store.history().clear()

    # --- recovery -------------------------------------------------------------------------------------------------

    def recover(self) -> list[dict[str, object]]:
        """Mend changes that a dead process left half done; return what was done about each."""
        # every change under way, of a living process or a dead one, has a marker there; most calls find no folder
        if not os.access(self.store.journal, os.F_OK) or not os.listdir(self.store.journal):
            return []
        from hilt.files.recovery import mend_all

        return [mended.report for mended in mend_all(self)]


class FileStream:
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


def too_large(path: str, size: int, limit: int, suggestion: str | None = None) -> ToolError:
    """Return the error for a file over a limit."""
    message = f"{path} has {size} bytes; the limit is {limit} ({limit // (1024 * 1024)} MB)."
    return ToolError("file_too_large", message, suggestion=suggestion, path=path, size=size)
