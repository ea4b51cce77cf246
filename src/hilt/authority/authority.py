"""Who may do what in one workspace: rules, the mode, defaults and grants, joined into one decision on a call.

The order: what the mode, the profile or a setting hides is refused first, and nothing lifts that. Then the rules speak,
and the defaults of the mode; an allow of a rule takes the place of a default, a deny or ask joins it and the stricter
counts. What still asks may be covered by a grant.

Rule files are looked at again when they have changed, at most once a second. What nobody has restricted costs a call
next to nothing: reading in a workspace without rules and hooks is decided without any of the parts below.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from hilt.authority.rulebook import Place, Rulebook, is_settled, status
from hilt.authority.targets import effects_of, followed, names_of, risk_of, subject_of, touched
from hilt.call import Call, Json
from hilt.catalog import Catalog
from hilt.config import Settings
from hilt.context import Context, Fence
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.files.door import Door
from hilt.formats.digests import sha256
from hilt.pipeline import Prepared
from hilt.policy.decision import OWN, Vote, decide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.consent import Asker, Consent, Sight
    from hilt.authority.hooks import Hooks, Ran, Seen
    from hilt.commands.risk import Risk
    from hilt.policy.barriers import Bars
    from hilt.policy.hook_protocol import Hook, HookSet
    from hilt.policy.modes import Mode, Traits
    from hilt.policy.rule_forms import Names
    from hilt.policy.rules import RuleSet, Ruling
    from hilt.policy.subject import Subject
    from hilt.sandbox.process import Finished
    from hilt.state.approvals import Approvals
    from hilt.state.session_values import SessionValues
    from hilt.state.trust import Trust

REFRESH_SECONDS = 1.0
IDLE_SECONDS = 24 * 3600  # after which a session has ended, and what it kept is forgotten
SESSIONS_MAX = 1024  # whose values are remembered
GRANT = "permission "  # begins what a tool keeps of its own permissions
MODE = "mode"  # the key of a session's own mode
PARTIAL = "partial_sandbox"  # the key under which a session remembers that the user accepted one

SUBMITS = "exit_plan_mode"  # the tool whose whole work is to ask

# whose question comes again however often it is answered: no grant lifts it
_KEPT_BY_NOBODY = (OWN, "rules", "hooks", "paths")
_READING = Vote("allow", "default", "it reads")
READS = frozenset({"read"})


class Weighed(NamedTuple):
    """The decision on a call, and every vote that was heard for it."""

    decision: Vote
    votes: tuple[Vote, ...]


class Kept(NamedTuple):
    """What a session keeps, and when that was looked at."""

    stamp: object
    values: dict[str, Json]
    looked: float


class Authority:
    """Decides on the calls of one workspace. Safe to use from many threads."""

    def __init__(
        self,
        place: Place,
        settings: Settings,
        catalog: Catalog,
        environ: Mapping[str, str],
        asker: Asker | None,
        was_used: Callable[[str, float], bool],
    ) -> None:
        """`was_used` says whether a session has made a call since a time."""
        self.place = place
        self._settings = settings
        self._catalog = catalog
        self._environ = environ
        self._asker = asker
        self._was_used = was_used
        self._lock = threading.RLock()
        self._names: Names | None = None
        self._approvals: Approvals | None = None
        self._consent: Consent | None = None
        self._trust: Trust | None = None
        self._values: SessionValues | None = None
        self.record_hook: Callable[[str, Hook, Ran], None] = lambda session, hook, ran: None
        self._database = os.path.join(place.state, "state.db")
        self._looked = -REFRESH_SECONDS
        self._book = Rulebook(
            place,
            settings["alwaysAllow"],
            self.names,
            lambda path, digest: self.trust().is_trusted("rules", path, digest),
            self._stamp,
        )
        self._hook_files = False
        self._hook_sets: tuple[object, list[HookSet]] | None = None
        self._sessions: dict[str, Kept] = {}
        self._bars: tuple[object, Bars | None] | None = None
        # what makes even a plain read worth a longer look
        self._is_plain = (
            settings["mode"] == "normal"
            and settings["profile"] == "full"
            and not settings["disabledTools"]
            and not settings["tools.only"]
        )
        self._only: frozenset[str] | None = None

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
                from hilt.state.approvals import Approvals

                self._approvals = Approvals(self.place.state)
            return self._approvals

    def consent(self) -> Consent:
        """Return what obtains approvals."""
        with self._lock:
            if self._consent is None:
                from hilt.authority.consent import Consent

                self._consent = Consent(self.place, self._settings, self.approvals, self._asker)
            return self._consent

    def trust(self) -> Trust:
        """Return which files of projects the person trusts."""
        with self._lock:
            if self._trust is None:
                from hilt.state.trust import Trust, trusts_all

                self._trust = Trust(self.place.state, everything=trusts_all(self._environ))
            return self._trust

    def values(self) -> SessionValues:
        """Return what sessions keep."""
        with self._lock:
            if self._values is None:
                from hilt.state.session_values import SessionValues

                self._values = SessionValues(self.place.state)
            return self._values

    def names(self) -> Names:
        """Return every name a rule may use, with all names of the same tool."""
        with self._lock:
            if self._names is None:
                self._names = names_of(self._catalog)
            return self._names

    # --- sessions -------------------------------------------------------------------------------------------------

    def kept(self, session: str) -> dict[str, Json]:
        """Return what a session keeps; read again only when the database has changed."""
        stamp = self._stamp()
        if stamp is None:
            return {}
        now = time.time()
        found = self._sessions.get(session)
        if found is None or found.stamp != stamp or now - found.looked > IDLE_SECONDS:
            values = self._current(session, now)
            found = Kept(stamp if all(map(is_settled, stamp)) else None, values, now)
            for old in list(self._sessions)[: max(0, len(self._sessions) + 1 - SESSIONS_MAX)]:
                self._sessions.pop(old, None)
        # a day without a look is a day without a call
        self._sessions[session] = found._replace(looked=now)
        return found.values

    def _current(self, session: str, now: float) -> dict[str, Json]:
        """Read what a session keeps; one that has been idle for a day keeps nothing."""
        kept, values = self.values(), {}
        values = kept.all(self.place.id, session)
        since = now - IDLE_SECONDS
        if values and not kept.changed_since(self.place.id, session, since) and not self._was_used(session, since):
            kept.clear(self.place.id, session)
            return {}
        return values

    def _stamp(self) -> tuple[tuple[int, ...] | None, ...] | None:
        # the journal is where every change goes; it is gone when the database is closed, and that changes too
        if not os.access(self._database, os.F_OK):
            return None
        return status(self._database), status(self._database + "-wal")

    def mode(self, session: str) -> Mode:
        """Return the mode a session is in: its own, else that of the settings."""
        from hilt.policy.modes import named

        own = self.kept(session).get(MODE)
        return named(own if isinstance(own, str) else self._settings["mode"])

    # --- rules ----------------------------------------------------------------------------------------------------

    def rulesets(self) -> tuple[RuleSet, ...]:
        """Return the rules in force, from the personal file down to the project's."""
        self._refresh()
        return self._book.rulesets

    def notes(self) -> list[str]:
        """Return what people must know of the rules in force: what is broken or not trusted."""
        self._refresh()
        return self._book.notes()

    def bars(self, door: Door) -> Bars | None:
        """Return the rules on paths in force, None when there are none; the same object while they are the same."""
        rulesets = self.rulesets()
        if not rulesets:
            return None
        from hilt.policy import barriers

        roots = tuple(root.real for root in door.roots if root.writable)
        links = barriers.find_links(rulesets, self.place.root, lambda path: followed(path)[0])
        key = (rulesets, roots, links)
        with self._lock:
            if self._bars is None or self._bars[0] != key:
                self._bars = key, barriers.make_bars(rulesets, self.place.root, roots, links)
            return self._bars[1]

    def _refresh(self) -> None:
        if time.monotonic() - self._looked < REFRESH_SECONDS:
            return
        with self._lock:
            if time.monotonic() - self._looked < REFRESH_SECONDS:
                return
            place = self.place
            hook_files = (os.path.join(place.config, "hooks.yaml"), os.path.join(place.root, ".hilt/hooks.yaml"))
            self._hook_files = any(status(path) is not None for path in hook_files)
            self._book.refresh()
            self._looked = time.monotonic()

    # --- deciding -------------------------------------------------------------------------------------------------

    def is_calm(self, session: str) -> bool:
        """Whether nobody has restricted anything: no rules, no hooks, no mode but the normal one."""
        self._refresh()
        return (
            self._is_plain
            and not self._book.has_files
            and not self._book.rulesets
            and not self._hook_files
            and not self.kept(session)
        )

    def vote(self, prepared: Prepared, ctx: Context) -> Vote:
        """Return what rules, mode and defaults say of a call."""
        return self.weigh(prepared, ctx).decision

    def weigh(self, prepared: Prepared, ctx: Context) -> Weighed:
        """Return what rules, mode, defaults and grants say of a call, each for itself and all together."""
        weighed = self._weigh(prepared, ctx)
        unheld = self._unheld(prepared, ctx) if weighed.decision.verdict == "allow" else None
        return weighed if unheld is None else Weighed(unheld, (*weighed.votes, unheld))

    def _weigh(self, prepared: Prepared, ctx: Context) -> Weighed:
        from hilt.policy import modes, rules

        rulesets = self.rulesets()
        mode = self.mode(ctx.session)
        refusal = self.hidden(prepared.tool, ctx.session)
        if refusal is None and prepared.call.through is not None:
            refusal = self.hidden(self._catalog.find(prepared.call.through).tool, ctx.session)
        if refusal is not None:
            denied = Vote("deny", "mode", refusal)
            return Weighed(denied, (denied,))
        risk = risk_of(prepared, self._settings)
        votes = self._defaults(prepared, ctx, mode, risk)
        default = decide(votes)
        subject = self.subject(prepared, ctx.door, risk) if rulesets else None
        if subject is not None:
            self._hold(ctx, subject)
        ruling = rules.decide(rulesets, subject) if subject is not None else None
        if subject is not None and prepared.tool.name == "register_hook" and subject.command:
            ruling = self._stricter_on_command(subject, ruling)
        if subject is not None and prepared.call.through is not None:
            way = subject._replace(tool=prepared.call.through, names=frozenset((prepared.call.through,)))
            ruling = self._denied(way) or ruling
        ruled = None if ruling is None else Vote(ruling.verdict, "rules", ruling.reason.rstrip("."))
        vote = modes.settle(mode, ruled, default)
        heard = (*([ruled] if ruled is not None else []), *votes)
        if vote.verdict == "ask" and self._is_granted(prepared, ctx, subject, risk):
            granted = Vote("allow", "grants", "the user keeps allowing this call")
            return Weighed(granted, (*heard, granted))
        if vote.verdict == "ask" and subject is not None and ruled is None:
            hint = self._book.would_allow(subject)
            vote = vote if hint is None else vote._replace(reason=f"{vote.reason}; {hint}")
        partial = next((one for one in votes if one.voter == "sandbox"), vote)
        if vote.verdict == "ask" and partial.voter != vote.voter:
            # one question is asked for both
            vote = partial._replace(reason=f"{vote.reason}; {partial.reason}")
        if vote.verdict == "deny" and vote is default:
            dangerous = risk is not None and vote.reason == modes.DANGEROUS
            why = f"{vote.reason}: {risk.reason[:300]}" if risk is not None and dangerous else vote.reason
            vote = vote._replace(reason=why, error=_blocked(vote, risk, ctx, prepared))
        return Weighed(vote, heard if any(one.verdict == vote.verdict for one in heard) else (*heard, vote))

    def _hold(self, ctx: Context, subject: Subject) -> None:
        """Hold what the call opens to the rules on paths: its names may lead elsewhere after the decision."""
        from hilt.policy import barriers

        barrier = barriers.make_barrier(self.bars(ctx.door), self.rulesets(), subject, self.place.root)
        if barrier is not None:
            ctx.hold(barrier)

    def _stricter_on_command(self, subject: Subject, ruling: Ruling | None) -> Ruling | None:
        """What is denied to be run is denied to be registered, to be run later."""
        shell = subject._replace(
            tool="run_shell", names=self.names().twins["run_shell"], effects=frozenset({"execute"})
        )
        return self._denied(shell) or ruling

    def _denied(self, subject: Subject) -> Ruling | None:
        """Return the rule that denies a call, None when none does."""
        from hilt.policy import rules

        ruling = rules.decide(self.rulesets(), subject)
        return ruling if ruling is not None and ruling.verdict == "deny" else None

    def _defaults(self, prepared: Prepared, ctx: Context, mode: Mode, risk: Risk | None) -> list[Vote]:
        """Return what happens to a call that no rule speaks of: the strictest counts."""
        from hilt.policy import modes

        settings = self._settings
        starts = risk is not None
        full = settings["shell.sandbox"] == "full" and mode != "plan"
        kind = "none" if full or not starts else ctx.processes.sandbox.kind
        circumstances = modes.Circumstances(
            rules=self._book.has_files,
            risk=None if risk is None else risk.level,
            forced=prepared.args.get("force") is True,
            sandboxed=not starts or kind != "none",
            full=full,
            action=str(prepared.args.get("action") or ""),
        )
        votes = [modes.mode_vote(mode, _traits(prepared.tool, effects_of(prepared)), circumstances)]
        if mode == "yolo":
            return votes
        if (
            any(touch.effect == "network" for touch in prepared.touches)
            and starts
            and settings["shell.network"] != "full"
        ):
            votes.append(
                Vote("ask", "network", f"wants the whole network, and shell.network is {settings['shell.network']}")
            )
        if kind == "landlock" and (not self.kept(ctx.session).get(PARTIAL) or self._unaccepted(ctx, mode)):
            votes.append(self._partial(ctx, mode))
        return votes

    def _unheld(self, prepared: Prepared, ctx: Context) -> Vote | None:
        """Ask about a command that would run although rules on paths do not hold for it; no allow lifts that."""
        mode = self.mode(ctx.session)
        if risk_of(prepared, self._settings) is None or not self._unaccepted(ctx, mode):
            return None
        if ctx.processes.sandbox.kind != "landlock":
            return None
        from hilt.policy.modes import unattended

        return unattended(mode, self._partial(ctx, mode))

    def _partial(self, ctx: Context, mode: Mode) -> Vote:
        rules = [f"commands are not held to the rule {rule} in the workspace" for rule in self._unenforced(ctx, mode)]
        gaps = "; ".join((*ctx.processes.sandbox.missing, *rules))
        return Vote("ask", "sandbox", f"the sandbox here enforces only a part. Missing: {gaps}")

    def _unaccepted(self, ctx: Context, mode: Mode) -> bool:
        """Whether there are rules on paths that a partial sandbox does not enforce, and that nobody was told of."""
        accepted = self.kept(ctx.session).get(PARTIAL)
        return not set(self._unenforced(ctx, mode)) <= set(accepted if isinstance(accepted, list) else ())

    def held_rules(self, ctx: Context) -> list[str]:
        """Return the rules on paths that hold for the command of a call, each with what it does."""
        from hilt.policy.barriers import cited

        full = self._settings["shell.sandbox"] == "full" and self.mode(ctx.session) != "plan"
        watches = None if full or ctx.door.barrier is None else ctx.door.barrier.sandbox
        if watches is None:
            return []
        told = zip(watches, ("cannot be read", "cannot be written"), strict=True)
        return [f"{cited(rule)}: {what}" for watch, what in told for rule in watch.rules]

    def _unenforced(self, ctx: Context, mode: Mode) -> list[str]:
        """Return the rules on paths that a sandbox cannot enforce which has no way to close a path in a folder."""
        bars = self.bars(ctx.door)
        if bars is None or mode == "plan" or self._settings["shell.sandbox"] != "workspace-write":
            return []
        from hilt.policy.barriers import cited

        read, write = bars.sandbox
        roots = [root.real for root in ctx.door.roots if root.writable]
        open_roots = [root for root in roots if not write.encloses(root)]  # else nothing in it is writable
        return [cited(rule) for rule in (*read.within(roots), *write.within(open_roots))]

    def _is_granted(self, prepared: Prepared, ctx: Context, subject: Subject | None, risk: Risk | None) -> bool:
        """Whether a grant covers a call that would ask; no grant covers what a rule asks about or denies."""
        from hilt.policy import rules

        folder = self._folder(prepared, ctx.door)
        grants = self.approvals().grants(self.place.id)
        # permissions that a tool asks about itself are no rules
        kept = [grant.rule for grant in grants if grant.folder in ("", folder) and not grant.rule.startswith(GRANT)]
        if not kept:
            return False
        granted = rules.listed("allow", kept, "grants", self.names(), home=self.place.home)
        subject = subject or self.subject(prepared, ctx.door, risk)
        ruling = rules.decide((*self.rulesets(), granted), subject)
        return ruling is not None and ruling.verdict == "allow"

    def hidden(self, tool: Tool, session: str) -> str | None:
        """Return why a tool is neither listed nor run; None when it is there."""
        if self._is_plain and not self.kept(session):
            return None
        from hilt.policy import modes

        if self._settings["tools.only"] and tool.name not in modes.FINDERS and tool.name not in self._named_only():
            return f"{tool.name} is not among the tools of the setting tools.only"
        profile = self._settings["profile"]
        return modes.hidden(
            self.mode(session),
            profile,
            _traits(tool, tool.effects),
            named_tools=self._settings["tools.in_profile"],
            disabled=self._disabled(tool.name),
            action=None,
        )

    def lacks_person(self, tool: Tool, *, client_asks: bool) -> str | None:
        """Return why a tool that needs a person is of no use; `client_asks` says whether the client can ask one."""
        if not tool.needs_person or client_asks or self._settings["approve"] in ("once", "always", "all"):
            return None
        return None if self.approvals().attended(self.place.id) else "nobody can be asked here"

    def _named_only(self) -> frozenset[str]:
        """Return the tools' own names of those that a setting names; what is not there yet counts by its name."""
        if self._only is None:
            found = set()
            for name in self._settings["tools.only"]:
                found.add(name)
                if not name.startswith("mcp__"):  # to look for one may start its server
                    with suppress(ToolError):
                        found.add(self._catalog.find(name, self._settings["dialect"]).tool.name)
            self._only = frozenset(found)
        return self._only

    def _disabled(self, tool: str) -> frozenset[str]:
        """Return every name of the tools that a setting disables, this one among them when it is of a disabled server.

        A name that is nearly one of a tool, and what is none, is refused.
        """
        twins = self.names().twins
        found: set[str] = set()
        for name in self._settings["disabledTools"]:
            if name not in twins:
                from hilt.policy import rule_forms

                try:
                    form = rule_forms.parse(name, self.names())
                    if not isinstance(form, rule_forms.Whole | rule_forms.ServedBy):
                        raise rule_forms.BadForm(f"{name} is not the name of a tool")
                    if form.scope.names is None and tool.startswith(form.scope.server or ""):
                        found.add(tool)
                except rule_forms.BadForm as error:
                    source = self._settings.sources["disabledTools"]
                    raise ToolError(
                        "denied",
                        f"{source}: disabledTools: {error.message.rstrip('?.')}.",
                        suggestion=f"Ask the user to correct {source}.",
                    ) from None
            found |= twins.get(name, frozenset((name,)))
        return frozenset(found)

    def subject(self, prepared: Prepared, door: Door, risk: Risk | None) -> Subject:
        """Return a call as rules see it."""
        twins = self.names().twins
        names = twins.get(prepared.tool.name, frozenset((prepared.tool.name,)))
        return subject_of(prepared, names, door, self.place.root, risk)

    # --- approving ------------------------------------------------------------------------------------------------

    def approve(self, prepared: Prepared, decision: Vote, ctx: Context, call: Call) -> str:
        """Return who approved a call that asks, or raise that nobody did."""
        if prepared.tool.name == SUBMITS:
            return ""  # it asks the user itself, who is shown the plan then
        from hilt.authority.consent import look_at, question, told_arguments
        from hilt.policy import rules

        risk = risk_of(prepared, self._settings)
        subject = self.subject(prepared, ctx.door, risk)

        def look() -> Sight:
            seen = look_at(prepared, ctx, risk)
            # what a tool asks for itself is a part of what was shown
            own = {f"permission {number}": sha256(kept.encode()) for number, kept in enumerate(decision.keeps)}
            return seen._replace(files={**seen.files, **own}) if own else seen

        sight = look()
        is_marked = getattr(getattr(prepared.tool.run, "definition", None), "dangerous", False)
        kept = () if decision.voter in _KEPT_BY_NOBODY else rules.narrowest(subject)
        asked = question(
            self.place,
            prepared.tool.name,
            told_arguments(prepared),
            ("⚠ " if is_marked else "") + decision.reason,
            ctx.session,
            rules=(*decision.keeps, *kept),
            folder=self._folder(prepared, ctx.door),
            **sight.facts,
        )
        by = self.consent().obtain(asked, prepared.args, ctx, call, sight, look)
        if decision.voter == "sandbox":
            accepted = self._unenforced(ctx, self.mode(ctx.session))
            self.values().set(self.place.id, ctx.session, PARTIAL, value=accepted or True)
        return by

    def approve_summary(self, tool: str, summary: str, ctx: Context, call: Call, facts: Mapping[str, Json]) -> str:
        """As `approve`, for something a tool asks about while it runs."""
        from hilt.authority.consent import question

        # what "always" would keep, where the tool itself knows its own permissions
        grant = facts.get("grant")
        facts = {name: value for name, value in facts.items() if name != "grant"}
        rules = (grant,) if isinstance(grant, str) else ()
        asked = question(self.place, tool, facts, summary, ctx.session)._replace(rules=rules)
        return self.consent().obtain(asked, facts, ctx, call)

    def has_grant(self, grant: str) -> bool:
        """Whether the user keeps allowing what a tool asked about."""
        return any(kept.rule == grant for kept in self.approvals().grants(self.place.id))

    def _folder(self, prepared: Prepared, door: Door) -> str:
        """Return the folder that a grant of the call is for: the one its command runs in, else the workspace."""
        cwd = prepared.args.get("cwd")
        if not cwd or not any(touch.effect == "execute" for touch in prepared.touches):
            return self.place.root
        return touched("read", str(cwd), door, self.place.root).target

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
        from hilt.authority import hooks

        place, session = self.place, ctx.session
        sets = [*self.hooks_of_files()]
        own = self.values().get(place.id, session, hooks.VALUE)
        if own is not None:
            sets.append(hooks.of_session(own, self.names, place.home))
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
            record=lambda hook, ran: self.record_hook(session, hook, ran),
        )

    def hooks_of_files(self) -> list[HookSet]:
        """Return the hooks of files, read again when one of them or what is trusted has changed."""
        from hilt.authority import hooks

        place = self.place
        files = hooks.files(config=place.config, root=place.root)
        found = tuple(status(path, follow=place.config == os.path.dirname(path)) for path in files)
        stamps = (self._stamp(), *zip(files, found, strict=True))
        with self._lock:
            if self._hook_sets is not None and self._hook_sets[0] == stamps:
                return self._hook_sets[1]
            sets = hooks.of_files(
                config=place.config,
                root=place.root,
                names=self.names,
                trusted=lambda path, data: self.trust().is_trusted("hooks", path, sha256(data)),
                home=place.home,
            )
            self._hook_sets = (stamps, sets) if all(map(is_settled, found)) else None
            return sets

    def _refuse_command(self, command: str) -> None:
        """Raise when a rule denies a command that nobody decides on any more."""
        if not self.rulesets():
            return
        from hilt.commands.risk import classify
        from hilt.policy import rules
        from hilt.policy.subject import Subject

        names = self.names().twins["run_shell"]
        parts = classify(command).parts
        found = rules.decide(self.rulesets(), Subject("run_shell", names, frozenset({"execute"}), (), command, parts))
        if found is not None and found.verdict == "deny":
            raise ToolError("hook_blocked", f"The command of a hook is denied: {found.reason}")

    def seen(self, prepared: Prepared, door: Door) -> Seen:
        """Return a call as hooks see it."""
        from hilt.authority.hooks import Seen

        return Seen(
            prepared.tool.name,
            prepared.args,
            prepared.touches,
            lambda: self.subject(prepared, door, risk_of(prepared, self._settings)),
        )


def only_reads(tool: Tool) -> bool:
    """Whether a tool does nothing but read, and has no say of its own in what asks, as custom tools have."""
    return tool.effects == READS and getattr(tool.run, "definition", None) is None


def reads(prepared: Prepared, ctx: Context) -> Vote | None:
    """Allow what only reads: the whole vote where nobody has restricted anything."""
    return _READING if only_reads(prepared.tool) else None


def _traits(tool: Tool, effects: frozenset[str]) -> Traits:
    from hilt.policy.modes import Traits

    # a custom tool says what it needs; for one that the program around the library gave, its effects speak
    definition = getattr(tool.run, "definition", None)
    if definition is None:
        return Traits(tool.name, effects)
    server = definition.details["server"] if getattr(definition, "format", "") == "server" else ""
    return Traits(
        tool.name,
        effects,
        custom=True,
        approval=definition.approval,
        read_only=definition.read_only,
        server=server,
    )


def _blocked(vote: Vote, risk: Risk | None, ctx: Context, prepared: Prepared) -> ToolError:
    """The error for a call that the defaults refuse."""
    from hilt.policy.modes import DANGEROUS, NO_SANDBOX

    if prepared.tool.name == "shell_exec":
        from hilt.commands.allowlist import refuse_argv

        refusal = refuse_argv(prepared.args["argv"])
        if refusal is not None:  # which no force lifts
            advice = "Use a program of the list, or run_shell."
            return ToolError("command_blocked", refusal, suggestion=advice, risk="dangerous")
    if risk is not None and vote.reason == DANGEROUS:
        reason = risk.reason[:300].rstrip(".")
        message = f"The command is dangerous: {reason}."
        if risk.part and len(risk.parts) > 1:
            message += f" The part is: {risk.part[:200]}"
        return ToolError("command_blocked", message, risk=risk.level, part=risk.part[:1000])
    if risk is not None and vote.reason == NO_SANDBOX:
        available = ctx.processes.sandbox
        return ToolError(
            "sandbox_unavailable",
            f"Commands cannot be confined here: {available.facts}",
            suggestion=available.remedy or None,
            risk=risk.level,
        )
    return ToolError("denied", f"{vote.reason[:1].upper()}{vote.reason[1:]}.")
