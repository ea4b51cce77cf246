"""state.db: snapshots taken before every change, the journal that makes changes atomic, and the blobs they refer to.

A change is one call's set of files. Before any file is modified, its old contents and the hash of its new contents are
committed to the database with synchronous FULL. A marker file in the journal folder, locked for as long as its process
lives, marks the change as unfinished. If the lock can be taken, the change was interrupted and must be recovered.

The change of a command stores no contents here: its rows say which version of each path is in the workspace, and where
the other version is in the folder of its layer.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from hilt.call import AGENT
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.state.directory import writing
from hilt.state.locks import try_lock
from hilt.state.tables import open_state

INLINE_BYTES = 1024 * 1024  # larger blobs are stored as files
COMPRESS_BYTES = 64 * 1024  # larger blobs are compressed later, not during the call
_LAST = (1 << 63) - 1  # the largest integer in SQLite
_INODES = 1 << 64

_EVICTED_MAX = 100_000  # newer changes, after which the record of which call made a change is deleted


class Snapshot(NamedTuple):
    """A file before a change; `before` is None if it did not exist, `after` is None if the change removed it."""

    path: str
    before: bytes | None
    mode: int
    size: int
    after: bytes | None
    folders: tuple[str, ...]  # parent folders that the change creates for the file, or removes with it
    new_mode: int | None = None  # if the change sets one


class Version(NamedTuple):
    """The file at a path before or after the change of a command; the inode is 0 if there is none."""

    inode: int = 0
    mode: int = 0


Kind = Literal["swap", "mode", "folder", "conflict"]


class LayerStep(NamedTuple):
    """A path that a command has changed: a file or a whole folder that is swapped with the one in its slot.

    `root` is a workspace folder, `path` is relative to it, and `slot` to the folder of the layer. A step of the kind
    "mode" sets the permissions of a folder; one of the kind "folder" creates or removes an empty folder, whose slot
    holds a copy; one of the kind "conflict" is not performed. `size` and `files` count the contents of the slot.
    """

    kind: Kind
    root: str
    path: str
    slot: str
    before: Version
    after: Version
    size: int = 0
    files: int = 1

    @property
    def full_path(self) -> str:
        """The absolute path."""
        return os.path.join(self.root, self.path)


class RecordedChange(NamedTuple):
    """One call's set of snapshots; the change of a command has a layer and steps instead."""

    id: str
    session: str
    operation: str
    at: int  # nanoseconds since the epoch
    snapshots: tuple[Snapshot, ...]
    layer: str = ""
    steps: tuple[LayerStep, ...] = ()
    began: int = 0  # when the command began, on the clock of the file system
    previewed: str = ""  # identifies the call that it is a preview of


class _Blob(NamedTuple):
    hash: bytes
    size: int
    packed: int
    data: bytes


# hard-links a workspace file to a second path, if that is possible and safe
Linker = Callable[[str, str], bool]


class Recording:
    """An unfinished change; its marker in the journal folder stays locked until it is closed."""

    def __init__(
        self, history: History, id: str, marker: str, descriptor: int, linked: Mapping[bytes, bytes | None]
    ) -> None:
        self.id = id
        self._history = history
        self._marker = marker
        self._descriptor = descriptor
        self._linked = linked
        self.is_recorded = False  # whether the change of a command was stored

    def record(self, change: RecordedChange, *, call: str, is_open: bool) -> None:
        """Store the change of a command: before its steps are performed (`is_open`), or as a preview."""
        self._history._record(change, call, is_open=is_open)
        self.is_recorded = True

    def keep(self) -> None:
        """Complete the change: its snapshots become history."""
        with writing(self._history.directory):
            for hash, data in self._linked.items():
                self._history.secure(hash, data, self.id)
        self._history._settle(self.id, keep=True)
        self._close()

    def keep_steps(self, conflicts: Iterable[int]) -> None:
        """Complete the change of a command; steps at these positions were not performed."""
        self._history._note_conflicts(self.id, conflicts)
        self.keep()

    def drop(self) -> None:
        """Discard the record of a change that was rolled back."""
        self._history._settle(self.id, keep=False)
        self._close()

    def abandon(self) -> None:
        """Remove the marker of a command whose change was not recorded."""
        self._close()

    def release(self) -> None:
        """Unlock the marker; the next process recovers the change if it is still open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _close(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._marker)
        self.release()


class History:
    """Snapshots and journal of one workspace."""

    def __init__(self, directory: str, journal: str, workspace: str, *, calls: int, megabytes: int) -> None:
        self.directory = directory
        self._db = open_state(directory)
        self._blobs = os.path.join(directory, "blobs")
        self._journal = journal
        self._workspace = workspace
        self._evicted = f"{workspace} evicted"  # stored as the workspace of changes that can no longer be undone
        self._calls = calls
        self._bytes = megabytes * 1024 * 1024

    # --- recording ----------------------------------------------------------------------------------------------

    def begin(
        self,
        session: str,
        operation: str,
        files: Sequence[tuple[Snapshot, bytes | None]],
        link: Linker | None = None,
        call: str = "",
    ) -> Recording:
        """Store the snapshots with their old contents durably, and open the journal entry.

        `call` is the caller's id for the call. `link` may hard-link a large old file instead of copying it;
        `secure` later checks whether another process still has it open for writing.
        """
        id = os.urandom(6).hex()
        with writing(self.directory):
            return self._begin(id, session, operation, files, link, call)

    def _begin(
        self,
        id: str,
        session: str,
        operation: str,
        files: Sequence[tuple[Snapshot, bytes | None]],
        link: Linker | None,
        call: str,
    ) -> Recording:
        marker, descriptor = self._mark(id)
        try:
            blobs = [
                _to_blob(snapshot.before, data) for snapshot, data in files if snapshot.before and data is not None
            ]
            large = [blob for blob in blobs if len(blob.data) > INLINE_BYTES]
            if large:
                self._db.read(lambda db: None)  # a disk without room for the database fails before anything is written
            snapshots = [snapshot for snapshot, _ in files]
            paths = {snapshot.before: snapshot.path for snapshot in snapshots}
            linked: list[_Blob] = []
            stored = False
            while not stored:
                linked += [blob for blob in large if self._write_blob(blob, id, paths[blob.hash], link)]
                stored = self._db.write(lambda db: self._insert(db, id, session, operation, snapshots, blobs, call))
        except BaseException:
            with suppress(ToolError, OSError):
                self._sweep_blobs(id)
            os.unlink(marker)
            os.close(descriptor)
            raise
        return Recording(self, id, marker, descriptor, {blob.hash: blob.data for blob in linked})

    def mark(self) -> Recording:
        """Open the journal entry of a command; `Recording.record` adds its rows."""
        id = os.urandom(6).hex()
        with writing(self.directory):
            return Recording(self, id, *self._mark(id), {})

    def _record(self, change: RecordedChange, call: str, *, is_open: bool) -> None:
        def work(db: sqlite3.Connection) -> list[bytes]:
            columns = "id, workspace, session, operation, at, bytes, open, call, layer, began, previewed"
            number = db.execute(
                f"INSERT INTO changes ({columns}) VALUES (?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608  # constant names
                (
                    *(change.id, self._workspace, change.session, change.operation, change.at),
                    *(sum(step.size for step in change.steps), is_open, call),
                    *(change.layer, change.began, change.previewed),
                ),
            ).lastrowid
            db.executemany(
                "INSERT INTO layer_steps VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                (
                    (
                        *(number, position, step.kind, *map(os.fsencode, (step.root, step.path, step.slot))),
                        *(*_signed(step.before), *_signed(step.after), step.size, step.files),
                    )
                    for position, step in enumerate(change.steps)
                ),
            )
            return [] if is_open else self._evict(db)

        with writing(self.directory):
            self._unlink_unused(self._db.write(work))

    def reopen(self, preview: RecordedChange, operation: str, call: str) -> Recording:
        """Open the journal entry of a preview whose steps are about to be performed; inodes may have changed."""
        with writing(self.directory):
            recording = Recording(self, preview.id, *self._mark(preview.id), {})

        def work(db: sqlite3.Connection) -> int:
            query = "UPDATE changes SET open=1, previewed='', operation=?, call=?, at=? WHERE id=? AND previewed!=''"
            is_open = db.execute(query, (operation, call, time.time_ns(), preview.id)).rowcount
            if is_open:
                (number,) = db.execute("SELECT number FROM changes WHERE id=?", (preview.id,)).fetchone()
                query = "UPDATE layer_steps SET before_inode=? WHERE change=? AND position=?"
                inodes = [_signed(step.before).inode for step in preview.steps]
                db.executemany(query, [(inode, number, position) for position, inode in enumerate(inodes)])
            return is_open

        if not self._db.write(work):
            recording._close()
            raise _no_preview(preview.id)
        return recording

    def _note_conflicts(self, id: str, conflicts: Iterable[int]) -> None:
        query = (
            "UPDATE layer_steps SET kind='conflict' "
            "WHERE change=(SELECT number FROM changes WHERE id=?) AND position=? AND kind='swap'"
        )
        rows = [(id, position) for position in conflicts]
        if rows:
            self._db.write(lambda db: db.executemany(query, rows))

    def layers(self) -> set[str]:
        """Return the layer folders that changes refer to."""
        if not self._db.exists():
            return set()
        query = "SELECT DISTINCT layer FROM changes WHERE layer!=''"
        return {layer for (layer,) in self._db.read(lambda db: db.execute(query).fetchall())}

    def is_marked(self, id: str) -> bool:
        """Whether a live process holds the marker of this change, in any workspace."""
        return os.path.isdir(os.path.dirname(self._journal)) and self._is_marked(id)

    def change_of(self, session: str, call: str) -> tuple[str, bool] | None:
        """Return the id of the change that a call made and whether it is unfinished; None if it made none."""
        if not self._db.exists():
            return None
        query = "SELECT id, open FROM changes WHERE workspace IN (?, ?) AND session=? AND call=?"
        values = (self._workspace, self._evicted, session, call)
        row = self._db.read(lambda db: db.execute(query, values).fetchone())
        return None if row is None else (str(row[0]), bool(row[1]))

    def _mark(self, id: str) -> tuple[str, int]:
        # locked before the rename, so that no process ever sees an unlocked marker of a live process
        hidden = os.path.join(self._journal, f".{id}")
        marker = os.path.join(self._journal, id)
        while True:
            try:
                descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                os.makedirs(self._journal, mode=0o700, exist_ok=True)
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                os.rename(hidden, marker)
            except FileNotFoundError:
                os.close(descriptor)  # another process swept it before it was locked
            else:
                return marker, descriptor

    def _insert(
        self,
        db: sqlite3.Connection,
        id: str,
        session: str,
        operation: str,
        snapshots: Sequence[Snapshot],
        blobs: Sequence[_Blob],
        call: str,
    ) -> bool:
        """Store the change; return False if a large blob was evicted in the meantime."""
        for blob in blobs:
            stored = db.execute("SELECT data IS NULL FROM blobs WHERE hash=?", (blob.hash,)).fetchone()
            is_file = len(blob.data) > INLINE_BYTES if stored is None else stored[0]
            if is_file and not os.path.exists(self._blob_path(blob.hash)):
                return False
            if stored is None:
                db.execute("INSERT INTO blobs VALUES (?,?,?,?)", (*blob[:3], None if is_file else blob.data))
        number = db.execute(
            "INSERT INTO changes (id, workspace, session, operation, at, bytes, open, call) VALUES (?,?,?,?,?,?,1,?)",
            (
                *(id, self._workspace, session, operation, time.time_ns()),
                *(sum(snapshot.size for snapshot in snapshots), call),
            ),
        ).lastrowid
        db.executemany(
            "INSERT INTO snapshots VALUES (?,?,?,?,?,?,?,?,?)",
            (
                (number, position, s.path, s.before, s.mode, s.size, s.after, "\0".join(s.folders), s.new_mode)
                for position, s in enumerate(snapshots)
            ),
        )
        return True

    def _write_blob(self, blob: _Blob, id: str, source: str, link: Linker | None) -> bool:
        """Write a large blob to a synced file unless it exists; return whether it is only a hard link."""
        path = self._blob_path(blob.hash)
        links = _link_count(path)
        if links == 1:
            return False
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temporary = f"{path}.{id}"  # the id in the name shows other processes whether its writer lives
        # more than one link: another change has linked the file and not yet secured it, so it can still be written to
        linked = not links and link is not None and hasattr(fcntl, "F_SETLEASE") and link(source, temporary)
        if not linked:
            _write_synced(temporary, blob.data)
        os.rename(temporary, path)
        _sync_folder(os.path.dirname(path))
        return linked

    def secure(self, hash: bytes, data: bytes | None, id: str) -> None:
        """Take ownership of a linked file; replace it with a copy if another process has it open for writing.

        Once its old name is gone, no process can open it, so one check is enough.
        """
        path = self._blob_path(hash)
        if _link_count(path) > 1 or _is_written(path):
            _write_synced(f"{path}.{id}", self.blob(hash) if data is None else data)
            os.rename(f"{path}.{id}", path)
            _sync_folder(os.path.dirname(path))
        else:
            with suppress(OSError):
                os.chmod(path, 0o600)  # the snapshot records its mode in the workspace

    def _is_sound(self, hash: bytes) -> bool:
        """Whether a blob is stored as a file and is intact."""
        if not os.path.exists(self._blob_path(hash)):
            return False
        try:
            self.blob(hash)
        except ToolError:
            return False
        return True

    def _blob_path(self, hash: bytes) -> str:
        name = hash.hex()
        return os.path.join(self._blobs, name[:2], name)

    def _settle(self, id: str, *, keep: bool) -> None:
        def work(db: sqlite3.Connection) -> list[bytes]:
            if keep:
                db.execute("UPDATE changes SET open=0 WHERE id=?", (id,))
                return self._evict(db)
            query = "SELECT number FROM changes WHERE id=?"
            return self._remove(db, [number for (number,) in db.execute(query, (id,)).fetchall()])

        self._unlink_unused(self._db.write(work))

    def _evict(self, db: sqlite3.Connection) -> list[bytes]:
        """Remove the oldest calls beyond the limits; return the hashes of the blobs removed with them."""
        count, total = db.execute(
            "SELECT count(*), coalesce(sum(bytes), 0) FROM changes WHERE workspace=? AND NOT open", (self._workspace,)
        ).fetchone()
        if count <= self._calls and total <= self._bytes:
            return []
        query = "SELECT number, bytes FROM changes WHERE workspace=? AND NOT open ORDER BY number"
        numbers = []
        for number, size in db.execute(query, (self._workspace,)):
            if count <= 1 or (count <= self._calls and total <= self._bytes):
                break
            numbers.append(number)
            count, total = count - 1, total - size
        return self._evict_numbers(db, numbers)

    def _evict_numbers(self, db: sqlite3.Connection, numbers: Sequence[int]) -> list[bytes]:
        """Remove changes, but keep which agent calls made one: an agent needs this after its process was killed."""
        mark_evicted = "UPDATE changes SET workspace=?, bytes=0 WHERE number=? AND call<>'' AND session GLOB ?"
        db.executemany(mark_evicted, [(self._evicted, number, f"{AGENT}*") for number in numbers])
        delete_old = (
            "DELETE FROM changes WHERE workspace=?1 "
            "AND number <= (SELECT max(number) FROM changes WHERE workspace=?1) - ?2"
        )
        db.execute(delete_old, (self._evicted, _EVICTED_MAX))
        return self._remove(db, numbers)

    def _remove(self, db: sqlite3.Connection, numbers: Iterable[int]) -> list[bytes]:
        """Delete changes with their snapshots and unreferenced blobs; return the hashes of those blobs."""
        removed = []
        for number in numbers:
            query = "SELECT DISTINCT before FROM snapshots WHERE change=? AND before NOT NULL"
            hashes = [hash for (hash,) in db.execute(query, (number,))]
            db.execute("DELETE FROM snapshots WHERE change=?", (number,))
            db.execute("DELETE FROM layer_steps WHERE change=?", (number,))
            db.execute("DELETE FROM changes WHERE number=? AND workspace=?", (number, self._workspace))
            for hash in hashes:
                if db.execute("SELECT 1 FROM snapshots WHERE before=? LIMIT 1", (hash,)).fetchone() is None:
                    db.execute("DELETE FROM blobs WHERE hash=?", (hash,))
                    removed.append(hash)
        return removed

    def _unlink_unused(self, hashes: Iterable[bytes]) -> None:
        """Remove the files of unreferenced blobs, after the transaction that deleted their rows is durable.

        This runs in a separate transaction, because a writer that saw the file checks again inside its transaction.
        A later sweep removes files left over after a kill or an error.
        """
        with_files = [hash for hash in hashes if os.path.exists(self._blob_path(hash))]

        def work(db: sqlite3.Connection) -> None:
            for hash in with_files:
                query = "SELECT 1 FROM blobs WHERE hash=? AND data IS NULL"
                if db.execute(query, (hash,)).fetchone() is None:
                    with suppress(FileNotFoundError):
                        os.unlink(self._blob_path(hash))

        if with_files:
            with suppress(ToolError, OSError):
                self._db.write(work)

    # --- interrupted changes --------------------------------------------------------------------------------------

    def is_unfinished(self, paths: Iterable[str], full_paths: Iterable[str] = ()) -> bool:
        """Whether a running or interrupted change affects any of these paths; `full_paths` are the same, absolute.

        This queries the database, not the journal folder: after a power loss a row may exist without its marker.
        """
        relative, absolute = set(paths), [os.fsencode(path) for path in full_paths]
        unfinished = "change IN (SELECT number FROM changes WHERE workspace=? AND open)"
        query = f"SELECT path FROM snapshots WHERE {unfinished}"  # noqa: S608  # constants
        steps = f"SELECT root, path FROM layer_steps WHERE {unfinished}"  # noqa: S608  # constants

        def work(db: sqlite3.Connection) -> bool:
            if any(path in relative for (path,) in db.execute(query, (self._workspace,))):
                return True
            changed = [os.path.join(*row) for row in db.execute(steps, (self._workspace,))]
            return any(path == step or path.startswith(step + b"/") for step in changed for path in absolute)

        return self._db.exists() and self._db.read(work)

    def interrupted(self) -> Iterator[tuple[RecordedChange, Recording]]:
        """Yield the changes whose process died; each marker stays locked until the caller releases it."""
        with writing(self.directory):
            for id in self._open_ids():
                marker = os.path.join(self._journal, id)
                if not os.path.exists(marker):
                    # a power loss can destroy the marker but not the row
                    os.makedirs(self._journal, mode=0o700, exist_ok=True)
                    os.close(os.open(marker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                descriptor = try_lock(marker)
                if descriptor is None:
                    continue
                changes = self._load("id=? AND open", (id,))
                if changes:
                    # only the dead process knew which blobs are links, so all are checked
                    hashes = [
                        file.before for file in changes[0].snapshots if file.before and self._is_sound(file.before)
                    ]
                    yield changes[0], Recording(self, id, marker, descriptor, dict.fromkeys(hashes))
                else:
                    os.close(descriptor)
            self._sweep()

    def _open_ids(self) -> list[str]:
        if not self._db.exists():
            return []
        query = "SELECT id FROM changes WHERE workspace=? AND open"
        return [id for (id,) in self._db.read(lambda db: db.execute(query, (self._workspace,)).fetchall())]

    def _sweep(self) -> None:
        """Remove the markers of processes that died before their change was stored, or after it was settled."""
        open_ids = set(self._open_ids())
        for name in os.listdir(self._journal) if os.path.isdir(self._journal) else ():
            path = os.path.join(self._journal, name)
            if name.lstrip(".") in open_ids:
                continue
            descriptor = try_lock(path)
            if descriptor is not None:
                # the change may have been stored since the first query
                if name not in self._open_ids():
                    self._sweep_blobs(name.lstrip("."))
                    with suppress(FileNotFoundError):
                        os.unlink(path)
                os.close(descriptor)

    def _sweep_blobs(self, dead: str) -> None:
        """Remove the blob files that a dead change left behind: partially written and unreferenced ones."""
        hashes = []
        for folder, _, names in os.walk(self._blobs):
            for name in names:
                hash, dot, id = name.partition(".")
                if not dot:
                    with suppress(ValueError):  # not a blob
                        hashes.append(bytes.fromhex(hash))
                elif id == dead or not self._is_marked(id):
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(folder, name))
        self._unlink_unused(hashes)

    def _is_marked(self, id: str) -> bool:
        """Whether a live process holds the marker of this change, in any workspace."""
        journals = os.path.dirname(self._journal)
        for workspace in os.listdir(journals):
            marker = os.path.join(journals, workspace, id)
            descriptor = try_lock(marker)
            if descriptor is not None:
                os.close(descriptor)
            elif os.path.exists(marker):
                return True
        return False

    # --- reading --------------------------------------------------------------------------------------------------

    def changes(self, limit: int | None = None, *, session: str | None = None) -> list[RecordedChange]:
        """Return finished changes of one session or of all, newest first."""
        if not self._db.exists():
            return []
        condition, values = "workspace=? AND NOT open AND previewed=''", (self._workspace,)
        if session is None:
            return self._load(condition, values, limit)
        return self._load(f"{condition} AND session=?", (*values, session), limit)

    def total(self) -> int:
        """Return how many snapshots there are."""
        if not self._db.exists():
            return 0
        condition = "workspace=? AND NOT open AND previewed=''"
        counts = [
            f"(SELECT count(*) FROM {table} JOIN changes ON change=number WHERE {condition})"  # noqa: S608  # constants
            for table in ("snapshots", "layer_steps")
        ]
        query = f"SELECT {counts[0]} + {counts[1]}"
        return int(self._db.read(lambda db: db.execute(query, (self._workspace, self._workspace)).fetchone()[0]))

    def find(self, prefix: str) -> RecordedChange:
        """Return the finished change with this id or unique id prefix."""
        if not prefix or prefix.strip("0123456789abcdef"):
            raise _no_snapshot(prefix)
        if not self._db.exists():
            raise _no_snapshot(prefix)
        condition = "workspace=? AND NOT open AND previewed='' AND id GLOB ?"
        matches = self._load(condition, (self._workspace, prefix + "*"), 11)
        exact = [change for change in matches if change.id == prefix]
        if exact or len(matches) == 1:
            return (exact or matches)[0]
        if not matches:
            raise _no_snapshot(prefix)
        ids = [change.id for change in matches]
        raise ToolError(
            "ambiguous_id",
            f"{prefix} is the prefix of {len(ids)}{'+' * (len(ids) > 10)} snapshot ids: {', '.join(ids[:10])}.",
            candidates=ids[:10],
        )

    def find_preview(self, id: str) -> RecordedChange:
        """Return the preview of a command with this id."""
        previews = []
        if self._db.exists():
            previews = self._load("workspace=? AND NOT open AND previewed!='' AND id=?", (self._workspace, id))
        if not previews:
            raise _no_preview(id)
        return previews[0]

    def blob(self, hash: bytes) -> bytes:
        """Return the contents with this hash, after verifying them."""
        query = "SELECT packed, data FROM blobs WHERE hash=?"
        row = self._db.read(lambda db: db.execute(query, (hash,)).fetchone())
        if row is None:
            raise ToolError("not_found", f"The contents {hash.hex()[:12]} are no longer in the history.")
        packed, data = row
        try:
            if data is None:
                with open(self._blob_path(hash), "rb") as file:
                    data = file.read()
            contents = zlib.decompress(data) if packed else bytes(data)
        except (OSError, zlib.error) as error:
            raise _damaged(hash) from error
        if sha256(contents) != hash:
            raise _damaged(hash)
        return contents

    def clear(self, before: int = _LAST) -> int:
        """Delete all finished changes, or those made before a time; return the number of snapshots deleted."""
        if not self._db.exists():
            return 0
        count = self.total()

        def work(db: sqlite3.Connection) -> list[bytes]:
            query = "SELECT number FROM changes WHERE workspace=? AND NOT open AND at<?"
            numbers = [number for (number,) in db.execute(query, (self._workspace, before)).fetchall()]
            return self._evict_numbers(db, numbers)

        # some builds of SQLite overwrite deleted data, which on a full disk needs as much space as it frees
        self._db.read(lambda db: db.execute("PRAGMA secure_delete=FAST"))
        self._unlink_unused(self._db.write(work))
        self._db.shrink()
        return count - self.total()

    def compress(self, seconds: float) -> None:
        """Compress large blobs that are stored uncompressed, for about this long."""
        if not self._db.exists():
            return
        deadline = time.monotonic() + seconds
        query = "SELECT hash FROM blobs WHERE NOT packed AND size>?"
        for (hash,) in self._db.read(lambda db: db.execute(query, (COMPRESS_BYTES,)).fetchall()):
            if time.monotonic() > deadline:
                return
            with suppress(ToolError):  # evicted in the meantime, or damaged: nothing to compress
                self._pack(hash)

    def _pack(self, hash: bytes) -> None:
        packed = zlib.compress(self.blob(hash), 6)
        self._db.write(lambda db: db.execute("UPDATE blobs SET packed=1, data=? WHERE hash=?", (packed, hash)))
        # only after the compressed contents are durable
        self._unlink_unused([hash])

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _load(self, condition: str, values: Sequence[object], limit: int | None = None) -> list[RecordedChange]:
        columns = "number, id, session, operation, at, layer, began, previewed"
        query = f"SELECT {columns} FROM changes WHERE {condition} ORDER BY number DESC LIMIT ?"  # noqa: S608

        def work(db: sqlite3.Connection) -> list[RecordedChange]:
            rows = db.execute(query, (*values, -1 if limit is None else limit)).fetchall()
            return [
                RecordedChange(
                    id, session, operation, at, _snapshots(db, number), layer, _steps(db, number), began, key
                )
                for number, id, session, operation, at, layer, began, key in rows
            ]

        return self._db.read(work)


def _link_count(path: str) -> int:
    """Return the number of hard links of a file; 0 if it does not exist."""
    try:
        return os.stat(path).st_nlink
    except FileNotFoundError:
        return 0


def _write_synced(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _is_written(path: str) -> bool:
    """Whether a process has the file open for writing; True if that cannot be determined."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _to_blob(hash: bytes, data: bytes) -> _Blob:
    if len(data) <= COMPRESS_BYTES:
        return _Blob(hash, len(data), 1, zlib.compress(data, 1))
    return _Blob(hash, len(data), 0, data)


def _snapshots(db: sqlite3.Connection, change: int) -> tuple[Snapshot, ...]:
    columns = "path, before, mode, size, after, folders, new_mode"
    query = f"SELECT {columns} FROM snapshots WHERE change=? ORDER BY position"  # noqa: S608  # constant names
    return tuple(
        Snapshot(path, before, mode, size, after, tuple(folders.split("\0")) if folders else (), new_mode)
        for path, before, mode, size, after, folders, new_mode in db.execute(query, (change,))
    )


def _steps(db: sqlite3.Connection, change: int) -> tuple[LayerStep, ...]:
    columns = "kind, root, path, slot, before_inode, before_mode, after_inode, after_mode, size, files"
    query = f"SELECT {columns} FROM layer_steps WHERE change=? ORDER BY position"  # noqa: S608  # constant names
    return tuple(
        LayerStep(
            kind,
            os.fsdecode(root),
            os.fsdecode(path),
            os.fsdecode(slot),
            Version(before_inode % _INODES, before_mode),
            Version(after_inode % _INODES, after_mode),
            size,
            files,
        )
        for kind, root, path, slot, before_inode, before_mode, after_inode, after_mode, size, files in db.execute(
            query, (change,)
        )
    )


def _signed(version: Version) -> Version:
    """Return a version with its inode as a signed integer: SQLite has no unsigned ones."""
    return version._replace(inode=version.inode - _INODES) if version.inode > _LAST else version


def _no_preview(id: str) -> ToolError:
    return ToolError(
        "not_found",
        f"There is no preview {id[:40]!r}, or it was already applied.",
        suggestion="Preview the command again.",
    )


def _no_snapshot(prefix: str) -> ToolError:
    return ToolError("not_found", f"There is no snapshot {prefix!r}.", suggestion='Use action "list" to see the ids.')


def _damaged(hash: bytes) -> ToolError:
    return ToolError("internal", f"The stored contents {hash.hex()[:12]} are damaged and were not used.")
