"""Permissions in one workspace: rules, modes, grants and sessions, opened on first use.

Rule files are checked for changes at most once a second. Unrestricted calls stay cheap: reading in a workspace without
rules and hooks is decided without any of the parts below.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from hilt.authority.rulebook import Rulebook, is_settled, status
from hilt.authority.targets import names_of, subject_of
from hilt.call import AGENT, Asker, Json, Origin
from hilt.catalog import Catalog
from hilt.config import RuntimePaths, Settings
from hilt.context import Context
from hilt.declaration import Tool
from hilt.files.door import Door
from hilt.lazy import Lazy
from hilt.loaders import paths_of
from hilt.pipeline import NO_HOOKS, Decision, NoHooks, Prepared
from hilt.policy.decision import Vote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

    from hilt.authority.consent import Consent
    from hilt.authority.rule_links import RuleLinks
    from hilt.authority.session_hooks import CallHooks, SessionHooks
    from hilt.listing import ListedTool
    from hilt.policy.barriers import Bars, Links
    from hilt.policy.hook_protocol import Hook
    from hilt.policy.hook_results import HookRun
    from hilt.policy.modes import Mode
    from hilt.policy.rules import RuleSet
    from hilt.policy.subject import Base, Subject
    from hilt.shell.risk import Risk
    from hilt.state.approvals import Approvals
    from hilt.state.roster import AgentRecord
    from hilt.state.session_values import SessionValues
    from hilt.state.trust import Trust
    from hilt.surroundings import Surroundings

REFRESH_SECONDS = 1.0
IDLE_SECONDS = 24 * 3600  # after which a session has ended, and its values are removed
SESSIONS_MAX = 1024  # whose values are cached
GRANT = "permission "  # prefix of the grants of tools that manage their own permissions
_LEVELS_MAX = 100  # of agents that start agents
MODE = "mode"  # the key of the session's mode
LOOKS = "looks "  # prefix of keys: the user has approved the actions of a tool that only look
PANIC = "panic"  # the key for: the panic key was pressed
PARTIAL = "partial_sandbox"  # the key for: the user accepted a partial sandbox

HOOK_FILE = paths_of("hooks", "config")[0]
HOOKS = "hooks"  # the key of the session's hooks

_READING = Vote("allow", "default", "it only reads")
_READS = frozenset({"read"})


class SessionState(NamedTuple):
    """The values stored in a session, and when they were last used."""

    stamp: object
    values: dict[str, Json]
    used: float


class Authority:
    """Decides on calls in one workspace. Safe to use from many threads."""

    def __init__(
        self,
        place: RuntimePaths,
        settings: Settings,
        catalog: Catalog,
        surroundings: Surroundings,
        asker: Asker | None,
        was_used: Callable[[str, float], bool],
        agent_of: Callable[[str], AgentRecord | None],
    ) -> None:
        """`was_used` returns whether a session has made a call since a time; `agent_of` the agent with this id."""
        self.place = place
        self.root = place.root  # where relative path rules start; see `in_folder`
        self.settings = settings
        self.catalog = catalog
        self.surroundings = surroundings
        self._asker = asker
        self._was_used = was_used
        self._agent_of = agent_of
        self._agents: dict[str, AgentRecord] = {}
        self._lock = threading.RLock()
        self.approvals = Lazy(self._open_approvals)
        self.consent = Lazy(self._open_consent)
        self.trust = Lazy(self._open_trust)
        self.values = Lazy(self._open_values)
        self.names = Lazy(lambda: names_of(catalog))  # all names that rules may use
        self.session_hooks = Lazy(self._open_session_hooks)
        self.record_hook: Callable[[str, Hook, HookRun], None] = lambda session, hook, run: None
        self._database = os.path.join(place.state, "state.db")
        self._refreshed = -REFRESH_SECONDS
        self.rulebook = Rulebook(
            place,
            settings["alwaysAllow"],
            self.names,
            lambda file, digest: self.trust().is_trusted(file, digest),
            self.state_stamp,
        )
        self._hook_files = (os.path.join(place.config, HOOK_FILE), os.path.join(place.root, paths_of("hooks")[0]))
        self._has_hook_files = False
        self._sessions: dict[str, SessionState] = {}
        self._rule_links: tuple[tuple[RuleSet, ...], RuleLinks] | None = None
        self._bars: tuple[tuple[RuleSet, ...], tuple[str, ...], Links, Bars | None] | None = None
        # False when the settings can restrict even a plain read
        self._is_plain = (
            settings["mode"] == "normal"
            and settings["profile"] == "full"
            and not settings["disabledTools"]
            and not settings["tools.only"]
        )

    def in_folder(self, root: str) -> Authority:
        """Return this authority for a copy of the workspace in another folder, with the same path rules there.

        Everything else stays that of the workspace. Close only the original.
        """
        from copy import copy

        other = copy(self)
        other.root, other._rule_links, other._bars = root, None, None
        return other

    def close(self) -> None:
        """Close the parts that were opened."""
        for part in (self.approvals, self.trust, self.values):
            part.close()

    def _open_approvals(self) -> Approvals:
        from hilt.state.approvals import Approvals

        return Approvals(self.place.state, self.note_run)

    def _open_consent(self) -> Consent:
        from hilt.authority.consent import Consent

        return Consent(self.place, self.settings, self.approvals, self._asker)

    def _open_trust(self) -> Trust:
        from hilt.state.trust import Trust, trusts_all

        return Trust(self.place.state, everything=trusts_all(self.surroundings.given))

    def _open_values(self) -> SessionValues:
        from hilt.state.session_values import SessionValues

        return SessionValues(self.place.state)

    def _open_session_hooks(self) -> SessionHooks:
        from hilt.authority.session_hooks import SessionHooks

        return SessionHooks(self)

    # --- sessions -------------------------------------------------------------------------------------------------

    def stored_values(self, session: str) -> dict[str, Json]:
        """Return the values stored in a session; cached until the database changes."""
        stamp = self.state_stamp()
        if stamp is None:
            return {}
        now = time.time()
        state = self._sessions.get(session)
        if state is None or state.stamp != stamp or now - state.used > IDLE_SECONDS:
            values = self._read_values(session, now)
            state = SessionState(stamp if all(map(is_settled, stamp)) else None, values, now)
            for old in list(self._sessions)[: max(0, len(self._sessions) + 1 - SESSIONS_MAX)]:
                self._sessions.pop(old, None)
        # every call gets here, so a session that was not used for a day made no call
        self._sessions[session] = state._replace(used=now)
        return state.values

    def _read_values(self, session: str, now: float) -> dict[str, Json]:
        """Read the values stored in a session; remove them if it has been idle for a day."""
        store = self.values()
        values = store.all(self.place.id, session)
        since = now - IDLE_SECONDS
        if values and not store.changed_since(self.place.id, session, since) and not self._was_used(session, since):
            store.clear(self.place.id, session)
            return {}
        return values

    def state_stamp(self) -> tuple[tuple[int, ...] | None, ...] | None:
        """Return a stamp that changes with state.db: trust, grants and session values; None if it does not exist."""
        # every change goes to the write-ahead log; removing the log when the database is closed changes the stamp too
        if not os.access(self._database, os.F_OK):
            return None
        return status(self._database), status(self._database + "-wal")

    def mode(self, session: str) -> Mode:
        """Return the mode of a session: its own, else the one from the settings."""
        from hilt.policy.modes import find_mode, narrowest

        own = self.stored_values(session).get(MODE)
        mode = find_mode(own if isinstance(own, str) else self.settings["mode"])
        agent = self.agent(session)
        if agent is None:
            return mode
        limit = narrowest(find_mode(agent.profile.mode), self.mode(agent.parent))
        return narrowest(mode, limit) if isinstance(own, str) else limit

    def agent(self, session: str) -> AgentRecord | None:
        """Return the agent that a session belongs to, as it was created; None for the session of a client."""
        if not session.startswith(AGENT):
            return None
        agent = self._agents.get(session)
        if agent is None and (agent := self._agent_of(session)) is not None:
            if self._is_below_itself(agent):
                # it has no tools, and nobody above it
                agent = agent._replace(parent="", profile=agent.profile._replace(tools=(), mode="plan"))
            self._agents[session] = agent
        return agent

    def _is_below_itself(self, agent: AgentRecord) -> bool:
        """Whether the parents of an agent never end: others can write to a shared database."""
        seen: set[str] = set()
        above: AgentRecord | None = agent
        while above is not None and above.parent.startswith(AGENT):
            if above.id in seen or len(seen) == _LEVELS_MAX:
                return True
            seen.add(above.id)
            above = self._agent_of(above.parent)
        return False

    def lineage(self, session: str) -> list[str]:
        """Return a session and, for an agent, the sessions above it."""
        sessions = [session]
        while (agent := self.agent(sessions[-1])) is not None:
            sessions.append(agent.parent)
        return sessions

    def origin(self, session: str) -> Origin:
        """Return whose the calls of a session are."""
        agent = self.agent(session)
        return Origin(session) if agent is None else Origin(self.lineage(session)[-1], agent.call, session)

    def note_run(self, session: str) -> Callable[[Connection], Origin]:
        """Return the note of a session's run, to be made in the transaction of what it stores."""
        from hilt.state import stored_runs

        return partial(stored_runs.note, self.place.id, self.origin(session))

    # --- rules ----------------------------------------------------------------------------------------------------

    def rulesets(self) -> tuple[RuleSet, ...]:
        """Return the active rules, from the personal file down to the project's."""
        self._refresh()
        return self.rulebook.rulesets

    def notes(self) -> list[str]:
        """Return messages about invalid and untrusted rules."""
        self._refresh()
        return self.rulebook.notes()

    def bars(self, door: Door) -> Bars | None:
        """Return the active path rules, or None; the same object until they change."""
        rulesets = self.rulesets()
        if not rulesets:
            return None
        from hilt.authority.rule_links import RuleLinks
        from hilt.policy import barriers

        roots = tuple(root.real for root in door.roots if root.writable)
        base = self._base()
        with self._lock:
            if self._rule_links is None or self._rule_links[0] is not rulesets:
                self._rule_links = rulesets, RuleLinks(barriers.literal_paths(rulesets, base))
            links = self._rule_links[1].find()
            if self._bars is None or self._bars[0] is not rulesets or self._bars[1:3] != (roots, links):
                self._bars = rulesets, roots, links, barriers.make_bars(rulesets, base, roots, links)
            return self._bars[3]

    def _refresh(self) -> None:
        if time.monotonic() - self._refreshed < REFRESH_SECONDS:
            return
        with self._lock:
            if time.monotonic() - self._refreshed < REFRESH_SECONDS:
                return
            self._has_hook_files = any(status(path) is not None for path in self._hook_files)
            self.rulebook.refresh()
            self._refreshed = time.monotonic()

    def _has_new_hooks(self) -> bool:
        return not self._has_hook_files and any(os.access(path, os.F_OK) for path in self._hook_files)

    # --- deciding -------------------------------------------------------------------------------------------------

    def is_unrestricted(self, session: str) -> bool:
        """Whether nothing restricts a session: no rules, no hooks, normal mode. Every call begins with this."""
        with self._lock:
            # a new rule applies to the next call, not after a second
            if self._has_new_hooks() or self.rulebook.may_have_changed():
                self._refreshed = -REFRESH_SECONDS
        self._refresh()
        return (
            self._is_plain
            and not self.rulebook.has_files
            and not self.rulebook.rulesets
            and not self._has_hook_files
            and not self.stored_values(session)
            and self.agent(session) is None
        )

    def weigh(self, prepared: Prepared, ctx: Context) -> Decision:
        """Return the decision on a call by rules, mode, defaults and grants."""
        from hilt.authority.weighing import weigh

        return weigh(self, prepared, ctx)

    def hidden(self, tool: Tool, session: str) -> str | None:
        """Return why a tool is hidden, or None."""
        if self._is_plain and not self.stored_values(session) and self.agent(session) is None:
            return None
        from hilt.authority.visibility import hidden

        return hidden(self, tool, session)

    def listed_tools(
        self,
        session: str,
        *,
        only: Collection[str] = (),
        search: bool = False,
        lean: bool = False,
        client_asks: bool = True,
    ) -> list[ListedTool]:
        """Return the tools listed for a session; see `listing.listed`. `client_asks`: the client can ask a user."""
        from hilt.authority.visibility import lacks_display, lacks_person
        from hilt.listing import listed

        return listed(
            self.catalog,
            self.settings["dialect"],
            lambda tool: (
                self.hidden(tool, session)
                or lacks_person(self, tool, client_asks=client_asks)
                or lacks_display(self, tool)
            ),
            only=only,
            search=search,
            lean=lean,
        )

    def subject(self, prepared: Prepared, door: Door, risk: Risk | None) -> Subject:
        """Return a call as rules see it."""
        return subject_of(prepared, self.names_of(prepared.tool), door, self._base(), risk)

    def _base(self) -> Base:
        from hilt.policy.subject import Base

        return Base(self.place.root, self.root if self.root != self.place.root else "")

    def names_of(self, tool: Tool) -> frozenset[str]:
        """Return all names by which rules apply to a tool."""
        names = self.names().own
        own = names.get(tool.name, frozenset((tool.name,)))
        return own | names[tool.traits.ruled_as] if tool.traits.ruled_as else own

    def hooks(self, ctx: Context) -> CallHooks | NoHooks:
        """Return the hooks around a call of the session."""
        return self.session_hooks().around(ctx) if self.has_hooks(ctx.session) else NO_HOOKS

    def is_restricted_here(self, session: str) -> bool:
        """Whether rules or hooks of this folder or of the session apply, which other folders and machines lack."""
        self._refresh()
        return (
            self.rulebook.has_project_files
            or status(self._hook_files[1]) is not None
            or any(self.stored_values(above).get(HOOKS) is not None for above in self.lineage(session))
        )

    def has_hooks(self, session: str) -> bool:
        """Whether a session may have hooks."""
        self._refresh()
        return self._has_hook_files or any(
            self.stored_values(above).get(HOOKS) is not None for above in self.lineage(session)
        )


def only_reads(tool: Tool) -> bool:
    """Whether a tool only reads and, unlike custom tools, has no approval setting of its own."""
    return tool.effects == _READS and not tool.is_custom


def vote_on_reading(prepared: Prepared, ctx: Context) -> Decision:
    """Allow a call that only reads; used when nothing restricts the session."""
    return _READING_DECISION


_READING_DECISION = Decision(_READING, (_READING,))
