"""The interface of a model, and its faults.

`LanguageModel` is implemented by `providers` (any model that pydantic-ai supports) and `program_model` (the user's own
program).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from pydantic_ai.messages import ModelMessage, ModelResponse

from hilt.schema import Schema

CONTEXT_TOKENS = 128_000  # the default, if neither the settings nor the model have a size


class OfferedTool(NamedTuple):
    """A tool as the model sees it."""

    name: str
    description: str
    schema: Schema


class ModelInput(NamedTuple):
    """One request: the system prompt, the messages so far, and the tools."""

    system: str
    messages: Sequence[ModelMessage]
    tools: Sequence[OfferedTool] = ()


class Listener(NamedTuple):
    """Callbacks for the pieces of an answer as they arrive."""

    text: Callable[[str], None] = lambda piece: None
    thought: Callable[[str], None] = lambda piece: None


class LanguageModel(Protocol):
    """A model that answers requests, one at a time."""

    @property
    def name(self) -> str:
        """The name, as in the settings."""

    @property
    def context_tokens(self) -> int:
        """How many tokens fit into its context."""

    async def answer(self, request: ModelInput, listener: Listener) -> ModelResponse:
        """Return the whole answer, or raise ModelFault; a partial answer is a fault."""

    async def close(self) -> None:
        """Close connections."""


class ModelFault(Exception):
    """A request failed: why, whether to retry, and after how many seconds if the provider asks for a pause."""

    def __init__(
        self,
        message: str,
        *,
        retry: bool = True,
        after: float | None = None,
        too_long: bool = False,
        suggestion: str | None = None,
    ) -> None:
        """`too_long` means that the messages do not fit into the context."""
        super().__init__(message)
        self.message = message
        self.retry = retry
        self.after = after
        self.too_long = too_long
        self.suggestion = suggestion
