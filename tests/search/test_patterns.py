from __future__ import annotations

import pytest

from hilt.search import patterns


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "pattern, problem, position",
    [
        ("(foo", "the ( is not closed", 0),
        ("a(b(c)", "the ( is not closed", 1),
        ("a(b[)]\\)", "the ( is not closed", 1),
        ("[a", "unclosed character class", 0),
        ("x[z-a]", "the start must be <= the end", 2),
        ("a|*", "repetition operator missing expression", 2),
        ("a{3,1}", "the start must be <= the end", 1),
        ("ab\\", "a backslash ends the pattern", 2),
        ("a\\q", "unrecognized escape sequence", 1),
        ("a(?=b)", "look-around", 1),
        ("a(?<!b)", "look-around", 1),
        ("(a)\\1", "backreferences are not supported", 3),
        ("(?z)", "unrecognized flag", 2),
    ],
)
def test_a_fault_is_reported_with_its_position(runtime, pattern, problem, position):
    error = runtime.call("search_files", pattern=pattern).error

    assert (error.code, error.details) == ("invalid_regex", {"position": position})
    assert problem in error.message
    assert error.message.endswith(f" at character {position + 1}.")


@pytest.mark.starts_processes
def test_a_fault_is_where_it_is_in_a_pattern_for_whole_texts(runtime, workspace):
    workspace.write("a.txt", "x\n")

    error = runtime.call("search_replace", pattern="x[z-a]", replacement="", files="a.txt", multiline=False).error

    assert error.details == {"position": 2}


@pytest.mark.parametrize(
    "pattern, count, names",
    [
        ("a", 0, ()),
        ("(a)(?:b)(c)", 2, ()),
        ("(?P<n>a)((?<m>b))", 3, ("n", "m")),
        (r"\(a\)[(]([^)]+)[]()]", 1, ()),
        ("[[:alpha:](](?i:x)(?i)(y)", 1, ()),
    ],
)
def test_the_groups_of_a_pattern_are_counted_without_plain_parentheses(pattern, count, names):
    assert patterns.groups(pattern) == (count, names)


@pytest.mark.parametrize("pattern", ["\r", r"\r", r"a\x0D", r"[\u{d}]", r"\\\r"])
def test_a_carriage_return_in_a_pattern_is_not_part_of_a_line_ending(pattern):
    assert not patterns.read_pattern(pattern, literal=False, ignore_case=False, multiline=False).crlf


def test_a_backslash_and_an_r_are_not_a_carriage_return():
    assert patterns.read_pattern(r"\\r", literal=False, ignore_case=False, multiline=False).crlf


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "pattern, replacement, expected",
    [
        ("$", ";", "a;\nb;"),
        (r"\z", "$$1", "a\nb$1"),
        ("(?<end>$)", "[$end]", "a[]\nb[]"),
        ("(?x) $ # the end", "!", "a!\nb!"),
    ],
)
def test_an_empty_match_at_the_end_of_a_text_is_replaced(runtime, workspace, pattern, replacement, expected):
    workspace.write("a.txt", "a\nb")

    result = runtime.call("search_replace", pattern=pattern, replacement=replacement, files="a.txt")

    assert result.error is None
    assert workspace.read("a.txt") == expected
