"""The agents of a workspace, in state.db or a database that several machines share.

Every change is one transaction, so that limits hold however many processes start agents and send messages at once.
An agent is run by one process at a time, its owner, which holds a lock while it lives: the kernel releases it when the
process is killed. The agents of a dead owner are queued again, or fail if no process can continue them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from hilt.call import AGENT
from hilt.errors import ToolError
from hilt.state import agent_runs
from hilt.state.agent_database import AgentDatabase, LocalAgentDatabase, Transaction
from hilt.state.mailbox import Mailbox

Kind = Literal["call", "background", "spawned"]  # a call ends with its caller, the others outlive it
AgentStatus = Literal["queued", "running", "completed", "failed", "cancelled"]

EXIT_CODES: dict[str, int] = {"completed": 0, "failed": 1, "cancelled": 130}  # of agents that have answered or ended

ENDED_MAX = 1_000  # ended agents that are kept
# processes killed in a row at the same step before an agent is stopped: if the last one ran only this agent, or others
KILLS_ALONE_MAX = 3
KILLS_MAX = 5
MACHINE_SECONDS = 3600  # how long an agent waits for the machine with its worktree

_REMOVED_MAX = 100  # ended agents removed at once
_CANDIDATES_MAX = 20  # queued agents to choose from
_SECOND = 1_000_000_000
_QUEUED = "SELECT count(*) FROM agents WHERE workspace=? AND ended IS NULL AND status='queued'"


class AgentProfile(NamedTuple):
    """What an agent may do, within the limits of its parent; fixed when it is created."""

    tools: tuple[str, ...]  # canonical names
    mode: str
    model: str = ""  # "" for the model in the settings
    role: str = ""  # its system prompt; "" for the default
    turns: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    worktree: bool = False  # whether it has its own git worktree; the agents below it work there too


_INVALID = AgentProfile((), "plan")  # for a record that cannot be parsed


class NewAgent(NamedTuple):
    """An agent to create; `caller` is the session that requested it, `parent` is the caller or an agent below it."""

    parent: str
    caller: str
    kind: Kind
    name: str
    title: str
    prompt: str
    settings: str  # JSON; a process must have the same ones to run it
    profile: AgentProfile
    anywhere: bool = False  # whether workers of other workspaces may run it
    machine: str = ""  # the name of this machine
    call: str = ""  # the call that starts it


class AgentRecord(NamedTuple):
    """A stored agent; times in nanoseconds since 1970. It counts towards limits until it has ended."""

    id: str
    parent: str
    caller: str
    depth: int
    kind: Kind
    name: str
    title: str
    status: AgentStatus
    owner: str
    answers: int
    input_tokens: int
    output_tokens: int
    created: int
    changed: int
    ended: int | None
    error_code: str
    settings: str
    profile: AgentProfile
    prompt: str
    answer: str  # the last message, or why it failed
    machine: str = ""  # the only machine that can run it, because its worktree is there
    call: str = ""  # that started it

    @property
    def is_idle(self) -> bool:
        """Whether it has answered and waits for messages."""
        return self.status == "completed" and self.ended is None


_COLUMNS = ", ".join(AgentRecord._fields)


class AgentLimits(NamedTuple):
    """The limits on new agents, and how long an idle one is kept."""

    depth: int
    children: int
    idle_seconds: float
    queued: int = 10_000


class AgentOutcome(NamedTuple):
    """How one run of an agent ended, and the tokens it used."""

    status: AgentStatus
    answer: str
    error_code: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class Roster:
    """The agents of one workspace. Safe to use from many threads and processes."""

    def __init__(self, directory: str, workspace: str, database: AgentDatabase | None = None) -> None:
        """Open the agents of a workspace, by default in state.db of this directory."""
        self.database = self._db = database or LocalAgentDatabase(directory)
        self.close = self._db.close
        self.runs = agent_runs.AgentRuns(self.database, workspace)
        self._workspace = workspace
        self.mail = Mailbox(self.database, workspace, check=self._check_living, wake=self._wake)

    # --- agents -----------------------------------------------------------------------------------------------------

    def create(self, new: NewAgent, limits: AgentLimits, *, owner: str = "") -> AgentRecord:
        """Add an agent, running if it has an owner, else queued; raise limit_exceeded if there are too many."""

        def work(db: Transaction) -> AgentRecord:
            now = self._db.now(db)
            self._settle(db, limits.idle_seconds, now)
            parent = self._get(db, new.parent)
            if parent is not None and parent.status == "cancelled":
                raise ToolError("cancelled", f"The agent {parent.id} was cancelled.")
            depth = 1 if parent is None else parent.depth + 1
            if depth > limits.depth:
                raise ToolError(
                    "limit_exceeded",
                    f"{new.parent} is at depth {depth - 1}; the limit is {limits.depth}.",
                    suggestion="Do the work yourself, or let an agent higher up start the agent.",
                    limit=limits.depth,
                )
            # counted by caller too: an agent must not exceed the limit by creating agents below its children
            count = "SELECT count(*) FROM agents WHERE workspace=? AND ended IS NULL AND {}=?"
            for column, session in (("parent", new.parent), ("caller", new.caller)):
                (living,) = db.execute(count.format(column), (self._workspace, session)).fetchone()
                if living >= limits.children:
                    raise ToolError(
                        "limit_exceeded",
                        f"{session} has {living} agents that have not ended; the limit is {limits.children}.",
                        suggestion="Wait until one ends, or cancel one.",
                        limit=limits.children,
                    )
            (queued,) = db.execute(_QUEUED, (self._workspace,)).fetchone()
            if queued >= limits.queued and not owner:
                raise ToolError(
                    "limit_exceeded",
                    f"{queued:,} agents of this workspace are queued, which is the limit.",
                    suggestion="Wait until some have run, or start another worker.",
                    limit=limits.queued,
                )
            id = AGENT + os.urandom(6).hex()
            machine = "" if parent is None else parent.machine
            row = (
                *(self._workspace, id, new.parent, new.caller, depth, new.kind, new.name, new.title),
                *("running" if owner else "queued", owner, 0, 0, 0, now, now, None, ""),
                *(new.settings, json.dumps(new.profile), new.prompt, ""),
                *(machine or (new.machine if owner and new.profile.worktree else ""), new.call),
                int(new.anywhere),
            )
            placeholders = ",".join("?" * len(row))
            db.execute(f"INSERT INTO agents (workspace, {_COLUMNS}, anywhere) VALUES ({placeholders})", row)  # noqa: S608
            self._remove_oldest(db)
            agent = self._get(db, id)
            assert agent is not None  # noqa: S101
            return agent

        return self._db.write(work)

    def get(self, id: str) -> AgentRecord | None:
        """Return an agent, or None."""
        return self._db.read(lambda db: self._get(db, id)) if self._db.exists() else None

    def newest(self, limit: int) -> Sequence[AgentRecord]:
        """Return the newest agents, newest first."""
        if not self._db.exists():
            return []
        query = f"SELECT {_COLUMNS} FROM agents WHERE workspace=? ORDER BY created DESC, id LIMIT ?"  # noqa: S608
        return [
            _record(row) for row in self._db.read(lambda db: db.execute(query, (self._workspace, limit)).fetchall())
        ]

    def chain(self, id: str) -> Sequence[str]:
        """Return an id, its parent, the parent of that, and so on."""
        ids = [id]
        while (agent := self.get(ids[-1])) is not None and agent.parent not in ids:
            ids.append(agent.parent)
        return ids

    def below(self, id: str) -> Sequence[str]:
        """Return an id, the agents that it started, those that they started, and so on, ended ones included."""

        def work(db: Transaction) -> list[str]:
            ids = [id]
            for parent in ids:  # which grows
                rows = db.execute(query, (self._workspace, parent)).fetchall()
                ids += [id for (id,) in rows if id not in ids]
            return ids

        query = "SELECT id FROM agents WHERE workspace=? AND parent=? ORDER BY created, id"
        return self._db.read(work) if self._db.exists() else [id]

    def claim(self, settings: str, owner: str, machine: str = "", *, anywhere: bool = False) -> AgentRecord | None:
        """Make this process the owner of the oldest queued agent with these settings, fairly between callers.

        An agent with a worktree stays on the machine that has it. With `anywhere`, only agents that any worker may run.
        """
        if not self._db.exists():
            return None
        # callers with fewer running agents first
        query = (
            "SELECT id FROM agents LEFT JOIN (SELECT caller AS busy, count(*) AS running FROM agents "
            "WHERE workspace=? AND ended IS NULL AND status='running' GROUP BY caller) AS callers ON busy=caller "
            "WHERE workspace=? AND ended IS NULL AND status='queued' AND settings=? AND anywhere>=? "
            "AND (machine='' OR machine=? OR changed<?) ORDER BY coalesce(running, 0), changed LIMIT ?"
        )

        def work(db: Transaction) -> AgentRecord | None:
            waiting_since = self._db.now(db) - MACHINE_SECONDS * _SECOND
            values = (
                self._workspace,
                self._workspace,
                settings,
                int(anywhere),
                machine,
                waiting_since,
                _CANDIDATES_MAX,
            )
            for (id,) in db.execute(query, values).fetchall():
                if self._is_suspect(db, id) and any(self._is_suspect(db, other) for other in self._owned(db, owner)):
                    continue  # run only one suspect at a time, to know which one kills the process
                agent = self._get(db, id)
                assert agent is not None  # noqa: S101
                if agent.profile is _INVALID:
                    invalid = "Its record in the database is invalid."
                    self._update(db, id, status="failed", ended=self._db.now(db), error_code="internal", answer=invalid)
                    continue
                binds = agent.profile.worktree and not agent.machine
                self._update(db, id, status="running", owner=owner, machine=machine if binds else agent.machine)
                return self._get(db, id)
            return None

        return self._db.write(work)

    def owned(self, owner: str) -> Sequence[str]:
        """Return the agents of an owner that have not ended."""
        return self._db.read(lambda db: self._owned(db, owner))

    def requeue(self, id: str, owner: str) -> None:
        """Queue an agent that its owner claimed but does not run."""

        def work(db: Transaction) -> None:
            agent = self._get(db, id)
            if agent is not None and agent.owner == owner and agent.ended is None:
                self._requeue_or_end(db, id, agent.kind, "failed", self._db.now(db))

        self._db.write(work)

    def queued_settings(self) -> Sequence[str]:
        """Return the settings that queued agents must run with."""
        query = "SELECT DISTINCT settings FROM agents WHERE workspace=? AND ended IS NULL AND status='queued'"
        return [settings for (settings,) in self._db.read(lambda db: db.execute(query, (self._workspace,)).fetchall())]

    def queued_elsewhere(self) -> Sequence[tuple[str, str]]:
        """Return other workspaces, with settings, that have agents which any worker may run and none is running."""
        query = (
            "SELECT DISTINCT workspace, settings, owner FROM agents "
            "WHERE ended IS NULL AND anywhere=1 AND status IN ('queued', 'running') AND workspace<>?"
        )

        def work(db: Transaction) -> list[tuple[str, str]]:
            rows = db.execute(query, (self._workspace,)).fetchall()
            idle = [row[:2] for row in rows if not row[2] or not self._db.is_alive(db, row[2])]
            return list(dict.fromkeys(map(tuple, idle)))

        return self._db.read(work)

    def release(self, owner: str) -> None:
        """Queue the agents of an owner that stops; cancel those that end with their caller."""

        def work(db: Transaction) -> None:
            self._abandon(db, owner, "cancelled", self._db.now(db))
            self.mail.confirm(db, owner)

        self._db.write(work)

    def finish(self, id: str, owner: str, outcome: AgentOutcome) -> AgentRecord | None:
        """Record how a run ended; with unread messages, the agent is queued again. None if it was cancelled."""

        def work(db: Transaction) -> AgentRecord | None:
            agent = self._get(db, id)
            if agent is None or agent.owner != owner:
                return None
            self.runs.end(db, id, outcome.status)
            self.mail.confirm(db, owner, id)
            if agent.ended is not None:
                self._update(db, id, owner="")
                return None
            status: AgentStatus = outcome.status
            ended = None if agent.kind == "spawned" and status == "completed" else self._db.now(db)
            if ended is None and self.mail.unread(db, id):
                status = "queued"
            self._update(
                db,
                id,
                status=status,
                owner="",
                ended=ended,
                answers=agent.answers + 1,
                answer=outcome.answer,
                error_code=outcome.error_code,
                input_tokens=agent.input_tokens + outcome.input_tokens,
                output_tokens=agent.output_tokens + outcome.output_tokens,
            )
            if ended is not None:
                self._cancel_below(db, id)
            return self._get(db, id)

        return self._db.write(work)

    def cancel(self, id: str, *, itself: bool = True) -> Sequence[str]:
        """Cancel all agents below a session and, with `itself`, the agent with this id; return those cancelled.

        A cancelled agent keeps its owner until that process has stopped it.
        """
        if not self._db.exists():
            return []

        def work(db: Transaction) -> list[str]:
            agent = self._get(db, id)
            cancelled = self._cancel_below(db, id)
            if itself and agent is not None and agent.ended is None:
                self._update(db, id, status="cancelled", ended=self._db.now(db))
                cancelled.append(id)
            return cancelled

        return self._db.write(work)

    def sweep(self, idle_seconds: float) -> int:
        """Requeue or end the agents of dead owners, end those idle too long, and return how many are queued."""
        if not self._db.exists():
            return 0

        def work(db: Transaction) -> int:
            self._settle(db, idle_seconds, self._db.now(db))
            return int(db.execute(_QUEUED, (self._workspace,)).fetchone()[0])

        return self._db.write(work)

    # --- inside a transaction -----------------------------------------------------------------------------------------

    def _get(self, db: Transaction, id: str) -> AgentRecord | None:
        query = f"SELECT {_COLUMNS} FROM agents WHERE workspace=? AND id=?"  # noqa: S608  # constants only
        row = db.execute(query, (self._workspace, id)).fetchone()
        return None if row is None else _record(row)

    def _check_living(self, db: Transaction, id: str) -> None:
        """Raise if an agent has ended."""
        agent = self._get(db, id)
        if agent is not None and agent.ended is not None:
            raise ToolError("not_found", f"The agent {id} has ended: {agent.status}.")

    def _wake(self, db: Transaction, id: str) -> bool:
        """Queue an agent if it is idle, and return whether it was."""
        agent = self._get(db, id)
        if agent is None or not agent.is_idle:
            return False
        self._update(db, id, status="queued")
        return True

    def _update(self, db: Transaction, id: str, **values: object) -> None:
        names = ", ".join(f"{name}=?" for name in values)
        query = f"UPDATE agents SET {names}, changed=? WHERE workspace=? AND id=?"  # noqa: S608  # names of columns
        db.execute(query, (*values.values(), self._db.now(db), self._workspace, id))

    def _settle(self, db: Transaction, idle_seconds: float, now: int) -> None:
        """Requeue or end the agents of dead owners, and end those that have been idle too long."""
        owners = "SELECT DISTINCT owner FROM agents WHERE workspace=? AND ended IS NULL AND owner<>''"
        for (owner,) in db.execute(owners, (self._workspace,)).fetchall():
            if not self._db.is_alive(db, owner):
                self._abandon(db, owner, "failed", now)
        self.mail.restore(db)
        idle = "SELECT id FROM agents WHERE workspace=? AND ended IS NULL AND status='completed' AND changed<?"
        for (id,) in db.execute(idle, (self._workspace, now - int(idle_seconds * _SECOND))).fetchall():
            self._update(db, id, ended=now)
            self._cancel_below(db, id)

    def is_alive(self, owner: str) -> bool:
        """Whether the process of this owner is running."""
        return self._db.read(lambda db: self._db.is_alive(db, owner))

    def _abandon(self, db: Transaction, owner: str, status: AgentStatus, now: int) -> None:
        """Queue the agents of an owner that is gone; calls, which cannot outlive their caller, end as `status`."""
        query = "SELECT id, kind FROM agents WHERE workspace=? AND ended IS NULL AND owner=?"
        owned = db.execute(query, (self._workspace, owner)).fetchall()
        limit = KILLS_ALONE_MAX if len(owned) == 1 else KILLS_MAX
        for id, kind in owned:
            kills = self.runs.lose(db, id) if status == "failed" and kind != "call" else 0
            if kills < limit:
                self._requeue_or_end(db, id, kind, status, now)
                continue
            answer = f"The process that ran this agent was killed {kills} times at the same step."
            self._update(db, id, status=status, owner="", ended=now, error_code="resource_limit", answer=answer)
            self._cancel_below(db, id)
        clear_owner = "UPDATE agents SET owner='' WHERE workspace=? AND owner=?"
        db.execute(clear_owner, (self._workspace, owner))

    def _requeue_or_end(self, db: Transaction, id: str, kind: Kind, status: AgentStatus, now: int) -> None:
        """Queue an agent that its owner does not run; a call, which cannot outlive its caller, ends as `status`."""
        if kind == "call":
            self._update(db, id, status=status, owner="", ended=now, error_code="cancelled")
            self._cancel_below(db, id)
        else:
            self.runs.end(db, id, "released")  # unless it was lost
            self._update(db, id, status="queued", owner="")

    def _owned(self, db: Transaction, owner: str) -> list[str]:
        query = "SELECT id FROM agents WHERE workspace=? AND owner=? AND ended IS NULL"
        return [id for (id,) in db.execute(query, (self._workspace, owner)).fetchall()]

    def _is_suspect(self, db: Transaction, id: str) -> bool:
        """Whether one more kill at the same step would stop an agent."""
        return self.runs.kills(db, id) >= KILLS_MAX - 1

    def _cancel_below(self, db: Transaction, id: str) -> list[str]:
        cancelled: list[str] = []
        parents = [id]
        query = "SELECT id FROM agents WHERE workspace=? AND parent=? AND ended IS NULL"
        for parent in parents:
            for (child,) in db.execute(query, (self._workspace, parent)).fetchall():
                self._update(db, child, status="cancelled", ended=self._db.now(db))
                parents.append(child)
                cancelled.append(child)
        return cancelled

    def _remove_oldest(self, db: Transaction) -> None:
        """Remove the oldest ended agents beyond ENDED_MAX, and their messages."""
        query = (
            "SELECT id FROM agents AS old WHERE workspace=? AND ended IS NOT NULL AND NOT EXISTS "
            "(SELECT 1 FROM agents AS child WHERE child.workspace=old.workspace AND child.parent=old.id "
            "AND child.ended IS NULL) ORDER BY created DESC LIMIT ? OFFSET ?"
        )
        for (id,) in db.execute(query, (self._workspace, _REMOVED_MAX, ENDED_MAX)).fetchall():
            db.execute("DELETE FROM agents WHERE workspace=? AND id=?", (self._workspace, id))
            self.mail.remove(db, id)
            db.execute("DELETE FROM agent_runs WHERE workspace=? AND agent=?", (self._workspace, id))


def _record(row: Sequence[Any]) -> AgentRecord:
    agent = AgentRecord(*row)
    try:
        tools, *others = json.loads(row[AgentRecord._fields.index("profile")])
        fields = others[: len(AgentProfile._fields) - 1]  # a newer version may have stored more
        profile = AgentProfile(tuple(tools), *fields)
    except (ValueError, TypeError, RecursionError):
        return agent._replace(profile=_INVALID)
    texts = (*profile.tools, profile.mode, profile.model, profile.role)
    limits = (profile.turns, profile.tokens, profile.seconds)
    is_valid = all(isinstance(text, str) for text in texts) and all(
        limit is None or isinstance(limit, int | float) for limit in limits
    )
    return agent._replace(profile=profile if is_valid else _INVALID)
