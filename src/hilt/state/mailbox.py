"""The messages between the agents of a workspace: each is delivered once, even if its reader is killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.state.agent_database import AgentDatabase, Transaction

MESSAGE_BYTES = 102_400
QUEUE_MAX = 1_000
PAIR_MAX = 10
PAIR_SECONDS = 60
MESSAGE_DAYS = 30  # how long messages to unknown agents are kept

_SECOND = 1_000_000_000


class AgentMessage(NamedTuple):
    """A message between agents; the time in nanoseconds since 1970."""

    number: int
    sender: str
    text: str
    at: int


class Mail(NamedTuple):
    """Messages of an agent, oldest first, and how many remain."""

    messages: list[AgentMessage]
    left: int


class Mailbox:
    """The messages of one workspace."""

    def __init__(
        self,
        database: AgentDatabase,
        workspace: str,
        *,
        check: Callable[[Transaction, str], None],
        wake: Callable[[Transaction, str], bool],
    ) -> None:
        """`check` raises if an agent has ended; `wake` queues an idle one, and returns whether it was idle."""
        self._db = database
        self._workspace = workspace
        self._check = check
        self._wake = wake

    def send(self, sender: str, target: str, text: str, commit: Callable[[], None]) -> bool:
        """Store a message, or raise limit_exceeded; return whether it woke an agent. `commit` may raise."""
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MESSAGE_BYTES:
            raise ToolError(
                "limit_exceeded",
                f"The message has {size:,} bytes; the limit is {MESSAGE_BYTES:,}.",
                suggestion="Write it to a file, and send the path.",
                limit=MESSAGE_BYTES,
            )

        def work(db: Transaction) -> bool:
            now = self._db.now(db)
            workspace = self._workspace
            self._check(db, target)
            self._prune(db, now)
            recent = now - PAIR_SECONDS * _SECOND
            db.execute("DELETE FROM agent_sends WHERE workspace=? AND (at<=? OR at>?)", (workspace, recent, now))
            pair = "SELECT count(*), min(at) FROM agent_sends WHERE workspace=? AND sender=? AND target=?"
            sent, first = db.execute(pair, (workspace, sender, target)).fetchone()
            if sent >= PAIR_MAX:
                wait = (first + PAIR_SECONDS * _SECOND - now) // _SECOND + 1
                raise ToolError(
                    "limit_exceeded",
                    f"{sender} has sent {sent} messages to {target} within {PAIR_SECONDS} s, which is the limit.",
                    suggestion=f"Wait {wait} s, or combine several messages into one.",
                    limit=PAIR_MAX,
                )
            unread = self.unread(db, target)
            if unread >= QUEUE_MAX:
                raise ToolError(
                    "limit_exceeded",
                    f"{target} has {unread:,} unread messages, which is the limit.",
                    suggestion="Wait until it has read some.",
                    limit=QUEUE_MAX,
                )
            db.execute("INSERT INTO agent_sends VALUES (?,?,?,?)", (workspace, sender, target, now))
            db.execute(
                "INSERT INTO agent_messages (workspace, sender, target, at, text) VALUES (?,?,?,?,?)",
                (workspace, sender, target, now, text),
            )
            wakes = self._wake(db, target)
            commit()
            return wakes

        return self._db.write(work)

    def receive(self, agent: str, limit: int, commit: Callable[[], None] = lambda: None, *, reader: str = "") -> Mail:
        """Return the oldest messages of an agent, and remove them. `commit` may raise.

        With a reader, which is an owner, they are removed when it receives again, finishes the agent, or is released;
        if it dies before that, they are returned again.
        """
        if not self._db.exists() or not self._db.read(lambda db: self._has_messages(db, agent)):
            return Mail([], 0)  # without a transaction: callers poll this

        def work(db: Transaction) -> Mail:
            self.restore(db)
            if reader:
                self.confirm(db, reader, agent)
            messages = self._messages(db, agent, limit)
            if messages and reader:
                mark = "UPDATE agent_messages SET reader=? WHERE workspace=? AND target=? AND number<=? AND reader=''"
                db.execute(mark, (reader, self._workspace, agent, messages[-1].number))
            elif messages:
                self._drop(db, agent, messages[-1].number)
            if messages:
                commit()
            return Mail(messages, self.unread(db, agent))

        return self._db.write(work)

    def peek(self, agent: str, limit: int) -> Sequence[AgentMessage]:
        """Return the oldest messages of an agent without removing them."""
        return self._db.read(lambda db: self._messages(db, agent, limit)) if self._db.exists() else []

    def drop(self, agent: str, number: int) -> None:
        """Remove the messages of an agent up to a number."""
        self._db.write(lambda db: self._drop(db, agent, number))

    # --- inside a transaction -----------------------------------------------------------------------------------------

    def unread(self, db: Transaction, agent: str) -> int:
        """Return how many messages an agent has not received."""
        query = "SELECT count(*) FROM agent_messages WHERE workspace=? AND target=? AND reader=''"
        return int(db.execute(query, (self._workspace, agent)).fetchone()[0])

    def _messages(self, db: Transaction, agent: str, limit: int) -> list[AgentMessage]:
        query = (
            "SELECT number, sender, text, at FROM agent_messages WHERE workspace=? AND target=? AND reader='' "
            "ORDER BY number LIMIT ?"
        )
        return [AgentMessage(*row) for row in db.execute(query, (self._workspace, agent, limit))]

    def remove(self, db: Transaction, agent: str) -> None:
        """Remove all messages of an agent."""
        db.execute("DELETE FROM agent_messages WHERE workspace=? AND target=?", (self._workspace, agent))

    def _has_messages(self, db: Transaction, agent: str) -> bool:
        query = "SELECT 1 FROM agent_messages WHERE workspace=? AND target=? LIMIT 1"
        return db.execute(query, (self._workspace, agent)).fetchone() is not None

    def confirm(self, db: Transaction, reader: str, agent: str | None = None) -> None:
        """Remove the messages that a reader has received, of one agent or all."""
        query = "DELETE FROM agent_messages WHERE workspace=? AND reader=? AND target=coalesce(?, target)"
        db.execute(query, (self._workspace, reader, agent))

    def restore(self, db: Transaction) -> None:
        """Make messages unread again whose reader died before it confirmed them."""
        readers = "SELECT DISTINCT reader FROM agent_messages WHERE workspace=? AND reader<>''"
        for (reader,) in db.execute(readers, (self._workspace,)).fetchall():
            if not self._db.is_alive(db, reader):
                unread = "UPDATE agent_messages SET reader='' WHERE workspace=? AND reader=?"
                db.execute(unread, (self._workspace, reader))

    def _prune(self, db: Transaction, now: int) -> None:
        """Remove old messages to unknown agents: they may never be read."""
        query = (
            "DELETE FROM agent_messages WHERE workspace=? AND at<? AND target NOT IN "
            "(SELECT id FROM agents WHERE workspace=?)"
        )
        db.execute(query, (self._workspace, now - MESSAGE_DAYS * 86_400 * _SECOND, self._workspace))

    def _drop(self, db: Transaction, agent: str, number: int) -> None:
        query = "DELETE FROM agent_messages WHERE workspace=? AND target=? AND number<=?"
        db.execute(query, (self._workspace, agent, number))
