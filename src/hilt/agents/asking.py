"""One request to a model: retried after a fault with growing pauses, the pieces of the answer emitted as they come."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pydantic_ai.messages import ModelResponse

from hilt.agents.model import LanguageModel, Listener, ModelFault, ModelInput
from hilt.output.run_events import Event, Notice, TextPiece, ThoughtPiece

ATTEMPTS = 6
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
LONGEST_RETRY_AFTER = 60.0  # the longest pause that a provider may ask for


class Clock(NamedTuple):
    """Time as the loop sees it; tests pass their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


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
