"""Requests to a model: retried after a fault with growing pauses, the pieces of the answer emitted as they come.

The tokens of each request count against the budget of the run, and its cost is added up.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from hilt.agents.budgets import Budget, RunLimits
from hilt.agents.interruption import Interruption, offload
from hilt.agents.model import LanguageModel, Listener, ModelFault, ModelInput
from hilt.output.run_events import Event, Notice, TextPiece, ThoughtPiece, TokensUsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.prices import CostMeter

ATTEMPTS = 6
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
LONGEST_RETRY_AFTER = 60.0  # the longest pause that a provider may ask for


class Clock(NamedTuple):
    """Time as the loop sees it; tests pass their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


class MeteredModel:
    """The model of a conversation, with what its requests use."""

    def __init__(self, model: LanguageModel, meter: CostMeter | None, clock: Clock, interruption: Interruption) -> None:
        """`meter` counts the cost."""
        self._model = model
        self._meter = meter
        self._clock = clock
        self._interruption = interruption
        self.budget = Budget(RunLimits(), clock.now)

    @property
    def name(self) -> str:
        """The name, as in the settings."""
        return self._model.name

    @property
    def context_tokens(self) -> int:
        """How many tokens fit into its context."""
        return self._model.context_tokens

    def begin(self, limits: RunLimits) -> Budget:
        """Begin a run within these limits."""
        self.budget = Budget(limits, self._clock.now)
        return self.budget

    async def check(self) -> None:
        """Count one more request, or raise if a limit is reached."""
        self.budget.take_turn()
        if self._meter is not None:
            await offload(self._meter.check)

    async def ask(self, request: ModelInput, emit: Callable[[Event], None]) -> ModelResponse:
        """Return the model's answer; raise ModelFault, or why the turn ends."""
        return await self._interruption.wait_for(ask(self._model, request, emit, self._clock))

    async def count(self, usage: RequestUsage, context_used: int, emit: Callable[[Event], None]) -> float | None:
        """Count the tokens of a request; return its cost in dollars, None if it is unknown."""
        self.budget.spend(usage.input_tokens + usage.output_tokens)
        meter = self._meter
        cost = None if meter is None else await offload(lambda: meter.add(usage))
        emit(TokensUsed(usage.input_tokens, usage.output_tokens, cost, context_used, self.context_tokens))
        return cost

    async def change(self, model: LanguageModel, meter: CostMeter | None) -> None:
        """Switch to another model, and close the previous one."""
        previous, previous_meter = self._model, self._meter
        self._model, self._meter = model, meter
        await previous.close()
        if previous_meter is not None:
            previous_meter.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._model.close()
        if self._meter is not None:
            self._meter.close()


async def ask(model: LanguageModel, request: ModelInput, emit: Callable[[Event], None], clock: Clock) -> ModelResponse:
    """Return the model's answer; raise the last ModelFault if it fails too often, or cannot succeed."""
    message = MessageText(emit)
    attempt = 1
    while True:
        message.begin()
        try:
            response = await model.answer(request, Listener(message.add, lambda piece: emit(ThoughtPiece(piece))))
        except ModelFault as fault:
            if not fault.retry or attempt == ATTEMPTS:
                raise
            pause = pause_before(attempt, fault.after, clock.jitter())
            emit(Notice(f"{fault.message} Attempt {attempt + 1} of {ATTEMPTS} in {pause:.1f} s.", "retry"))
            await clock.sleep(pause)
            attempt += 1
            continue
        message.end()
        return response


def pause_before(attempt: int, retry_after: float | None, jitter: float) -> float:
    """Return the seconds to wait after this many attempts: doubling, or as the provider asks; `jitter` is 0 to 1."""
    if retry_after is not None:
        return min(retry_after * (1 + jitter / 10), LONGEST_RETRY_AFTER)
    longest: float = min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE)
    return longest * (0.5 + jitter / 2)


class MessageText:
    """Emits the pieces of one message. A retry emits only what differs from the pieces of earlier attempts."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._pieces: list[str] = []
        self._emitted = ""  # the text emitted in earlier attempts
        self._repeated: int | None = None  # how much of it this attempt has repeated; None: all, or it differs

    def begin(self) -> None:
        """Begin an attempt."""
        self._emitted = "".join(self._pieces)
        self._repeated = 0 if self._emitted else None

    def add(self, piece: str) -> None:
        """Emit a piece, unless an earlier attempt has."""
        repeated = self._repeated
        if repeated is None:
            self._pieces.append(piece)
            self._emit(TextPiece(piece))
            return
        old = self._emitted[repeated : repeated + len(piece)]
        if not piece.startswith(old):
            self._start_over(self._emitted[:repeated] + piece)
            return
        if len(old) == len(piece):
            self._repeated = repeated + len(piece)
            return
        self._repeated = None
        self._pieces.append(piece[len(old) :])
        self._emit(TextPiece(piece[len(old) :]))

    def end(self) -> None:
        """End the message with the text of this attempt."""
        if self._repeated is not None and self._repeated < len(self._emitted):
            self._start_over(self._emitted[: self._repeated])

    def _start_over(self, text: str) -> None:
        self._repeated, self._pieces = None, [text]
        self._emit(TextPiece(text, restart=True))
