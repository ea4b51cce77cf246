"""SQLite in WAL mode, opened so that many processes can use it at once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hilt.errors import ToolError
from hilt.state.directory import PATIENCE_SECONDS, Writing, unwritable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
else:
    import _sqlite3 as sqlite3  # the sqlite3 package also loads date and time support, which no table needs

T = TypeVar("T")


class Database:
    """One database file: opened on first use, migrated once, one connection guarded by one lock.

    Before an older file is migrated, it is copied to the folder `backups` next to it, unless it is only a cache.
    """

    def __init__(
        self,
        path: str,
        migrations: Sequence[str],
        *,
        durable: bool,
        is_cache: bool = False,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """`patience` is how long to wait for other writers, in seconds."""
        self._path = path
        self._patience = patience
        self._migrations = migrations
        self._synchronous = "FULL" if durable else "NORMAL"
        self._is_cache = is_cache
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def exists(self) -> bool:
        """Whether the file exists; does not create it."""
        return os.path.exists(self._path)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction; other writers wait."""
        return self.read(lambda connection: _in_transaction(connection, work))

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` outside a transaction."""
        deadline = 0.0
        while True:
            with self._lock:
                try:
                    return work(self._open())
                except sqlite3.DatabaseError as error:
                    deadline = deadline or time.monotonic() + self._patience
                    self._retry_or_raise(error, deadline)
            time.sleep(0.01)

    def rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query; none if the file does not exist, which is not created."""
        return self.read(lambda db: db.execute(query, values).fetchall()) if self.exists() else []

    def change(self, query: str, values: Sequence[object]) -> bool:
        """Run a statement that changes rows; return whether there were any. The file is not created."""
        return self.exists() and self.write(lambda db: db.execute(query, values).rowcount) > 0

    def preview(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a transaction that is rolled back."""

        def rolled_back(connection: sqlite3.Connection) -> T:
            connection.execute("PRAGMA cache_spill=OFF")  # keeps the transaction off the disk
            connection.execute("BEGIN IMMEDIATE")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:  # unless a full disk has rolled it back
                    connection.execute("ROLLBACK")

        return self.read(rolled_back)

    def shrink(self) -> None:
        """Return free pages to the file system if they are at least half of the file."""
        try:
            with self._lock:
                db = self._open()
                (free,), (pages,) = (
                    db.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_count")
                )
                if free * 2 >= pages:
                    db.execute("VACUUM")
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.DatabaseError:
            return  # in use, or no space for it: free pages will be reused

    def checkpoint(self, size: int) -> None:
        """Checkpoint a write-ahead log larger than this: the next process to open the file reads all of the log."""
        try:
            with self._lock:
                if self._connection is not None and os.path.getsize(self._path + "-wal") > size:
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except (OSError, sqlite3.DatabaseError):
            return  # another process does it, now or later

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        """Close the connection if it is still open; Python 3.13 and later warn otherwise."""
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()

    def _retry_or_raise(self, error: sqlite3.DatabaseError, deadline: float) -> None:
        """Return if the caller should retry, such as after waiting for a lock; otherwise raise a ToolError."""
        text = str(error)
        if "Could not decode" in text and self._connection is not None and self._connection.text_factory is str:
            # another program wrote it: the other rows must stay readable
            self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
            return
        if "locked" in text or "busy" in text:
            if time.monotonic() < deadline:
                return
            name = os.path.basename(self._path)
            raise ToolError("busy", f"The database {name} has been locked for {self._patience:g} s.") from error
        if "full" in text or "readonly" in text or "disk I/O" in text or "unable to open" in text:
            raise unwritable(text, os.path.dirname(self._path)) from error
        if "malformed" in text or "not a database" in text or "no such table" in text:
            name = os.path.basename(self._path)
            raise ToolError(
                "internal",
                f"The database {name} is damaged: {text}.",
                suggestion=f"Ask the user to move {name} out of the state directory; hilt then starts a new one.",
            ) from error
        raise error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            with Writing(os.path.dirname(self._path)):
                try:
                    connection = self._connect()
                except FileNotFoundError:
                    os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
                    connection = self._connect()
            self._connection = connection
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        if not os.path.exists(self._path):
            # creates the file with its final mode; raises FileNotFoundError if the folder is missing
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self._path,
            timeout=self._patience / 4,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > len(self._migrations):
                raise self._too_new(version)
            if version < len(self._migrations):
                self._migrate(connection)
            connection.execute(f"PRAGMA synchronous={self._synchronous}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        from hilt.state.locks import held

        # switching to WAL does not wait for locks as transactions do, so one process at a time sets up the file
        with held(self._path + ".setup"):
            connection.execute("PRAGMA journal_mode=WAL")
            before = connection.execute("PRAGMA user_version").fetchone()[0]
            if 0 < before < len(self._migrations) and not self._is_cache:
                self._back_up(connection, before)
            _in_transaction(connection, self._run_migrations)

    def _run_migrations(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for number, script in enumerate(self._migrations[version:], start=version + 1):
            for statement in script.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number:d}")

    def _back_up(self, connection: sqlite3.Connection, version: int) -> None:
        """Copy the file before a migration, and delete the copies of earlier migrations."""
        folder, name = os.path.join(os.path.dirname(self._path), "backups"), os.path.basename(self._path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        copy = os.path.join(folder, f"{name}.{version}")
        unfinished = f"{copy}.new"
        # creates the file with its final mode, or truncates one that a killed process left
        handle = os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            connection.execute("VACUUM INTO ?", (unfinished,))
            os.fsync(handle)
            os.replace(unfinished, copy)
        except BaseException:
            os.unlink(unfinished)
            raise
        finally:
            os.close(handle)
        for other in os.listdir(folder):
            if other.startswith(f"{name}.") and other != f"{name}.{version}":
                os.unlink(os.path.join(folder, other))

    def _too_new(self, version: int) -> ToolError:
        name, folder = os.path.basename(self._path), os.path.dirname(self._path)
        backups = os.path.join(folder, "backups")
        has_copy = os.path.isdir(backups) and any(copy.startswith(f"{name}.") for copy in os.listdir(backups))
        return ToolError(
            "runtime_missing",
            f"{name} in {folder} has the format {version}; this version of hilt supports formats up to "
            f"{len(self._migrations)}. A newer hilt wrote it.",
            suggestion="Ask the user to install the newer hilt again, or to use another state directory "
            "(HILT_STATE_DIR)." + f" {backups} has a copy from before the migration." * has_copy,
            format=version,
            known=len(self._migrations),
        )


def _in_transaction(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run `work` in a transaction, which is rolled back if it fails."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        value = work(connection)
        connection.execute("COMMIT")
        return value
    except BaseException:
        if connection.in_transaction:  # unless a full disk has rolled it back
            connection.execute("ROLLBACK")
        raise
