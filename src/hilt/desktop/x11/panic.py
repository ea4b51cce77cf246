"""The panic key: Escape, pressed twice by the user within a second."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import xcffib
import xcffib.xinput

from hilt.desktop.x11.x_server import XConnection

WITHIN_SECONDS = 1.0
_ALL_MASTERS = 1
_RAW_KEY_PRESS = 1 << 13
_IS_REPEAT = 1 << 16
_ESCAPE = 0xFF1B


class PanicWatch:
    """Watches the keyboard on its own connection and thread; keyboard grabs of other programs hide nothing."""

    def __init__(self, display: str, alarm: Callable[[], None]) -> None:
        self._alarm = alarm
        self._connection = XConnection(display)
        self._escapes = self._escape_keys()
        self._expected = 0  # presses of Escape by hilt itself
        self._last = float("-inf")
        self._stopped = threading.Event()
        self._connection.input.XIQueryVersion(2, 2).reply()
        mask = xcffib.xinput.EventMask.synthetic(_ALL_MASTERS, 1, [_RAW_KEY_PRESS])
        self._connection.input.XISelectEvents(self._connection.root, 1, [mask])
        self._connection.sync()
        self._thread = threading.Thread(target=self._watch, name="panic-key", daemon=True)
        self._thread.start()

    def _escape_keys(self) -> set[int]:
        setup = self._connection.x.get_setup()
        first = setup.min_keycode
        reply = self._connection.core.GetKeyboardMapping(first, setup.max_keycode - first + 1).reply()
        width = reply.keysyms_per_keycode
        return {first + index // width for index, symbol in enumerate(reply.keysyms) if symbol == _ESCAPE}

    def expect(self, code: int) -> None:
        """Ignore the next press of a key if it is Escape: hilt sends it."""
        if code in self._escapes:
            self._expected += 1

    def _watch(self) -> None:
        descriptor = self._connection.x.get_file_descriptor()
        with suppress(xcffib.XcffibException, OSError, ValueError):
            while not self._stopped.is_set():
                event = self._connection.x.poll_for_event()
                if event is None:
                    select.select([descriptor], [], [], 0.05)
                elif isinstance(event, xcffib.xinput.RawKeyPressEvent) and not event.flags & _IS_REPEAT:
                    self._pressed(event.detail)

    def _pressed(self, code: int) -> None:
        if code not in self._escapes:
            return
        if self._expected:
            self._expected -= 1
        elif time.monotonic() - self._last <= WITHIN_SECONDS:
            self._alarm()
        else:
            self._last = time.monotonic()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._thread.join()
        self._connection.close()
