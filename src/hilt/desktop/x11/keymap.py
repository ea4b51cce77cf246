"""The keyboard mapping: which key types a character, and keys that are borrowed for characters that no key has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import xcffib

from hilt.desktop.x11.dead_man_switch import DeadManSwitch
from hilt.desktop.x11.x_server import XConnection
from hilt.errors import ToolError

BORROWED_MAX = 40  # keys at a time
UNICODE = 0x01000000

# key symbols of X
_SYMBOLS = {
    "enter": 0xFF0D,
    "tab": 0xFF09,
    "space": 0x20,
    "escape": 0xFF1B,
    "delete": 0xFFFF,
    "backspace": 0xFF08,
    "insert": 0xFF63,
    "up": 0xFF52,
    "down": 0xFF54,
    "left": 0xFF51,
    "right": 0xFF53,
    "home": 0xFF50,
    "end": 0xFF57,
    "pageup": 0xFF55,
    "pagedown": 0xFF56,
    "menu": 0xFF67,
    "ctrl": 0xFFE3,
    "alt": 0xFFE9,
    "shift": 0xFFE1,
    "cmd": 0xFFEB,
    **{f"f{number}": 0xFFBD + number for number in range(1, 13)},
}
_TYPED = {"\n": "enter", "\t": "tab"}


class Stroke(NamedTuple):
    """A key, and whether Shift is pressed with it."""

    code: int
    shift: bool = False


class Keymap:
    """The keyboard mapping of a display, read once."""

    def __init__(self, connection: XConnection, switch: DeadManSwitch) -> None:
        self._connection = connection
        self._switch = switch
        setup = connection.x.get_setup()
        first, count = setup.min_keycode, setup.max_keycode - setup.min_keycode + 1
        reply = connection.core.GetKeyboardMapping(first, count).reply()
        self._width = reply.keysyms_per_keycode
        symbols = list(reply.keysyms)
        rows = {first + row: symbols[row * self._width : (row + 1) * self._width] for row in range(count)}
        state = connection.core.QueryPointer(connection.root).reply().mask
        self._has_caps_lock = bool(state & 2)
        column = (state >> 13 & 3) * 2
        self._strokes: dict[int, Stroke] = {}
        for shift in (False, True):
            level = column + shift
            for code, row in rows.items():
                if level < len(row) and row[level]:
                    self._strokes.setdefault(row[level], Stroke(code, shift))
        for code, row in rows.items():  # keys such as Enter have their symbol in the first group only
            self._strokes.setdefault(row[0], Stroke(code))
        modifiers = set(connection.core.GetModifierMapping().reply().keycodes)
        spare = [code for code, row in rows.items() if not any(row) and code not in modifiers]
        self._spare = spare[-BORROWED_MAX:]
        self._borrowed: dict[str, int] = {}

    def key(self, name: str) -> Stroke:
        """Return the stroke of a named key or a single character."""
        stroke = self._strokes.get(_SYMBOLS[name]) if name in _SYMBOLS else self.stroke(name)
        if stroke is None:
            raise ToolError("tool_failed", f"The keyboard has no key {name}.", suggestion="Use another key, or type.")
        return stroke

    def stroke(self, character: str) -> Stroke | None:
        """Return the stroke that currently types a character, or None."""
        if character in self._borrowed:
            return Stroke(self._borrowed[character])
        return self._unborrowed_stroke(character)

    def _unborrowed_stroke(self, character: str) -> Stroke | None:
        name = _TYPED.get(character)
        stroke = self._strokes.get(_SYMBOLS[name] if name else _symbol(character))
        if stroke is not None and self._has_caps_lock and character.lower() != character.upper():
            return stroke._replace(shift=not stroke.shift)
        return stroke

    def borrow(self, characters: Iterable[str]) -> bool:
        """Map spare keys to characters that no key has, as far as they suffice; return False if that fails."""
        missing = [character for character in dict.fromkeys(characters) if self._unborrowed_stroke(character) is None]
        wanted = dict(zip(missing, self._spare, strict=False))
        if not wanted or all(character in self._borrowed for character in wanted):
            return not missing or bool(wanted)
        try:
            self._change({code: _symbol(character) for character, code in wanted.items()})
        except xcffib.Error:
            self._spare = []
            return False
        self._borrowed = wanted
        return True

    def restore(self) -> None:
        """Unmap the borrowed keys."""
        if self._borrowed:
            self._change(dict.fromkeys(self._borrowed.values(), 0))
            self._switch.restored()
            self._borrowed = {}

    def _change(self, symbols: Mapping[int, int]) -> None:
        """Remap keys, adjacent ones together: every program reloads the whole mapping after each change."""
        runs: list[list[int]] = []
        for code in sorted(symbols):
            if runs and runs[-1][-1] == code - 1:
                runs[-1].append(code)
            else:
                runs.append([code])
        for run in runs:
            self._switch.remap(run[0], len(run), self._width)
            # the same symbol in every column: neither Shift nor the keyboard's layout matters
            row = [symbols[code] for code in run for _ in range(self._width)]
            self._connection.core.ChangeKeyboardMappingChecked(len(run), run[0], self._width, row).check()


def _symbol(character: str) -> int:
    number = ord(character)
    return number if 0x20 <= number <= 0x7E or 0xA0 <= number <= 0xFF else UNICODE | number
