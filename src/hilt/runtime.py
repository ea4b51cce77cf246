"""The runtime: builds and connects the parts of one workspace."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

from hilt import config, pipeline, places
from hilt.active_call import ActiveCall
from hilt.authority import rulebook
from hilt.authority.authority import Authority, only_reads, vote_on_reading
from hilt.authority.path_vote import vote_on_paths
from hilt.call import Asker, Call, Json, Questioner, Result, Touch, check_name, storable
from hilt.catalog import Catalog, FoundTool, built_in_names
from hilt.config import RuntimePaths
from hilt.context import Attendant, Context
from hilt.custom.toolbox import Toolbox
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.files.door import Door, Root
from hilt.files.workspace import Store, Workspace
from hilt.homes import find_homes
from hilt.lazy import Lazy
from hilt.loaders import ProjectFile, folders, guarded, paths_of, writable_places
from hilt.output.overflow import Overflow
from hilt.pipeline import NO_HOOKS, Prepared, Voter
from hilt.policy.decision import Vote
from hilt.policy.paths import ASKED, PROTECTED, PathRules, without
from hilt.running.recorder import Recorder, unrecorded
from hilt.running.scheduler import Scheduler
from hilt.state.trail import Trail
from hilt.surroundings import Surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.children import AgentHost
    from hilt.authority.explanation import Explanation
    from hilt.authority.hooks import EventResult
    from hilt.authority.principal import SessionPrincipal
    from hilt.custom.layers import CustomTools
    from hilt.custom.watching import FolderWatch
    from hilt.desktop.control import Desktop
    from hilt.desktop.shared_display import SharedDisplay
    from hilt.knowledge.related import Knowledge
    from hilt.lsp.access import Connect, Languages, ServerAccess
    from hilt.lsp.pool import LanguageServers
    from hilt.processes.children import Processes
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
    from hilt.web.client import Web

RECOVERY_SECONDS = 30.0
SESSIONS_MAX = 256  # kept in memory; others are opened again on their next call


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


class Runtime:
    """Runs tool calls in one workspace. Safe to use from many threads."""

    def __init__(
        self,
        workspace: str = ".",
        *,
        tools: Iterable[Tool] = (),
        session: str | None = None,
        environ: Mapping[str, str] | None = None,
        flags: Mapping[str, Any] | None = None,
        keeps_jobs: bool = True,
        shared: Shared | None = None,
        asker: Asker | None = None,
        questioner: Questioner | None = None,
        connect: Connect | None = None,
    ) -> None:
        """Create a runtime. Pass `keeps_jobs=False` if it ends with its call. The owner of `shared` closes it.

        `asker` asks a person to approve a call, `questioner` asks a person a tool's questions. `connect` connects to
        the language servers of the resident process.
        """
        env = os.environ if environ is None else environ
        self._given_root = os.path.abspath(workspace)  # as callers may write it: links are not resolved
        self.root = os.path.realpath(workspace)
        if not os.path.isdir(self.root):
            raise ToolError(
                "file_not_found",
                f"The workspace {workspace} is not a folder.",
                suggestion="Pass a folder with --workspace, or start in one.",
            )
        self.state = places.state_dir(env)
        try:
            places.make_state_dir(self.state)
        except OSError as error:
            raise ToolError(
                "permission_denied",
                f"The state directory {self.state} cannot be created: {os.strerror(error.errno or 0)}.",
                suggestion="Set HILT_STATE_DIR to a writable folder.",
            ) from error
        self._config = places.config_dir(env)
        self.session = session or env.get("HILT_SESSION") or "default"
        check_name("session", self.session)
        self.settings = config.load(self.root, env, flags or {}, partial(trusts_file, self.state, env))
        self.id = config.digest(self.root)
        others = [os.path.realpath(os.path.expanduser(path)) for path in self.settings["workspace.roots"]]
        self.folders = (self.root, *others)  # where tools can write
        for folder in self.folders:
            if places.is_below(folder, os.path.realpath(self.state)):
                raise ToolError(
                    "sensitive_path",
                    f"{folder} is in hilt's state directory, which tools cannot access.",
                    suggestion="Open another folder as the workspace.",
                )
        trees = places.worktrees_dir(self.state)
        self.surroundings = Surroundings(env, (*self.folders, self.state, trees))
        self._toolbox = Toolbox(
            self.root,
            self.surroundings,
            self.state,
            others=others,
            directories=self.settings["custom.dirs"],
            reserved=lambda: (*built_in_names(), *self.catalog.library_names()),
            grants=self,
            confine=self._confine_custom,
            sandbox=self.settings["custom.sandbox"],
            confine_module=self._confine_module,
        )
        self.environ = env
        self._shared = shared
        self._keeps_jobs = keeps_jobs
        self._servers = Lazy(self._open_servers)
        self.history = Lazy(self._open_history)
        self.memory = Lazy(self._open_memory)
        self.knowledge = Lazy(self._open_knowledge)
        self.board = Lazy(self._open_board)
        self._todos = Lazy(self._open_todos)
        self.roster = Lazy(self._open_roster)
        self.agents = Lazy(self._open_agents)
        self.skills = Lazy(self._open_skills)
        self._skill_watch = Lazy(self._open_skill_watch)
        self._pages = Lazy(self._open_pages)
        self._pages_file = os.path.join(self.state, "cache", "web.db")
        self._display = Lazy(self._open_display)
        self._confinement = Lazy(self._open_confinement)
        self._jobs = Lazy(self._open_jobs)
        self._connect = connect if self.settings["resident"] != "off" else None
        self._own_servers = Lazy(_open_language_servers)
        self.catalog = Catalog(tools, self._toolbox, self.servers)
        self.trail = Trail(os.path.join(self.state, "trail.db"))
        self._journal = os.path.join(self.state, "journal", self.id)
        self.secrets: dict[str, str] = {}  # redacted from events, besides those of the environment
        self._publisher = Lazy(self._open_publisher)
        self._recorder = Recorder(self.trail, self.id, self.state, self._take_notes, self._publisher)
        self._scheduler = Scheduler()
        home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
        paths = RuntimePaths(self.root, self.id, self._config, self.state, home)
        self.authority = Authority(
            paths, self.settings, self.catalog, self.surroundings, asker, self._was_used, self._agent_of
        )
        self.authority.record_hook = self._recorder.record_hook
        self._questioner = questioner
        self.asks_person = asker is not None or questioner is not None
        self._voters: tuple[Voter, ...] = (self.authority.weigh, vote_on_paths)
        self._reading_voters: tuple[Voter, ...] = (vote_on_reading, vote_on_paths)
        self._guarded = guarded(self.folders, env, self.settings["custom.dirs"])
        self._rules = PathRules(
            self.settings["workspace.sensitive"],
            self.settings["workspace.readable"],
            without(
                (*PROTECTED, *self._guarded, *self.settings["workspace.protected"]), self.settings["workspace.writable"]
            ),
            # without a HEAD, no folder is a repository
            without((*ASKED, "HEAD"), self.settings["workspace.writable"]),
        )
        # matches files that tools cannot open under any name; assign it before the first call
        self.marked: Callable[[os.stat_result], bool] | None = None
        self._stores: dict[str, tuple[Store, Overflow]] = {}
        self._lock = threading.Lock()
        self._is_recovered = False
        endpoint = self.settings["telemetry.endpoint"]
        if endpoint or env.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
            from hilt.telemetry import open_telemetry

            self._recorder.telemetry = open_telemetry(env, endpoint)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def give_up(self, seconds: float) -> None:
        """Stop the agents that run here, cancel running calls, and wait up to this long for them to clean up."""
        self.agents.close()
        self._scheduler.give_up(seconds)

    def close(self) -> None:
        """Cancel running calls and close files and databases; later calls fail as cancelled."""
        self.give_up(0)
        if self._shared is None:
            self._jobs.close()
        self._own_servers.close()
        self._display.close()
        self._scheduler.close()
        self._toolbox.close()
        self._servers.close()
        self._confinement.close()
        self._stores.clear()
        self.trail.close()
        self.end_telemetry()
        self.authority.close()
        for part in (
            self._publisher,
            self._skill_watch,
            self.skills,
            self.history,
            self.memory,
            self.knowledge,
            self.board,
            self._todos,
            self.roster,
            self._pages,
        ):
            part.close()

    def end_telemetry(self) -> None:
        """Send pending spans and metrics."""
        if self._recorder.telemetry is not None:
            self._recorder.telemetry.close()
            self._recorder.telemetry = None

    def tidy(self, seconds: float) -> None:
        """Do deferred cleanup: end idle sessions, remove old files, and compress undo data for about this long."""
        with suppress(ToolError):  # the next call of tidy retries it
            self.trail.end_idle()
            self.trail.prune()
            self._store(self.session)[1].make_room()
            self._remove_rooms()
            self._keep_quota()
            self.history().blobs.compress(seconds)

    def _remove_rooms(self) -> None:
        """Remove the private folders of sessions that have not run a command for a long time."""
        from hilt.sandbox import rooms

        unused_since = time.time() - self.settings["output.keep_days"] * 86400
        rooms.remove_unused(os.path.join(self.state, "sandbox"), unused_since)

    def _keep_quota(self) -> None:
        from hilt.running.cleaning import clean_if_due

        clean_if_due(self.state, self.settings)

    def _open_publisher(self) -> Publisher:
        from hilt.running.publishing import Publication, Publisher

        environ = {**self.environ, **self.secrets}
        return Publisher(Publication(self.state, self.root, environ, self.settings["events.keep"]))

    def _open_history(self, id: str | None = None) -> History:
        from hilt.state.history import History

        calls, megabytes = self.settings["undo.calls"], self.settings["undo.mb"]
        return History(self.state, self._journal, id or self.id, calls=calls, megabytes=megabytes)

    def _open_memory(self) -> Memory:
        from hilt.state.memory import Memory

        return Memory(self._config, self.root)

    def _open_knowledge(self) -> Knowledge:
        from hilt.knowledge.index import MIGRATIONS
        from hilt.knowledge.locations import KnowledgePlaces
        from hilt.knowledge.related import Knowledge
        from hilt.state.db import Database

        paths, is_sensitive = self.settings["related_context.paths"], self._rules.is_sensitive
        locations = KnowledgePlaces(self.environ, self._config, paths, self.root, is_sensitive)
        fallback = os.path.join(self.state, "cache")
        return Knowledge(locations, fallback, lambda path: Database(path, MIGRATIONS, durable=False, is_cache=True))

    def _open_board(self) -> Board:
        from hilt.state.board import Board

        return Board(self.state, self.id)

    def _open_todos(self) -> TodoLists:
        from hilt.state.todos import TodoLists

        return TodoLists(self.state, self.id)

    def _open_roster(self) -> Roster:
        from hilt.state.roster import Roster

        url = self.settings["agents.database"]
        if not url:
            return Roster(self.state, self.id)
        from hilt.agents.durable.stores import open_shared

        name = self.settings["workspace.name"] or self.id
        return Roster(self.state, name, open_shared(url, name))

    def _open_agents(self) -> AgentHost:
        from hilt.agents.children import AgentHost

        return AgentHost(self)

    def _agent_of(self, session: str) -> AgentRecord | None:
        return self.roster().get(session)

    @property
    def keeps_agents(self) -> bool:
        """Whether agents can keep running here after the call that started them."""
        return self._keeps_jobs

    def in_session(self, session: str, settings: config.Settings, folder: str | None = None) -> Runtime:
        """Return this runtime for another session, with its own settings; both share everything else.

        With `folder`, it works in that copy of the workspace, under the rules of the workspace, and its commands can
        read of the workspace what commands there can: end it with `close_folder`. Close only the original.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, session=session, settings=settings)
        if folder is not None:
            other._move(folder, self)
        return other

    def _move(self, folder: str, main: Runtime) -> None:
        self.root = self._given_root = folder
        self.folders = (folder, *self.folders[1:])
        self._stores = {}
        self._journal = os.path.join(self.state, "journal", config.digest(folder))
        self.history = Lazy(lambda: self._open_history(config.digest(folder)))  # paths in it are relative
        self.authority = self.authority.in_folder(folder)
        self._voters = (self.authority.weigh, vote_on_paths)
        self._confinement = Lazy(lambda: main._confinement().in_copy(self.settings, self.authority.bars))
        self._connect, self._shared, self._own_servers = None, None, Lazy(_open_language_servers)

    def close_folder(self) -> None:
        """Close the resources that a runtime for a copy of the workspace does not share."""
        self._own_servers.close()
        self.history.close()

    def _open_skills(self) -> SkillLibrary:
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

    def _open_skill_watch(self) -> FolderWatch:
        from hilt.custom.watching import FolderWatch

        return FolderWatch(self.skills())

    def listen_to_skills(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback`, from any thread, when skills or commands change; return a function that stops this."""
        return self._skill_watch().add(callback)

    def _open_pages(self) -> PageCache:
        from hilt.state.db import Database
        from hilt.web.cache import MIGRATIONS, PageCache

        return PageCache(Database(self._pages_file, MIGRATIONS, durable=False, is_cache=True))

    def _web(self, ctx: Context, active: ActiveCall) -> Web:
        """Return the web for a call."""
        from hilt.authority.reaching import admit
        from hilt.custom.launching import own_variable
        from hilt.web.certificates import trusted
        from hilt.web.client import Access, Web
        from hilt.web.guard import NetworkGuard

        prepared = active.prepared
        if prepared is None:
            raise ToolError("internal", "Only tool calls can use the web.")
        return Web(
            Access(
                NetworkGuard(self.settings["web.allow_private"]),
                self._pages(),
                session=f"{self.id}/{active.session}",
                fence=active.fence,
                admit=partial(admit, prepared, ctx, self._voters),
                contacted=active.contacts.append,
                tls=partial(trusted, self.environ),
                secret=partial(own_variable, self.environ),
                base_urls=self.settings["web.base_urls"],
            )
        )

    def jobs(self) -> Jobs:
        """Return the background jobs."""
        if not self._keeps_jobs:
            raise ToolError("resident_required", "A background job would end with this call.")
        return self._jobs()

    def _open_jobs(self) -> Jobs:
        if self._shared is not None:
            return self._shared.jobs
        from hilt.processes.jobs import Jobs

        report = partial(_report_job, self.state, self.root)
        return Jobs(folder=partial(session_folder, self.state, self.id), report=report)

    def language_servers(self, session: str | None = None) -> ServerAccess:
        """Return access to the language servers: shared by runtimes, of the resident process, or our own."""
        from hilt.lsp.access import LocalAccess, ResidentAccess

        door = self._store(session or self.session)[0].door
        pool = self._own_servers if self._shared is None else self._shared.language_servers
        local = LocalAccess(pool, lambda: self._confinement().language_servers(door))
        return local if self._connect is None or self._shared is not None else ResidentAccess(self._connect, local)

    def _languages(self, ctx: Context) -> Languages:
        from hilt.lsp.access import Languages

        return Languages(self.language_servers(ctx.session), ctx.fence, ctx.progress, self._end_own_servers)

    def _open_display(self) -> SharedDisplay:
        from hilt.desktop.shared_display import SharedDisplay

        settings = self.settings
        display, private = settings["desktop.display"], settings["desktop.private"]
        return SharedDisplay(self.environ, display=display, private=private, state=self.state)

    def _desktop(self, ctx: Context, active: ActiveCall) -> Desktop:
        from hilt.authority.principal import SessionPanic
        from hilt.desktop.control import Desktop

        called = time.time() - (time.perf_counter() - active.started)
        panic = SessionPanic(self.authority, ctx.session)
        longest = self.settings["desktop.longest_side"]
        return Desktop(self._display(), ctx.values, panic, ctx.fence, longest=longest, called=called)

    def _end_own_servers(self) -> None:
        """End the language servers of this process if it ends with its call."""
        if not self._keeps_jobs and self._own_servers.part is not None:
            self._own_servers.close()
            self._own_servers = Lazy(_open_language_servers)

    @property
    def running_jobs(self) -> int:
        """How many jobs are running."""
        jobs = self._jobs.part if self._shared is None else self._shared.jobs
        return 0 if jobs is None else jobs.running

    @property
    def runs_agents(self) -> bool:
        """Whether agents are running in the background."""
        return self.agents.part is not None and self.agents.part.running > 0

    @property
    def busy(self) -> bool:
        """Whether jobs or agents are running."""
        return self.runs_agents or self.running_jobs > 0

    def fire(
        self, event: str, *, arguments: Json = None, result: Json = None, fence: Fence | None = None
    ) -> EventResult | None:
        """Run the session's hooks for an event and return their combined answer; None without hooks.

        Giving up `fence` ends the hooks.
        """
        if not self.authority.has_hooks(self.session):
            return None
        active = self._active(Call(event))
        active.fence = fence or active.fence
        return self.authority.session_hooks().of(self._context(active)).event(event, arguments=arguments, result=result)

    def keep_text(self, text: str, label: str) -> str | None:
        """Save a text in the session's overflow folder, where `read_file` can open it; None if that fails."""
        from hilt.output.overflow import split_long_lines

        return self._store(self.session)[1].try_save(split_long_lines(text), label)

    def change_of(self, session: str, call: str) -> str | None:
        """Return the id of the change that a call of a session has made, or None; unfinished changes are recovered.

        Raise busy if that takes too long.
        """
        workspace = Workspace(self._store(session)[0], session, Fence())
        deadline = time.monotonic() + RECOVERY_SECONDS
        while True:
            workspace.recover()
            change = self.history().change_of(session, call)
            if change is None or not change[1]:
                return None if change is None else change[0]
            if time.monotonic() > deadline:
                raise ToolError("busy", f"The change {change[0]} is being recovered.")
            time.sleep(0.01)  # another thread or process recovers it

    def end_session(self, session: str) -> bool:
        """End the jobs of a session and forget what it has read; return whether the session existed."""
        check_name("session", session)
        jobs = self._jobs.part if self._shared is None else self._shared.jobs
        if jobs is not None:
            jobs.end_session(session)
        self.roster().cancel(session, itself=False)
        from hilt.sandbox import rooms

        rooms.remove(rooms.private_folder(self.state, self.id, config.digest(session)))
        if os.path.exists(self._pages_file):
            self._pages().forget(f"{self.id}/{session}")
        had_values = self.authority.values().clear(self.id, session)
        had_todos = self._todos().clear(session)
        return self.trail.end_session(self.id, session) or had_values or had_todos

    def custom(self) -> CustomTools:
        """Return the custom tools, valid, broken and untrusted."""
        return self._toolbox.tools_found()

    def servers(self) -> Servers | None:
        """Return the MCP servers whose tools are in the catalog; None when there are none, or this hilt is nested."""
        if self._servers.part is not None:
            return self._servers.part
        is_configured = self.settings["mcp.servers"] or any(
            os.path.lexists(os.path.join(self.root, name)) for name in (*paths_of("servers"), config.FOREIGN)
        )
        return self._servers() if is_configured and not self.environ.get("HILT_NESTED") else None

    def _open_servers(self) -> Servers:
        from hilt.servers.tools import Servers

        return Servers(
            self.root,
            self.surroundings,
            self.state,
            personal=self.settings["mcp.servers"],
            trusts=partial(trusts_file, self.state, self.environ),
        )

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback`, from any thread, when the list of tools changes; return a function that stops this."""
        from hilt.servers.polling import watch

        stops = [self._toolbox.listen(callback), watch(self.servers, callback)]

        def stop() -> None:
            for stop_source in stops:
                stop_source()

        return stop

    def has(self, grant: str) -> bool:
        """Whether the user has granted a permission that a custom tool asked for."""
        return any(stored.rule == grant for stored in self.authority.approvals().grants(self.id))

    def _open_confinement(self) -> Confinement:
        from hilt.processes.confinement import Confinement

        shared = self._shared.sandbox if self._shared else None
        authority = self.authority
        return Confinement(
            authority.place,
            self.settings,
            self.surroundings,
            self._rules,
            authority.mode,
            authority.bars,
            shared,
            self._guarded,
        )

    def _take_notes(self) -> tuple[str, ...]:
        confinement = self._confinement.part
        return () if confinement is None else confinement.take_notes()

    def _confine_custom(
        self, ctx: CallScope, sandbox: DeclaredSandbox, cwd: str, folder: str | None
    ) -> AbstractContextManager[Launch]:
        return self._confinement().custom(ctx, sandbox, cwd, folder)

    def _confine_module(self, sandbox: DeclaredSandbox, cwd: str) -> AbstractContextManager[Launch]:
        return self._confinement().module(self._context(self._active(Call("custom"))), sandbox, cwd)

    def _processes(self, ctx: Context) -> Processes:
        return self._confinement().processes(
            ctx.fence, ctx.session, ctx.workspace, ctx.overflow, self.jobs, partial(self._has_jobs, ctx.session)
        )

    def _has_jobs(self, session: str) -> bool:
        """Whether background jobs of a session are running."""
        jobs = self._jobs.part if self._shared is None else self._shared.jobs
        return jobs is not None and any(job.status == "running" for job in jobs.list(session))

    # --- calling --------------------------------------------------------------------------------------------------

    def call(self, name: str, /, **args: Any) -> Result:
        """Run a tool with these arguments and return its result."""
        return self.request(Call(name, args))

    def request(self, call: Call, *, attendant: Attendant | None = None) -> Result:
        """Run a call and return its result, at the latest when it times out; `attendant` is the client of the call."""
        ended = threading.Event()
        results: list[Result] = []

        def done(result: Result) -> None:
            results.append(result)
            ended.set()

        running = self.submit(call, done, attendant=attendant)
        while not ended.wait(running.patience()):
            running.time_out_if_late()
        return results[0]

    def submit(
        self,
        call: Call,
        done: Callable[[Result], None],
        *,
        here: Callable[[], None] | None = None,
        began: Callable[[ActiveCall], None] | None = None,
        attendant: Attendant | None = None,
    ) -> ActiveCall:
        """Start a call and return immediately; `done` receives the result, on this thread or another.

        `done` must not wait for another call of this runtime: calls that touch the same paths run after it. With
        `here`, a call that need not wait for others runs on this thread; `here` is called first, when the call has its
        place in the queue. `began` receives the call before anything else. `attendant` is the client of the call.
        """
        active = self._active(call, done, attendant)
        if began is not None:
            began(active)
        self._scheduler.submit(active, pipeline.order(active, self), done, here)
        return active

    def watch_deadlines(self) -> None:
        """Start a thread that times out late calls; for surfaces that do not wait for each call."""
        self._scheduler.watch_deadlines()

    def explain(self, call: Call) -> Explanation:
        """Return the decision on a call with every vote, and the hooks that would run; nothing runs."""
        from hilt.authority.explanation import explain

        active = self._active(call)
        match = pipeline.resolve(active, self)  # may replace the call
        prepared = pipeline.prepare(active.call, *match)
        ctx = self._context(active)
        return explain(prepared, ctx, self.voters(active, prepared), self.authority.hooks(ctx), self.authority)

    def resolve(self, call: Call) -> tuple[Call, FoundTool]:
        """Return a call, or the call that it forwards, with its tool."""
        active = self._active(call)
        match = pipeline.resolve(active, self)
        return active.call, match

    def _active(
        self, call: Call, done: Callable[[Result], None] = lambda result: None, attendant: Attendant | None = None
    ) -> ActiveCall:
        return ActiveCall(call, storable(call.session or self.session), done, self._recorder.record, attendant)

    # --- pipeline.World -------------------------------------------------------------------------------------------

    @property
    def dialect(self) -> str | None:
        """The default dialect."""
        chosen: str | None = self.settings["dialect"]
        return chosen

    def conceal(self, active: ActiveCall, tool: Tool, error: ToolError) -> ToolError:
        """Return the error for invalid arguments; for a hidden tool, only that it is hidden."""
        if error.code != "invalid_args":
            return error
        reason = self.authority.hidden(tool, active.session)
        if reason is None:
            return error
        active.decision = Vote("deny", "mode", reason)
        return pipeline.denial(active.decision, tool)

    def paths(self, active: ActiveCall, prepared: Prepared) -> Callable[[], dict[str, bool]]:
        """Return a function that returns the paths that a call reads (False) or writes (True)."""
        return partial(touched_paths, self._store(active.session)[0].door, prepared.touches)

    def open(self, active: ActiveCall, prepared: Prepared) -> Context:
        """Verify that a call can be recorded, and return its context."""
        active.deadline = time.perf_counter() + prepared.tool.timeout
        try:
            self.trail.make_ready(full=prepared.tool.traits.frees_space)
        except ToolError as error:
            raise unrecorded(error, ran=False) from error
        active.ran = True
        self._recorder.begin(active)
        ctx = self._context(active)
        active.is_unrestricted = self.authority.is_unrestricted(active.session)
        return ctx

    def hooks(self, active: ActiveCall, ctx: Context) -> pipeline.HooksAround:
        """Return the hooks around a call, and add problems of rules and hooks to its metadata."""
        if active.is_unrestricted:
            return NO_HOOKS
        hooks = self.authority.hooks(ctx)
        notes = [*self.authority.notes(), *hooks.notes]
        if notes:
            ctx.meta["policy"] = notes
        return hooks

    def voters(self, active: ActiveCall, prepared: Prepared) -> Sequence[Voter]:
        """Return the voters on a call."""
        return self._reading_voters if active.is_unrestricted and only_reads(prepared.tool) else self._voters

    def approve(self, active: ActiveCall, prepared: Prepared, ctx: Context) -> Prepared:
        """Ask a person to approve a call; the time they take does not count towards the timeout."""
        from hilt.authority.approving import approve

        active.deadline = float("inf")
        with self._scheduler.waiting(active):
            active.approver, args = approve(self.authority, prepared, active.decision, ctx, active.call)
        active.deadline = time.perf_counter() + prepared.tool.timeout
        return prepared._replace(args=args)

    def report_exception(self, active: ActiveCall, error: BaseException) -> ToolError:
        """Log an unexpected exception, ours or the tool's, and return the error to report."""
        return self._recorder.report_exception(active.prepared, error)

    # --- contexts -------------------------------------------------------------------------------------------------

    def _context(self, active: ActiveCall) -> Context:
        store, overflow = self._store(active.session)
        workspace = Workspace(store, active.session, active.fence, str(active.call.id or ""))
        active.workspace = workspace
        ctx = Context(
            workspace=workspace,
            door=workspace.door,
            session=active.session,
            client=active.call.client,
            settings=self.settings,
            catalog=self.catalog,
            overflow=overflow,
            fence=active.fence,
            memory=self.memory,
            knowledge=self.knowledge,
            board=self.board,
            todos=self._todos,
            skills=self.skills,
            processes=self._processes,
            jobs=self.jobs,
            principal=lambda ctx: self._principal(ctx, active),
            web=lambda ctx: self._web(ctx, active),
            languages=self._languages,
            desktop=lambda ctx: self._desktop(ctx, active),
            agents=lambda ctx: self.agents().for_call(ctx),
            attendant=active.attendant,
        )
        reports = workspace.recover()
        if reports:
            ctx.meta["recovered"] = reports
        if not self._is_recovered:
            self._is_recovered = True
            # programs that ran when hilt was killed; usually none
            with suppress(FileNotFoundError):
                if os.listdir(places.running_dir(self.state)):
                    self._confinement().recover()
        return ctx

    def _principal(self, ctx: Context, active: ActiveCall) -> SessionPrincipal:
        from hilt.authority.principal import SessionPrincipal

        note_approver = partial(setattr, active, "approver")
        return SessionPrincipal(self.authority, ctx, active.call, self._questioner, note_approver)

    def _was_used(self, session: str, since: float) -> bool:
        return self.trail.was_used(self.id, session, since)

    def _store(self, session: str) -> tuple[Store, Overflow]:
        opened = self._stores.get(session)
        if opened is None:
            settings = self.settings
            overflow = Overflow(
                session_folder(self.state, self.id, session),
                keep_days=settings["output.keep_days"],
                keep_megabytes=settings["output.keep_mb"],
                limit=settings["output.overflow_chars"],
            )
            roots = [self._root(self._given_root, None)]
            roots += [self._root(folder, folder) for folder in self.folders[1:]]
            roots.append(Root(overflow.directory, label=overflow.directory, writable=False))
            roots += self._skill_roots(roots)
            locks = os.path.join(self.state, "locks")
            door = Door(roots, self._rules, marked=self.marked)
            store = Store(self.id, door, self.history, self._journal, self.trail, locks)
            opened = store, overflow
            with self._lock:
                while len(self._stores) >= SESSIONS_MAX:
                    del self._stores[next(iter(self._stores))]
                self._stores[session] = opened
        return opened

    def _skill_roots(self, others: Sequence[Root]) -> list[Root]:
        """Return the folders of the user's skills, which tools may read, unless another root contains them."""
        own = [folder.path for folder in folders("skill", self.folders, self.environ) if folder.source == "personal"]
        roots = [Root(path, label=path, writable=False, is_library=True) for path in own]
        return [root for root in roots if not any(places.is_below(root.real, other.real) for other in others)]

    def _root(self, path: str, label: str | None) -> Root:
        """Return a folder that an agent may use, with the paths in it that tools may not write."""
        writable = self.settings["workspace.writable"]
        return Root(
            path,
            label=label,
            writable=True,
            closed=[self.state, places.worktrees_dir(self.state)],
            read_only=[self._config],
            installed=lambda: places.installation(path, writable),
            homes=lambda: find_homes((os.path.realpath(path),), self.environ, writable),
        )

    def schemas(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return name, description and schema of every tool listed for a model, as the active dialect names them."""

        return [(tool.name, tool.description, tool.schema) for tool in self.authority.listed_tools(self.session)]


def touched_paths(door: Door, touches: Iterable[Touch]) -> dict[str, bool]:
    """Return the paths that a call reads (False) or writes (True), normalized so that all spellings are equal."""
    paths: dict[str, bool] = {}
    for touch in touches:
        if touch.effect in ("read", "write"):
            try:
                root, parts = door.locate(touch.target)
            except ToolError:
                continue  # it will be denied
            name = root.display_path([part for part in parts if part])
            if "." in parts or ".." in parts:
                name = os.path.normpath(name)
            name = name.casefold()
            paths[name] = paths.get(name, False) or touch.effect == "write"
    return paths


def share(state: str, workspace: str) -> Shared:
    """Return the resources that the runtimes of one workspace share."""
    from hilt.processes.jobs import Jobs
    from hilt.sandbox.sandbox import Sandbox

    root = os.path.realpath(workspace)
    jobs = Jobs(folder=partial(session_folder, state, config.digest(root)), report=partial(_report_job, state, root))
    return Shared(jobs, Sandbox(state), Lazy(_open_language_servers))


def _report_job(state: str, root: str, job: JobState) -> None:
    """Publish that a job has started or ended, if `hilt serve` may be running."""
    if os.path.exists(places.serving_marker(state)):
        from hilt.running.publishing import publish_job

        with suppress(Exception):  # must not affect the job
            publish_job(state, root, job)


def _open_language_servers() -> LanguageServers:
    from hilt.lsp.pool import LanguageServers

    return LanguageServers()


def trusts_file(state: str, environ: Mapping[str, str], file: ProjectFile, data: bytes) -> bool:
    """Whether the user trusts a project's file with this content."""
    from contextlib import closing

    from hilt.formats.digests import sha256
    from hilt.state.trust import Trust, trusts_all

    with closing(Trust(state, everything=trusts_all(environ))) as trust:
        return trust.is_trusted(file, sha256(data))


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
                trusted = trusts_file(state, environ, file, file.read())
        stamps.append((stamp, trusted))
    return tuple(stamps)


def session_folder(state: str, workspace: str, session: str) -> str:
    """Return the folder for the overflow of a session."""
    return os.path.join(state, "overflow", workspace, config.digest(session))
