"""The interface of a desktop backend, and the values that it exchanges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from hilt.desktop.geometry import Box, Point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from PIL.Image import Image

Pause = Callable[[float], None]  # waits; raises if the call was stopped or the panic key was pressed


class ScreenWindow(NamedTuple):
    """A window on the screen."""

    id: int
    pid: int  # of the process that opened it; 0 if unknown
    app: str
    title: str
    box: Box
    private: str = ""  # why it is private; empty if it is not
    is_active: bool = False
    is_popup: bool = False  # such as a menu or tooltip, which the window manager does not control
    is_opaque: bool = True  # hides everything behind it


class Capture(NamedTuple):
    """The pixels of the screen, private windows blacked out, and the windows at that moment, topmost first."""

    image: Image
    windows: tuple[ScreenWindow, ...]


class Element(NamedTuple):
    """A user interface element, as the accessibility interface of its program describes it."""

    key: tuple[str, str]  # how to find it again
    pid: int
    role: str
    name: str
    value: str  # its text or number
    states: str  # such as "checked, focused"
    extents: Box  # as reported by the program
    box: Box  # the part that its containers do not hide
    window: int  # the id of its window
    depth: int
    is_interactive: bool


class ElementTree(NamedTuple):
    """Elements in tree order, and notes on missing ones."""

    elements: tuple[Element, ...]
    notes: tuple[str, ...] = ()


class ScreenBackend(Protocol):
    """The screen, its windows and its input devices.

    Methods that send input refuse to send it to private windows, and leave no key or button pressed.
    """

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The exceptions that its methods raise if the display fails or changes during a call."""

    def is_alive(self) -> bool:
        """Whether the display still responds."""

    @property
    def area(self) -> Box:
        """The whole screen: all monitors on one canvas."""

    def windows(self) -> tuple[ScreenWindow, ...]:
        """Return the visible windows, topmost first."""

    def capture(self) -> Capture:
        """Return the pixels of the screen."""

    def owners_at(self, point: Point) -> set[int]:
        """Return the processes whose windows are at a point: the topmost window, and those inside it."""

    def pointer(self) -> Point:
        """Return the position of the pointer."""

    def move(self, point: Point) -> None:
        """Move the pointer."""

    def click(self, point: Point, button: int, count: int, pause: Pause) -> None:
        """Press and release a button, 1 left, 2 middle or 3 right."""

    def drag(self, points: Sequence[Point], seconds: float, pause: Pause) -> None:
        """Press the left button at the first point, move through the others and release it at the last."""

    def scroll(self, point: Point, dx: int, dy: int, pause: Pause) -> None:
        """Turn the wheel by these steps; positive is right and down."""

    def type_text(self, text: str, delay: float, pause: Pause) -> None:
        """Type text where the keyboard focus is."""

    def press_keys(self, keys: Sequence[str], pause: Pause) -> None:
        """Press keys together, in this order, and release them."""

    def activate(self, window: ScreenWindow, pause: Pause) -> None:
        """Raise a window and give it the keyboard focus."""

    def watch_panic(self, alarm: Callable[[], None]) -> Callable[[], None]:
        """Call `alarm`, from another thread, when the panic key is pressed; return a function that stops watching."""

    def close(self) -> None:
        """Release all pressed keys and buttons, and disconnect."""


class AccessibleElements(Protocol):
    """The accessibility interface of the programs on the screen."""

    def tree(self, windows: Sequence[ScreenWindow], pause: Pause) -> ElementTree:
        """Return the elements in these windows that their containers do not hide, those of the topmost window first."""

    def is_unchanged(self, element: Element) -> bool:
        """Whether an element still exists, with the same role, name, position and size."""

    def act(self, element: Element) -> bool:
        """Run the element's click action; return False if it has none."""

    def close(self) -> None:
        """Disconnect."""
