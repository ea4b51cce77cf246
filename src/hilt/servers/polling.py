"""Tells when the tools of MCP servers have changed: what is known of them is looked at once a second.

What changes them is in many places: a server that got ready, the files that name servers, what is trusted, and what
another process has accepted. So one look at the outcome stands for all of them.
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
    """Have `callback` called, from a thread of its own, after every change from now on; what is returned ends that."""

    def known() -> list[AcceptedTool]:
        found = servers()
        return [] if found is None else found.known()

    def run() -> None:
        last = before
        while not ended.wait(POLL_SECONDS):
            with suppress(Exception):  # what cannot be looked at now is looked at again
                now = known()
                if now != last and not ended.is_set():
                    last = now
                    callback()

    def stop() -> None:
        ended.set()
        if thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)

    before = known()
    ended = threading.Event()
    thread = threading.Thread(target=run, name="hilt-servers-watch", daemon=True)
    thread.start()
    return stop
