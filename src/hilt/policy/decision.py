"""Votes on a call; the decision is the strictest one."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from hilt.errors import ToolError

Verdict = Literal["allow", "ask", "deny"]
OWN = "tool"  # the voter, when it is the tool itself

_STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}


class Vote(NamedTuple):
    """A verdict on a call, who voted, the reason, and the error that a denial returns."""

    verdict: Verdict
    voter: str
    reason: str
    error: ToolError | None = None
    keeps: tuple[str, ...] = ()  # grants that a lasting approval would store, besides rules
    joined: tuple[str, ...] = ()  # other voters whose questions are part of this one


def decide(votes: Iterable[Vote]) -> Vote:
    """Return the strictest vote, the first of equals; with no votes, ask."""
    strictest: Vote | None = None
    for vote in votes:
        if strictest is None or _STRICTNESS[vote.verdict] > _STRICTNESS[strictest.verdict]:
            strictest = vote
    return strictest or Vote("ask", "default", "nobody voted on this call")


def join(decision: Vote, own: Vote) -> Vote:
    """Return the decision with one more vote, such as the tool's own; if both ask, combine them into one question."""
    if (decision.verdict, own.verdict) != ("ask", "ask"):
        return decide((decision, own))
    # a voter that stores no grant would ask again, so the answer stores none
    voter = decision.voter if own.keeps else own.voter
    joined = (*decision.joined, *own.joined)
    return own._replace(voter=voter, reason=f"{own.reason.rstrip('.')}; {decision.reason}", joined=joined)
