"""Explains whether a call would be allowed, asked about or denied, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hilt.authority.authority import Authority
from hilt.authority.session_hooks import CallHooks
from hilt.authority.weighing import sandbox_rules
from hilt.context import Context
from hilt.pipeline import HooksAround, Prepared, Voter, consult, decide
from hilt.policy.decision import Vote


class Explanation(NamedTuple):
    """The decision on a call, with every vote and the hooks that would run."""

    decision: Vote
    votes: tuple[Vote, ...]
    prepared: Prepared
    hooks: tuple[str, ...]
    mode: str
    notes: tuple[str, ...] = ()  # about invalid and untrusted rules and hooks
    script: str | None = None  # the tool's security script, which would vote too
    sandbox: tuple[str, ...] = ()  # the path rules that its sandbox enforces


def explain(
    prepared: Prepared, ctx: Context, voters: Sequence[Voter], hooks: HooksAround, authority: Authority
) -> Explanation:
    """Return the decision on a call with every vote, and the hooks that would run. Nothing runs."""
    decision = decide(prepared, ctx, voters)
    script = prepared.tool.traits.script if decision.vote.verdict != "deny" else ""
    decision = consult(prepared, ctx, decision, runs_scripts=False)
    runs = any(touch.effect == "execute" for touch in prepared.touches)
    return Explanation(
        decision.vote,
        decision.votes,
        prepared,
        tuple(hooks.would_run(prepared)) if isinstance(hooks, CallHooks) else (),
        ctx.mode,
        (*authority.notes(), *hooks.notes),
        script or None,
        tuple(sandbox_rules(authority, ctx)) if runs else (),
    )
