"""Reports changes of the tools of MCP servers: the known tools are polled once a second.

They change for many reasons: a server starts, a configuration file or its trust changes, or another process accepts
definitions. Polling the result covers all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.servers.definitions import AcceptedTool
    from hilt.servers.tools import Servers

POLL_SECONDS = 1.0
CLOSE_SECONDS = 5.0


def watch(servers: Callable[[], Servers | None], callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback`, from a separate thread, after every later change; return a function that stops this."""

    def current_tools() -> list[AcceptedTool]:
        current = servers()
        return [] if current is None else current.known()

    def run() -> None:
        last = before
        while not ended.wait(POLL_SECONDS):
            with suppress(Exception):  # the next poll tries again
                now = current_tools()
                if now != last and not ended.is_set():
                    last = now
                    callback()

    def stop() -> None:
        ended.set()
        if thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)

    before = current_tools()
    ended = threading.Event()
    thread = threading.Thread(target=run, name="hilt-servers-watch", daemon=True)
    thread.start()
    return stop
