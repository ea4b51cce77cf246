"""What the steps of a call and its tool need, from the parts of its workspace."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from hilt import pipeline, places
from hilt.active_call import ActiveCall
from hilt.authority.authority import only_reads, vote_on_reading
from hilt.authority.targets import vote_on_paths
from hilt.call import Call, Result, Touch, storable
from hilt.catalog import Catalog
from hilt.config import Settings
from hilt.context import Attendant, Context
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.files.door import Door
from hilt.files.workspace import Workspace
from hilt.pipeline import NO_HOOKS, NoHooks, Prepared, Voter
from hilt.policy.decision import Vote
from hilt.running.recorder import unrecorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.principal import SessionPrincipal
    from hilt.authority.session_hooks import CallHooks
    from hilt.desktop.control import Desktop
    from hilt.lsp.access import Languages
    from hilt.parts import Parts
    from hilt.processes.call_processes import Processes
    from hilt.state.agent_calls import Agents
    from hilt.web.client import Web


class WorkspaceWorld:
    """What the steps of a call need, for the calls of one runtime."""

    def __init__(self, parts: Parts, session: str, settings: Settings) -> None:
        """`session` is for calls that name none."""
        self.parts = parts
        self.settings = settings
        self._session = session
        self.all_voters: tuple[Voter, ...] = (parts.authority.weigh, vote_on_paths)
        self._recorder, self._trail = parts.recorder, parts.trail

    def active(
        self, call: Call, done: Callable[[Result], None] = lambda result: None, attendant: Attendant | None = None
    ) -> ActiveCall:
        """Return a call that is about to begin."""
        return ActiveCall(call, storable(call.session or self._session), done, self._recorder.record, attendant)

    @property
    def catalog(self) -> Catalog:
        """The available tools."""
        return self.parts.catalog

    @property
    def dialect(self) -> str | None:
        """The default dialect."""
        chosen: str | None = self.settings["dialect"]
        return chosen

    def conceal(self, active: ActiveCall, tool: Tool, error: ToolError) -> ToolError:
        """Return the error for invalid arguments; for a hidden tool, only that it is hidden."""
        if error.code != "invalid_args":
            return error
        reason = self.parts.authority.hidden(tool, active.session)
        if reason is None:
            return error
        active.decision = Vote("deny", "mode", reason)
        return pipeline.denial(active.decision, tool)

    def paths(self, active: ActiveCall, prepared: Prepared) -> Callable[[], dict[str, bool]]:
        """Return a function that returns the paths that a call reads (False) or writes (True)."""
        return partial(touched_paths, self.parts.session(active.session).door, prepared.touches)

    def open(self, active: ActiveCall, prepared: Prepared) -> Context:
        """Verify that a call can be recorded, and return its context."""
        self.reopen(active, prepared)
        active.ran = True
        self._recorder.begin(active)
        ctx = self.context(active)
        active.is_unrestricted = self.parts.authority.is_unrestricted(active.session)
        return ctx

    def reopen(self, active: ActiveCall, prepared: Prepared) -> None:
        """Verify that a call is not cancelled and can be recorded, and start its time limit."""
        active.fence.check()
        active.deadline = time.perf_counter() + prepared.tool.timeout
        try:
            self._trail.make_ready(full=prepared.tool.traits.frees_space)
        except ToolError as error:
            raise unrecorded(error, ran=False) from error

    def context(self, active: ActiveCall) -> Context:
        """Return the context of a call, after recovering what a killed process left."""
        parts = self.parts
        session = parts.session(active.session)
        active.workspace = Workspace(session.store, active.session, active.fence, str(active.call.id or ""))
        ctx = Context(
            CallParts(self, active),
            active.workspace,
            session.overflow,
            self.settings,
            client=active.call.client,
            attendant=active.attendant,
        )
        if reports := active.workspace.recover():
            ctx.meta["recovered"] = reports
        if not parts.is_recovered:
            parts.is_recovered = True
            # programs that ran when hilt was killed; usually none
            with suppress(FileNotFoundError):
                if os.listdir(places.running_dir(parts.state)):
                    parts.confinement.recover()
        return ctx

    def hooks(self, active: ActiveCall, ctx: Context) -> CallHooks | NoHooks:
        """Return the hooks around a call, and add problems of rules and hooks to its metadata."""
        if active.is_unrestricted:
            return NO_HOOKS
        hooks = self.parts.authority.hooks(ctx)
        notes = [*self.parts.authority.notes(), *hooks.notes]
        if notes:
            ctx.meta["policy"] = notes
        return hooks

    def voters(self, active: ActiveCall, prepared: Prepared) -> Sequence[Voter]:
        """Return the voters on a call."""
        reads_freely = active.is_unrestricted and only_reads(prepared.tool)
        return (vote_on_reading, vote_on_paths) if reads_freely else self.all_voters

    def approve(self, active: ActiveCall, prepared: Prepared, ctx: Context) -> Prepared:
        """Ask a person to approve a call; the time they take does not count towards the timeout."""
        from hilt.authority.consent import approve

        active.deadline = float("inf")
        with self.parts.scheduler.waiting(active):
            active.approver, args = approve(self.parts.authority, prepared, active.decision, ctx, active.call)
        active.deadline = time.perf_counter() + prepared.tool.timeout
        return prepared._replace(args=args)

    def report_exception(self, active: ActiveCall, error: BaseException) -> ToolError:
        """Log an unexpected exception, ours or the tool's, and return the error to report."""
        return self._recorder.report_exception(active.prepared, error)


class CallParts:
    """What one call can open: its own parts, and those of its workspace as `shared`."""

    def __init__(self, world: WorkspaceWorld, active: ActiveCall) -> None:
        self.shared = world.parts
        self._world = world
        self._active = active

    def processes(self, ctx: Context) -> Processes:
        """Return the child processes of the call."""
        parts = self.shared

        def has_jobs() -> bool:
            jobs = parts.started_jobs
            return jobs is not None and any(job.status == "running" for job in jobs.list(ctx.session))

        return parts.confinement.processes(ctx.fence, ctx.workspace, ctx.overflow, lambda: parts.jobs, has_jobs)

    def principal(self, ctx: Context) -> SessionPrincipal:
        """Return on whose behalf the call runs."""
        from hilt.authority.principal import SessionPrincipal

        authority, questioner = self.shared.authority, self.shared.opening.questioner
        return SessionPrincipal(
            authority, ctx, self._active.call, questioner, partial(setattr, self._active, "approver")
        )

    def web(self, ctx: Context) -> Web:
        """Return the web for the call."""
        from hilt.authority.weighing import admit
        from hilt.custom.launching import own_variable
        from hilt.web.certificates import trusted
        from hilt.web.client import Access, Web
        from hilt.web.guard import NetworkGuard

        parts, active, settings = self.shared, self._active, ctx.settings
        prepared = active.prepared
        if prepared is None:
            raise ToolError("internal", "Only tool calls can use the web.")
        return Web(
            Access(
                NetworkGuard(settings["web.allow_private"]),
                parts.pages,
                session=f"{parts.id}/{active.session}",
                fence=active.fence,
                admit=partial(admit, prepared, ctx, self._world.all_voters),
                contacted=active.contacts.append,
                tls=partial(trusted, parts.environ),
                secret=partial(own_variable, parts.environ),
                base_urls=settings["web.base_urls"],
            )
        )

    def languages(self, ctx: Context) -> Languages:
        """Return the language servers for the call."""
        from hilt.lsp.access import Languages

        access = self.shared.session(ctx.session).language_servers()
        return Languages(access, ctx.fence, ctx.progress, self.shared.end_own_servers)

    def desktop(self, ctx: Context) -> Desktop:
        """Return the desktop for the call."""
        from hilt.authority.principal import SessionPanic
        from hilt.desktop.control import Desktop

        called = time.time() - (time.perf_counter() - self._active.started)
        panic = SessionPanic(self.shared.authority, ctx.session)
        longest = ctx.settings["desktop.longest_side"]
        return Desktop(self.shared.display, ctx.values, panic, ctx.fence, longest=longest, called=called)

    def agents(self, ctx: Context) -> Agents:
        """Return other agents, for the call."""
        return self.shared.agents.for_call(ctx)


def context_of_loading(parts: Parts) -> Context:
    """Return the context in which custom tools are loaded, before any call."""
    world = WorkspaceWorld(parts, parts.opening.session, parts.settings)
    return world.context(world.active(Call("custom")))


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
