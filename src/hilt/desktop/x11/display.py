"""An X display as a backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import xcffib

from hilt.desktop.geometry import Box, Point
from hilt.desktop.interface import Capture, Pause, ScreenWindow
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
        self._screen = XScreen(self._connection, privacy)
        self._switch = DeadManSwitch(name)
        self._input = XInput(self._screen, self._switch)

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

    @property
    def area(self) -> Box:
        """The whole screen."""
        return self._screen.area

    def windows(self) -> tuple[ScreenWindow, ...]:
        """Return the visible windows, topmost first."""
        return self._screen.windows()

    def capture(self) -> Capture:
        """Return the pixels of the screen."""
        return self._screen.capture()

    def owners_at(self, point: Point) -> set[int]:
        """Return the processes whose windows are at a point."""
        return self._screen.owners_at(point)

    def pointer(self) -> Point:
        """Return the position of the pointer."""
        return self._input.pointer()

    def move(self, point: Point) -> None:
        """Move the pointer."""
        self._input.move(point)
        self._connection.sync()

    def click(self, point: Point, button: int, count: int, pause: Pause) -> None:
        """Press and release a button."""
        self._input.click(point, button, count, pause)

    def drag(self, points: Sequence[Point], seconds: float, pause: Pause) -> None:
        """Drag with the left button."""
        self._input.drag(points, seconds, pause)

    def scroll(self, point: Point, dx: int, dy: int, pause: Pause) -> None:
        """Turn the wheel."""
        self._input.scroll(point, dx, dy, pause)

    def type_text(self, text: str, delay: float, pause: Pause) -> None:
        """Type text."""
        self._input.type_text(text, delay, pause)

    def press_keys(self, keys: Sequence[str], pause: Pause) -> None:
        """Press keys together."""
        self._input.press_keys(keys, pause)

    def activate(self, window: ScreenWindow, pause: Pause) -> None:
        """Raise a window and give it the keyboard focus."""
        self._input.activate(window, pause)

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
