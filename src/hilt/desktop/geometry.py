"""Points and boxes in screen pixels, and their conversion to image coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import floor
from typing import NamedTuple


class Point(NamedTuple):
    """A place on the screen."""

    x: int
    y: int


class Box(NamedTuple):
    """A rectangle on the screen."""

    x: int
    y: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """The first column to its right."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        """The first row below it."""
        return self.y + self.height

    @property
    def center(self) -> Point:
        """The pixel in its middle."""
        return Point(self.x + self.width // 2, self.y + self.height // 2)

    @property
    def is_empty(self) -> bool:
        """Whether it has no pixels."""
        return self.width <= 0 or self.height <= 0

    def contains(self, point: Point) -> bool:
        """Whether a point is in it."""
        return self.x <= point.x < self.right and self.y <= point.y < self.bottom

    def clipped(self, other: Box) -> Box:
        """Return the intersection with another box, which may be empty."""
        x, y = max(self.x, other.x), max(self.y, other.y)
        return Box(x, y, max(0, min(self.right, other.right) - x), max(0, min(self.bottom, other.bottom) - y))

    def overlap(self, other: Box) -> int:
        """Return the number of pixels that two boxes share."""
        x, y, width, height = self
        other_x, other_y, other_width, other_height = other
        wide = min(x + width, other_x + other_width) - max(x, other_x)
        if wide <= 0:
            return 0
        return wide * max(0, min(y + height, other_y + other_height) - max(y, other_y))

    def without(self, other: Box) -> Iterator[Box]:
        """Yield the parts that are not in another box."""
        inner = self.clipped(other)
        if inner.is_empty:
            yield self
            return
        parts = (
            Box(self.x, self.y, self.width, inner.y - self.y),
            Box(self.x, inner.bottom, self.width, self.bottom - inner.bottom),
            Box(self.x, inner.y, inner.x - self.x, inner.height),
            Box(inner.right, inner.y, self.right - inner.right, inner.height),
        )
        yield from (part for part in parts if not part.is_empty)


def around(boxes: Sequence[Box]) -> Box:
    """Return the smallest box that contains all of these."""
    x, y = min(box.x for box in boxes), min(box.y for box in boxes)
    return Box(x, y, max(box.right for box in boxes) - x, max(box.bottom for box in boxes) - y)


def uncovered(box: Box, covers: Iterable[Box]) -> list[Box]:
    """Return the parts of a box that no cover hides."""
    parts = [box] if not box.is_empty else []
    for cover in covers:
        parts = [rest for part in parts for rest in part.without(cover)]
    return parts


class ImageFrame(NamedTuple):
    """Which part of the screen an image shows, how large, and the width of the margins to its left and right."""

    shown: Box
    scale: float = 1.0  # image pixels per screen pixel
    margin: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the image."""
        width, height = round(self.shown.width * self.scale), round(self.shown.height * self.scale)
        return max(1, width) + 2 * self.margin, max(1, height)

    def to_screen(self, x: float, y: float) -> Point:
        """Return the screen pixel at a point of the image."""
        return Point(
            self.shown.x + floor((x - self.margin + 0.5) / self.scale), self.shown.y + floor((y + 0.5) / self.scale)
        )

    def to_image(self, point: Point) -> Point:
        """Return the point of the image that shows a screen pixel."""
        x = int((point.x - self.shown.x + 0.5) * self.scale)
        return Point(x + self.margin, int((point.y - self.shown.y + 0.5) * self.scale))

    def box_to_image(self, box: Box) -> Box:
        """Return the part of the image that shows a box."""
        x, y = round((box.x - self.shown.x) * self.scale), round((box.y - self.shown.y) * self.scale)
        right, bottom = round((box.right - self.shown.x) * self.scale), round((box.bottom - self.shown.y) * self.scale)
        return Box(x + self.margin, y, max(1, right - x), max(1, bottom - y))


def fitted(shown: Box, longest: int) -> ImageFrame:
    """Return the frame of an image whose longest side is at most `longest`; small screens are not enlarged."""
    return ImageFrame(shown, min(1.0, longest / max(shown.width, shown.height, 1)))
