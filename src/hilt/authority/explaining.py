"""Why a call would run, ask or be refused, told without running anything."""

from __future__ import annotations

from typing import Any, NamedTuple

from hilt import pipeline
from hilt.authority.authority import Authority
from hilt.authority.path_vote import paths
from hilt.context import Context
from hilt.pipeline import Prepared
from hilt.policy.decision import Vote, join


class Explanation(NamedTuple):
    """The decision on a call, with every vote and the hooks it would meet."""

    decision: Vote
    votes: tuple[Vote, ...]
    prepared: Prepared
    hooks: tuple[str, ...]
    mode: str
    notes: tuple[str, ...] = ()  # what is broken, and what counts only in part
    script: str | None = None  # of the tool, which would be asked too
    sandbox: tuple[str, ...] = ()  # the rules on paths that hold for its command


def explain(prepared: Prepared, ctx: Context, authority: Authority) -> Explanation:
    """Return the decision on a call with every vote, and the hooks it would meet."""
    weighed = authority.weigh(prepared, ctx)
    place = paths(prepared, ctx)
    votes = weighed.votes if place is None else (*weighed.votes, place)
    decision = weighed.decision if place is None else join(weighed.decision, place)
    heard, script = _own_say(prepared, ctx, decision)
    votes = votes if heard is decision else (*votes, heard)
    hooks = authority.hooks(ctx, ctx.fence)
    would_run = [] if hooks is None else hooks.would_run(authority.seen(prepared, ctx.door))
    notes = (*authority.notes(), *(hooks.notes if hooks is not None else ()))
    runs = any(touch.effect == "execute" for touch in prepared.touches)
    held = tuple(authority.held_rules(ctx)) if runs else ()
    return Explanation(heard, votes, prepared, tuple(hook.name for hook in would_run), ctx.mode, notes, script, held)


def _own_say(prepared: Prepared, ctx: Context, decision: Vote) -> tuple[Vote, str | None]:
    """Return the decision after the tool's own vote, or the script that would run for that."""
    definition: Any = getattr(prepared.tool.run, "definition", None)
    kind = getattr(definition, "format", "")
    if kind == "markdown":  # its vote runs nothing
        return pipeline.consult(prepared, ctx, decision), None
    return decision, definition.details["securityScript"] if kind == "folder" and decision.verdict != "deny" else None
