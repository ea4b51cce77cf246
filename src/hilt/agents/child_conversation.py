"""One run of a child agent: continues its transcript until it has answered."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hilt.agents.agent_settings import with_model
from hilt.agents.child_budgets import limits_of, tokens
from hilt.agents.durable.leases import TakenOver
from hilt.agents.durable.runs import DurableRuns, InterruptedCalls, runs_of_last_turn
from hilt.agents.starting import open_conversation, transcripts_of
from hilt.agents.steps import Settle, TranscriptOnly, unknown_outcome
from hilt.agents.transcripts import Record, read
from hilt.call import AGENT
from hilt.errors import ToolError
from hilt.formats.times import rfc3339
from hilt.output.run_events import DONE, INTERRUPTED, UNAPPROVED, CallStarted, Event, RunEnded, TokensUsed
from hilt.state.agent_calls import Allowance
from hilt.state.agent_runs import LOST
from hilt.state.mailbox import AgentMessage
from hilt.state.roster import AgentOutcome, AgentRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.children import AgentHost
    from hilt.agents.conversation import Conversation
    from hilt.agents.marks import Marks
    from hilt.context import Attendant
    from hilt.runtime import Runtime

MAIL_MAX = 100  # messages that wake an agent at once

_LINE_CHARACTERS = 200


class AgentRun:
    """One agent that is running in this process."""

    def __init__(self, agent: AgentRecord) -> None:
        self.agent = agent
        self.mail = 0  # the number of the last message that was sent to the model
        self._lock = threading.Lock()
        self._conversation: Conversation | None = None
        self._is_cancelled = False
        self.is_lost = False  # another process runs the agent now

    def set(self, conversation: Conversation | None) -> None:
        """Set the conversation that `cancel` ends; None once it has ended."""
        with self._lock:
            self._conversation = conversation

    def cancel(self) -> None:
        """End the run and everything that it runs; may be called from any thread, even before it has begun."""
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
        """Whether the run was cancelled."""
        return self._is_cancelled


class RunCaller(NamedTuple):
    """Who asked for a run: whether a user is available to ask, the budget above it, and callbacks for its progress.

    `client` is the client of the call that waits for the agent; it asks the user.
    """

    asks_person: bool
    above: Allowance | None = None
    report: Callable[[str], None] = lambda line: None
    emit: Callable[[Event], None] = lambda event: None
    client: Attendant | None = None


class ChildConversation:
    """The conversation of one run of an agent."""

    def __init__(self, host: AgentHost, run: AgentRun, caller: RunCaller) -> None:
        self._host = host
        self._store = host.store
        self._run = run
        self._agent = run.agent
        self._caller = caller

    def run(self) -> AgentOutcome:
        """Run the agent until it has answered; return how it ended."""
        host, agent = self._host, self._agent
        if self._store.database.is_shared:
            self._check_worktree()
        with host.worktrees.in_folder(agent.id, with_model(host.runtime, agent.profile)) as runtime:
            return self._run_in(runtime)

    def _check_worktree(self) -> None:
        """Raise if the agent works in a worktree of another machine."""
        machine = self._agent.machine
        if machine not in ("", self._host.owner().record.host):
            raise ToolError(
                "not_found",
                f"The worktree of this agent is on {machine}, where no worker has taken the agent for an hour.",
                suggestion="Look for its changes there, and start the agent again.",
            )

    def _run_in(self, runtime: Runtime) -> AgentOutcome:
        agent, caller, store, owner = self._agent, self._caller, self._store, self._host.owner
        earlier = [] if agent.kind == "call" else store.runs.of(agent.id)
        transcripts = transcripts_of(runtime)
        durable = None
        if agent.kind != "call" and (durable := self._open_durable()) is not None:
            durable.take_over(agent.id, earlier, transcripts)
        is_new = not transcripts.exists(agent.id)
        records = [] if is_new else list(read(transcripts.path(agent.id)))
        settle: Settle = unknown_outcome
        if earlier and earlier[-1].outcome == LOST:
            settle = InterruptedCalls(runtime, runs_of_last_turn(earlier, records)).settle
        used = [0, 0]
        # the store does not have the tokens of a run whose process was killed
        unrecorded = sum(map(tokens, records)) - agent.input_tokens - agent.output_tokens
        above = caller.above or self._host.shared_budgets.of(agent)

        def on_event(event: Event) -> None:
            caller.emit(event)
            if isinstance(event, TokensUsed):
                used[0] += event.input_tokens
                used[1] += event.output_tokens
                if self._run.mail:  # in the transcript by now
                    store.mail.drop(agent.id, self._run.mail)
                    self._run.mail = 0
            elif isinstance(event, CallStarted):
                caller.report(call_line(event.tool, event.args))

        def talk() -> RunEnded:
            limits = limits_of(agent, max(0, unrecorded), now=store.database.read(store.database.now))
            conversation = open_conversation(
                runtime,
                on_event,
                title=agent.title,
                is_new=is_new,
                limits=limits._replace(above=above),
                asks_person=caller.asks_person,
                role=agent.profile.role,
                person=caller.client,
                steps=TranscriptOnly(settle) if durable is None else durable.steps(settle),
            )
            self._run.set(conversation)
            talking = self._talk(conversation, records)
            return asyncio.run(talking) if durable is None else durable.run_loop(talking)

        def talk_if_owned() -> RunEnded:
            # the workflow exists now, so a process that takes over ends it; an earlier takeover is detected here
            if agent.id not in store.owned(owner().name):
                raise TakenOver
            return talk()

        if agent.kind == "call":
            ended = talk()
        else:
            number = store.runs.begin(agent.id, owner().record, len(records))
            ended = talk() if durable is None else durable.run_workflow(agent.id, number, talk_if_owned)
        if ended.status in (DONE, UNAPPROVED):
            return AgentOutcome("completed", ended.text, "", *used)
        error = ended.error or ToolError("internal", "The agent ended without an error.")
        return AgentOutcome("cancelled" if ended.status == INTERRUPTED else "failed", error.message, error.code, *used)

    def _open_durable(self) -> DurableRuns | None:
        """Return the durable runs; None if this process already has those of another state directory.

        On one machine, the transcript alone is enough to continue.
        """
        try:
            return self._host.durable()
        except ToolError:
            if self._store.database.is_shared:
                raise
            return None

    async def _talk(self, conversation: Conversation, records: Sequence[Record]) -> RunEnded:
        """Send what the agent has not seen yet, or continue an interrupted turn."""
        run, agent = self._run, self._agent
        try:
            if run.is_cancelled:
                return RunEnded(INTERRUPTED, agent.id, error=ToolError("cancelled", "The agent was cancelled."))
            user_records = [record for record in records if record.get("type") == "user"]
            if not user_records:
                return await conversation.send(agent.prompt)
            sent = max(record.get("mail", 0) for record in user_records)
            if sent:  # the process may have been killed before it could remove them
                self._store.mail.drop(agent.id, sent)
            mail = self._store.mail.peek(agent.id, MAIL_MAX)
            if conversation.is_interrupted:
                return await conversation.send(None)
            if not mail:
                return RunEnded(DONE, agent.id, _last_text(records))
            run.mail = mail[-1].number
            text = _mail_text(mail, self._store.chain(agent.id), conversation.marks)
            return await conversation.send(text, mail=run.mail)
        finally:
            run.set(None)
            await conversation.close()


def _mail_text(mail: Sequence[AgentMessage], above: Sequence[str], marks: Marks) -> str:
    """Return messages as one text for the model; the numbers make it unique.

    Text of agents that are not above the reader is data, not instructions.
    """
    parts = []
    for message in mail:
        is_data = message.sender.startswith(AGENT) and message.sender not in above
        text = marks.around(message.text, f"message of {message.sender}") if is_data else message.text
        parts.append(f"[message {message.number} from {message.sender}, {rfc3339(message.at)}]\n{text}")
    return "\n\n".join(parts)


def _last_text(records: Sequence[Record]) -> str:
    for record in reversed(records):
        if record.get("type") == "answer":
            return "".join(part["text"] for part in record.get("parts", ()) if isinstance(part.get("text"), str))
    return ""


def call_line(tool: str, args: object) -> str:
    """Return a call as one short line."""
    text = " ".join(f"{tool} {args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)}".split())
    return text if len(text) <= _LINE_CHARACTERS else text[: _LINE_CHARACTERS - 1] + "…"
