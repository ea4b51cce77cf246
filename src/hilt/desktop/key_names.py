"""Key names, in the spellings of users and other systems."""

from __future__ import annotations

from hilt.errors import ToolError

# other spellings of the names below
_ALIASES = {
    "return": "enter",
    "esc": "escape",
    "del": "delete",
    "ins": "insert",
    "pgup": "pageup",
    "page_up": "pageup",
    "pgdn": "pagedown",
    "page_down": "pagedown",
    "control": "ctrl",
    "option": "alt",
    "command": "cmd",
    "super": "cmd",
    "meta": "cmd",
    "win": "cmd",
    "spacebar": "space",
    "arrowup": "up",
    "arrowdown": "down",
    "arrowleft": "left",
    "arrowright": "right",
    "plus": "+",
}
MODIFIERS = ("ctrl", "alt", "shift", "cmd")
NAMED = (
    *("enter", "tab", "space", "escape", "delete", "backspace", "insert", "up", "down", "left", "right", "home", "end"),
    *("pageup", "pagedown", "menu", *(f"f{number}" for number in range(1, 13))),
)


def parse_chord(keys: list[str]) -> list[str]:
    """Return the canonical key names of a chord, modifiers first; `ctrl+c` counts as two keys."""
    words: list[str] = []
    for key in keys:
        parts = [key] if len(key) == 1 else key.split("+")
        words += [part.strip() if len(part) > 1 else part for part in parts]
    names = [_key_name(word) for word in words]
    if not names:
        raise ToolError("invalid_args", "No key was given.", suggestion='Pass keys such as ["ctrl", "c"].')
    modifiers = [name for name in names if name in MODIFIERS]
    return [*dict.fromkeys(modifiers), *(name for name in names if name not in MODIFIERS)]


def _key_name(word: str) -> str:
    if len(word) == 1:
        return "space" if word == " " else word
    folded = word.casefold()
    name = _ALIASES.get(folded, folded)
    if name in MODIFIERS or name in NAMED or len(name) == 1:
        return name
    raise ToolError(
        "invalid_args",
        f"There is no key {word[:40]!r}.",
        suggestion=f"Use one character, or one of: {', '.join((*MODIFIERS, *NAMED[:-12]))}, f1 to f12.",
    )
