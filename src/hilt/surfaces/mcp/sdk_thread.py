"""The SDK behind the front loop, in an event loop on its own thread, which also imports the SDK."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from hilt.surfaces.mcp.lines import LINES_MAX, LineOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from hilt.surfaces.mcp.messages import ClientLines
    from hilt.surfaces.mcp.server import Serving


class FrontLoop(Protocol):
    """The part of the front loop that those who answer requests use, from any thread."""

    replayed: str  # the id of the request that repeats the handshake; the client already has the response

    def is_active(self, id: Any) -> bool:
        """Whether the front loop is answering a request with this id."""

    def forward(self, line: bytes, request: tuple[Any, str, Mapping[str, Any]] | None = None) -> None:
        """Let the SDK answer a message."""

    def settled(self, id: Any) -> None:
        """Record that a forwarded request was answered, or will not be."""

    def finished(self) -> None:
        """Record that a request was answered without the SDK, or will not be."""

    def listed(self, has_changed: Callable[[], bool]) -> None:
        """Record that the client knows the tools; `has_changed` returns whether they have changed since."""

    def tools_changed(self) -> None:
        """Notify the client that its tools may have changed."""

    def stop(self) -> None:
        """End the connection."""

    def resume(self) -> None:
        """Check again what the loop waits for."""


class SdkThread:
    """Serves the messages of one client that are not plain."""

    def __init__(self, build: Callable[[], Serving], output: LineOutput, front: FrontLoop) -> None:
        """`build` returns the server; it is called in the event loop."""
        self._build = build
        self._output = output
        self._front = front
        self._lock = threading.Lock()
        self._early: list[bytes] = []  # lines received before the event loop has started
        self._has_ended = False  # whether the input has ended
        self._loop: AbstractEventLoop | None = None
        self._lines: ClientLines | None = None
        self._serving: Serving | None = None
        self._thread = threading.Thread(target=self._run, name="hilt-mcp-sdk", daemon=True)
        self._thread.start()

    def feed(self, line: bytes) -> None:
        """Queue a line for the SDK."""
        with self._lock:
            if self._lines is None:
                self._early.append(line)
            else:
                self._post(self._lines.take, line)

    def end(self, seconds: float) -> None:
        """End the input, and wait up to this long until all calls have ended."""
        with self._lock:
            self._has_ended = True
            if self._lines is not None:
                self._post(self._lines.end)
        self._thread.join(seconds)

    def announce(self, kind: str) -> bool:
        """Notify the client of a change, if it wants to know; return False before the SDK is loaded."""
        if self._serving is None:
            return False
        self._serving.announce(kind)
        return True

    @property
    def is_full(self) -> bool:
        """Whether too many lines are waiting."""
        return len(self._early if self._lines is None else self._lines.lines) > LINES_MAX

    def is_active(self, id: Any) -> bool:
        """Whether the SDK is answering a request with this id."""
        return self._lines is not None and id in self._lines.active

    def _post(self, work: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended
            if self._loop is not None:
                self._loop.call_soon_threadsafe(work, *arguments)

    def _run(self) -> None:
        import asyncio

        from hilt.surfaces.mcp.messages import serve

        async def main() -> None:
            self._serving = self._build()
            await serve(self._serving, self._output, self._front, self._began)

        self._loop = asyncio.new_event_loop()
        try:
            self._loop.run_until_complete(main())
        finally:
            self._loop.close()
            self._front.stop()  # no further request would be answered

    def _began(self, lines: ClientLines) -> None:
        with self._lock:
            self._lines = lines
            for line in self._early:
                lines.take(line)
            self._early.clear()
            if self._has_ended:
                lines.end()
