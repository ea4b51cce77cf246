"""The decision on a call by rules, mode, defaults and grants.

The order: what the mode, the profile or a setting hides is denied first, and nothing overrides that. Then the rules
apply, and the defaults of the mode: an allow rule replaces the default; for a deny or ask rule, the stricter of both
counts. A grant may cover what still asks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from hilt import pipeline
from hilt.authority.authority import GRANT, LOOKS, PARTIAL, Authority
from hilt.authority.targets import effects_of, risk_of, touched
from hilt.call import Touch
from hilt.context import Context
from hilt.errors import ToolError
from hilt.files.door import Door
from hilt.pipeline import Decision, NoHooks, Prepared, Voter
from hilt.policy import modes, rules
from hilt.policy.decision import Vote, decide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.session_hooks import CallHooks
    from hilt.policy.modes import Mode
    from hilt.policy.rules import Ruling
    from hilt.policy.subject import Subject
    from hilt.shell.risk import Risk


def weigh(authority: Authority, prepared: Prepared, ctx: Context) -> Decision:
    """Return the decision of rules, mode, defaults and grants on a call."""
    decision = _weigh(authority, prepared, ctx)
    if decision.vote.verdict != "allow":
        return decision
    vote = _vote_on_sandbox(authority, prepared, ctx) or _vote_on_copies(authority, prepared, ctx)
    return decision if vote is None else Decision(vote, (*decision.votes, vote))


def _weigh(authority: Authority, prepared: Prepared, ctx: Context) -> Decision:
    rulesets = authority.rulesets()
    mode = authority.mode(ctx.session)
    refusal = authority.hidden(prepared.tool, ctx.session)
    through = prepared.call.through
    for name in through:
        refusal = refusal or authority.hidden(authority.catalog.find(name).tool, ctx.session)
    if refusal is not None:
        denied = Vote("deny", "mode", refusal)
        return Decision(denied, (denied,))
    risk = risk_of(prepared, authority.settings)
    votes = _defaults(authority, prepared, ctx, mode, risk)
    default = decide(votes)
    subject = authority.subject(prepared, ctx.door, risk) if rulesets else None
    if subject is not None:
        _set_barrier(authority, ctx, subject)
    ruling = None if subject is None else _ruling(authority, subject, through)
    ruled = None if ruling is None else Vote(ruling.verdict, "rules", ruling.reason.rstrip("."))
    is_final = risk is not None and risk.ruins and default.verdict == "deny"
    vote = default if is_final else modes.settle(mode, ruled, default)
    ctx.needs_undo &= vote is default
    all_votes = (*([ruled] if ruled is not None else []), *votes)
    if vote.verdict == "ask" and _is_granted(authority, prepared, ctx, subject, risk):
        granted = Vote("allow", "grants", "a grant allows this call")
        return Decision(granted, (*all_votes, granted))
    if vote.verdict == "ask" and subject is not None and ruled is None:
        hint = authority.rulebook.would_allow(subject)
        vote = vote if hint is None else vote._replace(reason=f"{vote.reason}; {hint}")
    partial = next((other for other in votes if other.voter == "sandbox"), vote)
    if vote.verdict == "ask" and partial.voter != vote.voter:
        # one question for both
        vote = partial._replace(reason=f"{vote.reason}; {partial.reason}", joined=(vote.voter,))
    if vote.verdict == "deny" and vote is default:
        dangerous = risk is not None and vote.reason == modes.DANGEROUS
        why = f"{vote.reason}: {risk.reason[:300]}" if risk is not None and dangerous else vote.reason
        vote = vote._replace(reason=why, error=_blocked(vote, risk, ctx, prepared))
    return Decision(
        vote, all_votes if any(other.verdict == vote.verdict for other in all_votes) else (*all_votes, vote)
    )


def _ruling(authority: Authority, subject: Subject, through: Sequence[str]) -> Ruling | None:
    """Return the rules' decision on a call, on the command it would run, and on the tools that forwarded it."""
    ruling = rules.decide(authority.rulesets(), subject)
    names = authority.names_of(authority.catalog.find("run_shell").tool)
    if subject.command and subject.names != names:
        # a command denied for run_shell is denied for every tool that runs it or stores it for later
        shell = subject._replace(tool="run_shell", names=names, effects=frozenset({"execute"}))
        ruling = _denied(authority, shell) or ruling
    for name in through:
        forwarder_names = authority.names_of(authority.catalog.find(name).tool)
        ruling = _denied(authority, subject._replace(tool=name, names=forwarder_names)) or ruling
    return ruling


def _denied(authority: Authority, subject: Subject) -> Ruling | None:
    """Return the ruling that denies a call, or None."""
    ruling = rules.decide(authority.rulesets(), subject)
    return ruling if ruling is not None and ruling.verdict == "deny" else None


def _set_barrier(authority: Authority, ctx: Context, subject: Subject) -> None:
    """Apply path rules again to every path that the call opens: a path may change after the decision."""
    from hilt.policy import barriers

    barrier = barriers.make_barrier(authority.bars(ctx.door), authority.rulesets(), subject, authority.root)
    if barrier is not None:
        ctx.hold(barrier)


def _defaults(authority: Authority, prepared: Prepared, ctx: Context, mode: Mode, risk: Risk | None) -> list[Vote]:
    """Return the default votes on a call; the strictest counts."""
    settings = authority.settings
    runs_command = risk is not None
    full = settings["shell.sandbox"] == "full" and mode != "plan"
    available = None if full or not runs_command else ctx.processes.sandbox
    circumstances = modes.Circumstances(
        strict=authority.rulebook.is_strict,
        risk=None if risk is None else risk.level,
        ruins=risk is not None and risk.ruins,
        undone=risk is not None and _is_undone(authority, prepared, ctx, risk),
        # a preview changes nothing
        forced=prepared.args.get("force") is True or prepared.args.get("preview") is True,
        sandboxed=not runs_command or (available is not None and available.works),
        full=full,
        action=str(prepared.args.get("action") or ""),
        may_look=bool(
            prepared.tool.traits.read_only_actions
            and authority.stored_values(ctx.session).get(LOOKS + prepared.tool.name)
        ),
    )
    votes = [modes.mode_vote(mode, prepared.tool, effects_of(prepared), circumstances)]
    ctx.needs_undo = circumstances.undone and not circumstances.forced
    if mode == "yolo":
        return votes
    tools = [authority.catalog.find(name).tool for name in prepared.call.through]
    if mode != "auto-accept" and any(tool.traits.returns_patches for tool in tools):
        patch = Vote("ask", "worktree", "it applies the changes in an agent's worktree")
        votes.append(modes.unattended(mode, patch))
    wants_network = runs_command and any(touch.effect == "network" for touch in prepared.touches)
    if wants_network:
        from hilt.sandbox.network import NETWORKS

        allowed = NETWORKS[settings["shell.network"]]
        if not allowed.internet:
            reason = f"it needs full network access, and shell.network is {allowed.name}"
            votes.append(Vote("ask", "network", reason))
    if (
        available is not None
        and available.is_partial
        and (not authority.stored_values(ctx.session).get(PARTIAL) or _has_unaccepted_rules(authority, ctx, mode))
    ):
        votes.append(_partial(authority, ctx, mode))
    return votes


def _is_undone(authority: Authority, prepared: Prepared, ctx: Context, risk: Risk) -> bool:
    """Whether a dangerous command only removes what undo brings back."""
    if risk.level != "dangerous" or risk.removes is None or authority.settings["shell.undo"] == "off":
        return False
    if "preview" not in prepared.tool.schema["properties"] or prepared.args.get("run_in_background"):
        return False
    cwd = os.path.join(authority.root, str(prepared.args.get("cwd") or ""))
    return ctx.processes.overlays.covers(risk, cwd)


def _vote_on_sandbox(authority: Authority, prepared: Prepared, ctx: Context) -> Vote | None:
    """Ask about a command when the sandbox cannot enforce path rules for it; no allow overrides that."""
    mode = authority.mode(ctx.session)
    if risk_of(prepared, authority.settings) is None or not _has_unaccepted_rules(authority, ctx, mode):
        return None
    if not ctx.processes.sandbox.is_partial:
        return None
    return modes.unattended(mode, _partial(authority, ctx, mode))


def _vote_on_copies(authority: Authority, prepared: Prepared, ctx: Context) -> Vote | None:
    """Ask about a command that may print git's copies of files that rules keep from being read."""
    watches = None if ctx.door.barrier is None else ctx.door.barrier.sandbox
    if watches is None or not watches[0].rules:
        return None
    risk = risk_of(prepared, authority.settings)
    if risk is None:
        return None
    from hilt.authority.git_copies import printed_copy

    cwd = touched("read", str(prepared.args.get("cwd") or "."), ctx.door, authority.root).target
    text = str(prepared.args.get("command") or "")
    path = printed_copy(risk, text, watches[0], ctx.door, cwd)
    if path is None:
        return None
    reason = f"it may print git's copy of {path}, which a rule keeps from being read"
    return modes.unattended(authority.mode(ctx.session), Vote("ask", "rules", reason))


def _partial(authority: Authority, ctx: Context, mode: Mode) -> Vote:
    rules = [f"the rule {rule} is not enforced for commands" for rule in unenforced_rules(authority, ctx, mode)]
    gaps = "; ".join((*ctx.processes.sandbox.missing, *rules))
    return Vote("ask", "sandbox", f"the sandbox is only partial: {gaps}")


def _has_unaccepted_rules(authority: Authority, ctx: Context, mode: Mode) -> bool:
    """Whether a partial sandbox does not enforce some path rules that the user has not accepted yet."""
    accepted = authority.stored_values(ctx.session).get(PARTIAL)
    return not set(unenforced_rules(authority, ctx, mode)) <= set(accepted if isinstance(accepted, list) else ())


def unenforced_rules(authority: Authority, ctx: Context, mode: Mode) -> list[str]:
    """Return the path rules that a sandbox cannot enforce if it cannot close single paths in a folder."""
    bars = authority.bars(ctx.door)
    if bars is None or mode == "plan" or authority.settings["shell.sandbox"] != "workspace-write":
        return []
    read, write = bars.sandbox
    roots = [root.real for root in ctx.door.roots if root.writable]
    open_roots = [root for root in roots if not write.encloses(root)]  # otherwise nothing in it is writable
    return [rule.cited for rule in (*read.within(roots), *write.within(open_roots))]


def sandbox_rules(authority: Authority, ctx: Context) -> list[str]:
    """Return the path rules that the sandbox enforces for the command of a call, each with its effect."""
    full = authority.settings["shell.sandbox"] == "full" and authority.mode(ctx.session) != "plan"
    watches = None if full or ctx.door.barrier is None else ctx.door.barrier.sandbox
    if watches is None:
        return []
    pairs = zip(watches, ("cannot be read", "cannot be written"), strict=True)
    return [f"{rule.cited}: {consequence}" for watch, consequence in pairs for rule in watch.rules]


def _is_granted(
    authority: Authority, prepared: Prepared, ctx: Context, subject: Subject | None, risk: Risk | None
) -> bool:
    """Whether a grant covers a call that would ask; no grant overrides a rule that asks or denies."""
    folder = grant_folder(authority, prepared, ctx.door)
    grants = authority.approvals().grants(authority.place.id)
    # permissions that a tool manages itself are not rules
    allow_rules = [grant.rule for grant in grants if grant.folder in ("", folder) and not grant.rule.startswith(GRANT)]
    if not allow_rules:
        return False
    granted = rules.listed("allow", allow_rules, "grants", authority.names(), home=authority.place.home)
    subject = subject or authority.subject(prepared, ctx.door, risk)
    ruling = rules.decide((*authority.rulesets(), granted), subject)
    return ruling is not None and ruling.verdict == "allow"


def grant_folder(authority: Authority, prepared: Prepared, door: Door) -> str:
    """Return the folder that a grant for the call applies to: its command's working directory, else the workspace."""
    root = authority.place.root
    cwd = prepared.args.get("cwd")
    if not cwd or not any(touch.effect == "execute" for touch in prepared.touches):
        return root
    return touched("read", str(cwd), door, root).target


def _blocked(vote: Vote, risk: Risk | None, ctx: Context, prepared: Prepared) -> ToolError:
    """Return the error for a call that the defaults deny."""
    rejects = prepared.tool.traits.rejects
    refusal = None if rejects is None else rejects(prepared.args)
    if refusal is not None:  # even with force
        advice = "Use a program from the list, or run_shell."
        return ToolError("command_blocked", refusal, suggestion=advice, risk="dangerous")
    if risk is not None and vote.reason == modes.DANGEROUS:
        reason = risk.reason[:300].rstrip(".")
        message = f"The command is dangerous: {reason}."
        if risk.part and len(risk.parts) > 1:
            message += f" Triggered by: {risk.part[:200]}"
        return ToolError("command_blocked", message, risk=risk.level, part=risk.part[:1000])
    if risk is not None and vote.reason == modes.NO_SANDBOX:
        available = ctx.processes.sandbox
        return ToolError(
            "sandbox_unavailable",
            f"Commands cannot be sandboxed on this system: {available.facts}",
            suggestion=f"To fix it: {available.remedy}" if available.remedy else None,
            risk=risk.level,
        )
    return ToolError("denied", f"{vote.reason[:1].upper()}{vote.reason[1:]}.")


def admit(prepared: Prepared, ctx: Context, voters: Sequence[Voter], url: str, *, redirected: bool) -> None:
    """Raise unless a call to this URL would be allowed without asking.

    A URL that the user configured, or that the call named (not `redirected`), needs no rule that allows it: the call as
    a whole was allowed. Rules that deny it or ask about it still apply.
    """
    vote = pipeline.decide(prepared._replace(touches=(Touch("network", url),)), ctx, voters).vote
    if vote.verdict == "deny" or (vote.verdict == "ask" and (redirected or vote.voter == "rules")):
        reason = vote.reason[:1].upper() + vote.reason[1:]
        if vote.verdict == "deny":
            raise vote.error or ToolError("denied", f"{reason}.", url=url[:2000])
        advice = f"Call {prepared.tool.name} with that URL itself, so that the user can be asked."
        raise ToolError("denied", f"{reason}.", suggestion=advice if redirected else None, url=url[:2000])


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
    prepared: Prepared, ctx: Context, voters: Sequence[Voter], hooks: CallHooks | NoHooks, authority: Authority
) -> Explanation:
    """Return the decision on a call with every vote, and the hooks that would run. Nothing runs."""
    decision = pipeline.decide(prepared, ctx, voters)
    script = prepared.tool.traits.script if decision.vote.verdict != "deny" else ""
    decision = pipeline.consult(prepared, ctx, decision, runs_scripts=False)
    runs = any(touch.effect == "execute" for touch in prepared.touches)
    return Explanation(
        decision.vote,
        decision.votes,
        prepared,
        () if isinstance(hooks, NoHooks) else tuple(hooks.would_run(prepared)),
        ctx.mode,
        (*authority.notes(), *hooks.notes),
        script or None,
        tuple(sandbox_rules(authority, ctx)) if runs else (),
    )
