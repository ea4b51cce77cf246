"""The fence between a call and its commit, and what programs that a call starts for itself may read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from hilt.errors import ToolError


class Fence:
    """Decides, once, between committing a call and giving it up.

    A thread cannot be killed, so a call that timed out or was cancelled may still be running: it can no longer pass
    the fence, and one that has passed can no longer be given up.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up: ToolError | None = None
        self._committing = False
        self._watchers: list[Callable[[], None]] = []

    def give_up(self, reason: ToolError) -> bool:
        """Stop the call before it commits; False when it already does, and its own answer will come."""
        with self._lock:
            if self._committing or self._given_up is not None:
                return False
            self._given_up = reason
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher()
        return True

    def check(self) -> None:
        """Raise when the call was given up; every long piece of work looks here now and then."""
        if self._given_up is not None:
            raise self._given_up

    def commit(self) -> None:
        """Pass the fence, or raise when the call was given up."""
        with self._lock:
            if self._given_up is not None:
                raise self._given_up
            self._committing = True

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` as soon as the call is given up, at once when it already is."""
        with self._lock:
            given_up = self._given_up is not None
            if not given_up:
                self._watchers.append(watcher)
        if given_up:
            watcher()


class Reads(NamedTuple):
    """What a program of our own may read, where the kernel can hold it to that."""

    folder: int | None  # and everything below
    files: tuple[int, ...] = ()  # open
    programs: tuple[str, ...] = ()  # what it needs to run, folders with everything below
