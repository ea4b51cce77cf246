"""PostgreSQL as the database of agents that several machines share."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
import sqlalchemy

from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.state.agent_database import Rows, Transaction
from hilt.state.tables import AGENT_TABLES

T = TypeVar("T")

SCHEMA = "hilt"
POOL_SIZE, SPARE = 30, 10  # connections of a process that stay open, and further ones that are closed after use
PATIENCE_SECONDS = 180.0  # for a database that is unreachable
CONNECT_SECONDS = 5
IDLE_SECONDS = 5  # within a transaction

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_SETUP_LOCK = 0x68696C74  # "hilt"
# the tables are written for SQLite
_TRANSLATED = (
    ("INTEGER PRIMARY KEY AUTOINCREMENT", "BIGSERIAL PRIMARY KEY"),
    (" INTEGER", " BIGINT"),
    (" WITHOUT ROWID", ""),
)


def open_engine(url: str) -> sqlalchemy.Engine:
    """Return a pool of connections, which are opened when needed."""
    address = sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")
    return sqlalchemy.create_engine(
        address,
        pool_size=POOL_SIZE,
        max_overflow=SPARE,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "hilt",
            # a process that hangs, or a machine that is offline, must not keep its locks
            "options": f"-c idle_in_transaction_session_timeout={IDLE_SECONDS}s",
        },
    )


class PostgresDatabase:
    """The agents of one workspace in PostgreSQL; implements AgentDatabase.

    Writers of one workspace wait for each other, as in SQLite. Every time is the database's, so the clocks of machines
    may differ. While the database is unreachable, calls wait for it.
    """

    is_shared = True

    def __init__(self, url: str, workspace: str) -> None:
        self.url = url
        self._workspace = workspace
        self._opening = threading.Lock()
        self._engine: sqlalchemy.Engine | None = None

    @property
    def engine(self) -> sqlalchemy.Engine:
        """The pool of connections."""
        with self._opening:
            if self._engine is None:
                engine = open_engine(self.url)
                self._retry(lambda: _set_up(engine))
                self._engine = engine
            return self._engine

    def exists(self) -> bool:
        """Return True: the first use creates the tables."""
        return True

    def separate(self) -> PostgresDatabase:
        """Return the same database with its own connections."""
        return PostgresDatabase(self.url, self._workspace)

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        with self._opening:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which only reads."""
        return self._run(work, None)

    def write(self, work: Callable[[Transaction], T], lock: str = "") -> T:
        """Run `work` in one transaction that no other writer of the workspace, or of `lock`, can interleave."""
        name = lock or f"workspace {self._workspace}"
        return self._run(work, int.from_bytes(sha256(name.encode())[:8], "big", signed=True))

    def now(self, db: Transaction) -> int:
        """Return the time of the database's clock."""
        (now,) = db.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000").fetchone()
        return int(now)

    def is_alive(self, db: Transaction, owner: str) -> bool:
        """Whether the lease of this owner has not expired."""
        query = "SELECT lease > extract(epoch FROM clock_timestamp()) * 1000000000 FROM agent_owners WHERE name=?"
        row = db.execute(query, (owner,)).fetchone()
        return row is not None and row[0] is not False

    def _run(self, work: Callable[[Transaction], T], lock: int | None) -> T:
        engine = self.engine
        return self._retry(lambda: _transact(engine, work, lock, lambda: self._engine is engine))

    def _retry(self, work: Callable[[], T]) -> T:
        """Retry work while the database is unreachable."""
        deadline, pause = time.monotonic() + PATIENCE_SECONDS, _FIRST_PAUSE
        while True:
            try:
                return work()
            except (sqlalchemy.exc.OperationalError, sqlalchemy.exc.TimeoutError, psycopg.OperationalError) as error:
                if time.monotonic() > deadline:
                    reason = " ".join(str(error.__cause__ or error).split())[:300]
                    raise ToolError(
                        "busy",
                        f"The agents' database was unreachable for {PATIENCE_SECONDS:.0f} s: {reason}",
                        suggestion="Check agents.database and the server.",
                    ) from error
            time.sleep(pause * (0.5 + random.random() / 2))  # noqa: S311
            pause = min(pause * 2, _LONGEST_PAUSE)


class _Connection:
    """A connection as the tables of agents use it."""

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._cursor = cursor

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Rows:
        """Run one statement with the values in place of question marks."""
        # PostgreSQL's text can hold neither a zero byte nor a lone surrogate
        texts = (_storable(value) if isinstance(value, str) else value for value in values)
        return self._cursor.execute(query.replace("?", "%s").encode(), tuple(texts) or None)


def _storable(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _transact(
    engine: sqlalchemy.Engine, work: Callable[[Transaction], T], lock: int | None, is_open: Callable[[], bool]
) -> T:
    pooled = engine.connect()
    try:
        connection = pooled.connection.driver_connection
        assert isinstance(connection, psycopg.Connection)  # noqa: S101
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL search_path = {SCHEMA}".encode())
            if lock is not None:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
            value = work(_Connection(cursor))
        try:
            connection.commit()
        except psycopg.OperationalError as error:
            raise ToolError(
                "outcome_unknown", "The connection to the agents' database was lost while saving a change."
            ) from error
        return value
    finally:
        if not is_open():
            pooled.invalidate()  # the pool was closed meanwhile, and no longer closes it
        pooled.close()  # rolls back what was not committed


def _set_up(engine: sqlalchemy.Engine) -> None:
    """Create the schema and the tables that are missing."""
    with engine.begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_SETUP_LOCK})")
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.exec_driver_sql(f"SET LOCAL search_path = {SCHEMA}")
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY)")
        (version,) = connection.exec_driver_sql("SELECT coalesce(max(number), 0) FROM migrations").one()
        for number, script in enumerate(AGENT_TABLES[version:], start=version + 1):
            for before, after in _TRANSLATED:
                script = script.replace(before, after)
            for statement in script.split(";\n"):
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql("INSERT INTO migrations VALUES (%s)", (number,))
