"""The fence between a call and its commit, and what child processes of a call may read."""

import threading
from collections.abc import Callable
from typing import NamedTuple

from hilt.errors import ToolError


class Fence:
    """Decides once whether a call commits or is cancelled.

    A thread cannot be killed, so a call that timed out or was cancelled may still be running: it can no longer pass
    the fence. A call that has passed can no longer be cancelled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled: ToolError | None = None
        self._committing = False
        self._watchers: list[Callable[[], None]] = []

    def cancel(self, reason: ToolError) -> bool:
        """Stop the call before it commits; return False when it already has, and will return its own result."""
        with self._lock:
            if self._committing or self._cancelled is not None:
                return False
            self._cancelled = reason
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher()
        return True

    def check(self) -> None:
        """Raise if the call was cancelled; long-running work calls this regularly."""
        if self._cancelled is not None:
            raise self._cancelled

    def commit(self) -> None:
        """Pass the fence, or raise if the call was cancelled."""
        with self._lock:
            if self._cancelled is not None:
                raise self._cancelled
            self._committing = True

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` when the call is cancelled, immediately if it already is."""
        with self._lock:
            is_cancelled = self._cancelled is not None
            if not is_cancelled:
                self._watchers.append(watcher)
        if is_cancelled:
            watcher()

    def event(self) -> threading.Event:
        """Return an event that is set when the call is cancelled."""
        event = threading.Event()
        self.watch(event.set)
        return event


class Reads(NamedTuple):
    """What a child process may read, where the kernel can enforce it."""

    folder: int | None  # descriptor; with everything below it
    files: tuple[int, ...] = ()  # descriptors
    programs: tuple[str, ...] = ()  # files it needs to run, and folders with everything below them
