"""Expressions: linear time, narrow for an allow, wide for a deny."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.policy.expressions import BadExpression, compile_expression, quote


@pytest.mark.parametrize(
    "source, text, does_fit, is_found",
    [
        ("ls.*", "ls -la", True, True),
        ("ls.*", "als", False, True),
        ("ls", "ls\n", False, True),
        ("a|b", "ab", False, True),
        ("a|b", "b", True, True),
        ("a.b", "a\nb", False, True),
        ("^a$", "a", True, True),
        ("(?i)RM", "rm", True, True),
        ("(?m)^b$", "a\nb", False, True),
        ("é+", "éé", True, True),
        ("a.b", "a\ud800b", False, True),
    ],
)
def test_an_allow_matches_the_whole_text_and_a_deny_any_part(source, text, does_fit, is_found):
    expression = compile_expression(source)

    assert (expression.fits(text), expression.found_in(text)) == (does_fit, is_found)


@pytest.mark.parametrize(
    "source", ["", "(", ")", "a)|(b", "[", "*", "(?=a)", "(?!a)b", r"(a)\1", "a{1000}{1000}{9}", "(?x)a #", "a" * 2001]
)
def test_an_invalid_or_unsupported_expression_is_rejected(source):
    with pytest.raises(BadExpression):
        compile_expression(source)


@pytest.mark.parametrize("source", ["(a*)*b", "(a|a)*b", "(.*)(.*)(.*)(.*)x", ".*sudo.*", r"(\w+\s?)*!"])
def test_no_expression_hangs(source):
    expression = compile_expression(source)

    assert not expression.fits("a" * 65_536)
    assert not expression.found_in("a" * 65_536)


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)


@given(texts, texts)
def test_a_quoted_text_matches_only_itself(text, other_text):
    expression = compile_expression(quote(text))

    assert expression.fits(text)
    assert expression.fits(other_text) == (text == other_text)


@given(st.text("ab|*+?.()", min_size=1, max_size=8), st.text("ab\n", max_size=8))
def test_plain_expressions_match_as_in_python(source, text):
    try:
        pattern = re.compile(source)
        expression = compile_expression(source)
    except (re.error, BadExpression):
        return
    if "+" in source or "(?" in source:
        return  # possessive there, repeated here

    assert expression.fits(text) == (pattern.fullmatch(text) is not None)
    assert expression.found_in(text) == (re.compile(source, re.DOTALL).search(text) is not None)
