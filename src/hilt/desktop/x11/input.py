"""Input to an X display: the pointer and the keyboard.

Before every press, the server is grabbed so that other programs cannot change the display, the window that would
receive the press is looked up by the server's own rules, and its process is checked. Then the press is sent, and the
grab is released.
"""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import xcffib
from xcffib.xproto import ClientMessageData, ClientMessageEvent, EventMask, GrabMode, GrabStatus

from hilt.desktop.geometry import Point
from hilt.desktop.interface import Pause, ScreenWindow
from hilt.desktop.privacy import private_window_error
from hilt.desktop.x11.dead_man_switch import DeadManSwitch
from hilt.desktop.x11.keymap import Keymap
from hilt.desktop.x11.screen import XScreen
from hilt.desktop.x11.x_server import XConnection
from hilt.errors import ToolError

PRESS_SECONDS = 0.03  # how long a button or key is down
HOVER_SECONDS = 0.04  # between moving the pointer and the press
STEP_SECONDS = 0.01  # between two points of a drag
SETTLE_SECONDS = 5.0  # how long to wait for a program to handle the input
HANG_SECONDS = 60.0  # the same between two keys: after that, the program hangs
QUIET_SECONDS = 0.2  # the same for programs that do not answer pings
MODIFIER_SECONDS = 1.0  # how long to wait until the user releases a modifier
ACTIVATE_SECONDS = 2.0
POLL_SECONDS = 0.01

_KEY_PRESS, _KEY_RELEASE, _BUTTON_PRESS, _BUTTON_RELEASE, _MOTION = 2, 3, 4, 5, 6
_MODIFIERS = 1 | 4 | 8 | 64  # Shift, Control, Alt and Super in the state of the pointer
_BUTTONS = 0x1F00  # in the same state
_WHEEL = {"up": 4, "down": 5, "left": 6, "right": 7}


class XInput:
    """Sends input to an X display."""

    def __init__(self, screen: XScreen, switch: DeadManSwitch) -> None:
        self._screen = screen
        self._connection = screen.connection
        self._switch = switch
        self._held: list[tuple[str, int]] = []
        self._listener: XConnection | None = None
        self.expect: Callable[[int], None] = lambda code: None  # called before a key is pressed

    # --- the pointer ----------------------------------------------------------------------------------------------

    def pointer(self) -> Point:
        """Return the position of the pointer."""
        reply = self._connection.core.QueryPointer(self._connection.root).reply()
        return Point(reply.root_x, reply.root_y)

    def move(self, point: Point) -> None:
        """Move the pointer, but not onto a private window."""
        with self._connection.frozen():
            self._refuse_private(self._screen.windows_at(point), point)
            self._warp(point)

    def click(self, point: Point, button: int, count: int, pause: Pause) -> None:
        """Press and release a button `count` times at a point."""
        self._refuse_grabs()
        self.move(point)
        pause(HOVER_SECONDS)
        with self._released_at_end():
            for _ in range(count):
                self._press_at(point, button)
                pause(PRESS_SECONDS)
                self._release("button", button)
        self._await_delivery(pause)
        self._settle(self._screen.under_pointer(), pause)

    def drag(self, points: Sequence[Point], seconds: float, pause: Pause) -> None:
        """Drag with the left button along a path; if interrupted or over a private window, release it at the start."""
        self._refuse_grabs()
        self.move(points[0])
        pause(HOVER_SECONDS)
        steps = max(len(points) - 1, 1)
        step_seconds = max(seconds / steps, STEP_SECONDS)
        with self._released_at_end(points[0]):
            self._press_at(points[0], 1)
            pause(PRESS_SECONDS)
            for point in points[1:]:
                self.move(point)
                pause(step_seconds)
            with self._connection.frozen():
                self.move(points[-1])
                self._release("button", 1)
        self._await_delivery(pause)
        self._settle(self._screen.under_pointer(), pause)

    def scroll(self, point: Point, dx: int, dy: int, pause: Pause) -> None:
        """Turn the wheel at a point."""
        self._refuse_grabs()
        self.move(point)
        pause(HOVER_SECONDS)
        turns = [
            *([_WHEEL["down" if dy > 0 else "up"]] * abs(dy)),
            *([_WHEEL["right" if dx > 0 else "left"]] * abs(dx)),
        ]
        with self._released_at_end():
            for button in turns:
                self._press_at(point, button)
                self._release("button", button)
                pause(STEP_SECONDS)
        self._await_delivery(pause)
        self._settle(self._screen.under_pointer(), pause)

    def _warp(self, point: Point) -> None:
        self._connection.test.FakeInput(_MOTION, 0, 0, self._connection.root, point.x, point.y, 0)

    def _press_at(self, point: Point, button: int) -> None:
        with self._announced("button", button), self._connection.frozen():
            self.move(point)
            self._refuse_private(self._screen.under_pointer(), point)  # a grab may hold the pointer elsewhere
            self._press("button", button)

    # --- the keyboard ---------------------------------------------------------------------------------------------

    def type_text(self, text: str, delay: float, pause: Pause) -> None:
        """Type text; characters that the keyboard does not have are typed with borrowed keys, or pasted."""
        self._await_modifiers(pause)
        self._refuse_grabs()
        keymap = Keymap(self._connection, self._switch)
        try:
            with self._released_at_end():
                for part in [text] if keymap.borrow(text) else re.split("([\n\t])", text):
                    if keymap.borrow(part):
                        self._type(part, keymap, delay, pause)
                    else:
                        self._paste(part, keymap, pause)
        finally:
            keymap.restore()

    def _type(self, text: str, keymap: Keymap, delay: float, pause: Pause) -> None:
        focused = self._screen.focused()
        window = self._screen.client(focused[0]) if focused else 0
        while text:
            keymap.borrow(text)
            typed = 0
            for character in text:
                stroke = keymap.stroke(character)
                if stroke is None:
                    break  # more characters than spare keys
                if stroke.shift:
                    self._press_key(keymap.key("shift").code)
                self._press_key(stroke.code)
                self._release("key", stroke.code)
                if stroke.shift:
                    self._release("key", keymap.key("shift").code)
                typed += 1
                # wait after each key: a slow program looks up the mapping of a key when it handles the press, which
                # may have changed by then
                if window and not self._ping(window, pause, HANG_SECONDS) and self._answers_pings(window):
                    raise ToolError(
                        "timeout",
                        f"The program with the focus does not respond. {len(text) - typed} characters were not typed.",
                        suggestion="Take a screenshot, and read what was typed before you type the rest.",
                    )
                pause(delay)
            self._settle(self._screen.focused(), pause)
            text = text[typed:]

    def _paste(self, text: str, keymap: Keymap, pause: Pause) -> None:
        """Paste text that the keyboard cannot type."""
        from hilt.desktop.x11.clipboard import OfferedText

        keys = [keymap.key(name).code for name in ("ctrl", "v")]
        self._refuse_private(self._screen.focused(), None)
        with OfferedText(self._connection.name, text, pause) as offered:
            for code in keys:
                self._press_key(code)
            chain = self._screen.focused()
            for code in reversed(keys):
                self._release("key", code)
            if not chain or not offered.was_pasted_by(self._screen.client(chain[0])):
                raise ToolError(
                    "tool_failed",
                    "The keyboard has no keys for the text, and the program with the focus did not paste it on Ctrl+V.",
                    suggestion="Click a text field first, or type characters that the keyboard has.",
                )
            self._settle(chain, pause)

    def press_keys(self, keys: Sequence[str], pause: Pause) -> None:
        """Press keys together, and release them in reverse order."""
        self._await_modifiers(pause)
        self._refuse_grabs()
        keymap = Keymap(self._connection, self._switch)
        focused = self._screen.focused()
        try:
            keymap.borrow(key for key in keys if len(key) == 1)
            with self._released_at_end():
                for key in keys:
                    stroke = keymap.key(key)
                    if stroke.shift and ("key", keymap.key("shift").code) not in self._held:
                        self._press_key(keymap.key("shift").code)
                    self._press_key(stroke.code)
                pause(PRESS_SECONDS)
            self._settle(focused, pause)
        finally:
            keymap.restore()

    def _press_key(self, code: int) -> None:
        with self._announced("key", code), self._connection.frozen():
            chain = self._screen.focused()
            if not chain:
                advice = "Click a window, or use focus_app."
                raise ToolError("tool_failed", "No window has the keyboard focus.", suggestion=advice)
            self._refuse_private(chain, None)
            self.expect(code)
            self._press("key", code)

    def _await_modifiers(self, pause: Pause) -> None:
        """Wait until no modifier is pressed: it would turn letters into commands."""
        deadline = time.monotonic() + MODIFIER_SECONDS
        while self._connection.core.QueryPointer(self._connection.root).reply().mask & _MODIFIERS:
            if time.monotonic() > deadline:
                raise ToolError("busy", "Shift, Ctrl, Alt or Super is held down.")
            pause(POLL_SECONDS)

    # --- pressing and releasing -----------------------------------------------------------------------------------

    @contextmanager
    def _announced(self, kind: str, code: int) -> Iterator[None]:
        """Announce a press to the dead man's switch, before the server is grabbed, because starting it is slow."""
        self._switch.hold(kind, code)
        try:
            yield
        except ToolError:
            self._switch.release(kind, code)
            raise

    def _press(self, kind: str, code: int) -> None:
        self._held.append((kind, code))
        self._send(_KEY_PRESS if kind == "key" else _BUTTON_PRESS, code)

    def _send(self, event: int, code: int) -> None:
        self._connection.test.FakeInput(event, code, 0, self._connection.root, 0, 0, 0)

    def _release(self, kind: str, code: int) -> None:
        self._send(_KEY_RELEASE if kind == "key" else _BUTTON_RELEASE, code)
        self._connection.sync()
        if (kind, code) in self._held:
            self._held.remove((kind, code))
        self._switch.release(kind, code)

    @contextmanager
    def _released_at_end(self, start: Point | None = None) -> Iterator[None]:
        """Release what is still pressed, in reverse order; an interrupted drag is released at its start."""
        try:
            yield
        finally:
            self.release_all(start)

    def release_all(self, start: Point | None = None) -> None:
        """Release all keys and buttons that this object has pressed."""
        with self._connection.frozen():
            if start is not None and self._held:
                self._warp(start)
            for kind, code in reversed(self._held[:]):
                self._release(kind, code)

    # --- private windows ------------------------------------------------------------------------------------------

    def _refuse_private(self, chain: Sequence[int], point: Point | None) -> None:
        reason = self._screen.private_reason(chain)
        if reason:
            where = "has the keyboard focus" if point is None else "is at that point"
            raise private_window_error(f"A private window {where}: {reason}.")

    def _refuse_grabs(self) -> None:
        """Reject input that a private window may have redirected to itself by a grab.

        The owner of a grab cannot be queried. A popup of a program that is not private explains a grab.
        """
        with self._connection.frozen():
            windows = self._screen.windows()
            private = [window for window in windows if window.private]
            if not private:
                return
            popup = next((window for window in windows if window.is_popup), None)
            if popup is not None and popup.private:
                raise private_window_error(f"A private window has a menu or a dialog open: {popup.private}.")
            if popup is None and self._is_grabbed():
                raise private_window_error(
                    "A program has grabbed the keyboard or the pointer, and a private window is open."
                )

    def _is_grabbed(self) -> bool:
        core, root = self._connection.core, self._connection.root
        keyboard = core.GrabKeyboard(True, root, 0, GrabMode.Async, GrabMode.Async).reply().status  # noqa: FBT003
        if keyboard == GrabStatus.Success:
            core.UngrabKeyboard(0)
        pointer = core.GrabPointer(True, root, 0, GrabMode.Async, GrabMode.Async, 0, 0, 0).reply().status  # noqa: FBT003
        if pointer == GrabStatus.Success:
            core.UngrabPointer(0)
        return GrabStatus.AlreadyGrabbed in (keyboard, pointer)

    # --- waiting --------------------------------------------------------------------------------------------------

    def _await_delivery(self, pause: Pause) -> None:
        """Wait until the server reports the button as released.

        A window manager that intercepts clicks delays pointer events, but not the keys that are typed next.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._connection.core.QueryPointer(self._connection.root).reply().mask & _BUTTONS:
            if time.monotonic() > deadline:
                return
            pause(POLL_SECONDS)

    def _settle(self, chain: Sequence[int], pause: Pause) -> None:
        """Wait until the program has handled the input."""
        if not chain or not self._ping(self._screen.client(chain[0]), pause):
            pause(QUIET_SECONDS)

    def _answers_pings(self, window: int) -> bool:
        """Whether a program says that it answers pings."""
        return self._connection.atom("_NET_WM_PING") in self._connection.numbers(window, "WM_PROTOCOLS")

    def _ping(self, window: int, pause: Pause, patience: float = SETTLE_SECONDS) -> bool:
        """Wait for a program's reply to a ping, which it sends after handling earlier input; return False on timeout.

        This is the ping of window managers: the program sends the message back to the root window.
        """
        if not self._answers_pings(window):
            return False
        listener = self._ping_listener()
        ping, stamp = listener.atom("_NET_WM_PING"), int.from_bytes(os.urandom(3), "big")
        message = _message(window, listener.atom("WM_PROTOCOLS"), [ping, stamp, window, 0, 0])
        listener.core.SendEvent(False, window, EventMask.NoEvent, message)  # noqa: FBT003
        listener.x.flush()
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                event = listener.x.poll_for_event()
            except xcffib.Error:
                return False  # the window is gone
            if event is None:
                pause(0)
                select.select([listener.x.get_file_descriptor()], [], [], POLL_SECONDS)
            elif isinstance(event, ClientMessageEvent) and list(event.data.data32)[:2] == [ping, stamp]:
                return True
        return False

    def _ping_listener(self) -> XConnection:
        """Return a connection that receives the messages of programs to the root window."""
        if self._listener is None:
            self._listener = listener = XConnection(self._connection.name)
            mask = xcffib.xproto.CW.EventMask
            listener.core.ChangeWindowAttributes(listener.root, mask, [EventMask.SubstructureNotify])
            listener.sync()
        return self._listener

    def close(self) -> None:
        """Release all pressed keys and buttons, and disconnect."""
        self.release_all()
        if self._listener is not None:
            self._listener.close()

    def activate(self, window: ScreenWindow, pause: Pause) -> None:
        """Raise a window and give it the keyboard focus."""
        connection, client = self._connection, self._screen.client_of(window)
        with connection.frozen():
            self._refuse_private([window.id], None)
            message = _message(client, connection.atom("_NET_ACTIVE_WINDOW"), [2, 0, 0, 0, 0])
            mask = EventMask.SubstructureNotify | EventMask.SubstructureRedirect
            connection.core.SendEvent(False, connection.root, mask, message)  # noqa: FBT003
        deadline = time.monotonic() + ACTIVATE_SECONDS
        while client not in connection.numbers(connection.root, "_NET_ACTIVE_WINDOW"):
            if time.monotonic() > deadline:
                # there is no window manager
                with suppress(xcffib.Error):
                    stack = xcffib.xproto.ConfigWindow.StackMode
                    connection.core.ConfigureWindow(client, stack, [xcffib.xproto.StackMode.Above])
                    connection.core.SetInputFocusChecked(1, client, 0).check()
                return
            pause(POLL_SECONDS)


def _message(window: int, kind: int, numbers: list[int]) -> bytes:
    data = ClientMessageData.synthetic(numbers, "I" * 5)
    packed: bytes = ClientMessageEvent.synthetic(32, window, kind, data).pack()
    return packed
