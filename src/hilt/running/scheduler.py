"""Runs calls on threads, with deadlines: calls that touch the same paths in order of arrival, others in parallel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from functools import partial

from hilt.active_call import WATCH_SECONDS, ActiveCall
from hilt.call import Result
from hilt.call_threads import CallThreads
from hilt.declaration import TIMEOUT_SECONDS
from hilt.errors import ToolError
from hilt.pipeline import Paths, failure
from hilt.running.lanes import Lanes

WAITERS_MAX = 512

Order = Generator[Paths, None, None]  # the steps of one call


class Scheduler:
    """Runs calls. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes = Lanes()
        self._running: set[ActiveCall] = set()
        self._workers = CallThreads()
        self._waiters = CallThreads(WAITERS_MAX)  # for long calls, so that they do not occupy the workers
        self._watching = False
        self._closed = threading.Event()

    def submit(
        self, active: ActiveCall, order: Order, done: Callable[[Result], None], here: Callable[[], None] | None
    ) -> None:
        """Begin a call on this thread, and continue it when its turn comes.

        With `here`, a call that need not wait for others continues on this thread; `here` is called before that, once
        the call is in the queue.
        """
        paths = next(order, None)
        if paths is None:
            return  # rejected; its result was already delivered
        with self._lock:
            is_closed = self._closed.is_set()
            if not is_closed:
                self._running.add(active)
        if is_closed:
            done(failure(active.call, ToolError("cancelled", "The runtime is closed.")))
        elif self._has_turn(active, order, paths):
            if here is None:
                self._continue(active, order)
            else:
                here()
                self._finish(active, order)

    def _has_turn(self, active: ActiveCall, order: Order, paths: Paths) -> bool:
        """Queue a call; return whether it need not wait for others. If it must, it continues when its turn comes."""
        with self._lock:
            active.turn = self._lanes.enter(paths, lambda: self._continue(active, order), active.session)
            return not active.turn.waits

    def _continue(self, active: ActiveCall, order: Order) -> None:
        """Continue a call on another thread."""
        is_long = active.prepared is not None and active.prepared.tool.timeout > TIMEOUT_SECONDS
        (self._waiters if is_long else self._workers).put(lambda: self._finish(active, order))

    def _finish(self, active: ActiveCall, order: Order) -> None:
        """Run a call to its end, or to a question for its client."""
        paths = None
        try:
            paths = next(order, None)
        finally:
            # only after the call was recorded and its result delivered: the next call in the lane must know which files
            # this one saw, and must not deliver its result first
            with self._lock:
                if paths is None:
                    self._running.discard(active)
                if active.turn is not None:
                    self._lanes.leave(active.turn)
                    active.turn = None  # breaks a reference cycle, so that both are freed at once
        if paths is not None:
            active.wait(partial(self._resume, active, order, paths))

    def _resume(self, active: ActiveCall, order: Order, paths: Paths) -> None:
        """Continue a call that has waited for its client; other calls may have passed it."""
        if self._has_turn(active, order, paths):
            self._continue(active, order)

    def watch_deadlines(self) -> None:
        """Start a thread that times out late calls; for surfaces that do not wait for each call."""
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._watch, name="hilt-watch", daemon=True).start()

    def _watch(self) -> None:
        while not self._closed.wait(WATCH_SECONDS):
            now = time.perf_counter()
            with self._lock:
                late = [active for active in self._running if active.deadline < now]
            for active in late:
                active.time_out_if_late()

    def waiting(self, active: ActiveCall) -> AbstractContextManager[None]:
        """Return a context in which a call waits for a person; other sessions need not wait for it or its thread."""
        with self._lock:
            if active.turn is not None:
                self._lanes.step_aside(active.turn)
        return self._workers.lent()

    def give_up(self, seconds: float) -> None:
        """Cancel running calls and wait up to this long for them to clean up."""
        with self._lock:
            self._closed.set()
            running = list(self._running)
        for active in running:
            active.cancel()
        deadline = time.monotonic() + seconds
        while self._running and time.monotonic() < deadline:
            time.sleep(0.01)

    def close(self) -> None:
        """Let every thread end when it becomes idle."""
        self._workers.close()
        self._waiters.close()
