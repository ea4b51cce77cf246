"""The numbers of the elements that a session saw last, and the image that its coordinates refer to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hilt.desktop.geometry import Box, ImageFrame, Point
from hilt.desktop.interface import Element
from hilt.errors import ToolError

KEY = "desktop"  # of the value that the session stores
EXPIRES_SECONDS = 30.0
ELEMENTS_MAX = 400


class NumberedElement(NamedTuple):
    """An element, where to click it, and when it was seen."""

    element: Element
    point: Point
    seen: float


class ElementMap:
    """Resolves a session's numbers and coordinates; stored between calls as JSON."""

    def __init__(self, stored: Any = None) -> None:
        self.frame: ImageFrame | None = None
        self.numbered: list[NumberedElement] = []
        with suppress(TypeError, ValueError, KeyError):  # stored by another version of hilt
            if stored is not None:
                shown, scale, margin = stored["frame"]
                self.numbered = [
                    NumberedElement(_element(element), Point(*point), seen)
                    for element, point, seen in stored["elements"]
                ]
                self.frame = ImageFrame(Box(*shown), scale, margin)

    def stored(self) -> dict[str, Any]:
        """Return the JSON to store."""
        frame = None if self.frame is None else [list(self.frame.shown), self.frame.scale, self.frame.margin]
        return {
            "frame": frame,
            "elements": [[list(item.element), list(item.point), item.seen] for item in self.numbered],
        }

    def replace(self, items: Sequence[NumberedElement]) -> None:
        """Number these elements, from 1."""
        self.numbered = list(items)[:ELEMENTS_MAX]

    def add(self, item: NumberedElement) -> int:
        """Return the number of an element, or a new number; update when it was seen."""
        for index, other in enumerate(self.numbered):
            if other.element.key == item.element.key:
                self.numbered[index] = item
                return index + 1
        if len(self.numbered) >= ELEMENTS_MAX:
            self.numbered.clear()
        self.numbered.append(item)
        return len(self.numbered)

    def get(self, number: int, called: float) -> NumberedElement:
        """Return an element by its number; raise unless it was numbered shortly before the call."""
        if not 1 <= number <= len(self.numbered):
            raise stale(
                f"There is no element {number}" + (f": the last one is {len(self.numbered)}." if self.numbered else ".")
            )
        item = self.numbered[number - 1]
        if item.seen > called:
            raise stale(f"Element {number} was numbered again after this call was made.")
        if called - item.seen > EXPIRES_SECONDS:
            age = called - item.seen
            raise stale(f"Element {number} was seen {age:.0f} s ago; numbers expire after {EXPIRES_SECONDS:.0f} s.")
        return item


def stale(message: str) -> ToolError:
    """Return the error for a number that is no longer valid."""
    return ToolError("stale_elements", message)


def _element(stored: Any) -> Element:
    key, pid, role, name, value, states, extents, box, *rest = stored
    return Element(tuple(key), pid, role, name, value, states, Box(*extents), Box(*box), *rest)
