"""Runs agents for other agents: in the call that asked for them, or in the background.

A child is a conversation in its own session, named after its id. What it may do is the intersection of what its
parent may and what its definition says: the authority looks both up by the session, on every call and in every process
(`Authority.agent`). This module adds the model, the limits and the record in the store, and ends the child.

An agent in the background runs in a worker if there is one, else in the process that keeps the caller's jobs. If that
process ends or is killed, the agent is queued again, and the next process that serves the agents of the workspace with
the same settings continues its transcript. Each of its runs is a workflow (`durable/`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from hilt.agents.agent_files import DEFAULT, AgentDefinition, granted_mode, granted_tools, read_definitions
from hilt.agents.agent_settings import open_stored, stored
from hilt.agents.call_agents import CallAgents
from hilt.agents.child_budgets import SharedBudgets
from hilt.agents.child_conversation import AgentRun, ChildConversation, RunCaller, call_line
from hilt.agents.durable.leases import AgentOwner, TakenOver
from hilt.agents.durable.runs import DurableRuns
from hilt.agents.durable.stores import machine_name
from hilt.agents.starting import transcripts_of
from hilt.agents.transcripts import TITLE_CHARACTERS, Record, read
from hilt.agents.worktrees import Worktrees
from hilt.config import KEYS
from hilt.context import Context
from hilt.errors import ToolError
from hilt.lazy import Lazy
from hilt.state.agent_calls import AgentOrder, Allowance, Remainder
from hilt.state.roster import AgentLimits, AgentOutcome, AgentProfile, AgentRecord, Kind, NewAgent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Attendant
    from hilt.runtime import Runtime

RUNNING_MAX = 256  # agents in the background of one process; others stay queued
PROGRESS_LINES = 50
STOP_SECONDS = 10.0  # for agents to end when their process does

_WATCH_SECONDS = 0.25  # between checks for agents that other processes have cancelled
_POLL_SECONDS = 0.05
_OTHERS_SECONDS = 60.0  # after which a runtime for other settings is closed if it has no agent


class OtherRuntime(NamedTuple):
    """A runtime for agents with other settings, None if they cannot apply here, and when it was last needed."""

    runtime: Runtime | None
    used: float


class AgentHost:
    """Creates and runs the agents of one runtime. Safe to use from many threads."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.store = runtime.parts.roster
        settings = runtime.settings
        self.limits = AgentLimits(
            settings["agents.max_depth"],
            settings["agents.max_children"],
            settings["agents.idle_s"],
            settings["agents.max_queued"],
        )
        self.settings = stored({name: settings[name] for name in KEYS})
        self.slots = 0  # of a worker; set before the first agent runs
        self._main: AgentHost | None = None  # of a host for other settings or another workspace
        self._is_elsewhere = False  # whether it only runs agents of another workspace that any worker may run
        self.owner = Lazy(lambda: AgentOwner(runtime, self.slots))
        self.durable = Lazy(lambda: DurableRuns(runtime))
        self.worktrees = Worktrees(runtime, self.store)
        self._above: dict[str, Allowance] = {}  # of agents that were started here
        self.shared_budgets = SharedBudgets(runtime, self.store)
        self._runs: dict[str, AgentRun] = {}
        self._lock = threading.Lock()
        self._others: dict[tuple[str, str], OtherRuntime] = {}  # by workspace, "" for this one, and settings
        self._claiming = threading.Lock()
        self._starting: set[str] = set()  # agents that are about to run here
        self._is_closing = False
        self._is_watching = False

    def for_call(self, ctx: Context) -> CallAgents:
        """Return the agents for the caller of one call."""
        return CallAgents(self, ctx)

    def close(self) -> None:
        """Stop the agents that run here; those that outlive their caller are queued for another process."""
        with self._lock:
            self._is_closing = True
            runs = list(self._runs.values())
        for run in runs:
            run.cancel()
        deadline = time.monotonic() + STOP_SECONDS
        while self._runs and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        with self._lock:
            others = list(self._others.values())
        for other in others:
            if other.runtime is not None:
                other.runtime.close()
        if self.owner.part is not None:
            with suppress(ToolError):  # another process queues them once it notices that the owner is gone
                self.store.release(self.owner.part.name)
            self.owner.close()
        self.durable.close()

    @property
    def running(self) -> int:
        """How many agents run here."""
        with self._lock:
            others = [other.runtime for other in self._others.values() if other.runtime is not None]
            return len(self._runs) + sum(other.parts.agents.running for other in others)

    @property
    def _has_room(self) -> bool:
        main = self._main or self
        return main.running < (main.slots or RUNNING_MAX) and not self._is_closing

    def become_worker(self, slots: int) -> None:
        """Run up to this many agents at once, before any other process does."""
        self.slots = slots
        self.durable()
        self.owner()
        self.runtime.parts.listen(lambda: None)  # keeps one watch on the tool folders, not one for each agent

    def _release_lost(self) -> None:
        """Queue the agents that this process owns but does not run: it had lost them, or the database."""
        with self._claiming:
            for id in self.store.owned(self.owner().name):
                if id not in self._runs and id not in self._starting:
                    self.store.requeue(id, self.owner().name)

    def clean(self) -> None:
        """Delete the steps of agents that ended long ago."""
        self.durable().clean(self.runtime.settings["agents.keep_days"])

    # --- creating -----------------------------------------------------------------------------------------------------

    def define(self, name: str, *, or_default: bool) -> AgentDefinition:
        """Return the definition of a name; with `or_default`, the general one if there is none."""
        definitions = read_definitions(self.runtime)
        try:
            return definitions.find(name)
        except ToolError as error:
            if not or_default or error.code != "not_found":
                raise
            return definitions.find(DEFAULT)

    def create(
        self,
        order: AgentOrder,
        definition: AgentDefinition,
        kind: Kind,
        caller: str,
        above: Allowance | None,
        *,
        here: bool = False,
    ) -> AgentRecord:
        """Create an agent; with `here` or of the kind "call", this process owns it and runs it; else it is queued."""
        parent = order.parent or caller
        remaining = Remainder() if above is None else above.left()
        turns = remaining.within(Remainder(turns=definition.turns)).turns
        has_worktree = order.worktree or definition.worktree
        if has_worktree:
            self.worktrees.check()
            self.worktrees.sweep()
        in_worktree = has_worktree or self.worktrees.owner(parent) != ""
        tools = granted_tools(self.runtime.parts.authority, definition, parent, in_worktree=in_worktree)
        new = NewAgent(
            parent=parent,
            caller=caller,
            kind=kind,
            name=definition.name,
            title=" ".join((order.title or order.prompt).split())[:TITLE_CHARACTERS],
            prompt=order.prompt,
            settings=self.settings,
            anywhere=not in_worktree and self._needs_no_folder(tools, parent),
            machine=machine_name(self.runtime.parts.state),
            call=order.call,
            profile=AgentProfile(
                tools=tools,
                mode=granted_mode(self.runtime.parts.authority, definition, parent),
                model=_model(order.model or definition.model),
                role=definition.body,
                turns=turns,
                tokens=remaining.tokens,
                seconds=remaining.seconds,
                worktree=has_worktree,
            ),
        )
        with self._claiming:
            agent = self.store.create(new, self.limits, owner=self.owner().name if here or kind == "call" else "")
            if agent.owner:
                self._starting.add(agent.id)
        if above is not None and kind != "call":
            self._above[agent.id] = above
        return agent

    def _needs_no_folder(self, tools: Sequence[str], parent: str) -> bool:
        """Whether an agent with these tools can run without the files and the rules of this folder."""
        authority = self.runtime.parts.authority
        portable = {tool.name for tool in authority.catalog.tools() if tool.traits.anywhere}
        return self._is_elsewhere or (portable.issuperset(tools) and not authority.is_restricted_here(parent))

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self, run: AgentRun, caller: RunCaller) -> AgentOutcome:
        """Run a claimed agent until it has answered, and record how it ended."""
        agent = run.agent
        with self._lock:
            self._runs[agent.id] = run
            self._starting.discard(agent.id)
            if self._is_closing:
                run.cancel()
        self._watch()
        outcome = AgentOutcome("failed", "hilt failed to run the agent.", "internal")
        try:
            outcome = ChildConversation(self, run, caller).run()
        except ToolError as error:
            outcome = AgentOutcome("failed", f"{error.message} {error.suggestion}".strip(), error.code)
        except TakenOver:
            run.is_lost = True
        finally:
            try:
                # an agent that only stops because its process does is released instead
                if not run.is_lost and (not self._is_closing or outcome.status != "cancelled"):
                    outcome = self._settle_worktree(agent, outcome, caller.client)
                    if agent.kind != "spawned" or outcome.status != "completed":
                        self._above.pop(agent.id, None)
                        self.runtime.end_session(agent.id)
                    self.store.finish(agent.id, self.owner().name, outcome)
            finally:
                with self._lock:
                    self._runs.pop(agent.id, None)
        return outcome

    def _settle_worktree(self, agent: AgentRecord, outcome: AgentOutcome, client: Attendant | None) -> AgentOutcome:
        """Apply the changes in an agent's own worktree, and report that after its answer."""
        if not agent.profile.worktree:
            return outcome
        if agent.kind != "spawned" or outcome.status != "completed":
            self._end_below(agent.id)
        try:
            if outcome.status == "completed":
                note = self.apply_worktree(agent, client)
            else:
                note = self.worktrees.keep(agent, f"The agent ended as {outcome.status}.")
        except ToolError as error:
            note = f"[worktree] {error.message} {error.suggestion}"
        except OSError as error:
            note = f"[worktree] Checking its worktree failed: {error}."
        return outcome._replace(answer=f"{outcome.answer}\n\n{note}".lstrip()) if note else outcome

    def _end_below(self, id: str) -> None:
        """End the agents below an agent, and its jobs: they may still write to its worktree."""
        self._end_runs(self.store.cancel(id, itself=False))
        self.runtime.end_session(id)

    def apply_worktree(self, agent: AgentRecord, client: Attendant | None) -> str:
        """Apply the changes in an agent's worktree to the folder of its parent; return what happened."""
        with self.worktrees.in_folder(agent.parent, self.runtime.settings) as target:
            return self.worktrees.apply_changes(agent, target, client)

    # --- in the background --------------------------------------------------------------------------------------------

    def serve(self) -> int:
        """Run the queued agents that this process may run; return how many with these settings stay queued."""
        waiting = self.store.sweep(self.limits.idle_seconds)
        if waiting and not self.slots and any(owner.slots for owner in self.store.runs.owners()):
            return 0  # a worker takes them
        if not self.runtime.parts.opening.keeps_jobs:
            return waiting
        if self.owner.part is not None:
            self._release_lost()
        while waiting and self._has_room:
            with self._claiming:
                owner = self.owner().record
                agent = self.store.claim(self.settings, owner.name, owner.host, anywhere=self._is_elsewhere)
                if agent is None:
                    break
                waiting -= 1
                if agent.id in self._runs:
                    continue  # the lease had expired, but nobody else took the agent
                run = AgentRun(agent)
                with self._lock:
                    self._runs[agent.id] = run  # counts from now on
            threading.Thread(target=self._work, args=(run,), name=agent.id, daemon=True).start()
        if self._main is None:
            self._serve_others(waiting)
        return waiting

    def _serve_others(self, waiting: int) -> None:
        """Run queued agents that were started with other settings, such as a stricter mode, under exactly those.

        A worker also takes agents of other workspaces if any worker may run them.
        """
        keys = [("", settings) for settings in self.store.queued_settings()] if waiting else []
        if self.slots and self.store.database.is_shared:
            keys += self.store.queued_elsewhere()
        for key in keys:
            if key == ("", self.settings) or not self._has_room:
                continue
            now = time.monotonic()
            with self._lock:
                other = self._others.get(key)
                if other is None:
                    self._others[key] = OtherRuntime(None, now)  # only this thread opens it
                elif other.runtime is not None:
                    self._others[key] = other._replace(used=now)
            if other is None:
                other = OtherRuntime(self._open_other(*key), now)
                with self._lock:
                    self._others[key] = other
            if other.runtime is not None:
                other.runtime.parts.agents.serve()
        self._close_idle()

    def _open_other(self, workspace: str, settings: str) -> Runtime | None:
        """Return a runtime with exactly these settings; None if settings of the user override them."""
        runtime = open_stored(self.runtime, settings, workspace)
        if runtime is not None:
            host = runtime.parts.agents
            host.settings, host._main, host._is_elsewhere = settings, self, bool(workspace)
            host.slots = 0 if workspace else self.slots  # the workers of that workspace come first
            host._claiming = self._claiming
        return runtime

    def _close_idle(self) -> None:
        """Close runtimes for other settings that nobody needs any more."""
        since = time.monotonic() - _OTHERS_SECONDS
        with self._lock:
            idle = [
                key
                for key, (runtime, used) in self._others.items()
                if used < since and (runtime is None or not runtime.parts.agents.running)
            ]
            closed = [self._others.pop(key).runtime for key in idle]
        for runtime in closed:
            if runtime is not None:
                runtime.close()

    def _work(self, run: AgentRun) -> None:
        try:
            self.run(run, RunCaller(self.runtime.parts.asks_person, self._above.get(run.agent.id)))
        finally:
            if not self._is_closing:
                self.serve()  # agents that waited for room, or were woken meanwhile

    def _watch(self) -> None:
        with self._lock:
            if self._is_watching:
                return
            self._is_watching = True
        threading.Thread(target=self._end_cancelled, name="hilt-agents", daemon=True).start()

    def _end_cancelled(self) -> None:
        """End the agents that another process has cancelled or taken over; return when none is left."""
        while True:
            with self._lock:
                runs = list(self._runs.values())
                if not runs:
                    self._is_watching = False
                    return
            with suppress(ToolError):  # the database is busy
                owned = set(self.store.owned(self.owner().name))
                for run in runs:
                    if run.agent.id not in owned:
                        agent = self.store.get(run.agent.id)
                        if agent is None or agent.ended is not None:
                            run.cancel()
                        else:
                            run.lose()
            time.sleep(_WATCH_SECONDS)

    # --- for people ---------------------------------------------------------------------------------------------------

    def cancel(self, id: str) -> None:
        """Cancel an agent and all below it, and wait until everything that they run has ended."""
        ids = self.store.cancel(id)
        self._end_runs(ids)
        for agent_id in ids:
            self.runtime.end_session(agent_id)

    def _end_runs(self, ids: Sequence[str]) -> None:
        """End the runs of cancelled agents, and wait until everything that they run has ended."""
        with self._lock:
            runs = [run for run in self._runs.values() if run.agent.id in ids]
        for run in runs:
            run.cancel()
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and any(map(self._is_ending, ids)):
            time.sleep(_POLL_SECONDS)

    def _is_ending(self, id: str) -> bool:
        agent = self.store.get(id)
        return agent is not None and agent.owner != "" and self.store.is_alive(agent.owner)

    def progress(self, id: str) -> str:
        """Return the calls that an agent has made, one line each, the newest last."""
        lines: list[str] = []
        for record in self._records(id):
            if record.get("type") == "answer":
                parts = [part for part in record.get("parts", ()) if "call" in part]
                lines += [call_line(part["call"], part.get("args")) for part in parts]
        if len(lines) > PROGRESS_LINES:
            lines = [f"[{len(lines) - PROGRESS_LINES} earlier calls]", *lines[-PROGRESS_LINES:]]
        return "\n".join(lines)

    def _records(self, id: str) -> Sequence[Record]:
        """Return the records of an agent: from the transcript, or from the steps if another machine has run it."""
        if self.store.database.is_shared:
            runs = self.store.runs.of(id)
            if any(run.host != machine_name(self.runtime.parts.state) for run in runs):
                return self.durable().records(id, runs)
        with suppress(FileNotFoundError):
            return list(read(transcripts_of(self.runtime).path(id)))
        return []


def _model(name: str) -> str:
    if name and ":" not in name:
        raise ToolError("invalid_args", f"The model {name[:100]!r} has no provider.", suggestion="Use PROVIDER:MODEL.")
    return name
