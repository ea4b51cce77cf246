"""The agents that other agents have started in a workspace: their state and answers, and how to end them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hilt.agents.durable.stores import machine_name
from hilt.call import Call
from hilt.errors import ToolError
from hilt.formats.times import Moment
from hilt.state.mailbox import MESSAGE_BYTES
from hilt.state.roster import EXIT_CODES, AgentStatus

if TYPE_CHECKING:
    from hilt.runtime import Runtime
    from hilt.state.agent_runs import RunRecord
    from hilt.state.roster import AgentRecord

SENDER = "user"  # of the messages that a person sends
MESSAGE_CHARACTERS = MESSAGE_BYTES // 4


class Agent(NamedTuple):
    """An agent, as lists show it."""

    id: str
    parent: str
    agent: str  # the name of its definition
    title: str
    status: AgentStatus
    idle: bool
    depth: int
    created: Moment
    changed: Moment
    error_code: str | None
    input_tokens: int
    output_tokens: int
    model: str | None

    @property
    def exit_status(self) -> int | None:
        """The exit status of a command that waits for it; None while it works."""
        return EXIT_CODES.get(self.status)


class AgentProcess(NamedTuple):
    """One process that has run an agent."""

    run: int
    machine: str
    owner: str
    version: str
    began: Moment
    ended: Moment | None
    outcome: str


class AgentDetails(NamedTuple):
    """Everything about an agent. Only `machine` can run it, unless that is None."""

    agent: Agent
    prompt: str
    answer: str
    progress: str
    worktree: str | None
    problem: str  # of the worktree
    machine: str | None
    is_elsewhere: bool  # whether `machine` is another machine
    runs: tuple[AgentProcess, ...]


def newest(runtime: Runtime, limit: int) -> list[Agent]:
    """Return the newest agents first."""
    return [_agent(runtime, record) for record in runtime.parts.roster.newest(limit)]


def find(runtime: Runtime, id: str) -> Agent | None:
    """Return an agent; None if there is none with this id."""
    record = runtime.parts.roster.get(id)
    return None if record is None else _agent(runtime, record)


def details(runtime: Runtime, id: str) -> AgentDetails | None:
    """Return everything about an agent; None if there is none with this id."""
    record = runtime.parts.roster.get(id)
    if record is None:
        return None
    host = runtime.parts.agents
    worktree = host.worktrees.record(id)
    return AgentDetails(
        agent=_agent(runtime, record),
        prompt=record.prompt,
        answer=record.answer,
        progress=host.progress(id),
        worktree=None if worktree is None else worktree.root,
        problem="" if worktree is None else worktree.problem,
        machine=record.machine or None,
        is_elsewhere=_is_elsewhere(runtime, record),
        runs=tuple(map(_process, runtime.parts.roster.runs.of(id))),
    )


def prompt_and_answer(runtime: Runtime, id: str) -> tuple[str, str]:
    """Return the task of an agent, and its last message or why it failed."""
    record = runtime.parts.roster.get(id)
    return ("", "") if record is None else (record.prompt, record.answer)


def message(id: str, text: str) -> Call:
    """Return the call that sends a message of the person to an agent."""
    return Call("agent_send", {"agentId": SENDER, "targetAgentId": id, "message": text}, dialect="jinn")


def needs_process(runtime: Runtime) -> bool:
    """Whether an unfinished agent has no process that runs it."""
    return bool(runtime.parts.agents.serve())


def cancel(runtime: Runtime, id: str) -> None:
    """Cancel an agent and every agent it started."""
    runtime.parts.agents.cancel(id)


def apply_worktree(runtime: Runtime, id: str) -> tuple[str, bool]:
    """Apply the changes that an agent made in its worktree; return a note, and whether none remain."""
    record, host = runtime.parts.roster.get(id), runtime.parts.agents
    if record is None:
        raise ToolError("not_found", f"There is no agent {id[:100]!r} in this folder.")
    if record.ended is None and not record.is_idle:
        raise ToolError("busy", f"The agent {id} is {record.status}.", suggestion="Wait for it, or cancel it.")
    if _is_elsewhere(runtime, record):
        raise ToolError(
            "not_found",
            f"The worktree of the agent {id} is on {record.machine}.",
            suggestion="Run the same command there.",
        )
    if host.worktrees.record(id) is None:
        raise ToolError("not_found", f"The agent {id} has no worktree with changes.")
    note = host.apply_worktree(record, None)
    remaining = host.worktrees.record(id)
    return note, remaining is None or not remaining.problem


def _agent(runtime: Runtime, record: AgentRecord) -> Agent:
    return Agent(
        id=record.id,
        parent=record.parent,
        agent=record.name,
        title=record.title,
        status=record.status,
        idle=record.is_idle,
        depth=record.depth,
        created=Moment(record.created),
        changed=Moment(record.changed),
        error_code=record.error_code or None,
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens,
        model=record.profile.model or runtime.settings["model.name"],
    )


def _process(run: RunRecord) -> AgentProcess:
    ended = None if run.ended is None else Moment(run.ended)
    return AgentProcess(
        run.number, run.host, run.owner, run.version, Moment(run.began), ended, run.outcome or "running"
    )


def _is_elsewhere(runtime: Runtime, record: AgentRecord) -> bool:
    return record.machine not in ("", machine_name(runtime.parts.state))
