"""Calls that continue after their request, as tasks of the MCP extension; the client polls for the result.

A task runs on the threads of the runtime, so it outlives the connection of its client. If its call has questions, it
waits for `tasks/update`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from hilt.surfaces.mcp.client_call import ClientCall, Failure, Outcome

AFTER_SECONDS = 0.5  # a call that takes longer becomes a task, if its client supports that
TTL_MS = 24 * 60 * 60 * 1000
POLL_MS = 1000
TASKS_MAX = 1000  # beyond this, calls are answered when they end
MESSAGE_CHARACTERS = 500

WORKING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED = "working", "input_required", "completed", "failed", "cancelled"
ENDED = (COMPLETED, FAILED, CANCELLED)


class CallTask:
    """One call as a task. Used from many threads."""

    def __init__(self, call: ClientCall) -> None:
        self.id = os.urandom(18).hex()
        self.owner: tuple[str, str | None] = "", None
        self._call = call
        self._lock = threading.RLock()
        self._status = WORKING
        self._message = ""
        self._outcome: Outcome | None = None
        self._responses: dict[str, dict[str, Any] | None] = {}
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
        needs = self._call.attendant.needs
        return {name: request for name, request in needs.items() if name not in self._responses}

    def update(self, responses: Mapping[str, Any]) -> None:
        """Receive answers to open questions; the call continues once all are answered."""
        with self._lock:
            if self._status != INPUT_REQUIRED:
                return
            pending = self._open()
            self._responses |= {
                name: response for name, response in responses.items() if name in pending and isinstance(response, dict)
            }
            if self._open():
                return
            given = self._proceed()
        self._call.answer(given)

    def check_answers(self) -> None:
        """Continue the call if its open questions were answered elsewhere."""
        with self._lock:
            forms = self._call.forms
            if self._status != INPUT_REQUIRED or not forms.is_open or forms.answered_by() is None:
                return
            self._proceed()
        self._call.answer({})

    def _proceed(self) -> dict[str, dict[str, Any] | None]:
        self._set(WORKING)
        responses, self._responses = self._responses, {}
        return responses

    def cancel(self) -> None:
        """Cancel the call, unless it has ended."""
        with self._lock:
            if self._status in ENDED:
                return
            self._is_cancelled = True
        self._call.end()

    # --- called by the call, from its threads ---------------------------------------------------------------------

    def asked(self) -> None:
        """Let the client answer the questions of the call."""
        with self._lock:
            self._set(INPUT_REQUIRED)

    def ended(self) -> None:
        """Keep the outcome of the call for the client."""
        with self._lock:
            if self._is_cancelled or self._call.was_cancelled:
                self._set(CANCELLED)
            else:
                self._outcome = self._call.outcome(modern=True)
                self._set(FAILED if isinstance(self._outcome, Failure) else COMPLETED)
        self._call.session.calls -= 1

    def send(self, kind: str, values: tuple[Any, ...]) -> None:
        """Show a progress message as the status of the task."""
        if kind == "progress" and values[2]:
            with self._lock:
                self._message = values[2][:MESSAGE_CHARACTERS]
                self._updated = time.time()

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

    def add(self, call: ClientCall, owner: tuple[str, str | None]) -> CallTask | None:
        """Continue a call as a task of this workspace, and of this session if it has a connection.

        Return None if it has just ended or has a question, and at the limit of tasks.
        """
        task = CallTask(call)
        task.owner = owner
        with self._lock:
            for other in [other for other in self._tasks.values() if other.is_expired]:
                del self._tasks[other.id]
            if len(self._tasks) >= TASKS_MAX:
                return None
            call.session.calls += 1
            if not call.follow(task):
                call.session.calls -= 1
                return None
            self._tasks[task.id] = task
        return task

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
