"""Which processes have run an agent, and which run agents of a workspace now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hilt.state.agent_database import AgentDatabase, Transaction

LOST = "lost"  # the outcome of a run whose process was killed

_SECOND = 1_000_000_000


class RunRecord(NamedTuple):
    """One run of an agent by one process; `steps` is where it started, `outcome` is "" while it runs."""

    number: int
    owner: str
    host: str
    version: str
    began: int
    ended: int | None
    steps: int
    outcome: str


class OwnerRecord(NamedTuple):
    """A process that runs agents; `slots` is how many at once, 0 if it only runs agents that no worker claims."""

    name: str
    host: str
    version: str
    slots: int
    began: int


class AgentRuns:
    """The runs and owners of the agents of one workspace."""

    def __init__(self, database: AgentDatabase, workspace: str) -> None:
        self._db = database
        self._workspace = workspace

    def within(self, database: AgentDatabase) -> AgentRuns:
        """Return the same runs through another database object."""
        return AgentRuns(database, self._workspace)

    # --- runs ---------------------------------------------------------------------------------------------------------

    def begin(self, agent: str, owner: OwnerRecord, steps: int) -> int:
        """Record that an owner runs an agent, starting at this step; return the number of the run, from 1."""

        def work(db: Transaction) -> int:
            query = "SELECT coalesce(max(number), 0) + 1 FROM agent_runs WHERE workspace=? AND agent=?"
            (number,) = db.execute(query, (self._workspace, agent)).fetchone()
            facts = (owner.name, owner.host, owner.version, self._db.now(db), None, steps, "")
            db.execute("INSERT INTO agent_runs VALUES (?,?,?,?,?,?,?,?,?,?)", (self._workspace, agent, number, *facts))
            return int(number)

        return self._db.write(work)

    def end(self, db: Transaction, agent: str, outcome: str) -> None:
        """Record how the run of an agent ended."""
        query = "UPDATE agent_runs SET outcome=?, ended=? WHERE workspace=? AND agent=? AND outcome=''"
        db.execute(query, (outcome, self._db.now(db), self._workspace, agent))

    def lose(self, db: Transaction, agent: str) -> int:
        """Record that the process that ran an agent was killed; return how many died in a row at the same step."""
        self.end(db, agent, LOST)
        return self.kills(db, agent)

    def kills(self, db: Transaction, agent: str) -> int:
        """Return how many processes in a row were killed at the same step of an agent."""
        query = "SELECT outcome, steps FROM agent_runs WHERE workspace=? AND agent=? ORDER BY number DESC LIMIT 10"
        rows = db.execute(query, (self._workspace, agent)).fetchall()
        kills = 0
        for outcome, steps in rows:
            if outcome not in (LOST, "") or steps != rows[0][1]:
                break
            kills += outcome == LOST  # the run in progress does not count
        return kills

    def of(self, agent: str) -> list[RunRecord]:
        """Return the runs of an agent, oldest first."""
        query = (
            "SELECT number, owner, host, version, began, ended, steps, outcome FROM agent_runs "
            "WHERE workspace=? AND agent=? ORDER BY number"
        )
        rows = self._db.read(lambda db: db.execute(query, (self._workspace, agent)).fetchall())
        return [RunRecord(*row) for row in rows]

    def living(self, agents: Sequence[str]) -> set[str]:
        """Return which of these agents, in any workspace, have not ended."""
        placeholders = ",".join("?" * len(agents))
        query = f"SELECT id FROM agents WHERE ended IS NULL AND id IN ({placeholders})"  # noqa: S608  # only placeholders
        return {id for (id,) in self._db.read(lambda db: db.execute(query, agents).fetchall())} if agents else set()

    # --- owners -------------------------------------------------------------------------------------------------------

    def register(self, owner: OwnerRecord, lease_seconds: float | None) -> None:
        """Record a process that runs agents; with a lease, it must call this again before the lease expires."""

        def work(db: Transaction) -> None:
            now = self._db.now(db)
            lease = None if lease_seconds is None else now + int(lease_seconds * _SECOND)
            renew = "UPDATE agent_owners SET lease=? WHERE name=? RETURNING name"
            if db.execute(renew, (lease, owner.name)).fetchone() is None:
                for (name,) in db.execute("SELECT name FROM agent_owners").fetchall():
                    if not self._db.is_alive(db, name):
                        db.execute("DELETE FROM agent_owners WHERE name=?", (name,))
                row = (owner.name, self._workspace, owner.host, owner.version, owner.slots, now, lease)
                db.execute("INSERT INTO agent_owners VALUES (?,?,?,?,?,?,?)", row)

        self._db.write(work, f"owner {owner.name}")  # its own lock, so that it does not wait for the workspace's

    def unregister(self, name: str) -> None:
        """Remove a process that no longer runs agents."""
        self._db.write(lambda db: db.execute("DELETE FROM agent_owners WHERE name=?", (name,)))

    def owners(self) -> list[OwnerRecord]:
        """Return the living processes that run agents."""
        if not self._db.exists():
            return []
        query = "SELECT name, host, version, slots, began FROM agent_owners WHERE workspace=? ORDER BY began"

        def work(db: Transaction) -> list[OwnerRecord]:
            rows = [OwnerRecord(*row) for row in db.execute(query, (self._workspace,)).fetchall()]
            return [owner for owner in rows if self._db.is_alive(db, owner.name)]

        return self._db.read(work)
