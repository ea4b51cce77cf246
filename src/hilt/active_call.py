"""A running call: its state so far, its deadline, delivery of its result, and cancellation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.pipeline import Prepared, failure
from hilt.policy.decision import Vote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.context import Attendant
    from hilt.files.workspace import Workspace
    from hilt.running.lanes import Ticket

WATCH_SECONDS = 0.25

_INVALID = Vote("deny", "check", "the call is invalid")


class ActiveCall:
    """One call, from its submission until its result is delivered."""

    prepared: Prepared | None = None
    decision = _INVALID
    votes: tuple[Vote, ...] = ()  # that led to the decision
    approver = ""
    event_id = ""  # of its events; shared by all runs of a call that asks its client questions
    is_unrestricted = False  # whether no rules, hooks or modes restrict its session
    ran = False  # whether any part of it may have run
    workspace: Workspace | None = None
    turn: Ticket | None = None
    deadline = float("inf")
    _settled = False

    def __init__(
        self,
        call: Call,
        session: str,
        done: Callable[[Result], None],
        record: Callable[[ActiveCall, Result], Result],
        attendant: Attendant | None = None,
    ) -> None:
        """`done` receives the result after `record` has recorded it."""
        self.call = call
        self.session = session
        self.attendant = attendant
        self.fence = Fence()
        self.contacts: list[str] = []  # addresses that it connected to
        self.started = time.perf_counter()
        self._done = done
        self._record = record
        self._lock = threading.Lock()

    @property
    def settled(self) -> bool:
        """Whether the result is delivered or being delivered."""
        return self._settled

    def patience(self) -> float:
        """Return how long to wait before checking the deadline again; it is only set once the call runs."""
        if self.deadline == float("inf"):
            return WATCH_SECONDS
        return min(max(self.deadline - time.perf_counter(), WATCH_SECONDS), 3600)

    def cancel(self) -> None:
        """Cancel the call, unless it is already committing."""
        self._give_up(ToolError("cancelled", f"The call of {self.call.tool} was cancelled."))

    def time_out_if_late(self) -> None:
        """Time out the call if its deadline has passed; a call that is already committing delivers its own result."""
        if self.deadline > time.perf_counter():
            return
        seconds = self.prepared.tool.timeout if self.prepared else 0
        self._give_up(ToolError("timeout", f"{self.call.tool} took longer than {seconds:g} s."))

    def _give_up(self, reason: ToolError) -> None:
        if self.fence.cancel(reason):
            self.settle(Result(error=reason, id=self.call.id, request_id=self.call.request_id))

    def abandon(self, error: ToolError) -> None:
        """Record the end of a call whose client did not answer a question."""
        self._record(self, failure(self.call, error))

    def settle(self, result: Result) -> None:
        """Record and deliver the result; later results are ignored."""
        with self._lock:
            first, self._settled = not self._settled, True
        # a run that stopped to ask its client is not recorded: each call has one record
        if first and (result.error is None or self.attendant is None or not self.attendant.has_questions):
            result = self._record(self, result)
        if first:
            self._done(result)
