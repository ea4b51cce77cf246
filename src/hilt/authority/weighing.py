"""What rules, the mode, the defaults and grants say of a call, each by itself and all together.

The order: what the mode, the profile or a setting hides is denied first, and nothing lifts that. Then the rules apply,
and the defaults of the mode; an allow of a rule replaces a default, a deny or ask joins it and the stricter counts.
What still asks may be covered by a grant.
"""

from __future__ import annotations

from hilt.authority.authority import GRANT, PARTIAL, Authority
from hilt.authority.targets import effects_of, risk_of, touched
from hilt.context import Context
from hilt.errors import ToolError
from hilt.files.door import Door
from hilt.pipeline import Decision, Prepared
from hilt.policy import modes, rules
from hilt.policy.decision import Vote, decide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.commands.risk import Risk
    from hilt.policy.modes import Mode
    from hilt.policy.rules import Ruling
    from hilt.policy.subject import Subject


def weigh(authority: Authority, prepared: Prepared, ctx: Context) -> Decision:
    """Return the decision of rules, mode, defaults and grants on a call."""
    weighed = _weigh(authority, prepared, ctx)
    unheld = _unheld(authority, prepared, ctx) if weighed.vote.verdict == "allow" else None
    return weighed if unheld is None else Decision(unheld, (*weighed.votes, unheld))


def _weigh(authority: Authority, prepared: Prepared, ctx: Context) -> Decision:
    rulesets = authority.rulesets()
    mode = authority.mode(ctx.session)
    refusal = authority.hidden(prepared.tool, ctx.session)
    through = prepared.call.through
    if refusal is None and through is not None:
        refusal = authority.hidden(authority.catalog.find(through).tool, ctx.session)
    if refusal is not None:
        denied = Vote("deny", "mode", refusal)
        return Decision(denied, (denied,))
    risk = risk_of(prepared, authority.settings)
    votes = _defaults(authority, prepared, ctx, mode, risk)
    default = decide(votes)
    subject = authority.subject(prepared, ctx.door, risk) if rulesets else None
    if subject is not None:
        _hold(authority, ctx, subject)
    ruling = None if subject is None else _ruling(authority, subject, through)
    ruled = None if ruling is None else Vote(ruling.verdict, "rules", ruling.reason.rstrip("."))
    vote = modes.settle(mode, ruled, default)
    heard = (*([ruled] if ruled is not None else []), *votes)
    if vote.verdict == "ask" and _is_granted(authority, prepared, ctx, subject, risk):
        granted = Vote("allow", "grants", "the user keeps allowing this call")
        return Decision(granted, (*heard, granted))
    if vote.verdict == "ask" and subject is not None and ruled is None:
        hint = authority.rulebook.would_allow(subject)
        vote = vote if hint is None else vote._replace(reason=f"{vote.reason}; {hint}")
    partial = next((one for one in votes if one.voter == "sandbox"), vote)
    if vote.verdict == "ask" and partial.voter != vote.voter:
        # one question is asked for both
        vote = partial._replace(reason=f"{vote.reason}; {partial.reason}")
    if vote.verdict == "deny" and vote is default:
        dangerous = risk is not None and vote.reason == modes.DANGEROUS
        why = f"{vote.reason}: {risk.reason[:300]}" if risk is not None and dangerous else vote.reason
        vote = vote._replace(reason=why, error=_blocked(vote, risk, ctx, prepared))
    return Decision(vote, heard if any(one.verdict == vote.verdict for one in heard) else (*heard, vote))


def _ruling(authority: Authority, subject: Subject, through: str | None) -> Ruling | None:
    """Return what the rules say of a call, of the command it would run, and of the tool it was called through."""
    ruling = rules.decide(authority.rulesets(), subject)
    names = authority.names_of(authority.catalog.find("run_shell").tool)
    if subject.command and subject.names != names:
        # a command that run_shell may not run, no other tool may run or keep for later
        shell = subject._replace(tool="run_shell", names=names, effects=frozenset({"execute"}))
        ruling = _denied(authority, shell) or ruling
    if through is not None:
        ruling = _denied(authority, subject._replace(tool=through, names=frozenset((through,)))) or ruling
    return ruling


def _denied(authority: Authority, subject: Subject) -> Ruling | None:
    """Return the rule that denies a call, None when none does."""
    ruling = rules.decide(authority.rulesets(), subject)
    return ruling if ruling is not None and ruling.verdict == "deny" else None


def _hold(authority: Authority, ctx: Context, subject: Subject) -> None:
    """Hold what the call opens to the rules on paths: its names may lead elsewhere after the decision."""
    from hilt.policy import barriers

    barrier = barriers.make_barrier(authority.bars(ctx.door), authority.rulesets(), subject, authority.place.root)
    if barrier is not None:
        ctx.hold(barrier)


def _defaults(authority: Authority, prepared: Prepared, ctx: Context, mode: Mode, risk: Risk | None) -> list[Vote]:
    """Return what happens to a call that no rule applies to: the strictest counts."""
    settings = authority.settings
    starts = risk is not None
    full = settings["shell.sandbox"] == "full" and mode != "plan"
    kind = "none" if full or not starts else ctx.processes.sandbox.kind
    circumstances = modes.Circumstances(
        rules=authority.rulebook.has_files,
        risk=None if risk is None else risk.level,
        forced=prepared.args.get("force") is True,
        sandboxed=not starts or kind != "none",
        full=full,
        action=str(prepared.args.get("action") or ""),
    )
    votes = [modes.mode_vote(mode, prepared.tool, effects_of(prepared), circumstances)]
    if mode == "yolo":
        return votes
    wants_network = starts and any(touch.effect == "network" for touch in prepared.touches)
    if wants_network and settings["shell.network"] != "full":
        votes.append(
            Vote("ask", "network", f"wants the whole network, and shell.network is {settings['shell.network']}")
        )
    if kind == "landlock" and (not authority.kept(ctx.session).get(PARTIAL) or _unaccepted(authority, ctx, mode)):
        votes.append(_partial(authority, ctx, mode))
    return votes


def _unheld(authority: Authority, prepared: Prepared, ctx: Context) -> Vote | None:
    """Ask about a command that would run although rules on paths do not hold for it; no allow lifts that."""
    mode = authority.mode(ctx.session)
    if risk_of(prepared, authority.settings) is None or not _unaccepted(authority, ctx, mode):
        return None
    if ctx.processes.sandbox.kind != "landlock":
        return None
    return modes.unattended(mode, _partial(authority, ctx, mode))


def _partial(authority: Authority, ctx: Context, mode: Mode) -> Vote:
    unenforced = unenforced_rules(authority, ctx, mode)
    gaps = [f"commands are not held to the rule {rule} in the workspace" for rule in unenforced]
    missing = "; ".join((*ctx.processes.sandbox.missing, *gaps))
    return Vote("ask", "sandbox", f"the sandbox here enforces only a part. Missing: {missing}")


def _unaccepted(authority: Authority, ctx: Context, mode: Mode) -> bool:
    """Whether there are rules on paths that a partial sandbox does not enforce, and that nobody was told of."""
    accepted = authority.kept(ctx.session).get(PARTIAL)
    return not set(unenforced_rules(authority, ctx, mode)) <= set(accepted if isinstance(accepted, list) else ())


def unenforced_rules(authority: Authority, ctx: Context, mode: Mode) -> list[str]:
    """Return the rules on paths that a sandbox cannot enforce which has no way to close a path in a folder."""
    bars = authority.bars(ctx.door)
    if bars is None or mode == "plan" or authority.settings["shell.sandbox"] != "workspace-write":
        return []
    from hilt.policy.barriers import cited

    read, write = bars.sandbox
    roots = [root.real for root in ctx.door.roots if root.writable]
    open_roots = [root for root in roots if not write.encloses(root)]  # else nothing in it is writable
    return [cited(rule) for rule in (*read.within(roots), *write.within(open_roots))]


def held_rules(authority: Authority, ctx: Context) -> list[str]:
    """Return the rules on paths that hold for the command of a call, each with what it does."""
    from hilt.policy.barriers import cited

    full = authority.settings["shell.sandbox"] == "full" and authority.mode(ctx.session) != "plan"
    watches = None if full or ctx.door.barrier is None else ctx.door.barrier.sandbox
    if watches is None:
        return []
    told = zip(watches, ("cannot be read", "cannot be written"), strict=True)
    return [f"{cited(rule)}: {what}" for watch, what in told for rule in watch.rules]


def _is_granted(
    authority: Authority, prepared: Prepared, ctx: Context, subject: Subject | None, risk: Risk | None
) -> bool:
    """Whether a grant covers a call that would ask; no grant covers what a rule asks about or denies."""
    folder = grant_folder(authority, prepared, ctx.door)
    grants = authority.approvals().grants(authority.place.id)
    # permissions that a tool asks about itself are no rules
    kept = [grant.rule for grant in grants if grant.folder in ("", folder) and not grant.rule.startswith(GRANT)]
    if not kept:
        return False
    granted = rules.listed("allow", kept, "grants", authority.names(), home=authority.place.home)
    subject = subject or authority.subject(prepared, ctx.door, risk)
    ruling = rules.decide((*authority.rulesets(), granted), subject)
    return ruling is not None and ruling.verdict == "allow"


def grant_folder(authority: Authority, prepared: Prepared, door: Door) -> str:
    """Return the folder that a grant of the call is for: the one its command runs in, else the workspace."""
    root = authority.place.root
    cwd = prepared.args.get("cwd")
    if not cwd or not any(touch.effect == "execute" for touch in prepared.touches):
        return root
    return touched("read", str(cwd), door, root).target


def _blocked(vote: Vote, risk: Risk | None, ctx: Context, prepared: Prepared) -> ToolError:
    """Return the error for a call that the defaults deny."""
    refuses = prepared.tool.traits.refuses
    refusal = None if refuses is None else refuses(prepared.args)
    if refusal is not None:  # which no force lifts
        advice = "Use a program of the list, or run_shell."
        return ToolError("command_blocked", refusal, suggestion=advice, risk="dangerous")
    if risk is not None and vote.reason == modes.DANGEROUS:
        reason = risk.reason[:300].rstrip(".")
        message = f"The command is dangerous: {reason}."
        if risk.part and len(risk.parts) > 1:
            message += f" The part is: {risk.part[:200]}"
        return ToolError("command_blocked", message, risk=risk.level, part=risk.part[:1000])
    if risk is not None and vote.reason == modes.NO_SANDBOX:
        available = ctx.processes.sandbox
        return ToolError(
            "sandbox_unavailable",
            f"Commands cannot be confined here: {available.facts}",
            suggestion=available.remedy or None,
            risk=risk.level,
        )
    return ToolError("denied", f"{vote.reason[:1].upper()}{vote.reason[1:]}.")
