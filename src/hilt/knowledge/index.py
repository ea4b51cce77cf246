"""The index of one client: SQLite FTS5 over title, tags, description and text, updated file by file.

It is a cache. Every row is derived from a file, identified by its size and modification time. Rows of folders that are
not requested stay, because another workspace or setting may need them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from hilt.knowledge import documents, ranking, words
from hilt.knowledge.folders import Listing, Stamp, Survey

T = TypeVar("T")

BATCH = 250
CANDIDATES = 60
COMMON = 50  # terms in at least this many documents are counted in advance, because counting them is slow
UNUSED_SECONDS = 30 * 86_400
USED_SECONDS = 86_400  # resolution of the last use of a folder

MIGRATIONS = (
    """CREATE TABLE shelves (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, used INTEGER NOT NULL);
CREATE TABLE listings (
         shelf INTEGER NOT NULL, path BLOB NOT NULL, mtime INTEGER NOT NULL, files BLOB NOT NULL, folders BLOB NOT NULL,
         PRIMARY KEY (shelf, path)) WITHOUT ROWID;
CREATE TABLE entries (
         id INTEGER PRIMARY KEY, shelf INTEGER NOT NULL, path BLOB NOT NULL, size INTEGER NOT NULL,
         mtime INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL,
         description TEXT NOT NULL, source TEXT NOT NULL, UNIQUE (shelf, path));
CREATE VIRTUAL TABLE texts USING fts5(title, tags, description, body);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab('texts', 'row');
CREATE TABLE common (term TEXT PRIMARY KEY, documents INTEGER NOT NULL) WITHOUT ROWID;
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

    def survey(self, known: Mapping[str, Listing], check: Callable[[], None]) -> Survey:
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


class _CachedShelf(NamedTuple):
    id: int
    used: int
    files: dict[str, Stamp]
    listings: dict[str, Listing]


class KnowledgeIndex:
    """The rows of one database and this process's cache of them. Thread-safe."""

    def __init__(self, store: IndexStore) -> None:
        self._store = store
        self._version: int | None = None
        self._cached: dict[str, _CachedShelf] = {}
        self._lock = threading.Lock()  # for replacing parts of the cache
        self._built = 0

    def close(self) -> None:
        """Close the database."""
        self._version = None
        self._store.close()

    def clear(self) -> None:
        """Delete everything."""
        tables = ("texts", "entries", "listings", "shelves", "common", "facts")
        self._version = None

        def work(db: sqlite3.Connection) -> None:
            for table in tables:
                db.execute(f"DELETE FROM {table}")  # noqa: S608  # constant names

        self._store.write(work)

    # --- updating -------------------------------------------------------------------------------------------------

    def refresh(self, shelves: Sequence[Shelf], check: Callable[[], None]) -> Refresh:
        """Update the rows of these shelves from their files."""
        cached_shelves = self._load()
        total = read = 0
        full = False
        for shelf in shelves:
            cached = cached_shelves.get(shelf.key)
            survey = shelf.survey(cached.listings if cached else {}, check)
            total += len(survey.files)
            full = full or survey.full
            if cached is None or survey.files != cached.files or survey.listings != cached.listings:
                read += self._update(shelf, survey, cached, check)
            elif cached.used < time.time() - USED_SECONDS:
                self._mark_used(shelf.key, cached)
        return Refresh(total, read, full, self._built)

    def _load(self) -> dict[str, _CachedShelf]:
        """Return the cached rows; reload them only if another process changed them."""

        def work(db: sqlite3.Connection) -> dict[str, _CachedShelf]:
            version = db.execute("PRAGMA data_version").fetchone()[0]
            if version == self._version:
                return self._cached
            by_id: dict[int, _CachedShelf] = {}
            by_key: dict[str, _CachedShelf] = {}
            for id, key, used in db.execute("SELECT id, key, used FROM shelves"):
                by_id[id] = by_key[os.fsdecode(key)] = _CachedShelf(id, used, {}, {})
            decode = os.fsdecode
            for id, path, size, mtime in db.execute(f"SELECT shelf, path, size, mtime FROM entries {_OF_A_SHELF}"):  # noqa: S608
                by_id[id].files[decode(path)] = (size, mtime)
            for id, path, mtime, files, folders in db.execute(f"SELECT * FROM listings {_OF_A_SHELF}"):  # noqa: S608
                by_id[id].listings[decode(path)] = Listing(mtime, _unpacked(files), _unpacked(folders))
            with self._lock:
                self._cached, self._version, self._built = by_key, version, _built(db)
            return by_key

        return self._store.read(lambda db: _in_snapshot(db, work))

    def _update(self, shelf: Shelf, survey: Survey, cached: _CachedShelf | None, check: Callable[[], None]) -> int:
        """Read the changed files and write their rows; return how many were read."""
        files = dict(cached.files) if cached else {}
        changed = [path for path, stamp in survey.files.items() if files.get(path) != stamp]
        missing = [path for path in files if path not in survey.files]
        id = self._begin(shelf.key, missing)
        for path in missing:
            del files[path]
        read = 0
        for start in range(0, len(changed), BATCH):
            rows = []
            for path in changed[start : start + BATCH]:
                check()
                rows.append(_row(shelf, path, survey.files[path]))
            self._write(id, rows)
            files.update((row.path, row.stamp) for row in rows)
            read += len(rows)
        listings = survey.listings

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM listings WHERE shelf=?", (id,))
            values = (
                (id, os.fsencode(path), listing.mtime, _packed(listing.files), _packed(listing.folders))
                for path, listing in listings.items()
            )
            db.executemany("INSERT INTO listings VALUES (?,?,?,?,?)", values)

        if cached is None or listings != cached.listings:
            self._store.write(work)
        self._store.write(_count_common)
        self._remember(shelf.key, _CachedShelf(id, int(time.time()), files, listings))
        return read

    def _remember(self, key: str, shelf: _CachedShelf) -> None:
        with self._lock:
            # replaced as a whole: other threads may be reading the old one
            self._cached = {**self._cached, key: shelf}

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
                for table, column in (("entries", "shelf"), ("listings", "shelf"), ("shelves", "id")):
                    db.execute(f"DELETE FROM {table} WHERE {column}=?", (unused,))  # noqa: S608  # constant names
            id = int(db.execute("SELECT id FROM shelves WHERE key=?", (os.fsencode(key),)).fetchone()[0])
            for path in missing:
                _remove(db, id, os.fsencode(path))
            if missing:
                self._built = _stamp(db, len(missing))
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
            self._built = _stamp(db, len(rows))

        self._store.write(work)

    def _mark_used(self, key: str, cached: _CachedShelf) -> None:
        now = int(time.time())
        self._store.write(lambda db: db.execute("UPDATE shelves SET used=? WHERE id=?", (now, cached.id)))
        self._remember(key, cached._replace(used=now))

    # --- searching ------------------------------------------------------------------------------------------------

    def search(self, query: str, shelves: Sequence[Shelf], kinds: Collection[str], limit: int) -> list[RankedDocument]:
        """Return the entries of these shelves and kinds that match the query, best first; noise matches nothing."""
        keys = {self._cached[shelf.key].id: shelf.key for shelf in shelves if shelf.key in self._cached}
        terms = ranking.query_terms(query)
        if not terms or not keys:
            return []

        def work(db: sqlite3.Connection) -> list[RankedDocument]:
            weighted = _weigh(db, query, terms)
            if not weighted.match:
                return []
            return _ranked(db, weighted, keys, kinds)

        matches = self._store.read(lambda db: _in_snapshot(db, work))
        matches.sort(key=lambda entry: -entry.score)  # equal scores keep the BM25 order
        distinct = {entry.path: entry for entry in reversed(matches)}  # one folder may be inside another
        return [entry for entry in matches if distinct[entry.path] is entry][:limit]


# skips orphaned rows, written for a shelf while another process deleted it
_OF_A_SHELF = "WHERE shelf IN (SELECT id FROM shelves)"


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


def _stamp(db: sqlite3.Connection, changes: int) -> int:
    """Record how many rows changed, and when."""
    now = time.time_ns()
    db.execute("INSERT OR REPLACE INTO facts VALUES ('built', ?)", (now,))
    db.execute(
        "INSERT INTO facts VALUES ('changes', ?) ON CONFLICT (name) DO UPDATE SET value=value+excluded.value",
        (changes,),
    )
    return now


def _built(db: sqlite3.Connection) -> int:
    row = db.execute("SELECT value FROM facts WHERE name='built'").fetchone()
    return int(row[0]) if row is not None else 0


def _count_common(db: sqlite3.Connection) -> None:
    """Count the documents of frequent terms again, once a tenth of all documents changed: weights need not be exact."""
    facts = dict(db.execute("SELECT name, value FROM facts").fetchall())
    changes = facts.get("changes", 0)
    if changes * 10 <= facts.get("counted", 0) or not changes:
        return
    total = int(db.execute("SELECT count(*) FROM entries").fetchone()[0])
    db.execute("DELETE FROM common")
    if total >= COMMON:
        db.execute("INSERT INTO common SELECT term, doc FROM vocabulary WHERE doc>=?", (COMMON,))
    db.execute("INSERT OR REPLACE INTO facts VALUES ('counted', ?), ('changes', 0)", (total,))


def _weigh(db: sqlite3.Connection, query: str, terms: Mapping[str, str]) -> ranking.Query:
    total = int(db.execute("SELECT count(*) FROM entries").fetchone()[0])
    frequencies = {}
    for term in terms:
        row = db.execute("SELECT documents FROM common WHERE term=?", (term,)).fetchone()
        row = row or db.execute("SELECT doc FROM vocabulary WHERE term=?", (term,)).fetchone()
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


def _packed(paths: Sequence[str]) -> bytes:
    return os.fsencode("\0".join(paths))


def _unpacked(data: bytes) -> tuple[str, ...]:
    return tuple(os.fsdecode(data).split("\0")) if data else ()
