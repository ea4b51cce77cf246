"""An X display as a backend."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import xcffib

from hilt.desktop.geometry import Point
from hilt.desktop.privacy import Privacy
from hilt.desktop.x11.dead_man_switch import DeadManSwitch
from hilt.desktop.x11.input import XInput
from hilt.desktop.x11.panic import PanicWatch
from hilt.desktop.x11.screen import XScreen
from hilt.desktop.x11.x_server import XConnection


class XDisplay:
    """An X display."""

    def __init__(self, name: str, privacy: Privacy) -> None:
        self.name = name
        self._connection = XConnection(name)
        self._switch = DeadManSwitch(name)
        screen = XScreen(self._connection, privacy)
        self._input = XInput(screen, self._switch)
        self.area = screen.area
        self.windows = screen.windows
        self.capture = screen.capture
        self.owners_at = screen.owners_at
        self.pointer = self._input.pointer
        self.click = self._input.click
        self.drag = self._input.drag
        self.scroll = self._input.scroll
        self.type_text = self._input.type_text
        self.press_keys = self._input.press_keys
        self.activate = self._input.activate

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The exceptions that its methods raise if the display fails or changes during a call."""
        return (xcffib.XcffibException,)

    def is_alive(self) -> bool:
        """Whether the display still responds."""
        try:
            self._connection.sync()
        except xcffib.XcffibException:
            return False
        return True

    def move(self, point: Point) -> None:
        """Move the pointer."""
        self._input.move(point)
        self._connection.sync()

    def watch_panic(self, alarm: Callable[[], None]) -> Callable[[], None]:
        """Call `alarm` when the panic key is pressed."""
        watch = PanicWatch(self.name, alarm)
        self._input.expect = watch.expect

        def stop() -> None:
            self._input.expect = lambda code: None
            watch.stop()

        return stop

    def close(self) -> None:
        """Release all pressed keys and buttons, and disconnect."""
        with suppress(xcffib.XcffibException, OSError):
            self._input.close()
        self._switch.close()
        self._connection.close()
