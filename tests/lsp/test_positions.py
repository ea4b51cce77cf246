"""Columns: characters for the caller, the units of the server on the wire, and back."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hilt.lsp.language_server import to_path, to_uri
from hilt.lsp.positions import ENCODINGS, Position, SourceLines, find_symbol, to_character, to_units

LINES = st.text(st.characters(exclude_characters="\r\n"), max_size=30)


@example("\ud800", 1, "utf-8")
@given(LINES, st.integers(0, 40), st.sampled_from(ENCODINGS))
def test_a_column_round_trips_through_the_units_of_the_server(line, character, encoding):
    units = to_units(line, character, encoding)

    assert to_character(line, units, encoding) == min(character, len(line))
    if encoding == "utf-8":
        assert units == len(line[:character].encode("utf-8", "replace"))
    if encoding == "utf-16":
        assert units == sum(1 + (ord(letter) > 0xFFFF) for letter in line[:character])


@given(st.text(st.sampled_from("ab\r\n\U0001d4b3"), max_size=20))
def test_lines_end_with_cr_lf_or_both(text):
    lines = SourceLines(text)
    expected = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    assert [lines.line(number) for number in range(len(lines))] == expected
    for number, line in enumerate(expected):
        offset = lines.offset(Position(number, len(line)))
        assert text[offset - len(line) : offset] == line
    assert lines.offset(Position(len(lines), 0)) == len(text)


@pytest.mark.parametrize(
    "line, symbol, start",
    [
        ("renamed = name", "name", 10),
        ("renamed", "name", 2),
        ("$name name", "name", 6),
        ("x", "name", None),
        ("a.b.name()", "name", 4),
        ("operator+ (x)", "operator+", 0),
    ],
)
def test_a_name_is_found_as_a_whole_word_if_there_is_one(line, symbol, start):
    assert find_symbol(line, symbol) == start


@pytest.mark.parametrize("path", ["/a/b.py", "/a file/ü#?%20.py", "/\udcff/x", "/a:b/c+d@e"])
def test_paths_round_trip_as_uris(path):
    assert to_path(to_uri(path)) == path


@pytest.mark.parametrize(
    "uri, path",
    [
        ("file:///a/b%20c.py", "/a/b c.py"),
        ("file://localhost/a", "/a"),
        ("file:///a/../b", "/b"),
        ("file://host/a", None),
        ("untitled:a", None),
        ("https://example.com/a", None),
        ("file:relative", None),
        ("file:///a%00b", None),
    ],
)
def test_only_files_of_this_machine_have_paths(uri, path):
    assert to_path(uri) == path
