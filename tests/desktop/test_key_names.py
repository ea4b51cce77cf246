from __future__ import annotations

import pytest

from hilt.desktop.key_names import parse_chord
from hilt.errors import ToolError


@pytest.mark.parametrize(
    "keys, expected",
    [
        (["enter"], ["enter"]),
        (["Return"], ["enter"]),
        (["c", "cmd"], ["cmd", "c"]),
        (["ctrl+Shift+T"], ["ctrl", "shift", "T"]),
        (["control", "option", "del"], ["ctrl", "alt", "delete"]),
        (["+"], ["+"]),
        (["ctrl+plus"], ["ctrl", "+"]),
        (["shift", "shift", "a"], ["shift", "a"]),
        ([" "], ["space"]),
        (["é"], ["é"]),
        (["f12"], ["f12"]),
    ],
)
def test_a_chord_has_its_modifiers_first(keys, expected):
    assert parse_chord(keys) == expected


@pytest.mark.parametrize("keys", [[], ["f13"], ["ctrl++"], [""], ["hyper"]])
def test_unknown_keys_are_rejected(keys):
    with pytest.raises(ToolError) as raised:
        parse_chord(keys)
    assert raised.value.code == "invalid_args"
