"""The agent loop: startup, overhead per tool call, and opening a long transcript."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from benchmarks.clock import best, milliseconds
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place, small_name
from benchmarks.program import HILT, Program
from hilt.agents.budgets import RunLimits
from hilt.agents.conversation import Conversation
from hilt.agents.marks import Marks
from hilt.agents.messages import messages_of
from hilt.agents.model import Listener, ModelInput
from hilt.agents.transcripts import Transcripts, current
from hilt.output.redaction import Redactor
from hilt.runtime import Runtime

STARTS = 5
TURNS = 100
MESSAGES = 10_000
_MODELS = {
    "openai": "pydantic_ai.models.openai import OpenAIChatModel",
    "anthropic": "pydantic_ai.models.anthropic import AnthropicModel",
}


def figures() -> Iterator[Figure]:
    """Measure with a model that answers at once."""
    for kind, imported in _MODELS.items():
        with fresh_place() as place:
            # without interpreter shutdown, which the other program does not reach
            importing = Program([sys.executable, "-c", f"import os\nfrom {imported}\nos._exit(0)"], place)
            base, started = best(STARTS, importing, first_request(place, kind))
        name = f"import of the {kind} model class"
        yield Figure(f"hilt run to its first request, {kind}", started, "ms", name, base, max_ratio=1.2)
    with fresh_place(files=TURNS) as place, Runtime(place.workspace, environ=place.environ, session="plain") as runtime:
        plain = min(milliseconds(lambda: _calls(runtime)) for _ in range(5)) / TURNS
        looped = min(milliseconds(partial(_talk, place, number)) for number in range(5)) / TURNS
    yield Figure("a tool call in the loop", looped, "ms", "runtime.call", plain, maximum=plain + 3)
    with fresh_place() as place:
        transcripts = _long_transcript(place)
        size = os.path.getsize(transcripts.path("long")) / 1e6
        opened, read = best(5, lambda: _open(transcripts), lambda: _bytes(transcripts))
    yield Figure(
        f"a transcript of {MESSAGES:,} messages opens", opened, "ms", f"reading {size:.1f} MB", read, maximum=300
    )


def first_request(place: Place, kind: str) -> Callable[[], None]:
    """Return a function that starts `hilt run`, waits for its first request, and ends it."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(60)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}" + ("/v1" if kind == "openai" else "")
    environ = {**place.environ, "HILT_MODEL": f"{kind}:m", "HILT_MODEL_BASE_URL": url, "HILT_RESIDENT": "off"}

    def run() -> None:
        with subprocess.Popen(
            [HILT, "run", "hello"],
            env=environ,
            cwd=place.workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1)
                process.kill()

    return run


class ScriptedModel:
    """A model that reads one small file after the other, without a network."""

    name = "scripted:reads"
    context_tokens = 100_000_000

    def __init__(self, turns: int = TURNS) -> None:
        self._turn = 0
        self._turns = turns

    async def answer(self, request: ModelInput, listener: Listener) -> ModelResponse:
        """Return the next call."""
        self._turn += 1
        if self._turn > self._turns:
            return ModelResponse(parts=[TextPart("done")])
        path = small_name(self._turn - 1)
        return ModelResponse(parts=[ToolCallPart("read_file", {"path": path}, f"call_{self._turn}")])

    async def close(self) -> None:
        """Do nothing."""


def _calls(runtime: Runtime) -> None:
    for number in range(TURNS):
        runtime.call("read_file", path=small_name(number))


def _talk(place: Place, number: int) -> None:
    async def main() -> None:
        with Runtime(place.workspace, environ=place.environ, session=f"loop{number}") as runtime:
            transcripts = Transcripts(runtime.parts.state, runtime.parts.id, Redactor({}))
            transcript = transcripts.create(runtime.session)
            conversation = Conversation(
                runtime, ScriptedModel(), transcript, lambda event: None, marks=Marks(), limits=RunLimits(turns=None)
            )
            ended = await conversation.send("Read them all.")
            if ended.status:
                raise RuntimeError(f"the run ended with {ended}")
            await conversation.close()

    asyncio.run(main())


def _long_transcript(place: Place) -> Transcripts:
    transcripts = Transcripts(place.environ["HILT_STATE_DIR"], "workspace", Redactor({}))
    transcript = transcripts.create("long")
    for number in range(MESSAGES // 2):
        call = {"call": "read_file", "id": f"call_{number}", "args": '{"path": "src/module.py"}'}
        transcript.append("answer", parts=[{"text": "Let me look at the next file."}, call], usage={})
        transcript.append("result", id=f"call_{number}", tool="read_file", outcome="success", content="a line\n" * 20)
    transcript.close()
    return transcripts


def _open(transcripts: Transcripts) -> None:
    transcript = transcripts.open("long")
    messages = messages_of(current(transcript.records()))
    transcript.close()
    if len(messages) != MESSAGES:
        raise RuntimeError(f"{len(messages)} messages instead of {MESSAGES}")


def _bytes(transcripts: Transcripts) -> None:
    with open(transcripts.path("long"), "rb") as file:
        file.read()
