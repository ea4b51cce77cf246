"""The database of agents: its interface, and the implementation in state.db."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from hilt.state.locks import read_mark
from hilt.state.tables import open_state

T = TypeVar("T")

_OWNER = re.compile(r"\w[\w.-]{0,200}", re.ASCII)


class Rows(Protocol):
    """The rows of a query."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Transaction(Protocol):
    """An open transaction; queries use question marks as placeholders."""

    def execute(self, query: str, values: Sequence[Any] = ..., /) -> Rows:
        """Run one statement."""


class AgentDatabase(Protocol):
    """A database with the tables of agents. Safe to use from many threads and processes."""

    is_shared: bool  # whether other machines use it too

    def exists(self) -> bool:
        """Whether it was ever used; does not create it."""

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which only reads."""

    def write(self, work: Callable[[Transaction], T], lock: str = "") -> T:
        """Run `work` in one transaction; other writers of the workspace, or of `lock` if given, wait."""

    def now(self, db: Transaction) -> int:
        """Return the time of the database's clock, in nanoseconds since 1970."""

    def is_alive(self, db: Transaction, owner: str) -> bool:
        """Whether the process of this owner is running."""

    def separate(self) -> AgentDatabase:
        """Return the same database with separate connections."""

    def close(self) -> None:
        """Close it; the next use opens it again."""


class LocalAgentDatabase:
    """The agents in state.db; an owner is alive while it holds its lock."""

    is_shared = False

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._db = open_state(directory)
        self.exists = self._db.exists
        self.close = self._db.close

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which only reads."""
        return self._db.read(work)

    def write(self, work: Callable[[Transaction], T], lock: str = "") -> T:
        """Run `work` in one transaction; other writers wait."""
        return self._db.write(work)

    def separate(self) -> LocalAgentDatabase:
        """Return the same database with a separate connection."""
        return LocalAgentDatabase(self._directory)

    def now(self, db: Transaction) -> int:
        """Return the time of this machine."""
        return time.time_ns()

    def is_alive(self, db: Transaction, owner: str) -> bool:
        """Whether the process of this owner is running."""
        return holds_lock(self._directory, owner)


def owners_folder(directory: str) -> str:
    """Return the folder of the owners' lock files."""
    return os.path.join(directory, "owners")


def holds_lock(directory: str, owner: str) -> bool:
    """Whether the owner is a live process of this machine; removes the lock file of a dead one."""
    # others can write to a shared database: the name must not lead to another file
    return _OWNER.fullmatch(owner) is not None and read_mark(owners_folder(directory), owner) is not None
