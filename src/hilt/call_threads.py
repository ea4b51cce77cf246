"""A pool of threads that run calls."""

from __future__ import annotations

import threading
from _queue import SimpleQueue
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WORKERS_MAX = 64
LENT_MAX = 512  # extra threads that may replace those that wait for a person


class CallThreads:
    """A pool of threads: idle threads are reused, new ones are started when all are busy."""

    def __init__(self, limit: int = WORKERS_MAX) -> None:
        self._own_limit = limit
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0  # threads waiting for work that is not in the queue yet
        self._lent = 0  # threads that wait for a person
        self._backlog = 0  # queued work that no idle thread is waiting for

    def put(self, work: Callable[[], None]) -> None:
        """Queue `work` to run on one of the threads."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._count >= self._limit or not self._start():
                self._backlog += 1
            self._work.put(work)

    def _start(self) -> bool:
        """Start another thread; return False if none can be started and an existing one must do the work."""
        try:
            threading.Thread(target=self._serve, name="hilt-call", daemon=True).start()
        except RuntimeError:
            if not self._count:
                raise
            return False
        self._count += 1
        return True

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Allow one more thread while the block lasts, to replace this one while it waits for a person."""
        with self._lock:
            self._lent += 1
            if self._backlog and self._count < self._limit and self._start():
                self._backlog -= 1
        try:
            yield
        finally:
            with self._lock:
                self._lent -= 1

    @property
    def _limit(self) -> int:
        return self._own_limit + min(self._lent, LENT_MAX)

    def close(self) -> None:
        """Let every thread end when it becomes idle."""
        with self._lock:
            for _ in range(self._count):
                self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            with self._lock:
                if self._backlog:
                    self._backlog -= 1
                else:
                    self._idle += 1
