"""Runs agents for other agents: in the call that asked for them, or in the background.

A child is a conversation in a session of its own, named after its id. What it may do is the intersection of what its
parent may and what its definition says: the authority looks both up by the session, on every call and in every process
(`Authority.agent`). This module adds the model, the limits, the record in the store, and the end.

An agent in the background runs in a worker if there is one, else in the process that keeps the caller's jobs. If that
process ends or is killed, the agent is queued again, and the next process that looks at the agents of the workspace
with the same settings goes on with its transcript. Each of its runs is a workflow (`durable/`).
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hilt.agents.definitions import DEFAULT, AgentDefinition, read_definitions
from hilt.agents.durable.leases import AgentOwner, TakenOver
from hilt.agents.durable.places import machine_name
from hilt.agents.durable.runs import DurableRuns, InterruptedCalls, runs_of_last_turn
from hilt.agents.events import DONE, INTERRUPTED, UNAPPROVED, CallStarted, Event, RunEnded, TokensUsed
from hilt.agents.starting import open_conversation, transcripts_of
from hilt.agents.transcripts import TITLE_CHARACTERS, Record, read
from hilt.agents.worktrees import Worktrees
from hilt.authority.authority import Authority
from hilt.call import AGENT
from hilt.config import KEYS
from hilt.context import Context
from hilt.errors import ToolError
from hilt.formats.times import rfc3339
from hilt.lazy import Lazy
from hilt.policy.modes import named, narrowest
from hilt.runtime import Runtime
from hilt.state.agent_calls import AgentOrder, Allowance, Remainder
from hilt.state.agent_runs import LOST, RunRecord
from hilt.state.roster import (
    AgentLimits,
    AgentMessage,
    AgentOutcome,
    AgentProfile,
    AgentRecord,
    Kind,
    Mail,
    NewAgent,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.conversation import Conversation
    from hilt.agents.marks import Marks
    from hilt.context import Attendant

RUNNING_MAX = 256  # agents in the background of one process; others stay queued
MAIL_MAX = 100  # messages that wake an agent at once
PROGRESS_LINES = 50
STOP_SECONDS = 10.0  # for agents to end when their process does

_WATCH_SECONDS = 0.25  # between two looks at what other processes have cancelled
_POLL_SECONDS = 0.05
_LOOK_SECONDS = 1.0  # between two looks for agents whose process was killed
_LINE_CHARACTERS = 200
_LEAST_SECONDS = 0.001  # of an agent whose time is up: it ends with budget_exceeded
_LISTED_MAX = 1_000  # agents that may share a budget
# settings that do not matter for what an agent may do, or are too secret to be stored
_LEFT_OUT = ("resident", "telemetry.endpoint", "workspace.name", "agents.database", "agents.lease_s")
_OTHERS_SECONDS = 60.0  # that a runtime for other settings is kept without an agent


class AgentRun:
    """One agent that is running in this process."""

    def __init__(self, agent: AgentRecord) -> None:
        self.agent = agent
        self.mail = 0  # the number of the last message that it is sent
        self._lock = threading.Lock()
        self._conversation: Conversation | None = None
        self._is_cancelled = False
        self.is_lost = False  # another process runs the agent now

    def set(self, conversation: Conversation | None) -> None:
        """Set what `cancel` ends; None when it has ended by itself."""
        with self._lock:
            self._conversation = conversation

    def cancel(self) -> None:
        """End the run and everything that it runs; may be called from any thread, also before it has begun."""
        with self._lock:
            self._is_cancelled = True
            if self._conversation is not None:
                self._conversation.cancel()

    def lose(self) -> None:
        """End the run because another process runs the agent."""
        self.is_lost = True
        self.cancel()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was told to end."""
        return self._is_cancelled


class OtherRuntime(NamedTuple):
    """A runtime for agents with other settings, and when it was last needed; None: the settings do not apply here."""

    runtime: Runtime | None
    used: float


class AgentHost:
    """Creates and runs the agents of one runtime. Safe to use from many threads."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.store = runtime.roster()
        settings = runtime.settings
        self.limits = AgentLimits(
            settings["agents.max_depth"],
            settings["agents.max_children"],
            settings["agents.idle_s"],
            settings["agents.max_queued"],
        )
        self.settings = _stored({name: settings[name] for name in KEYS})
        self.slots = 0  # of a worker; set before the first agent runs
        self._main: AgentHost | None = None  # of a host for other settings or another workspace
        self._is_elsewhere = False  # whether it only runs agents of another workspace that any worker may run
        self.owner = Lazy(lambda: AgentOwner(runtime, self.slots))
        self._durable = Lazy(lambda: DurableRuns(runtime))
        self.worktrees = Worktrees(runtime, self.store)
        self._above: dict[str, Allowance] = {}  # of agents that were started here
        self._restored_budgets: dict[str, Allowance] = {}  # of callers whose process has ended
        self._runs: dict[str, AgentRun] = {}
        self._lock = threading.Lock()
        self._others: dict[tuple[str, str], OtherRuntime] = {}  # by workspace, "" for this one, and settings
        self._claiming = threading.Lock()
        self._starting: set[str] = set()  # agents that are to run here at once
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
        until = time.monotonic() + STOP_SECONDS
        while self._runs and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        with self._lock:
            others = list(self._others.values())
        for other in others:
            if other.runtime is not None:
                other.runtime.close()
        if self.owner.part is not None:
            with suppress(ToolError):  # then they are queued when somebody sees that the owner is gone
                self.store.release(self.owner.part.name)
            self.owner.close()
        self._durable.close()

    @property
    def running(self) -> int:
        """How many agents run here."""
        with self._lock:
            others = [other.runtime for other in self._others.values() if other.runtime is not None]
            return len(self._runs) + sum(other.agents().running for other in others)

    @property
    def _has_room(self) -> bool:
        main = self._main or self
        return main.running < (main.slots or RUNNING_MAX) and not self._is_closing

    def become_worker(self, slots: int) -> None:
        """Run up to this many agents at once, before any other process does."""
        self.slots = slots
        self._durable()
        self.owner()
        self.runtime.listen(lambda: None)  # keeps one watch of the tools' folders, which each agent would start anew

    def _release_lost(self) -> None:
        """Queue the agents that this process should run but does not: it had lost them, or the database."""
        with self._claiming:
            for id in self.store.owned(self.owner().name):
                if id not in self._runs and id not in self._starting:
                    self.store.requeue(id, self.owner().name)

    def clean(self) -> None:
        """Delete the steps of agents that ended long ago."""
        self._durable().clean(self.runtime.settings["agents.keep_days"])

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
        """Create an agent; a call, or any with `here`, is to run in this process at once, the others are queued."""
        parent = order.parent or caller
        left = Remainder() if above is None else above.left()
        turns = left.within(Remainder(turns=definition.turns)).turns
        has_worktree = order.worktree or definition.worktree
        if has_worktree:
            self.worktrees.check()
            self.worktrees.sweep()
        in_worktree = has_worktree or self.worktrees.owner(parent) != ""
        tools = granted_tools(self.runtime.authority, definition, parent, in_worktree=in_worktree)
        new = NewAgent(
            parent=parent,
            caller=caller,
            kind=kind,
            name=definition.name,
            title=" ".join((order.title or order.prompt).split())[:TITLE_CHARACTERS],
            prompt=order.prompt,
            settings=self.settings,
            anywhere=not in_worktree and self._needs_no_folder(tools, parent),
            machine=machine_name(self.runtime.state),
            profile=AgentProfile(
                tools=tools,
                mode=granted_mode(self.runtime.authority, definition, parent),
                model=_model(order.model or definition.model),
                role=definition.body,
                turns=turns,
                tokens=left.tokens,
                seconds=left.seconds,
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
        authority = self.runtime.authority
        travelling = {tool.name for tool in authority.catalog.tools() if tool.traits.anywhere}
        return self._is_elsewhere or (travelling.issuperset(tools) and not authority.is_restricted_here(parent))

    # --- running ------------------------------------------------------------------------------------------------------

    def run(
        self,
        run: AgentRun,
        *,
        asks_person: bool,
        above: Allowance | None = None,
        report: Callable[[str], None] = lambda line: None,
        emit: Callable[[Event], None] = lambda event: None,
        client: Attendant | None = None,
    ) -> AgentOutcome:
        """Run a claimed agent until it has answered, and record how it ended.

        `client` is that of the call that waits for the agent; it asks a person.
        """
        agent = run.agent
        with self._lock:
            self._runs[agent.id] = run
            self._starting.discard(agent.id)
            if self._is_closing:
                run.cancel()
        self._watch()
        outcome = AgentOutcome("failed", "hilt failed to run the agent.", "internal")
        try:
            outcome = self._converse(run, asks_person=asks_person, above=above, report=report, emit=emit, client=client)
        except ToolError as error:
            outcome = AgentOutcome("failed", f"{error.message} {error.suggestion}".strip(), error.code)
        except TakenOver:
            run.is_lost = True
        finally:
            try:
                # an agent that only stops because its process does is released instead
                if not run.is_lost and (not self._is_closing or outcome.status != "cancelled"):
                    outcome = self._settle_worktree(agent, outcome, client)
                    if agent.kind != "spawned" or outcome.status != "completed":
                        self._above.pop(agent.id, None)
                        self.runtime.end_session(agent.id)
                    self.store.finish(agent.id, self.owner().name, outcome)
            finally:
                with self._lock:
                    self._runs.pop(agent.id, None)
        return outcome

    def _converse(
        self,
        run: AgentRun,
        *,
        asks_person: bool,
        above: Allowance | None,
        report: Callable[[str], None],
        emit: Callable[[Event], None],
        client: Attendant | None,
    ) -> AgentOutcome:
        agent = run.agent
        earlier = [] if agent.kind == "call" else self.store.runs.of(agent.id)
        if self.store.database.is_shared:
            self._check_worktree(agent)
        folder = self.worktrees.folder(agent.id)
        runtime = self.runtime.in_session(agent.id, _settings(self.runtime, agent.profile), folder)
        try:
            return self._converse_in(
                runtime,
                run,
                earlier,
                asks_person=asks_person,
                above=above,
                report=report,
                emit=emit,
                client=client,
            )
        finally:
            if folder is not None:
                runtime.close_folder()

    def _check_worktree(self, agent: AgentRecord) -> None:
        """Raise if an agent works in a worktree of another machine."""
        if agent.machine not in ("", self.owner().record.host):
            raise ToolError(
                "not_found",
                f"The worktree of this agent is on {agent.machine}, where no worker has taken it for an hour.",
                suggestion="Look there for what it changed, and start the agent again.",
            )

    def _converse_in(
        self,
        runtime: Runtime,
        run: AgentRun,
        earlier: Sequence[RunRecord],
        *,
        asks_person: bool,
        above: Allowance | None,
        report: Callable[[str], None],
        emit: Callable[[Event], None],
        client: Attendant | None,
    ) -> AgentOutcome:
        agent = run.agent
        transcripts = transcripts_of(runtime)
        durable = None
        if agent.kind != "call" and (durable := self._open_durable()) is not None:
            durable.take_over(agent.id, earlier, transcripts)
        is_new = not transcripts.exists(agent.id)
        records = [] if is_new else list(read(transcripts.path(agent.id)))
        settle = None
        if earlier and earlier[-1].outcome == LOST:
            settle = InterruptedCalls(runtime, runs_of_last_turn(earlier, records)).settle
        used = [0, 0]
        # a run whose process was killed has used tokens that the store does not know
        before = sum(_tokens(record) for record in records) - agent.input_tokens - agent.output_tokens
        above = above or self._restored(agent)
        database = self.store.database

        def heard(event: Event) -> None:
            emit(event)
            if isinstance(event, TokensUsed):
                used[0] += event.input_tokens
                used[1] += event.output_tokens
                if run.mail:  # in the transcript by now
                    self.store.drop(agent.id, run.mail)
                    run.mail = 0
            elif isinstance(event, CallStarted):
                report(_line(event.tool, event.args))

        def talk() -> RunEnded:
            conversation = open_conversation(
                runtime,
                heard,
                title=agent.title,
                is_new=is_new,
                limits=_limits(agent, max(0, before), now=database.read(database.now)),
                asks_person=asks_person,
                role=agent.profile.role,
                above=above,
                person=client,
                steps=durable,
                settle=settle,
            )
            run.set(conversation)
            talking = self._talk(run, conversation, records)
            return asyncio.run(talking) if durable is None else durable.run_loop(talking)

        def checked() -> RunEnded:
            # who takes over from now on ends the workflow, which exists; who did so before is seen here
            if agent.id not in self.store.owned(self.owner().name):
                raise TakenOver
            return talk()

        if agent.kind == "call":
            ended = talk()
        else:
            number = self.store.runs.begin(agent.id, self.owner().record, len(records))
            ended = talk() if durable is None else durable.run_workflow(agent.id, number, checked)
        if ended.status in (DONE, UNAPPROVED):
            return AgentOutcome("completed", ended.text, "", *used)
        error = ended.error or ToolError("internal", "The agent ended without an error.")
        return AgentOutcome("cancelled" if ended.status == INTERRUPTED else "failed", error.message, error.code, *used)

    def _open_durable(self) -> DurableRuns | None:
        """Return what runs agents as workflows; None if this process runs those of another state directory.

        On one machine, a transcript alone is enough to go on.
        """
        try:
            return self._durable()
        except ToolError:
            if self.store.database.is_shared:
                raise
            return None

    def _settle_worktree(self, agent: AgentRecord, outcome: AgentOutcome, client: Attendant | None) -> AgentOutcome:
        """Take over what an agent changed in a worktree of its own, and say so after its answer."""
        if not agent.profile.worktree:
            return outcome
        if agent.kind != "spawned" or outcome.status != "completed":
            self._end_below(agent.id)
        try:
            if outcome.status == "completed":
                note = self.take_over(agent, client)
            else:
                note = self.worktrees.keep(agent, f"The agent ended as {outcome.status}.")
        except ToolError as error:
            note = f"[worktree] {error.message} {error.suggestion}"
        except OSError as error:
            note = f"[worktree] Its worktree could not be settled: {error}."
        return outcome._replace(answer=f"{outcome.answer}\n\n{note}".lstrip()) if note else outcome

    def _end_below(self, id: str) -> None:
        """End the agents below an agent, and its jobs: they may still write to its worktree."""
        self._end_runs(self.store.cancel(id, itself=False))
        self.runtime.end_session(id)

    def take_over(self, agent: AgentRecord, client: Attendant | None) -> str:
        """Apply what an agent changed in its worktree to the folder of its parent; return what happened."""
        folder = self.worktrees.folder(agent.parent)
        target = self.runtime.in_session(agent.parent, self.runtime.settings, folder)
        try:
            return self.worktrees.take_over(agent, target, client)
        finally:
            if folder is not None:
                target.close_folder()

    async def _talk(self, run: AgentRun, conversation: Conversation, records: Sequence[Record]) -> RunEnded:
        """Send what the agent has not seen yet, or go on with what was interrupted."""
        agent = run.agent
        try:
            if run.is_cancelled:
                return RunEnded(INTERRUPTED, agent.id, error=ToolError("cancelled", "The agent was cancelled."))
            seen = [record for record in records if record.get("type") == "user"]
            if not seen:
                return await conversation.send(agent.prompt)
            sent = max(record.get("mail", 0) for record in seen)
            if sent:  # the process may have been killed before it could remove them
                self.store.drop(agent.id, sent)
            mail = self.store.peek(agent.id, MAIL_MAX)
            if conversation.is_interrupted:
                return await conversation.send(None)
            if not mail:
                return RunEnded(DONE, agent.id, _last_text(records))
            run.mail = mail[-1].number
            letter = _letter(mail, self.store.chain(agent.id), conversation.marks)
            return await conversation.send(letter, mail=run.mail)
        finally:
            run.set(None)
            await conversation.close()

    def _restored(self, agent: AgentRecord) -> Allowance | None:
        """Return the budget that an agent shares with the others of its caller, after the end of the caller's process.

        An agent had `tokens` when it was created; all that agents of the caller have used since then counts.
        """
        if agent.profile.tokens is None or agent.kind == "call":
            return None
        with self._lock:
            shared = self._restored_budgets.get(agent.caller)
        if shared is None:
            from hilt.agents.budgets import Budget, RunLimits

            left = self._tokens_left(agent)
            with self._lock:
                budget = Budget(RunLimits(None, left, None), time.monotonic)
                shared = self._restored_budgets.setdefault(agent.caller, budget)
        return shared

    def _tokens_left(self, agent: AgentRecord) -> int:
        """Return what agents of one caller may still use together."""
        transcripts = transcripts_of(self.runtime)
        used: dict[str, int] = {}
        group = [other for other in self.store.newest(_LISTED_MAX) if other.caller == agent.caller]
        for other in group:
            used[other.id] = other.input_tokens + other.output_tokens
            with suppress(FileNotFoundError):
                used[other.id] = max(used[other.id], sum(map(_tokens, read(transcripts.path(other.id)))))
        left = []
        for first in group:
            if first.profile.tokens is not None and first.created <= agent.created:
                since = sum(used[other.id] for other in group if other.created >= first.created)
                left.append(first.profile.tokens - since)
        return max(0, min(left, default=0))

    # --- in the background --------------------------------------------------------------------------------------------

    def serve(self) -> int:
        """Go on with the agents that nobody runs, as far as this process may; return how many wait for one like it."""
        waiting = self.store.sweep(self.limits.idle_seconds)
        if waiting and not self.slots and any(owner.slots for owner in self.store.runs.owners()):
            return 0  # a worker takes them
        if not self.runtime.keeps_agents:
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
                    continue  # its lease had run out, but nobody else took the agent
                run = AgentRun(agent)
                with self._lock:
                    self._runs[agent.id] = run  # counts from now on
            threading.Thread(target=self._work, args=(run,), name=agent.id, daemon=True).start()
        if self._main is None:
            self._serve_others(waiting)
        return waiting

    def _serve_others(self, waiting: int) -> None:
        """Go on with agents that were started with other settings, such as a stricter mode, under exactly those.

        A worker also takes agents of other workspaces if any worker may run them.
        """
        wanted = [("", settings) for settings in self.store.queued_settings()] if waiting else []
        if self.slots and self.store.database.is_shared:
            wanted += self.store.queued_elsewhere()
        for key in wanted:
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
                other.runtime.agents().serve()
        self._close_idle()

    def _open_other(self, workspace: str, settings: str) -> Runtime | None:
        """Return a runtime with exactly these settings; None if the user's own rule that out."""
        runtime = _with_settings(self.runtime, settings, workspace)
        if runtime is not None:
            host = runtime.agents()
            host.settings, host._main, host._is_elsewhere = settings, self, bool(workspace)
            host.slots = 0 if workspace else self.slots  # the workspace may wait for a worker of its own
            host._claiming = self._claiming
        return runtime

    def _close_idle(self) -> None:
        """Close runtimes for other settings that nobody needs any more."""
        since = time.monotonic() - _OTHERS_SECONDS
        with self._lock:
            idle = [
                key
                for key, (runtime, used) in self._others.items()
                if used < since and (runtime is None or not runtime.agents().running)
            ]
            closed = [self._others.pop(key).runtime for key in idle]
        for runtime in closed:
            if runtime is not None:
                runtime.close()

    def _work(self, run: AgentRun) -> None:
        try:
            self.run(run, asks_person=self.runtime.asks_person, above=self._above.get(run.agent.id))
        finally:
            if not self._is_closing:
                self.serve()  # what waited for room, or was woken meanwhile

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
        for one in ids:
            self.runtime.end_session(one)

    def _end_runs(self, ids: Sequence[str]) -> None:
        """End the runs of cancelled agents, and wait until everything that they run has ended."""
        with self._lock:
            runs = [run for run in self._runs.values() if run.agent.id in ids]
        for run in runs:
            run.cancel()
        until = time.monotonic() + STOP_SECONDS
        while time.monotonic() < until and any(self._is_ending(one) for one in ids):
            time.sleep(_POLL_SECONDS)

    def _is_ending(self, id: str) -> bool:
        agent = self.store.get(id)
        return agent is not None and agent.owner != "" and self.store.lives(agent.owner)

    def progress(self, id: str) -> str:
        """Return the calls that an agent has made, one line each, the newest last."""
        lines: list[str] = []
        for record in self._records(id):
            if record.get("type") == "answer":
                parts = [part for part in record.get("parts", ()) if "call" in part]
                lines += [_line(part["call"], part.get("args")) for part in parts]
        if len(lines) > PROGRESS_LINES:
            lines = [f"[{len(lines) - PROGRESS_LINES} earlier calls]", *lines[-PROGRESS_LINES:]]
        return "\n".join(lines)

    def _records(self, id: str) -> Sequence[Record]:
        """Return what an agent has done: of the transcript, or of the steps if another machine has run it."""
        if self.store.database.is_shared:
            runs = self.store.runs.of(id)
            if any(run.host != machine_name(self.runtime.state) for run in runs):
                return self._durable().records(id, runs)
        with suppress(FileNotFoundError):
            return list(read(transcripts_of(self.runtime).path(id)))
        return []


class CallAgents:
    """The agents for the caller of one call; implements context.Agents."""

    def __init__(self, host: AgentHost, ctx: Context) -> None:
        self._host = host
        self._ctx = ctx
        self._store = host.store
        self._caller = ctx.session
        self._is_agent = self._caller.startswith(AGENT) and self._store.get(self._caller) is not None

    def run(self, order: AgentOrder) -> AgentRecord:
        """Run an agent and return it after its answer; it ends with the call."""
        definition = self._host.define(order.agent, or_default=False)
        above = self._allowance
        agent = self._host.create(order, definition, "call", self._caller, above)
        run = AgentRun(agent)
        self._ctx.fence.watch(run.cancel)
        count = 0

        def report(line: str) -> None:
            nonlocal count
            count += 1
            self._ctx.progress(count, None, f"{definition.name}: {line}")

        attendant = self._ctx.attendant
        client = None if attendant is None else attendant.for_agents()
        asks_person = self._asks_person or client is not None
        self._host.run(run, asks_person=asks_person, above=above, report=report, client=client)
        self._ctx.fence.check()
        return self.get(agent.id)

    def start(self, order: AgentOrder, kind: Kind) -> AgentRecord:
        """Start an agent that outlives the call."""
        if not self._host.runtime.keeps_agents:
            raise ToolError("resident_required", "An agent in the background would end with this call.")
        definition = self._host.define(order.agent, or_default=kind == "spawned")
        if order.parent and not self._acts_as(order.parent):
            order = order._replace(parent="")  # the real caller counts, whatever a client calls it
        agent = self._host.create(order, definition, kind, self._caller, self._allowance)
        self._host.serve()
        return agent

    def wait(self, id: str, seconds: float) -> AgentRecord:
        """Return an agent after its first answer, or after this time."""
        until, next_look = time.monotonic() + seconds, 0.0
        while True:
            agent = self.get(id)
            now = time.monotonic()
            if agent.answers or agent.ended is not None or now >= until:
                return agent
            if now >= next_look:
                next_look = now + _LOOK_SECONDS
                self._host.serve()  # its process may have been killed
            self._ctx.fence.check()
            time.sleep(_POLL_SECONDS)

    def get(self, id: str) -> AgentRecord:
        """Return an agent of the caller."""
        agent = self._store.get(id)
        if agent is None or self._caller not in self._store.chain(id)[1:]:
            raise ToolError(
                "not_found", f"This session has no agent {id[:60]!r}.", suggestion="Call agent_list to see the agents."
            )
        return agent

    def progress(self, id: str) -> str:
        """Return what an agent of the caller has done so far, one line for each call."""
        return self._host.progress(self.get(id).id)

    def stop(self, id: str) -> AgentRecord:
        """Cancel an agent of the caller, and all below it."""
        self._host.cancel(self.get(id).id)
        return self.get(id)

    def list(self, limit: int) -> Sequence[AgentRecord]:
        """Return the agents of the workspace, newest first."""
        self._host.serve()
        return self._store.newest(limit)

    def send(self, sender: str, target: str, text: str) -> None:
        """Send a message; an idle agent wakes."""
        self._check_acting(sender)
        if self._is_agent and self._store.get(target) is None and target not in self._store.chain(self._caller):
            raise ToolError(
                "not_found", f"There is no agent {target[:100]!r}.", suggestion="Use an id from agent_list."
            )
        if self._store.send(sender, target, text, self._ctx.fence.commit):
            self._host.serve()

    def receive(self, agent: str, *, seconds: float, limit: int) -> Mail:
        """Return the messages of an agent, waiting this long for the first.

        They are removed when this agent receives again, or this process ends. If the process is killed before that,
        they are returned once more.
        """
        self._check_acting(agent)
        until = time.monotonic() + seconds
        reader = self._host.owner().name
        while True:
            mail = self._store.receive(agent, limit, self._ctx.fence.commit, reader=reader)
            if mail.messages or time.monotonic() >= until:
                return mail
            self._ctx.fence.check()
            time.sleep(_POLL_SECONDS)

    def _acts_as(self, id: str) -> bool:
        """Whether the caller may act as an agent: as itself, or one below it; a client's id counts if it is known."""
        if id == self._caller or self._caller in self._store.chain(id):
            return True
        if self._is_agent or self._store.get(id) is not None:
            raise ToolError(
                "denied",
                f"{self._caller} cannot act as {id[:100]}, which is not below it.",
                suggestion="Use your own id, or the id of an agent that you started.",
            )
        return False

    def _check_acting(self, id: str) -> None:
        """Raise unless the caller may send and receive as this id; a person's client may use any."""
        if self._is_agent:
            self._acts_as(id)

    @property
    def _allowance(self) -> Allowance | None:
        return None if self._ctx.attendant is None else self._ctx.attendant.allowance

    @property
    def _asks_person(self) -> bool:
        attendant = self._ctx.attendant
        return self._host.runtime.asks_person and (attendant is None or attendant.can_ask)


# --- what a child may do ----------------------------------------------------------------------------------------------


def granted_tools(
    authority: Authority, definition: AgentDefinition, parent: str, *, in_worktree: bool = False
) -> tuple[str, ...]:
    """Return the tools that an agent has: those of its parent, as far as its definition allows them.

    Custom tools and those of MCP servers work in the user's own folder, so an agent in a worktree has none of them.
    """
    twins = authority.names().twins

    def canonical(names: Sequence[str] | None) -> set[str]:
        return {twin for name in names or () for twin in twins.get(name, (name,))}

    wanted = None if definition.tools is None else canonical(definition.tools)
    refused = canonical(definition.disallowed)
    return tuple(
        tool.name
        for tool in authority.catalog.tools()
        if not authority.hidden(tool, parent)
        and not (in_worktree and tool.source != "built-in")
        and tool.name not in refused
        and (tool.name in wanted if wanted is not None else not tool.traits.nests)
    )


def granted_mode(authority: Authority, definition: AgentDefinition, parent: str) -> str:
    """Return the mode of an agent: that of its parent, or a narrower one that its definition names."""
    mode = authority.mode(parent)
    return narrowest(mode, named(definition.mode)) if definition.mode else mode


def _model(name: str) -> str:
    if name and ":" not in name:
        raise ToolError("invalid_args", f"The model {name[:100]!r} has no provider.", suggestion="Use PROVIDER:MODEL.")
    return name


def _settings(runtime: Runtime, profile: AgentProfile) -> Any:
    """Return the settings with the agent's own model; the address of one provider's server is not another's."""
    settings = runtime.settings
    if not profile.model or profile.model == settings["model.name"]:
        return settings
    is_same = profile.model.partition(":")[0] == (settings["model.name"] or "").partition(":")[0]
    address = settings["model.base_url"] if is_same else None
    key = settings["model.api_key_env"] if is_same else None
    changes = {"model.name": profile.model, "model.base_url": address, "model.api_key_env": key}
    return settings.replaced("agent", {**changes, "model.context_tokens": None})


def _stored(settings: Mapping[str, Any]) -> str:
    """Return the settings that an agent needs, as JSON: without defaults, so that other versions of hilt know them."""
    needed = {
        name: value
        for name, value in settings.items()
        if name not in KEYS
        or (
            KEYS[name].type is not dict
            and name not in _LEFT_OUT
            and json.dumps(value) != json.dumps(KEYS[name].default)
        )
    }
    return json.dumps(needed, sort_keys=True)


def _with_settings(runtime: Runtime, stored: str, workspace: str) -> Runtime | None:
    """Return a runtime with exactly these settings; None if the user's own rule that out.

    For the agents of another workspace, it works in an empty folder.
    """
    own = {name: runtime.settings[name] for name in _LEFT_OUT}
    defaults = {name: key.default for name, key in KEYS.items() if key.type is not dict and name not in _LEFT_OUT}
    root = runtime.root
    try:
        values = {**own, **defaults, **json.loads(stored)}
        if workspace:
            values["workspace.name"] = workspace
            root = os.path.join(runtime.state, "nowhere")
            os.makedirs(root, mode=0o700, exist_ok=True)
        flags = {name: value for name, value in values.items() if value is not None}
        other = Runtime(root, environ=runtime.environ, flags=flags)
    except (ToolError, ValueError, TypeError):
        return None  # of another version
    if other.agents().settings == _stored(json.loads(stored)):
        return other
    other.close()
    return None


def _limits(agent: AgentRecord, unrecorded: int, now: int) -> Any:
    """Return the limits of the next run of an agent that has used this many tokens besides those in its record."""
    from hilt.agents.budgets import MAX_TURNS, RunLimits

    profile = agent.profile
    used = agent.input_tokens + agent.output_tokens + unrecorded
    tokens = None if profile.tokens is None else max(0, profile.tokens - used)
    return RunLimits(profile.turns or MAX_TURNS, tokens, _seconds_left(agent, now))


def _seconds_left(agent: AgentRecord, now: int) -> float | None:
    """Return the seconds that an agent has; they pass while no process runs it."""
    if agent.profile.seconds is None:
        return None
    return max(_LEAST_SECONDS, agent.profile.seconds - (now - agent.created) / 1e9)


def _tokens(record: Record) -> int:
    """Return the tokens of an answer in a transcript."""
    usage = record.get("usage") if record.get("type") == "answer" else None
    return sum(usage.get(key, 0) for key in ("input_tokens", "output_tokens")) if isinstance(usage, dict) else 0


# --- texts ------------------------------------------------------------------------------------------------------------


def _letter(mail: Sequence[AgentMessage], above: Sequence[str], marks: Marks) -> str:
    """Return messages as one text for the model; the numbers make it unique.

    Text of agents that are not above the reader is data, not instructions.
    """
    parts = []
    for one in mail:
        is_data = one.sender.startswith(AGENT) and one.sender not in above
        text = marks.around(one.text, f"message of {one.sender}") if is_data else one.text
        parts.append(f"[message {one.number} from {one.sender}, {rfc3339(one.at)}]\n{text}")
    return "\n\n".join(parts)


def _last_text(records: Sequence[Record]) -> str:
    for record in reversed(records):
        if record.get("type") == "answer":
            return "".join(part["text"] for part in record.get("parts", ()) if isinstance(part.get("text"), str))
    return ""


def _line(tool: str, args: object) -> str:
    text = " ".join(f"{tool} {args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)}".split())
    return text if len(text) <= _LINE_CHARACTERS else text[: _LINE_CHARACTERS - 1] + "…"
