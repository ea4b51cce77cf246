"""What one call can open besides the parts of its workspace: each belongs to the call, its session and its client."""

from __future__ import annotations

import time
from functools import partial

from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.active_call import ActiveCall
    from hilt.authority.principal import SessionPrincipal
    from hilt.context import Context
    from hilt.desktop.control import Desktop
    from hilt.lsp.access import Languages
    from hilt.processes.children import Processes
    from hilt.running.world import WorkspaceWorld
    from hilt.state.agent_calls import Agents
    from hilt.web.client import Web


class CallParts:
    """The parts of one call, and those of its workspace as `shared`."""

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

        return parts.confinement.processes(
            ctx.fence, ctx.session, ctx.workspace, ctx.overflow, lambda: parts.jobs, has_jobs
        )

    def principal(self, ctx: Context) -> SessionPrincipal:
        """Return on whose behalf the call runs."""
        from hilt.authority.principal import SessionPrincipal

        authority, questioner = self.shared.authority, self.shared.opening.questioner
        return SessionPrincipal(
            authority, ctx, self._active.call, questioner, partial(setattr, self._active, "approver")
        )

    def web(self, ctx: Context) -> Web:
        """Return the web for the call."""
        from hilt.authority.reaching import admit
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
