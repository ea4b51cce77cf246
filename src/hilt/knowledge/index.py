"""The index of one client: SQLite FTS5 over title, tags, description and text, updated file by file.

It is a cache. Every row is derived from a file, identified by its size and modification time. Rows of folders that are
not requested stay, because another workspace or setting may need them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from hilt.knowledge import documents, ranking, words
from hilt.knowledge.folders import Stamp, Survey

T = TypeVar("T")

BATCH = 250
CANDIDATES = 60
UNUSED_SECONDS = 30 * 86_400
USED_SECONDS = 86_400  # resolution of the last use of a folder

MIGRATIONS = (
    """CREATE TABLE shelves (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, used INTEGER NOT NULL);
CREATE TABLE entries (
         id INTEGER PRIMARY KEY, shelf INTEGER NOT NULL, path BLOB NOT NULL, size INTEGER NOT NULL,
         mtime INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL,
         description TEXT NOT NULL, source TEXT NOT NULL, UNIQUE (shelf, path));
CREATE VIRTUAL TABLE texts USING fts5(title, tags, description, body);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab('texts', 'row');
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID""",
)


class IndexStore(Protocol):
    """A database that is opened on first use, with MIGRATIONS in it."""

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` outside a transaction."""

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction."""

    def close(self) -> None:
        """Close the database."""


class Shelf(Protocol):
    """A source of entries."""

    @property
    def key(self) -> str:
        """The unique key of this shelf."""

    def kind_of(self, path: str) -> str:
        """Return the kind of an entry."""

    def survey(self, check: Callable[[], None]) -> Survey:
        """Return the current contents of the shelf."""

    def read(self, path: str, limit: int) -> tuple[bytes, Stamp] | None:
        """Return the beginning of an entry; None if it cannot be read."""


class RankedDocument(NamedTuple):
    """A document that matches, and its score."""

    kind: str
    name: str
    title: str
    description: str
    shelf: str
    path: str
    source: str
    score: float
    matched: tuple[str, ...]


class Refresh(NamedTuple):
    """What an update of the index did."""

    entries: int
    read: int
    full: bool
    at: int  # when the index last changed, in nanoseconds since 1970


class KnowledgeIndex:
    """The rows of one database. Thread-safe."""

    def __init__(self, store: IndexStore) -> None:
        self._store = store
        self.close = store.close

    def clear(self) -> None:
        """Delete everything."""
        tables = ("texts", "entries", "shelves", "facts")

        def work(db: sqlite3.Connection) -> None:
            for table in tables:
                db.execute(f"DELETE FROM {table}")  # noqa: S608  # constant names

        self._store.write(work)

    # --- updating -------------------------------------------------------------------------------------------------

    def refresh(self, shelves: Sequence[Shelf], check: Callable[[], None]) -> Refresh:
        """Update the rows of these shelves from their files."""
        total = read = 0
        full = False
        for shelf in shelves:
            survey = shelf.survey(check)
            total += len(survey.files)
            full = full or survey.full
            read += self._update(shelf, survey.files, check)
        return Refresh(total, read, full, self._store.read(_built))

    def _update(self, shelf: Shelf, files: Mapping[str, Stamp], check: Callable[[], None]) -> int:
        """Write the rows of the files that have changed; return how many were read."""
        used, stored = self._store.read(lambda db: _in_snapshot(db, partial(_stored_files, key=shelf.key)))
        if files == stored and used >= time.time() - USED_SECONDS:
            return 0
        changed = [path for path, stamp in files.items() if stored.get(path) != stamp]
        missing = [path for path in stored if path not in files]
        id = self._begin(shelf.key, missing)
        for start in range(0, len(changed), BATCH):
            rows = []
            for path in changed[start : start + BATCH]:
                check()
                rows.append(_row(shelf, path, files[path]))
            self._write(id, rows)
        return len(changed)

    def _begin(self, key: str, missing: Collection[str]) -> int:
        """Return the id of a shelf, after deleting the rows of missing files and unused shelves."""
        now = int(time.time())

        def work(db: sqlite3.Connection) -> int:
            db.execute(
                "INSERT INTO shelves (key, used) VALUES (?,?) ON CONFLICT (key) DO UPDATE SET used=excluded.used",
                (os.fsencode(key), now),
            )
            for (unused,) in db.execute("SELECT id FROM shelves WHERE used<?", (now - UNUSED_SECONDS,)).fetchall():
                db.execute("DELETE FROM texts WHERE rowid IN (SELECT id FROM entries WHERE shelf=?)", (unused,))
                db.execute("DELETE FROM entries WHERE shelf=?", (unused,))
                db.execute("DELETE FROM shelves WHERE id=?", (unused,))
            id = int(db.execute("SELECT id FROM shelves WHERE key=?", (os.fsencode(key),)).fetchone()[0])
            for path in missing:
                _remove(db, id, os.fsencode(path))
            if missing:
                _stamp(db)
            return id

        return self._store.write(work)

    def _write(self, shelf: int, rows: Sequence[_DocumentRow]) -> None:
        def work(db: sqlite3.Connection) -> None:
            for row in rows:
                path = os.fsencode(row.path)
                _remove(db, shelf, path)
                document = row.document
                columns = ("", "", "", "") if document is None else document[:3] + document[4:5]
                number = db.execute(
                    "INSERT INTO entries (shelf, path, size, mtime, kind, name, title, description, source) "
                    "VALUES (?,?,?,?,?,?,?,?,?)",
                    (shelf, path, *row.stamp, row.kind if document is not None else "", *columns),
                ).lastrowid
                if document is not None:
                    db.execute(
                        "INSERT INTO texts (rowid, title, tags, description, body) VALUES (?,?,?,?,?)",
                        (
                            number,
                            words.indexed(f"{document.name} {document.title}"),
                            words.indexed(" ".join(document.tags)),
                            words.indexed(document.purpose),
                            words.indexed(document.body),
                        ),
                    )
            _stamp(db)

        self._store.write(work)

    # --- searching ------------------------------------------------------------------------------------------------

    def search(self, query: str, shelves: Sequence[Shelf], kinds: Collection[str], limit: int) -> list[RankedDocument]:
        """Return the entries of these shelves and kinds that match the query, best first; noise matches nothing."""
        terms = ranking.query_terms(query)
        if not terms:
            return []

        def work(db: sqlite3.Connection) -> list[RankedDocument]:
            keys = {_shelf(db, shelf.key)[0]: shelf.key for shelf in shelves}
            weighted = _weigh(db, query, terms)
            return _ranked(db, weighted, keys, kinds) if weighted.match else []

        matches = self._store.read(lambda db: _in_snapshot(db, work))
        matches.sort(key=lambda entry: -entry.score)  # equal scores keep the BM25 order
        distinct = {entry.path: entry for entry in reversed(matches)}  # one folder may be inside another
        return [entry for entry in matches if distinct[entry.path] is entry][:limit]


def _shelf(db: sqlite3.Connection, key: str) -> tuple[int, int]:
    """Return the id of a shelf and when it was last used; zeros if it is not stored."""
    row = db.execute("SELECT id, used FROM shelves WHERE key=?", (os.fsencode(key),)).fetchone()
    return row or (0, 0)


def _stored_files(db: sqlite3.Connection, key: str) -> tuple[int, dict[str, Stamp]]:
    """Return when a shelf was last used, and the stamps of its files."""
    id, used = _shelf(db, key)
    entries = db.execute("SELECT path, size, mtime FROM entries WHERE shelf=?", (id,))
    return used, {os.fsdecode(path): (size, mtime) for path, size, mtime in entries}


def _in_snapshot(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """Run `work` on a consistent snapshot."""
    db.execute("BEGIN")
    try:
        return work(db)
    finally:
        db.execute("ROLLBACK")


class _DocumentRow(NamedTuple):
    path: str
    stamp: Stamp
    kind: str
    document: documents.KnowledgeDocument | None


def _row(shelf: Shelf, path: str, stamp: Stamp) -> _DocumentRow:
    entry = shelf.read(path, documents.TEXT_BYTES)
    if entry is None:
        return _DocumentRow(path, stamp, "", None)
    data, current = entry
    return _DocumentRow(path, current, shelf.kind_of(path), documents.parse(data, path))


def _remove(db: sqlite3.Connection, shelf: int, path: bytes) -> None:
    row = db.execute("SELECT id FROM entries WHERE shelf=? AND path=?", (shelf, path)).fetchone()
    if row is not None:
        db.execute("DELETE FROM texts WHERE rowid=?", row)
        db.execute("DELETE FROM entries WHERE id=?", row)


def _stamp(db: sqlite3.Connection) -> None:
    """Record that rows have changed now."""
    db.execute("INSERT OR REPLACE INTO facts VALUES ('built', ?)", (time.time_ns(),))


def _built(db: sqlite3.Connection) -> int:
    row = db.execute("SELECT value FROM facts WHERE name='built'").fetchone()
    return int(row[0]) if row is not None else 0


def _weigh(db: sqlite3.Connection, query: str, terms: Mapping[str, str]) -> ranking.Query:
    total = int(db.execute("SELECT count(*) FROM entries").fetchone()[0])
    frequencies = {}
    for term in terms:
        row = db.execute("SELECT doc FROM vocabulary WHERE term=?", (term,)).fetchone()
        if row is not None:
            frequencies[term] = min(int(row[0]), total)
    return ranking.weigh(query, terms, frequencies, total)


def _ranked(
    db: sqlite3.Connection, query: ranking.Query, keys: Mapping[int, str], kinds: Collection[str]
) -> list[RankedDocument]:
    wanted = list(kinds)
    condition = f"entries.shelf IN ({_placeholders(keys)})" + (
        f" AND entries.kind IN ({_placeholders(wanted)})" if wanted else ""
    )
    # texts are fetched for the best rows only: sorting would copy them
    best = db.execute(
        "SELECT texts.rowid FROM texts JOIN entries ON entries.id=texts.rowid "  # noqa: S608  # question marks only
        f"WHERE texts MATCH ? AND {condition} ORDER BY bm25(texts, 8.0, 6.0, 4.0, 1.0) LIMIT ?",
        (query.match, *keys, *wanted, CANDIDATES),
    ).fetchall()
    ranked = []
    for (id,) in best:
        fields = db.execute("SELECT title, tags, description, body FROM texts WHERE rowid=?", (id,)).fetchone()
        score, matched = ranking.score(query, fields)
        if score >= ranking.THRESHOLD:
            statement = "SELECT shelf, path, kind, name, title, description, source FROM entries WHERE id=?"
            shelf, path, kind, name, title, description, source = db.execute(statement, (id,)).fetchone()
            columns = (kind, name, title, description, keys[shelf], os.fsdecode(path), source)
            ranked.append(RankedDocument(*columns, round(score, 3), tuple(matched)))
    return ranked


def _placeholders(values: Collection[Any]) -> str:
    return ",".join("?" * len(values))
