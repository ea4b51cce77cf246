"""Detects an agent that repeats itself: the same calls with the same results, alone or in short cycles."""

from __future__ import annotations

import json
from typing import NamedTuple

from hilt.call import Json, Result
from hilt.formats.digests import sha256

HINT_AT = 3
END_AT = 5
LONGEST_CYCLE = 4
POLLS_AS_ONE = 3


class Repetition(NamedTuple):
    """How often the same one to four calls have followed each other."""

    times: int
    calls: int

    @property
    def hint(self) -> str:
        """The hint for the model."""
        what = "This call has" if self.calls == 1 else f"These {self.calls} calls have"
        return (
            f"[{what} given the same result {self.times} times in a row. Do something else; "
            f"after {END_AT} times the run ends.]"
        )


class LoopGuard:
    """Counts repeated calls of one run, in the order in which the model made them."""

    def __init__(self) -> None:
        self._seen: list[bytes] = []
        self._polls: dict[bytes, int] = {}
        self._early: dict[int, tuple[bytes, bool]] = {}  # results that came before those of earlier calls
        self._next = 0

    def begin_turn(self) -> None:
        """Expect the results of the next turn; its calls are counted from 0."""
        self._early.clear()
        self._next = 0

    def add(self, index: int, tool: str, args: Json, result: Result, *, polls: bool = False) -> Repetition | None:
        """Add the result of a call of this turn; return the repetition that it completes if it is worth a hint."""
        outcome = result.result if result.error is None else f"{result.error.code} {result.error.message}"
        call = json.dumps([tool, args, outcome], sort_keys=True, default=repr).encode("utf-8", "surrogatepass")
        self._early[index] = sha256(call), polls
        longest: Repetition | None = None
        while self._next in self._early:
            repetition = self._push(*self._early.pop(self._next))
            self._next += 1
            longest = max(filter(None, (longest, repetition)), default=None)
        return longest

    def _push(self, call: bytes, polls: bool) -> Repetition | None:
        if polls:
            self._polls[call] = self._polls.get(call, 0) + 1
            if self._polls[call] % POLLS_AS_ONE != 0:
                return None
        self._seen.append(call)
        del self._seen[: -END_AT * LONGEST_CYCLE]
        longest = max(Repetition(self._times(length), length) for length in range(1, LONGEST_CYCLE + 1))
        return longest if longest.times >= HINT_AT else None

    def _times(self, length: int) -> int:
        """Return how often the last `length` calls follow each other at the end."""
        cycle, times = self._seen[-length:], 1
        while len(self._seen) >= (times + 1) * length:
            start = len(self._seen) - (times + 1) * length
            if self._seen[start : start + length] != cycle:
                break
            times += 1
        return times
