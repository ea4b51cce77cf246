"""The user's consent to a call: what they see, what their answer is bound to, and which grants it stores (ADR 0050).

The answer comes from a flag, from a terminal, or from another process through the database.

An approval is bound to the tool and its arguments; for a change also to the files as they were shown, and to the diff.
The files are checked again after the answer, because they may change while the user is reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hilt.authority.authority import LOOKS, PARTIAL, Authority
from hilt.authority.targets import has_dry_run, risk_of
from hilt.authority.weighing import grant_folder, unenforced_rules
from hilt.call import ApprovalRequest, Asker, Call, Json, ShownChange, ShownFile, UserAnswer
from hilt.config import RuntimePaths, Settings
from hilt.context import Context
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.formats.digests import sha256
from hilt.pipeline import Prepared
from hilt.policy import rules
from hilt.policy.decision import OWN, Vote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.shell.risk import Risk
    from hilt.state.approvals import Approval, Approvals


class Sight(NamedTuple):
    """What the user sees besides the arguments of a call, and the hashes that the answer is bound to.

    `is_complete` is false if the user cannot see all of a change; then they can approve it only once.
    """

    facts: Mapping[str, Any] = {}
    files: Mapping[str, bytes | None] = {}
    is_complete: bool = True


NOTHING = Sight()
# voters whose questions no grant can settle
_NEVER_GRANTED = (OWN, "rules", "hooks", "paths")
SHOWN = "shown"  # the key in `files` for the tool's description of what a call acts on


class PreviewWanted(Exception):
    """The user wants a preview of the call before they answer; `preview_id` is set if an earlier run made it."""

    def __init__(self, preview_id: str = "") -> None:
        super().__init__()
        self.preview_id = preview_id


class Approved(NamedTuple):
    """Who approved a call, and the arguments with which it runs: after a preview, those that apply it."""

    by: str
    args: dict[str, Any]


class Consent:
    """Obtains approvals in one workspace. Safe to use from many threads."""

    def __init__(
        self, place: RuntimePaths, settings: Settings, approvals: Callable[[], Approvals], asker: Asker | None
    ) -> None:
        self._place = place
        self._settings = settings
        self._approvals = approvals
        self._asker = asker
        self._approves_all = ""  # who answered "all", for this and all later questions

    def obtain(
        self,
        asked: ApprovalRequest,
        args: Mapping[str, Json],
        ctx: Context,
        call: Call,
        sight: Sight = NOTHING,
        look: Callable[[], Sight] = lambda: NOTHING,
    ) -> str:
        """Return who approved the question; raise if nobody did, or PreviewWanted if they want a preview first.

        The approval is bound to all arguments and to `sight`; `look` computes it again after the answer.
        """
        from hilt.state.approvals import call_digest, is_outdated

        files = sight.files
        digest = call_digest(asked.tool, args, files)
        approvals, workspace = self._approvals(), self._place.id
        if asked.preview and approvals.consume_approval(workspace, ctx.session, digest, "preview"):
            raise PreviewWanted
        approval: Approval | None = None
        if call.approval is None:
            approval = approvals.consume_approval(workspace, ctx.session, digest)
        elif not is_outdated(given := approvals.find(call.approval), asked):
            approval = approvals.use(given.id, workspace, ctx.session, digest)
        if approval is not None:
            return approval.answered_by or "approval"
        answer = self._answered(asked, digest, ctx)
        by = self._settle(asked, answer) if answer is not None else self._wait(asked, ctx, digest)
        current = look().files
        if current.get(SHOWN) != files.get(SHOWN):
            raise ToolError(
                "stale_elements", f"The target of {asked.tool} changed while waiting for the user's answer."
            )
        if current != files:
            raise ToolError(
                "stale_file",
                f"The files that {asked.tool} would change were modified while waiting for the user's answer.",
                suggestion="Read them again, then repeat the call.",
            )
        return by

    def can_ask(self, ctx: Context) -> bool:
        """Whether a user is available to answer questions of this call."""
        if self._settings["approve"] is not None or self._approves_all or self._asker is not None:
            return True
        attendant = ctx.attendant
        return (attendant is not None and attendant.can_ask) or self._approvals().attended()

    def _answered(self, asked: ApprovalRequest, digest: str, ctx: Context) -> UserAnswer | None:
        automatic = self._settings["approve"]
        if automatic is not None:
            return UserAnswer(automatic, "--approve deny", "--approve")
        if self._approves_all:
            return UserAnswer("once", by=self._approves_all)
        answer = None if ctx.attendant is None else ctx.attendant.approve(asked, digest)
        return self._ask_here(self._asker, asked, digest, ctx) if answer is None and self._asker is not None else answer

    def _ask_here(self, asker: Asker, asked: ApprovalRequest, digest: str, ctx: Context) -> UserAnswer:
        """Ask the user at this process; an open console may answer first."""
        approvals, workspace = self._approvals(), self._place.id
        ask_until = getattr(asker, "ask_until", None)  # of prompts that can be interrupted
        if ask_until is None:
            return asker(asked)
        from hilt.authority.elsewhere import ask_both, ask_here

        if not approvals.attended():
            answer: UserAnswer = ask_here(ask_until, asked, ctx.fence)
            return answer
        seconds = self._settings["approvals.timeout_s"]
        pending = approvals.ask(workspace, ctx.session, digest, asked, seconds=seconds)
        answer = ask_both(ask_until, approvals, pending, ctx.fence)
        if answer.kind == "preview":
            approvals.consume_approval(workspace, ctx.session, digest, "preview")
        elif answer.kind != "deny":
            approvals.use(pending.id, workspace, ctx.session, digest)
        return answer

    def _settle(self, asked: ApprovalRequest, answer: UserAnswer) -> str:
        by = answer.by or "terminal"
        if answer.kind == "preview":
            raise PreviewWanted(answer.preview_id)
        if answer.kind == "deny":
            why = f": {answer.reason}" if answer.reason else "; no reason was given."
            raise ToolError("USER_REJECTION", f"The user denied this call of {asked.tool}{why}")
        if answer.kind == "always":
            for rule in asked.rules:
                self._approvals().add_grant(self._place.id, rule, by=by, folder=asked.folder or asked.workspace)
        if answer.kind == "all":
            self._approves_all = by
        return by

    def _wait(self, asked: ApprovalRequest, ctx: Context, digest: str) -> str:
        """Ask through the database, and wait while a user is available to answer."""
        from hilt.state.approvals import refusal

        approvals, workspace = self._approvals(), self._place.id
        seconds = self._settings["approvals.timeout_s"]
        pending = approvals.ask(workspace, ctx.session, digest, asked, seconds=seconds)
        if approvals.attended():
            pending = approvals.wait(pending.id, lambda seconds: self._pause(seconds, ctx.fence, pending))
            if pending.state == "preview" and approvals.consume_approval(workspace, ctx.session, digest, "preview"):
                raise PreviewWanted
            if pending.state == "approved":
                return approvals.use(pending.id, workspace, ctx.session, digest).answered_by
        raise refusal(pending)

    def _pause(self, seconds: float, fence: Fence, pending: Approval) -> None:
        from hilt.state.approvals import refusal

        fence.check()
        if not self._approvals().attended():
            raise refusal(pending)  # the question stays pending
        time.sleep(seconds)


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
        sight = _look_at(prepared, ctx, risk)
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
    asked = _question(
        authority.place,
        prepared.tool.name,
        _explicit_arguments(prepared),
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
    asked = _question(authority.place, tool, facts, summary, ctx.session, rules=grants, client=ctx.client or "")
    return authority.consent().obtain(asked, facts, ctx, call)


def marked(authority: Authority, ctx: Context, text: str) -> str:
    """Return a text for the user, prefixed with the agent that it comes from, if any."""
    agent = authority.agent(ctx.session)
    return text if agent is None else f"[agent {agent.name}, {agent.id}] {text}"


def _question(
    place: RuntimePaths, tool: str, args: Mapping[str, Json], reason: str, session: str, **facts: Any
) -> ApprovalRequest:
    """Return the question to the user."""
    return ApprovalRequest(
        tool=tool, arguments=dict(args), reason=reason, workspace=place.root, session=session, **facts
    )


def _explicit_arguments(prepared: Prepared) -> dict[str, Json]:
    """Return the arguments that differ from their defaults."""
    properties = prepared.tool.schema.get("properties", {})
    return {
        name: value
        for name, value in prepared.args.items()
        if "default" not in properties.get(name, {}) or properties[name]["default"] != value
    }


def _look_at(prepared: Prepared, ctx: Context, risk: Risk | None) -> Sight:
    """Return what the user must see of a call: the command and its risk, or the diff of a change."""
    if risk is not None:
        command = next(touch.target for touch in prepared.touches if touch.effect == "execute")
        return Sight(
            {"kind": "command", "command": command, "risk": risk.level, "part": risk.part, "risk_reason": risk.reason}
        )
    if "write" not in prepared.tool.effects:
        return Sight()
    seen = ctx.workspace.seen
    before = dict(seen)
    try:
        return _look_at_change(prepared, ctx)
    finally:
        # the user sees this, not the session: a file that changed since the session read it is still stale
        seen.clear()
        seen.update(before)


def _look_at_change(prepared: Prepared, ctx: Context) -> Sight:
    targets = [touch.target for touch in prepared.touches if touch.effect == "write"]
    files = {path: _hash(path, ctx) for path in targets}
    if not has_dry_run(prepared.tool):
        unknown = ShownFile(".", "files in it changed", missing="which ones is known only when the call runs")
        change = ShownChange((unknown,) if "." in targets else ())
        return Sight({"kind": "edit", **change._asdict()}, files, change.is_complete)
    try:
        preview = prepared.tool.run(ctx, {**prepared.args, "dry_run": True})
    except ToolError as error:
        return Sight({"kind": "edit", "diff": f"[no preview: {error.message}]"}, files, is_complete=False)
    # for a folder: the files in the diff, and the diff itself, because more files may be added to the folder
    files |= {path: _hash(path, ctx) for path in _diffed_files(preview.view)}
    files[""] = sha256(preview.text.encode("utf-8", "surrogatepass"))
    change = preview.change or ShownChange(diff=preview.text)
    return Sight({"kind": "edit", **change._asdict()}, files, change.is_complete)


def _diffed_files(view: Mapping[str, Any] | None) -> list[str]:
    """Return the files in the diffs of a view."""
    items = () if view is None else view.get("items", (view,))
    return [item["path"] for item in items if item.get("type") == "diff"]


def _hash(path: str, ctx: Context) -> bytes | None:
    """Return a hash of a file that changes with its contents; None if there is no file."""
    try:
        return sha256(ctx.workspace.read(path, remember=False).data)
    except ToolError as error:
        if error.code != "file_too_large":
            return None
    status = ctx.workspace.status(path)[1]
    return sha256(f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}".encode())
