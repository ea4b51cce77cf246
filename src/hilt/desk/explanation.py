"""Why a call would be allowed, asked about or denied; nothing runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hilt.call import Call

if TYPE_CHECKING:
    from hilt.runtime import Runtime


class ExplainedVote(NamedTuple):
    """One of the votes on a call."""

    voter: str
    verdict: str
    reason: str


class ExplainedTouch(NamedTuple):
    """Something that the call would read, write, run or reach."""

    effect: str
    target: str


class ExplainedCall(NamedTuple):
    """The decision on a call, with every vote. `called` is the name in the call, which may be that of a dialect."""

    tool: str
    called: str
    mode: str
    decision: str
    voter: str
    reason: str
    votes: tuple[ExplainedVote, ...]
    touches: tuple[ExplainedTouch, ...]
    hooks_would_run: tuple[str, ...]
    scripts_would_run: tuple[str, ...]
    sandbox_rules: tuple[str, ...]
    notes: tuple[str, ...]


def explain(runtime: Runtime, call: Call) -> ExplainedCall:
    """Return the decision on a call without running it."""
    explanation = runtime.explain(call)
    prepared, decision = explanation.prepared, explanation.decision
    return ExplainedCall(
        prepared.tool.name,
        call.tool,
        explanation.mode,
        decision.verdict,
        decision.voter,
        decision.reason,
        tuple(ExplainedVote(vote.voter, vote.verdict, vote.reason) for vote in explanation.votes),
        tuple(ExplainedTouch(touch.effect, touch.target) for touch in prepared.touches),
        explanation.hooks,
        () if explanation.script is None else (explanation.script,),
        explanation.sandbox,
        explanation.notes,
    )
