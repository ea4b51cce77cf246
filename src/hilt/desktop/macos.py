"""The desktop of macOS: Quartz for windows, pixels and input, the Accessibility interface for elements.

Written against the documentation of Apple and pyobjc; not tested on a Mac. Unlike under X11, nothing releases a key if
hilt is killed in the few hundredths of a second for which the key is pressed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import ApplicationServices
import Quartz
from AppKit import NSApplicationActivateIgnoringOtherApps, NSRunningApplication

from hilt.desktop.geometry import Box, Point, around
from hilt.desktop.interface import Capture, Element, ElementTree, Pause, ScreenWindow
from hilt.desktop.privacy import Privacy, hidden_parts, private_window_error
from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from PIL.Image import Image

PRESS_SECONDS = 0.03
WITHIN_SECONDS = 1.0  # between the two presses of the panic key
NODES_MAX = 3000
DEPTH_MAX = 40
PROGRAM_SECONDS = 2.0
NAME_CHARACTERS = 200
TEXT_PIECE = 20  # UTF-16 units in one keyboard event
_ESCAPE = 53
_MARK = 0x68696C74  # in the user data of events that hilt sends

# virtual key codes of the keyboard, whatever its layout
_KEYS = {
    "enter": 36,
    "tab": 48,
    "space": 49,
    "escape": _ESCAPE,
    "delete": 117,
    "backspace": 51,
    "insert": 114,
    "up": 126,
    "down": 125,
    "left": 123,
    "right": 124,
    "home": 115,
    "end": 119,
    "pageup": 116,
    "pagedown": 121,
    "menu": 110,
    "ctrl": 59,
    "alt": 58,
    "shift": 56,
    "cmd": 55,
    **dict(
        zip(
            (f"f{number}" for number in range(1, 13)),
            (122, 120, 99, 118, 96, 97, 98, 100, 101, 109, 103, 111),
            strict=True,
        )
    ),
    **dict(zip("asdfhgzxcv", range(10), strict=True)),
    **dict(zip("bqweryt", range(11, 18), strict=True)),
    **dict(zip("123465=97-80", range(18, 30), strict=True)),
    **dict(zip("]ou[ip", range(30, 36), strict=True)),
    **dict(zip("lj'k;\\,/nm.", range(37, 48), strict=True)),
    "`": 50,
}
_TYPED = {"\n": "enter", "\t": "tab"}
_FLAGS = {
    "ctrl": Quartz.kCGEventFlagMaskControl,
    "alt": Quartz.kCGEventFlagMaskAlternate,
    "shift": Quartz.kCGEventFlagMaskShift,
    "cmd": Quartz.kCGEventFlagMaskCommand,
}
_PRESSED = frozenset(
    (
        *("AXButton", "AXCheckBox", "AXRadioButton", "AXPopUpButton", "AXMenuItem", "AXMenuBarItem", "AXMenuButton"),
        *("AXLink", "AXDisclosureTriangle", "AXComboBox"),
    )
)
_INTERACTIVE = _PRESSED | {"AXTextField", "AXTextArea", "AXSlider", "AXIncrementor", "AXRow", "AXCell", "AXTabGroup"}


class MacScreen:
    """The screen of a Mac."""

    failures: tuple[type[Exception], ...] = ()

    def __init__(self, privacy: Privacy) -> None:
        self._privacy = privacy
        self._source = Quartz.CGEventSourceCreate(Quartz.kCGEventSourceStateHIDSystemState)
        self._held: list[tuple[str, int]] = []
        if not ApplicationServices.AXIsProcessTrusted() or not Quartz.CGPreflightScreenCaptureAccess():
            raise ToolError(
                "no_display",
                "macOS does not let this program use Accessibility and Screen Recording.",
                suggestion="Ask the user to allow both in System Settings, Privacy & Security.",
            )

    def is_alive(self) -> bool:
        """Whether the display still responds."""
        return True

    @property
    def area(self) -> Box:
        """The whole screen: all monitors on one canvas, in points."""
        _, displays, _ = Quartz.CGGetActiveDisplayList(32, None, None)
        return around([_box(Quartz.CGDisplayBounds(display)) for display in displays])

    # --- looking --------------------------------------------------------------------------------------------------

    def windows(self) -> tuple[ScreenWindow, ...]:
        """Return the visible windows, topmost first."""
        options = Quartz.kCGWindowListOptionOnScreenOnly | Quartz.kCGWindowListExcludeDesktopElements
        active = _frontmost()
        windows = []
        for facts in Quartz.CGWindowListCopyWindowInfo(options, Quartz.kCGNullWindowID):
            bounds = facts[Quartz.kCGWindowBounds]
            box = Box(int(bounds["X"]), int(bounds["Y"]), int(bounds["Width"]), int(bounds["Height"]))
            if box.is_empty or not float(facts.get(Quartz.kCGWindowAlpha, 1)):
                continue
            pid, app = int(facts[Quartz.kCGWindowOwnerPID]), str(facts.get(Quartz.kCGWindowOwnerName, ""))
            title = str(facts.get(Quartz.kCGWindowName, "") or "")
            private = self._privacy.reason(pid, [app, _bundle(pid)], title)
            layer = int(facts.get(Quartz.kCGWindowLayer, 0))
            is_opaque = layer == 0 and float(facts.get(Quartz.kCGWindowAlpha, 1)) == 1
            windows.append(
                ScreenWindow(
                    int(facts[Quartz.kCGWindowNumber]),
                    pid,
                    app,
                    title,
                    box,
                    private,
                    pid == active,
                    layer != 0,
                    is_opaque,
                )
            )
        return tuple(windows)

    def capture(self) -> Capture:
        """Return the pixels of the screen, one for each point."""
        area = self.area
        before = self.windows()
        rectangle = Quartz.CGRectMake(area.x, area.y, area.width, area.height)
        # obsolete since macOS 15, but still available
        take = getattr(Quartz, "CGWindowListCreateImage", lambda *_: None)
        picture = take(
            rectangle,
            Quartz.kCGWindowListOptionOnScreenOnly,
            Quartz.kCGNullWindowID,
            Quartz.kCGWindowImageNominalResolution,
        )
        if picture is None:
            advice = "Ask the user to check Screen Recording in System Settings, Privacy & Security."
            raise ToolError("no_display", "macOS returned no picture of the screen.", suggestion=advice)
        windows = self.windows()
        image = _pixels(picture, area)
        # windows may have moved in between: hide those that were private before or after
        for box in (*hidden_parts(before), *hidden_parts(windows)):
            image.paste((0, 0, 0), (box.x - area.x, box.y - area.y, box.right - area.x, box.bottom - area.y))
        return Capture(image, windows)

    def owners_at(self, point: Point) -> set[int]:
        """Return the process whose window is at a point."""
        window = self._window_at(point)
        return set() if window is None else {window.pid}

    def _window_at(self, point: Point) -> ScreenWindow | None:
        return next((window for window in self.windows() if window.box.contains(point)), None)

    def pointer(self) -> Point:
        """Return the position of the pointer."""
        location = Quartz.CGEventGetLocation(Quartz.CGEventCreate(None))
        return Point(int(location.x), int(location.y))

    # --- the pointer ----------------------------------------------------------------------------------------------

    def move(self, point: Point) -> None:
        """Move the pointer, but not onto a private window."""
        self._refuse_private(point)
        kind = Quartz.kCGEventLeftMouseDragged if ("button", 1) in self._held else Quartz.kCGEventMouseMoved
        self._post(Quartz.CGEventCreateMouseEvent(self._source, kind, tuple(point), Quartz.kCGMouseButtonLeft))

    def click(self, point: Point, button: int, count: int, pause: Pause) -> None:
        """Press and release a button."""
        self.move(point)
        pause(PRESS_SECONDS)
        try:
            for number in range(1, count + 1):
                self._refuse_private(point)
                self._button(point, button, number, down=True)
                pause(PRESS_SECONDS)
                self._button(point, button, number, down=False)
        finally:
            self._release_all(point)
        pause(PRESS_SECONDS)

    def drag(self, points: Sequence[Point], seconds: float, pause: Pause) -> None:
        """Drag with the left button; if interrupted, release it at the start."""
        self.move(points[0])
        pause(PRESS_SECONDS)
        try:
            self._refuse_private(points[0])
            self._button(points[0], 1, 1, down=True)
            for point in points[1:]:
                self.move(point)
                pause(seconds / len(points))
            self._refuse_private(points[-1])
            self._button(points[-1], 1, 1, down=False)
        finally:
            self._release_all(points[0])

    def scroll(self, point: Point, dx: int, dy: int, pause: Pause) -> None:
        """Turn the wheel; macOS counts up and left as positive."""
        self.move(point)
        pause(PRESS_SECONDS)
        self._refuse_private(point)
        unit = Quartz.kCGScrollEventUnitLine
        self._post(Quartz.CGEventCreateScrollWheelEvent(self._source, unit, 2, -dy, -dx))
        pause(PRESS_SECONDS)

    def _button(self, point: Point, button: int, count: int, *, down: bool) -> None:
        left = button == 1
        if down:
            kind = Quartz.kCGEventLeftMouseDown if left else Quartz.kCGEventRightMouseDown
            self._held.append(("button", button))
        else:
            kind = Quartz.kCGEventLeftMouseUp if left else Quartz.kCGEventRightMouseUp
            self._held.remove(("button", button))
        which = Quartz.kCGMouseButtonLeft if left else Quartz.kCGMouseButtonRight
        event = Quartz.CGEventCreateMouseEvent(self._source, kind, tuple(point), which)
        Quartz.CGEventSetIntegerValueField(event, Quartz.kCGMouseEventClickState, count)
        self._post(event)

    # --- the keyboard ---------------------------------------------------------------------------------------------

    def type_text(self, text: str, delay: float, pause: Pause) -> None:
        """Type text: events can contain any characters."""
        for part in re.split("([\n\t])", text):
            if part in _TYPED:
                self.press_keys([_TYPED[part]], pause)
                continue
            for start in range(0, len(part), TEXT_PIECE // 2):
                piece = part[start : start + TEXT_PIECE // 2]
                self._refuse_private(None)
                for down in (True, False):
                    event = Quartz.CGEventCreateKeyboardEvent(self._source, 0, down)
                    Quartz.CGEventKeyboardSetUnicodeString(event, len(piece.encode("utf-16-le")) // 2, piece)
                    self._post(event)
                pause(max(delay * len(piece), PRESS_SECONDS))

    def press_keys(self, keys: Sequence[str], pause: Pause) -> None:
        """Press keys together, and release them in reverse order."""
        flags = 0
        try:
            for key in keys:
                code = _KEYS.get(key.casefold())
                if code is None:
                    message = f"The keyboard has no key {key}."
                    raise ToolError("tool_failed", message, suggestion="Use another key, or type.")
                self._refuse_private(None)
                flags |= _FLAGS.get(key, 0)
                self._key(code, flags, down=True)
            pause(PRESS_SECONDS)
        finally:
            self._release_all(self.pointer())
        pause(PRESS_SECONDS)

    def _key(self, code: int, flags: int, *, down: bool) -> None:
        if down:
            self._held.append(("key", code))
        event = Quartz.CGEventCreateKeyboardEvent(self._source, code, down)
        Quartz.CGEventSetFlags(event, flags)
        self._post(event)

    def _post(self, event: Any) -> None:
        Quartz.CGEventSetIntegerValueField(event, Quartz.kCGEventSourceUserData, _MARK)
        Quartz.CGEventPost(Quartz.kCGHIDEventTap, event)

    def _release_all(self, point: Point) -> None:
        for kind, code in reversed(self._held[:]):
            if kind == "key":
                self._held.remove((kind, code))
                self._key(code, 0, down=False)
            else:
                self._button(point, code, 1, down=False)

    def _refuse_private(self, point: Point | None) -> None:
        """Reject input to a private window at a point, or without one, to a private program with the keyboard focus."""
        if point is not None:
            window = self._window_at(point)
            private = "" if window is None else window.private
        else:
            active = _frontmost()
            private = self._privacy.program_reason(active, [_name(active), _bundle(active)])
            front = next((window for window in self.windows() if window.pid == active), None)
            private = private or ("" if front is None else front.private)
        if private:
            raise private_window_error(f"The input would go to a private window: {private}.")

    # --- windows and the panic key --------------------------------------------------------------------------------

    def activate(self, window: ScreenWindow, pause: Pause) -> None:
        """Bring the program of a window to the front."""
        program = NSRunningApplication.runningApplicationWithProcessIdentifier_(window.pid)
        if program is None or not program.activateWithOptions_(NSApplicationActivateIgnoringOtherApps):
            raise ToolError("tool_failed", f"macOS did not bring {window.app} to the front.", suggestion="Click it.")
        pause(PRESS_SECONDS)

    def watch_panic(self, alarm: Callable[[], None]) -> Callable[[], None]:
        """Call `alarm` when the user presses Escape twice."""
        import threading

        last = [float("-inf")]

        def seen(proxy: Any, kind: int, event: Any, data: Any) -> Any:
            if kind in (Quartz.kCGEventTapDisabledByTimeout, Quartz.kCGEventTapDisabledByUserInput):
                Quartz.CGEventTapEnable(tap, True)  # noqa: FBT003
                return event
            code = Quartz.CGEventGetIntegerValueField(event, Quartz.kCGKeyboardEventKeycode)
            is_own = Quartz.CGEventGetIntegerValueField(event, Quartz.kCGEventSourceUserData) == _MARK
            is_repeat = Quartz.CGEventGetIntegerValueField(event, Quartz.kCGKeyboardEventAutorepeat)
            if code == _ESCAPE and not is_own and not is_repeat:
                if time.monotonic() - last[0] <= WITHIN_SECONDS:
                    alarm()
                last[0] = time.monotonic()
            return event

        tap = Quartz.CGEventTapCreate(
            Quartz.kCGSessionEventTap,
            Quartz.kCGHeadInsertEventTap,
            Quartz.kCGEventTapOptionListenOnly,
            Quartz.CGEventMaskBit(Quartz.kCGEventKeyDown),
            seen,
            None,
        )
        if tap is None:
            message = "macOS does not let this program watch the panic key."
            advice = "Ask the user to allow it in System Settings, Privacy & Security: Input Monitoring."
            raise ToolError("no_display", message, suggestion=advice)
        loops: list[Any] = []
        running = threading.Event()

        def watch() -> None:
            loop = Quartz.CFRunLoopGetCurrent()
            source = Quartz.CFMachPortCreateRunLoopSource(None, tap, 0)
            Quartz.CFRunLoopAddSource(loop, source, Quartz.kCFRunLoopCommonModes)
            Quartz.CGEventTapEnable(tap, True)  # noqa: FBT003
            loops.append(loop)
            running.set()
            Quartz.CFRunLoopRun()

        thread = threading.Thread(target=watch, name="panic-key", daemon=True)
        thread.start()
        running.wait()

        def stop() -> None:
            Quartz.CGEventTapEnable(tap, False)  # noqa: FBT003
            Quartz.CFRunLoopStop(loops[0])
            thread.join()

        return stop

    def close(self) -> None:
        """Release all pressed keys and buttons."""
        self._release_all(self.pointer())


class MacElements:
    """The elements of the programs on a Mac, identified by their position in the last tree."""

    def __init__(self, privacy: Privacy) -> None:
        self._privacy = privacy
        self._nodes: dict[tuple[str, str], Any] = {}

    def tree(self, windows: Sequence[ScreenWindow], pause: Pause) -> ElementTree:
        """Return the elements in these windows."""
        self._nodes.clear()
        elements: list[Element] = []
        notes: list[str] = []
        by_program: dict[int, list[ScreenWindow]] = {}
        for window in windows:
            if not window.private:
                by_program.setdefault(window.pid, []).append(window)
        for pid, own in by_program.items():
            if self._privacy.program_reason(pid, [own[0].app, _bundle(pid)]):
                continue
            deadline = time.monotonic() + PROGRAM_SECONDS
            application = ApplicationServices.AXUIElementCreateApplication(pid)
            ApplicationServices.AXUIElementSetMessagingTimeout(application, PROGRAM_SECONDS)
            pending = [(application, 0, own[0].box)]
            count = 0
            while pending and count < NODES_MAX and time.monotonic() < deadline:
                pause(0)
                node, depth, clip = pending.pop()
                count += 1
                element = self._element(node, pid, depth, clip, own, count)
                if element is not None:
                    if self._privacy.title_reason(element.name) and element.role == "AXWindow":
                        continue
                    elements.append(element)
                    clip = element.box if element.role in ("AXScrollArea", "AXWindow") else clip
                if depth < DEPTH_MAX:
                    children = _attribute(node, "AXVisibleChildren") or _attribute(node, "AXChildren") or ()
                    pending += [(child, depth + 1, clip) for child in reversed(list(children))]
            if pending:
                notes.append(f"The tree of {own[0].app} is incomplete: it is too large or answers too slowly.")
        return ElementTree(tuple(elements), tuple(notes))

    def _element(
        self, node: Any, pid: int, depth: int, clip: Box, windows: Sequence[ScreenWindow], number: int
    ) -> Element | None:
        role = str(_attribute(node, "AXRole") or "")
        box = _frame(node)
        if not role or box is None:
            return None
        window = next((window for window in windows if window.box.contains(box.center)), None)
        if window is None:
            return None
        shown = box.clipped(window.box) if role == "AXWindow" else box.clipped(clip)
        name = _attribute(node, "AXTitle") or _attribute(node, "AXDescription") or ""
        is_secret = _attribute(node, "AXSubrole") == "AXSecureTextField"
        value = "" if is_secret else _attribute(node, "AXValue")
        is_enabled = _attribute(node, "AXEnabled") is not False
        states = "focused" if _attribute(node, "AXFocused") else ""
        key = (str(pid), str(number))
        self._nodes[key] = node
        return Element(
            key,
            pid,
            role,
            str(name)[:NAME_CHARACTERS],
            str(value)[:NAME_CHARACTERS] if isinstance(value, str | int | float) else "",
            states,
            box,
            shown,
            window.id,
            depth,
            role in _INTERACTIVE and is_enabled and not shown.is_empty,
        )

    def is_unchanged(self, element: Element) -> bool:
        """Whether an element still exists, with the same role, name, position and size."""
        node = self._nodes.get(element.key)
        if node is None or _frame(node) != element.extents:
            return False
        name = _attribute(node, "AXTitle") or _attribute(node, "AXDescription") or ""
        return _attribute(node, "AXRole") == element.role and str(name)[:NAME_CHARACTERS] == element.name

    def act(self, element: Element) -> bool:
        """Press the element; return False if it cannot be pressed."""
        node = self._nodes.get(element.key)
        if node is None or element.role not in _PRESSED:
            return False
        return bool(ApplicationServices.AXUIElementPerformAction(node, "AXPress") == 0)

    def close(self) -> None:
        """Drop the elements."""
        self._nodes.clear()


def _attribute(node: Any, name: str) -> Any:
    error, value = ApplicationServices.AXUIElementCopyAttributeValue(node, name, None)
    return None if error else value


def _frame(node: Any) -> Box | None:
    """Return the position and size of an element; None if it has none."""
    position, size = _attribute(node, "AXPosition"), _attribute(node, "AXSize")
    if position is None or size is None:
        return None
    has_origin, origin = ApplicationServices.AXValueGetValue(position, ApplicationServices.kAXValueCGPointType, None)
    has_extent, extent = ApplicationServices.AXValueGetValue(size, ApplicationServices.kAXValueCGSizeType, None)
    if not has_origin or not has_extent:
        return None
    return Box(int(origin.x), int(origin.y), int(extent.width), int(extent.height))


def _box(rectangle: Any) -> Box:
    origin, size = rectangle.origin, rectangle.size
    return Box(int(origin.x), int(origin.y), int(size.width), int(size.height))


def _frontmost() -> int:
    from AppKit import NSWorkspace

    program = NSWorkspace.sharedWorkspace().frontmostApplication()
    return 0 if program is None else int(program.processIdentifier())


def _bundle(pid: int) -> str:
    program = NSRunningApplication.runningApplicationWithProcessIdentifier_(pid)
    return "" if program is None else str(program.bundleIdentifier() or "").rpartition(".")[2]


def _name(pid: int) -> str:
    program = NSRunningApplication.runningApplicationWithProcessIdentifier_(pid)
    return "" if program is None else str(program.localizedName() or "")


def _pixels(picture: Any, area: Box) -> Image:
    from PIL import Image

    width, height = Quartz.CGImageGetWidth(picture), Quartz.CGImageGetHeight(picture)
    data = Quartz.CGDataProviderCopyData(Quartz.CGImageGetDataProvider(picture))
    stride = Quartz.CGImageGetBytesPerRow(picture)
    image = Image.frombuffer("RGB", (width, height), bytes(data), "raw", "BGRX", stride, 1).copy()
    return image if (width, height) == (area.width, area.height) else image.resize((area.width, area.height))
