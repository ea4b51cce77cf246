"""Approval of a call that asks: what a person is shown, what their answer is bound to, and what it keeps."""

from __future__ import annotations

from collections.abc import Mapping

from hilt.authority.authority import PARTIAL, Authority
from hilt.authority.consent import Sight, look_at, question, told_arguments
from hilt.authority.targets import risk_of
from hilt.authority.weighing import grant_folder, unenforced_rules
from hilt.call import Call, Json
from hilt.context import Context
from hilt.formats.digests import sha256
from hilt.pipeline import Prepared
from hilt.policy import rules
from hilt.policy.decision import OWN, Vote

# voters whose questions no grant can settle
_NEVER_KEPT = (OWN, "rules", "hooks", "paths")


def approve(authority: Authority, prepared: Prepared, vote: Vote, ctx: Context, call: Call) -> str:
    """Return who approved a call that asks, or raise that nobody did."""
    if prepared.tool.traits.asks_itself:
        return ""
    risk = risk_of(prepared, authority.settings)
    subject = authority.subject(prepared, ctx.door, risk)

    def look() -> Sight:
        seen = look_at(prepared, ctx, risk)
        # what a tool asks for itself is a part of what was shown
        own = {f"permission {number}": sha256(kept.encode()) for number, kept in enumerate(vote.keeps)}
        return seen._replace(files={**seen.files, **own}) if own else seen

    sight = look()
    asked = question(
        authority.place,
        prepared.tool.name,
        told_arguments(prepared),
        ("⚠ " if prepared.tool.traits.dangerous else "") + vote.reason,
        ctx.session,
        rules=(*vote.keeps, *(() if vote.voter in _NEVER_KEPT else rules.narrowest(subject))),
        folder=grant_folder(authority, prepared, ctx.door),
        **sight.facts,
    )
    by = authority.consent().obtain(asked, prepared.args, ctx, call, sight, look)
    if vote.voter == "sandbox":
        accepted = unenforced_rules(authority, ctx, authority.mode(ctx.session))
        authority.values().set(authority.place.id, ctx.session, PARTIAL, value=accepted or True)
    return by


def approve_summary(
    authority: Authority, tool: str, summary: str, ctx: Context, call: Call, facts: Mapping[str, Json]
) -> str:
    """As `approve`, for something a tool asks about while it runs."""
    # what "always" would keep, where the tool itself knows its own permissions
    grant = facts.get("grant")
    facts = {name: value for name, value in facts.items() if name != "grant"}
    kept = (grant,) if isinstance(grant, str) else ()
    asked = question(authority.place, tool, facts, summary, ctx.session)._replace(rules=kept)
    return authority.consent().obtain(asked, facts, ctx, call)
