"""Arguments filled into skills and commands."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.skills.commands import TEXT_CHARACTERS, fill_in


@pytest.mark.parametrize(
    "text, arguments, expected",
    [
        ("Fix $ARGUMENTS.", "issue 12", "Fix issue 12."),
        ("$1 then $2, $3.", "a 'b c'", "a then b c, $3."),
        ("$ARGUMENTS costs $5", "", "$ARGUMENTS costs $5"),
        ("[$1]", " ", "[$1]"),
        ("=B5*(1+$B$6)", "a", "=B5*(1+$B$6)\n\nARGUMENTS: a\n"),
        ("larger than $500, not $1", "a", "larger than $500, not a"),
        ("a$1 0$1 $$1 _$1 -$1 $1$1", "x", "a$1 0$1 $$1 _x -x x$1"),
        ("of$ARGUMENTS", "x", "ofx"),
        ("$1 $1", "x", "x x"),
        ("$10 and $1", "a b c d e f g h i j", "j and a"),
        ("$ARGUMENTS", "$1 $ARGUMENTS", "$1 $ARGUMENTS"),
        ("$1", "'$2' x", "$2"),
        ("$2 $1", r"\1 \g<0>", "g<0> 1"),
        ("$ARGUMENTS_ALL $ARGUMENTSX $0 $x ${1} $$", "a", "$ARGUMENTS_ALL $ARGUMENTSX $0 $x ${1} $$\n\nARGUMENTS: a\n"),
        ("$ARGUMENTS's", "don't stop", "don't stop's"),
        ("$1|$2", "don't stop", "don't|stop"),
        ("<$1>", '"" b', "<>"),
        ("No placeholder.\n", "for you", "No placeholder.\n\nARGUMENTS: for you\n"),
        ("No placeholder.\n", "  ", "No placeholder.\n"),
        ("\\$1", "a", "\\a"),
        ("$99999", "a", "$99999\n\nARGUMENTS: a\n"),
    ],
)
def test_arguments_are_filled_in_once(text, arguments, expected):
    assert fill_in(text, arguments) == expected


def test_missing_arguments_of_a_command_are_empty():
    assert fill_in("Review $1 for $2, $ARGUMENTS.", "", drops_missing=True) == "Review  for , ."
    assert fill_in("Review $1 for $2.", "main", drops_missing=True) == "Review main for ."
    assert fill_in("$B$6 $$1", "", drops_missing=True) == "$B$6 $$1"


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_quoted_arguments_are_filled_in_unchanged(words):
    text = "|".join(f"<${number}>" for number in range(1, len(words) + 2))

    assert fill_in(text, shlex.join(words)) == "|".join(f"<{word}>" for word in [*words, f"${len(words) + 1}"])


@given(st.text(), st.sampled_from(["", " "]))
def test_without_arguments_nothing_changes(text, arguments):
    assert fill_in(text, arguments) == text


@given(st.text(), st.text())
def test_text_without_placeholders_is_unchanged(text, arguments):
    if "$" not in text:
        assert fill_in(text, arguments).startswith(text.rstrip())


def test_the_length_of_the_filled_in_text_is_limited():
    text = "$ARGUMENTS" * 10_000

    with pytest.raises(ToolError) as caught:
        fill_in(text, "x" * 1000)

    assert caught.value.code == "limit_exceeded"
    assert len(fill_in(text, "x" * 10)) < TEXT_CHARACTERS
