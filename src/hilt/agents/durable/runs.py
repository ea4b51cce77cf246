"""One run of an agent as a workflow: the steps of earlier runs, its own steps, and interrupted calls (ADR 0032)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hilt import pipeline
from hilt.agents.durable.stores import FEATURE, machine_name
from hilt.agents.steps import RunCalls, Settle, unknown_outcome
from hilt.agents.transcripts import Record, Transcripts, read
from hilt.authority.authority import only_reads
from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.installer import needs
from hilt.state.agent_database import AgentDatabase, holds_lock
from hilt.state.agent_runs import RunRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.calls import MadeCall
    from hilt.agents.durable.workflows import Workflows
    from hilt.output.run_events import RunEnded
    from hilt.runtime import Runtime

T = TypeVar("T")

_STORED_TYPES = ("session", "user", "answer", "result", "compacted")


def open_workflows(state: str, database: AgentDatabase) -> Workflows:
    """Return the workflows of this process, which store their steps in a shared database, or a file beside it."""
    with needs("agents", FEATURE):
        from hilt.agents.durable.workflows import Workflows
    return Workflows.of(state, database)


class DurableRuns:
    """Runs the agents of one runtime as workflows."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._database = runtime.parts.roster.database
        self._runs = runtime.parts.roster.runs
        self._workflows = open_workflows(runtime.parts.state, self._database)
        self._is_closed = False

    def close(self) -> None:
        """Close the workflows; may be called again."""
        if not self._is_closed:
            self._is_closed = True
            self._workflows.close()

    def records(self, agent: str, runs: Sequence[RunRecord]) -> list[Record]:
        """Return the records of an agent that the steps of these runs have stored."""
        return self._workflows.records([_id(agent, run.number) for run in runs])

    def take_over(self, agent: str, earlier: Sequence[RunRecord], transcripts: Transcripts) -> None:
        """End the earlier runs of an agent wherever they are, and restore the transcript from their steps."""
        self._workflows.cancel([_id(agent, run.number) for run in earlier])
        records = self.records(agent, earlier)
        if not self._database.is_shared and transcripts.exists(agent):
            written = [record for record in read(transcripts.path(agent)) if record.get("type") in _STORED_TYPES]
            if len(written) >= len(records) or records[0]["type"] != "session":
                return  # runs that were not durable have continued it
        transcripts.restore(agent, records)

    def run_workflow(self, agent: str, number: int, talk: Callable[[], RunEnded]) -> RunEnded:
        """Run a conversation as the workflow of one run of an agent."""
        ended: list[RunEnded] = []

        def work() -> dict[str, Any]:
            ended.append(talk())
            error = ended[0].error
            return {"status": ended[0].status, "error_code": None if error is None else error.code}

        self._workflows.run(_id(agent, number), work)
        return ended[0]

    def run_loop(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, as `asyncio.run` does."""
        with asyncio.Runner(loop_factory=_StepLoop) as runner:
            return runner.run(main)

    def steps(self, settle: Settle = unknown_outcome) -> StoredSteps:
        """Return the steps of the workflow on this thread; `settle` decides on calls that were interrupted."""
        return StoredSteps(self._workflows, settle)

    def clean(self, days: float) -> int:
        """Delete the steps of agents that ended, if they are older than this; return how many runs."""

        def select_needed(ids: list[str]) -> set[str]:
            living = self._runs.living(sorted({_agent(id) for id in ids}))
            return {id for id in ids if _agent(id) in living}

        now = datetime.fromtimestamp(self._database.read(self._database.now) / 1e9, UTC)
        return self._workflows.delete_before(now - timedelta(days=days), select_needed)


class StoredSteps:
    """The steps of a workflow; implements Steps."""

    def __init__(self, workflows: Workflows, settle: Settle) -> None:
        self._workflows = workflows
        self.settle = settle

    async def run(self, name: str, work: Callable[[], Awaitable[Record]]) -> Record:
        """Do the work of a step and return its record once it is stored."""
        return await self._workflows.step(name, work)

    async def run_calls(self, calls: Sequence[MadeCall], run: RunCalls, on_kept: Callable[[Record], None]) -> None:
        """Run the calls of a turn. They begin when every step has begun, so that they start in their order."""
        loop = asyncio.get_running_loop()
        records: dict[int, asyncio.Future[Record]] = {call.place: loop.create_future() for call in calls}
        all_begun = asyncio.Event()
        waiting = len(calls)

        async def step(call: MadeCall) -> None:
            async def work() -> Record:
                nonlocal waiting
                waiting -= 1
                if not waiting:
                    all_begun.set()
                return await records[call.place]

            on_kept(await self.run(f"{call.tool} {call.id}", work))

        begun = asyncio.ensure_future(all_begun.wait())
        tasks = [asyncio.ensure_future(step(call)) for call in calls]
        try:
            await asyncio.wait([begun, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if begun.done():
                await run(lambda call, record: records[call.place].set_result(record))
            await asyncio.gather(*tasks)
        finally:
            for task in (begun, *tasks):
                task.cancel()


class _StepLoop(asyncio.SelectorEventLoop):
    """A loop with its own executor: DBOS would set one that all loops share, and closing the loop would close it."""

    def set_default_executor(self, executor: object) -> None:
        """Do nothing."""


def runs_of_last_turn(runs: Sequence[RunRecord], records: Sequence[Record]) -> Sequence[RunRecord]:
    """Return the runs that may have made the calls of the last answer: the one that stored it, and all after it.

    A run may be killed before it has settled the calls of an earlier one.
    """
    answered = max((place for place, record in enumerate(records) if record.get("type") == "answer"), default=0)
    first = max((place for place, run in enumerate(runs) if run.steps <= answered), default=0)
    return runs[first:]


class InterruptedCalls:
    """Decides on calls whose process was killed."""

    def __init__(self, runtime: Runtime, runs: Sequence[RunRecord]) -> None:
        """`runs` are those that may have made the calls, oldest first."""
        self._runtime = runtime
        self._host = runs[0].host
        here = machine_name(runtime.parts.state)
        # a process that only lost its lease may still commit
        self._is_dead = all(run.host == here and not holds_lock(runtime.parts.state, run.owner) for run in runs)

    def settle(self, call: MadeCall) -> Result | None:
        """Return the result of a call, or None to run it again: it has no effect, or has had none."""
        runtime = self._runtime
        if call.error is not None:
            return None
        try:
            request, resolved = runtime.resolve(Call(call.tool, call.args))
            prepared = pipeline.prepare(request, *resolved)
        except ToolError:
            return self._unknown(call)  # the tool may have existed before
        tool = prepared.tool
        if tool.source == "built-in" and only_reads(tool):
            return None
        is_change = tool.effects == {"write"} and any(touch.effect == "write" for touch in prepared.touches)
        if self._is_dead and tool.source == "built-in" and is_change:
            try:
                change = runtime.parts.session(runtime.session).change_of(call.id)
            except ToolError:
                return self._unknown(call)
            if change is None:
                return None
            text = f"The change was made, but hilt was stopped before it could return the result. Its id: {change}"
            return Result(text, meta={"change": change})
        return self._unknown(call)

    def _unknown(self, call: MadeCall) -> Result:
        return unknown_outcome(call, self._host)


def _id(agent: str, number: int) -> str:
    return f"{agent}.{number}"


def _agent(id: str) -> str:
    return id.rpartition(".")[0]
