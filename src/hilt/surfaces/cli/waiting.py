"""A line on the terminal that says what a command waits for, once it has taken a second."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hilt.output.terminal import clip, inert

_PERIOD_SECONDS = 1.0
_ERASE = "\r\x1b[K"


class Waiting:
    """Shows the time since the last output; nothing without a terminal. Whoever else writes to it clears it first."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shows = sys.stderr.isatty() and os.environ.get("TERM") not in (None, "", "dumb")
        self._lock = threading.Lock()
        self._is_drawn = False
        self.is_held = False  # whether the cursor is behind other output
        self._paused = 0
        self._since = time.monotonic()
        self._ended = threading.Event()

    def __enter__(self) -> Waiting:
        self.clear()
        if self._shows:
            threading.Thread(target=self._draw, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.clear()

    def clear(self) -> None:
        """Remove the line, and count from now."""
        with self._lock:
            self._erase()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Draw nothing, such as during a prompt."""
        with self._lock:
            self._erase()
            self._paused += 1
        try:
            yield
        finally:
            with self._lock:
                self._paused -= 1
                self._since = time.monotonic()

    def _erase(self) -> None:
        if self._is_drawn:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
        self._is_drawn, self._since = False, time.monotonic()

    def _draw(self) -> None:
        while not self._ended.wait(_PERIOD_SECONDS):
            with self._lock:
                if not self.is_held and not self._paused and not self._ended.is_set():
                    seconds = round(time.monotonic() - self._since)
                    sys.stderr.write(f"{_ERASE}… {clip(inert(self._what), 50)}, {seconds} s")
                    sys.stderr.flush()
                    self._is_drawn = True
