"""Find the processes of one test: each carries the test's mark in its environment or its arguments."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

HANG_SECONDS = 60
STUBBORN = "trap '' TERM HUP INT; while :; do sleep 300; done"


class Mark:
    """A name that every process of one test carries."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self.env = {"PATH": os.environ.get("PATH", os.defpath), "MARK": self.name}

    def alive(self) -> list[int]:
        """Return the live processes that carry the mark."""
        mark = self.name.encode()
        return [pid for pid in pids() if any(mark in read(f"/proc/{pid}/{name}") for name in ("environ", "cmdline"))]


def pids() -> list[int]:
    """Return the ids of all processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read(path: str) -> bytes:
    """Return the contents of a file; empty if it is gone or not readable."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def kill(victims: Iterable[int]) -> None:
    """Kill processes; some may already have ended with others."""
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], object]) -> None:
    """Return when the condition holds."""
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "hangs"
        time.sleep(0.005)
