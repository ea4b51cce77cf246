"""trail.db: the audit trail, what each session has read, and when sessions were last used.

Every call appends one row whose hash covers the row and the previous hash; all processes share one chain. The newest
rows are also noted outside the database. Old rows are removed from the beginning: the chain then starts from the hash
of the last row removed, and a row of the chain records the removal. Counters are computed from the rows, plus the
totals of removed rows.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.places import utf8_path
from hilt.state.db import Database
from hilt.state.head import Head
from hilt.state.reserve import Reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
else:
    import _sqlite3 as sqlite3  # the sqlite3 package also loads date and time support, which no table needs

ASKED_TOGETHER = 500  # paths in one query
STAMPED_TOGETHER = 20  # files whose stamps one statement checks
SESSION_IDLE_SECONDS = 24 * 3600
LOG_BYTES = 512 * 1024
USED_SECONDS = 60  # resolution of the last use of a session
KEPT_ROWS = 1_000_000
KEPT_DAYS = 90
REMOVED_MOST = 20_000  # rows removed at once: other writers wait meanwhile
BREAKS_MOST = 20  # that are reported
PRUNED_EVERY = 64  # rows between two prunings by one-shot processes

UNKNOWN = "(unknown)"  # stands for all names of unknown tools: a caller may send any number of them
# upper bounds of the duration buckets; the totals of removed rows are stored per bucket
BOUNDS_MS = (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000)

_BOUNDS = (*(int(bound * 1000) for bound in BOUNDS_MS), 1 << 62)
_LAST = (1 << 63) - 1  # the largest integer in SQLite
_HOUR = 3600 * 1_000_000_000
_DAY = 24 * _HOUR

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
    # marks: the row after which the head file exists; the last row removed, and the row that records the removal
    """ALTER TABLE audit ADD COLUMN agent TEXT NOT NULL DEFAULT '';
CREATE TABLE marks (name TEXT PRIMARY KEY, seq INTEGER NOT NULL, hash BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO marks SELECT 'headed', coalesce(max(seq), 0), x'' FROM audit;
CREATE TABLE removed (
         tool TEXT NOT NULL, status TEXT NOT NULL, bound INTEGER NOT NULL,
         calls INTEGER NOT NULL, micros INTEGER NOT NULL,
         PRIMARY KEY (tool, status, bound)) WITHOUT ROWID""",
    "ALTER TABLE audit ADD COLUMN contacts TEXT NOT NULL DEFAULT ''",
)

_COLUMNS = "at, workspace, session, tool, digest, decision, reason, approver, outcome, micros, agent, contacts"
_INSERT = f"INSERT INTO audit (seq, {_COLUMNS}, hash) SELECT ?,?,?,?,?,?,?,?,?,?,?,?,?,?"

_ANEW = "it is not the row that was recorded: the chain was rebuilt"
_STAMPED = "SELECT size, mtime, hash FROM stamps WHERE workspace=? AND session=? AND path=?"
_AS_STAMPED = f"EXISTS ({_STAMPED} AND size=? AND mtime=? AND hash IS ?)"
_NOT_STAMPED = f"NOT EXISTS ({_STAMPED})"

_TOOL = f"CASE outcome WHEN 'unknown_tool' THEN '{UNKNOWN}' ELSE tool END"
_STATUS = "CASE outcome WHEN 'ok' THEN 'success' ELSE 'failure' END"
_BOUND = f"CASE {' '.join(f'WHEN micros<={bound} THEN {bound}' for bound in _BOUNDS[:-1])} ELSE {_BOUNDS[-1]} END"
# rows about the trail itself have no workspace: they are not calls
_COUNTED = (
    f"SELECT {_TOOL} AS tool, {_STATUS} AS status, {_BOUND} AS bound, count(*) AS calls, sum(micros) AS micros "  # noqa: S608
    "FROM audit WHERE workspace<>'' AND seq<=? GROUP BY 1, 2, 3"
)
_ADD_UP = (
    f"INSERT INTO removed {_COUNTED} "
    "ON CONFLICT DO UPDATE SET calls=calls+excluded.calls, micros=micros+excluded.micros"
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
    agent: str = ""  # of several that share a session; empty for the main one
    contacts: str = ""  # hosts that it connected to, each with its address


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


class Break(NamedTuple):
    """A row that does not match what was recorded, and why."""

    seq: int
    reason: str


class Counter(NamedTuple):
    """Calls of a tool with one status since the trail began, and their durations."""

    tool: str
    status: str  # "success" or "failure"
    calls: int
    total_ms: float
    buckets: tuple[int, ...]  # calls that took at most as long as each of BOUNDS_MS


class Use(NamedTuple):
    """The calls of one tool within a period."""

    tool: str
    calls: int
    failed: int
    p50_ms: float
    p95_ms: float
    plot: tuple[int, ...]  # calls in equal parts of the period


class UsageReport(NamedTuple):
    """The calls within a period by tool, and the count of each error code."""

    start: float
    end: float
    tools: list[Use]
    errors: dict[str, int]


class _Marks(NamedTuple):
    headed: int
    removed: int
    hash: bytes
    removal_row: int  # the row that records the removal


# created once: json.dumps creates an encoder for every call
_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode


def digest(args: object) -> str:
    """Return the digest of a call's arguments."""
    try:
        text = _SORTED(args)
    except (TypeError, ValueError):
        text = repr(args)  # not JSON: a Python caller may send any object
    return sha256(text.encode("utf-8", "surrogatepass")).hex()


def chained(previous: bytes, entry: TrailEntry) -> bytes:
    """Return the hash of an entry that follows a row with the hash `previous`."""
    at, workspace, session, tool, args, decision, reason, approver, outcome, micros, agent, contacts = entry
    at, micros = str(at), str(micros)  # type: ignore[assignment]
    # the lengths separate the fields, whatever they contain; written out for speed
    text = (
        f"{len(at)}:{at},{len(workspace)}:{workspace},{len(session)}:{session},{len(tool)}:{tool},{len(args)}:{args},"  # type: ignore[arg-type]
        f"{len(decision)}:{decision},{len(reason)}:{reason},{len(approver)}:{approver},{len(outcome)}:{outcome},"
        f"{len(micros)}:{micros}"  # type: ignore[arg-type]
    )
    if agent or contacts:  # rows written before these columns existed keep their hashes
        text += f",{len(agent)}:{agent}"
    if contacts:
        text += f",{len(contacts)}:{contacts}"
    return sha256(previous + text.encode("utf-8", "surrogatepass"))


class Trail:
    """The record of calls and sessions, shared by all processes of a user."""

    def __init__(self, path: str) -> None:
        self._db = Database(path, _MIGRATIONS, durable=False)
        self._head = Head(path + ".head")
        self._reserve = Reserve(path + ".reserve")
        self._last: tuple[int, bytes] = (0, b"")  # the end of the chain as this process last saw it
        self._looked = float("-inf")  # when the end was last read
        self._used: dict[tuple[str, str], int] = {}

    def make_ready(self, *, full: bool = False) -> None:
        """Raise unless the row of a call that is about to run can be stored, even if the disk fills up meanwhile.

        With `full`, the disk may already be full; the row is then pending until there is space.
        """
        if full:
            self._settle()
            self._reserve.check(full=True)
            return
        if self._reserve.check():
            self._take_in()
        self._db.read(lambda db: None)
        self._head.open()

    def make_way(self) -> None:
        """Release reserved space on a full disk, for an operation that frees more."""
        self._reserve.give_up_ballast()

    def record(self, entry: TrailEntry, stamps: Mapping[str, Stamp | None], *, ran: bool = True) -> None:
        """Append the call and store the stamps of files it saw (None deletes a stamp), in one transaction.

        If the database cannot be written, the row of a call that `ran` goes to the reserve. Its stamps are lost: the
        session must read those files again before it changes them.
        """
        try:
            self._record(entry, stamps)
        except ToolError:
            if not ran:
                raise
            self._reserve.put(_SORTED(entry).encode())

    def _take_in(self) -> None:
        """Append the pending rows of the reserve."""
        with self._reserve.taken() as waiting:
            entries = [TrailEntry(*json.loads(line)) for line in waiting]

            def work(db: sqlite3.Connection) -> tuple[int, bytes]:
                end = self._behind(_end(db))
                for entry in entries:
                    # a process that died here may already have appended some of them
                    query = "SELECT 1 FROM audit WHERE at=? AND session=? AND tool=? AND digest=?"
                    if db.execute(query, (entry.at, entry.session, entry.tool, entry.digest)).fetchone() is None:
                        end = _append(db, end, entry)
                return end

            if entries:
                self._head.note(*self._db.write(work))

    def _settle(self) -> None:
        """Append pending rows if possible, so that readers see the complete trail."""
        if self._reserve.waits():
            with suppress(ToolError):
                self._take_in()

    def _record(self, entry: TrailEntry, stamps: Mapping[str, Stamp | None]) -> None:
        seconds = entry.at // 1_000_000_000
        key = (entry.workspace, entry.session)
        renew = seconds - self._used.get(key, 0) > USED_SECONDS
        now = time.monotonic()
        # an old end may have been pruned in the meantime; appending to it would start a second chain
        recent = now - self._looked < USED_SECONDS
        end = self._append_alone(entry, stamps) if recent and not renew else None
        if end is None:

            def work(db: sqlite3.Connection) -> tuple[int, bytes]:
                end = _append(db, self._behind(_end(db)), entry)
                if renew:
                    db.execute(
                        "INSERT INTO sessions VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET used=excluded.used",
                        (*key, seconds, seconds),
                    )
                _stamp(db, *key, stamps)
                return end

            end = self._db.write(work)
            self._looked = now
            if renew:
                self._used[key] = seconds
        self._last = end
        self._head.note(*end)

    def _append_alone(self, entry: TrailEntry, stamps: Mapping[str, Stamp | None]) -> tuple[int, bytes] | None:
        """Append the call in a single statement, without a transaction, if there is nothing else to store.

        Return None if there is, or if another process has appended to the chain.
        """
        if len(stamps) > STAMPED_TOGETHER:
            return None
        conditions: list[str] = []
        values: list[str | int | bytes | None] = []
        for path, stamp in stamps.items():
            conditions.append(_NOT_STAMPED if stamp is None else _AS_STAMPED)
            values += [entry.workspace, entry.session, utf8_path(path), *(stamp or ())]
        # one statement checks and appends: two would each lock the file
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""

        def work(db: sqlite3.Connection) -> tuple[int, bytes] | None:
            number, hash = self._last[0] + 1, chained(self._last[1], entry)
            try:
                added = db.execute(_INSERT + where, (number, *entry, hash, *values)).rowcount
            except sqlite3.IntegrityError:
                return None
            return (number, hash) if added else None

        return self._db.read(work)

    def _behind(self, end: tuple[int, bytes]) -> tuple[int, bytes]:
        """Return the end of the chain with the largest number ever used: numbers of lost rows are not reused."""
        self._head.open()
        return max(end[0], *self._head.read(), 0), end[1]

    def stamp(self, workspace: str, session: str, stamps: Mapping[str, Stamp | None]) -> None:
        """Store the stamps of files a session saw (None deletes a stamp)."""
        self._db.write(lambda db: _stamp(db, workspace, session, stamps))

    def stamps(self, workspace: str, session: str, paths: Iterable[str]) -> dict[str, Stamp]:
        """Return the stamps of these files; none if the session has been idle for a day."""
        if not self._db.exists():
            return {}

        def work(db: sqlite3.Connection) -> dict[str, Stamp]:
            used = db.execute(
                "SELECT used FROM sessions WHERE workspace=? AND session=?", (workspace, session)
            ).fetchone()
            if used is not None and used[0] < time.time() - SESSION_IDLE_SECONDS:
                return {}
            names = {utf8_path(path): path for path in paths}
            stamps: dict[str, Stamp] = {}
            left = list(names)
            while left:
                some, left = left[:ASKED_TOGETHER], left[ASKED_TOGETHER:]
                marks = ",".join("?" * len(some))
                query = (
                    f"SELECT path, size, mtime, hash FROM stamps WHERE workspace=? AND session=? AND path IN ({marks})"  # noqa: S608
                )
                for name, *row in db.execute(query, (workspace, session, *some)):
                    stamps[names[name]] = Stamp(*row)
            return {path: stamps[path] for path in names.values() if path in stamps}

        return self._db.read(work)

    def was_used(self, workspace: str, session: str, since: float) -> bool:
        """Whether a session made a call after this time, in seconds; accurate to a minute."""
        query = "SELECT 1 FROM sessions WHERE workspace=? AND session=? AND used>?"
        values = (workspace, session, since - USED_SECONDS)
        return self._db.exists() and self._db.read(lambda db: db.execute(query, values).fetchone()) is not None

    def sessions(self, workspace: str) -> list[tuple[str, int, int]]:
        """Return the sessions of a workspace, with the times in seconds when they were started and last used."""
        query = "SELECT session, started, used FROM sessions WHERE workspace=?"
        return self._db.read(lambda db: db.execute(query, (workspace,)).fetchall()) if self._db.exists() else []

    def end_idle(self) -> None:
        """Delete sessions that have been idle for a day."""
        limit = int(time.time()) - SESSION_IDLE_SECONDS

        def work(db: sqlite3.Connection) -> None:
            for key in db.execute("SELECT workspace, session FROM sessions WHERE used<?", (limit,)).fetchall():
                _forget(db, *key)

        self._db.write(work)

    def end_session(self, workspace: str, session: str) -> bool:
        """Delete a session; return whether it existed."""
        return self._db.write(lambda db: _forget(db, workspace, session))

    def rows(
        self,
        *,
        since: float = 0,
        tool: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        workspace: str | None = None,
        outcome: str | None = None,
        text: str | None = None,
        after: int = 0,
        before: int = _LAST,
        limit: int = -1,
    ) -> list[Row]:
        """Return the newest rows that match, oldest first, with numbers between `after` and `before`.

        `text` must occur in the tool, the session, the reason, the approver or the outcome.
        """
        self._settle()
        conditions = ["at>=?", "seq>?", "seq<?"]
        values: list[Any] = [min(int(since * 1_000_000_000), _LAST), after, before]
        equal = {"tool": tool, "session": session, "agent": agent, "workspace": workspace, "outcome": outcome}
        for column, value in equal.items():
            if value is not None:
                conditions.append(f"{column}=?")
                values.append(value)
        if text is not None:
            joined = "tool||char(10)||session||char(10)||reason||char(10)||approver||char(10)||outcome"
            conditions.append(f"instr(lower({joined}), lower(?))>0")
            values.append(text)
        query = f"SELECT seq, {_COLUMNS}, hash FROM audit WHERE {' AND '.join(conditions)} ORDER BY seq DESC LIMIT ?"  # noqa: S608
        rows = self._db.read(lambda db: db.execute(query, (*values, limit)).fetchall())
        return [_row(row) for row in reversed(rows)]

    def end(self) -> tuple[int, bytes]:
        """Return the number and hash of the newest row; stored elsewhere, they vouch for every row up to it."""
        return self._db.read(_end)

    def verify(self) -> int | None:
        """Return the number of the first row that does not match what was recorded, or None if the trail is intact."""
        breaks = self.breaks()
        return breaks[0].seq if breaks else None

    def breaks(self, witness: tuple[int, bytes] | None = None) -> list[Break]:
        """Return the first rows that do not match what was recorded; `witness` is an earlier end of the chain."""
        self._settle()
        while True:
            noted = self._head.read()  # read before the rows: all rows it names are committed
            marks = self._marks()
            breaks = list(islice(self._walk(marks, noted, dict([witness] if witness else [])), BREAKS_MOST))
            if self._marks() == marks:  # otherwise rows were removed in the meantime
                return breaks

    def _walk(self, marks: _Marks, noted: dict[int, bytes], witnessed: dict[int, bytes]) -> Iterator[Break]:
        previous, last, recorded = marks.hash, marks.removed, not marks.removed
        if noted.get(last, previous) != previous or witnessed.get(last, previous) != previous:
            yield Break(last, _ANEW)
        for row in self._all():
            if row.seq <= marks.removed:
                yield Break(row.seq, "it was inserted where rows had been removed")
                continue
            if row.seq > last + 1:
                many = f"it and the rows up to {row.seq - 1} are" if row.seq > last + 2 else "it is"
                yield Break(last + 1, f"{many} missing")
            elif not _follows(row, previous):
                yield Break(row.seq, "it, or a row before it, was changed or moved")
            elif noted.get(row.seq, row.hash) != row.hash or witnessed.get(row.seq, row.hash) != row.hash:
                yield Break(row.seq, _ANEW)
            previous, last = row.hash, row.seq
            if last == marks.removal_row:
                recorded = (row.entry.workspace, row.entry.digest) == ("", marks.hash.hex())
        newest = max((*noted, *witnessed), default=0)
        if newest > last:
            yield Break(last + 1, f"the trail ends before it, but there was a row {newest}")
        if not recorded:
            yield Break(marks.removed, "no row records that the rows up to it were removed")
        if last > marks.headed and not self._head.exists():
            yield Break(last, "trail.db.head, which records the newest rows, is missing")

    def _marks(self) -> _Marks:
        rows = self._db.read(lambda db: db.execute("SELECT name, seq, hash FROM marks").fetchall())
        marks = {name: (seq, hash) for name, seq, hash in rows}
        nothing = (0, b"")
        return _Marks(marks.get("headed", nothing)[0], *marks.get("removed", nothing), marks.get("said", nothing)[0])

    def prune(self, *, rows: int = KEPT_ROWS, days: int = KEPT_DAYS) -> int:
        """Remove the oldest rows if there are too many or they are too old; return how many were removed.

        One call removes a limited number, so that other writers do not wait long. A row of the chain records the
        removal. The last hour is always kept.
        """
        now = time.time_ns()

        def work(db: sqlite3.Connection) -> tuple[int, tuple[int, bytes]] | None:
            end = _end(db)
            first, last = _too_much(db, end[0], rows, days, now)
            if last < first:
                return None
            last, hash = db.execute("SELECT seq, hash FROM audit WHERE seq<=? ORDER BY seq DESC", (last,)).fetchone()
            db.execute(_ADD_UP, (last,))
            gone = db.execute("DELETE FROM audit WHERE seq<=?", (last,)).rowcount
            reason = f"rows {first} to {last} were removed: the limit is {rows} rows and {days} days"
            entry = TrailEntry(now, "", "", "hilt audit", hash.hex(), "allow", reason, "", "ok", 0)
            end = _append(db, self._behind(end), entry)
            marks = ("removed", last, hash), ("said", end[0], b"")
            db.executemany("INSERT OR REPLACE INTO marks VALUES (?,?,?)", marks)
            return gone, end

        done = self._db.write(work)
        if done is None:
            return 0
        self._head.note(*done[1])
        return done[0]

    def counters(self, tool: str | None = None) -> list[Counter]:
        """Return calls and durations by tool and status, including removed rows."""
        self._settle()
        query = (
            f"SELECT tool, status, bound, sum(calls), sum(micros) FROM ({_COUNTED} UNION ALL SELECT * FROM removed) "  # noqa: S608
            "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        )
        counts: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
        for name, status, bound, calls, micros in self._db.read(lambda db: db.execute(query, (_LAST,)).fetchall()):
            if tool in (None, name):
                counts.setdefault((name, status), []).append((bound, calls, micros))
        return [_counter(*key, buckets) for key, buckets in counts.items()]

    def usage(
        self,
        *,
        since: float = 0,
        tool: str | None = None,
        session: str | None = None,
        workspace: str | None = None,
        parts: int = 1,
    ) -> UsageReport:
        """Return a report of the calls since then, with the period until now divided into this many parts."""
        self._settle()
        now = time.time_ns()
        conditions = ["workspace<>''", "at>=?"]
        values: list[Any] = [min(int(since * 1_000_000_000), _LAST)]
        for column, value in ((_TOOL, tool), ("session", session), ("workspace", workspace)):
            if value is not None:
                conditions.append(f"{column}=?")
                values.append(value)
        chosen = f"(SELECT {_TOOL} AS tool, at, outcome, micros FROM audit WHERE {' AND '.join(conditions)})"  # noqa: S608
        return self._db.read(lambda db: _usage(db, chosen, values, now, parts))

    def tidy(self) -> None:
        """Keep the database small and fast to open for the next process."""
        if self._last[0] % PRUNED_EVERY == 0:
            with suppress(ToolError):  # on a full disk: a later process prunes
                self.prune()
        self._db.checkpoint(LOG_BYTES)

    def close(self) -> None:
        """Close the files."""
        self._db.close()
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


def _end(db: sqlite3.Connection) -> tuple[int, bytes]:
    row = db.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, b"") if row is None else (row[0], row[1])


def _append(db: sqlite3.Connection, last: tuple[int, bytes], entry: TrailEntry) -> tuple[int, bytes]:
    """Append a row after the last one; raises IntegrityError if another row was appended in the meantime."""
    number, hash = last[0] + 1, chained(last[1], entry)
    db.execute(_INSERT, (number, *entry, hash))
    return number, hash


def _row(row: Sequence[Any]) -> Row:
    return Row(row[0], TrailEntry(*row[1:-1]), row[-1])


def _follows(row: Row, previous: bytes) -> bool:
    try:
        return row.hash == chained(previous, row.entry)
    except TypeError:
        return False  # invalid values in the row


def _too_much(db: sqlite3.Connection, end: int, rows: int, days: int, now: int) -> tuple[int, int]:
    """Return the first and the last row to remove; last < first if there are none."""
    found = db.execute("SELECT seq, at FROM audit ORDER BY seq LIMIT 1").fetchone()
    if found is None:
        return 1, 0
    first, oldest = found
    many = end - first + 1 > rows * 1.01  # some slack: each removal adds a row
    if not many and oldest >= now - (days + 1) * _DAY:
        return first, 0

    def before(at: int) -> int:
        """Return the last row of the oldest rows that are all from before this time."""
        most = min(end, first + REMOVED_MOST - 1)
        query = "SELECT min(seq) FROM audit WHERE seq<=? AND at>=?"
        (later,) = db.execute(query, (most, at)).fetchone()
        return most if later is None else int(later) - 1

    old = before(now - days * _DAY)
    return first, max(old, min(before(now - _HOUR), end - rows)) if many else old


def _counter(tool: str, status: str, counts: Sequence[tuple[int, int, int]]) -> Counter:
    buckets = tuple(sum(calls for bound, calls, _ in counts if bound <= most) for most in _BOUNDS[:-1])
    calls, micros = sum(calls for _, calls, _ in counts), sum(micros for _, _, micros in counts)
    return Counter(tool, status, calls, micros / 1000, buckets)


def _usage(db: sqlite3.Connection, chosen: str, values: list[Any], now: int, parts: int) -> UsageReport:
    """Return the report of the calls that `chosen` selects; `values` are its parameters, the start time first."""
    start = values[0] or db.execute(f"SELECT min(at) FROM {chosen}", values).fetchone()[0] or now  # noqa: S608
    width = max(1, -(-(now - start) // parts))
    plots: dict[str, list[int]] = {}
    query = f"SELECT tool, max(0, min((at-?)/?, ?)), count(*) FROM {chosen} GROUP BY 1, 2"  # noqa: S608
    for name, part, calls in db.execute(query, (start, width, parts - 1, *values)):
        plots.setdefault(name, [0] * parts)[part] = calls
    # nearest rank: a duration that was measured, not an interpolated one
    query = (
        "SELECT tool, calls, sum(outcome<>'ok'), max(iif(rank=(calls*50+99)/100, micros, 0))/1000.0, "  # noqa: S608
        "max(iif(rank=(calls*95+99)/100, micros, 0))/1000.0 FROM (SELECT tool, outcome, micros, "
        "count(*) OVER (PARTITION BY tool) AS calls, row_number() OVER (PARTITION BY tool ORDER BY micros) AS rank "
        f"FROM {chosen}) GROUP BY tool ORDER BY calls DESC, tool"
    )
    tools = [Use(name, *use, tuple(plots[name])) for name, *use in db.execute(query, values)]  # type: ignore[call-arg]
    query = f"SELECT outcome, count(*) FROM {chosen} WHERE outcome<>'ok' GROUP BY 1 ORDER BY 2 DESC, 1"  # noqa: S608
    return UsageReport(start / 1_000_000_000, now / 1_000_000_000, tools, dict(db.execute(query, values).fetchall()))


def _news(
    db: sqlite3.Connection, workspace: str, session: str, stamps: Mapping[str, Stamp | None]
) -> Iterator[tuple[str, Stamp | None]]:
    """Yield the stamps that are not stored yet: most files are read again, and checking is cheaper than writing."""
    for path, stamp in stamps.items():
        name = utf8_path(path)
        if db.execute(_STAMPED, (workspace, session, name)).fetchone() != stamp:
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
