"""Approval of a call: what the user sees, what their answer is bound to, and which grants it stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hilt.authority.authority import LOOKS, PARTIAL, Authority
from hilt.authority.consent import (
    SHOWN,
    PreviewWanted,
    Sight,
    explicit_arguments,
    look_at,
    question,
)
from hilt.authority.targets import risk_of
from hilt.authority.weighing import grant_folder, unenforced_rules
from hilt.call import Call, Json, ShownChange
from hilt.context import Context
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.pipeline import Prepared
from hilt.policy import rules
from hilt.policy.decision import OWN, Vote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.shell.risk import Risk

# voters whose questions no grant can settle
_NEVER_GRANTED = (OWN, "rules", "hooks", "paths")


class Approved(NamedTuple):
    """Who approved a call, and the arguments with which it runs: after a preview, those that apply it."""

    by: str
    args: dict[str, Any]


def approve(authority: Authority, prepared: Prepared, vote: Vote, ctx: Context, call: Call) -> Approved:
    """Ask for approval of a call, and return the answer; raise if nobody approved it."""
    if prepared.tool.traits.asks_itself:
        return Approved("", prepared.args)
    try:
        return Approved(_approve(authority, prepared, vote, ctx, call), prepared.args)
    except PreviewWanted as wanted:
        preview_id = wanted.preview_id
        if not preview_id:
            preview = prepared.tool.run(ctx, {**prepared.args, "preview": True})
            preview_id = (preview.meta.get("preview") or {}).get("id", "")
        args, change = prepared.args, ShownChange(diff="The command ran, and would change no file.")
        if preview_id:
            args = {**prepared.args, "apply": preview_id}
            # without the output of the command, which could look like a diff
            change = prepared.tool.run(ctx, {**args, "dry_run": True}).change or ShownChange()
        # the answer was for the preview, the next one is for its changes
        call = call._replace(approval=None)
        try:
            return Approved(_approve(authority, prepared._replace(args=args), vote, ctx, call, change), args)
        except ToolError as error:
            if error.code == "approval_required" and preview_id:
                error.details["apply"] = preview_id
                error.suggestion = f"{error.suggestion} Add apply: {preview_id!r}, the preview that the user sees."
            raise


def _approve(
    authority: Authority, prepared: Prepared, vote: Vote, ctx: Context, call: Call, change: ShownChange | None = None
) -> str:
    """Return who approved a call or, with `change`, what its preview would change; raise if nobody did."""
    risk = risk_of(prepared, authority.settings)
    subject = authority.subject(prepared, ctx.door, risk)

    def describe_target() -> str:
        describe = prepared.tool.traits.describe_target
        return "" if describe is None else describe(ctx, prepared.args)

    def look() -> Sight:
        sight = look_at(prepared, ctx, risk)
        # permissions that the tool itself asks for are part of what the user sees
        own = {f"permission {number}": sha256(grant.encode()) for number, grant in enumerate(vote.keeps)}
        if description := describe_target():
            own[SHOWN] = sha256(description.encode())
        return sight._replace(files={**sight.files, **own}) if own else sight

    sight, target = look(), describe_target()
    facts = dict(sight.facts)
    if change is None:
        facts["preview"] = _offers_preview(prepared, ctx, risk)
    else:
        facts |= change._asdict()
    is_grantable = not any(voter in _NEVER_GRANTED for voter in (vote.voter, *vote.joined))
    granted = (*vote.keeps, *(rules.narrowest(subject) if is_grantable else ()))
    is_complete = sight.is_complete and (change is None or change.is_complete)
    asked = question(
        authority.place,
        prepared.tool.name,
        explicit_arguments(prepared),
        marked(
            authority,
            ctx,
            ("⚠ " if prepared.tool.traits.dangerous else "") + "; ".join(filter(None, (vote.reason, target))),
        ),
        ctx.session,
        rules=granted if is_complete else (),  # nothing is always allowed that the user could not see
        folder=grant_folder(authority, prepared, ctx.door),
        client=ctx.client or "",
        **facts,
    )
    by = authority.consent().obtain(asked, prepared.args, ctx, call, sight, look)
    if vote.voter == "sandbox":
        accepted = unenforced_rules(authority, ctx, authority.mode(ctx.session))
        authority.values().set(authority.place.id, ctx.session, PARTIAL, value=accepted or True)
    if prepared.args.get("action") in prepared.tool.traits.read_only_actions:
        authority.values().set(authority.place.id, ctx.session, LOOKS + prepared.tool.name, value=True)
    return by


def _offers_preview(prepared: Prepared, ctx: Context, risk: Risk | None) -> bool:
    """Whether the user can see what a dangerous command would change before they answer."""
    args = prepared.args
    if risk is None or risk.level != "dangerous" or "preview" not in prepared.tool.schema["properties"]:
        return False
    if args.get("preview") or args.get("apply") is not None or args.get("run_in_background"):
        return False
    return not ctx.processes.overlays.obstacle()


def approve_summary(
    authority: Authority, tool: str, summary: str, ctx: Context, call: Call, facts: Mapping[str, Json]
) -> str:
    """Like `approve`, for something that a tool asks about while it runs."""
    # the grant that "always" stores, for tools that manage their own permissions
    grant = facts.get("grant")
    facts = {name: value for name, value in facts.items() if name != "grant"}
    grants = (grant,) if isinstance(grant, str) else ()
    summary = marked(authority, ctx, summary)
    asked = question(authority.place, tool, facts, summary, ctx.session, rules=grants, client=ctx.client or "")
    return authority.consent().obtain(asked, facts, ctx, call)


def marked(authority: Authority, ctx: Context, text: str) -> str:
    """Return a text for the user, prefixed with the agent that it comes from, if any."""
    agent = authority.agent(ctx.session)
    return text if agent is None else f"[agent {agent.name}, {agent.id}] {text}"
