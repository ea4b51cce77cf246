"""Starts and continues conversations: the model from the settings, and a new or earlier transcript.

Importing this module is cheap, and works without the extra `agents`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hilt.agents.marks import Marks
from hilt.agents.transcripts import TITLE_CHARACTERS, Transcript, Transcripts
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.installer import needs
from hilt.output.redaction import Redactor
from hilt.places import command, config_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.budgets import RunLimits
    from hilt.agents.conversation import Conversation
    from hilt.agents.model import LanguageModel
    from hilt.agents.model_requests import Clock
    from hilt.agents.prices import CostMeter
    from hilt.agents.steps import Steps
    from hilt.context import Attendant
    from hilt.output.run_events import Event
    from hilt.runtime import Runtime

COMMAND = "HILT_AGENT_COMMAND"
# the variable that a provider's own library reads; others are reported by the library itself
KEY_VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
}

# the models are those of the extra `agents`, which needs no further package for them
_SETUP = """\
Choose a model and set its key, for example one of these:
  export HILT_MODEL=anthropic:claude-sonnet-5-5 ANTHROPIC_API_KEY=...
  export HILT_MODEL=openai:gpt-5 OPENAI_API_KEY=...
  export HILT_MODEL=openrouter:anthropic/claude-sonnet-5 OPENROUTER_API_KEY=...
  export HILT_MODEL=openai:NAME HILT_MODEL_BASE_URL=http://localhost:11434/v1   # a local server, such as Ollama
To keep it, write [model] with name = "..." to config.toml, and the key to .env, both in {config}.
To check it: {doctor}"""


class ModelChoice(NamedTuple):
    """Which model to use: its name, its base URL, the variable with its key, and the key."""

    name: str
    base_url: str | None
    key_variable: str | None
    key: str | None


def transcripts_of(runtime: Runtime) -> Transcripts:
    """Return the transcripts of a runtime's workspace."""
    return Transcripts(runtime.parts.state, runtime.parts.id, redactor_of(runtime))


def redactor_of(runtime: Runtime) -> Redactor:
    """Return the redactor that removes the user's secrets from text."""
    from hilt.custom.launching import own_variables

    key_variable = runtime.settings["model.api_key_env"]
    return Redactor(
        {**own_variables(runtime.parts.environ), **runtime.parts.environ}, [key_variable] if key_variable else []
    )


def choose_model(runtime: Runtime, name: str | None = None, base_url: str | None = None) -> ModelChoice:
    """Return the model from the settings with its key, or another one; raise no_model if there is none.

    Another model of the same provider uses the base URL from the settings.
    """
    from hilt.custom.launching import own_variable

    settings = runtime.settings
    own = settings["model.name"]
    if name is None:
        name, base_url = own, settings["model.base_url"]
    elif base_url is None and own and own.partition(":")[0] == name.partition(":")[0]:
        base_url = settings["model.base_url"]
    if not name:
        raise _no_model("No model is set.", runtime)
    variable = settings["model.api_key_env"] or KEY_VARIABLES.get(name.partition(":")[0])
    key = own_variable(runtime.parts.environ, variable) if variable else None
    if variable and not key and (base_url is None or settings["model.api_key_env"]):
        raise _no_model(f"The model {name} needs a key, and {variable} is not set.", runtime)
    return ModelChoice(name, base_url, variable, key)


def _no_model(message: str, runtime: Runtime) -> ToolError:
    advice = _SETUP.format(config=config_dir(runtime.parts.environ), doctor=command("doctor"))
    return ToolError("no_model", message, suggestion=advice)


def open_model(runtime: Runtime, program: str | None = None, choice: ModelChoice | None = None) -> LanguageModel:
    """Return the model from the settings, or another one; `program` or HILT_AGENT_COMMAND names a program instead."""
    program = None if choice else program or runtime.parts.environ.get(COMMAND)
    choice = None if program else choice or choose_model(runtime)
    context = runtime.settings["model.context_tokens"]
    with needs("agents", "Running an agent"):
        if choice is None:
            from hilt.agents.program_model import ProgramModel

            assert program is not None  # noqa: S101
            return ProgramModel(
                program, cwd=runtime.parts.root, surroundings=runtime.parts.surroundings, context_tokens=context
            )
        from hilt.agents.pacing import PacedModel, ProviderLimits, ProviderPace
        from hilt.agents.providers import ProviderModel

        model = ProviderModel(choice.name, base_url=choice.base_url, key=choice.key, context_tokens=context)
        provider = choice.name.partition(":")[0]
        limits = ProviderLimits.of(runtime.settings["agents.limits"], provider)
        if limits is None:
            return model
        return PacedModel(model, ProviderPace(runtime.parts.roster.database, provider, limits))


def open_meter(runtime: Runtime, program: str | None = None, choice: ModelChoice | None = None) -> CostMeter | None:
    """Return the cost meter of a model; None for a program, which has no price."""
    if choice is None and (program or runtime.parts.environ.get(COMMAND)):
        return None
    from hilt.agents.prices import CostMeter

    choice = choice or choose_model(runtime)
    parts = runtime.parts
    origin = parts.authority.origin(runtime.session)
    return CostMeter(choice.name, choice.base_url, runtime.settings, parts.state, workspace=parts.id, origin=origin)


def marks_of(runtime: Runtime) -> Marks:
    """Return the marks of a new conversation: the same for all of a workspace, so that a prompt can be shown."""
    from hilt.agents.durable.stores import machine_name

    return Marks(f"data-{sha256(f'{machine_name(runtime.parts.state)} {runtime.parts.id}'.encode()).hex()[:8]}")


def open_transcript(
    runtime: Runtime, model: str, title: str, *, is_new: bool, agent: str = ""
) -> tuple[Transcript, Marks]:
    """Return the transcript of the runtime's session, new or continued, with the marks of its conversation."""
    transcripts = transcripts_of(runtime)
    if is_new:
        marks = marks_of(runtime)
        transcripts.prune(days=runtime.settings["agents.keep_days"], megabytes=runtime.settings["agents.keep_mb"])
        line = " ".join(title.split())[:TITLE_CHARACTERS]
        facts = {"workspace": runtime.parts.root, "model": model, "title": line, "word": marks.word, "agent": agent}
        return transcripts.create(runtime.session, **facts), marks
    word = transcripts.find(runtime.session).head.get("word")
    return transcripts.open(runtime.session), Marks(word if isinstance(word, str) else None)


def open_conversation(
    runtime: Runtime,
    emit: Callable[[Event], None],
    *,
    title: str = "",
    is_new: bool = True,
    program: str | None = None,
    choice: ModelChoice | None = None,
    limits: RunLimits | None = None,
    asks_person: bool = False,
    clock: Clock | None = None,
    agent: str = "",
    role: str = "",
    steps: Steps | None = None,
    person: Attendant | None = None,
) -> Conversation:
    """Return a conversation in the runtime's session; raise no_model without a model, busy if the session is in use.

    `agent` is the name of the definition whose text is the `role`, for the record.
    """
    model = open_model(runtime, program, choice)
    from hilt.agents.budgets import RunLimits
    from hilt.agents.conversation import Conversation
    from hilt.agents.model_requests import Clock
    from hilt.agents.steps import TranscriptOnly

    transcript, marks = open_transcript(runtime, model.name, title, is_new=is_new, agent=agent)
    return Conversation(
        runtime,
        model,
        transcript,
        emit,
        marks=marks,
        limits=limits or RunLimits(),
        asks_person=asks_person,
        meter=open_meter(runtime, program, choice),
        clock=clock or Clock(),
        role=role,
        steps=steps or TranscriptOnly(),
        person=person,
    )
