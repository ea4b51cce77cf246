"""The fence between a call and its commit, and what child processes of a call may read."""

import threading
from collections.abc import Callable
from typing import NamedTuple

from hilt.errors import ToolError


class Fence:
    """Decides once whether a call commits or is given up.

    A thread cannot be killed, so a call that timed out or was cancelled may still be running: it can no longer pass
    the fence. A call that has passed can no longer be given up.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up: ToolError | None = None
        self._committing = False
        self._watchers: list[Callable[[], None]] = []

    def give_up(self, reason: ToolError) -> bool:
        """Stop the call before it commits; return False when it already has, and will return its own result."""
        with self._lock:
            if self._committing or self._given_up is not None:
                return False
            self._given_up = reason
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher()
        return True

    def check(self) -> None:
        """Raise if the call was given up; long-running work calls this regularly."""
        if self._given_up is not None:
            raise self._given_up

    def commit(self) -> None:
        """Pass the fence, or raise if the call was given up."""
        with self._lock:
            if self._given_up is not None:
                raise self._given_up
            self._committing = True

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` when the call is given up, immediately if it already is."""
        with self._lock:
            given_up = self._given_up is not None
            if not given_up:
                self._watchers.append(watcher)
        if given_up:
            watcher()


class Reads(NamedTuple):
    """What a child process may read, where the kernel can enforce it."""

    folder: int | None  # descriptor; with everything below it
    files: tuple[int, ...] = ()  # descriptors
    programs: tuple[str, ...] = ()  # files it needs to run, and folders with everything below them
