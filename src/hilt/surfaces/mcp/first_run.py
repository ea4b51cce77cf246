"""A call whose first run ended with questions in the front loop; the SDK side asks them, and runs it again."""

from __future__ import annotations

from hilt.active_call import ActiveCall
from hilt.call import Result
from hilt.errors import ToolError
from hilt.pipeline import Prepared
from hilt.surfaces.mcp.attendant import Attending, ClientAnswers


class FirstRun:
    """The first run of a call."""

    is_forwarded = False

    def __init__(self, running: ActiveCall, result: Result, attending: Attending, replies: ClientAnswers) -> None:
        self._running = running
        self._result = result
        self.attending = attending
        self.replies = replies

    @property
    def prepared(self) -> Prepared | None:
        """The prepared call."""
        return self._running.prepared

    def abandon(self, error: ToolError) -> None:
        """Record a call that ends between a question and its answer."""
        self._running.abandon(error)

    async def result(self, seconds: float | None = None) -> Result:
        """Return the result of the run."""
        return self._result
