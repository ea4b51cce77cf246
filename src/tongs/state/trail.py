"""trail.db: the audit trail, what each session has read, and when sessions were last used.

Every call appends one row whose hash covers the row and the hash before it; the chain is one for all processes.
Counters are not stored: they are what the rows say.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tongs.digests import sha256
from tongs.state.db import Database

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
else:
    import _sqlite3 as sqlite3  # the package around it also loads dates and times, which no table holds

ASKED_TOGETHER = 500  # paths in one query
SESSION_IDLE_SECONDS = 24 * 3600
LOG_BYTES = 512 * 1024
USED_SECONDS = 60  # how exactly the last use of a session is kept

_MIGRATIONS = (
    """CREATE TABLE audit (
         seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, workspace TEXT NOT NULL, session TEXT NOT NULL,
         tool TEXT NOT NULL, digest TEXT NOT NULL, decision TEXT NOT NULL, reason TEXT NOT NULL,
         approver TEXT NOT NULL, outcome TEXT NOT NULL, micros INTEGER NOT NULL, hash BLOB NOT NULL);
CREATE TABLE stamps (
         workspace TEXT NOT NULL, session TEXT NOT NULL, path TEXT NOT NULL,
         size INTEGER NOT NULL, mtime INTEGER NOT NULL, hash BLOB,
         PRIMARY KEY (workspace, session, path)) WITHOUT ROWID;
CREATE TABLE sessions (
         workspace TEXT NOT NULL, session TEXT NOT NULL, started INTEGER NOT NULL, used INTEGER NOT NULL,
         PRIMARY KEY (workspace, session)) WITHOUT ROWID""",
)

_COLUMNS = "at, workspace, session, tool, digest, decision, reason, approver, outcome, micros"


class Entry(NamedTuple):
    """What is kept of one call."""

    at: int  # nanoseconds since the epoch
    workspace: str
    session: str
    tool: str
    digest: str  # of the arguments: the trail holds no contents
    decision: str
    reason: str
    approver: str
    outcome: str  # "ok" or an error code
    micros: int


class Stamp(NamedTuple):
    """A file as a session last saw it; hash None means that it was not there."""

    size: int
    mtime: int
    hash: bytes | None


class Row(NamedTuple):
    """An entry with its place in the chain."""

    seq: int
    entry: Entry
    hash: bytes


class Counter(NamedTuple):
    """How often a tool ended in one way, and how long it took."""

    tool: str
    status: str
    calls: int
    total_ms: float


# made once: json.dumps makes one at every call
_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode


def digest(args: object) -> str:
    """Return the digest of a call's arguments."""
    try:
        text = _SORTED(args)
    except (TypeError, ValueError):
        text = repr(args)  # not JSON: a caller from Python may send anything
    return sha256(text.encode("utf-8", "surrogatepass")).hex()


def chained(previous: bytes, entry: Sequence[object]) -> bytes:
    """Return the hash of an entry that follows a row with the hash `previous`."""
    fields = [str(field) for field in entry]
    text = ",".join([f"{len(field)}:{field}" for field in fields])  # the lengths keep fields apart, whatever they hold
    return sha256(previous + text.encode("utf-8", "surrogatepass"))


class Trail:
    """The record of calls and sessions, shared by all processes of a user."""

    def __init__(self, path: str) -> None:
        self._db = Database(path, _MIGRATIONS, durable=False)
        self._last: tuple[int, bytes] = (0, b"")  # the end of the chain as this process last saw it
        self._used: dict[tuple[str, str], int] = {}

    def record(self, entry: Entry, stamps: Mapping[str, Stamp | None]) -> None:
        """Append the call and store what it saw of files (None forgets a file), in one transaction."""
        seconds = entry.at // 1_000_000_000
        key = (entry.workspace, entry.session)
        renew = seconds - self._used.get(key, 0) > USED_SECONDS
        if not renew and self._append_alone(entry, stamps):
            return

        def work(db: sqlite3.Connection) -> tuple[int, bytes]:
            end = _append(db, _end(db), entry)
            if renew:
                db.execute(
                    "INSERT INTO sessions VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET used=excluded.used",
                    (*key, seconds, seconds),
                )
            _stamp(db, *key, stamps)
            return end

        self._last = self._db.write(work)
        if renew:
            self._used[key] = seconds

    def _append_alone(self, entry: Entry, stamps: Mapping[str, Stamp | None]) -> bool:
        """Append the call with the one statement that is then its own transaction, if nothing else is to be stored.

        False when there is more, or when another process has gone on from the end of the chain.
        """

        def work(db: sqlite3.Connection) -> tuple[int, bytes] | None:
            if any(True for _ in _news(db, entry.workspace, entry.session, stamps)):
                return None
            try:
                return _append(db, self._last, entry)
            except sqlite3.IntegrityError:
                return None

        end = self._db.read(work)
        if end is not None:
            self._last = end
        return end is not None

    def stamp(self, workspace: str, session: str, stamps: Mapping[str, Stamp | None]) -> None:
        """Store what a session saw of files (None forgets a file)."""
        self._db.write(lambda db: _stamp(db, workspace, session, stamps))

    def stamps(self, workspace: str, session: str, paths: Iterable[str]) -> dict[str, Stamp]:
        """Return what the session saw of these files; nothing when it has been idle for a day."""
        if not self._db.exists():
            return {}

        def work(db: sqlite3.Connection) -> dict[str, Stamp]:
            used = db.execute(
                "SELECT used FROM sessions WHERE workspace=? AND session=?", (workspace, session)
            ).fetchone()
            if used is not None and used[0] < time.time() - SESSION_IDLE_SECONDS:
                return {}
            names = {_name(path): path for path in paths}
            found: dict[str, Stamp] = {}
            left = list(names)
            while left:
                some, left = left[:ASKED_TOGETHER], left[ASKED_TOGETHER:]
                marks = ",".join("?" * len(some))
                query = (
                    f"SELECT path, size, mtime, hash FROM stamps WHERE workspace=? AND session=? AND path IN ({marks})"  # noqa: S608
                )
                for name, *row in db.execute(query, (workspace, session, *some)):
                    found[names[name]] = Stamp(*row)
            return {path: found[path] for path in names.values() if path in found}

        return self._db.read(work)

    def end_idle(self) -> None:
        """Forget sessions that have been idle for a day."""
        limit = int(time.time()) - SESSION_IDLE_SECONDS

        def work(db: sqlite3.Connection) -> None:
            for key in db.execute("SELECT workspace, session FROM sessions WHERE used<?", (limit,)).fetchall():
                _forget(db, *key)

        self._db.write(work)

    def end_session(self, workspace: str, session: str) -> bool:
        """Forget a session; return whether there was one."""
        return self._db.write(lambda db: _forget(db, workspace, session))

    def rows(
        self,
        *,
        since: float = 0,
        tool: str | None = None,
        session: str | None = None,
        workspace: str | None = None,
        limit: int = -1,
    ) -> list[Row]:
        """Return the newest rows that fit, oldest first."""
        conditions = ["at>=?"]
        values: list[Any] = [int(since * 1_000_000_000)]
        for column, value in (("tool", tool), ("session", session), ("workspace", workspace)):
            if value is not None:
                conditions.append(f"{column}=?")
                values.append(value)
        query = f"SELECT seq, {_COLUMNS}, hash FROM audit WHERE {' AND '.join(conditions)} ORDER BY seq DESC LIMIT ?"  # noqa: S608
        found = self._db.read(lambda db: db.execute(query, (*values, limit)).fetchall())
        return [_row(row) for row in reversed(found)]

    def verify(self) -> int | None:
        """Return the number of the first row that does not follow from the one before it, or None when all do."""
        previous, expected = b"", 1
        for row in self._all():
            if row.seq != expected or row.hash != chained(previous, row.entry):
                return expected
            previous, expected = row.hash, expected + 1
        return None

    def counters(self) -> list[Counter]:
        """Return calls and time by tool and status."""
        query = (
            "SELECT tool, CASE outcome WHEN 'ok' THEN 'success' ELSE 'failure' END, count(*), sum(micros)/1000.0 "
            "FROM audit GROUP BY 1, 2 ORDER BY 1, 2"
        )
        return [Counter(*row) for row in self._db.read(lambda db: db.execute(query).fetchall())]

    def tidy(self) -> None:
        """Leave the database quick to open for the next process."""
        self._db.checkpoint(LOG_BYTES)

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _all(self) -> Iterator[Row]:
        start = 0
        while rows := self._page(start):
            yield from rows
            start = rows[-1].seq

    def _page(self, after: int) -> list[Row]:
        query = f"SELECT seq, {_COLUMNS}, hash FROM audit WHERE seq>? ORDER BY seq LIMIT 5000"  # noqa: S608  # constant names
        return [_row(row) for row in self._db.read(lambda db: db.execute(query, (after,)).fetchall())]


def _name(path: str) -> str:
    """Return a path as SQLite can hold it: a link may lead to a name that is not UTF-8."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _end(db: sqlite3.Connection) -> tuple[int, bytes]:
    row = db.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, b"") if row is None else (row[0], row[1])


def _append(db: sqlite3.Connection, last: tuple[int, bytes], entry: Entry) -> tuple[int, bytes]:
    """Add a row behind the last one; IntegrityError when that is not the last one any more."""
    number, hash = last[0] + 1, chained(last[1], entry)
    query = f"INSERT INTO audit (seq, {_COLUMNS}, hash) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608  # constant names
    db.execute(query, (number, *entry, hash))
    return number, hash


def _row(row: Sequence[Any]) -> Row:
    return Row(row[0], Entry(*row[1:-1]), row[-1])


def _news(
    db: sqlite3.Connection, workspace: str, session: str, stamps: Mapping[str, Stamp | None]
) -> Iterator[tuple[str, Stamp | None]]:
    """Yield what is not stored yet: reading the same file again is common, and looking is cheaper than writing."""
    query = "SELECT size, mtime, hash FROM stamps WHERE workspace=? AND session=? AND path=?"
    for path, stamp in stamps.items():
        name = _name(path)
        if db.execute(query, (workspace, session, name)).fetchone() != stamp:
            yield name, stamp


def _stamp(db: sqlite3.Connection, workspace: str, session: str, stamps: Mapping[str, Stamp | None]) -> None:
    for name, stamp in list(_news(db, workspace, session, stamps)):
        key = (workspace, session, name)
        if stamp is None:
            db.execute("DELETE FROM stamps WHERE workspace=? AND session=? AND path=?", key)
        else:
            db.execute("INSERT OR REPLACE INTO stamps VALUES (?,?,?,?,?,?)", (*key, *stamp))


def _forget(db: sqlite3.Connection, workspace: str, session: str) -> bool:
    key = (workspace, session)
    db.execute("DELETE FROM stamps WHERE workspace=? AND session=?", key)
    return db.execute("DELETE FROM sessions WHERE workspace=? AND session=?", key).rowcount > 0
