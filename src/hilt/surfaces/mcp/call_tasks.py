"""Calls that continue after their request, as tasks of the MCP extension; the client polls for the result.

A task runs on the threads of the runtime, so it outlives the connection of its client. If a run of its call
ends with questions, the task waits for `tasks/update`, and the call runs again with the answers.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from hilt.active_call import ActiveCall
from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.mcp.attendant import Attending, ClientAnswers
from hilt.surfaces.mcp.open_forms import OpenForms

AFTER_SECONDS = 0.5  # a call that takes longer becomes a task, if its client supports that
TTL_MS = 24 * 60 * 60 * 1000
POLL_MS = 1000
TASKS_MAX = 1000  # beyond this, calls are answered when they end
MESSAGE_CHARACTERS = 500

WORKING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED = "working", "input_required", "completed", "failed", "cancelled"
ENDED = (COMPLETED, FAILED, CANCELLED)


class Failure(NamedTuple):
    """A protocol error, which the client gets instead of a result."""

    code: int
    message: str
    data: Any = None


Outcome = dict[str, Any] | Failure
Answer = Callable[[Result, ActiveCall | None, Attending], Outcome]


class CallTask:
    """One call as a task. Used from many threads."""

    def __init__(
        self,
        runtime: Runtime,
        call: Call,
        running: ActiveCall | None,
        attending: Attending,
        *,
        replies: ClientAnswers,
        renew: Callable[[CallTask], Attending],
        answer: Answer,
        ended: Callable[[], None],
    ) -> None:
        """Continue a call that is running.

        `renew` returns the attendant of another run, `answer` converts a result, and `ended` is called at the end.
        """
        self.id = os.urandom(18).hex()
        self.owner: tuple[str, str | None] = "", None
        self._runtime = runtime
        self._call = call
        self._running = running
        self._attending = attending
        self._replies = replies
        self._forms = OpenForms(runtime, call.session or runtime.session, replies)
        self._renew = renew
        self._answer = answer
        self._on_end = ended
        self._lock = threading.RLock()
        self._status = WORKING
        self._message = ""
        self._outcome: Outcome | None = None
        self._responses: dict[str, dict[str, Any]] = {}
        self._is_cancelled = False
        self._created = self._updated = time.time()

    @property
    def is_expired(self) -> bool:
        """Whether the task has ended and its time to live is over."""
        return self._status in ENDED and time.time() - self._created > TTL_MS / 1000

    def summary(self) -> dict[str, Any]:
        """Return the task for the response to its call."""
        with self._lock:
            summary = {
                "taskId": self.id,
                "status": self._status,
                "createdAt": _timestamp(self._created),
                "lastUpdatedAt": _timestamp(self._updated),
                "ttlMs": TTL_MS,
                "pollIntervalMs": POLL_MS,
            }
            return {**summary, "statusMessage": self._message} if self._message else summary

    def details(self) -> dict[str, Any]:
        """Return the task with its result, its error, or its open questions."""
        with self._lock:
            details = self.summary()
            if self._status == INPUT_REQUIRED:
                details["inputRequests"] = self._open()
            elif isinstance(self._outcome, Failure):
                error = {"code": self._outcome.code, "message": self._outcome.message}
                details["error"] = error if self._outcome.data is None else {**error, "data": self._outcome.data}
            elif self._outcome is not None and self._status == COMPLETED:
                details["result"] = self._outcome
            return details

    def _open(self) -> dict[str, Any]:
        needs = self._attending.needs
        return {name: request for name, request in needs.items() if name not in self._responses}

    def note(self, message: str) -> None:
        """Set the status message."""
        with self._lock:
            self._message = message[:MESSAGE_CHARACTERS]
            self._updated = time.time()

    def update(self, responses: Mapping[str, Any]) -> None:
        """Receive answers to open questions; the call runs again once all are answered."""
        with self._lock:
            if self._status != INPUT_REQUIRED:
                return
            pending = self._open()
            self._responses |= {
                name: response for name, response in responses.items() if name in pending and isinstance(response, dict)
            }
            if self._open():
                return
            self._attending.take(self._responses)
            attending = self._resume()
        self._run_again(attending)

    def check_answers(self) -> None:
        """Run the call again if its open questions were answered elsewhere."""
        with self._lock:
            if self._status != INPUT_REQUIRED or not self._forms.is_open or self._forms.answered_by() is None:
                return
            attending = self._resume()
        self._run_again(attending)

    def _resume(self) -> Attending:
        if self._forms.is_open:
            self._forms.settle()
        self._responses = {}
        self._attending = self._renew(self)
        self._set(WORKING)
        return self._attending

    def _run_again(self, attending: Attending) -> None:
        self._runtime.submit(self._call, partial(self.ended, attending), began=self._began, attendant=attending)

    def _began(self, running: ActiveCall) -> None:
        self._running = running
        running.event_id = self._replies.event_id
        if self._is_cancelled:
            running.cancel()

    def ended(self, attending: Attending, result: Result) -> None:
        """Receive the result of a run."""
        with self._lock:
            if self._status in ENDED:
                return
            if attending.needs and not self._is_cancelled:
                self._replies.ended(result)
                attending.sent()
                with suppress(ToolError):  # the client is still asked
                    self._forms.open(attending.asked, attending.questions)
                self._set(INPUT_REQUIRED)
                return
            if self._is_cancelled or (result.error is not None and result.error.code == "cancelled"):
                self._set(CANCELLED)
            else:
                self._outcome = self._answer(result, self._running, attending)
                self._set(FAILED if isinstance(self._outcome, Failure) else COMPLETED)
        self._on_end()

    def cancel(self) -> None:
        """Cancel the call, unless it has ended."""
        with self._lock:
            if self._status in ENDED:
                return
            self._is_cancelled = True
            was_asking = self._status == INPUT_REQUIRED
            running = self._running
            if was_asking:
                self._set(CANCELLED)
        if was_asking:
            self._forms.close()
            if running is not None:
                running.abandon(ToolError("cancelled", f"The call of {self._call.tool} was cancelled."))
            self._on_end()
        elif running is not None:
            running.cancel()

    def _set(self, status: str) -> None:
        self._status = status
        self._updated = time.time()
        if status != WORKING:
            self._message = ""


class CallTasks:
    """The tasks of a process. The id of a task is a secret of its client; some tasks also belong to a session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, CallTask] = {}

    def add(self, task: CallTask, owner: tuple[str, str | None]) -> bool:
        """Add a task of this workspace, and of this session if it has a connection; return False at the limit."""
        with self._lock:
            for other in [other for other in self._tasks.values() if other.is_expired]:
                del self._tasks[other.id]
            if len(self._tasks) >= TASKS_MAX:
                return False
            task.owner = owner
            self._tasks[task.id] = task
            return True

    def drop(self, task: CallTask) -> None:
        """Remove a task that was never used."""
        with self._lock:
            self._tasks.pop(task.id, None)

    def find(self, id: str, owner: tuple[str, str | None]) -> CallTask | None:
        """Return a task of this workspace and session."""
        with self._lock:
            task = self._tasks.get(id)
        return None if task is None or task.owner != owner or task.is_expired else task

    def end(self, owner: tuple[str, str | None]) -> None:
        """Cancel and remove the tasks of a session."""
        with self._lock:
            ended = [task for task in self._tasks.values() if task.owner == owner]
            for task in ended:
                del self._tasks[task.id]
        for task in ended:
            task.cancel()


def _timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
