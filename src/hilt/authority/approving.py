"""Approval of a call: what the user is shown, what their answer is bound to, and which grants it stores."""

from __future__ import annotations

from collections.abc import Mapping

from hilt.authority.authority import LOOKS, PARTIAL, Authority
from hilt.authority.consent import SHOWN, Sight, explicit_arguments, look_at, question
from hilt.authority.targets import risk_of
from hilt.authority.weighing import grant_folder, unenforced_rules
from hilt.call import Call, Json
from hilt.context import Context
from hilt.formats.digests import sha256
from hilt.pipeline import Prepared
from hilt.policy import rules
from hilt.policy.decision import OWN, Vote

# voters whose questions no grant can settle
_NEVER_GRANTED = (OWN, "rules", "hooks", "paths")


def approve(authority: Authority, prepared: Prepared, vote: Vote, ctx: Context, call: Call) -> str:
    """Return who approved a call; raise if nobody did."""
    if prepared.tool.traits.asks_itself:
        return ""
    risk = risk_of(prepared, authority.settings)
    subject = authority.subject(prepared, ctx.door, risk)

    def acted_on() -> str:
        shows = prepared.tool.traits.shows
        return "" if shows is None else shows(ctx, prepared.args)

    def look() -> Sight:
        sight = look_at(prepared, ctx, risk)
        # permissions that the tool itself asks for are part of what the user sees
        own = {f"permission {number}": sha256(grant.encode()) for number, grant in enumerate(vote.keeps)}
        if shown := acted_on():
            own[SHOWN] = sha256(shown.encode())
        return sight._replace(files={**sight.files, **own}) if own else sight

    sight, shown = look(), acted_on()
    asked = question(
        authority.place,
        prepared.tool.name,
        explicit_arguments(prepared),
        marked(
            authority,
            ctx,
            ("⚠ " if prepared.tool.traits.dangerous else "") + "; ".join(filter(None, (vote.reason, shown))),
        ),
        ctx.session,
        rules=(*vote.keeps, *(() if vote.voter in _NEVER_GRANTED else rules.narrowest(subject))),
        folder=grant_folder(authority, prepared, ctx.door),
        **sight.facts,
    )
    by = authority.consent().obtain(asked, prepared.args, ctx, call, sight, look)
    if vote.voter == "sandbox":
        accepted = unenforced_rules(authority, ctx, authority.mode(ctx.session))
        authority.values().set(authority.place.id, ctx.session, PARTIAL, value=accepted or True)
    if prepared.args.get("action") in prepared.tool.traits.looks:
        authority.values().set(authority.place.id, ctx.session, LOOKS + prepared.tool.name, value=True)
    return by


def approve_summary(
    authority: Authority, tool: str, summary: str, ctx: Context, call: Call, facts: Mapping[str, Json]
) -> str:
    """Like `approve`, for something that a tool asks about while it runs."""
    # the grant that "always" stores, for tools that manage their own permissions
    grant = facts.get("grant")
    facts = {name: value for name, value in facts.items() if name != "grant"}
    grants = (grant,) if isinstance(grant, str) else ()
    asked = question(authority.place, tool, facts, marked(authority, ctx, summary), ctx.session)._replace(rules=grants)
    return authority.consent().obtain(asked, facts, ctx, call)


def marked(authority: Authority, ctx: Context, text: str) -> str:
    """Return a text for a person, with the name of the agent that it comes from, if it is not their own."""
    agent = authority.agent(ctx.session)
    return text if agent is None else f"[agent {agent.name}, {agent.id}] {text}"
