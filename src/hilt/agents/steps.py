"""Steps: the parts of a conversation whose outcome is kept before the next part begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from hilt.agents.transcripts import Record
from hilt.call import Result
from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.agents.calls import MadeCall

# runs calls, and passes on the record of each result
RunCalls = Callable[[Callable[["MadeCall", Record], None]], Awaitable[None]]

# returns the result of a call whose process was killed; None to run it again
Settle = Callable[["MadeCall"], Result | None]


class Steps(Protocol):
    """Who keeps the steps of a conversation until they are in its transcript."""

    settle: Settle

    async def run(self, name: str, work: Callable[[], Awaitable[Record]]) -> Record:
        """Do the work of a step and return its record once it is kept; raise if another process has taken over."""

    async def run_calls(self, calls: Sequence[MadeCall], run: RunCalls, on_kept: Callable[[Record], None]) -> None:
        """Run the calls of a turn, each as a step; `on_kept` receives each record once it is kept."""


class TranscriptOnly:
    """Keeps no steps: the transcript alone is enough to continue on one machine."""

    def __init__(self, settle: Settle | None = None) -> None:
        """`settle` is as in Steps; by default, the outcome of every call is unknown."""
        self.settle = settle or unknown_outcome

    async def run(self, name: str, work: Callable[[], Awaitable[Record]]) -> Record:
        """Do the work of a step."""
        return await work()

    async def run_calls(self, calls: Sequence[MadeCall], run: RunCalls, on_kept: Callable[[Record], None]) -> None:
        """Run the calls of a turn."""
        await run(lambda call, record: on_kept(record))


def unknown_outcome(call: MadeCall, machine: str = "") -> Result:
    """Return the result of a call that may have run before its process was killed."""
    where = f" on {machine}" if machine else ""
    return Result(
        error=ToolError(
            "outcome_unknown",
            f"hilt was stopped{where} before the result of this call of {call.tool} was recorded; it may have run.",
        )
    )
