"""A connection to an X server: extensions, atoms and properties."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import xcffib
import xcffib.res
import xcffib.shape
import xcffib.xinput
import xcffib.xproto
import xcffib.xtest

from hilt.errors import ToolError

PROPERTY_WORDS = 1024  # of a property, in units of 4 bytes
_LOCAL_PID = 2  # a mask of the X-Resource extension


class XConnection:
    """A connection to an X server, with the extensions that hilt uses."""

    def __init__(self, display: str) -> None:
        self.name = display
        try:
            self.x = xcffib.connect(display=display)
            self.screen = self.x.get_setup().roots[self.x.pref_screen]
            self.res = self.x(xcffib.res.key)
            self.shape = self.x(xcffib.shape.key)
            self.test = self.x(xcffib.xtest.key)
            self.input = self.x(xcffib.xinput.key)
            self.res.QueryVersion(1, 2).reply()
        except (xcffib.XcffibException, AssertionError, KeyError) as error:
            reason = str(error).rstrip(".") or type(error).__name__
            raise ToolError(
                "no_display",
                f"The X display {display} does not respond: {reason}.",
                suggestion="Check that it is running, and that DISPLAY and XAUTHORITY are set for it.",
            ) from error
        self.root: int = self.screen.root
        self.core = self.x.core
        self._atoms: dict[str, int] = {}
        self._frozen = threading.local()

    def atom(self, name: str) -> int:
        """Return the number of an atom."""
        number = self._atoms.get(name)
        if number is None:
            number = self._atoms[name] = self.core.InternAtom(False, len(name), name).reply().atom  # noqa: FBT003
        return number

    def ask_property(self, window: int, name: str) -> Any:
        """Send a request for a property; `raw` reads its reply."""
        return self.core.GetProperty(False, window, self.atom(name), 0, 0, PROPERTY_WORDS)  # noqa: FBT003

    def raw(self, cookie: Any) -> bytes:
        """Return the bytes of a requested property; empty if it is not set or its window is gone."""
        try:
            return bytes(cookie.reply().value.raw)
        except xcffib.XcffibException:
            return b""

    def numbers(self, window: int, name: str) -> list[int]:
        """Return a property that is a list of numbers."""
        data = self.raw(self.ask_property(window, name))
        return [int.from_bytes(data[start : start + 4], "little") for start in range(0, len(data) - 3, 4)]

    def ask_owner(self, window: int) -> Any:
        """Send a request for the process that opened a window; `owner` reads its reply."""
        return self.res.QueryClientIds(1, [xcffib.res.ClientIdSpec.synthetic(window, _LOCAL_PID)])

    def owner(self, cookie: Any) -> int:
        """Return the process that opened a window, which the server knows from its socket; 0 if it is unknown."""
        try:
            for value in cookie.reply().ids:
                if value.spec.mask == _LOCAL_PID and len(value.value):
                    return int(value.value[0])
        except xcffib.XcffibException:
            pass
        return 0

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Grab the server, so that no other program can change anything on the display for a few milliseconds.

        A check inside still holds when input is sent inside: no window can appear in between.
        """
        if getattr(self._frozen, "depth", 0):
            yield
            return
        self._frozen.depth = 1
        self.core.GrabServer()
        try:
            yield
        finally:
            self._frozen.depth = 0
            with suppress(xcffib.XcffibException):
                self.core.UngrabServer()
                self.sync()

    def sync(self) -> None:
        """Wait until the server has handled everything that was sent."""
        self.core.GetInputFocus().reply()

    def close(self) -> None:
        """Disconnect."""
        with suppress(xcffib.XcffibException):
            self.x.disconnect()
