"""Threads, signals and limits of rates for surfaces that run an event loop."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hilt.call_threads import CallThreads

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def offload(loop: asyncio.AbstractEventLoop, threads: CallThreads, work: Callable[[], Any]) -> asyncio.Future[Any]:
    """Run slow work on another thread."""
    future: asyncio.Future[Any] = loop.create_future()

    def settle(set: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            set(value)

    def run() -> None:
        try:
            outcome, set = work(), future.set_result
        except BaseException as error:  # noqa: BLE001 -- raised again where the future is awaited
            outcome, set = error, future.set_exception
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, set, outcome)

    threads.put(run)
    return future


class EndingSignal:
    """The signal that ended a task; its number is 0 if none did."""

    def __init__(self) -> None:
        self.number = 0

    def cancel_task(self) -> None:
        """Cancel the current task when a signal arrives that is not ignored."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: int) -> None:
            self.number = number
            if task is not None:
                task.cancel()

        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, stop, number)


class Bucket:
    """A token bucket: a rate per second, with a burst, by default that of one second."""

    def __init__(self, rate: float, burst: float = 0) -> None:
        self._rate, self._burst = rate, burst or rate
        self._available = self._burst
        self._since = time.monotonic()

    def take(self) -> bool:
        """Whether one more is allowed now."""
        now = time.monotonic()
        self._available = min(self._burst, self._available + (now - self._since) * self._rate)
        self._since = now
        if self._available < 1:
            return False
        self._available -= 1
        return True
