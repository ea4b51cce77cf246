"""The agents of one caller, for the tools that start, wait for and message agents."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hilt.agents.child_conversation import AgentRun, RunCaller
from hilt.call import AGENT
from hilt.context import Context
from hilt.errors import ToolError
from hilt.state.agent_calls import AgentOrder, Allowance
from hilt.state.mailbox import Mail
from hilt.state.roster import AgentRecord, Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.children import AgentHost

_POLL_SECONDS = 0.05
_CHECK_SECONDS = 1.0  # between checks for agents whose process was killed


class CallAgents:
    """The agents for the caller of one call; implements context.Agents."""

    def __init__(self, host: AgentHost, ctx: Context) -> None:
        self._host = host
        self._ctx = ctx
        self._store = host.store
        self._caller = ctx.session
        self._is_agent = self._caller.startswith(AGENT) and self._store.get(self._caller) is not None

    def run(self, order: AgentOrder) -> AgentRecord:
        """Run an agent and return it after its answer; it ends with the call."""
        definition = self._host.define(order.agent, or_default=False)
        above = self._allowance
        agent = self._host.create(self._ordered(order), definition, "call", self._caller, above)
        run = AgentRun(agent)
        self._ctx.fence.watch(run.cancel)
        count = 0

        def report(line: str) -> None:
            nonlocal count
            count += 1
            self._ctx.progress(count, None, f"{definition.name}: {line}")

        attendant = self._ctx.attendant
        client = None if attendant is None else attendant.for_agents()
        asks_person = self._asks_person or client is not None
        self._host.run(run, RunCaller(asks_person, above, report, client=client))
        self._ctx.fence.check()
        return self.get(agent.id)

    def start(self, order: AgentOrder, kind: Kind) -> AgentRecord:
        """Start an agent that outlives the call."""
        if not self._host.runtime.parts.opening.keeps_jobs:
            raise ToolError("resident_required", "An agent in the background would end with this call.")
        definition = self._host.define(order.agent, or_default=kind == "spawned")
        if order.parent and not self._acts_as(order.parent):
            advice = "Omit parentId, or use the id of an agent that you started."
            raise ToolError("not_found", f"There is no agent {order.parent[:100]!r}.", suggestion=advice)
        agent = self._host.create(self._ordered(order), definition, kind, self._caller, self._allowance)
        self._host.serve()
        return agent

    def _ordered(self, order: AgentOrder) -> AgentOrder:
        return order._replace(call=self._ctx.workspace.call)

    def wait(self, id: str, seconds: float) -> AgentRecord:
        """Return an agent after its first answer, or after this time."""
        deadline, next_check = time.monotonic() + seconds, 0.0
        while True:
            agent = self.get(id)
            now = time.monotonic()
            if agent.answers or agent.ended is not None or now >= deadline:
                return agent
            if now >= next_check:
                next_check = now + _CHECK_SECONDS
                self._host.serve()  # its process may have been killed
            self._ctx.fence.check()
            time.sleep(_POLL_SECONDS)

    def get(self, id: str) -> AgentRecord:
        """Return an agent of the caller."""
        agent = self._store.get(id)
        if agent is None or self._caller not in self._store.chain(id)[1:]:
            raise ToolError(
                "not_found", f"This session has no agent {id[:60]!r}.", suggestion="Call agent_list to see the agents."
            )
        return agent

    def progress(self, id: str) -> str:
        """Return what an agent of the caller has done so far, one line for each call."""
        return self._host.progress(self.get(id).id)

    def stop(self, id: str) -> AgentRecord:
        """Cancel an agent of the caller, and all below it."""
        self._host.cancel(self.get(id).id)
        return self.get(id)

    def list(self, limit: int) -> Sequence[AgentRecord]:
        """Return the agents of the workspace, newest first."""
        self._host.serve()
        return self._store.newest(limit)

    def send(self, sender: str, target: str, text: str) -> None:
        """Send a message; an idle agent wakes."""
        self._check_acting(sender)
        if self._is_agent and self._store.get(target) is None and target not in self._store.chain(self._caller):
            raise ToolError(
                "not_found", f"There is no agent {target[:100]!r}.", suggestion="Use an id from agent_list."
            )
        if self._store.mail.send(sender, target, text, self._ctx.fence.commit):
            self._host.serve()

    def receive(self, agent: str, *, seconds: float, limit: int) -> Mail:
        """Return the messages of an agent, waiting this long for the first.

        They are removed when this agent receives again, or this process ends. If the process is killed before that,
        they are returned once more.
        """
        self._check_acting(agent)
        deadline = time.monotonic() + seconds
        reader = self._host.owner().name
        while True:
            mail = self._store.mail.receive(agent, limit, self._ctx.fence.commit, reader=reader)
            if mail.messages or time.monotonic() >= deadline:
                return mail
            self._ctx.fence.check()
            time.sleep(_POLL_SECONDS)

    def _acts_as(self, id: str) -> bool:
        """Whether `id` is the caller or an agent below it; raise if it is another agent, or the caller is an agent."""
        if id == self._caller or self._caller in self._store.chain(id):
            return True
        if self._is_agent or self._store.get(id) is not None:
            raise ToolError(
                "denied",
                f"{self._caller} cannot act as {id[:100]}, which is not below it.",
                suggestion="Use your own id, or the id of an agent that you started.",
            )
        return False

    def _check_acting(self, id: str) -> None:
        """Raise unless the caller may send and receive as this id; a client may use any id."""
        if not id.strip():
            raise ToolError("invalid_args", "agentId is empty.", suggestion="Use an id from agent_list.")
        if self._is_agent:
            self._acts_as(id)

    @property
    def _allowance(self) -> Allowance | None:
        return None if self._ctx.attendant is None else self._ctx.attendant.allowance

    @property
    def _asks_person(self) -> bool:
        attendant = self._ctx.attendant
        return self._host.runtime.parts.asks_person and (attendant is None or attendant.can_ask)
