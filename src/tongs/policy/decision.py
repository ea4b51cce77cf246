"""A vote is one opinion on a call; the decision is the strictest vote."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from tongs.errors import ToolError

Verdict = Literal["allow", "ask", "deny"]

_STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}


class Vote(NamedTuple):
    """One opinion, the voter it comes from, its reason, and the error a denial answers with."""

    verdict: Verdict
    voter: str
    reason: str
    error: ToolError | None = None


def decide(votes: Iterable[Vote]) -> Vote:
    """Return the strictest vote, the first of equals; with no votes, ask."""
    strictest: Vote | None = None
    for vote in votes:
        if strictest is None or _STRICTNESS[vote.verdict] > _STRICTNESS[strictest.verdict]:
            strictest = vote
    return strictest or Vote("ask", "default", "no voter had an opinion")
