"""What can be opened in one workspace: each part when it is first asked for, all closed in one declared order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from hilt import config, places
from hilt.authority import rulebook
from hilt.authority.authority import Authority
from hilt.call import Asker, Origin, Questioner, check_name
from hilt.catalog import Catalog, built_in_names
from hilt.config import RuntimePaths, Settings
from hilt.custom.toolbox import Toolbox
from hilt.declaration import Tool
from hilt.errors import ToolError, file_error_code
from hilt.lazy import Lazy
from hilt.loaders import ProjectFile, folders, guarded, paths_of, writable_places
from hilt.policy.paths import ASKED, PROTECTED, PathRules, without
from hilt.running.recorder import Recorder
from hilt.running.scheduler import Scheduler
from hilt.running.session import OpenSession, session_folder
from hilt.state.trail import Trail
from hilt.surroundings import Surroundings

if TYPE_CHECKING:
    from hilt.agents.children import AgentHost
    from hilt.custom.watching import FolderWatch
    from hilt.desktop.shared_display import SharedDisplay
    from hilt.knowledge.related import Knowledge
    from hilt.lsp.access import Connect
    from hilt.lsp.pool import LanguageServers
    from hilt.processes.confinement import CallScope, Confinement
    from hilt.processes.declared_sandbox import DeclaredSandbox
    from hilt.processes.jobs import Jobs, JobState
    from hilt.running.publishing import Publisher
    from hilt.sandbox.backend import Launch
    from hilt.sandbox.sandbox import Sandbox
    from hilt.servers.tools import Servers
    from hilt.skills.library import SkillLibrary
    from hilt.state.board import Board
    from hilt.state.history import History
    from hilt.state.memory import Memory
    from hilt.state.roster import AgentRecord, Roster
    from hilt.state.todos import TodoLists
    from hilt.web.cache import PageCache

SESSIONS_MAX = 256  # kept in memory; others are opened again on their next call

# What ends with a runtime, in this order: first what starts calls, then what calls use, last what they are stored in.
CLOSING = (
    *("agents", "jobs", "language_servers", "display", "scheduler", "toolbox", "other_servers", "confinement"),
    *("trail", "recorder", "authority", "publisher", "skill_watch", "skills"),
    *("history", "memory", "knowledge", "board", "todos", "roster", "pages"),
)
SHARED = ("jobs", "language_servers")  # closed by the owner of `Shared`, if there is one
OF_COPY = ("language_servers", "history", "confinement", "authority")  # what a copy of the workspace has of its own
CLOSING_COPY = ("language_servers", "history")

Opened = TypeVar("Opened")


class _Part(Generic[Opened]):
    """Opens a part when it is first asked for."""

    def __init__(self, open: Callable[[Any], Opened]) -> None:
        self._open = open
        self.__doc__ = open.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, parts: Parts, owner: type) -> Opened:
        part: Lazy[Opened] | None = parts.lazy.get(self._name)
        if part is not None and part.part is not None:  # the usual case, several times in each call
            return part.part
        holder = parts.holder(self._name)
        opened: Opened = holder.lazy.setdefault(self._name, Lazy(partial(self._open, holder)))()
        return opened


class Shared:
    """Resources that runtimes of one workspace share in one process; their settings may differ."""

    def __init__(self, jobs: Jobs, sandbox: Sandbox, language_servers: Lazy[LanguageServers]) -> None:
        self.jobs = jobs
        self.sandbox = sandbox
        self.language_servers = language_servers

    def close(self) -> None:
        """End the jobs and language servers, and close their sandbox."""
        self.jobs.close()
        self.language_servers.close()
        self.sandbox.close()


class Opening(NamedTuple):
    """What the opener of a workspace provides; see `Runtime`."""

    session: str
    tools: Iterable[Tool]
    keeps_jobs: bool
    shared: Shared | None
    asker: Asker | None
    questioner: Questioner | None
    connect: Connect | None
    agents: Callable[[], AgentHost]


class Parts:
    """The parts of one workspace, or of a copy of it. Safe to use from many threads."""

    def __init__(
        self,
        given_root: str,
        place: RuntimePaths,
        folders: tuple[str, ...],
        settings: Settings,
        surroundings: Surroundings,
        opening: Opening,
        main: Parts | None = None,
    ) -> None:
        """`folders` are where tools can write; of the parts that are not `OF_COPY`, a copy uses those of `main`."""
        self.given_root = given_root  # as callers may write it: links are not resolved
        self.place = place
        self.root, self.id, self.state = place.root, place.id, place.state
        self.folders = folders
        self.settings = settings
        self.surroundings = surroundings
        self.environ = surroundings.given
        self.opening = opening
        self.main = main
        self.lazy: dict[str, Lazy[Any]] = {}  # what was asked for
        self.secrets: dict[str, str] = {}  # redacted from events, besides those of the environment
        # matches files that tools cannot open under any name; assign it before the first call
        self.marked: Callable[[os.stat_result], bool] | None = main.marked if main else None
        self.is_recovered: bool = main is not None and main.is_recovered
        self.journal_id = place.id if main is None else config.digest(place.root)  # paths in it are relative
        self.journal: str = os.path.join(self.state, "journal", self.journal_id)
        self._sessions: dict[str, OpenSession] = {}
        self._lock = threading.Lock()
        self._guarded = guarded(folders, self.environ, settings["custom.dirs"])
        writable = settings["workspace.writable"]
        self.rules: PathRules = (
            main.rules
            if main
            else PathRules(
                settings["workspace.sensitive"],
                settings["workspace.readable"],
                without((*PROTECTED, *self._guarded, *settings["workspace.protected"]), writable),
                without((*ASKED, "HEAD"), writable),  # without a HEAD, no folder is a repository
            )
        )

    def in_copy(self, folder: str, settings: Settings) -> Parts:
        """Return the parts for a copy of the workspace, under its rules; its commands read what commands there can."""
        place, opening = self.place._replace(root=folder), self.opening._replace(shared=None, connect=None)
        return Parts(folder, place, (folder, *self.folders[1:]), settings, self.surroundings, opening, main=self)

    def holder(self, name: str) -> Parts:
        """Return the parts that a part belongs to: for a copy, mostly those of the workspace."""
        return self if self.main is None or name in OF_COPY else self.main

    def opened(self, name: str) -> Any:
        """Return a part if it is open, or None."""
        part = self.holder(name).lazy.get(name)
        return None if part is None else part.part

    def close(self) -> None:
        """Close what is open, in the declared order; of a copy, only what is its own."""
        with ExitStack() as last_first:
            for name in reversed(CLOSING if self.main is None else CLOSING_COPY):
                if name in self.lazy and (self.opening.shared is None or name not in SHARED):
                    last_first.callback(self.lazy[name].close)
        self._sessions.clear()

    # --- calls and their records ----------------------------------------------------------------------------------

    @_Part
    def scheduler(self) -> Scheduler:
        """What runs calls."""
        return Scheduler()

    @_Part
    def trail(self) -> Trail:
        """The record of calls."""
        return Trail(os.path.join(self.state, "trail.db"))

    @_Part
    def recorder(self) -> Recorder:
        """What records calls."""
        recorder = Recorder(self.trail, self.id, self.state, self._take_notes, lambda: self.publisher, self._origin_of)
        endpoint = self.settings["telemetry.endpoint"]
        if endpoint or self.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
            from hilt.telemetry import open_telemetry

            recorder.telemetry = open_telemetry(self.environ, endpoint)
        return recorder

    def _origin_of(self, session: str) -> Origin:
        return self.authority.origin(session)

    def _take_notes(self) -> tuple[str, ...]:
        confinement = self.opened("confinement")
        return () if confinement is None else confinement.take_notes()

    @_Part
    def publisher(self) -> Publisher:
        """What publishes events to `hilt serve`."""
        from hilt.running.publishing import Publication, Publisher

        environ = {**self.environ, **self.secrets}
        return Publisher(Publication(self.state, self.root, environ, self.settings["events.keep"], self._origin_of))

    @_Part
    def authority(self) -> Authority:
        """What decides on calls."""
        if self.main is not None:
            return self.main.authority.in_folder(self.root)
        authority = Authority(
            self.place,
            self.settings,
            self.catalog,
            self.surroundings,
            self.opening.asker,
            lambda session, since: self.trail.was_used(self.id, session, since),
            self._agent_of,
        )
        authority.record_hook = self.recorder.record_hook
        return authority

    def _agent_of(self, session: str) -> AgentRecord | None:
        return self.roster.get(session)

    @property
    def asks_person(self) -> bool:
        """Whether the opener of the workspace can ask a person."""
        return self.opening.asker is not None or self.opening.questioner is not None

    def session(self, name: str) -> OpenSession:
        """Return a session, which is opened if needed."""
        session = self._sessions.get(name)
        if session is None:
            session = OpenSession(self, name)
            with self._lock:
                while len(self._sessions) >= SESSIONS_MAX:
                    del self._sessions[next(iter(self._sessions))]
                self._sessions[name] = session
        return session

    # --- tools ----------------------------------------------------------------------------------------------------

    @_Part
    def catalog(self) -> Catalog:
        """The available tools."""
        return Catalog(self.opening.tools, self.toolbox, lambda: self.servers)

    @_Part
    def toolbox(self) -> Toolbox:
        """The custom tools."""
        return Toolbox(
            self.root,
            self.surroundings,
            self.state,
            others=self.folders[1:],
            directories=self.settings["custom.dirs"],
            reserved=lambda: (*built_in_names(), *self.catalog.library_names()),
            grants=self,
            confine=self._confine_custom,
            sandbox=self.settings["custom.sandbox"],
            confine_module=self._confine_module,
        )

    def has(self, grant: str) -> bool:
        """Whether the user has granted a permission that a custom tool asked for."""
        return any(stored.rule == grant for stored in self.authority.approvals().grants(self.id))

    def _confine_custom(
        self, ctx: CallScope, sandbox: DeclaredSandbox, cwd: str, folder: str | None
    ) -> AbstractContextManager[Launch]:
        return self.confinement.custom(ctx, sandbox, cwd, folder)

    def _confine_module(self, sandbox: DeclaredSandbox, cwd: str) -> AbstractContextManager[Launch]:
        from hilt.running.world import context_of_loading

        return self.confinement.module(context_of_loading(self), sandbox, cwd)

    @property
    def servers(self) -> Servers | None:
        """The MCP servers whose tools are in the catalog; None when there are none, or this hilt is nested."""
        if self.opened("other_servers") is None:
            files = (os.path.join(self.root, name) for name in (*paths_of("servers"), config.FOREIGN))
            is_configured = self.settings["mcp.servers"] or any(map(os.path.lexists, files))
            if not is_configured or self.environ.get("HILT_NESTED"):
                return None
        return self.other_servers

    @_Part
    def other_servers(self) -> Servers:
        """The configured MCP servers."""
        from hilt.servers.tools import Servers

        return Servers(
            self.root,
            self.surroundings,
            self.state,
            personal=self.settings["mcp.servers"],
            trusts=partial(_trusts, self.state, self.environ),
        )

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback`, from any thread, when the list of tools changes; return a function that stops this."""
        from hilt.servers.tools import watch

        stops = [self.toolbox.listen(callback), watch(lambda: self.servers, callback)]

        def stop() -> None:
            for stop_source in stops:
                stop_source()

        return stop

    # --- processes ------------------------------------------------------------------------------------------------

    @_Part
    def confinement(self) -> Confinement:
        """What child processes may do."""
        if self.main is not None:
            return self.main.confinement.in_copy(self.settings, self.authority.bars)
        from hilt.processes.confinement import Confinement

        shared, authority = self.opening.shared, self.authority
        return Confinement(
            authority.place,
            self.settings,
            self.surroundings,
            self.rules,
            authority.mode,
            authority.bars,
            shared.sandbox if shared else None,
            self._guarded,
        )

    @_Part
    def jobs(self) -> Jobs:
        """The background jobs."""
        if not self.opening.keeps_jobs:
            raise ToolError("resident_required", "A background job would end with this call.")
        return self.opening.shared.jobs if self.opening.shared else open_jobs(self.state, self.root)

    @property
    def running_jobs(self) -> int:
        """How many jobs are running."""
        return 0 if self.started_jobs is None else self.started_jobs.running

    @property
    def started_jobs(self) -> Jobs | None:
        """The background jobs, if there can be any."""
        main = self.main or self
        jobs: Jobs | None = main.opening.shared.jobs if main.opening.shared else main.opened("jobs")
        return jobs

    @property
    def runs_agents(self) -> bool:
        """Whether agents are running in the background."""
        agents = self.opened("agents")
        return agents is not None and agents.running > 0

    @_Part
    def language_servers(self) -> LanguageServers:
        """The language servers of this process."""
        return self.opening.shared.language_servers() if self.opening.shared else open_language_servers()

    def end_own_servers(self) -> None:
        """End the language servers of this process if it ends with its call."""
        if not self.opening.keeps_jobs and self.opening.shared is None:
            servers = self.lazy.pop("language_servers", None)  # the next call opens others
            if servers is not None:
                servers.close()

    @_Part
    def display(self) -> SharedDisplay:
        """The display that the desktop tools use."""
        from hilt.desktop.shared_display import SharedDisplay

        settings = self.settings
        display, private = settings["desktop.display"], settings["desktop.private"]
        return SharedDisplay(self.environ, display=display, private=private, state=self.state)

    # --- stores ---------------------------------------------------------------------------------------------------

    @_Part
    def history(self) -> History:
        """The changes that can be undone."""
        from hilt.state.history import History

        calls, megabytes = self.settings["undo.calls"], self.settings["undo.mb"]
        note_run = self.authority.note_run
        return History(self.state, self.journal, self.journal_id, calls=calls, megabytes=megabytes, note_run=note_run)

    @_Part
    def memory(self) -> Memory:
        """The memory that agents keep for the user across calls."""
        from hilt.state.memory import Memory

        return Memory(self.place.config, self.root)

    @_Part
    def knowledge(self) -> Knowledge:
        """The user's knowledge entries, skills, agents and commands, ranked."""
        from hilt.knowledge.index import MIGRATIONS
        from hilt.knowledge.locations import KnowledgePlaces
        from hilt.knowledge.related import Knowledge
        from hilt.state.db import Database

        paths, is_sensitive = self.settings["related_context.paths"], self.rules.is_sensitive
        locations = KnowledgePlaces(self.environ, self.place.config, paths, self.root, is_sensitive)
        fallback = os.path.join(self.state, "cache")
        return Knowledge(locations, fallback, lambda path: Database(path, MIGRATIONS, durable=False, is_cache=True))

    @_Part
    def board(self) -> Board:
        """The tasks of the workspace."""
        from hilt.state.board import Board

        return Board(self.state, self.id)

    @_Part
    def todos(self) -> TodoLists:
        """The todo lists of the sessions."""
        from hilt.state.todos import TodoLists

        return TodoLists(self.state, self.id)

    @_Part
    def roster(self) -> Roster:
        """The agents of the workspace."""
        from hilt.state.roster import Roster

        url = self.settings["agents.database"]
        if not url:
            return Roster(self.state, self.id)
        from hilt.agents.durable.stores import open_shared

        name = self.settings["workspace.name"] or self.id
        return Roster(self.state, name, open_shared(url, name))

    @_Part
    def agents(self) -> AgentHost:
        """What creates and runs agents."""
        return self.opening.agents()

    @_Part
    def skills(self) -> SkillLibrary:
        """The skills and commands of the workspace and the user."""
        from hilt.skills.library import BUILT_IN, SkillLibrary
        from hilt.state.trust import Trust, trusts_all

        return SkillLibrary(
            [*folders("skill", self.folders, self.environ), BUILT_IN],
            folders("command", self.folders, self.environ),
            writable_places(self.folders, self.environ),
            Trust(self.state),
            trusts_everything=trusts_all(self.environ),
            also=[os.path.join(self.state, "state.db"), os.path.join(self.state, "state.db-wal")],
        )

    @_Part
    def skill_watch(self) -> FolderWatch:
        """What reports changes of the skills and commands."""
        from hilt.custom.watching import FolderWatch

        return FolderWatch(self.skills)

    @_Part
    def pages(self) -> PageCache:
        """The web pages that sessions have fetched."""
        from hilt.state.db import Database
        from hilt.web.cache import MIGRATIONS, PageCache

        return PageCache(Database(self.pages_file, MIGRATIONS, durable=False, is_cache=True))

    @property
    def pages_file(self) -> str:
        """The file of the fetched pages."""
        return os.path.join(self.state, "cache", "web.db")


def _provided_programs(state: str) -> str:
    """Return the folder with ripgrep alone; "" if it is not installed or cannot be linked."""
    folder = places.programs_dir(state)
    program = os.path.join(folder, "rg")
    if not os.access(program, os.X_OK):
        from hilt.search import ripgrep

        with suppress(OSError):
            ripgrep.link_from(folder)
    return folder if os.path.exists(program) else ""


def open_parts(workspace: str, environ: Mapping[str, str], flags: Mapping[str, Any], opening: Opening) -> Parts:
    """Return the parts of a workspace; raise if it cannot be one."""
    root = os.path.realpath(workspace)
    if not os.path.isdir(root):
        raise ToolError(
            "file_not_found",
            f"The workspace {workspace} is not a folder.",
            suggestion="Pass a folder with --workspace, or start in one.",
        )
    state = places.state_dir(environ)
    try:
        places.make_state_dir(state)
    except OSError as error:
        raise ToolError(
            file_error_code(error),
            f"The state directory {state} cannot be created: {os.strerror(error.errno or 0)}.",
            suggestion="Set HILT_STATE_DIR to a writable folder.",
        ) from error
    check_name("session", opening.session)
    settings = config.load(root, environ, flags, partial(_trusts, state, environ))
    folders = (root, *(os.path.realpath(os.path.expanduser(path)) for path in settings["workspace.roots"]))
    for folder in folders:
        if places.is_below(folder, os.path.realpath(state)):
            raise ToolError(
                "sensitive_path",
                f"{folder} is in hilt's state directory, which tools cannot access.",
                suggestion="Open another folder as the workspace.",
            )
    home = os.path.realpath(environ.get("HOME") or os.path.expanduser("~"))
    place = RuntimePaths(root, config.digest(root), places.config_dir(environ), state, home)
    surroundings = Surroundings(
        environ, (*folders, state, places.worktrees_dir(state)), provided=partial(_provided_programs, state)
    )
    return Parts(os.path.abspath(workspace), place, folders, settings, surroundings, opening)


def share(state: str, workspace: str) -> Shared:
    """Return the resources that the runtimes of one workspace share."""
    from hilt.sandbox.sandbox import Sandbox

    return Shared(open_jobs(state, os.path.realpath(workspace)), Sandbox(state), Lazy(open_language_servers))


def open_jobs(state: str, root: str) -> Jobs:
    """Return the background jobs of a workspace, in this process."""
    from hilt.processes.jobs import Jobs

    return Jobs(folder=partial(session_folder, state, config.digest(root)), report=partial(_report_job, state, root))


def _report_job(state: str, root: str, job: JobState) -> None:
    """Publish that a job has started or ended, if `hilt serve` may be running."""
    if os.path.exists(places.serving_folder(state)):
        from hilt.running.publishing import publish_job

        with suppress(Exception):  # must not affect the job
            publish_job(state, root, job)


def open_language_servers() -> LanguageServers:
    """Return language servers of this process."""
    from hilt.lsp.pool import LanguageServers

    return LanguageServers()


def _trusts(state: str, environ: Mapping[str, str], file: ProjectFile, data: bytes) -> bool:
    from hilt.state.trust import trusts_file

    return trusts_file(state, environ, file, data)


def settings_stamp(workspace: str, environ: Mapping[str, str]) -> tuple[object, ...]:
    """Return a stamp that changes with a workspace's settings files or trust in them; a runtime reads both once."""
    state = places.state_dir(environ)
    stamps: list[object] = [
        rulebook.status(os.path.join(places.config_dir(environ), *paths_of("config", "config")), follow=True)
    ]
    for name in (config.PROJECT, config.FOREIGN):
        file = ProjectFile("config", os.path.realpath(workspace), name)
        stamp = rulebook.status(file.full, follow=True)
        trusted = None
        if stamp is not None:
            with suppress(OSError, ValueError):
                trusted = _trusts(state, environ, file, file.read())
        stamps.append((stamp, trusted))
    return tuple(stamps)
