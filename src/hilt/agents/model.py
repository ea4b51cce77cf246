"""One model: what the loop asks of it, and the faults it may have.

`Model` is implemented by `providers` (any model that pydantic-ai knows) and `programs` (a program of the user's).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from pydantic_ai.messages import ModelMessage, ModelResponse

from hilt.schema import Schema

CONTEXT_TOKENS = 128_000  # when neither the settings nor the model say


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
    """What to call with the pieces of an answer as they arrive."""

    text: Callable[[str], None] = lambda piece: None
    thought: Callable[[str], None] = lambda piece: None


class LanguageModel(Protocol):
    """A model that answers requests, one at a time."""

    @property
    def name(self) -> str:
        """The name, as the settings have it."""

    @property
    def context_tokens(self) -> int:
        """How many tokens fit into its context."""

    async def answer(self, request: ModelInput, listener: Listener) -> ModelResponse:
        """Return the whole answer, or raise ModelFault; a partial answer is a fault."""

    async def close(self) -> None:
        """Close connections."""


class ModelFault(Exception):
    """A request failed: why, whether to try again, and after how many seconds if the provider says."""

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
