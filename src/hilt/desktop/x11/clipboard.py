"""Pastes text that the keyboard cannot type, and restores the user's clipboard afterwards.

The X clipboard is owned by a program that answers requests for its contents. A small process of ours becomes the owner:
it saves the contents, offers the text, and when hilt closes its pipe or dies, offers the saved contents until the user
copies something else. The saved contents never leave the process. If they cannot be saved, because they are too large
or their owner does not answer, the clipboard is left unchanged and nothing is pasted.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from typing import NamedTuple, Self

import xcffib
import xcffib.xproto

from hilt.desktop.interface import Pause
from hilt.desktop.x11.dead_man_switch import start_main
from hilt.errors import ToolError

SAVED_BYTES = 1 << 20  # of the clipboard, all formats together; incremental transfers are not supported
ANSWER_SECONDS = 4.0  # for the owner of the clipboard to send all formats
REQUEST_SECONDS = 5.0  # for a program to request the text
POLL_SECONDS = 0.01
_TEXT_TARGETS = ("UTF8_STRING", "text/plain;charset=utf-8")
# targets that describe the owner of a selection, not its contents
_NOT_CONTENTS = ("TARGETS", "MULTIPLE", "TIMESTAMP", "SAVE_TARGETS", "DELETE", "INSERT_SELECTION", "INSERT_PROPERTY")


class OfferedText:
    """A context in which the clipboard of a display offers a text."""

    def __init__(self, display: str, text: str, pause: Pause) -> None:
        self._pause = pause
        data = text.encode()
        reading, self._writing = os.pipe()
        self._reading, report = os.pipe()
        self._received = b""
        try:
            self._process = start_main(__name__, display, str(len(data)), stdin=reading, stdout=report)
        finally:
            os.close(reading)
            os.close(report)
        with suppress(BrokenPipeError), open(self._writing, "wb", closefd=False) as pipe:
            pipe.write(data)

    def __enter__(self) -> Self:
        try:
            answer = self._next_line(time.monotonic() + REQUEST_SECONDS + ANSWER_SECONDS)
        except BaseException:
            self._close()
            raise
        if answer != "ready":
            self._close()
            reason = answer or "the process that offers it did not start"
            raise ToolError(
                "tool_failed",
                f"The keyboard has no keys for the text, and it cannot be pasted: {reason}.",
                suggestion="Type characters that the keyboard has, or ask the user to copy something short.",
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def was_pasted_by(self, window: int) -> bool:
        """Wait until the program of a window has received the text; return False if it does not request it."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while line := self._next_line(deadline):
            requestor, mask = map(int, line.split())
            # the ids of all windows of a program have the same prefix
            if requestor & ~mask == window & ~mask:
                return True
        return False

    def _next_line(self, deadline: float) -> str:
        """Return the next line from the process; an empty string if there is none before the deadline."""
        while b"\n" not in self._received:
            self._pause(0)
            if time.monotonic() > deadline:
                return ""
            if select.select([self._reading], [], [], POLL_SECONDS)[0]:
                data = os.read(self._reading, 4096)
                if not data:
                    return ""
                self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()

    def _close(self) -> None:
        """Let the process restore the clipboard, and wait until it has."""
        os.close(self._writing)
        try:
            self._process.wait(REQUEST_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._reading)


# --- the process that owns the clipboard ------------------------------------------------------------------------------


class ClipboardFormat(NamedTuple):
    """The contents of the clipboard in one format."""

    kind: int
    bits: int
    data: bytes


class ClipboardOwner:
    """Saves, owns and restores the clipboard of a display."""

    def __init__(self, display: str) -> None:
        self._x = xcffib.connect(display=display)
        self._core = self._x.core
        setup = self._x.get_setup()
        screen = setup.roots[self._x.pref_screen]
        self._mask = setup.resource_id_mask
        self._window = self._x.generate_id()
        values = [xcffib.xproto.EventMask.PropertyChange]
        only_input = xcffib.xproto.WindowClass.InputOnly
        mask = xcffib.xproto.CW.EventMask
        self._core.CreateWindow(0, self._window, screen.root, 0, 0, 1, 1, 0, only_input, 0, mask, values)
        self._clipboard = self._atom("CLIPBOARD")
        self._property = self._atom("HILT_CLIPBOARD")
        self._offered: dict[int, ClipboardFormat] = {}
        self._since = 0

    def _atom(self, name: str) -> int:
        number: int = self._core.InternAtom(False, len(name), name).reply().atom  # noqa: FBT003
        return number

    def read(self) -> dict[int, ClipboardFormat]:
        """Return all formats of the clipboard; raise ValueError with a reason if they cannot be saved."""
        deadline = time.monotonic() + ANSWER_SECONDS
        if not self._core.GetSelectionOwner(self._clipboard).reply().owner:
            return {}
        targets = self._convert(self._atom("TARGETS"), deadline, SAVED_BYTES)
        listed = b"" if targets is None else targets.data
        names = {int.from_bytes(listed[start : start + 4], sys.byteorder) for start in range(0, len(listed) - 3, 4)}
        names -= {self._atom(name) for name in _NOT_CONTENTS}
        contents: dict[int, ClipboardFormat] = {}
        room = SAVED_BYTES
        for target in sorted(names or {self._atom("UTF8_STRING")}):
            answer = self._convert(target, deadline, room)
            if answer is not None:
                contents[target] = answer
                room -= len(answer.data)
        if not contents:
            raise ValueError("the program that owns the clipboard does not provide its contents")
        return contents

    def _convert(self, target: int, deadline: float, room: int) -> ClipboardFormat | None:
        """Request one format from the owner; return None if it does not have that."""
        now = xcffib.xproto.Time.CurrentTime
        self._core.ConvertSelection(self._window, self._clipboard, target, self._property, now)
        self._x.flush()
        while True:
            event = self._poll()
            if isinstance(event, xcffib.xproto.SelectionNotifyEvent) and event.target == target:
                break
            if time.monotonic() > deadline:
                raise ValueError("the program that owns the clipboard does not answer")
            if event is None:
                select.select([self._x.get_file_descriptor()], [], [], POLL_SECONDS)
        if not event.property:
            return None
        reply = self._core.GetProperty(True, self._window, self._property, 0, 0, room // 4 + 1).reply()  # noqa: FBT003
        if reply.bytes_after or len(data := bytes(reply.value.raw)) > room or reply.type == self._atom("INCR"):
            raise ValueError(f"the clipboard has more than {SAVED_BYTES >> 20} MB")
        return ClipboardFormat(reply.type, reply.format, data) if reply.format else None

    def offer(self, contents: dict[int, ClipboardFormat]) -> None:
        """Become the owner of the clipboard."""
        self._offered = contents
        self._since = self._now()
        self._core.SetSelectionOwner(self._window, self._clipboard, self._since)
        if self._core.GetSelectionOwner(self._clipboard).reply().owner != self._window:
            raise ValueError("another program took the clipboard")

    def offer_text(self, text: bytes) -> None:
        """Become the owner of the clipboard, with a text as its contents."""
        kinds = map(self._atom, _TEXT_TARGETS)
        self.offer({kind: ClipboardFormat(kind, 8, text) for kind in kinds})

    def restore(self, contents: dict[int, ClipboardFormat]) -> bool:
        """Offer the saved contents, with a new time; return False if there is nothing to offer."""
        if self._core.GetSelectionOwner(self._clipboard).reply().owner != self._window:
            return False  # the user has copied something in the meantime
        if contents:
            self.offer(contents)
            return True
        self._core.SetSelectionOwner(0, self._clipboard, self._now())
        self._core.GetInputFocus().reply()
        return False

    def _now(self) -> int:
        """Return the time of the server, from the event of a property change."""
        append, kind = xcffib.xproto.PropMode.Append, xcffib.xproto.Atom.INTEGER
        self._core.ChangeProperty(append, self._window, self._property, kind, 8, 0, b"")
        self._x.flush()
        while True:
            event = self._poll()
            if isinstance(event, xcffib.xproto.PropertyNotifyEvent) and event.atom == self._property:
                return int(event.time)
            if event is None:
                select.select([self._x.get_file_descriptor()], [], [])
            else:
                self._answer(event)

    def serve(self, pipe: int | None) -> bool:
        """Answer requests until the pipe closes; return False if another program takes the clipboard."""
        descriptors = [self._x.get_file_descriptor(), *([] if pipe is None else [pipe])]
        has_ended = False
        while True:
            event = self._poll()
            if isinstance(event, xcffib.xproto.SelectionClearEvent):
                return False
            if event is not None:
                requestor = self._answer(event)
                if requestor and pipe is not None:
                    _report(f"{requestor} {self._mask}")
            elif has_ended:
                return True
            elif pipe in select.select(descriptors, [], [])[0]:
                has_ended = True
                self._core.GetInputFocus().reply()  # answer the requests from before the end

    def _poll(self) -> object:
        while True:
            try:
                return self._x.poll_for_event()
            except xcffib.Error:
                continue  # the window is gone

    def _answer(self, event: object) -> int:
        """Answer a request; return the window that received the contents, or 0."""
        if not isinstance(event, xcffib.xproto.SelectionRequestEvent):
            return 0
        target, property = event.target, event.property or event.target
        replace = xcffib.xproto.PropMode.Replace
        # a request from before this process became the owner is for the earlier contents
        is_stale = event.time and (event.time - self._since) & 0x80000000
        contents = None if is_stale else self._offered.get(target)
        if contents is None and target == self._atom("TARGETS"):
            listed = b"".join(number.to_bytes(4, sys.byteorder) for number in (target, *self._offered))
            contents = ClipboardFormat(xcffib.xproto.Atom.ATOM, 32, listed)
        if contents is None:
            property = 0
        else:
            count = len(contents.data) * 8 // contents.bits
            self._core.ChangeProperty(
                replace, event.requestor, property, contents.kind, contents.bits, count, contents.data
            )
        notice = xcffib.xproto.SelectionNotifyEvent.synthetic(
            event.time, event.requestor, event.selection, target, property
        )
        self._core.SendEvent(False, event.requestor, 0, notice.pack())  # noqa: FBT003
        self._x.flush()
        return event.requestor if property and target in self._offered else 0


def _report(line: str) -> None:
    with suppress(OSError):
        os.write(1, f"{line}\n".encode())


def main() -> None:
    """Own the clipboard; the arguments are the display and the size of the text on standard input."""
    size = int(sys.argv[2])
    text = b""
    while len(text) < size and (data := os.read(0, size - len(text))):
        text += data
    with suppress(xcffib.XcffibException):  # the display is gone
        owner = ClipboardOwner(sys.argv[1])
        try:
            before = owner.read()
            owner.offer_text(text)
        except ValueError as error:
            _report(str(error))
            return
        _report("ready")
        is_ours = owner.serve(0)
        if is_ours and owner.restore(before):
            if os.fork():
                os._exit(0)  # hilt waits for this process; the child stays
            os.close(1)
            owner.serve(None)
