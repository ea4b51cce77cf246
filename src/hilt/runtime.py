"""The runtime: builds and joins the parts, and runs calls with a deadline, in order, recorded."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, NamedTuple

from hilt import config, pipeline, places
from hilt.authority import rulebook
from hilt.authority.authority import Authority, only_reads, reads
from hilt.authority.path_vote import paths
from hilt.call import Call, Result
from hilt.catalog import Catalog, built_in_names
from hilt.context import Attendant, Context, Fence
from hilt.custom.toolbox import Toolbox
from hilt.declaration import TIMEOUT_SECONDS, Tool
from hilt.errors import ToolError
from hilt.files.door import Door, Root
from hilt.files.workspace import Store, Workspace
from hilt.output.overflow import Overflow
from hilt.pipeline import Prepared, Voter
from hilt.policy.decision import Vote, decide
from hilt.policy.paths import ASKED, PROTECTED, START_FILES, PathRules, without
from hilt.running.lanes import Lanes
from hilt.running.lanes import Ticket as Turn
from hilt.running.threads import Workers
from hilt.state.trail import Entry, Trail, digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.consent import Asker
    from hilt.authority.explaining import Explanation
    from hilt.authority.hooks import Hooks, Ran, Seen
    from hilt.authority.principal import Questioner, Standing
    from hilt.custom.definition import Sandbox as CustomSandbox
    from hilt.custom.discovery import Found
    from hilt.knowledge.related import Knowledge
    from hilt.policy.hook_protocol import Hook
    from hilt.processes.children import Processes
    from hilt.processes.confinement import Confinement
    from hilt.processes.jobs import Jobs
    from hilt.sandbox.process import Confined
    from hilt.sandbox.profile import Sandbox
    from hilt.servers.tools import Servers
    from hilt.state.history import History
    from hilt.state.memory import Memory
    from hilt.telemetry import Telemetry
    from hilt.web.cache import Cache
    from hilt.web.client import Web

WAITERS_MAX = 512
SESSIONS_MAX = 256  # kept ready; others are made ready again when they call
WATCH_SECONDS = 0.25


_NOT_UNDERSTOOD = Vote("deny", "check", "the call was not understood")


class Shared(NamedTuple):
    """What the runtimes of one workspace share in a process that has several: two callers may differ in settings."""

    jobs: Jobs
    sandbox: Sandbox

    def close(self) -> None:
        """End the jobs, and let go of what confined them."""
        self.jobs.close()
        self.sandbox.close()


class Running:
    """A call under way: where its result goes, and the way to stop it."""

    def __init__(
        self, runtime: Runtime, call: Call, done: Callable[[Result], None], attendant: Attendant | None = None
    ) -> None:
        self.call = call
        self.attendant = attendant
        self.fence = Fence()
        self.session = call.session or runtime.session
        self.prepared: Prepared | None = None
        self.decision = _NOT_UNDERSTOOD
        self.approver = ""
        self.ran = False  # whether anything of it may have run
        self.contacts: list[str] = []  # addresses that it connected to
        self.workspace: Workspace | None = None
        self.turn: Turn | None = None
        self.started = time.perf_counter()
        self.deadline = float("inf")
        self._done = done
        self._lock = threading.Lock()
        self._settled = False
        self._runtime = runtime

    @property
    def settled(self) -> bool:
        """Whether the result has been delivered, or is being so."""
        return self._settled

    def patience(self) -> float:
        """Return how long to wait before the deadline is looked at again; it is known once the call runs."""
        if self.deadline == float("inf"):
            return WATCH_SECONDS
        return min(max(self.deadline - time.perf_counter(), WATCH_SECONDS), 3600)

    def cancel(self) -> None:
        """Give the call up, unless it is already committing."""
        self._give_up(ToolError("cancelled", f"The call of {self.call.tool} was cancelled."))

    def time_out_if_late(self) -> None:
        """Give the call up when its time is over; in vain when it is committing: then its own answer comes."""
        if self.deadline > time.perf_counter():
            return
        seconds = self.prepared.tool.timeout if self.prepared else 0
        self._give_up(ToolError("timeout", f"{self.call.tool} took longer than {seconds:g} s."))

    def _give_up(self, reason: ToolError) -> None:
        if self.fence.give_up(reason):
            self.settle(Result(error=reason, id=self.call.id, request_id=self.call.request_id))

    def abandon(self, error: ToolError) -> None:
        """Record the end of a call whose client was asked something and will not answer."""
        self._runtime._record(self, _failed(self.call, error))

    def settle(self, result: Result) -> None:
        """Record and deliver the result; only the first one counts."""
        with self._lock:
            first, self._settled = not self._settled, True
        # a run that ended to ask its client is not the end of the call, which has one record
        if first and (result.error is None or self.attendant is None or not self.attendant.has_questions):
            result = self._runtime._record(self, result)
        if first:
            self._done(result)


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
    ) -> None:
        """Make a runtime; one that ends with its call cannot keep jobs. What is shared, somebody else closes.

        `asker` is a person who says whether a call may run, `questioner` one who answers questions of a tool.
        """
        env = os.environ if environ is None else environ
        self._named = os.path.abspath(workspace)  # the way callers may spell it, when it goes through a link
        self.root = os.path.realpath(workspace)
        if not os.path.isdir(self.root):
            raise ToolError(
                "file_not_found",
                f"The workspace {workspace} is not a folder.",
                suggestion="Name a folder with --workspace, or start in one.",
            )
        self.state = places.state_dir(env)
        try:
            places.make_state_dir(self.state)
        except OSError as error:
            raise ToolError(
                "permission_denied",
                f"The state directory {self.state} cannot be made: {os.strerror(error.errno or 0)}.",
                suggestion="Set HILT_STATE_DIR to a folder that can be written.",
            ) from error
        self._config = places.config_dir(env)
        self.session = session or env.get("HILT_SESSION") or "default"
        self.settings = config.load(self.root, env, flags or {}, partial(trusts_settings, self.state, env))
        self.id = config.digest(self.root)
        self._toolbox = Toolbox(
            self.root,
            env,
            self.state,
            directories=self.settings["custom.dirs"],
            reserved=lambda: (*built_in_names(), *self.catalog.given_names()),
            grants=self,
            confine=self._confine_custom,
            sandbox=self.settings["custom.sandbox"],
            confine_module=self._confine_module,
        )
        self._servers: Servers | None = None
        self.catalog = Catalog(tools, self._toolbox, self.servers)
        self.trail = Trail(os.path.join(self.state, "trail.db"))
        self._journal = os.path.join(self.state, "journal", self.id)
        self._history: History | None = None
        self._memory: Memory | None = None
        self._knowledge: Knowledge | None = None
        self._web_cache: Cache | None = None
        self._web_file = os.path.join(self.state, "cache", "web.db")
        self._shared = shared
        self._confined: Confinement | None = None
        self._jobs: Jobs | None = shared.jobs if shared else None
        self._keeps_jobs = keeps_jobs
        self._environ = env
        home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
        place = rulebook.Place(self.root, self.id, self._config, self.state, home)
        self.authority = Authority(place, self.settings, self.catalog, env, asker, self._was_used)
        self.authority.record_hook = self._record_hook
        self._questioner = questioner
        self.voters: tuple[Voter, ...] = (self.authority.vote, paths)
        self._reading_voters: tuple[Voter, ...] = (reads, paths)
        self._rules = PathRules(
            self.settings["workspace.sensitive"],
            self.settings["workspace.readable"],
            without((*PROTECTED, *self.settings["workspace.protected"]), self.settings["workspace.writable"]),
            without(ASKED, self.settings["workspace.writable"]),
        )
        # tells files that stay closed to tools whatever their names; set before the first call
        self.marked: Callable[[os.stat_result], bool] | None = None
        self._stores: dict[str, tuple[Store, Overflow]] = {}
        self._lock = threading.Lock()
        self._lanes = Lanes()
        self._running: set[Running] = set()
        self._workers = Workers()
        self._waiters = Workers(WAITERS_MAX)  # for calls that may wait long: others never wait for them
        self._watching = False
        self._closed = threading.Event()
        self._is_recovered = False
        self._telemetry: Telemetry | None = None
        endpoint = self.settings["telemetry.endpoint"]
        if endpoint or env.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
            from hilt.telemetry import open_telemetry

            self._telemetry = open_telemetry(env, endpoint)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def give_up(self, seconds: float) -> None:
        """Give up what is running, and wait until it has ended what it started, at most this long."""
        with self._lock:
            self._closed.set()
            running = list(self._running)
        for call in running:
            call.cancel()
        until = time.monotonic() + seconds
        while self._running and time.monotonic() < until:
            time.sleep(0.01)

    def close(self) -> None:
        """Give up what is running and close files and databases; later calls are answered as cancelled."""
        self.give_up(0)
        if self._jobs is not None and self._shared is None:
            self._jobs.close()
        self._workers.close()
        self._waiters.close()
        self._toolbox.close()
        if self._servers is not None:
            self._servers.close()
        if self._confined is not None:
            self._confined.close()
        self._stores.clear()
        self.trail.close()
        self.end_telemetry()
        self.authority.close()
        for part in (self._history, self._memory, self._knowledge, self._web_cache):
            if part is not None:
                part.close()

    def end_telemetry(self) -> None:
        """Send what has not been sent yet of spans and measurements."""
        if self._telemetry is not None:
            self._telemetry.close()
            self._telemetry = None

    def tidy(self, seconds: float) -> None:
        """Do what calls put off: forget idle sessions and pack what undo keeps, for about this long."""
        with suppress(ToolError):  # what cannot be done now can be done another time
            self.trail.end_idle()
            self.trail.prune()
            self._store(self.session)[1].make_room()
            self._remove_rooms()
            self.history().compress(seconds)

    def _remove_rooms(self) -> None:
        """Remove the private folders of sessions that have not run a command for long."""
        from hilt.sandbox import rooms

        unused_since = time.time() - self.settings["output.keep_days"] * 86400
        rooms.remove_unused(os.path.join(self.state, "sandbox"), unused_since)

    def history(self) -> History:
        """Return the snapshots of the workspace; opened on first use."""
        with self._lock:
            if self._history is None:
                from hilt.state.history import History

                calls, megabytes = self.settings["undo.calls"], self.settings["undo.mb"]
                self._history = History(self.state, self._journal, self.id, calls=calls, megabytes=megabytes)
            return self._history

    def memory(self) -> Memory:
        """Return the user's memory; opened on first use."""
        with self._lock:
            if self._memory is None:
                from hilt.state.memory import Memory

                self._memory = Memory(self._config, self.root)
            return self._memory

    def knowledge(self) -> Knowledge:
        """Return what ranks the user's knowledge; opened on first use."""
        with self._lock:
            if self._knowledge is None:
                from hilt.knowledge.index import MIGRATIONS
                from hilt.knowledge.locations import Places
                from hilt.knowledge.related import Knowledge
                from hilt.state.db import Database

                settings, rules = self.settings, self._rules
                places = Places(
                    self._environ, self._config, settings["related_context.paths"], self.root, rules.is_sensitive
                )
                spare = os.path.join(self.state, "cache")
                self._knowledge = Knowledge(places, spare, lambda path: Database(path, MIGRATIONS, durable=False))
            return self._knowledge

    def _pages(self) -> Cache:
        """Return the pages that sessions keep; opened on first use."""
        with self._lock:
            if self._web_cache is None:
                from hilt.state.db import Database
                from hilt.web.cache import MIGRATIONS, Cache

                self._web_cache = Cache(Database(self._web_file, MIGRATIONS, durable=False))
            return self._web_cache

    def _web(self, ctx: Context, running: Running) -> Web:
        """Return the web for a call."""
        from hilt.authority.reaching import admit
        from hilt.custom.launching import own_variable
        from hilt.web.certificates import trusted
        from hilt.web.client import Access, Web
        from hilt.web.guard import Guard

        if running.prepared is None:
            raise ToolError("internal", "The web is for calls of tools.")
        return Web(
            Access(
                Guard(self.settings["web.allow_private"]),
                self._pages(),
                session=f"{self.id}/{running.session}",
                fence=running.fence,
                admit=partial(admit, running.prepared, ctx, self.voters),
                contacted=running.contacts.append,
                tls=partial(trusted, self._environ),
                secret=partial(own_variable, self._environ),
                base_urls=self.settings["web.base_urls"],
            )
        )

    def jobs(self) -> Jobs:
        """Return the background jobs; opened on first use."""
        if not self._keeps_jobs:
            raise ToolError("resident_required", "A background job would end together with this call.")
        with self._lock:
            if self._jobs is None:
                from hilt.processes.jobs import Jobs

                self._jobs = Jobs(folder=partial(session_folder, self.state, self.id))
            return self._jobs

    @property
    def busy(self) -> bool:
        """Whether jobs are running."""
        return self._jobs is not None and self._jobs.busy

    def fire(self, event: str) -> None:
        """Let the hooks of an event of the session run, if there are any; what they answer changes nothing here."""
        ctx = self._context(Running(self, Call(event), lambda result: None))
        hooks = self.authority.hooks(ctx, ctx.fence)
        if hooks is not None:
            hooks.event(event)

    def end_session(self, session: str) -> bool:
        """End the jobs of a session and forget what it has read; return whether there was one."""
        if self._jobs is not None:
            self._jobs.end_session(session)
        from hilt.sandbox import rooms

        rooms.remove(rooms.private_folder(self.state, self.id, config.digest(session)))
        if os.path.exists(self._web_file):
            self._pages().forget(f"{self.id}/{session}")
        kept = self.authority.values().clear(self.id, session)
        return self.trail.end_session(self.id, session) or kept

    def custom(self) -> Found:
        """Return the custom tools there are, what is broken and what is not trusted."""
        return self._toolbox.found()

    def servers(self) -> Servers | None:
        """Return the MCP servers whose tools join the catalogue; None when there are none, or hilt is one itself."""
        if self._servers is not None:
            return self._servers
        named = self.settings["mcp.servers"] or any(
            os.path.lexists(os.path.join(self.root, name)) for name in (".mcp.json", config.FOREIGN)
        )
        if not named or self._environ.get("HILT_NESTED"):
            return None
        with self._lock:
            if self._servers is None:
                from hilt.servers.tools import Servers

                self._servers = Servers(
                    self.root,
                    self._environ,
                    self.state,
                    personal=self.settings["mcp.servers"],
                    trusts=partial(trusts_file, self.state, self._environ),
                )
            return self._servers

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called, from any thread, when there are other tools than before; return how to stop."""
        from hilt.servers.polling import watch

        stops = [self._toolbox.listen(callback), watch(self.servers, callback)]

        def stop() -> None:
            for one in stops:
                one()

        return stop

    def has(self, grant: str) -> bool:
        """Whether the user keeps allowing what a custom tool asked about."""
        return self.authority.has_grant(grant)

    def _confinement(self) -> Confinement:
        """Return what confines the children of calls; opened on first use."""
        with self._lock:
            if self._confined is None:
                from hilt.processes.confinement import Confinement

                shared = self._shared.sandbox if self._shared else None
                authority = self.authority
                self._confined = Confinement(
                    authority.place,
                    self.settings,
                    self._environ,
                    self._rules,
                    authority.mode,
                    authority.bars,
                    shared,
                )
            return self._confined

    def _confine_custom(
        self, ctx: Context, sandbox: CustomSandbox, cwd: str, folder: str | None
    ) -> AbstractContextManager[Confined]:
        return self._confinement().custom(ctx, sandbox, cwd, folder)

    def _confine_module(self, sandbox: CustomSandbox, cwd: str) -> AbstractContextManager[Confined]:
        ctx = self._context(Running(self, Call("custom"), lambda result: None))
        return self._confinement().module(ctx, sandbox, cwd)

    def _processes(self, fence: Fence, session: str, door: Door) -> Processes:
        return self._confinement().processes(fence, session, door, self._store(session)[1], self.jobs)

    # --- calling --------------------------------------------------------------------------------------------------

    def call(self, name: str, /, **args: Any) -> Result:
        """Run a tool with these arguments and return its result."""
        return self.request(Call(name, args))

    def request(self, call: Call) -> Result:
        """Run a call and return its result, at the latest when its time is over."""
        ended = threading.Event()
        results: list[Result] = []

        def done(result: Result) -> None:
            results.append(result)
            ended.set()

        running = self.submit(call, done)
        while not ended.wait(running.patience()):
            running.time_out_if_late()
        return results[0]

    def submit(
        self,
        call: Call,
        done: Callable[[Result], None],
        *,
        here: Callable[[], None] | None = None,
        began: Callable[[Running], None] | None = None,
        attendant: Attendant | None = None,
    ) -> Running:
        """Start a call and return at once; `done` gets the result, from another thread or this one, and must not wait
        for a call of this runtime: those that touch the same come after it.

        With `here`, a call that need not wait for others runs on this thread; `here` is called before that, when the
        call has its place in the order. `began` gets the call before anything else. `attendant` is asked and told while
        it runs.
        """
        running = Running(self, call, done, attendant)
        if began is not None:
            began(running)
        try:
            running.call = call = pipeline.meant(call, self.catalog)
            running.prepared = prepared = pipeline.prepare(call, self.catalog, self.settings["dialect"])
            paths = self._lane_paths(prepared, running.session)
        except ToolError as error:
            running.settle(_failed(call, self._unless_hidden(running, error)))
            return running
        except Exception as error:  # noqa: BLE001  # the border: our own bugs end here
            running.settle(_failed(call, self._incident(error)))
            return running
        runs_here = False
        with self._lock:
            closed = self._closed.is_set()
            if not closed:
                self._running.add(running)
                entering = here is not None

                def start() -> None:
                    if not entering:
                        waits = prepared.tool.timeout > TIMEOUT_SECONDS
                        (self._waiters if waits else self._workers).put(lambda: self._run(running, prepared))

                running.turn = self._lanes.enter(paths, start)
                runs_here = entering and not running.turn.waits
                entering = False
        if closed:
            done(_failed(call, ToolError("cancelled", "The runtime is closed.")))
        elif here is not None and runs_here:
            here()
            self._run(running, prepared)
        return running

    def watch_deadlines(self) -> None:
        """Let a thread end calls whose time is over; for surfaces that do not wait for each call."""
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._watch, name="hilt-watch", daemon=True).start()

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_SECONDS):
            now = time.perf_counter()
            with self._lock:
                late = [running for running in self._running if running.deadline < now]
            for running in late:
                running.time_out_if_late()

    def _lane_paths(self, prepared: Prepared, session: str) -> dict[str, bool]:
        """Return the paths a call reads (False) or writes (True), by the names that all spellings share."""
        paths: dict[str, bool] = {}
        door = self._store(session)[0].door
        for touch in prepared.touches:
            if touch.effect in ("read", "write"):
                try:
                    root, parts = door.locate(touch.target)
                except ToolError:
                    continue  # it will be refused
                name = root.shown([part for part in parts if part])
                if "." in parts or ".." in parts:
                    name = os.path.normpath(name)
                name = name.casefold()
                paths[name] = paths.get(name, False) or touch.effect == "write"
        return paths

    def _run(self, running: Running, prepared: Prepared) -> None:
        """Decide and run one prepared call, on a worker thread."""
        running.deadline = time.perf_counter() + prepared.tool.timeout
        try:
            self.trail.make_ready(full=prepared.tool.frees)
            running.ran = True
            ctx = self._context(running)
            calm = self.authority.is_calm(running.session)
            hooks = None
            if not calm:
                hooks = self.authority.hooks(ctx, running.fence)
                notes = [*self.authority.notes(), *(hooks.notes if hooks is not None else ())]
                if notes:
                    ctx.meta["policy"] = notes
            if hooks is None:
                quick = calm and only_reads(prepared.tool)
                running.decision = pipeline.judge(prepared, ctx, self._reading_voters if quick else self.voters)
                running.decision = pipeline.consult(prepared, ctx, running.decision)
                result = pipeline.perform(prepared, ctx, running.decision, partial(self._approve, running, ctx))
            else:
                result = self._run_hooked(running, prepared, ctx, hooks)
        except ToolError as error:
            result = _failed(prepared.call, error if running.ran else _unrecorded(error, ran=False))
        except BaseException as error:  # noqa: BLE001  # the border: our own bugs end here, and a tool's sys.exit
            result = _failed(prepared.call, self._blamed(prepared, error))
        try:
            running.settle(result)
        finally:
            # after the record, so that the next call in the lane knows what this one saw, and after the answer, which
            # the next one must not overtake
            self._leave(running)

    def _run_hooked(self, running: Running, prepared: Prepared, ctx: Context, hooks: Hooks) -> Result:
        """Decide and run a call between the hooks before and after it."""
        from hilt.running.hooked import run, told

        door = ctx.door

        def again(args: dict[str, Any]) -> Seen:
            return self.authority.seen(pipeline.rewritten(prepared, args), door)

        before = hooks.before(self.authority.seen(prepared, door), again)
        if before.changed:
            running.prepared = prepared = pipeline.rewritten(prepared, before.args)
        votes = [pipeline.judge(prepared, ctx, self.voters), *([before.vote] if before.vote is not None else [])]
        running.decision = decide(votes)
        try:
            if before.skipped is not None and running.decision.verdict != "deny":
                return told(pipeline.shape(prepared, ctx, before.skipped), before.context, None, before.ran)
            running.decision = pipeline.consult(prepared, ctx, running.decision)
            pipeline.permit(prepared, ctx, running.decision, partial(self._approve, running, ctx))
            output, after = run(prepared, ctx, hooks, self.authority.seen(prepared, door))
        except ToolError as error:
            error.details.setdefault("hooks", [one._asdict() for one in before.ran])
            raise
        context = "\n\n".join(text for text in (before.context, after.context) if text)
        return told(pipeline.shape(prepared, ctx, output), context, after.stop, (*before.ran, *after.ran))

    def _unless_hidden(self, running: Running, error: ToolError) -> ToolError:
        """Return why a call is refused whose arguments are wrong: of a tool that is hidden, they do not matter."""
        if error.code != "invalid_args":
            return error
        call = running.call
        try:
            tool = self.catalog.find(call.tool, call.dialect or self.settings["dialect"]).tool
            reason = self.authority.hidden(tool, running.session)
        except ToolError as problem:
            return problem
        if reason is None:
            return error
        running.decision = Vote("deny", "mode", reason)
        return pipeline.denial(running.decision, tool)

    def _approve(self, running: Running, ctx: Context, prepared: Prepared, decision: Vote) -> None:
        """Have a person approve a call; the time they take is not the tool's."""
        running.deadline = float("inf")
        running.approver = self.authority.approve(prepared, decision, ctx, running.call)
        running.deadline = time.perf_counter() + prepared.tool.timeout

    def explain(self, call: Call) -> Explanation:
        """Return the decision on a call with every vote, and the hooks it would meet; nothing runs."""
        from hilt.authority.explaining import explain

        prepared = pipeline.prepare(call, self.catalog, self.settings["dialect"])
        ctx = self._context(Running(self, call, lambda result: None))
        return explain(prepared, ctx, self.authority)

    def _leave(self, running: Running) -> None:
        with self._lock:
            self._running.discard(running)
            if running.turn is not None:
                self._lanes.leave(running.turn)

    def _context(self, running: Running) -> Context:
        store, overflow = self._store(running.session)
        workspace = Workspace(store, running.session, running.fence)
        running.workspace = workspace
        ctx = Context(
            workspace=workspace,
            door=workspace.door,
            session=running.session,
            client=running.call.client,
            settings=self.settings,
            catalog=self.catalog,
            overflow=overflow,
            fence=running.fence,
            memory=self.memory,
            knowledge=self.knowledge,
            processes=lambda fence: self._processes(fence, running.session, ctx.door),
            jobs=self.jobs,
            standing=lambda ctx: self._standing(ctx, running),
            web=lambda ctx: self._web(ctx, running),
            attendant=running.attendant,
        )
        reports = workspace.recover()
        if reports:
            ctx.meta["recovered"] = reports
        if not self._is_recovered:
            self._is_recovered = True
            # what ran when hilt was killed; mostly nothing
            with suppress(FileNotFoundError):
                if os.listdir(places.running_dir(self.state)):
                    self._confinement().recover()
        return ctx

    def _standing(self, ctx: Context, running: Running) -> Standing:
        from hilt.authority.principal import Standing

        note_approver = partial(setattr, running, "approver")
        return Standing(self.authority, ctx, running.call, self._questioner, note_approver)

    def _was_used(self, session: str, since: float) -> bool:
        return self.trail.was_used(self.id, session, since)

    def _store(self, session: str) -> tuple[Store, Overflow]:
        found = self._stores.get(session)
        if found is None:
            settings = self.settings
            overflow = Overflow(
                session_folder(self.state, self.id, session),
                keep_days=settings["output.keep_days"],
                keep_megabytes=settings["output.keep_mb"],
                limit=settings["output.overflow_chars"],
            )
            roots = [self._root(self._named, None)]
            for path in settings["workspace.roots"]:
                full = os.path.realpath(os.path.expanduser(path))
                roots.append(self._root(full, full))
            roots.append(Root(overflow.directory, label=overflow.directory, writable=False))
            locks = os.path.join(self.state, "locks")
            door = Door(roots, self._rules, marked=self.marked)
            store = Store(self.id, door, self.history, self._journal, self.trail, locks)
            found = store, overflow
            with self._lock:
                while len(self._stores) >= SESSIONS_MAX:
                    del self._stores[next(iter(self._stores))]
                self._stores[session] = found
        return found

    def _root(self, path: str, label: str | None) -> Root:
        """Return a folder that an agent may use, with what in it is not for tools to write."""
        writable = self.settings["workspace.writable"]
        names = without(START_FILES, writable)
        return Root(
            path,
            label=label,
            writable=True,
            closed=[self.state],
            kept=[self._config],
            installed=places.installation(path, writable),
            asked=[os.path.join(home, name) for home in places.homes(self._environ) for name in names],
        )

    # --- recording ------------------------------------------------------------------------------------------------

    def _record(self, running: Running, result: Result) -> Result:
        prepared = running.prepared
        seen = running.workspace.seen if running.workspace is not None else {}
        if result.error is not None:
            # a failed call shows nobody any contents, but may tell that a file is gone
            seen = {path: stamp for path, stamp in seen.items() if stamp is None}
        micros = int((time.perf_counter() - running.started) * 1_000_000)
        try:
            entry = Entry(
                time.time_ns(),
                self.id,
                running.session,
                prepared.tool.name if prepared else running.call.tool[:200],
                digest(prepared.args if prepared else running.call.args),
                running.decision.verdict,
                running.decision.reason,
                running.approver,
                result.error.code if result.error else "ok",
                micros,
                contacts=", ".join(dict.fromkeys(running.contacts)),
            )
            self.trail.record(entry, seen, ran=running.ran)
            if self._telemetry is not None:
                self._telemetry(entry, running.call.id)
        except Exception as caught:  # noqa: BLE001  # whatever it is, the caller waits for an answer
            # what cannot be recorded has no answer: nothing happens unseen
            error = caught if isinstance(caught, ToolError) else self._incident(caught)
            return _failed(running.call, _unrecorded(error, ran=running.ran))
        meta = {**result.meta, "timing": {"ms": round(micros / 1000, 3)}}
        if self._confined is not None and (notes := self._confined.take_notes()):
            own = result.meta.get("disarmed")
            meta["disarmed"] = list(dict.fromkeys((*(own if isinstance(own, list) else ()), *notes)))
        return result._replace(meta=meta)

    def _record_hook(self, session: str, hook: Hook, ran: Ran) -> None:
        """Put a hook that ran on record, where calls are too: what it did is a part of what happened."""
        entry = Entry(
            time.time_ns(),
            self.id,
            session,
            f"hook {hook.name}",
            digest(hook.command),
            "allow",
            f"a hook of {ran.event}",
            "",
            {"ok": "ok", "changed": "ok", "allow": "ok"}.get(ran.outcome, ran.outcome),
            int(ran.milliseconds * 1000),
        )
        self.trail.record(entry, {})

    def _blamed(self, prepared: Prepared, error: BaseException) -> ToolError:
        """Log an exception that left a tool, and return the error that names it."""
        incident = self._incident(error)
        if prepared.tool.source == "built-in":
            return incident
        number = incident.details["incident"]
        return ToolError(
            "internal",
            f"The tool {prepared.tool.name} failed ({type(error).__name__}), incident {number}.",
            suggestion="The traceback is in incidents.log, in the state directory.",
            incident=number,
        )

    def _incident(self, error: BaseException) -> ToolError:
        """Log a fault of our own and return the error that names it."""
        incident = os.urandom(4).hex()
        with suppress(Exception):  # no file can be opened, perhaps: the caller still waits for an answer
            from hilt.running.incidents import log

            log(self.state, incident, error)
        return ToolError("internal", f"hilt failed ({type(error).__name__}), incident {incident}.", incident=incident)

    def schemas(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return name, description and schema of every tool a model is shown, in the names of the dialect in force."""
        from hilt.authority.visibility import shown

        return [(entry.name, entry.description, entry.schema) for entry in shown(self, session=self.session)]


def share(state: str, workspace: str) -> Shared:
    """Return what the runtimes of one workspace share."""
    from hilt.processes.jobs import Jobs
    from hilt.sandbox.profile import Sandbox

    return Shared(
        Jobs(folder=partial(session_folder, state, config.digest(os.path.realpath(workspace)))), Sandbox(state)
    )


def trusts_settings(state: str, environ: Mapping[str, str], path: str, data: bytes) -> bool:
    """Whether the person trusts the settings of a project with this content."""
    return trusts_file(state, environ, "config", path, data)


def trusts_file(state: str, environ: Mapping[str, str], kind: str, path: str, data: bytes) -> bool:
    """Whether the person trusts a file of a project, as what it is, with this content."""
    from contextlib import closing

    from hilt.formats.digests import sha256
    from hilt.state.trust import Trust, trusts_all

    with closing(Trust(state, everything=trusts_all(environ))) as trust:
        return trust.is_trusted(kind, path, sha256(data))


def settings_stamp(workspace: str, environ: Mapping[str, str]) -> tuple[object, ...]:
    """Return what changes when the settings files of a workspace do, or trust in them: a runtime has both frozen."""
    state = places.state_dir(environ)
    found: list[object] = [rulebook.status(os.path.join(places.config_dir(environ), "config.toml"), follow=True)]
    for name in (config.PROJECT, config.FOREIGN):
        path = os.path.join(workspace, name)
        stamp = rulebook.status(path, follow=True)
        trusted = None
        if stamp is not None:
            with suppress(OSError, ValueError):
                trusted = trusts_settings(state, environ, path, rulebook.contents(path, follow=True))
        found.append((stamp, trusted))
    return tuple(found)


def session_folder(state: str, workspace: str, session: str) -> str:
    """Return the folder for the long output of a session."""
    return os.path.join(state, "overflow", workspace, config.digest(session))


def _unrecorded(error: ToolError, *, ran: bool) -> ToolError:
    what = (
        "was made but could not be recorded, so its answer is withheld"
        if ran
        else "was not made: it could not be recorded"
    )
    return ToolError(error.code, f"The call {what}. {error.message}", suggestion=error.suggestion, **error.details)


def _failed(call: Call, error: ToolError) -> Result:
    risk = error.details.get("risk")
    return Result(error=error, id=call.id, request_id=call.request_id, risk=risk if isinstance(risk, str) else None)
