"""The runtime: builds and joins the parts, and runs calls with a deadline, in order, recorded."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from tongs import config, pipeline, places
from tongs.call import Call, Result
from tongs.catalog import Catalog, dialect
from tongs.context import Context, Fence
from tongs.declaration import Tool
from tongs.door import Door, Root
from tongs.errors import ToolError
from tongs.lanes import Lanes
from tongs.lanes import Ticket as Turn
from tongs.output.overflow import Overflow
from tongs.pipeline import Prepared, Voter
from tongs.policy.decision import Vote
from tongs.policy.paths import PROTECTED, PathRules
from tongs.state.trail import Entry, Trail, digest
from tongs.voters import effects, paths
from tongs.workers import Workers
from tongs.workspace import Store, Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tongs.knowledge.related import Knowledge
    from tongs.processes import Processes
    from tongs.state.history import History
    from tongs.state.memory import Memory

SESSIONS_MAX = 256  # kept ready; others are made ready again when they call
WATCH_SECONDS = 0.25


_NOT_UNDERSTOOD = Vote("deny", "check", "the call was not understood")


class Running:
    """A call under way: where its result goes, and the way to stop it."""

    def __init__(self, runtime: Runtime, call: Call, done: Callable[[Result], None]) -> None:
        self.call = call
        self.fence = Fence()
        self.session = call.session or runtime.session
        self.prepared: Prepared | None = None
        self.decision = _NOT_UNDERSTOOD
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

    def settle(self, result: Result, between: Callable[[], None] = lambda: None) -> None:
        """Record and deliver the result, with something done between the two; only the first result counts."""
        with self._lock:
            first, self._settled = not self._settled, True
        if first:
            result = self._runtime._record(self, result)
        between()
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
    ) -> None:
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
                suggestion="Set TONGS_STATE_DIR to a folder that can be written.",
            ) from error
        self._config = places.config_dir(env)
        self.session = session or env.get("TONGS_SESSION") or "default"
        self.settings = config.load(self.root, env, flags or {})
        self.id = config.digest(self.root)
        self.catalog = Catalog(tools)
        self.trail = Trail(os.path.join(self.state, "trail.db"))
        self._journal = os.path.join(self.state, "journal", self.id)
        self._history: History | None = None
        self._memory: Memory | None = None
        self._knowledge: Knowledge | None = None
        self._environ = env
        self.voters: tuple[Voter, ...] = (effects, paths)
        self._rules = PathRules(
            self.settings["workspace.sensitive"],
            self.settings["workspace.readable"],
            [name for name in PROTECTED if name not in self.settings["workspace.writable"]],
        )
        self._stores: dict[str, tuple[Store, Overflow]] = {}
        self._lock = threading.Lock()
        self._lanes = Lanes()
        self._running: set[Running] = set()
        self._workers = Workers()
        self._watching = False
        self._closed = threading.Event()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up what is running and close files and databases; later calls are answered as cancelled."""
        with self._lock:
            self._closed.set()
            running = list(self._running)
        for call in running:
            call.cancel()
        self._workers.close()
        self._stores.clear()
        self.trail.close()
        for part in (self._history, self._memory, self._knowledge):
            if part is not None:
                part.close()

    def tidy(self, seconds: float) -> None:
        """Do what calls put off: forget idle sessions and pack what undo keeps, for about this long."""
        with suppress(ToolError):  # what cannot be done now can be done another time
            self.trail.end_idle()
            self.history().compress(seconds)

    def history(self) -> History:
        """Return the snapshots of the workspace; opened on first use."""
        with self._lock:
            if self._history is None:
                from tongs.state.history import History

                calls, megabytes = self.settings["undo.calls"], self.settings["undo.mb"]
                self._history = History(self.state, self._journal, self.id, calls=calls, megabytes=megabytes)
            return self._history

    def memory(self) -> Memory:
        """Return the user's memory; opened on first use."""
        with self._lock:
            if self._memory is None:
                from tongs.state.memory import Memory

                self._memory = Memory(self._config, self.root)
            return self._memory

    def knowledge(self) -> Knowledge:
        """Return what ranks the user's knowledge; opened on first use."""
        with self._lock:
            if self._knowledge is None:
                from tongs.knowledge.index import MIGRATIONS
                from tongs.knowledge.locations import Places
                from tongs.knowledge.related import Knowledge
                from tongs.state.db import Database

                settings, rules = self.settings, self._rules
                places = Places(
                    self._environ, self._config, settings["related_context.paths"], self.root, rules.is_sensitive
                )
                spare = os.path.join(self.state, "cache")
                self._knowledge = Knowledge(places, spare, lambda path: Database(path, MIGRATIONS, durable=False))
            return self._knowledge

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
    ) -> Running:
        """Start a call and return at once; `done` gets the result, from another thread or this one.

        With `here`, a call that need not wait for others runs on this thread; `here` is called before that, when the
        call has its place in the order. `began` gets the call before anything else.
        """
        running = Running(self, call, done)
        if began is not None:
            began(running)
        try:
            running.prepared = prepared = pipeline.prepare(call, self.catalog, self.settings["dialect"])
            paths = self._lane_paths(prepared, running.session)
        except ToolError as error:
            running.settle(_failed(call, error))
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
                        self._workers.put(lambda: self._run(running, prepared))

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
            threading.Thread(target=self._watch, name="tongs-watch", daemon=True).start()

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
            ctx = self._context(running)
            running.decision = pipeline.judge(prepared, ctx, self.voters)
            result = pipeline.perform(prepared, ctx, running.decision, _nobody_to_ask)
        except ToolError as error:
            result = _failed(prepared.call, error)
        except BaseException as error:  # noqa: BLE001  # the border: our own bugs end here, and a tool's sys.exit
            result = _failed(prepared.call, self._blamed(prepared, error))
        # after the record, so that the next call in the lane knows what this one saw; before the answer, so that a call
        # sent because of it finds the lane free
        running.settle(result, between=lambda: self._leave(running))

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
            door=store.door,
            session=running.session,
            client=running.call.client,
            settings=self.settings,
            catalog=self.catalog,
            overflow=overflow,
            fence=running.fence,
            memory=self.memory,
            knowledge=self.knowledge,
            processes=_processes,
        )
        reports = workspace.recover()
        if reports:
            ctx.meta["recovered"] = reports
        return ctx

    def _store(self, session: str) -> tuple[Store, Overflow]:
        found = self._stores.get(session)
        if found is None:
            settings = self.settings
            overflow = Overflow(
                os.path.join(self.state, "overflow", self.id, config.digest(session)),
                keep_days=settings["output.keep_days"],
                keep_megabytes=settings["output.keep_mb"],
                limit=settings["output.overflow_chars"],
            )
            own = {"closed": [self.state], "kept": [self._config]}
            roots = [Root(self._named, label=None, writable=True, **own)]
            for path in settings["workspace.roots"]:
                full = os.path.realpath(os.path.expanduser(path))
                roots.append(Root(full, label=full, writable=True, **own))
            roots.append(Root(overflow.directory, label=overflow.directory, writable=False))
            locks = os.path.join(self.state, "locks")
            store = Store(self.id, Door(roots, self._rules), self.history, self._journal, self.trail, locks)
            found = store, overflow
            with self._lock:
                while len(self._stores) >= SESSIONS_MAX:
                    del self._stores[next(iter(self._stores))]
                self._stores[session] = found
        return found

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
                "",
                result.error.code if result.error else "ok",
                micros,
            )
            self.trail.record(entry, seen)
        except Exception as caught:  # noqa: BLE001  # whatever it is, the caller waits for an answer
            # what cannot be recorded has no answer: nothing happens unseen
            error = caught if isinstance(caught, ToolError) else self._incident(caught)
            message = f"The call was made but could not be recorded, so its answer is withheld. {error.message}"
            return _failed(running.call, ToolError(error.code, message, suggestion=error.suggestion))
        return result._replace(meta={**result.meta, "timing": {"ms": round(micros / 1000, 3)}})

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
        import traceback

        incident = os.urandom(4).hex()
        text = "".join(traceback.format_exception(error))
        try:
            os.makedirs(self.state, mode=0o700, exist_ok=True)
            descriptor = os.open(
                os.path.join(self.state, "incidents.log"),
                os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
                0o600,
            )
            with open(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"--- {incident} {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n{text}\n")
        except OSError:
            pass  # the answer still names the kind of fault
        return ToolError("internal", f"tongs failed ({type(error).__name__}), incident {incident}.", incident=incident)

    def schemas(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return name, description and schema of every tool a model is shown, in the names of the dialect in force."""
        from tongs.schema import public

        chosen = self.settings["dialect"]
        if chosen in (None, "jinn"):
            return [(tool.name, tool.description, public(tool.schema)) for tool in self.catalog.tools()]
        return [(entry.name, entry.description, public(entry.schema)) for entry in dialect(chosen).values()]


def _processes(fence: Fence) -> Processes:
    from tongs.processes import Processes

    return Processes(fence)


def _failed(call: Call, error: ToolError) -> Result:
    return Result(error=error, id=call.id, request_id=call.request_id)


def _nobody_to_ask(prepared: Prepared, decision: Vote) -> None:
    raise ToolError("approval_required", f"{prepared.tool.name} needs approval: {decision.reason}.")
