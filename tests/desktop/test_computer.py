"""Desktop control, on an X server with a window manager and real programs."""

from __future__ import annotations

import base64
import io
import os
import re
import signal
import threading

import pytest

from hilt.call import Call
from hilt.desktop.x11 import input as x11_input
from hilt.testing import temporary_runtime
from tests.desktop.x_session import Agent, number_in, place_in
from tests.marks import wait_until
from tests.programs import program


def test_the_tool_is_listed_only_with_a_display(opened, base):
    assert "computer" in {entry.name for entry in opened.parts.authority.listed_tools("listing")}

    with temporary_runtime(base) as (runtime, _):
        assert "computer" not in {entry.name for entry in runtime.parts.authority.listed_tools("listing")}
        assert Agent(runtime, "listing").code("screenshot") == "approval_required"


def test_scheduler_mode_has_no_desktop(desktop):
    with desktop.runtime("scheduler", mode="scheduler", alwaysAllow=["computer"]) as runtime:
        result = Agent(runtime, "scheduled")("screenshot")

    assert result.error is not None
    assert result.error.code == "denied"


def test_a_button_is_found_by_its_mark_and_pressed(form, agent):
    text = agent.ok("screenshot")

    reply = agent.ok("click", element=number_in(text, '"Save"'))
    assert re.match(r'Clicked (push )?button "Save" at \(', reply)  # newer versions of AT-SPI say button
    assert form.seen("clicked") == ["Save"]


def test_a_click_goes_to_a_point_of_the_image(form, agent):
    place = place_in(agent.find("Cancel"))

    assert agent.ok("click", **place).startswith("Clicked (")
    assert agent.ok("right_click", **place).startswith("Right-clicked (")
    assert agent.ok("doubleclick", **place).startswith("Double-clicked (")
    agent.ok("move", x=place["x"] + 5, y=place["y"])

    assert agent.ok("cursor_position") == f"The pointer is at ({place['x'] + 5}, {place['y']})."
    assert form.seen("clicked") == ["Cancel"] * 3


@pytest.mark.parametrize(
    "text", ["plain Text_1 & <b>", "Zoë, Ünïcødé: 漢字 かな 😀 ﷺ", "".join(map(chr, range(0x4E00, 0x4E2D)))]
)
def test_any_text_is_typed_into_a_field(form, agent, text):
    agent.ok("click", element=agent.number('"Name"'))

    agent.ok("type", text=text + "\n")

    assert form.seen("entered") == [text]
    assert agent.find("text Name").startswith("#")


def test_typing_waits_for_each_key_and_stops_if_the_program_hangs(form, agent, monkeypatch):
    monkeypatch.setattr(x11_input, "HANG_SECONDS", 0.5)
    agent.ok("click", element=agent.number('"Name"'))
    os.kill(form.pid, signal.SIGSTOP)
    try:
        result = agent("type", text="漢字")
    finally:
        os.kill(form.pid, signal.SIGCONT)

    # the second key would be looked up in a mapping that no longer has it
    assert (result.error.code, "1 characters were not typed" in result.error.message) == ("timeout", True)


def test_the_text_of_a_field_can_be_read_back(form, agent):
    agent.ok("type", element=agent.number('"Name"'), text="Ångström")

    assert '"Name" = "Ångström"' in agent.find("text Name")


def test_a_slider_is_dragged(form, agent):
    number = agent.number("slider")
    y = place_in(agent.find("slider"))["y"]

    agent.ok("drag", start_x=110, start_y=y, end_element=number, duration_ms=100)

    assert float(agent.find("slider").split(" = ")[1].split('"')[1]) > 30
    assert form.seen("scale") == ["pressed", "released"]


def test_a_list_is_scrolled_and_only_visible_rows_have_numbers(form, agent):
    text = agent.ok("screenshot")
    assert '"row 0"' in text
    assert '"row 500"' not in text

    agent.ok("scroll", element=number_in(text, '"row 3"'), dy=10)

    assert form.seen("scrolled")[-1] > 100
    text = agent.ok("screenshot")
    assert '"row 0"' not in text
    # not the first, which is only partly visible
    number = [int(line.split()[0][1:]) for line in text.split("\n") if 'table cell "row ' in line][3]
    agent.ok("double_click", element=number)
    assert len(form.seen("activated")) == 1
    agent.ok("scroll", element=number, dy=-50)


def test_chords_press_modifiers_first_and_release_everything(form, agent):
    agent.ok("type", element=agent.number('"Name"'), text="abc")

    agent.ok("keys", keys=["a", "ctrl"])
    agent.ok("key", key="backspace")
    agent.ok("key_combo", keys=["ctrl", "shift", "x"])
    agent.ok("key", key="A")

    assert '"Name" = "A"' in agent.find("text Name")
    form.do("ungrab")
    pressed = [(event["key"], event["state"] & 5) for event in form.events if "key" in event]
    assert ("Control_L", 0) in pressed
    assert ("a", 4) in pressed
    assert ("X", 5) in pressed
    assert pressed_inputs(agent) == []


def pressed_inputs(agent: Agent) -> list[int]:
    """Return the keys and buttons that are pressed on the display."""
    import xcffib

    connection = xcffib.connect(display=agent.runtime.parts.environ["DISPLAY"])
    try:
        root = connection.get_setup().roots[0].root
        mask = connection.core.QueryPointer(root).reply().mask & 0x1F0D
        keys = connection.core.QueryKeymap().reply().keys
        return [byte for byte in keys if byte] + ([mask] if mask else [])
    finally:
        connection.disconnect()


def test_a_menu_is_opened_and_an_item_chosen(form, agent):
    agent.ok("click", element=agent.number('menu "File"'))

    agent.ok("click", element=agent.number('menu item "Open"'))

    assert form.seen("chosen") == ["Open"]


def test_a_menu_is_used_with_the_pointer_alone(form, agent):
    agent.ok("click", **place_in(agent.find("menu File")))
    agent.ok("click", **place_in(agent.find("menu item New")))

    assert form.seen("chosen") == ["New"]


def test_covered_elements_have_no_number_and_a_window_can_be_raised(form, agent):
    form.do("second", title="Cover", x=100, y=100, width=415, height=300)
    wait_until(lambda: '"Save"' not in agent.ok("screenshot"))
    agent.screenshot_with('"In Cover"')
    assert '"Save"' in agent.ok("ax_tree", app="Form")

    agent.ok("focus_app", app="Form")

    text = agent.ok("screenshot")
    assert '"Save"' in text
    assert '"In Cover"' not in text


def test_two_windows_receive_their_own_input(form, agent):
    form.do("second", title="Second")
    text = agent.screenshot_with('"In Second"')
    agent.ok("click", element=number_in(text, '"Name"'))
    agent.ok("type", text="one")
    agent.ok("type", x=640, y=250, text="two")

    assert form.seen("text")[-1] == "two"
    assert '"Name" = "one"' in agent.find("text Name")
    windows = agent.ok("list_windows")
    assert '"Second"' in windows
    assert '"Form"' in windows


def test_numbers_of_a_window_that_moved_or_closed_are_stale(form, agent):
    form.do("second", title="Second")
    text = agent.screenshot_with('"In Second"')
    save, inside = number_in(text, '"Save"'), number_in(text, '"In Second"')

    form.do("close", title="Second")
    form.do("place", x=140, y=90)

    wait_until(lambda: agent.code("click", element=inside) == "stale_elements")
    wait_until(lambda: agent.code("click", element=save) == "stale_elements")
    assert agent.code("click", element=9999) == "stale_elements"
    assert form.seen("clicked") == []


def test_numbers_expire(form, agent):
    from hilt.desktop.element_map import EXPIRES_SECONDS

    save = agent.number('"Save"')
    values = agent.runtime.parts.authority.values()
    stored = values.get(agent.runtime.parts.id, agent.session, "desktop")
    assert stored is not None
    for item in stored["elements"]:
        item[2] -= EXPIRES_SECONDS
    values.set(agent.runtime.parts.id, agent.session, "desktop", stored)

    assert agent.code("click", element=save) == "stale_elements"
    assert form.seen("clicked") == []


def test_large_screens_are_scaled_and_regions_are_not(form, agent):
    small = Agent(agent.runtime, agent.session)
    with_limit = agent.runtime.in_session(
        agent.session, agent.runtime.settings.replaced("test", {"desktop.longest_side": 640})
    )
    small.runtime = with_limit
    assert small.ok("screenshot", som=False).startswith("The image is 640×400")
    x, y = place_in(small.find("Save")).values()

    small.ok("click", x=x, y=y)
    assert form.seen("clicked") == ["Save"]

    region = small("screenshot", region=[x - 20, y - 20, 100, 80], som=False)
    assert region.text.startswith("The image is 200×160")
    small.ok("click", x=40, y=40)
    assert form.seen("clicked") == ["Save"]
    assert small.code("click", x=500, y=300) == "invalid_args"


def test_a_screenshot_is_an_image_with_thumbnails_for_people(form, agent):
    from PIL import Image

    shot = agent("screenshot", app="Form")
    image = Image.open(io.BytesIO(base64.b64decode(shot.content[0]["data"])))
    assert image.size == tuple(map(int, shot.text.split(";")[0].removeprefix("The image is ").split("×")))
    assert image.width < 600

    clicked = agent("click", element=number_in(shot.text, '"Save"'))
    assert clicked.view is not None
    assert clicked.view["type"] == "markdown"
    assert clicked.view["content"].count("(data:image/jpeg;base64,") == 2
    before, after = clicked.meta["thumbnails"]
    for path in (before, after):
        read = agent.runtime.request(Call("read_file", {"path": path}, session=agent.session))
        assert [block["mimeType"] for block in read.content] == ["image/jpeg"]
    assert os.path.dirname(before) == os.path.dirname(after)


def test_waiting_ends_when_an_element_appears_or_the_screen_is_quiet(form, agent):
    assert "after 0.2 s" in agent.ok("wait", query="In Later", seconds=0.2)
    timer = threading.Timer(0.5, lambda: form.send("second", title="Later"))
    timer.start()

    assert '"In Later"' in agent.ok("wait", query="In Later", seconds=10)
    assert agent.ok("wait", seconds=10) in ("The screen stopped changing.", "The screen was still changing after 10 s.")
    timer.join()


def test_the_tree_can_be_filtered(form, agent):
    buttons = agent.ok("ax_tree", app="Form", role="AXButton", clickable=True)

    assert [line.split('"')[1] for line in buttons.split("\n")[1:]] == ["Save", "Cancel", "Delete"]
    assert "No element matches." in agent.ok("ax_tree", role="nothing")
    assert len(agent.ok("ax_tree", depth=0).split("\n")) < 4


@pytest.mark.parametrize(
    "args",
    [
        {"action": "click"},
        {"action": "click", "x": 10},
        {"action": "click", "x": -1, "y": 10},
        {"action": "click", "x": 10, "y": -0.6},
        {"action": "drag", "start_x": 1, "start_y": 1},
        {"action": "scroll"},
        {"action": "scroll", "dy": 1000},
        {"action": "scroll", "dy": 1, "y": 300},
        {"action": "type"},
        {"action": "type", "text": "a", "x": 10},
        {"action": "type", "text": "a\x1bb"},
        {"action": "key", "key": "hyperspace"},
        {"action": "keys", "keys": []},
        {"action": "find_element"},
        {"action": "find_element", "query": " "},
        {"action": "wait", "query": ""},
        {"action": "screenshot", "region": [5000, 0, 10, 10]},
    ],
)
def test_invalid_arguments_are_rejected_and_nothing_is_pressed(form, agent, args):
    assert agent.code(**args) == "invalid_args"
    assert form.seen("pressed") == []


def test_an_unknown_app_is_an_error_that_names_the_open_apps(form, agent):
    result = agent("screenshot", app="no such app")

    assert result.error is not None
    assert result.error.code == "not_found"
    assert "Form.py" in result.error.suggestion


def test_the_calculator_of_debian_is_used_by_its_buttons(desktop, agent):
    process = desktop.start(program("galculator"))
    try:
        wait_until(lambda: '"="' in agent.ok("find_element", query="toggle button ="))
        text = agent.ok("screenshot", app="galculator")
        for key in ("AC", "7", "*", "6", "="):
            agent.ok("click", element=number_in(text, f'toggle button "{key}"'))

        assert '"42' in agent.find("text 42")
    finally:
        desktop.end(process)


def test_simultaneous_calls_run_one_after_another(form, agent):
    number = agent.number('"Name"')
    agent.ok("click", element=number)
    threads = [threading.Thread(target=lambda text=text: agent.ok("type", text=text * 12)) for text in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    typed = agent.find("text Name").split(" = ")[1].split('"')[1]
    assert sorted(typed[start : start + 12] for start in (0, 12, 24)) == ["a" * 12, "b" * 12, "c" * 12]
