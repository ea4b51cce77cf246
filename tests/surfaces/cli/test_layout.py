from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.surfaces.cli.layout import wrapped


@pytest.mark.parametrize(
    "text, expected",
    [
        ("one\ntwo\n\nthree\n", "one two\n\nthree"),
        ("- one\n- two", "- one\n- two"),
        ("  code\n    more", "  code\n    more"),
        ("a \x1b[2J b", "a ␛[2J b"),
        ("", ""),
    ],
)
def test_prose_is_joined_and_other_lines_are_kept(text, expected):
    assert wrapped(text) == expected


def test_all_lines_but_the_first_are_indented():
    first, *others = wrapped("word " * 40, 26).split("\n")

    assert first.startswith("word")
    assert others
    assert all(line.startswith(" " * 26 + "word") for line in others)


@given(st.text(st.sampled_from("ab -\n\t")), st.integers(0, 30))
def test_lines_fit_and_no_word_is_broken(text, indent):
    lines = wrapped(text, indent).split("\n")

    assert all(len(line) <= 80 or len(line.split()) == 1 for line in (" " * indent + lines[0], *lines[1:]))
    assert " ".join(lines).split() == text.split()
