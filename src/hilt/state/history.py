"""state.db: snapshots taken before every change, the journal that makes changes atomic, and the blobs they refer to.

A change is one call's set of files. Before any file is modified, its old contents and the hash of its new contents are
committed to the database with synchronous FULL. A marker file in the journal folder, locked for as long as its process
lives, marks the change as unfinished (ADR 0004). If the lock can be taken, the change was interrupted and must be
recovered.

The change of a command stores no contents here: its rows say which version of each path is in the workspace, and where
the other version is in the folder of its layer.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from hilt.call import AGENT, Origin
from hilt.errors import ToolError
from hilt.state.blobs import Blob, Blobs
from hilt.state.directory import Writing
from hilt.state.locks import try_lock
from hilt.state.stored_runs import NoteRun, no_note
from hilt.state.tables import is_id_prefix, open_state, with_prefix

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


class Recording:
    """An unfinished change; its marker in the journal folder stays locked until it is closed."""

    def __init__(self, history: History, id: str, marker: str, descriptor: int) -> None:
        self.id = id
        self._history = history
        self._marker = marker
        self._descriptor = descriptor
        self.is_recorded = False  # whether the change of a command was stored

    def record(self, change: RecordedChange, *, call: str, is_open: bool) -> None:
        """Store the change of a command: before its steps are performed (`is_open`), or as a preview."""
        self._history._record(change, call, is_open=is_open)
        self.is_recorded = True

    def keep(self) -> None:
        """Complete the change: its snapshots become history."""
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

    def __init__(
        self,
        directory: str,
        journal: str,
        workspace: str,
        *,
        calls: int,
        megabytes: int,
        note_run: NoteRun = no_note,
    ) -> None:
        self._note_run = note_run
        self.directory = directory
        self._db = open_state(directory)
        self.close = self._db.close
        self.blobs = Blobs(self._db, os.path.join(directory, "blobs"))
        self._journal = journal
        self._workspace = workspace
        self._evicted = f"{workspace} evicted"  # stored as the workspace of changes that can no longer be undone
        self._calls = calls
        self._bytes = megabytes * 1024 * 1024

    # --- recording ----------------------------------------------------------------------------------------------

    def begin(
        self, session: str, operation: str, files: Sequence[tuple[Snapshot, bytes | None]], call: str = ""
    ) -> Recording:
        """Store the snapshots with their old contents durably, and open the journal entry.

        `call` is the caller's id for the call.
        """
        id = os.urandom(6).hex()
        note = self._note_run(session)
        blobs = [Blob.of(snapshot.before, data) for snapshot, data in files if snapshot.before and data is not None]
        large = [blob for blob in blobs if blob.is_large]
        snapshots = [snapshot for snapshot, _ in files]
        with Writing(self.directory):
            marker, descriptor = self._mark(id)
            try:
                if large:
                    self._db.read(lambda db: None)  # a disk without room for the database fails before that
                stored = False
                while not stored:
                    for blob in large:
                        self.blobs.write(blob, id)
                    stored = self._db.write(
                        lambda db: self._insert(db, id, session, operation, snapshots, blobs, call, note)
                    )
            except BaseException:
                with suppress(ToolError, OSError):
                    self._sweep_blobs(id)
                os.unlink(marker)
                os.close(descriptor)
                raise
        return Recording(self, id, marker, descriptor)

    def mark(self) -> Recording:
        """Open the journal entry of a command; `Recording.record` adds its rows."""
        id = os.urandom(6).hex()
        with Writing(self.directory):
            return Recording(self, id, *self._mark(id))

    def _record(self, change: RecordedChange, call: str, *, is_open: bool) -> None:
        note = self._note_run(change.session)

        def work(db: sqlite3.Connection) -> list[bytes]:
            columns = (
                "id, workspace, session, operation, at, bytes, open, call, layer, began, previewed, run, parent, agent"
            )
            number = db.execute(
                f"INSERT INTO changes ({columns}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608  # constant names
                (
                    *(change.id, self._workspace, change.session, change.operation, change.at),
                    *(sum(step.size for step in change.steps), is_open, call),
                    *(change.layer, change.began, change.previewed, *note(db)),
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

        with Writing(self.directory):
            self.blobs.unlink_unused(self._db.write(work))

    def reopen(self, preview: RecordedChange, operation: str, call: str) -> Recording:
        """Open the journal entry of a preview whose steps are about to be performed; inodes may have changed."""
        with Writing(self.directory):
            recording = Recording(self, preview.id, *self._mark(preview.id))

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
        return {layer for (layer,) in self._db.rows("SELECT DISTINCT layer FROM changes WHERE layer!=''")}

    def is_marked(self, id: str) -> bool:
        """Whether a live process holds the marker of this change, in any workspace."""
        return os.path.isdir(os.path.dirname(self._journal)) and self._is_marked(id)

    def change_of(self, session: str, call: str) -> tuple[str, bool] | None:
        """Return the id of the change that a call made and whether it is unfinished; None if it made none."""
        query = "SELECT id, open FROM changes WHERE workspace IN (?, ?) AND session=? AND call=?"
        values = (self._workspace, self._evicted, session, call)
        return next(((str(id), bool(is_open)) for id, is_open in self._db.rows(query, values)), None)

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
        blobs: Sequence[Blob],
        call: str,
        note: Callable[[sqlite3.Connection], Origin],
    ) -> bool:
        """Store the change; return False if a large blob was evicted in the meantime."""
        if not self.blobs.insert(db, blobs):
            return False
        number = db.execute(
            "INSERT INTO changes (id, workspace, session, operation, at, bytes, open, call, run, parent, agent) "
            "VALUES (?,?,?,?,?,?,1,?,?,?,?)",
            (
                *(id, self._workspace, session, operation, time.time_ns()),
                *(sum(snapshot.size for snapshot in snapshots), call, *note(db)),
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

    def _settle(self, id: str, *, keep: bool) -> None:
        def work(db: sqlite3.Connection) -> list[bytes]:
            if keep:
                db.execute("UPDATE changes SET open=0 WHERE id=?", (id,))
                return self._evict(db)
            query = "SELECT number FROM changes WHERE id=?"
            return self._remove(db, [number for (number,) in db.execute(query, (id,)).fetchall()])

        self.blobs.unlink_unused(self._db.write(work))

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
            removed += self.blobs.delete_unused(db, hashes)
        return removed

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
        with Writing(self.directory):
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
                    yield changes[0], Recording(self, id, marker, descriptor)
                else:
                    os.close(descriptor)
            self._sweep()

    def _open_ids(self) -> list[str]:
        query = "SELECT id FROM changes WHERE workspace=? AND open"
        return [id for (id,) in self._db.rows(query, (self._workspace,))]

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
        """Remove the files of blobs that a dead change left behind."""
        self.blobs.sweep(lambda id: id != dead and self._is_marked(id))

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
        condition, values = "workspace=? AND NOT open AND previewed=''", (self._workspace,)
        if session is None:
            return self._load(condition, values, limit)
        return self._load(f"{condition} AND session=?", (*values, session), limit)

    def total(self) -> int:
        """Return how many snapshots there are."""
        condition = "workspace=? AND NOT open AND previewed=''"
        counts = [
            f"(SELECT count(*) FROM {table} JOIN changes ON change=number WHERE {condition})"  # noqa: S608  # constants
            for table in ("snapshots", "layer_steps")
        ]
        rows = self._db.rows(f"SELECT {counts[0]} + {counts[1]}", (self._workspace, self._workspace))
        return int(rows[0][0]) if rows else 0

    def find(self, prefix: str) -> RecordedChange:
        """Return the finished change with this id or unique id prefix."""
        change = None
        if is_id_prefix(prefix):
            condition = "workspace=? AND NOT open AND previewed='' AND id GLOB ?"
            change = with_prefix(prefix, self._load(condition, (self._workspace, prefix + "*"), 11), "snapshot")
        if change is None:
            raise ToolError(
                "not_found", f"There is no snapshot {prefix!r}.", suggestion='Use action "list" to see the ids.'
            )
        return change

    def find_preview(self, id: str) -> RecordedChange:
        """Return the preview of a command with this id."""
        previews = self._load("workspace=? AND NOT open AND previewed!='' AND id=?", (self._workspace, id))
        if not previews:
            raise _no_preview(id)
        return previews[0]

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
        self.blobs.unlink_unused(self._db.write(work))
        self._db.shrink()
        return count - self.total()

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

        return self._db.read(work) if self._db.exists() else []


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
