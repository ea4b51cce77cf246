"""The page cache: pages that a session fetched a moment ago, to continue reading or revalidate them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar

from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

FRESH_SECONDS = 60.0
MAX_AGE_SECONDS = 900.0
MAX_BYTES = 32 * 1024 * 1024

MIGRATIONS = (
    """CREATE TABLE pages (
         session TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL, fresh REAL NOT NULL,
         facts TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (session, key))""",
)

T = TypeVar("T")


class PageStore(Protocol):
    """A database that is opened on first use, with MIGRATIONS in it."""

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` outside a transaction."""

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction."""

    def close(self) -> None:
        """Close the database."""


class StoredAnswer(NamedTuple):
    """The final response, and all URLs that led to it, the first and the last included."""

    hops: tuple[str, ...]
    status: int
    content_type: str
    body: bytes
    truncated: bool  # whether the body is longer
    etag: str = ""
    modified: str = ""
    cached: bool = False

    @property
    def url(self) -> str:
        """The URL of the final response."""
        return self.hops[-1]


class Cached(NamedTuple):
    """A cached response, and whether it is still fresh."""

    answer: StoredAnswer
    is_fresh: bool


class PageCache:
    """Responses of all sessions, for a few minutes. A failure of the cache only means fetching again."""

    def __init__(self, store: PageStore) -> None:
        self._store = store

    def get(self, session: str, key: str) -> Cached | None:
        """Return the response that a session stored under a key."""
        query = "SELECT fresh, facts, body FROM pages WHERE session=? AND key=? AND at>?"
        now = time.time()
        with suppress(ToolError):
            row = self._store.read(lambda db: db.execute(query, (session, key, now - MAX_AGE_SECONDS)).fetchone())
            if row is not None:
                hops, *facts = json.loads(row[1])
                status, content_type, truncated, etag, modified = facts
                answer = StoredAnswer(tuple(hops), status, content_type, row[2], truncated, etag, modified, cached=True)
                return Cached(answer, row[0] > now)
        return None

    def put(self, session: str, key: str, answer: StoredAnswer, seconds: float) -> None:
        """Store a response that stays fresh for some seconds."""
        facts = json.dumps(
            [answer.hops, answer.status, answer.content_type, answer.truncated, answer.etag, answer.modified]
        )
        now = time.time()

        def work(db: sqlite3.Connection) -> None:
            row = (session, key, now, now + seconds, facts, answer.body)
            db.execute("INSERT OR REPLACE INTO pages VALUES (?,?,?,?,?,?)", row)
            db.execute("DELETE FROM pages WHERE at<=?", (now - MAX_AGE_SECONDS,))
            size = "SELECT coalesce(sum(length(body)), 0) FROM pages"
            while db.execute(size).fetchone()[0] > MAX_BYTES:
                db.execute("DELETE FROM pages WHERE rowid=(SELECT rowid FROM pages ORDER BY at LIMIT 1)")

        with suppress(ToolError):
            self._store.write(work)

    def forget(self, session: str) -> None:
        """Delete the responses of a session."""
        with suppress(ToolError):
            self._store.write(lambda db: db.execute("DELETE FROM pages WHERE session=?", (session,)))

    def close(self) -> None:
        """Close the database."""
        self._store.close()
