"""Events of all the user's processes while `hilt serve` runs, as one numbered sequence in events.db (ADR 0037).

Every process appends its own events, and SQLite numbers them in the order of their commits. A process appends only
while a server runs, which has a mark for that. The server removes old events; numbers are never reused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from hilt.call import Json
from hilt.formats.times import rfc3339
from hilt.places import serving_folder
from hilt.state.db import Database
from hilt.state.locks import ProcessMark, living_marks
from hilt.wire import json_encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

EVENTS_MAX = 100_000
EVENT_CHARACTERS = 256 * 1024  # of one event; in a longer one, long texts are truncated

_DAY_NS = 86_400 * 1_000_000_000
_TRANSIENT_NS = 1_000_000_000  # how long transient events stay for other servers to read
_CUTS = (16_384, 2_048, 256)  # characters to keep of each long text, tried in order until the event is short enough

_MIGRATIONS = (
    # `kept` is 0 for transient events, which are removed once servers have read them; long texts come last
    """CREATE TABLE events (
         seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kept INTEGER NOT NULL, size INTEGER NOT NULL,
         type TEXT NOT NULL, key TEXT, data TEXT NOT NULL);
CREATE INDEX passing_events ON events (seq) WHERE kept=0;
CREATE INDEX events_by_key ON events (key) WHERE key IS NOT NULL""",
)

encode = json_encoder(ascii_only=True, allow_nan=True, default=str)


class EventRow(NamedTuple):
    """A stored event; `text` is the JSON sent to clients."""

    seq: int
    text: str


class NewEvent(NamedTuple):
    """An event to append; one that is not `kept` is transient, and removed once servers have read it.

    Only the first event with a given key is stored: several servers may observe the same change.
    """

    type: str
    fields: Mapping[str, Json]
    kept: bool = True
    key: str | None = None


class EventStore:
    """The events of all workspaces of a user. Safe to use from many threads and processes."""

    def __init__(self, directory: str) -> None:
        self._db = Database(os.path.join(directory, "events.db"), _MIGRATIONS, durable=False)

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        self._db.close()

    def append(self, event: NewEvent, data: str | None = None) -> None:
        """Append an event; `data` are its fields as JSON, if the caller has encoded them."""
        data = _shortened(event.fields, data or encode(event.fields))
        row = (time.time_ns(), int(event.kept), len(data) + 64, event.type, event.key, data, event.key)
        self._db.read(lambda db: db.execute(_INSERT, row))  # an implicit transaction

    def last(self) -> int:
        """Return the number of the newest event, 0 if there was none; it may have been removed since."""
        query = "SELECT seq FROM sqlite_sequence WHERE name='events'"
        row = self._db.read(lambda db: db.execute(query).fetchone())
        return 0 if row is None else int(row[0])

    def after(self, seq: int, limit: int) -> list[EventRow]:
        """Return the oldest events after number `seq`."""
        query = "SELECT seq, at, type, data FROM events WHERE seq>? ORDER BY seq LIMIT ?"
        rows = self._db.read(lambda db: db.execute(query, (seq, limit)).fetchall())
        return [EventRow(seq, _text(seq, at, type, data)) for seq, at, type, data in rows]

    def of_type(self, type: str, after: int, last: int) -> list[tuple[int, str]]:
        """Return the time and JSON fields of the events of a type with after < number <= last, oldest first."""
        query = "SELECT at, data FROM events WHERE seq>? AND seq<=? AND type=? ORDER BY seq"
        return self._db.read(lambda db: db.execute(query, (after, last, type)).fetchall())

    def has_key(self, key: str) -> bool:
        """Whether there is an event with this key."""
        query = "SELECT 1 FROM events WHERE key=?"
        return self._db.read(lambda db: db.execute(query, (key,)).fetchone()) is not None

    def version(self) -> int:
        """Return a number that changes when another connection has written."""
        return int(self._db.read(lambda db: db.execute("PRAGMA data_version").fetchone())[0])

    def forget(self, seq: int) -> None:
        """Remove transient events up to number `seq`, except recent ones, which other servers may not have read yet."""
        query, limit = "DELETE FROM events WHERE kept=0 AND seq<=? AND at<?", time.time_ns() - _TRANSIENT_NS
        self._db.read(lambda db: db.execute(query, (seq, limit)))

    def prune(self, *, days: int, megabytes: int, most: int = EVENTS_MAX) -> int:
        """Remove events that are too old or too many; return how many were removed."""
        oldest, max_bytes = time.time_ns() - days * _DAY_NS, megabytes * 1024 * 1024

        def work(db: sqlite3.Connection) -> int:
            first = 0
            room = max_bytes
            # the newest first, until the limits are reached
            rows = db.execute("SELECT seq, at, size FROM events ORDER BY seq DESC LIMIT ?", (most + 1,))
            for count, (seq, at, size) in enumerate(rows, 1):
                room -= size
                if count > most or room < 0 or at < oldest:
                    first = seq
                    break
            return db.execute("DELETE FROM events WHERE seq<=?", (first,)).rowcount if first else 0

        return self._db.write(work)

    def shrink(self) -> None:
        """Return the space of removed events to the file system."""
        self._db.shrink()


_INSERT = (
    "INSERT INTO events (at, kept, size, type, key, data) SELECT ?,?,?,?,?,? "
    "WHERE NOT EXISTS (SELECT 1 FROM events WHERE key=?)"
)


def _shortened(fields: Mapping[str, Json], data: str) -> str:
    """Return the fields as JSON; long texts are truncated if it is too long."""
    for characters in _CUTS:
        if len(data) <= EVENT_CHARACTERS:
            return data
        data = encode({**_cut(fields, characters), "cut": True})
    if len(data) <= EVENT_CHARACTERS:
        return data
    # many short values: keep only the scalar fields
    scalars = {name: value for name, value in fields.items() if not isinstance(value, dict | list)}
    return encode({**_cut(scalars, _CUTS[-1]), "cut": True})


def _cut(value: Json, characters: int) -> Json:
    if isinstance(value, str):
        excess = len(value) - characters
        return value if excess <= 0 else f"{value[:characters]}… [{excess} more characters]"
    if isinstance(value, Mapping):
        return {key: _cut(inner, characters) for key, inner in value.items()}
    return [_cut(inner, characters) for inner in value] if isinstance(value, list | tuple) else value


def _text(seq: int, at: int, type: str, data: str) -> str:
    head = f'{{"seq":{seq},"type":"{type}","time":"{rfc3339(at)}"'
    return f"{head},{data[1:]}" if data != "{}" else head + "}"


# --- whether a server is running --------------------------------------------------------------------------------------


def is_served(state: str) -> bool:
    """Whether a `hilt serve` of this state directory is running."""
    return bool(living_marks(serving_folder(state)))


def mark_serving(state: str) -> ProcessMark:
    """Mark that a server is running, until the mark is closed or this process ends."""
    return ProcessMark(serving_folder(state), os.urandom(8).hex())
