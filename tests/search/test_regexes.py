from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hilt.search import regexes, ripgrep
from hilt.search.regexes import BadPattern

pytestmark = pytest.mark.starts_processes

PIECES = [
    *(
        "a",
        "b",
        "é",
        ".",
        "^",
        "$",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{1,2}",
        "\\d",
        "\\w",
        "\\s",
        "\\S",
        "\\W",
        "\\b",
        "\\B",
    ),
    *("[ab]", "[^a]", "[[:alpha:]]", "[a-", "(a|b)", "(?:ab)", "(?P<n>b)", "(?i)A", "(?s).", "(?-m)", "(?x) a #", "x*"),
    *("(", ")", "{", "[", "]", "\\", "\\x61", "\\u{62}", "\\n", "\\<", "(?=", "\\1", "(?U)", "K", "ß", "\\pL", "\\_"),
]
PATTERNS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)


def fault_of(pattern):
    try:
        regexes.translate(pattern)
    except BadPattern as error:
        return error
    return None


@settings(max_examples=50, derandomize=True)
@given(PATTERNS)
def test_exactly_the_patterns_that_ripgrep_rejects_are_rejected(pattern):
    # ripgrep puts the pattern into a group, whose parenthesis a comment swallows or an open group takes
    assume("#" not in pattern)
    fault = fault_of(pattern)
    assume(fault is None or ") without" not in fault.problem)
    program = ripgrep.find()
    assert program is not None
    command = [program, "--no-config", "--multiline", f"--regexp={pattern}", "/dev/null"]

    completed = subprocess.run(command, capture_output=True, text=True)

    assert (fault is None) == (completed.returncode < 2), completed.stderr


@pytest.mark.parametrize(
    "pattern, problem, position",
    [
        ("(foo", "the ( is not closed", 0),
        ("a(b(c)", "the ( is not closed", 1),
        ("foo)|(bar", "there is a ) without its (", 3),
        ("[a", "the [ is not closed", 0),
        ("x[z-a]", "the range runs backwards", 2),
        ("a|*", "there is nothing before the * to repeat", 2),
        ("a{3,1}", "the count runs backwards, from 3 to 1", 1),
        ("ab\\", "a backslash ends the pattern", 2),
        ("a\\q", "there is no escape \\q", 1),
        ("a(?=b)", "look-ahead and look-behind are not supported", 1),
        ("a(?<!b)", "look-ahead and look-behind are not supported", 1),
        ("(a)\\1", "references to groups are not supported in a pattern", 3),
        ("(?z)", "there is no flag 'z'", 2),
        ("(?P<n>a)(?P<n>b)", "there are two groups called n", 12),
        ("(" * 200, "groups are nested deeper than 100", 101),
    ],
)
def test_a_fault_is_reported_with_its_position(pattern, problem, position):
    fault = fault_of(pattern)

    assert fault is not None
    assert (fault.problem, fault.position) == (problem, position)


@pytest.mark.parametrize(
    "replacement, expected",
    [
        ("$0", "ab"),
        ("$1$2", "ab"),
        ("${2}1", "b1"),
        ("$n", "b"),
        ("${n}x", "bx"),
        ("$$1", "$1"),
        ("$", "$"),
        ("${}", "${}"),
    ],
)
def test_a_replacement_expands_groups_as_ripgrep_does(replacement, expected):
    match = re.match("(a)(?P<n>b)", "ab")
    assert match is not None
    completed = subprocess.run(
        [ripgrep.find() or "", "--no-config", "-o", "-r", replacement, "(a)(?P<n>b)"],
        input="ab\n",
        capture_output=True,
        text=True,
    )

    assert (regexes.expanded(replacement, match), completed.stdout) == (expected, expected + "\n")
