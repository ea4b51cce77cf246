"""Who may do what in one workspace: rule files, the mode, grants and approvals, joined into one vote on a call.

Rule files are looked at again when they have changed, at most once a second. What nobody has restricted costs a call
next to nothing: reading in a workspace without rules and hooks is decided without any of the parts below.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tongs.call import Call, Json
from tongs.catalog import Catalog, built_in_names, dialect, dialect_names
from tongs.config import Settings
from tongs.context import Context, Fence
from tongs.declaration import Tool
from tongs.digests import sha256
from tongs.door import Door
from tongs.errors import ToolError
from tongs.pipeline import Prepared
from tongs.policy.decision import Vote, decide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tongs.hooks import Hooks, Seen
    from tongs.policy.commands import Risk
    from tongs.policy.forms import Names
    from tongs.policy.hooks import Hook
    from tongs.policy.modes import Mode, Traits
    from tongs.policy.rules import RuleSet, Ruling
    from tongs.policy.subject import Subject
    from tongs.sandbox.process import Finished
    from tongs.state.approvals import Approvals, Asked
    from tongs.state.sessions import SessionValues
    from tongs.state.trust import Trust

REFRESH_SECONDS = 1.0
FILE_BYTES = 1 << 20
FILES_MAX = 40  # folders that are walked up
DIFF_CHARACTERS = 50_000  # of a change that a person is shown
RULES = "permissions.yaml"
MODE = "mode"  # the key of a session's own mode
PARTIAL = "partial_sandbox"  # the key under which a session remembers that the user accepted one

_READING = Vote("allow", "default", "it reads")
READS = frozenset({"read"})


class Answer(NamedTuple):
    """What a person said to a call: once, always or deny, and why."""

    kind: str
    reason: str = ""
    by: str = ""


Asker = Callable[["Asked"], Answer]  # a person who can be asked here and now
Questioner = Callable[[Sequence[Any]], dict[str, Any]]  # answers questions, by question


class Place(NamedTuple):
    """Where a runtime is: its workspace and the folders of the user."""

    root: str
    id: str
    config: str
    state: str
    home: str


class Authority:
    """Decides on the calls of one workspace. Safe to use from many threads."""

    def __init__(
        self, place: Place, settings: Settings, catalog: Catalog, environ: Mapping[str, str], asker: Asker | None
    ) -> None:
        self.place = place
        self._settings = settings
        self._catalog = catalog
        self._environ = environ
        self._asker = asker
        self._lock = threading.RLock()
        self._names: Names | None = None
        self._approvals: Approvals | None = None
        self._trust: Trust | None = None
        self._values: SessionValues | None = None
        self._database = os.path.join(place.state, "state.db")
        self._looked = -REFRESH_SECONDS
        self._stamps: tuple[object, ...] = ()
        self._rulesets: tuple[RuleSet, ...] = ()
        self._has_files = False
        self._hook_files = False
        self._sessions: dict[str, tuple[object, dict[str, Json]]] = {}
        self._allows_all = False
        # what makes even a plain read worth a longer look
        self._is_plain = (
            settings["mode"] == "normal" and settings["profile"] == "full" and not settings["disabledTools"]
        )

    def close(self) -> None:
        """Close what was opened."""
        with self._lock:
            for part in (self._approvals, self._trust, self._values):
                if part is not None:
                    part.close()

    # --- parts ----------------------------------------------------------------------------------------------------

    def approvals(self) -> Approvals:
        """Return the approvals and grants."""
        with self._lock:
            if self._approvals is None:
                from tongs.state.approvals import Approvals

                self._approvals = Approvals(self.place.state)
            return self._approvals

    def trust(self) -> Trust:
        """Return which files of projects the person trusts."""
        with self._lock:
            if self._trust is None:
                from tongs.state.trust import Trust, trusts_all

                self._trust = Trust(self.place.state, everything=trusts_all(self._environ))
            return self._trust

    def values(self) -> SessionValues:
        """Return what sessions keep."""
        with self._lock:
            if self._values is None:
                from tongs.state.sessions import SessionValues

                self._values = SessionValues(self.place.state)
            return self._values

    def names(self) -> Names:
        """Return every name a rule may use, with all names of the same tool."""
        with self._lock:
            if self._names is None:
                self._names = _names(self._catalog)
            return self._names

    # --- sessions -------------------------------------------------------------------------------------------------

    def kept(self, session: str) -> dict[str, Json]:
        """Return what a session keeps; read again only when the database has changed."""
        stamp = self._stamp()
        if stamp is None:
            return {}
        found = self._sessions.get(session)
        if found is None or found[0] != stamp:
            found = (stamp, self.values().all(self.place.id, session))
            self._sessions[session] = found
        return found[1]

    def _stamp(self) -> object:
        # the journal is where every change goes; it is gone when the database is closed, and that changes too
        if not os.access(self._database, os.F_OK):
            return None
        return _status(self._database), _status(self._database + "-wal")

    def mode(self, session: str) -> Mode:
        """Return the mode a session is in: its own, else that of the settings."""
        from tongs.policy.modes import named

        own = self.kept(session).get(MODE)
        return named(own if isinstance(own, str) else self._settings["mode"])

    # --- rules ----------------------------------------------------------------------------------------------------

    def rulesets(self) -> tuple[RuleSet, ...]:
        """Return the rules in force, from the personal file down to the project's."""
        self._refresh()
        return self._rulesets

    def rule_files(self) -> list[str]:
        """Return the paths at which rule files may be, the personal one first."""
        place = self.place
        found = [os.path.join(place.config, RULES)]
        for folder in _upward(place.root, place.home):
            found += [os.path.join(folder, name, RULES) for name in (".tongs", ".jcli")]
        return found

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked < REFRESH_SECONDS:
            return
        with self._lock:
            if now - self._looked < REFRESH_SECONDS:
                return
            files = self.rule_files()
            hook_files = (
                os.path.join(self.place.config, "hooks.yaml"),
                os.path.join(self.place.root, ".tongs/hooks.yaml"),
            )
            self._hook_files = any(map(os.path.lexists, hook_files))
            present = [(path, _status(path)) for path in files]
            # what is trusted may have changed while the files have not
            trusted = self._stamp() if any(status is not None for _, status in present[1:]) else None
            stamps = (tuple(present), trusted)
            if stamps != self._stamps:
                self._rulesets = tuple(self._read_all([path for path, status in present if status is not None]))
                self._has_files = any(status is not None for _, status in present)
                self._stamps = stamps
            self._looked = now

    def _read_all(self, paths: Iterable[str]) -> Iterable[RuleSet]:
        always = self._settings["alwaysAllow"]
        if always:
            from tongs.policy import rules

            yield rules.listed("allow", always, "alwaysAllow", self.names(), home=self.place.home)
        for path in paths:
            yield self._read(path)

    def _read(self, path: str) -> RuleSet:
        from tongs.policy import rules

        personal = path.startswith(self.place.config + os.sep)
        shown = RULES if personal else os.path.relpath(path, self.place.root)
        try:
            data = _contents(path, follow=personal)
            text = data.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
            return rules.broken(shown, f"the file cannot be read: {reason}", trusted=personal)
        trusted = personal or self.trust().is_trusted("rules", path, sha256(data))
        return rules.parse(text, shown, self.names(), trusted=trusted, home=self.place.home)

    # --- deciding -------------------------------------------------------------------------------------------------

    def is_calm(self, session: str) -> bool:
        """Whether nobody has restricted anything: no rules, no hooks, no mode but the normal one."""
        self._refresh()
        return (
            self._is_plain
            and not self._has_files
            and not self._rulesets
            and not self._hook_files
            and not self.kept(session)
        )

    def vote(self, prepared: Prepared, ctx: Context) -> Vote:
        """Return what rules, mode and defaults say of a call."""
        return self._weigh(prepared, ctx)[0]

    def _weigh(self, prepared: Prepared, ctx: Context) -> tuple[Vote, Ruling | None]:
        from tongs.policy import modes, rules

        rulesets = self.rulesets()
        mode = self.mode(ctx.session)
        refusal = self.hidden(prepared.tool, ctx.session)
        if refusal is not None:
            return Vote("deny", "mode", refusal), None
        risk = _risk(prepared, self._settings)
        default = self._default(prepared, ctx, mode, risk)
        subject = self.subject(prepared, ctx.door, risk) if rulesets else None
        ruling = rules.decide(rulesets, subject) if subject is not None else None
        if subject is not None and prepared.tool.name == "register_hook" and subject.command:
            ruling = self._stricter_on_command(subject, ruling)
        ruled = None if ruling is None else Vote(ruling.verdict, "rules", ruling.reason.rstrip("."))
        vote = modes.settle(mode, ruled, default)
        if vote.verdict == "ask" and self._is_granted(prepared, ctx, risk):
            return Vote("allow", "grants", "the user keeps allowing this call"), ruling
        if vote.verdict == "deny" and vote is default:
            why = (
                f"{vote.reason}: {risk.reason[:300]}"
                if risk is not None and "dangerous" in vote.reason
                else vote.reason
            )
            return vote._replace(reason=why, error=_blocked(vote, risk, ctx)), ruling
        return vote, ruling

    def _stricter_on_command(self, subject: Subject, ruling: Ruling | None) -> Ruling | None:
        """What is denied to be run is denied to be registered, to be run later."""
        from tongs.policy import rules

        shell = subject._replace(
            tool="run_shell", names=self.names().twins["run_shell"], effects=frozenset({"execute"})
        )
        denied = rules.decide(self.rulesets(), shell)
        return denied if denied is not None and denied.verdict == "deny" else ruling

    def _default(self, prepared: Prepared, ctx: Context, mode: Mode, risk: Risk | None) -> Vote:
        from tongs.policy import modes

        settings = self._settings
        starts = risk is not None
        full = settings["shell.sandbox"] == "full" and mode != "plan"
        kind = "none" if full or not starts else ctx.processes.sandbox.kind
        circumstances = modes.Circumstances(
            rules=self._has_files,
            risk=None if risk is None else risk.level,
            forced=prepared.args.get("force") is True,
            sandboxed=not starts or kind != "none",
            full=full,
            action=str(prepared.args.get("action") or ""),
        )
        votes = [modes.mode_vote(mode, _traits(prepared.tool, _effects(prepared)), circumstances)]
        if mode == "yolo":
            return votes[0]
        if (
            any(touch.effect == "network" for touch in prepared.touches)
            and starts
            and settings["shell.network"] != "full"
        ):
            votes.append(
                Vote("ask", "network", f"wants the whole network, and shell.network is {settings['shell.network']}")
            )
        if kind == "landlock" and not self.kept(ctx.session).get(PARTIAL):
            sandbox = ctx.processes.sandbox
            gaps = "; ".join(sandbox.missing)
            votes.append(Vote("ask", "sandbox", f"the sandbox here enforces only a part. Missing: {gaps}"))
        return decide(votes)

    def _is_granted(self, prepared: Prepared, ctx: Context, risk: Risk | None) -> bool:
        """Whether a grant covers a call that would ask; no grant covers what a rule asks about or denies."""
        from tongs.policy import rules

        if self._allows_all:
            return True
        kept = self.approvals().grants(self.place.id)
        if not kept:
            return False
        granted = rules.listed("allow", [grant.rule for grant in kept], "grants", self.names(), home=self.place.home)
        subject = self.subject(prepared, ctx.door, risk)
        ruling = rules.decide((*self.rulesets(), granted), subject)
        return ruling is not None and ruling.verdict == "allow"

    def hidden(self, tool: Tool, session: str) -> str | None:
        """Return why a tool is neither listed nor run; None when it is there."""
        if self._is_plain and not self.kept(session):
            return None
        from tongs.policy import modes

        settings = self._settings
        twins = self.names().twins
        disabled = {twin for name in settings["disabledTools"] for twin in twins.get(name, (name,))}
        return modes.hidden(
            self.mode(session), settings["profile"], _traits(tool, tool.effects), disabled=disabled, action=None
        )

    def subject(self, prepared: Prepared, door: Door, risk: Risk | None) -> Subject:
        """Return a call as rules see it, with its paths resolved."""
        from tongs.policy.subject import Subject, Touched

        tool = prepared.tool
        touches: list[Touched] = []
        for touch in prepared.touches:
            if touch.effect in ("read", "write"):
                touches.append(self._touched(touch.effect, touch.target, touch.target, door))
            elif touch.effect == "network":
                touches.append(Touched("network", touch.target))
        command = next((touch.target for touch in prepared.touches if touch.effect == "execute"), "")
        if risk is not None:
            cwd = str(prepared.args.get("cwd") or ".")
            for part in risk.parts:
                if part.kind == "redirection":
                    touches += [
                        self._touched("write", os.path.join(cwd, os.path.expanduser(path)), path, door)
                        for path in part.writes
                    ]
        return Subject(
            tool=tool.name,
            names=self.names().twins.get(tool.name, frozenset((tool.name,))),
            effects=_effects(prepared),
            touches=tuple(touches),
            command=command,
            parts=() if risk is None else risk.parts,
        )

    def _touched(self, effect: str, path: str, named: str, door: Door) -> Any:
        from tongs.policy.subject import Touched

        try:
            root, parts = door.locate(path)
            target = os.path.realpath(os.path.join(root.real, *parts))
        except (ToolError, ValueError):
            target = os.path.realpath(os.path.join(self.place.root, path.replace("\0", "")))
        inside = os.path.relpath(target, self.place.root)
        relative = None if inside == ".." or inside.startswith("../") else inside
        return Touched(effect, target, relative, os.path.isdir(target), named)

    # --- approving ------------------------------------------------------------------------------------------------

    def approve(self, prepared: Prepared, decision: Vote, ctx: Context, call: Call) -> str:
        """Return who approved a call that asks, or raise that nobody did."""
        from tongs.policy import rules

        risk = _risk(prepared, self._settings)
        subject = self.subject(prepared, ctx.door, risk)
        facts = _shown(prepared, ctx, risk)
        asked = self._asked(
            prepared.tool.name, prepared.args, decision.reason, ctx.session, rules.narrowest(subject), **facts
        )
        by = self._settle(asked, ctx, call, _hashes(prepared, ctx) if facts.get("kind") == "edit" else {})
        if decision.voter == "sandbox":
            self.values().set(self.place.id, ctx.session, PARTIAL, value=True)
        return by

    def approve_summary(self, tool: str, summary: str, ctx: Context, call: Call, facts: Mapping[str, Json]) -> str:
        """As `approve`, for something a tool asks about while it runs."""
        return self._settle(self._asked(tool, facts, summary, ctx.session, ()), ctx, call, {})

    def _asked(
        self, tool: str, args: Mapping[str, Json], reason: str, session: str, rules: tuple[str, ...], **facts: Any
    ) -> Asked:
        from tongs.state.approvals import Asked

        return Asked(
            tool=tool,
            arguments=dict(args),
            reason=reason,
            rules=rules,
            workspace=self.place.root,
            session=session,
            **facts,
        )

    def _settle(self, asked: Asked, ctx: Context, call: Call, files: Mapping[str, bytes | None]) -> str:
        from tongs.state import approvals as questions

        approvals, id = self.approvals(), self.place.id
        digest = questions.call_digest(asked.tool, asked.arguments, files)
        if call.approval is not None:
            found = approvals.use(approvals.find(call.approval).id, id, ctx.session, digest)
            return found.answered_by or "approval"
        automatic = self._settings["approve"]
        if automatic is not None:
            return self._answer(
                asked, Answer("deny" if automatic == "deny" else automatic, "--approve deny", "--approve")
            )
        if self._asker is not None:
            return self._answer(asked, self._asker(asked))
        seconds = self._settings["approvals.timeout_s"]
        pending = approvals.ask(id, ctx.session, digest, asked, seconds=seconds)
        if approvals.attended(id):
            pending = approvals.wait(pending.id, lambda pause: _pause(pause, ctx.fence))
            if pending.state == "approved":
                return approvals.use(pending.id, id, ctx.session, digest).answered_by
        raise questions.refusal(pending)

    def _answer(self, asked: Asked, answer: Answer) -> str:
        if answer.kind == "deny":
            why = f": {answer.reason}" if answer.reason else "; no reason was given."
            raise ToolError("USER_REJECTION", f"The user denied this call of {asked.tool}{why}")
        if answer.kind == "always":
            for rule in asked.rules:
                self.approvals().add_grant(self.place.id, rule, by=answer.by or "terminal", folder=asked.workspace)
        if answer.kind == "all":
            self._allows_all = True
        return answer.by or "terminal"

    # --- hooks ----------------------------------------------------------------------------------------------------

    def hooks(self, ctx: Context, fence: Fence) -> Hooks | None:
        """Return the hooks of a session; None when there are none."""
        self._refresh()
        kept = self.kept(ctx.session).get("hooks")
        if not self._hook_files and kept is None:
            return None
        return self.all_hooks(ctx, fence)

    def all_hooks(self, ctx: Context, fence: Fence) -> Hooks:
        """Return the hooks of a session, whether there are any or not."""
        from tongs import hooks

        place, session = self.place, ctx.session
        sets = hooks.load(
            config=place.config,
            root=place.root,
            session=self.values().get(place.id, session, hooks.VALUE),
            names=self.names,
            trusted=lambda path, data: self.trust().is_trusted("hooks", path, sha256(data)),
            home=place.home,
        )
        run = hooks.runner(lambda: ctx.processes, fence, self._environ, place.root)

        def permitted(hook: Hook, data: bytes) -> Finished:
            if hook.source == "session":
                self._refuse_command(hook.command)
            return run(hook, data)

        return hooks.Hooks(
            sets,
            permitted,
            session=session,
            names=self.names,
            change=lambda change: self.values().change(place.id, session, hooks.VALUE, change),
            home=place.home,
        )

    def _refuse_command(self, command: str) -> None:
        """Raise when a rule denies a command that nobody decides on any more."""
        if not self.rulesets():
            return
        from tongs.policy import rules
        from tongs.policy.commands import classify
        from tongs.policy.subject import Subject

        names = self.names().twins["run_shell"]
        parts = classify(command).parts
        found = rules.decide(self.rulesets(), Subject("run_shell", names, frozenset({"execute"}), (), command, parts))
        if found is not None and found.verdict == "deny":
            raise ToolError("hook_blocked", f"The command of a hook is denied: {found.reason}")

    def seen(self, prepared: Prepared, door: Door) -> Seen:
        """Return a call as hooks see it."""
        from tongs.hooks import Seen

        return Seen(
            prepared.tool.name,
            prepared.args,
            prepared.touches,
            lambda: self.subject(prepared, door, _risk(prepared, self._settings)),
        )


def reads(prepared: Prepared, ctx: Context) -> Vote | None:
    """Allow what only reads: the whole vote where nobody has restricted anything."""
    return _READING if prepared.tool.effects == READS else None


class Standing:
    """What one call may know and ask of the people it works for."""

    def __init__(self, authority: Authority, ctx: Context, call: Call, questioner: Questioner | None) -> None:
        self._authority = authority
        self._ctx = ctx
        self._call = call
        self._questioner = questioner

    @property
    def mode(self) -> str:
        """The mode that the session is in."""
        return self._authority.mode(self._ctx.session)

    @property
    def values(self) -> Values:
        """What the session keeps."""
        return Values(self._authority, self._authority.place.id, self._ctx.session)

    @property
    def hooks(self) -> Hooks:
        """The hooks of the session."""
        return self._authority.all_hooks(self._ctx, self._ctx.fence)

    def set_mode(self, mode: str | None) -> None:
        """Change the mode of the session; None goes back to that of the settings."""
        self.values.set(MODE, mode)

    def hidden(self, tool: Tool) -> str | None:
        """Return why a tool is not there in this mode and profile."""
        return self._authority.hidden(tool, self._ctx.session)

    def ask(self, questions: Sequence[Any]) -> dict[str, Any]:
        """Ask the user; answers come by question."""
        if self._questioner is None:
            raise ToolError("no_one_to_ask", "Nobody is there who could answer.")
        return self._questioner(questions)

    def approve(self, summary: str, **facts: Any) -> None:
        """Return when the user approves, raise when not."""
        self._authority.approve_summary(self._call.tool, summary, self._ctx, self._call, facts)


class Values:
    """What one session keeps, for its tools."""

    def __init__(self, authority: Authority, workspace: str, session: str) -> None:
        self._authority = authority
        self._key = (workspace, session)

    def get(self, key: str) -> Json:
        """Return a value, None when there is none."""
        return self._authority.values().get(*self._key, key)

    def set(self, key: str, value: Json) -> None:
        """Keep a value; None removes it."""
        self._authority.values().set(*self._key, key, value)


def _names(catalog: Catalog) -> Names:
    from tongs.policy.forms import Names

    groups: dict[str, set[str]] = {}
    for name in (*built_in_names(), *catalog.extra_names()):
        groups.setdefault(_family(name), set()).add(name)
    for spoken in dialect_names():
        for entry in dialect(spoken).values():
            groups.setdefault(_family(entry.tool), set()).update((entry.name, entry.tool))
    twins = {name: frozenset(group) for group in groups.values() for name in group}

    def effects(name: str) -> frozenset[str]:
        try:
            return catalog.find(name).tool.effects
        except ToolError:
            return frozenset()

    return Names(twins, effects)


def _family(tool: str) -> str:
    """Both ways to run a command are one tool to rules."""
    return "run_shell" if tool == "shell_exec" else tool


def _traits(tool: Tool, effects: frozenset[str]) -> Traits:
    from tongs.policy.modes import Traits

    # what the program that uses the library gave is its own; its effects speak for it
    return Traits(tool.name, effects)


def _effects(prepared: Prepared) -> frozenset[str]:
    """The effects of this call: one that only says what it would do reads."""
    effects = prepared.tool.effects
    if prepared.args.get("dry_run") is True:
        return frozenset({"read"})
    if any(touch.effect == "network" for touch in prepared.touches):
        return effects | {"network"}
    return effects


def _risk(prepared: Prepared, settings: Settings) -> Risk | None:
    """The risk of the command that a call runs; None when it runs none."""
    for touch in prepared.touches:
        if touch.effect == "execute":
            from tongs.policy.commands import classify

            return classify(touch.target, sandboxed=settings["shell.sandbox"] != "full")
    return None


def _blocked(vote: Vote, risk: Risk | None, ctx: Context) -> ToolError:
    """The error for a call that the defaults refuse."""
    if risk is not None and risk.level == "dangerous" and "dangerous" in vote.reason:
        reason = risk.reason[:300].rstrip(".")
        message = f"The command is dangerous: {reason}."
        if risk.part and len(risk.parts) > 1:
            message += f" The part is: {risk.part[:200]}"
        return ToolError("command_blocked", message, risk=risk.level, part=risk.part[:1000])
    if risk is not None:
        available = ctx.processes.sandbox
        return ToolError(
            "sandbox_unavailable",
            f"Commands cannot be confined here: {available.facts}",
            suggestion=available.remedy or None,
            risk=risk.level,
        )
    return ToolError("denied", f"{vote.reason[:1].upper()}{vote.reason[1:]}.")


def _shown(prepared: Prepared, ctx: Context, risk: Risk | None) -> dict[str, Any]:
    """What a person must see of a call besides its arguments: the command and its risk, or the change as a diff."""
    if risk is not None:
        command = next(touch.target for touch in prepared.touches if touch.effect == "execute")
        return {"kind": "command", "command": command, "risk": risk.level, "part": risk.part}
    if "write" not in prepared.tool.effects:
        return {}
    if "dry_run" not in prepared.tool.schema["properties"]:
        return {"kind": "edit"}
    try:
        preview = prepared.tool.run(ctx, {**prepared.args, "dry_run": True})
    except ToolError as error:
        return {"kind": "edit", "diff": f"[there is no preview: {error.message}]"}
    return {"kind": "edit", "diff": preview.text[:DIFF_CHARACTERS]}


def _hashes(prepared: Prepared, ctx: Context) -> dict[str, bytes | None]:
    """The files that a call would change, as they are now: an approval is for exactly this change."""
    found: dict[str, bytes | None] = {}
    for touch in prepared.touches:
        if touch.effect == "write":
            try:
                found[touch.target] = sha256(ctx.workspace.read(touch.target, remember=False).data)
            except ToolError:
                found[touch.target] = None
    return found


def _pause(seconds: float, fence: Fence) -> None:
    fence.check()
    time.sleep(seconds)


def _upward(root: str, home: str) -> Iterable[str]:
    """Yield the workspace and the folders above it, up to the home directory, another owner or another device."""
    try:
        first = os.stat(root)
    except OSError:
        return
    folder = root
    for _ in range(FILES_MAX):
        yield folder
        parent = os.path.dirname(folder)
        if home in (folder, parent) or parent == folder:
            return
        try:
            status = os.stat(parent)
        except OSError:
            return
        if (status.st_uid, status.st_dev) != (first.st_uid, first.st_dev):
            return
        folder = parent


def _status(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _contents(path: str, *, follow: bool) -> bytes:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_BYTES:
            raise ValueError(f"it is not a regular file of at most {FILE_BYTES} bytes")
        return file.read(FILE_BYTES)
