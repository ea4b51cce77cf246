"""trail.db: the audit trail, what each session has read, and when sessions were last used.

Every call appends one row whose hash covers the row and the previous hash; all processes share one chain. Rows are
appended to a log, which is flushed to the database before every query. The hashes of the newest rows are also in a
third file. Old rows are removed from the beginning: the chain then starts from the hash of the last row removed, and a
row of the chain records the removal. Counters are computed from the rows, plus the totals of removed rows.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.lazy import Lazy
from hilt.places import utf8_path
from hilt.state.append_log import AppendLog, LogLine, parse_line
from hilt.state.head import Head
from hilt.state.reserve import Reserve
from hilt.wire import json_encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

    from hilt.state.db import Database
    from hilt.state.usage import Counter, UsageReport
    from hilt.state.verification import Break
else:
    Connection = Database = object  # not loaded for annotations; deferred ones would make named tuples slow to create

T = TypeVar("T")
End = tuple[int, bytes]  # the number and the hash of the last row; (0, b"") if there is none

PATHS_PER_QUERY = 500
WAL_BYTES = 512 * 1024
SESSION_IDLE_SECONDS = 24 * 3600
LOG_BYTES = 2 * 1024 * 1024  # about four thousand rows; a longer log is flushed
LOG_BYTES_MAX = 16 * LOG_BYTES  # of a log that cannot be flushed; beyond this, calls fail
KEPT_ROWS = 1_000_000
KEPT_DAYS = 90
REMOVED_MAX = 20_000  # rows removed at once: other writers wait meanwhile
BREAKS_MAX = 20  # reported at once

_LAST = (1 << 63) - 1  # the largest integer in SQLite
_SECOND = 1_000_000_000
_HOUR = 3600 * _SECOND
_DAY = 24 * _HOUR

MIGRATIONS = (
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
    # marks: the row after which the head file exists; the last row removed, and the row that records the removal
    """ALTER TABLE audit ADD COLUMN agent TEXT NOT NULL DEFAULT '';
CREATE TABLE marks (name TEXT PRIMARY KEY, seq INTEGER NOT NULL, hash BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO marks SELECT 'headed', coalesce(max(seq), 0), x'' FROM audit;
CREATE TABLE removed (
         tool TEXT NOT NULL, status TEXT NOT NULL, bound INTEGER NOT NULL,
         calls INTEGER NOT NULL, micros INTEGER NOT NULL,
         PRIMARY KEY (tool, status, bound)) WITHOUT ROWID""",
    "ALTER TABLE audit ADD COLUMN contacts TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE audit ADD COLUMN call TEXT NOT NULL DEFAULT ''",
    # rows without a run belong to the run of their session
    """ALTER TABLE audit ADD COLUMN run TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN parent TEXT NOT NULL DEFAULT ''""",
)


class TrailEntry(NamedTuple):
    """The record of one call."""

    at: int  # nanoseconds since the epoch
    workspace: str
    session: str
    tool: str
    digest: str  # of the arguments: the trail does not store contents
    decision: str
    reason: str
    approver: str
    outcome: str  # "ok" or an error code
    micros: int
    agent: str = ""  # whose session it is, if an agent's
    contacts: str = ""  # hosts that the call connected to, each with its address
    call: str = ""  # the caller's id for the call
    run: str = ""  # the run of the call; empty in old rows, which belong to the run of their session
    parent: str = ""  # the id of the call that started the agent


_COLUMNS = ", ".join(TrailEntry._fields)
_INSERT = f"INSERT INTO audit (seq, {_COLUMNS}, hash) VALUES ({','.join('?' * 17)})"  # noqa: S608
_SELECT_ROW = f"SELECT {_COLUMNS}, hash FROM audit WHERE seq=?"  # noqa: S608


class Stamp(NamedTuple):
    """A file as a session last saw it; hash is None if it did not exist."""

    size: int
    mtime: int
    hash: bytes | None


class Row(NamedTuple):
    """An entry with its place in the chain."""

    seq: int
    entry: TrailEntry
    hash: bytes


class _LoggedCall(NamedTuple):
    """A parsed line of the log; `entry` is None if it has only stamps."""

    at: int
    workspace: str
    session: str
    entry: TrailEntry | None
    stamps: dict[str, Stamp | None]


_encode_sorted = json_encoder(ascii_only=True, sort_keys=True, allow_nan=True, default=str)
_encode = json_encoder()


def digest(args: object) -> str:
    """Return the digest of a call's arguments."""
    try:
        text = _encode_sorted(args)
    except (TypeError, ValueError, RecursionError):
        text = repr(args)  # not JSON: a Python caller may send any object
    return sha256(text.encode("utf-8", "surrogatepass")).hex()


def chain_hash(previous: bytes, entry: TrailEntry) -> bytes:
    """Return the hash of an entry that follows a row with the hash `previous`."""
    at, workspace, session, tool, args, decision, reason, approver, outcome, micros, *later = entry
    at, micros = str(at), str(micros)  # type: ignore[assignment]
    # the lengths separate the fields, whatever they contain; written out for speed
    text = (
        f"{len(at)}:{at},{len(workspace)}:{workspace},{len(session)}:{session},{len(tool)}:{tool},{len(args)}:{args},"  # type: ignore[arg-type]
        f"{len(decision)}:{decision},{len(reason)}:{reason},{len(approver)}:{approver},{len(outcome)}:{outcome},"
        f"{len(micros)}:{micros}"  # type: ignore[arg-type]
    )
    while later and later[-1] == "":  # rows written before these columns existed keep their hashes
        later.pop()
    for field in later:
        text += f",{len(field)}:{field}"
    return sha256(previous + text.encode("utf-8", "surrogatepass"))


class Trail:
    """The record of calls and sessions, shared by all processes of a user."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._database = Lazy(self._open)
        self._log = AppendLog(path + ".log")
        self._head = Head(path + ".head")
        self._reserve = Reserve(path + ".reserve")

    def _open(self) -> Database:
        from hilt.state.db import Database  # deferred: most processes only append to the log

        # durable, because the log is emptied once the database has its rows
        return Database(self._path, MIGRATIONS, durable=True)

    @property
    def _db(self) -> Database:
        return self._database()

    def _exists(self) -> bool:
        """Whether the database exists."""
        return os.path.exists(self._path)

    def make_ready(self, *, full: bool = False) -> None:
        """Raise unless the row of the next call can be stored, even if the disk fills up meanwhile.

        With `full`, the disk may already be full; the row is then pending until there is space.
        """
        if full:
            self._try_flush_reserve()
            self._reserve.check(full=True)
            return
        if self._reserve.check():
            self._flush_reserve()
        # the length when this process last used it: rows that others append in the meantime do not matter
        if self._log.length == 0:
            self._head.open()
            with self._log as log:
                self._end(log)
        if self._log.length > LOG_BYTES_MAX:
            self._flush()

    def release_reserve(self) -> None:
        """Release the reserved space of a full disk, for an operation that frees more."""
        self._reserve.release_ballast()

    def record(self, entry: TrailEntry, stamps: Mapping[str, Stamp | None], *, ran: bool = True) -> None:
        """Append the call and the stamps of files it saw (None deletes a stamp), in one write.

        If the log cannot be written, the row of a call that `ran` goes to the reserve. Its stamps are lost: the session
        must read those files again before it changes them.
        """
        try:
            payload = _payload(entry, stamps)
            with self._log as log:
                last, previous = self._end(log)
                if last:
                    self._head.note(last, previous, again=True)
                number, hash = self._head.next_number(last), chain_hash(previous, entry)
                old_size = log.length
                log.add(payload, number, hash)
                size = log.length
                self._head.note(number, hash)
        except ToolError:
            if not ran:
                raise
            self._reserve.put(_encode_sorted(entry).encode())
            return
        # once for every LOG_BYTES, in case the log cannot be flushed
        if size // LOG_BYTES > old_size // LOG_BYTES:
            with suppress(ToolError):
                self.prune()

    def _end(self, log: AppendLog) -> tuple[int, bytes]:
        """Return the end of the chain; a new log continues the chain of the database."""
        end = log.end()
        if end is None:
            end = self._db.read(_end) if self._exists() else (0, b"")
            log.restart(*end)
        return end

    def _flush(self, more: Callable[[Connection, End], End] | None = None) -> None:
        """Move the rows of the log to the database, and run `more` in the same transaction.

        `more` receives the end of the chain, and returns the new end if it appends rows.
        """
        with self._log as log:
            if log.is_empty and more is None:
                return
            lines = log.lines()
            if more is not None and lines and lines[-1].number:
                self._head.note(*lines[-1][1:], again=True)

            def work(db: Connection) -> tuple[End, End]:
                end = _insert(db, lines)
                return end, end if more is None else more(db, end)

            old_end, end = self._db.write(work)
            log.restart(*end)
            if end != old_end:
                self._head.note(*end)
        self._db.checkpoint(WAL_BYTES)

    def _flush_reserve(self) -> None:
        """Append the pending rows of the reserve."""
        with self._reserve.drain() as lines:

            def append(entry: TrailEntry, db: Connection, end: End) -> End:
                # a process that died here may have appended it
                query = "SELECT 1 FROM audit WHERE at=? AND session=? AND tool=? AND digest=?"
                exists = db.execute(query, (entry.at, entry.session, entry.tool, entry.digest)).fetchone() is not None
                return end if exists else self._append(db, end, entry)

            entries, damaged = [], 0
            for line in lines:
                try:
                    entries.append(TrailEntry(*json.loads(line)))
                except (ValueError, TypeError):
                    damaged += 1
            if damaged:
                reason = f"{damaged} lines in trail.db.reserve, which holds rows while the disk is full, were damaged"
                entries.append(TrailEntry(time.time_ns(), "", "", "hilt audit", "", "allow", reason, "", "ok", 0))
            # one at a time: the head notes each row once it is committed
            for entry in entries:
                self._flush(partial(append, entry))

    def _append(self, db: Connection, end: End, entry: TrailEntry) -> End:
        """Append a row to the database; the log must have been flushed."""
        number, hash = self._head.next_number(end[0]), chain_hash(end[1], entry)
        db.execute(_INSERT, (number, *entry, hash))
        return number, hash

    def _try_flush_reserve(self) -> None:
        """Append pending rows if possible, so that readers see the complete trail."""
        if self._reserve.has_pending():
            with suppress(ToolError):
                self._flush_reserve()

    def _read(self, work: Callable[[Connection], T]) -> T:
        """Return the result of a query on the complete trail."""
        self._try_flush_reserve()
        try:
            self._flush()
        except ToolError:
            # the disk is full: insert the rows in a transaction that is rolled back
            with self._log as log:
                lines = log.lines()
            return self._db.preview(lambda db: (_insert(db, lines), work(db))[1])
        return self._db.read(work)

    def stamp(self, workspace: str, session: str, stamps: Mapping[str, Stamp | None]) -> None:
        """Store the stamps of files a session saw (None deletes a stamp)."""
        with self._log as log:
            log.add(_payload((time.time_ns(), workspace, session), stamps), *self._end(log))

    def stamps(self, workspace: str, session: str, paths: Iterable[str]) -> dict[str, Stamp]:
        """Return the stamps of these files; none if the session has been idle for a day."""
        names = {utf8_path(path): path for path in paths}
        with self._log as log:
            last_used, stamps = self._stored_stamps(workspace, session, list(names))
            data = log.data()
        for call in _newest_calls(data, workspace, session):
            last_used = call.at // _SECOND
            break
        for name in names:
            for call in _newest_calls(data, workspace, session, name):
                if name in call.stamps:
                    stamps[name] = call.stamps[name]
                    break
        if last_used is not None and last_used < time.time() - SESSION_IDLE_SECONDS:
            return {}
        return {path: stamp for name, path in names.items() if (stamp := stamps.get(name)) is not None}

    def _stored_stamps(
        self, workspace: str, session: str, names: list[str]
    ) -> tuple[int | None, dict[str, Stamp | None]]:
        """Return when a session was last used and its stamps, according to the database."""
        if not self._exists():
            return None, {}

        def work(db: Connection) -> tuple[int | None, dict[str, Stamp | None]]:
            used = db.execute(
                "SELECT used FROM sessions WHERE workspace=? AND session=?", (workspace, session)
            ).fetchone()
            stamps: dict[str, Stamp | None] = {}
            for start in range(0, len(names), PATHS_PER_QUERY):
                batch = names[start : start + PATHS_PER_QUERY]
                marks = ",".join("?" * len(batch))
                query = (
                    f"SELECT path, size, mtime, hash FROM stamps WHERE workspace=? AND session=? AND path IN ({marks})"  # noqa: S608
                )
                for name, *row in db.execute(query, (workspace, session, *batch)):
                    stamps[name] = Stamp(*row)
            return None if used is None else used[0], stamps

        return self._db.read(work)

    def was_used(self, workspace: str, session: str, since: float) -> bool:
        """Whether a session made a call after this time, in seconds."""
        with self._log as log:
            data = log.data()
        if any(call.at >= since * _SECOND for call in islice(_newest_calls(data, workspace, session), 1)):
            return True
        query = "SELECT 1 FROM sessions WHERE workspace=? AND session=? AND used>=?"
        values = (workspace, session, int(since))
        return self._exists() and self._db.read(lambda db: db.execute(query, values).fetchone()) is not None

    def sessions(self, workspace: str) -> list[tuple[str, int, int]]:
        """Return the sessions of a workspace, with the times in seconds when they were started and last used."""
        query = "SELECT session, started, used FROM sessions WHERE workspace=?"
        return self._read(lambda db: db.execute(query, (workspace,)).fetchall())

    def end_idle(self) -> None:
        """Delete sessions that have been idle for a day."""
        limit = int(time.time()) - SESSION_IDLE_SECONDS

        def work(db: Connection, end: End) -> End:
            for key in db.execute("SELECT workspace, session FROM sessions WHERE used<?", (limit,)).fetchall():
                _delete_session(db, *key)
            return end

        self._flush(work)

    def end_session(self, workspace: str, session: str) -> bool:
        """Delete a session; return whether it existed."""
        existed = False

        def work(db: Connection, end: End) -> End:
            nonlocal existed
            existed = _delete_session(db, workspace, session)
            return end

        self._flush(work)
        return existed

    def rows(
        self,
        *,
        since: float = 0,
        tool: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        workspace: str | None = None,
        outcome: str | None = None,
        run: str | None = None,
        text: str | None = None,
        after: int = 0,
        before: int = _LAST,
        limit: int = -1,
    ) -> list[Row]:
        """Return the newest matching rows, oldest first, with numbers between `after` and `before` (both exclusive).

        `text` must occur in the tool, the session, the reason, the approver or the outcome.
        """
        conditions = ["at>=?", "seq>?", "seq<?"]
        values: list[Any] = [min(int(since * 1_000_000_000), _LAST), after, before]
        equal = {"tool": tool, "session": session, "agent": agent, "workspace": workspace, "outcome": outcome}
        for column, value in equal.items():
            if value is not None:
                conditions.append(f"{column}=?")
                values.append(value)
        if run is not None:
            conditions.append("(run=? OR run='' AND session=?)")
            values += [run, run]
        if text is not None:
            joined = "tool||char(10)||session||char(10)||reason||char(10)||approver||char(10)||outcome"
            conditions.append(f"instr(lower({joined}), lower(?))>0")
            values.append(text)
        query = f"SELECT seq, {_COLUMNS}, hash FROM audit WHERE {' AND '.join(conditions)} ORDER BY seq DESC LIMIT ?"  # noqa: S608
        rows = self._read(lambda db: db.execute(query, (*values, limit)).fetchall())
        return [_row(row) for row in reversed(rows)]

    def end(self) -> tuple[int, bytes]:
        """Return the number and hash of the newest row; a copy stored elsewhere proves every row up to it."""
        self._try_flush_reserve()
        with self._log as log:
            return self._end(log)

    def verify(self) -> int | None:
        """Return the number of the first row that does not match what was recorded, or None if the trail is intact."""
        breaks = self.breaks()
        return breaks[0].seq if breaks else None

    def breaks(self, witness: tuple[int, bytes] | None = None) -> "list[Break]":
        """Return the first rows that do not match what was recorded; `witness` is an earlier end of the chain."""
        from hilt.state.verification import ChainMarks, find_breaks

        witnessed = dict([witness] if witness else [])
        self._try_flush_reserve()
        while True:
            with self._log as log:  # read before the rows: every row in it is already in the log or the database
                (end, _), noted = self._end(log), self._head.read()
            self._flush()
            marks = self._db.read(ChainMarks.read)
            has_head = self._head.exists
            all_breaks = find_breaks(
                self._all(), marks, noted, witnessed, end=end, has_head=has_head, chain_hash=chain_hash
            )
            breaks = list(islice(all_breaks, BREAKS_MAX))
            if self._db.read(ChainMarks.read) == marks:  # otherwise rows were removed in the meantime
                return breaks

    def prune(self, *, rows: int = KEPT_ROWS, days: int = KEPT_DAYS) -> int:
        """Remove the oldest rows if there are too many or they are too old; return how many were removed.

        One call removes a limited number, so that other writers do not wait long. A row of the chain records the
        removal. The last hour is always kept.
        """
        now = time.time_ns()

        from hilt.state import usage

        removed = 0

        def work(db: Connection, end: End) -> End:
            nonlocal removed
            first, last = _rows_to_remove(db, end[0], rows, days, now)
            if last < first:
                return end
            last, hash = db.execute("SELECT seq, hash FROM audit WHERE seq<=? ORDER BY seq DESC", (last,)).fetchone()
            usage.add_up(db, last)
            removed = db.execute("DELETE FROM audit WHERE seq<=?", (last,)).rowcount
            reason = f"rows {first} to {last} were removed: the limit is {rows} rows and {days} days"
            entry = TrailEntry(now, "", "", "hilt audit", hash.hex(), "allow", reason, "", "ok", 0)
            end = self._append(db, end, entry)
            marks = ("removed", last, hash), ("said", end[0], b"")
            db.executemany("INSERT OR REPLACE INTO marks VALUES (?,?,?)", marks)
            return end

        self._flush(work)
        return removed

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Flush the log, and block writers while the context lasts: all rows are then in the database."""
        self._try_flush_reserve()
        while True:
            self._flush()
            with self._log as log:
                if log.is_empty:
                    yield
                    return

    def counters(self, tool: str | None = None) -> "list[Counter]":
        """Return calls and durations by tool and status, including removed rows."""
        from hilt.state import usage

        return self._read(lambda db: usage.counters(db, tool))

    def usage(
        self,
        *,
        since: float = 0,
        tool: str | None = None,
        session: str | None = None,
        workspace: str | None = None,
        parts: int = 1,
    ) -> "UsageReport":
        """Return a report of the calls since a time, with the period until now divided into `parts`."""
        from hilt.state import usage

        start = min(int(since * _SECOND), _LAST)
        filters = {"tool": tool, "session": session, "workspace": workspace}
        return self._read(lambda db: usage.report(db, start, filters, parts))

    def close(self) -> None:
        """Close the files."""
        self._database.close()
        self._log.close()
        self._head.close()
        self._reserve.close()

    def _all(self) -> Iterator[Row]:
        start = 0
        while rows := self._page(start):
            yield from rows
            start = rows[-1].seq

    def _page(self, after: int) -> list[Row]:
        query = f"SELECT seq, {_COLUMNS}, hash FROM audit WHERE seq>? ORDER BY seq LIMIT 5000"  # noqa: S608  # constant names
        return [_row(row) for row in self._db.read(lambda db: db.execute(query, (after,)).fetchall())]


def _end(db: Connection) -> tuple[int, bytes]:
    row = db.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, b"") if row is None else (row[0], row[1])


def _payload(entry: tuple[Any, ...], stamps: Mapping[str, Stamp | None]) -> bytes:
    """Return the payload of a line of the log: a call, and the stamps of the files it saw."""
    seen = {
        utf8_path(path): stamp and (stamp.size, stamp.mtime, stamp.hash and stamp.hash.hex())
        for path, stamp in stamps.items()
    }
    return _encode((entry, seen)).encode()


def _logged_call(payload: bytes) -> _LoggedCall | None:
    """Parse the payload of a line of the log; None if it is empty or damaged."""
    try:
        fields, seen = json.loads(payload)
        stamps = {
            path: stamp and Stamp(stamp[0], stamp[1], stamp[2] and bytes.fromhex(stamp[2]))
            for path, stamp in seen.items()
        }
        _check_storable(fields)
        for path, stamp in stamps.items():
            _check_storable((path, *(stamp[:2] if stamp else ())))
        at, workspace, session = fields[:3]
        return _LoggedCall(int(at), workspace, session, TrailEntry(*fields) if len(fields) > 3 else None, stamps)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _check_storable(values: Iterable[object]) -> None:
    """Raise unless the database can store these values."""
    for value in values:
        if isinstance(value, str):
            value.encode()  # raises for lone surrogates
        elif type(value) is not int or value.bit_length() > 63:
            raise ValueError


def _newest_calls(data: bytes, workspace: str, session: str, path: str | None = None) -> Iterator[_LoggedCall]:
    """Yield the calls of a session in the log, newest first; with a path, at least all that have its stamp."""
    pattern = _encode((workspace, session))[1:-1] if path is None else _encode(path)
    encoded = pattern.encode()
    end = len(data)
    while (position := data.rfind(encoded, 0, end)) >= 0:
        end = data.rfind(b"\n", 0, position) + 1
        line = parse_line(data[end : data.find(b"\n", position) + 1])
        call = None if line is None else _logged_call(line.payload)
        if call is not None and (call.workspace, call.session) == (workspace, session):
            yield call


def _insert(db: Connection, lines: Iterable[LogLine]) -> End:
    """Store the lines of the log that are not stored yet; return the end of the chain."""
    end = _end(db)
    (removed,) = db.execute("SELECT coalesce(max(seq), 0) FROM marks WHERE name='removed'").fetchone()
    used: dict[tuple[str, str], int] = {}
    stamps: dict[tuple[str, str, str], Stamp | None] = {}
    for line in lines:
        call = _logged_call(line.payload)
        if call is None:
            continue  # verifying the chain reports the missing row
        key = (call.workspace, call.session)
        used[key] = call.at // _SECOND
        stamps.update({(*key, path): stamp for path, stamp in call.stamps.items()})
        if call.entry is None or line.number <= removed:
            continue
        number = line.number
        if number <= end[0]:
            if db.execute(_SELECT_ROW, (number,)).fetchone() == (*call.entry, line.hash):
                continue  # a process died after it flushed the log
            number = end[0] + 1  # another row has this number: stored anyway, so that verification reports it
        db.execute(_INSERT, (number, *call.entry, line.hash))
        end = number, line.hash
    db.executemany(
        "INSERT INTO sessions VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET used=excluded.used",
        [(*key, seconds, seconds) for key, seconds in used.items()],
    )
    db.executemany(
        "DELETE FROM stamps WHERE workspace=? AND session=? AND path=?",
        [key for key, stamp in stamps.items() if stamp is None],
    )
    db.executemany(
        "INSERT OR REPLACE INTO stamps VALUES (?,?,?,?,?,?)",
        [(*key, *stamp) for key, stamp in stamps.items() if stamp is not None],
    )
    return end


def _row(row: Sequence[Any]) -> Row:
    return Row(row[0], TrailEntry(*row[1:-1]), row[-1])


def _rows_to_remove(db: Connection, end: int, rows: int, days: int, now: int) -> tuple[int, int]:
    """Return the first and last row to remove; last < first if there are none."""
    oldest_row = db.execute("SELECT seq, at FROM audit ORDER BY seq LIMIT 1").fetchone()
    if oldest_row is None:
        return 1, 0
    first, oldest = oldest_row
    too_many = end - first + 1 > rows * 1.01  # some slack: each removal adds a row
    if not too_many and oldest >= now - (days + 1) * _DAY:
        return first, 0

    def before(at: int) -> int:
        """Return the last of the oldest rows that are all from before this time."""
        last = min(end, first + REMOVED_MAX - 1)
        query = "SELECT min(seq) FROM audit WHERE seq<=? AND at>=?"
        (later,) = db.execute(query, (last, at)).fetchone()
        return last if later is None else int(later) - 1

    old = before(now - days * _DAY)
    return first, max(old, min(before(now - _HOUR), end - rows)) if too_many else old


def _delete_session(db: Connection, workspace: str, session: str) -> bool:
    key = (workspace, session)
    db.execute("DELETE FROM stamps WHERE workspace=? AND session=?", key)
    return db.execute("DELETE FROM sessions WHERE workspace=? AND session=?", key).rowcount > 0
