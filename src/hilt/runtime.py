"""The runtime: opens a workspace, submits calls, and closes what they opened."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hilt import config, pipeline
from hilt.active_call import ActiveCall
from hilt.call import Asker, Call, Json, Questioner, Result, check_name
from hilt.catalog import FoundTool
from hilt.context import Attendant
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.parts import Opening, Parts, Shared, open_parts
from hilt.running.world import WorkspaceWorld

if TYPE_CHECKING:
    from hilt.agents.children import AgentHost
    from hilt.authority.hooks import EventResult
    from hilt.authority.weighing import Explanation
    from hilt.lsp.access import Connect
    from hilt.skills.library import SkillLibrary


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
        parts: Parts | None = None,
        settings: config.Settings | None = None,
    ) -> None:
        """Create a runtime. Pass `keeps_jobs=False` if it ends with its call. The owner of `shared` closes it.

        `asker` asks a person to approve a call, `questioner` asks a person a tool's questions. `connect` connects to
        the language servers of the resident process. With `parts`, it uses those of another runtime, for a session with
        its own `settings`.
        """
        env = os.environ if environ is None else environ
        self.session = session or env.get("HILT_SESSION") or "default"
        if parts is None:
            opening = Opening(
                self.session, tools, keeps_jobs, shared, asker, questioner, connect, agents=self._open_agents
            )
            parts = open_parts(workspace, env, flags or {}, opening)
        self.parts = parts
        self.settings = settings or parts.settings
        self._world = WorkspaceWorld(parts, self.session, self.settings)
        self._scheduler = parts.scheduler

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open_agents(self) -> AgentHost:
        from hilt.agents.children import AgentHost

        return AgentHost(self)

    def in_session(self, session: str, settings: config.Settings, folder: str | None = None) -> Runtime:
        """Return a runtime for another session, with its own settings; both share everything else.

        With `folder`, it works in that copy of the workspace, under the rules of the workspace, and its commands can
        read of the workspace what commands there can: close its `parts`. Close only the original runtime.
        """
        parts = self.parts if folder is None else self.parts.in_copy(folder, settings)
        return Runtime(session=session, parts=parts, settings=settings)

    def elsewhere(self, workspace: str, flags: Mapping[str, Any]) -> Runtime:
        """Return a runtime of its own for another workspace or other settings, in the same environment."""
        return Runtime(workspace, environ=self.parts.environ, flags=flags)

    def give_up(self, seconds: float) -> None:
        """Stop the agents that run here, cancel running calls, and wait up to this long for them to clean up."""
        if self.parts.opened("agents") is not None:
            self.parts.agents.close()
        self._scheduler.give_up(seconds)

    def close(self) -> None:
        """Cancel running calls and close files and databases; later calls fail as cancelled."""
        self.give_up(0)
        self.parts.close()

    def tidy(self, seconds: float) -> None:
        """Do deferred cleanup: end idle sessions, remove old files, and compress undo data for about this long."""
        from hilt.running.cleaning import clean_if_due
        from hilt.sandbox import rooms

        parts = self.parts
        unused_since = time.time() - self.settings["output.keep_days"] * 86400
        with suppress(ToolError):  # the next call of tidy retries it
            parts.trail.end_idle()
            parts.trail.prune()
            parts.session(self.session).overflow.make_room()
            rooms.remove_unused(os.path.join(parts.state, "sandbox"), unused_since)
            clean_if_due(parts.state, self.settings)
            parts.history.blobs.compress(seconds)

    def end_session(self, session: str) -> bool:
        """End the jobs of a session and forget what it has read; return whether the session existed."""
        check_name("session", session)
        parts = self.parts
        if parts.started_jobs is not None:
            parts.started_jobs.end_session(session)
        parts.roster.cancel(session, itself=False)
        from hilt.sandbox import rooms

        rooms.remove(rooms.private_folder(parts.state, parts.id, config.digest(session)))
        if os.path.exists(parts.pages_file):
            parts.pages.forget(f"{parts.id}/{session}")
        had_values = parts.authority.values().clear(parts.id, session)
        had_todos = parts.todos.clear(session)
        return parts.trail.end_session(parts.id, session) or had_values or had_todos

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
        active = self._world.active(call, done, attendant)
        if began is not None:
            began(active)
        self._scheduler.submit(active, pipeline.order(active, self._world), done, here)
        return active

    def watch_deadlines(self) -> None:
        """Start a thread that times out late calls; for surfaces that do not wait for each call."""
        self._scheduler.watch_deadlines()

    def explain(self, call: Call) -> Explanation:
        """Return the decision on a call with every vote, and the hooks that would run; nothing runs."""
        from hilt.authority.weighing import explain

        world, authority = self._world, self.parts.authority
        active = world.active(call)
        match = pipeline.resolve(active, world)  # may replace the call
        prepared = pipeline.prepare(active.call, *match)
        ctx = world.context(active)
        return explain(prepared, ctx, world.voters(active, prepared), authority.hooks(ctx), authority)

    def schemas(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return name, description and schema of every tool listed for a model, as the active dialect names them."""
        return [(tool.name, tool.description, tool.schema) for tool in self.parts.authority.listed_tools(self.session)]

    def skills(self) -> SkillLibrary:
        """Return the skills and commands of the workspace and the user."""
        return self.parts.skills

    def resolve(self, call: Call) -> tuple[Call, FoundTool]:
        """Return a call, or the call that it forwards, with its tool."""
        active = self._world.active(call)
        match = pipeline.resolve(active, self._world)
        return active.call, match

    def fire(
        self, event: str, *, arguments: Json = None, result: Json = None, fence: Fence | None = None
    ) -> EventResult | None:
        """Run the session's hooks for an event and return their combined answer; None without hooks.

        Giving up `fence` ends the hooks.
        """
        authority = self.parts.authority
        if not authority.has_hooks(self.session):
            return None
        active = self._world.active(Call(event))
        active.fence = fence or active.fence
        hooks = authority.session_hooks().of(self._world.context(active))
        return hooks.event(event, arguments=arguments, result=result)
