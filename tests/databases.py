"""Direct connections to the databases under test, and new databases as copies of one that was migrated before."""

from __future__ import annotations

import functools
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from hilt.state.db import Database

_CONNECT = Database._connect


@contextmanager
def connected(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Connect to a database, commit at the end, and close it; the context manager of sqlite3 leaves it open."""
    with closing(sqlite3.connect(path)) as db, db:
        yield db


def connect_to_copy(database: Database) -> sqlite3.Connection:
    """Open a database of hilt; a new file is a copy, which takes a tenth of the time of all migrations."""
    if not os.path.exists(database._path):
        with suppress(OSError):  # no folder, no space, or already there
            _place(_migrated(tuple(database._migrations)), database._path)
    return _CONNECT(database)


def _place(content: bytes, path: str) -> None:
    """Create a file with all of its content at once: other processes may look."""
    handle, unfinished = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.link(unfinished, path)
    finally:
        os.unlink(unfinished)


@functools.cache
def _migrated(migrations: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "new.db")
        _CONNECT(Database(path, migrations, durable=False)).close()
        with open(path, "rb") as file:
            return file.read()
