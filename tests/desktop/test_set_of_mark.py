from __future__ import annotations

import random

import pytest
from PIL import Image

from hilt.desktop import set_of_mark
from hilt.desktop.geometry import Box, ImageFrame
from hilt.desktop.set_of_mark import draw_marks


def a_grid(columns: int, rows: int, width: int, height: int, x: int = 0, y: int = 0) -> list[Box]:
    return [Box(x + c * width, y + r * height, width, height) for r in range(rows) for c in range(columns)]


def scattered(count: int) -> list[Box]:
    random.seed(7)
    return [
        Box(random.randrange(1200), random.randrange(760), random.randrange(3, 80), random.randrange(3, 40))
        for _ in range(count)
    ]


SCREENS = {
    "a dense grid": a_grid(10, 8, 60, 30, 300, 200),
    "rows as wide as the screen": a_grid(1, 40, 1280, 20),
    "rows of two cells as wide as the screen": a_grid(2, 30, 640, 24),
    "tiny buttons side by side": a_grid(40, 2, 16, 16, 300, 300),
    "one that fills the screen": [Box(0, 0, 1280, 800)],
    "scattered": scattered(120),
    "all at one place": [Box(600, 400, 40, 20)] * 30,
}


@pytest.mark.parametrize("boxes", SCREENS.values(), ids=SCREENS)
def test_labels_cover_neither_each_other_nor_their_element(boxes, monkeypatch):
    placed: list[tuple[Box, Box]] = []
    best_label = set_of_mark._best_label

    def recorded(own, *arguments):
        label = best_label(own, *arguments)
        if label is not None:
            placed.append((label.box, own))
        return label

    monkeypatch.setattr(set_of_mark, "_best_label", recorded)
    image = Image.new("RGB", (1280, 800), "white")

    marked = draw_marks(image, ImageFrame(Box(0, 0, 1280, 800)), boxes)

    assert marked.unplaced == frozenset()
    labels = placed[-len(boxes) :]  # those of the last attempt
    area = Box(0, 0, *marked.image.size)
    for number, (label, own) in enumerate(labels):
        assert label.clipped(area) == label
        assert not label.overlap(own)
        assert not any(label.overlap(other) for other, _ in labels[number + 1 :])
    assert marked.frame.margin == (marked.image.width - 1280) // 2


def test_a_number_is_drawn_in_white_on_the_colour_of_its_box():
    image = Image.new("RGB", (200, 100), "white")

    marked = draw_marks(image, ImageFrame(Box(0, 0, 200, 100)), [Box(80, 40, 60, 30)]).image

    edge = marked.getpixel((80, 55))
    assert edge == (0xC2, 0x18, 0x5B)
    colours = {marked.getpixel((x, y)) for x in range(60, 100) for y in range(20, 40)}
    assert {edge, (255, 255, 255)} <= colours


def test_nothing_changes_without_elements():
    image = Image.new("RGB", (50, 50), "red")

    assert draw_marks(image, ImageFrame(Box(0, 0, 50, 50)), []).image.tobytes() == image.tobytes()
