"""The user's own program as a model: it reads the prompt on standard input and prints the answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

from hilt.agents.model import CONTEXT_TOKENS, Listener, ModelFault, ModelInput
from hilt.surroundings import Surroundings

_ANSWER_BYTES = 16 << 20
_REASON_CHARACTERS = 500


class ProgramModel:
    """A model without tools: one run of the program for each answer, with the user's rights."""

    def __init__(self, command: str, *, cwd: str, surroundings: Surroundings, context_tokens: int | None) -> None:
        """`command` is for bash -c."""
        self.name = f"program:{command}"
        self.context_tokens = context_tokens or CONTEXT_TOKENS
        self._command = command
        self._cwd = cwd
        self._surroundings = surroundings

    async def close(self) -> None:
        """Do nothing: each run of the program has ended."""

    async def answer(self, request: ModelInput, listener: Listener) -> ModelResponse:
        """Return what the program prints; its input is the first prompt alone, later the whole conversation."""
        cancelled = threading.Event()
        work = asyncio.get_running_loop().run_in_executor(None, self._run, prompt_of(request.messages), cancelled)
        try:
            text = await asyncio.shield(work)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([work])  # until the program has ended
            raise
        listener.text(text)
        return ModelResponse(parts=[TextPart(text)], model_name=self.name, finish_reason="stop")

    def _run(self, prompt: str, cancelled: threading.Event) -> str:
        from hilt.sandbox import capturing, spawning

        finished = capturing.run(
            [self._surroundings.program("bash"), "-c", self._command],
            cwd=self._cwd,
            env=self._surroundings.environment(),
            stdin=prompt.encode("utf-8", "replace"),
            limits=spawning.Limits(timeout=None, keep_bytes=_ANSWER_BYTES, max_bytes=2 * _ANSWER_BYTES),
            cancelled=cancelled,
        )
        if finished.reason != "exit" or finished.exit_code != 0:
            reason = finished.stderr.head.decode("utf-8", "replace").strip()[-_REASON_CHARACTERS:]
            what = f"exit status {finished.exit_code}" if finished.reason == "exit" else f"ended by a {finished.reason}"
            raise ModelFault(f"The agent command failed, {what}" + (f": {reason}" if reason else "."), retry=False)
        return finished.stdout.head.decode("utf-8", "replace").removesuffix("\n")


def prompt_of(messages: Sequence[ModelMessage]) -> str:
    """Return the prompt; with more than one message, the conversation with the names of the speakers."""
    texts = list(_speakers_and_texts(messages))
    if len(texts) == 1:
        return texts[0][1]
    return "\n\n".join(f"{speaker}: {text}" for speaker, text in texts)


def _speakers_and_texts(messages: Sequence[ModelMessage]) -> Iterator[tuple[str, str]]:
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    items = [part.content] if isinstance(part.content, str) else part.content
                    yield "User", "\n".join(item for item in items if isinstance(item, str))
        elif message.text:
            yield "Assistant", message.text
