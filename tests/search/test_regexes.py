from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hilt.search import regexes, ripgrep
from hilt.search.regexes import BadPattern
from hilt.testing import temporary_runtime
from tests.search.backends import without_ripgrep

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
TEXT = "ab aB\nbaé 12\n\naab\r\nbb\u2003x\n \tK k\nSTRASSE ß a"


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


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return str(tmp_path_factory.mktemp("regexes"))


@settings(max_examples=25, derandomize=True)
@given(
    pattern=PATTERNS,
    multiline=st.booleans(),
    case_insensitive=st.booleans(),
    context=st.integers(0, 2),
    format=st.sampled_from(["json", "text", "filenames"]),
)
def test_ripgrep_and_python_find_the_same_matches(place, pattern, multiline, case_insensitive, context, format):
    args = {"pattern": pattern, "multiline": multiline, "case_insensitive": case_insensitive, "format": format}
    args |= {} if format == "filenames" else {"context_lines": context}
    fault = fault_of(pattern)
    assume(fault is None)
    translated = regexes.translate(pattern, ignore_case=case_insensitive)
    assume(translated.unsupported is None)
    # the backends differ on where several empty matches are
    compiled = regexes.compiled(pattern, literal=False, ignore_case=case_insensitive, lines=True, crlf=True)
    assume(not multiline or not any(match.end() == match.start() for match in compiled.finditer(TEXT + "\n\r\n.é")))
    with temporary_runtime(place) as (runtime, workspace):
        workspace.write("t.txt", TEXT)
        workspace.write("odd.txt", b"a\xff b\nab\n")
        workspace.write("wide.txt", "ab é\nb\n".encode("utf-16"))
        workspace.write("marked.txt", b"\xef\xbb\xbfab\n")
        workspace.write("none.bin", b"ab\n\0\nab\n")
        by_ripgrep = runtime.call("search_files", **args)
        with without_ripgrep(place):
            by_python = runtime.call("search_files", **args)

    def outcome(result):
        if result.error is not None:
            return result.error.code
        return result.data if format == "json" else (result.text, result.meta["truncation"])

    assert outcome(by_ripgrep) == outcome(by_python)


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
