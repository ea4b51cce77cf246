"""Text that the keyboard cannot type, on a keyboard without spare keys: it is pasted, and the clipboard restored."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hilt.testing import environment
from tests.desktop.x_session import NAMES, Agent, XClient
from tests.marks import HANG_SECONDS, wait_until

TEXT = "Zoë, 漢字 😀"


@pytest.fixture(autouse=True, scope="module")
def full_keyboard(desktop) -> Iterator[None]:
    """Map every spare key."""
    client = XClient(desktop.display)
    first = client.x.get_setup().min_keycode
    symbols = client.symbols()
    width = len(symbols) // (client.x.get_setup().max_keycode - first + 1)
    rows = [symbols[start : start + width] for start in range(0, len(symbols), width)]
    full = [symbol for row in rows for symbol in (row if any(row) else [0xFFC8] * width)]  # F11
    client.x.core.ChangeKeyboardMapping(len(rows), first, width, full)
    client.x.core.GetInputFocus().reply()
    yield
    client.x.disconnect()


class Clipboard:
    """A program that owns the clipboard, or reads it."""

    def __init__(self, display: str) -> None:
        import xcffib
        import xcffib.xproto

        self.proto = xcffib.xproto
        self.x = xcffib.connect(display=display)
        self.window = self.x.generate_id()
        root = self.x.get_setup().roots[0].root
        self.x.core.CreateWindow(0, self.window, root, 0, 0, 1, 1, 0, 2, 0, 0, [])
        self.name = self.atom("CLIPBOARD")
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def atom(self, name: str) -> int:
        number: int = self.x.core.InternAtom(False, len(name), name).reply().atom
        return number

    def own(self, formats: dict[str, bytes] | None) -> None:
        """Own the clipboard and answer requests; with None, answer none."""
        self.x.core.SetSelectionOwner(self.window, self.name, 0)
        self.x.core.GetInputFocus().reply()
        contents = {self.atom(name): data for name, data in (formats or {}).items()}
        targets = b"".join(number.to_bytes(4, sys.byteorder) for number in contents)
        listing = self.atom("TARGETS")
        self._thread = threading.Thread(target=self._serve, args=(formats is not None, contents, targets, listing))
        self._thread.start()

    def _serve(self, is_answering: bool, contents: dict[int, bytes], targets: bytes, listing: int) -> None:
        import xcffib

        while not self._stopped.is_set():
            try:
                event = self.x.poll_for_event()
            except xcffib.ProtocolException:
                continue  # the requesting window is gone
            if event is None:
                select.select([self.x.get_file_descriptor()], [], [], 0.02)
            elif is_answering and isinstance(event, self.proto.SelectionRequestEvent):
                data = targets if event.target == listing else contents.get(event.target)
                property = event.property if data is not None else 0
                if data is not None:
                    kind, bits = (4, 32) if event.target == listing else (event.target, 8)
                    self.x.core.ChangeProperty(0, event.requestor, property, kind, bits, len(data) * 8 // bits, data)
                notice = self.proto.SelectionNotifyEvent.synthetic(
                    0, event.requestor, event.selection, event.target, property
                )
                self.x.core.SendEvent(False, event.requestor, 0, notice.pack())
                self.x.flush()

    def read(self, target: str = "UTF8_STRING") -> bytes | None:
        """Return the contents of the clipboard in a format, or None."""
        self.x.core.ConvertSelection(self.window, self.name, self.atom(target), self.atom("READ"), 0)
        self.x.flush()
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline:
            event = self.x.poll_for_event()
            if isinstance(event, self.proto.SelectionNotifyEvent):
                if not event.property:
                    return None
                return bytes(
                    self.x.core.GetProperty(True, self.window, event.property, 0, 0, 1 << 20).reply().value.raw
                )
            select.select([self.x.get_file_descriptor()], [], [], 0.02)
        raise AssertionError("no answer")

    def owner(self) -> int:
        """Return the window that owns the clipboard."""
        number: int = self.x.core.GetSelectionOwner(self.name).reply().owner
        return number

    def clear(self) -> None:
        """Leave the clipboard empty."""
        self.x.core.SetSelectionOwner(0, self.name, 0)
        self.x.core.GetInputFocus().reply()

    def close(self) -> None:
        """Disconnect."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        self.x.disconnect()


@contextmanager
def clipboard(desktop: Any) -> Iterator[Clipboard]:
    client = Clipboard(desktop.display)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def reader(desktop) -> Iterator[Clipboard]:
    """A program that only reads; the clipboard is empty at first."""
    with clipboard(desktop) as client:
        client.clear()
        yield client


def focus_field(agent: Agent) -> None:
    agent.ok("click", element=agent.number('"Name"'))


def test_text_that_no_key_types_is_pasted_and_an_empty_clipboard_stays_empty(form, agent, reader):
    focus_field(agent)

    agent.ok("type", text=f"{TEXT}\nplain\n{TEXT}!\n")

    assert form.seen("entered") == [TEXT, f"{TEXT}plain", f"{TEXT}plain{TEXT}!"]
    assert reader.owner() == 0


def test_every_format_of_the_clipboard_is_restored(desktop, form, agent, reader):
    formats = {"UTF8_STRING": "schön".encode(), "text/html": b"<b>x</b>", "image/png": bytes(range(256)) * 100}
    focus_field(agent)
    with clipboard(desktop) as user:
        user.own(formats)
        agent.ok("type", text=TEXT + "\n")

    assert form.seen("entered") == [TEXT]
    assert {name: reader.read(name) for name in formats} == formats
    assert reader.read("text/unknown") is None
    reader.own({"UTF8_STRING": b"copied"})  # the process that owned it exits
    with clipboard(desktop) as other:
        assert other.read() == b"copied"


@pytest.mark.parametrize(
    "contents, reason",
    [
        (None, "the program that owns the clipboard does not answer"),
        ({"UTF8_STRING": b"x" * (1 << 20) + b"x"}, "the clipboard has more than 1 MB"),
        ({"INCR": b"\0\0\0\1"}, "the clipboard has more than 1 MB"),
        ({}, "the program that owns the clipboard does not provide its contents"),
    ],
)
def test_a_clipboard_that_cannot_be_saved_is_left_unchanged(desktop, form, agent, reader, contents, reason):
    focus_field(agent)
    with clipboard(desktop) as user:
        user.own(contents)

        result = agent("type", text=TEXT)

        assert result.error is not None
        assert (result.error.code, reason in result.error.message) == ("tool_failed", True), result.error.message
        assert reader.owner() == user.window
    assert form.seen("key") == []


def test_nothing_is_pasted_into_a_private_window(form, agent, reader):
    form.do("second", title="secret second", x=700, y=300)
    wait_until(lambda: agent.code("key", key="a") == "denied")  # it has the focus

    assert agent.code("type", text=TEXT) == "denied"

    assert form.seen("text") == []
    assert reader.owner() == 0


def test_a_program_that_does_not_paste_is_reported(desktop, form, agent, reader, monkeypatch):
    from hilt.desktop.x11 import clipboard as pasting

    monkeypatch.setattr(pasting, "REQUEST_SECONDS", 1.0)
    agent.ok("focus_app", app="Form")
    form.do("focus_nothing")
    with clipboard(desktop) as user:
        user.own({"UTF8_STRING": b"mine"})

        result = agent("type", text=TEXT)

        assert result.error is not None
        assert (result.error.code, "did not paste it" in result.error.message) == ("tool_failed", True)
    assert reader.read() == b"mine"


PASTING = """
from hilt.runtime import Runtime
with Runtime({workspace!r}, environ={environ!r}, flags={{"mode": "yolo"}}) as runtime:
    runtime.call("computer", action="type", text={text!r})
"""


def test_the_clipboard_is_restored_when_hilt_is_killed(desktop, form, agent, reader, person):
    focus_field(agent)
    base = os.path.join(desktop.folder, f"killed-{next(NAMES)}")
    os.makedirs(base)
    environ = {**environment(base), **desktop.own_environment()}
    script = PASTING.format(workspace=base, environ=environ, text="\n".join([TEXT] * 200))
    with clipboard(desktop) as user:
        user.own({"UTF8_STRING": b"mine"})
        process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
        wait_until(lambda: reader.owner() not in (0, user.window))

        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    wait_until(lambda: reader.read() == b"mine")
    wait_until(lambda: not person.held())
