"""Set-of-Mark: numbered boxes around elements, drawn on a screenshot.

A label is outside its own element, overlaps no other label, and covers as little ink as possible. If there is no room
next to an element, its label is drawn further away, with a line; if there is no room at all, the image gets margins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFilter, ImageFont

from hilt.desktop.geometry import Box, ImageFrame

FONT_PIXELS = 13
MARGIN_PIXELS = 40
LINE_PIXELS = 2
NOTCH_PIXELS = 4
FAR_STEPS = 6  # rings of positions around an element, one label apart
_PADDING = 2
_BACKGROUND = (238, 238, 238)
# dark enough for white digits, and different from their neighbours
_COLORS = ("#c2185b", "#1565c0", "#2e7d32", "#6a1b9a", "#bf360c", "#00695c", "#4e342e")


class _Label(NamedTuple):
    box: Box
    cost: float
    is_far: bool


class MarkedImage(NamedTuple):
    """A screenshot with numbers, and its frame."""

    image: Image.Image
    frame: ImageFrame
    unplaced: frozenset[int]  # indexes of boxes whose number did not fit


def draw_marks(image: Image.Image, frame: ImageFrame, boxes: Sequence[Box]) -> MarkedImage:
    """Number boxes of the screen on an image of it, from 1."""
    drawn = _draw(image, frame, boxes)
    if not drawn.unplaced:
        return drawn
    wider = frame._replace(margin=MARGIN_PIXELS)
    canvas = Image.new("RGB", wider.size, _BACKGROUND)
    canvas.paste(image, (MARGIN_PIXELS, 0))
    return _draw(canvas, wider, boxes)


def _draw(image: Image.Image, frame: ImageFrame, boxes: Sequence[Box]) -> MarkedImage:
    font = ImageFont.load_default(FONT_PIXELS)
    ink = image.convert("L").filter(ImageFilter.FIND_EDGES)
    canvas = image.copy()
    pen = ImageDraw.Draw(canvas)
    area = Box(0, 0, *canvas.size)
    boxes_in_image = [frame.box_to_image(box).clipped(area) for box in boxes]
    sizes = [_size(pen, str(number), font) for number in range(1, len(boxes) + 1)]
    labels: dict[int, _Label] = {}
    for index in sorted(
        range(len(boxes_in_image)), key=lambda index: boxes_in_image[index].width * boxes_in_image[index].height
    ):
        label = _best_label(
            boxes_in_image[index], sizes[index], area, boxes_in_image, [other.box for other in labels.values()], ink
        )
        if label is not None:
            labels[index] = label
    for index, box in enumerate(boxes_in_image):
        if index in labels:
            pen.rectangle((box.x, box.y, box.right - 1, box.bottom - 1), outline=_color(index), width=LINE_PIXELS)
    for index, label in labels.items():
        if label.is_far:
            start, end = _nearest(label.box, boxes_in_image[index])
            pen.line((*start, *end), fill="white", width=LINE_PIXELS + 2)
            pen.line((*start, *end), fill=_color(index), width=LINE_PIXELS)
    for index, label in labels.items():
        x, y, right, bottom = label.box.x, label.box.y, label.box.right - 1, label.box.bottom - 1
        pen.polygon(_notch(label.box, boxes_in_image[index]), fill=_color(index))
        pen.rectangle((x, y, right, bottom), fill=_color(index))
        middle = ((x + right + 1) / 2, (y + bottom + 1) / 2)
        pen.text(middle, str(index + 1), fill="white", font=font, anchor="mm")
    return MarkedImage(canvas, frame, frozenset(range(len(boxes))) - labels.keys())


def _color(index: int) -> str:
    return _COLORS[index % len(_COLORS)]


def _notch(label: Box, own: Box) -> list[tuple[int, int]]:
    """Return a small triangle that points from a label to its box: the position alone may fit two boxes."""
    (x, y), (to_x, to_y) = _nearest(label, own)
    dx, dy = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
    tip = to_x + NOTCH_PIXELS * dx, to_y + NOTCH_PIXELS * dy
    if max(abs(to_x - x), abs(to_y - y)) > NOTCH_PIXELS:
        return [(x, y)] * 3  # far away, with a line
    if dx and dy:
        return [(x - NOTCH_PIXELS * dx, y), (x, y - NOTCH_PIXELS * dy), tip]
    return [(x - NOTCH_PIXELS * dy, y - NOTCH_PIXELS * dx), (x + NOTCH_PIXELS * dy, y + NOTCH_PIXELS * dx), tip]


def _size(pen: ImageDraw.ImageDraw, text: str, font: ImageFont.ImageFont | ImageFont.FreeTypeFont) -> tuple[int, int]:
    return int(pen.textlength(text, font=font)) + 2 * _PADDING + 2, FONT_PIXELS + _PADDING


def _best_label(
    own: Box, size: tuple[int, int], area: Box, others: Sequence[Box], occupied: Sequence[Box], ink: Image.Image
) -> _Label | None:
    """Return the label of a box at the best free position; None if there is none."""
    for candidates, is_far in ((_beside(own, *size), False), (_around(own, *size), True)):
        free = [
            candidate
            for candidate in candidates
            if candidate.clipped(area) == candidate
            and not own.overlap(candidate)
            and not _overlaps_any(candidate, occupied)
        ]
        reach = 2 * (FAR_STEPS + 2 if is_far else 1) * max(size)
        zone = Box(own.x - reach, own.y - reach, own.width + 2 * reach, own.height + 2 * reach)
        near = [other for other in others if other != own and other.overlap(zone)]
        rated = [_Label(candidate, _cost(candidate, own, near, ink), is_far) for candidate in free]
        if rated:
            return min(rated, key=lambda label: label.cost)
    return None


def _overlaps_any(box: Box, occupied: Sequence[Box]) -> bool:
    return any(box.overlap(other) for other in occupied)


def _beside(own: Box, width: int, height: int) -> Iterator[Box]:
    """Yield positions that touch the box: above, left, right, below."""
    middle_x, middle_y = own.x + (own.width - width) // 2, own.y + (own.height - height) // 2
    for x, y in (
        (own.x, own.y - height),
        (own.x - width, own.y),
        (own.x - width, middle_y),
        (own.right, own.y),
        (own.right, middle_y),
        (own.right - width, own.y - height),
        (middle_x, own.y - height),
        (own.x, own.bottom),
        (own.right - width, own.bottom),
        (middle_x, own.bottom),
        (own.x - width, own.bottom - height),
        (own.right, own.bottom - height),
        (own.x - width, own.y - height),
        (own.right, own.y - height),
    ):
        yield Box(x, y, width, height)


def _around(own: Box, width: int, height: int) -> Iterator[Box]:
    """Yield positions further away."""
    for ring in range(1, FAR_STEPS + 1):
        for x in range(own.x - ring * width, own.right + ring * width, max(width // 2, 1)):
            yield Box(x, own.y - (ring + 1) * height, width, height)
            yield Box(x, own.bottom + ring * height, width, height)
        for y in range(own.y - ring * height, own.bottom + ring * height, max(height // 2, 1)):
            yield Box(own.x - (ring + 1) * width, y, width, height)
            yield Box(own.right + ring * width, y, width, height)


def _cost(candidate: Box, own: Box, others: Sequence[Box], ink: Image.Image) -> float:
    """Return the cost of a label position: the ink and other elements that it covers, and its distance."""
    edges = (candidate.x, candidate.y, candidate.right, candidate.bottom)
    covered_ink = ink.crop(edges).resize((1, 1), Image.Resampling.BOX).getpixel((0, 0))
    covered = sum(candidate.overlap(other) for other in others)
    start, end = _nearest(candidate, own)
    distance = abs(start[0] - end[0]) + abs(start[1] - end[1])
    ink_cost = float(covered_ink) if isinstance(covered_ink, int | float) else 0.0
    return ink_cost + 80 * covered / (candidate.width * candidate.height) + distance


def _nearest(one: Box, other: Box) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the points of two boxes that are closest to each other."""
    x = sorted((one.x, one.right - 1, other.x, other.right - 1))
    y = sorted((one.y, one.bottom - 1, other.y, other.bottom - 1))
    middle_x, middle_y = (x[1] + x[2]) // 2, (y[1] + y[2]) // 2

    def inside(box: Box) -> tuple[int, int]:
        return min(max(middle_x, box.x), box.right - 1), min(max(middle_y, box.y), box.bottom - 1)

    return inside(one), inside(other)
