"""The index of one client: SQLite FTS5 over title, tags, description and text, brought up to date file by file.

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
COMMON = 50  # from so many documents on, counting those of a term takes a while, and is done beforehand
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


class _Known(NamedTuple):
    id: int
    used: int
    files: dict[str, Stamp]
    listings: dict[str, Listing]


class KnowledgeIndex:
    """The rows of one database and this process's cache of them. Thread-safe."""

    def __init__(self, store: IndexStore) -> None:
        self._store = store
        self._version: int | None = None
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()  # of what is known, while a part of it is replaced
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

    # --- bringing it up to date -----------------------------------------------------------------------------------

    def refresh(self, shelves: Sequence[Shelf], check: Callable[[], None]) -> Refresh:
        """Update the rows of these shelves from their files."""
        known = self._load()
        total = read = 0
        full = False
        for shelf in shelves:
            mine = known.get(shelf.key)
            survey = shelf.survey(mine.listings if mine else {}, check)
            total += len(survey.files)
            full = full or survey.full
            if mine is None or survey.files != mine.files or survey.listings != mine.listings:
                read += self._follow(shelf, survey, mine, check)
            elif mine.used < time.time() - USED_SECONDS:
                self._mark_used(shelf.key, mine)
        return Refresh(total, read, full, self._built)

    def _load(self) -> dict[str, _Known]:
        """Return the cached rows; reload them only if another process changed them."""

        def work(db: sqlite3.Connection) -> dict[str, _Known]:
            version = db.execute("PRAGMA data_version").fetchone()[0]
            if version == self._version:
                return self._known
            known: dict[int, _Known] = {}
            keys: dict[str, _Known] = {}
            for id, key, used in db.execute("SELECT id, key, used FROM shelves"):
                known[id] = keys[os.fsdecode(key)] = _Known(id, used, {}, {})
            decode = os.fsdecode
            for id, path, size, mtime in db.execute(f"SELECT shelf, path, size, mtime FROM entries {_SHELVED}"):  # noqa: S608
                known[id].files[decode(path)] = (size, mtime)
            for id, path, mtime, files, folders in db.execute(f"SELECT * FROM listings {_SHELVED}"):  # noqa: S608
                known[id].listings[decode(path)] = Listing(mtime, _unpacked(files), _unpacked(folders))
            with self._lock:
                self._known, self._version, self._built = keys, version, _built(db)
            return keys

        return self._store.read(lambda db: _at_one_moment(db, work))

    def _follow(self, shelf: Shelf, survey: Survey, mine: _Known | None, check: Callable[[], None]) -> int:
        """Read the changed files and write their rows; return how many were read."""
        files = dict(mine.files) if mine else {}
        changed = [path for path, stamp in survey.files.items() if files.get(path) != stamp]
        gone = [path for path in files if path not in survey.files]
        id = self._begin(shelf.key, gone)
        for path in gone:
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

        if mine is None or listings != mine.listings:
            self._store.write(work)
        self._store.write(_count_common)
        self._remember(shelf.key, _Known(id, int(time.time()), files, listings))
        return read

    def _remember(self, key: str, known: _Known) -> None:
        with self._lock:
            # replaced as a whole: other threads may be reading the old ones
            self._known = {**self._known, key: known}

    def _begin(self, key: str, gone: Collection[str]) -> int:
        """Return the id of a shelf, after deleting the rows of missing files and unused shelves."""
        now = int(time.time())

        def work(db: sqlite3.Connection) -> int:
            db.execute(
                "INSERT INTO shelves (key, used) VALUES (?,?) ON CONFLICT (key) DO UPDATE SET used=excluded.used",
                (os.fsencode(key), now),
            )
            for (old,) in db.execute("SELECT id FROM shelves WHERE used<?", (now - UNUSED_SECONDS,)).fetchall():
                db.execute("DELETE FROM texts WHERE rowid IN (SELECT id FROM entries WHERE shelf=?)", (old,))
                for table, column in (("entries", "shelf"), ("listings", "shelf"), ("shelves", "id")):
                    db.execute(f"DELETE FROM {table} WHERE {column}=?", (old,))  # noqa: S608  # constant names
            id = int(db.execute("SELECT id FROM shelves WHERE key=?", (os.fsencode(key),)).fetchone()[0])
            for path in gone:
                _remove(db, id, os.fsencode(path))
            if gone:
                self._built = _stamp(db, len(gone))
            return id

        return self._store.write(work)

    def _write(self, shelf: int, rows: Sequence[_DocumentRow]) -> None:
        def work(db: sqlite3.Connection) -> None:
            for row in rows:
                path = os.fsencode(row.path)
                _remove(db, shelf, path)
                document = row.document
                shown = ("", "", "", "") if document is None else document[:3] + document[4:5]
                number = db.execute(
                    "INSERT INTO entries (shelf, path, size, mtime, kind, name, title, description, source) "
                    "VALUES (?,?,?,?,?,?,?,?,?)",
                    (shelf, path, *row.stamp, row.kind if document is not None else "", *shown),
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

    def _mark_used(self, key: str, mine: _Known) -> None:
        now = int(time.time())
        self._store.write(lambda db: db.execute("UPDATE shelves SET used=? WHERE id=?", (now, mine.id)))
        self._remember(key, mine._replace(used=now))

    # --- asking ---------------------------------------------------------------------------------------------------

    def search(self, query: str, shelves: Sequence[Shelf], kinds: Collection[str], limit: int) -> list[RankedDocument]:
        """Return the entries of these shelves and kinds that match the query, best first; noise matches nothing."""
        keys = {self._known[shelf.key].id: shelf.key for shelf in shelves if shelf.key in self._known}
        asked = ranking.ask(query)
        if not asked or not keys:
            return []

        def work(db: sqlite3.Connection) -> list[RankedDocument]:
            question = _weighed(db, asked)
            if not question.match:
                return []
            return _ranked(db, question, keys, kinds)

        found = self._store.read(lambda db: _at_one_moment(db, work))
        found.sort(key=lambda entry: -entry.score)  # equal ones stay in the order of BM25
        distinct = {entry.path: entry for entry in reversed(found)}  # one folder may be inside another
        return [entry for entry in found if distinct[entry.path] is entry][:limit]


# rows that another process wrote for a shelf which a third one was just taking away belong to nobody
_SHELVED = "WHERE shelf IN (SELECT id FROM shelves)"


def _at_one_moment(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
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
    found = shelf.read(path, documents.TEXT_BYTES)
    if found is None:
        return _DocumentRow(path, stamp, "", None)
    data, read = found
    return _DocumentRow(path, read, shelf.kind_of(path), documents.parse(data, path))


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
    """Count the documents of frequent terms again, once a tenth of all is new: weights need not be exact."""
    facts = dict(db.execute("SELECT name, value FROM facts").fetchall())
    changes = facts.get("changes", 0)
    if changes * 10 <= facts.get("counted", 0) or not changes:
        return
    total = int(db.execute("SELECT count(*) FROM entries").fetchone()[0])
    db.execute("DELETE FROM common")
    if total >= COMMON:
        db.execute("INSERT INTO common SELECT term, doc FROM vocabulary WHERE doc>=?", (COMMON,))
    db.execute("INSERT OR REPLACE INTO facts VALUES ('counted', ?), ('changes', 0)", (total,))


def _weighed(db: sqlite3.Connection, asked: Mapping[str, str]) -> ranking.Query:
    total = int(db.execute("SELECT count(*) FROM entries").fetchone()[0])
    frequencies = {}
    for term in asked:
        row = db.execute("SELECT documents FROM common WHERE term=?", (term,)).fetchone()
        row = row or db.execute("SELECT doc FROM vocabulary WHERE term=?", (term,)).fetchone()
        if row is not None:
            frequencies[term] = min(int(row[0]), total)
    return ranking.weigh(asked, frequencies, total)


def _ranked(
    db: sqlite3.Connection, question: ranking.Query, keys: Mapping[int, str], kinds: Collection[str]
) -> list[RankedDocument]:
    wanted = list(kinds)
    condition = f"entries.shelf IN ({_marks(keys)})" + (f" AND entries.kind IN ({_marks(wanted)})" if wanted else "")
    # texts are fetched for the best rows only: sorting would copy them
    best = db.execute(
        "SELECT texts.rowid FROM texts JOIN entries ON entries.id=texts.rowid "  # noqa: S608  # question marks only
        f"WHERE texts MATCH ? AND {condition} ORDER BY bm25(texts, 8.0, 6.0, 4.0, 1.0) LIMIT ?",
        (question.match, *keys, *wanted, CANDIDATES),
    ).fetchall()
    found = []
    for (id,) in best:
        fields = db.execute("SELECT title, tags, description, body FROM texts WHERE rowid=?", (id,)).fetchone()
        value, matched = ranking.score(question, fields)
        if value >= ranking.THRESHOLD:
            query = "SELECT shelf, path, kind, name, title, description, source FROM entries WHERE id=?"
            shelf, path, kind, name, title, description, source = db.execute(query, (id,)).fetchone()
            shown = (kind, name, title, description, keys[shelf], os.fsdecode(path), source)
            found.append(RankedDocument(*shown, round(value, 3), tuple(matched)))
    return found


def _marks(values: Collection[Any]) -> str:
    return ",".join("?" * len(values))


def _packed(paths: Sequence[str]) -> bytes:
    return os.fsencode("\0".join(paths))


def _unpacked(data: bytes) -> tuple[str, ...]:
    return tuple(os.fsdecode(data).split("\0")) if data else ()
