from __future__ import annotations

import json

import pytest

from hilt.desktop.element_map import ELEMENTS_MAX, EXPIRES_SECONDS, ElementMap, NumberedElement
from hilt.desktop.geometry import Box, ImageFrame, Point
from hilt.desktop.interface import Element
from hilt.errors import ToolError


def an_element(path: str, seen: float = 100.0) -> NumberedElement:
    box = Box(1, 2, 30, 40)
    element = Element((":1.1", path), 7, "push button", "Save", "", "focused", box, box, 5, 3, True)
    return NumberedElement(element, Point(16, 22), seen)


def test_a_map_is_restored_from_json():
    element_map = ElementMap()
    element_map.frame = ImageFrame(Box(10, 20, 640, 400), 0.5, 40)
    element_map.replace([an_element("/1"), an_element("/2")])

    restored = ElementMap(json.loads(json.dumps(element_map.stored())))

    assert (restored.frame, restored.numbered) == (element_map.frame, element_map.numbered)


@pytest.mark.parametrize("stored", [None, 1, [], {}, {"frame": None, "elements": []}, {"frame": [1], "elements": [[]]}])
def test_invalid_json_is_an_empty_map(stored):
    assert ElementMap(stored).numbered == []


@pytest.mark.parametrize(
    "number, called, is_valid",
    [
        (1, 100.0, True),
        (1, 100.0 + EXPIRES_SECONDS, True),
        (1, 101.0 + EXPIRES_SECONDS, False),
        (1, 99.9, False),  # numbered again after the call was made
        (2, 100.0, False),
    ],
)
def test_a_number_is_valid_for_calls_made_shortly_after_it_was_seen(number, called, is_valid):
    element_map = ElementMap()
    element_map.replace([an_element("/1")])

    if is_valid:
        assert element_map.get(number, called) == an_element("/1")
    else:
        with pytest.raises(ToolError) as raised:
            element_map.get(number, called)
        assert raised.value.code == "stale_elements"


def test_an_element_keeps_its_number_and_new_ones_get_the_next():
    element_map = ElementMap()
    element_map.replace([an_element("/1"), an_element("/2")])

    assert element_map.add(an_element("/2", seen=120.0)) == 2
    assert element_map.get(2, 120.0).seen == 120.0
    assert element_map.add(an_element("/3")) == 3
    for number in range(2 * ELEMENTS_MAX):
        element_map.add(an_element(f"/more/{number}"))
    assert len(element_map.numbered) <= ELEMENTS_MAX
