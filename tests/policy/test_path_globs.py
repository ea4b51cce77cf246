"""Globs of path rules: narrow for an allow, wide for a deny."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.formats.globs import BadGlob
from hilt.policy import path_globs
from tests.policy.calls import HOME, outside, path


@pytest.mark.parametrize(
    "glob, relative, is_covered, expected",
    [
        ("a.py", "a.py", True, "yes"),
        ("a.py", "src/a.py", False, "yes"),
        ("./a.py", "a.py", True, "yes"),
        ("a.py", "A.py", False, "yes"),
        ("a.py", "a.pyc", False, "no"),
        ("*.py", "a.py", True, "yes"),
        ("*.py", "src/a.py", False, "yes"),
        ("*.py", "a.py/b", False, "yes"),
        ("src/*", "src/a", True, "yes"),
        ("src/*", "src/a/b", False, "yes"),
        ("src/*", "src", False, "no"),
        ("src/**", "src", True, "yes"),
        ("src/**", "src/a/b", True, "yes"),
        ("src/**", "src2/a", False, "no"),
        ("src/", "src", True, "yes"),
        ("src/", "src/a", False, "yes"),
        ("**", "a/b", True, "yes"),
        ("**", ".", True, "yes"),
        (".", ".", True, "yes"),
        ("**/*.pem", "a.pem", True, "yes"),
        ("**/*.pem", "a/b/c.pem", True, "yes"),
        ("**/*.pem", "a/b/c.pen", False, "no"),
        ("a/**/z", "a/z", True, "yes"),
        ("a/**/z", "a/b/c/z", True, "yes"),
        ("a/**/z", "a/b/c/z/d", False, "yes"),
        ("a/**/b/**/c", "a/x/b/y/b/c", True, "yes"),
        ("a?c/x", "abc/x", True, "yes"),
        ("a?c/x", "ac/x", False, "no"),
        ("a*b*c/x", "axbxbc/x", True, "yes"),
        ("a*b*c/x", "axcxb/x", False, "no"),
        (r"a\*/x", "a*/x", True, "yes"),
        (r"a\*/x", "ab/x", False, "no"),
        (r"app/\[id\]/x", "app/[id]/x", True, "yes"),
        (r"app/\[id\]/x", "app/i/x", False, "no"),
        ("app/[id]/x", "app/[id]/x", True, "yes"),
        ("app/[id]/x", "app/[ID]/x", False, "yes"),
        ("app/[id]/x", "app/i/x", False, "yes"),
        ("app/[id]/x", "app/D/x", False, "yes"),
        ("app/[id]/x", "app/e/x", False, "no"),
        ("app/[id]/x", "app/id/x", False, "no"),
        ("app/[...slug]/**", "app/[...slug]/a/b", True, "yes"),
        ("app/[post-id]/x", "app/[post-id]/x", True, "yes"),
        ("*[0-9].[[:alpha:]]", "log1.Z", False, "yes"),
        ("*[0-9].[[:alpha:]]", "logs.z", False, "no"),
        ("[!a]/x", "b/x", False, "yes"),
        ("[!a]/x", "[!a]/x", True, "yes"),
        ("a]/x", "a]/x", True, "yes"),
        ("dir/é", "dir/e\u0301", False, "yes"),
        ("dir/key", "dir/k\u200bey", False, "yes"),
        ("dir/key", "dir/\uff4bey", False, "yes"),
        ("dir/straße", "dir/STRASSE", False, "yes"),
    ],
)
def test_an_allow_is_narrow_and_a_deny_is_wide(glob, relative, is_covered, expected):
    parsed = path_globs.parse(glob, HOME)

    assert path_globs.covers(parsed, path("write", relative)) == is_covered
    assert path_globs.applies(parsed, path("write", relative)) == expected


@pytest.mark.parametrize(
    "glob, relative, is_covered, expected",
    [
        ("src/**", "src", True, "yes"),
        ("src/**", "src/a", True, "yes"),
        ("src/**", ".", False, "maybe"),
        ("src/*", "src", False, "maybe"),
        ("src", "src", False, "yes"),
        ("src/a/b", "src", False, "maybe"),
        ("src/a/b", "docs", False, "no"),
        ("**/x", "docs", False, "maybe"),
        ("*.pem", "docs", False, "maybe"),
        ("**", ".", True, "yes"),
    ],
)
def test_a_folder_includes_everything_below_it(glob, relative, is_covered, expected):
    parsed = path_globs.parse(glob, HOME)

    assert path_globs.covers(parsed, path("read", relative, tree=True)) == is_covered
    assert path_globs.applies(parsed, path("read", relative, tree=True)) == expected


@pytest.mark.parametrize(
    "glob, target, expected",
    [
        ("/etc/**", "/etc/passwd", "yes"),
        ("/etc/**", "/ETC/passwd", "yes"),
        ("/etc", "/etc/passwd", "yes"),
        ("/", "/etc/passwd", "yes"),
        ("~/.ssh/*", "/homes/ann/.ssh/id", "yes"),
        ("~/.ssh/*", "/homes/bob/.ssh/id", "no"),
        ("~", "/homes/ann/x", "yes"),
        ("etc/**", "/etc/passwd", "no"),
        ("passwd", "/etc/passwd", "no"),
    ],
)
def test_an_absolute_glob_is_matched_against_the_absolute_path(glob, target, expected):
    assert path_globs.applies(path_globs.parse(glob, HOME), outside("read", target)) == expected


def test_the_home_directory_is_matched_literally():
    glob = path_globs.parse("~/x", "/homes/a*")

    assert path_globs.covers(glob, outside("read", "/homes/a*/x"))
    assert not path_globs.covers(glob, outside("read", "/homes/ab/x"))


@pytest.mark.parametrize(
    "glob", ["", "../a", "a/../b", "a[b", "[[:none:]]", "{a,b}", "a**", "a***b", "x\\", "~ann/x", "a\0", "a" * 3000]
)
def test_an_invalid_glob_is_rejected(glob):
    with pytest.raises(BadGlob):
        path_globs.parse(glob, HOME)


def test_an_unknown_home_is_rejected():
    with pytest.raises(BadGlob):
        path_globs.parse("~/x", "")


names = st.text(st.sampled_from("ab*?[]{}\\~é.A"), min_size=1, max_size=5).filter(lambda name: name not in (".", ".."))
relatives = st.lists(names, min_size=1, max_size=4).map("/".join)


@given(relatives, relatives)
def test_a_quoted_path_covers_only_that_path(relative, other):
    glob = path_globs.parse("./" + path_globs.quote(relative), HOME)

    assert path_globs.covers(glob, path("read", relative))
    assert path_globs.covers(glob, path("read", other)) == (relative == other)


plain = st.lists(st.text("ab[]", min_size=1, max_size=4), min_size=1, max_size=4)
patterns = st.lists(st.text("ab*?[]", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


@given(patterns, plain, st.booleans())
def test_a_deny_matches_everything_that_an_allow_covers(pattern, parts, tree):
    try:
        glob = path_globs.parse(pattern, HOME)
    except BadGlob:
        return
    touched = path("read", "/".join(parts), tree=tree)

    if path_globs.covers(glob, touched):
        assert path_globs.applies(glob, touched) == "yes"


@given(patterns, plain, plain)
def test_a_folder_matches_when_a_path_below_it_does(pattern, parts, below):
    try:
        glob = path_globs.parse(pattern, HOME)
    except BadGlob:
        return

    if path_globs.applies(glob, path("read", "/".join(parts + below))) == "yes":
        assert path_globs.applies(glob, path("read", "/".join(parts), tree=True)) != "no"


def test_many_stars_do_not_hang():
    glob = path_globs.parse("/".join(["**", "*a*a*a*a*b"] * 100), HOME)

    assert not path_globs.covers(glob, path("read", "/".join(["a" * 200] * 100)))
