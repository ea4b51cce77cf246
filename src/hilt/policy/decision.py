"""A vote is one opinion on a call; the decision is the strictest vote."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from hilt.errors import ToolError

Verdict = Literal["allow", "ask", "deny"]
OWN = "tool"  # the voter, when it is the tool itself

_STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}


class Vote(NamedTuple):
    """One opinion, the voter it comes from, its reason, and the error a denial answers with."""

    verdict: Verdict
    voter: str
    reason: str
    error: ToolError | None = None
    keeps: tuple[str, ...] = ()  # what an approval that is kept would allow, beside what rules say


def decide(votes: Iterable[Vote]) -> Vote:
    """Return the strictest vote, the first of equals; with no votes, ask."""
    strictest: Vote | None = None
    for vote in votes:
        if strictest is None or _STRICTNESS[vote.verdict] > _STRICTNESS[strictest.verdict]:
            strictest = vote
    return strictest or Vote("ask", "default", "no voter had an opinion")


def join(decision: Vote, own: Vote) -> Vote:
    """Return the decision with one more vote, such as the tool's own: where both ask, one question is for both."""
    if (decision.verdict, own.verdict) != ("ask", "ask"):
        return decide((decision, own))
    # what this voter cannot keep, nothing keeps: the person would be asked again
    voter = decision.voter if own.keeps else own.voter
    return own._replace(voter=voter, reason=f"{own.reason.rstrip('.')}; {decision.reason}")
