"""Direct connections to the databases under test."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager


@contextmanager
def connected(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Connect to a database, commit at the end, and close it; the context manager of sqlite3 leaves it open."""
    with closing(sqlite3.connect(path)) as db, db:
        yield db
