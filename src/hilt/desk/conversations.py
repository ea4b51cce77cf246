"""The conversations of a model on a task: start one, continue one, run one durably, show what it sends.

Importing this module is cheap, and works without the extra `agents`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from hilt.agents.budgets import MAX_TURNS, RunLimits
from hilt.agents.marks import Marks
from hilt.agents.starting import (
    COMMAND,
    choose_model,
    marks_of,
    open_conversation,
    open_meter,
    open_model,
    redactor_of,
    transcripts_of,
)
from hilt.agents.transcripts import new_id
from hilt.errors import ToolError
from hilt.output.run_events import FAILED, INTERRUPTED, Event, Notice, RunEnded
from hilt.places import command

if TYPE_CHECKING:
    from hilt.agents.conversation import Conversation
    from hilt.agents.messages import Content
    from hilt.agents.starting import ModelChoice
    from hilt.output.redaction import Redactor
    from hilt.runtime import Runtime

__all__ = ["MAX_TURNS", "Conversation", "ModelChoice", "RunLimits", "new_id"]

_JOIN_SECONDS = 0.2
_ID = re.compile(r"\d{8}-[\w-]*")  # the form of a session id


class TypedPrompt(NamedTuple):
    """What the person typed, which may refer to files, and the text from standard input, which may not."""

    typed: str
    piped: str = ""

    @property
    def title(self) -> str:
        """The title of the run."""
        return self.typed or self.piped


class RunRole(NamedTuple):
    """How an agent definition configures a run: options, settings, limit of turns, and prompt."""

    name: str = ""
    options: Mapping[str, str] = MappingProxyType({})
    settings: Mapping[str, str] = MappingProxyType({})
    turns: int | None = None
    prompt: str = ""


class SentPrompt(NamedTuple):
    """What a run would send to a model: the system prompt, earlier messages, the prompt, and the tools."""

    system: str
    messages: list[dict[str, Any]]
    prompt: str
    tools: list[dict[str, Any]]

    def as_text(self) -> str:
        """Return it for a person, without the tools."""
        from hilt.agents.transcript_views import as_markdown

        return "\n\n---\n\n".join(filter(None, (self.system, as_markdown(self.messages).strip("\n"), self.prompt)))


class ImagesRefused(Exception):
    """A durable run cannot send the images of its prompt."""


class EarlierRun(NamedTuple):
    """The session to continue, the prompt if one was given in place of an id, and the name of its agent."""

    session: str
    prompt: str
    agent: str


# --- before a run -------------------------------------------------------------------------------------------------


def role(runtime: Runtime, name: str, *, own_model: bool) -> RunRole:
    """Return how an agent definition configures a run; it can only remove tools and permissions."""
    from hilt.agents.agent_files import granted_mode, granted_tools, read_definitions

    definition = read_definitions(runtime).find(name)
    tools = granted_tools(runtime.parts.authority, definition, runtime.session)
    mode = granted_mode(runtime.parts.authority, definition, runtime.session)
    model = _model_of(runtime, definition.model) if own_model else {}
    if not tools:
        raise ToolError("invalid_args", f"The agent {definition.name} has no tool that this session offers.")
    return RunRole(definition.name, {"tools": ",".join(tools), "mode": mode}, model, definition.turns, definition.body)


def _model_of(runtime: Runtime, name: str) -> dict[str, str]:
    """Return the settings for an agent's own model; raise if model.base_url belongs to another provider."""
    settings = runtime.settings
    if not name or name == settings["model.name"]:
        return {}
    if settings["model.base_url"] and name.partition(":")[0] != (settings["model.name"] or "").partition(":")[0]:
        raise ToolError(
            "no_model",
            f"The agent wants the model {name}, but model.base_url is the server of {settings['model.name']}.",
            suggestion="Pass --model with a model of that server, or unset model.base_url.",
        )
    return {"model.name": name}


def earlier(runtime: Runtime, id: str, *, may_be_prompt: bool) -> EarlierRun:
    """Return the run with an id, or the newest; the id may be a prompt instead, if it does not look like one."""
    transcripts = transcripts_of(runtime)
    prompt = ""
    try:
        file = transcripts.find(id) if id else transcripts.newest()
    except ToolError as error:
        if error.code != "not_found" or not id or not may_be_prompt or _ID.fullmatch(id):
            raise
        file, prompt = transcripts.newest(), id
    return EarlierRun(file.id, prompt, str(file.head.get("agent") or ""))


def model_name(runtime: Runtime, program: str | None) -> str:
    """Return the program that runs instead of a model, or the name of the model; raise no_model if there is none."""
    return program or runtime.parts.environ.get(COMMAND) or choose_model(runtime).name


def redactor(runtime: Runtime) -> Redactor:
    """Return the redactor that removes the user's secrets from text."""
    return redactor_of(runtime)


def preview(runtime: Runtime, prompt: TypedPrompt, role: RunRole, *, asks_person: bool) -> SentPrompt:
    """Return what a run would send; needs no model."""
    from hilt.agents.prompts import read_project, system_prompt
    from hilt.agents.references import expand
    from hilt.agents.transcripts import current, read
    from hilt.listing import definition

    transcripts = transcripts_of(runtime)
    marks, records = marks_of(runtime), list[dict[str, Any]]()
    if transcripts.exists(runtime.session):
        file = transcripts.find(runtime.session)
        marks, records = Marks(file.head.get("word")), current(read(file.path))
    tools = runtime.parts.authority.listed_tools(runtime.session, client_asks=asks_person)
    system = system_prompt(runtime, marks, read_project(runtime), tools, role.prompt)
    typed = expand(runtime, prompt.typed, command=runtime.parts.skills.expand, around=marks.around).text
    message = "\n\n".join(filter(None, (typed, prompt.piped)))
    return SentPrompt(system, records, message, [definition(tool) for tool in tools])


# --- a run in this process ----------------------------------------------------------------------------------------


def complete(runtime: Runtime, word: str) -> list[str]:
    """Return the references to files, skills and commands that complete a word of a prompt."""
    from hilt.agents import references

    library = runtime.parts.skills.current()
    return references.complete(runtime, word, skills=library.skills, commands=library.commands)


def converse(
    runtime: Runtime,
    emit: Callable[[Event], None],
    *,
    title: str,
    is_new: bool | None = None,
    program: str | None = None,
    choice: ModelChoice | None = None,
    limits: RunLimits | None = None,
    asks_person: bool = False,
    role: RunRole | None = None,
) -> Conversation:
    """Open the conversation of the runtime's session; raise no_model, or busy if it is in use.

    Without `is_new`, it continues the session if that has a transcript.
    """
    return open_conversation(
        runtime,
        emit,
        title=title,
        is_new=not transcripts_of(runtime).exists(runtime.session) if is_new is None else is_new,
        program=program,
        choice=choice,
        limits=limits,
        asks_person=asks_person,
        agent="" if role is None else role.name,
        role="" if role is None else role.prompt,
    )


async def send(conversation: Conversation, prompt: TypedPrompt) -> RunEnded:
    """Send a prompt, or resume without one, and return the end of the run."""
    content = await conversation.expand(prompt.typed) if prompt.typed else ""
    return await conversation.send(_joined(content, prompt.piped) or None)


def _joined(content: Content, piped: str) -> Content:
    """Return the prompt with the text from standard input after it."""
    if not piped:
        return content
    return "\n\n".join(filter(None, (content, piped))) if isinstance(content, str) else [*content, piped]


async def change_model(
    runtime: Runtime, conversation: Conversation | None, name: str, base_url: str | None
) -> ModelChoice:
    """Switch a conversation to another model; without a conversation, check that the model can be opened."""
    import asyncio

    choice = choose_model(runtime, name, base_url)
    model = await asyncio.get_running_loop().run_in_executor(None, lambda: open_model(runtime, choice=choice))
    if conversation is None:
        await model.close()
    else:
        await conversation.change_model(model, open_meter(runtime, choice=choice))
    return choice


def load_libraries() -> None:
    """Import what the first message needs; raise ImportError without the extra `agents`."""
    from hilt.agents import conversation, providers  # noqa: F401


# --- a run that another process can take over ---------------------------------------------------------------------


class DurableRun:
    """A task that runs in this process as a durable agent, with the same tools and prompt as any other run."""

    def __init__(
        self,
        runtime: Runtime,
        prompt: TypedPrompt,
        emit: Callable[[Event], None],
        *,
        agent: str,
        limits: RunLimits,
        asks_person: bool,
    ) -> None:
        from hilt.agents.agent_files import DEFAULT, with_all_tools
        from hilt.agents.budgets import Budget
        from hilt.agents.child_conversation import RunCaller
        from hilt.agents.references import expand
        from hilt.state.agent_calls import AgentOrder

        expansion = expand(runtime, prompt.typed, command=runtime.parts.skills.expand, around=marks_of(runtime).around)
        if expansion.images:
            raise ImagesRefused
        self._host = runtime.parts.agents
        text = "\n\n".join(filter(None, (expansion.text, prompt.piped)))
        order = AgentOrder(agent or DEFAULT, text, title=prompt.title)
        definition = self._host.define(order.agent, or_default=False)
        if not agent:
            definition = with_all_tools(definition, [tool.name for tool in runtime.parts.catalog.tools()])
        above = Budget(limits, time.monotonic)
        self._agent = self._host.create(order, definition, "background", runtime.session, above, here=True)
        self._caller = RunCaller(asks_person, above, emit=self._show)
        self._emit = emit
        self._end: RunEnded | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        emit(Notice(f"agent {self._agent.id}"))

    def cancel(self) -> None:
        """End the run; another process does not continue it."""
        threading.Thread(target=self._host.cancel, args=(self._agent.id,)).start()

    def run(self, is_handed_over: Callable[[], bool]) -> RunEnded:
        """Run until the task is done, or until another process is to continue it."""
        self._thread.start()
        while self._thread.is_alive() and not is_handed_over():
            self._thread.join(_JOIN_SECONDS)  # signals are handled in between
        id = self._agent.id
        if self._end is None and self._thread.is_alive():
            text = f"{id} continues in a worker, or when a hilt agents command runs next."
            advice = f"To wait for it: {command('agents', 'wait', id)}"
            self._end = RunEnded(INTERRUPTED, id, error=ToolError("cancelled", text, suggestion=advice))
        elif self._end is None:
            self._end = RunEnded(FAILED, id, error=ToolError("internal", "hilt failed to run the agent."))
        self._emit(self._end)
        return self._end

    def _work(self) -> None:
        from hilt.agents.child_conversation import AgentRun

        outcome = self._host.run(AgentRun(self._agent), self._caller)
        if self._end is None:  # it failed before the conversation began
            error = ToolError(outcome.error_code or "internal", outcome.answer)
            self._end = RunEnded(FAILED, self._agent.id, error=error)

    def _show(self, event: Event) -> None:
        if isinstance(event, RunEnded):
            self._end = event
        else:
            self._emit(event)
