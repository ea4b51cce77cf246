from __future__ import annotations

from functools import partial

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.text.matching import find_edit
from tests.text.work import count_steps


def edit(text, old_text, new_text, **options):
    span = find_edit(text, old_text, new_text, path="a.py", **options).span
    return text[: span.start] + span.new + text[span.end :]


def refusal(text, old_text, new_text, **options):
    with pytest.raises(ToolError) as caught:
        find_edit(text, old_text, new_text, path="a.py", **options)
    return caught.value


@pytest.mark.parametrize(
    "text, old_text, new_text, lines",
    [
        ("one\ntwo\nthree\n", "two", "2", (2, 2)),
        ("one\ntwo\nthree\n", "two\n", "", (2, 2)),
        ("one\ntwo\nthree\n", "e\ntwo\nth", "X", (1, 3)),
        ("one", "one", "two\nthree", (1, 1)),
        ("a\n\nb\n", "\n\n", "\n", (1, 2)),
    ],
)
def test_text_that_occurs_once_is_replaced_in_place(text, old_text, new_text, lines):
    match = find_edit(text, old_text, new_text, path="a.py")

    assert match.exact
    assert edit(text, old_text, new_text) == text.replace(old_text, new_text)
    assert (match.first_line, match.last_line) == lines


def test_empty_old_text_is_rejected():
    assert refusal("text", "", "new").code == "old_text_empty"


@pytest.mark.parametrize(
    "text, old_text, lines, count",
    [
        ("x = 1\ny\nx = 1\n", "x = 1", [1, 3], 2),
        ("aaa", "aa", [1], 2),
        ("a\nb\na\nb\na\n", "a\nb\na", [1, 3], 2),
        ("x\n" * 25, "x", list(range(1, 11)), 25),
        ("“x”\n‘x’\n“x”\n", '"x"', [1, 3], 2),
        ("x \ny\nx\t\ny\n", "x\ny", [1, 3], 2),
    ],
)
def test_text_that_occurs_several_times_is_rejected_with_its_lines(text, old_text, lines, count):
    error = refusal(text, old_text, "new")

    assert (error.code, error.details) == ("edit_not_unique", {"lines": lines, "count": count})
    assert f"{count} times" in error.message


def test_matches_beyond_the_list_are_counted():
    assert "and 15 more" in refusal("x\n" * 25, "x", "y").message


@pytest.mark.parametrize(
    "text, old_text, new_text, result",
    [
        ("a\r\nb\r\nc\r\n", "a\nb\n", "a\nB\n", "a\r\nB\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b", "b\nb2", "a\r\nb\r\nb2\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "\nb", "", "a\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b\nc", "b\r\nC", "a\r\nb\r\nC\r\n"),
        ("a\nb\r\nc\nd\n", "b", "b\nB", "a\nb\r\nB\r\nc\nd\n"),
        ("a\nb\nc\n", "a\r\nb\r\n", "a\r\nB\r\n", "a\nB\nc\n"),
        ("a\nb\nc\n", "b", "b\r\nB", "a\nb\nB\nc\n"),
        ("a\rb\rc", "a\nb", "a\nB\nb", "a\rB\rb\rc"),
        ("a\rb\rc", "b", "b\nB", "a\rb\rB\rc"),
        ("x\r\ny", "y", "y\nz", "x\r\ny\r\nz"),
        ("a\r\n\r\n\r\nb", "\n\n\n", "\n", "a\r\nb"),
        ("x", "x", "y\nz", "y\nz"),
        ("a\r\nb\r\n", "\nb", "\nb\nc", "a\r\nb\r\nc\r\n"),
        ("\r\na\n", "\na\n", "\nb\n", "\r\nb\n"),
        ("a\r\nb\r\nc\nd", "a\r\nb\r\nc\n", "a\r\nb\r\nC\n", "a\r\nb\r\nC\nd"),
    ],
)
def test_new_text_gets_the_line_ending_of_the_text_that_it_replaces(text, old_text, new_text, result):
    assert edit(text, old_text, new_text) == result


@pytest.mark.parametrize(
    "text, old_text, new_text, result",
    [
        ("say(“hello”)\n", 'say("hello")', 'say("bye")', 'say("bye")\n'),
        ("it’s – well — so\n", "it's - well - so", "done", "done\n"),
        ("a\u00a0=\u20031\n", "a = 1", "a = 2", "a = 2\n"),
        ("if x:   \n    y()\t\nend\n", "if x:\n    y()\n", "if x:\n    z()\n", "if x:   \n    z()\nend\n"),
        ("if x:\n    y()\nend\n", "if x:  \n    y()\t\n", "if z:\n    y()\n", "if z:\n    y()\nend\n"),
        ("one\nlast", "one\nlast\n", "one\nend\n", "one\nend"),
        ("one\nlast", "last\n", "", "one\n"),
        ("keep “this”  \nold\nand ‘that’\t\n", "keep \"this\"\nold\nand 'that'\n", "keep \"this\"\nnew\nand 'that'\n",
         "keep “this”  \nnew\nand ‘that’\t\n"),
        ("a  \nb\nc\n", "a\nb\nc\n", "a\nx\nb\ny\nc\n", "a  \nx\nb\ny\nc\n"),
        ("a  \nb\t\nc", "a\nb\nc", "c\nb", "c\nb"),
    ],
)  # fmt: skip
def test_a_copy_that_differs_in_whitespace_or_typography_is_found_and_unchanged_lines_are_preserved(
    text, old_text, new_text, result
):
    assert not find_edit(text, old_text, new_text, path="a.py").exact
    assert edit(text, old_text, new_text) == result


def test_an_invalid_byte_that_was_shown_as_a_replacement_character_survives_an_edit_next_to_it():
    assert edit("caf\udce9 = 1\nx\n", "caf\ufffd = 1\nx", "caf\ufffd = 2\nx") == "caf\udce9 = 2\nx\n"


@pytest.mark.parametrize(
    "text, old_text",
    [
        ("x = 10\n", "x = 1  "),
        ("foobar\n", "foo \n"),
        ("a\n\nb\n", "a\nb\n"),
        ("  \n\t\n", " \n \n \n"),
        ("Straße\n", "STRASSE"),
        ("a\n", "  "),
    ],
)
def test_a_copy_with_any_other_difference_is_not_found(text, old_text):
    assert refusal(text, old_text, "new").code == "edit_not_found"


@pytest.mark.parametrize(
    "text, old_text, new_text",
    [
        ("one\n", "one", "one"),
        ("“one”\n", '"one"', "'one'".replace("'", '"')),
        ("one  \ntwo\n", "one\ntwo", "one\t\ntwo"),
        ("one\r\ntwo\r\n", "one\ntwo", "one\ntwo"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "one\ntwo"),
    ],
)
def test_an_edit_that_changes_nothing_is_rejected(text, old_text, new_text):
    assert refusal(text, old_text, new_text).code == "edit_no_change"


@pytest.mark.parametrize(
    "text, old_text, new_text",
    [("a  \nb\n", "a  \n", "a\n"), ("“a”\n", "“a”", '"a"'), ("a\u00a0b\n", "a\u00a0b", "a b")],
)
def test_a_change_of_only_whitespace_or_quotes_is_an_edit_when_old_text_is_exact(text, old_text, new_text):
    assert edit(text, old_text, new_text) == text.replace(old_text, new_text)


@pytest.mark.parametrize(
    "text, old_text, new_text, result",
    [
        # the copy lost the indentation, or has another one
        ("class A:\n    def f(self):\n        a()\n", "def f(self):\n    a()\n", "def f(self):\n    b()\n    c()\n",
         "class A:\n    def f(self):\n        b()\n        c()\n"),
        ("if x:\n  a()\n", "        a()\n", "        a()\n        b()\n", "if x:\n  a()\n  b()\n"),
        ("\tif x:\n\t\ta()\n", "if x:\n    a()\n", "if x:\n    for y in z:\n        a()\n",
         "\tif x:\n\t\tfor y in z:\n\t\t\ta()\n"),
        ("    if x:\n        a()\n", "\tif x:\n\t\ta()\n", "\tif x:\n\t\tb()\n\t\t\tc()\n",
         "    if x:\n        b()\n            c()\n"),
        ("    if x:\n        a()\n", "  if x:\n    a()\n", "  if x:\n    b()\n      c()\n  d()\n",
         "    if x:\n        b()\n            c()\n    d()\n"),
        ("        a()\n        b()\n", "    a()\n    b()\n", "    a()\nc()\n", "        a()\n    c()\n"),
        ("\ta()\n", "    a()\n", "    a()\n\n    b()\n", "\ta()\n\n\tb()\n"),
        ("\t\ta()\n", "    a()\n", "    if x:\n        a()\n", "\t\tif x:\n\t\t\t\ta()\n"),
        ("\tx()\r\n\ty()", "x()\ny()\n", "x()\nz()\n", "\tx()\r\n\tz()"),
        ("    a()\n", "a()  ", "b()\nc()", "    b()\n    c()\n"),
        ("\ta()\n", "a()\n", "if x:\n\ta()\n", "\tif x:\n\t\ta()\n"),
        # the copy is exact, and new_text is a block with its own indentation
        ("\tif y:\n\t\ta()\n", "a()", "if x:\n    a()", "\tif y:\n\t\tif x:\n\t\t\ta()\n"),
        ("    a()\n", "    a()\n", "if x:\n    a()\n", "    if x:\n        a()\n"),
        ("    a()\n", "a()", "        b()\n        c()", "    b()\n    c()\n"),
        ("    a()\n    b()\n", "    a()\n", "    c()\n", "    c()\n    b()\n"),
        # unchanged: old_text starts inside a line, or has the indentation of the file
        ("    x = a()\n", "a()", "b(\n    1)", "    x = b(\n    1)\n"),
        ("    a()\n    b()\n", "a()\n    b()", "c()\n    d()", "    c()\n    d()\n"),
        ("    a()\n    b()\n", "    a()\n", "", "    b()\n"),
    ],
)  # fmt: skip
def test_fuzzy_indent_indents_new_text_like_its_surroundings(text, old_text, new_text, result):
    assert edit(text, old_text, new_text, fuzzy_indent=True) == result


@pytest.mark.parametrize(
    "text, old_text",
    [
        ("    a()\n    b()\n", "a()\n    b()\n  c()\n"),
        ("    a()\n        b()\n", "a()\nb()\n"),
        ("a()\n    b()\n", "    a()\nb()\n"),
    ],
)
def test_with_fuzzy_indent_a_block_with_other_nesting_is_not_found(text, old_text):
    assert refusal(text, old_text, "new", fuzzy_indent=True).code == "edit_not_found"


def test_fuzzy_indent_rejects_two_matches():
    error = refusal("  a()\n  b()\n    a()\n    b()\n", "a()\nb()\n", "c()\n", fuzzy_indent=True)

    assert (error.code, error.details["lines"]) == ("edit_not_unique", [1, 3])


def test_text_with_another_indentation_is_not_found_and_the_error_suggests_fuzzy_indent():
    error = refusal("x\n    if a:\n        b\n", "if a:\n    b\n", "c\n")

    assert error.code == "edit_not_found"
    assert "fuzzy_indent: true" in error.suggestion
    assert "line 2" in error.suggestion


def test_missing_text_suggests_the_nearest_line():
    error = refusal(
        "import os\n\ndef compute(value):\n    return value\n", "def compute(valeu):\n    return value\n", "x"
    )

    assert error.code == "edit_not_found"
    assert error.details == {"nearest_line": 3, "nearest_text": "def compute(value):"}
    assert "4 lines" in error.message
    assert "line 3: 'def compute(value):'" in error.message


def test_the_nearest_line_matches_the_first_missing_line():
    error = refusal("alpha()\nbeta()\ngamma(1)\n", "alpha()\nbeta()\ngamma(2)\n", "x")

    assert error.details["nearest_line"] == 3
    assert "its line 3, 'gamma(2)'" in error.message


def test_a_long_nearest_line_is_truncated():
    error = refusal("x" * 5_000 + "\n", "x" * 190 + "yy", "z")

    assert error.details == {"nearest_line": 1, "nearest_text": "x" * 200 + "…"}


def test_nothing_similar_gives_no_nearest_line():
    error = refusal("aaaa\n", "zzzz", "x")

    assert (error.code, error.details) == ("edit_not_found", {})


LINES = st.lists(
    st.tuples(
        st.sampled_from(["", " ", "    ", "\t"]),
        st.sampled_from(["a", "b“c”", "d-e", "f–g", "x y", "x\u00a0y", ""]),
        st.sampled_from(["", " ", "\t "]),
        st.sampled_from(["\n", "\r\n"]),
    ),
    min_size=1,
    max_size=12,
)


@given(LINES, st.data(), st.booleans())
def test_an_edit_changes_nothing_outside_the_lines_that_match(parts, data, fuzzy_indent):
    text = "".join(map("".join, parts))
    first = data.draw(st.integers(0, len(parts) - 1))
    last = data.draw(st.integers(first, len(parts) - 1))
    plain = str.maketrans("“”–\u00a0", '""- ')
    copy = "".join(indent + word.translate(plain) + "\n" for indent, word, _, _ in parts[first : last + 1])
    try:
        match = find_edit(text, copy, "new\nlines\n", path="a.py", fuzzy_indent=fuzzy_indent)
    except ToolError:
        reject()

    matched = text[match.span.start : match.span.end]
    assert "".join(matched.translate(plain).split()) == "".join(copy.split())
    assert match.first_line == text.count("\n", 0, match.span.start) + 1


@given(LINES, st.data())
def test_a_line_changed_in_a_plain_copy_is_the_only_line_that_changes(parts, data):
    lines = ["".join(part) for part in parts]
    changed = data.draw(st.integers(0, len(parts) - 1))
    plain = str.maketrans("“”–\u00a0", '""- ')
    copies = [indent + word.translate(plain) for indent, word, _, _ in parts]
    assume(len({copy.rstrip() for copy in copies}) == len(copies))
    new = [*copies[:changed], "changed", *copies[changed + 1 :]]

    result = edit("".join(lines), "\n".join(copies) + "\n", "\n".join(new) + "\n")

    assert [line for i, line in enumerate(result.splitlines(keepends=True)) if i != changed] == [
        line for i, line in enumerate(lines) if i != changed
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ("x = 1 \n" * n, "x = 1\n" * (n // 4) + "y\n"),
        lambda n: ("x\n" * n, "x\n" * (n // 2)),
        lambda n: (" " * n, "  \n  a"),
        lambda n: ("".join(" " * (i % 7) + "x\n" for i in range(n)), "x\n" * (n // 4) + "  x\n"),
        lambda n: ("\n" * n, " \n" * (n // 2) + "a"),
    ],
)
@pytest.mark.parametrize("fuzzy_indent", [False, True])
def test_work_is_linear_in_the_text(make, fuzzy_indent):
    refuse = partial(refusal, new_text="new", fuzzy_indent=fuzzy_indent)
    small, large = (count_steps(refuse, *make(n)) for n in (500, 4_000))

    assert large < 10 * small + 1_000
