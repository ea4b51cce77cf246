from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.formats import globs
from hilt.formats.globs import BadGlob


def matches(glob, path):
    return globs.matcher(globs.parse(glob))(path)


@pytest.mark.parametrize(
    "glob, yes, no",
    [
        ("*.go", ["a.go", "x/y/a.go", ".go"], ["a.gox", "go", "a.go/b"]),
        ("**/*.json", ["a.json", "x/a.json"], ["a.jso"]),
        ("src/**/*_test.go", ["src/a_test.go", "src/x/y/a_test.go"], ["a_test.go", "lib/src/a_test.go"]),
        ("src/*.py", ["src/a.py"], ["a.py", "src/x/a.py", "x/src/a.py"]),
        ("/a.py", ["a.py"], ["x/a.py"]),
        ("./a/b.py", ["a/b.py"], ["x/a/b.py"]),
        ("*.{js,ts}", ["a.js", "x/a.ts"], ["a.jsx", "a.{js,ts}"]),
        ("{src,lib}/{a,b/c}.py", ["src/a.py", "lib/b/c.py"], ["src/b.py", "a.py"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"], ["b", "d"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a/c"]),
        ("**", ["a", "a/b"], []),
        ("a/**/b/**/c/**/d", ["a/b/c/d", "a/1/b/2/3/c/d"], ["a/b/d", "a/c/b/d"]),
        ("?.py", ["a.py", "é.py"], ["ab.py", ".py"]),
        ("[a-c]1", ["a1", "c1"], ["d1", "A1"]),
        ("[!a-c]1", ["d1", "x/d1"], ["a1", "1"]),
        ("[]-]x", ["]x", "-x"], ["ax"]),
        ("[a-]x", ["ax", "-x"], ["bx"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        ("[[:alpha:]][[:digit:]]", ["a1", "Z9"], ["11", "é1", "a"]),
        ("[^[:alnum:][:space:]]", [".", "_"], ["a", "5", " "]),
        ("[[:]ab]", ["[ab]", ":ab]"], ["aab]"]),
        ("[[:digit]ab]", ["[ab]", "dab]"], ["5ab]"]),
        (r"[\-_]", ["-", "_"], ["\\"]),
        (r"[\]]x", ["]x"], ["\\]x", "\\x"]),
        (r"[A-\\]", ["G", "\\"], ["]"]),
        (r"[\1-\3]", ["1", "2", "3"], ["4", "\\"]),
        ("[a-e-n]", ["a", "e", "-", "n"], ["j"]),
        ("[]-a]", ["]", "^", "a"], ["[", "b"]),
        ("[--A]", ["-", "5", "A"], ["B", ","]),
        ("[------]", ["-"], ["a"]),
        ("[b-ac]x", ["cx"], ["ax", "bx"]),
        ("x[b-a]", [], ["x", "xa", "xb"]),
        ("x[!b-a]", ["xa", "xb"], ["x"]),
        ("a:*", ["a:b", "x/a:"], ["ab"]),
        ("{a}/*.{py}", ["a/x.py", "{a}/x.py", "a/x.{py}"], ["b/x.py"]),
        ("{{a.b}}/x", ["{{a.b}}/x", "a.b/x"], ["{{a_b}}/x"]),
        ("a b\n'\"", ["a b\n'\""], ["a b"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
    ],
)
def test_a_glob_matches_its_paths_and_no_others(glob, yes, no):
    assert [path for path in yes if not matches(glob, path)] == []
    assert [path for path in no if matches(glob, path)] == []


@pytest.mark.parametrize(
    "glob, problem",
    [
        ("", "nothing to match"),
        ("/", "nothing to match"),
        ("[a", "[ is not closed"),
        ("{a,b", "{ is not closed"),
        ("a}", "} without its {"),
        ("a\\", "backslash ends"),
        ("[[:digits:]]", "no class [:digits:]"),
        ("[\\]", "[ is not closed"),
        ("a/", "ends with a slash"),
        ("../*.py", "contains .."),
        ("a/{b,..}/c", "contains .."),
        ("{a,b}" * 10, "more than 256 globs"),
        ("{" * 60 + "}" * 60, "more than 50 braces"),
    ],
)
def test_an_invalid_glob_is_rejected_with_its_fault(glob, problem):
    with pytest.raises(BadGlob, match=problem.replace("[", r"\[").replace("{", r"\{")):
        globs.parse(glob)


@pytest.mark.parametrize(
    "glob, path",
    [
        ("*a" * 40 + "b", "a" * 250),
        ("**/" * 30 + "b", "a/" * 400 + "c"),
        ("*/" * 20 + "**/" * 20 + "x", "a/" * 1000 + "y"),
        ("?*" * 100 + "z", "a" * 250),
    ],
)
def test_no_glob_takes_long(glob, path):
    assert not matches(glob, path)


@given(st.text("ab*?/.{},[]!-\\", max_size=12), st.text("ab/.", max_size=12))
def test_any_text_is_a_valid_glob_or_rejected(glob, path):
    try:
        parsed = globs.parse(glob)
    except BadGlob:
        return
    assert globs.matcher(parsed)(path) in (True, False)


@given(st.text("ab.*?", min_size=1, max_size=8), st.text("ab.", min_size=1, max_size=12))
def test_the_atomic_expression_agrees_with_backtracking(glob, name):
    def backtrack(glob, name):
        if not glob:
            return not name
        if glob[0] == "*":
            return any(backtrack(glob[1:], name[size:]) for size in range(len(name) + 1))
        return bool(name) and glob[0] in (name[0], "?") and backtrack(glob[1:], name[1:])

    if set(glob) != {"*"} and glob not in (".", ".."):
        assert matches(glob, name) == backtrack(glob, name)


@pytest.mark.parametrize(
    "glob, plain",
    [
        ("app/[id]/*.tsx", ["app/[id]/x.tsx"]),
        ("[[:digit:]]/[a\\]]", [r"[[:digit:]]/[a\]]"]),
        ("{a,[b]}", ["[b]"]),
        ("[post-id]/[b-a]", ["[post-id]/[b-a]"]),
        ("a/*/c", []),
    ],
)
def test_brackets_can_be_plain_characters(glob, plain):
    written = globs.as_written(globs.parse(glob))

    assert [globs.matcher([alternative])(path) for alternative, path in zip(written, plain, strict=True)] == [
        True
    ] * len(plain)
