from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.output.printed import plain


@given(st.text(st.characters(codec="utf-8")))
def test_no_control_characters_remain_except_newlines_and_tabs(text):
    printed = plain(text)

    assert not any(
        ord(character) < 32 or 127 <= ord(character) < 160 for character in printed if character not in "\t\n"
    )
    assert plain(printed) == printed


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])))
def test_text_without_control_characters_is_unchanged(text):
    assert plain(text) == text


@pytest.mark.parametrize(
    "text, expected",
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[?25l\x1b[2Jclear", "clear"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1b(Bascii\x1b=", "ascii"),
        ("\x1b]0;never finished, text", "0;never finished, text"),
        ("10%\r20%\r\nnext\r\n", "10%\n20%\nnext\n"),
        ("a\x08b\x07c\x9bd\x00e", "abcde"),
        ("tab\there\n", "tab\there\n"),
    ],
)
def test_terminal_sequences_are_removed(text, expected):
    assert plain(text) == expected
