from __future__ import annotations

import importlib.util

import pytest

from hilt.desktop.displays import find_display, is_offered, lock_name
from hilt.errors import ToolError

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("xcffib"), reason="the extra desktop is not installed")


@pytest.mark.parametrize(
    "environ, chosen, expected",
    [
        ({"DISPLAY": ":3"}, None, ":3"),
        ({"DISPLAY": ":3"}, ":4", ":4"),
        ({"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}, ":4", ":4"),
    ],
)
def test_the_display_of_the_environment_or_the_settings_is_used(environ, chosen, expected):
    assert find_display(environ, chosen) == expected
    assert is_offered(environ, chosen)


@pytest.mark.parametrize(
    "environ, reason",
    [
        ({}, "DISPLAY is not set"),
        ({"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}, "Wayland"),
        ({"DISPLAY": ":0", "XDG_SESSION_TYPE": "wayland"}, "Wayland"),
    ],
)
def test_a_missing_display_is_an_error_with_the_reason_and_what_to_start(environ, reason):
    with pytest.raises(ToolError, match=reason) as raised:
        find_display(environ, None)
    assert raised.value.code == "no_display"
    assert "Xvfb" in raised.value.suggestion
    assert not is_offered(environ, None)


@pytest.mark.parametrize("one, other", [(":1", ":1.0"), ("host:1", "host:1.2")])
def test_the_screens_of_a_display_share_a_lock(one, other):
    assert lock_name(one) == lock_name(other)
    assert "/" not in lock_name("/tmp/launch/org.xquartz:0")
