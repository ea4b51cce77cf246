from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hilt.desktop.geometry import Box, ImageFrame, Point, fitted, uncovered

COORDINATES = st.integers(-50, 50)
BOXES = st.builds(Box, COORDINATES, COORDINATES, st.integers(1, 40), st.integers(1, 40))


def points(box: Box) -> set[tuple[int, int]]:
    return {(x, y) for x in range(box.x, box.right) for y in range(box.y, box.bottom)}


@given(BOXES, st.lists(BOXES, max_size=4))
def test_the_uncovered_parts_are_in_the_box_and_in_no_cover(box, covers):
    parts = uncovered(box, covers)

    expected = points(box).difference(*map(points, covers))
    assert set().union(*map(points, parts)) == expected
    assert sum(part.width * part.height for part in parts) == len(expected)  # the parts do not overlap


@given(BOXES, BOXES)
def test_an_overlap_counts_the_shared_pixels(one, other):
    assert one.overlap(other) == len(points(one) & points(other)) == len(points(one.clipped(other)))


@given(st.integers(1, 8000), st.integers(1, 5000), st.integers(100, 3000), st.data())
def test_a_point_in_the_image_maps_back_to_its_pixel(width, height, longest, data):
    frame = fitted(Box(0, 0, width, height), longest)
    assert max(frame.size) <= longest or frame.scale == 1
    x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))

    back = frame.to_screen(*frame.to_image(Point(x, y)))

    assert abs(back.x - x) <= 1 / frame.scale
    assert abs(back.y - y) <= 1 / frame.scale


def test_a_margin_shifts_points_in_the_image_but_not_on_the_screen():
    frame = ImageFrame(Box(100, 50, 200, 100), 0.5, 40)

    assert frame.size == (180, 50)
    assert frame.to_screen(40, 0) == Point(101, 51)
    assert frame.to_screen(39, -1) == Point(99, 49)
    assert frame.box_to_image(Box(100, 50, 20, 10)) == Box(40, 0, 10, 5)
