"""Ends the turn of a conversation from any thread, with everything that it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hilt.errors import ToolError
from hilt.fence import Fence

T = TypeVar("T")


class Interruption:
    """Why the current turn is to end, if it is, and what has to end with it."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        """`on_end` is called once in a turn that ends early, on the thread that ends it."""
        self._on_end = on_end
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reason: ToolError | None = None
        self._task: asyncio.Future[Any] | None = None
        self.fence = Fence()

    @property
    def is_ending(self) -> bool:
        """Whether the turn is to end."""
        return self._reason is not None

    def begin(self) -> asyncio.AbstractEventLoop:
        """Begin a turn on the running event loop, and return the loop."""
        with self._lock:
            self._loop, self._reason, self.fence = asyncio.get_running_loop(), None, Fence()
        return self._loop

    def end(self, reason: ToolError) -> None:
        """End the turn; may be called from any thread. Only the first reason counts."""
        with self._lock:
            if self._reason is not None or self._loop is None:
                return
            self._reason = reason
        self.fence.cancel(ToolError("cancelled", "The turn was interrupted."))
        self._on_end()
        self._loop.call_soon_threadsafe(self._cancel_task)

    def check(self) -> None:
        """Raise the reason if the turn is to end."""
        if self._reason is not None:
            raise self._reason

    async def wait_for(self, work: Awaitable[T]) -> T:
        """Await work that ends with the turn."""
        task = asyncio.ensure_future(work)
        self._task = task
        try:
            if self._reason is not None:
                task.cancel()
            return await task
        except asyncio.CancelledError:
            self.check()
            raise
        finally:
            self._task = None

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def offload(work: Callable[[], T]) -> T:
    """Run blocking work on another thread."""
    return await asyncio.get_running_loop().run_in_executor(None, work)
