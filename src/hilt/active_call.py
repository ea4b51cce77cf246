"""A running call: its state so far, its deadline, delivery of its result, and cancellation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.pipeline import Prepared
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
    unanswered: ToolError | None = None
    asked: Callable[[], None] | None = None  # called when it waits for its client; `resume` then continues it
    event_id = ""  # of its events
    is_unrestricted = False  # whether no rules, hooks or modes restrict its session
    ran = False  # whether any part of it may have run
    workspace: Workspace | None = None
    turn: Ticket | None = None
    deadline = float("inf")
    _settled = False
    _resume: Callable[[], None] | None = None  # set while it waits for its client
    _waits_since = 0.0

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
    def has_questions(self) -> bool:
        """Whether the step that just ended has questions for the client."""
        return self.attendant is not None and self.attendant.has_questions

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
        self.give_up(ToolError("cancelled", f"The call of {self.call.tool} was cancelled."))

    def time_out_if_late(self) -> None:
        """Time out the call if its deadline has passed; a call that is already committing delivers its own result."""
        if self.deadline > time.perf_counter():
            return
        seconds = self.prepared.tool.timeout if self.prepared else 0
        self.give_up(ToolError("timeout", f"{self.call.tool} took longer than {seconds:g} s."))

    def give_up(self, reason: ToolError) -> None:
        """End the call with this error, unless it is already committing."""
        if self.fence.cancel(reason):
            self.settle(Result(error=reason, id=self.call.id, request_id=self.call.request_id))
            self.resume()

    def wait(self, resume: Callable[[], None]) -> None:
        """Wait for the client, without a thread (ADR 0021); `resume` continues the call."""
        with self._lock:
            self.deadline = float("inf")
            self._resume, self._waits_since = resume, time.perf_counter()
        if self._settled:
            self.resume()
        elif self.asked is not None:
            self.asked()

    def resume(self) -> None:
        """Continue the call if it waits: its client has answered, or it has ended."""
        with self._lock:
            resume, self._resume = self._resume, None
        if resume is not None:
            self.started += time.perf_counter() - self._waits_since  # the client's time does not count
            resume()

    def settle(self, result: Result) -> None:
        """Record and deliver the result; later results are ignored."""
        with self._lock:
            first, self._settled = not self._settled, True
        if first:
            self._done(self._record(self, result))
