"""The interface between tools and the agent loop: orders, limits, and the agents that a call can start and control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from hilt.errors import CODES, ToolError
from hilt.state.mailbox import Mail
from hilt.state.roster import AgentRecord, Kind

# suggestions for the caller of an agent that failed, by error code
_ADVICE = {
    "no_model": CODES["no_model"],
    "model_error": "Try again later, or do the work yourself.",
    "cancelled": CODES["cancelled"],
}

Number = TypeVar("Number", int, float)


class Remainder(NamedTuple):
    """What remains of a run's limits: requests to the model, tokens and seconds; None means no limit."""

    turns: int | None = None
    tokens: int | None = None
    seconds: float | None = None

    def within(self, other: Remainder) -> Remainder:
        """Return the smaller of each limit."""
        return Remainder(
            _smaller(self.turns, other.turns),
            _smaller(self.tokens, other.tokens),
            _smaller(self.seconds, other.seconds),
        )


def _smaller(first: Number | None, second: Number | None) -> Number | None:
    return first if second is None else second if first is None else min(first, second)


class AgentOrder(NamedTuple):
    """A task for an agent; an empty `parent` means the caller."""

    agent: str
    prompt: str
    title: str = ""
    model: str = ""
    parent: str = ""
    worktree: bool = False  # true in the agent's definition has the same effect
    call: str = ""  # the call that starts it


def failed(agent: AgentRecord, message: str, **details: str) -> ToolError:
    """Return the error for an agent that ended without an answer."""
    code = agent.error_code or "cancelled"
    advice = _ADVICE.get(code, "Give it a smaller task, or do it yourself.")
    return ToolError(code, f"{message}: {agent.answer or agent.status}", suggestion=advice, **details)


class Allowance(Protocol):
    """The budget of the run that a call belongs to."""

    def left(self) -> Remainder:
        """Return the remainder; raise if time has run out."""

    def check(self) -> None:
        """Raise if tokens or seconds have run out."""

    def spend(self, tokens: int) -> None:
        """Count these tokens as used."""


class Agents(Protocol):
    """The agents of the workspace, as seen by one caller, which may act as itself and as the agents below it."""

    def run(self, order: AgentOrder) -> AgentRecord:
        """Run an agent and return it after its answer; it ends with the call."""

    def start(self, order: AgentOrder, kind: Kind) -> AgentRecord:
        """Start an agent that outlives the call."""

    def wait(self, id: str, seconds: float) -> AgentRecord:
        """Wait for the first answer of an agent, at most this long; return the agent."""

    def get(self, id: str) -> AgentRecord:
        """Return an agent of the caller."""

    def progress(self, id: str) -> str:
        """Return the progress of an agent of the caller, one line for each call."""

    def stop(self, id: str) -> AgentRecord:
        """Cancel an agent of the caller, and all below it."""

    def list(self, limit: int) -> Sequence[AgentRecord]:
        """Return the agents of the workspace, newest first."""

    def send(self, sender: str, target: str, text: str) -> None:
        """Send a message; an idle agent wakes."""

    def receive(self, agent: str, *, seconds: float, limit: int) -> Mail:
        """Return the messages of an agent, waiting this long for the first.

        They are removed when the agent receives again or the process exits; if it is killed, they are delivered again.
        """
