from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.surfaces.chat.answer_stream import MAX_CHARACTERS, AnswerStream


def blocks(*pieces: str) -> list[str]:
    stream = AnswerStream()
    return [block for piece in pieces for block in stream.feed(piece)] + stream.finish()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("one", ["one"]),
        ("one\ntwo\n\nthree", ["one\ntwo", "three"]),
        ("# one\n\n\n\ntwo\n", ["# one", "two"]),
        ("```py\na\n\nb\n```\n\ntwo", ["```py\na\n\nb\n```", "two"]),
        ("~~~\n```\n\nb\n~~~\n\ntwo", ["~~~\n```\n\nb\n~~~", "two"]),
        ("````\n```\n\nb\n````\n\ntwo", ["````\n```\n\nb\n````", "two"]),
        ("- one\n\n  still one\n\n- two", ["- one\n\n  still one", "- two"]),
        ("1. one\n\n   ```\n   a\n\nb\n   ```\n\ntwo", ["1. one\n\n   ```\n   a\n\nb\n   ```", "two"]),
        ("\n\n\n", []),
        ("", []),
    ],
)
def test_blocks_end_at_blank_lines_outside_of_fences(text, expected):
    assert blocks(text) == expected
    assert blocks(*text) == expected


def test_a_block_is_returned_as_soon_as_the_next_one_begins():
    stream = AnswerStream()

    assert stream.feed("one\n\n") == []
    assert stream.feed("t") == ["one"]
    assert stream.tail == "t"


def test_a_long_fenced_block_is_closed_and_reopened():
    lines = [f"line {number}" for number in range(1000)]

    parts = blocks("```py\n" + "\n".join(lines) + "\n```")

    assert len(parts) > 4
    for part in parts:
        assert part.startswith("```py\n")
        assert part.endswith("\n```")
    inner = [line for part in parts for line in part.split("\n")[1:-1]]
    assert inner == lines


def test_a_very_long_paragraph_is_returned_in_parts():
    words = " ".join(f"word{number}" for number in range(100_000))

    parts = blocks(*(words[start : start + 500] for start in range(0, len(words), 500)))

    assert max(map(len, parts)) <= MAX_CHARACTERS
    assert "".join(parts).replace(" ", "") == words.replace(" ", "")


TEXT = st.text(alphabet=st.sampled_from("ab `~-1.\n\t#|") | st.characters(), max_size=200)


@given(TEXT, st.integers(1, 7))
def test_the_sizes_of_the_pieces_do_not_change_the_blocks(text, size):
    assert blocks(*(text[start : start + size] for start in range(0, len(text), size))) == blocks(text)


@given(TEXT)
def test_no_visible_character_is_lost(text):
    assert "".join("".join(blocks(text)).split()) == "".join(text.split())
