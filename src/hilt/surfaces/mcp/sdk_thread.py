"""The SDK behind the front loop, in an event loop on its own thread, which also imports the SDK."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Protocol

from hilt.surfaces.mcp.lines import LINES_MAX, LineOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.surfaces.mcp.server import Serving


class FrontLoop(Protocol):
    """The part of the front loop that those who answer requests use, from any thread."""

    replayed: str  # the id of the request that repeats the handshake; the client already has the response

    def is_active(self, id: Any) -> bool:
        """Whether the front loop is answering a request with this id."""

    def forward(self, message: Any) -> None:
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
        self.messages: deque[Any] = deque()  # that the SDK has not read
        self.has_ended = False  # whether no further message will come
        self.active: Collection[Any] = ()  # ids of the requests that the SDK is answering
        self.wake: Callable[[], None] = lambda: None  # lets the SDK read
        self._build = build
        self._output = output
        self._front = front
        self._serving: Serving | None = None
        self._thread = threading.Thread(target=self._run, name="hilt-mcp-sdk", daemon=True)
        self._thread.start()

    def feed(self, message: Any) -> None:
        """Queue a message for the SDK."""
        self.messages.append(message)
        self.wake()

    def end(self, seconds: float) -> None:
        """End the input, and wait up to this long until all calls have ended."""
        self.has_ended = True
        self.wake()
        self._thread.join(seconds)

    def announce(self, kind: str) -> bool:
        """Notify the client of a change, if it wants to know; return False before the SDK is loaded."""
        if self._serving is None:
            return False
        self._serving.announce(kind)
        return True

    @property
    def is_full(self) -> bool:
        """Whether too many messages are waiting."""
        return len(self.messages) > LINES_MAX

    def _run(self) -> None:
        import asyncio

        from hilt.surfaces.mcp.messages import serve

        async def main() -> None:
            self._serving = self._build()
            await serve(self._serving, self._output, self._front, self)

        try:
            asyncio.run(main())
        finally:
            self._front.stop()  # no further request would be answered
