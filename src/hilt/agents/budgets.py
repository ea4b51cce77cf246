"""The limits of a run: model requests, tokens and seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.state.agent_calls import Allowance, Remainder

MAX_TURNS = 50


class RunLimits(NamedTuple):
    """The limits of a run; None is no limit. Tokens count input and output; `above` are those of the run above."""

    turns: int | None = MAX_TURNS
    tokens: int | None = None
    seconds: float | None = None
    above: Allowance | None = None


class Budget:
    """What a run has used of its limits. The tokens of an agent count against the limits of its parent, too."""

    def __init__(self, limits: RunLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._above = limits.above
        self._clock = clock
        self._began = clock()
        self.turns = 0
        self.tokens = 0

    def take_turn(self) -> None:
        """Count one more request to the model, or raise if a limit is reached."""
        limits = self._limits
        self.check()
        if limits.turns is not None and self.turns >= limits.turns:
            raise _exceeded(f"The run has used its {limits.turns} turns.", "--max-turns")
        self.turns += 1

    def check(self) -> None:
        """Raise if tokens or seconds have run out, in this run or one above it."""
        limits = self._limits
        if limits.tokens is not None and self.tokens >= limits.tokens:
            raise _exceeded(f"The run has used {self.tokens:,} of {limits.tokens:,} tokens.", "--max-tokens")
        self.seconds_left()
        if self._above is not None:
            self._above.check()

    def spend(self, tokens: int) -> None:
        """Count tokens, in this run and those above it."""
        self.tokens += tokens
        if self._above is not None:
            self._above.spend(tokens)

    def left(self) -> Remainder:
        """Return the remaining budget for an agent of this run; it may take as many turns as the run itself."""
        tokens = None if self._limits.tokens is None else max(0, self._limits.tokens - self.tokens)
        own = Remainder(self._limits.turns, tokens, self.seconds_left())
        return own if self._above is None else own.within(self._above.left())

    def seconds_left(self) -> float | None:
        """Return the remaining seconds, None without a limit; raise if none remain."""
        if self._limits.seconds is None:
            return None
        remaining = self._limits.seconds - (self._clock() - self._began)
        if remaining <= 0:
            raise self.out_of_time()
        return remaining

    def out_of_time(self) -> ToolError:
        """Return the error of a run that took too long."""
        return _exceeded(f"The run took longer than {self._limits.seconds:g} s.", "--max-seconds")


def _exceeded(message: str, option: str) -> ToolError:
    from hilt.places import command

    advice = f"Raise {option}, then continue the session with {command('run', '--continue')}."
    return ToolError("budget_exceeded", message, suggestion=advice, limit=option.removeprefix("--"))
