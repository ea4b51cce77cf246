"""Threads that run calls."""

from __future__ import annotations

import threading
from _queue import SimpleQueue
from collections.abc import Callable

WORKERS_MAX = 64


class CallThreads:
    """Threads that run calls: kept when idle, started when all are busy."""

    def __init__(self, most: int = WORKERS_MAX) -> None:
        self._most = most
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0  # threads that wait for work which is not yet in the queue
        self._backlog = 0  # work in the queue that no idle thread is waiting for

    def put(self, work: Callable[[], None]) -> None:
        """Run `work` on some thread, soon."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._count >= self._most or not self._start():
                self._backlog += 1
            self._work.put(work)

    def _start(self) -> bool:
        """Start another thread; False when there can be no more and one of ours will get to the work."""
        try:
            threading.Thread(target=self._serve, name="hilt-call", daemon=True).start()
        except RuntimeError:
            if not self._count:
                raise
            return False
        self._count += 1
        return True

    def close(self) -> None:
        """Let every thread end when it has nothing to do."""
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
