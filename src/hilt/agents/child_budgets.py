"""The limits of an agent's next run, computed from its record and its transcript."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from hilt.agents.budgets import MAX_TURNS, Budget, RunLimits
from hilt.agents.starting import transcripts_of
from hilt.agents.transcripts import Record, read
from hilt.state.agent_calls import Allowance
from hilt.state.roster import AgentRecord, Roster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.runtime import Runtime

_LEAST_SECONDS = 0.001  # of an agent whose time is up: it ends with budget_exceeded
_SHARING_MAX = 1_000  # agents of one workspace that are searched for those that share a budget


class SharedBudgets:
    """The token budgets that agents of one caller share once its process has ended. Safe to use from many threads."""

    def __init__(self, runtime: Runtime, store: Roster) -> None:
        self._runtime = runtime
        self._store = store
        self._budgets: dict[str, Allowance] = {}  # by caller
        self._lock = threading.Lock()

    def of(self, agent: AgentRecord) -> Allowance | None:
        """Return the budget that an agent shares with the others of its caller, after the end of the caller's process.

        `tokens` is what an agent could use when it was created; everything that agents of the caller have used since
        then counts.
        """
        if agent.profile.tokens is None or agent.kind == "call":
            return None
        with self._lock:
            shared = self._budgets.get(agent.caller)
        if shared is None:
            tokens_left = self._tokens_left(agent)
            with self._lock:
                budget = Budget(RunLimits(None, tokens_left, None), time.monotonic)
                shared = self._budgets.setdefault(agent.caller, budget)
        return shared

    def _tokens_left(self, agent: AgentRecord) -> int:
        """Return how many tokens the agents of one caller may still use together."""
        transcripts = transcripts_of(self._runtime)
        used: dict[str, int] = {}
        group = [other for other in self._store.newest(_SHARING_MAX) if other.caller == agent.caller]
        for other in group:
            used[other.id] = other.input_tokens + other.output_tokens
            with suppress(FileNotFoundError):
                used[other.id] = max(used[other.id], sum(map(tokens, read(transcripts.path(other.id)))))
        remainders = []
        for first in group:
            if first.profile.tokens is not None and first.created <= agent.created:
                used_since = sum(used[other.id] for other in group if other.created >= first.created)
                remainders.append(first.profile.tokens - used_since)
        return max(0, min(remainders, default=0))


def limits_of(agent: AgentRecord, unrecorded: int, now: int) -> RunLimits:
    """Return the limits of the next run of an agent that has used this many tokens besides those in its record."""
    profile = agent.profile
    used = agent.input_tokens + agent.output_tokens + unrecorded
    tokens = None if profile.tokens is None else max(0, profile.tokens - used)
    return RunLimits(profile.turns or MAX_TURNS, tokens, _seconds_left(agent, now))


def _seconds_left(agent: AgentRecord, now: int) -> float | None:
    """Return the remaining seconds of an agent; they also pass while no process runs it."""
    if agent.profile.seconds is None:
        return None
    return max(_LEAST_SECONDS, agent.profile.seconds - (now - agent.created) / 1e9)


def tokens(record: Record) -> int:
    """Return the tokens of an answer in a transcript."""
    usage = record.get("usage") if record.get("type") == "answer" else None
    return sum(usage.get(key, 0) for key in ("input_tokens", "output_tokens")) if isinstance(usage, dict) else 0
