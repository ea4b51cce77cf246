from __future__ import annotations

import posixpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.policy import barriers, rules
from hilt.policy.barriers import Barrier, Bars, make_bars
from hilt.policy.rules import RuleSet
from hilt.policy.subject import Base, Subject, Touched
from tests.policy.calls import HOME, NAMES, ROOT, call

OTHER = "/srv/other"

names = st.sampled_from(["a", "b", "A", "ab", "secret", "Secret", ".x", "é", "e\u0301", "a\u200bb"])
components = st.one_of(names, st.sampled_from(["*", "**", "?", "a*", "*b", "s?cret", "*.*"]))
heads = st.sampled_from(["", "", "", "/", "~/", f"{ROOT}/", "./", f"{OTHER}/", "/srv/"])
sources = st.builds(lambda head, parts: head + "/".join(parts), heads, st.lists(components, min_size=1, max_size=4))
bases = st.sampled_from([ROOT, ROOT, ROOT, HOME, OTHER, "/", "/project"])
paths = st.builds(lambda base, parts: posixpath.join(base, *parts), bases, st.lists(names, max_size=5))


def ruleset(**lists: list[str]) -> RuleSet:
    text = "\n".join(f"{verdict}: {sources!r}" for verdict, sources in lists.items())
    parsed = rules.parse(text, "permissions.yaml", NAMES, trusted=True, home=HOME)
    assert not parsed.problems, parsed.problems
    return parsed


def bars_of(**lists: list[str]) -> Bars:
    bars = make_bars([ruleset(**lists)], Base(ROOT), (ROOT,), {})
    assert bars is not None
    return bars


def reached(effect: str, path: str) -> Subject:
    inside = posixpath.relpath(path, ROOT)
    relative = None if inside == ".." or inside.startswith("../") else inside
    return call("read_file" if effect == "read" else "write_file", Touched(effect, path, relative))


@given(globs=st.lists(sources, min_size=1, max_size=6), path=paths, tree=st.booleans())
@example(["a/b/c"], f"{ROOT}/a", True)
def test_no_rule_that_applies_to_a_call_is_left_out(globs, path, tree):
    rule_set = ruleset(deny=[f"Read(path:{glob})" for glob in globs])
    inside = reached("read", path)
    subject = inside._replace(touches=tuple(touched._replace(tree=tree) for touched in inside.touches))

    applying = [rule for rule in rule_set.rules if rule.form.applies(subject) != "no"]
    covering = [rule for rule in rule_set.rules if rule.form.covers(subject, subject.touches[0])]

    candidates = rule_set.rules.about(subject)
    assert [rule for rule in candidates if rule in applying] == applying
    assert set(covering) <= set(candidates)


@given(globs=st.lists(sources, min_size=1, max_size=4), path=paths, effect=st.sampled_from(["read", "write"]))
@example(["secret/**"], f"{ROOT}/secret", "read")
@example(["**"], ROOT, "write")
def test_a_watch_agrees_with_the_decision_on_a_path(globs, path, effect):
    name = {"read": "Read", "write": "Write"}[effect]
    rule_set = ruleset(deny=[f"{name}(path:{glob})" for glob in globs])
    bars = make_bars([rule_set], Base(ROOT), (ROOT,), {})
    assert bars is not None

    ruling = rules.decide([rule_set], reached(effect, path))

    assert (bars.deny[effect == "write"].covering(path) is not None) == (ruling is not None)
    assert bars.deny[effect == "read"].covering(path) is None


@given(
    globs=st.lists(sources, min_size=1, max_size=4), start=paths, names_below=st.lists(names, min_size=1, max_size=4)
)
@example(["secret/*"], f"{ROOT}/secret", ["x"])
@example(["a/**/*"], f"{ROOT}/a", ["b", "c"])
def test_all_paths_below_an_enclosed_folder_are_covered_and_none_below_an_unreachable_one(globs, start, names_below):
    watch = bars_of(deny=[f"Read(path:{glob})" for glob in globs]).deny[0]
    below = posixpath.join(start, *names_below)

    if watch.encloses(start):
        assert watch.covering(below) is not None
    # a relative glob starts at the workspace, wherever that is
    if watch.reach(start) == "no" and not ROOT.startswith(start.rstrip("/") + "/"):
        assert watch.covering(below) is None
    if watch.covering(start) is not None:
        assert (watch.covering(below) is not None, watch.encloses(start), watch.reach(start)) == (True, True, "yes")


@given(globs=st.lists(sources, min_size=1, max_size=3), paths_asked=st.lists(paths, min_size=1, max_size=20))
def test_answers_do_not_depend_on_earlier_questions(globs, paths_asked):
    texts = [f"Write(path:{glob})" for glob in globs]
    watch = bars_of(deny=texts).deny[1]

    for path in paths_asked:
        assert watch.covering(path) == bars_of(deny=texts).deny[1].covering(path)


@pytest.mark.parametrize(
    "glob, path, expected",
    [
        ("secrets/**", "secrets", True),
        ("secrets", "secrets", True),
        ("secrets/*", "secrets", True),
        ("secrets/*.pem", "secrets", False),
        ("secrets/*.pem", "secrets/a.pem", True),
        ("secrets/*.pem", "secrets/new/a.pem", False),
        ("*.pem", "deep/er/a.PEM", True),
        ("**", ".", True),
        ("*", ".", True),
        ("secrets/**", ".", False),
        ("secrets/**/key", "secrets/a/b/key", True),
        ("secrets/**/key", "secrets/a", False),
    ],
)
def test_a_folder_is_enclosed_by_a_rule_on_it_or_on_all_its_contents(glob, path, expected):
    watch = bars_of(deny=[f"Write(path:{glob})"]).sandbox[1]

    assert watch.encloses(posixpath.normpath(posixpath.join(ROOT, path))) == expected


def test_paths_that_ask_are_denied_to_commands_except_the_whole_workspace():
    bars = bars_of(ask=["Read(path:private/**)", "Write(path:**)", "Write(path:src/**)"], deny=["Read(path:x)"])

    assert [rule.text for rule in bars.sandbox[0].rules] == ["Read(path:x)", "Read(path:private/**)"]
    assert [rule.text for rule in bars.sandbox[1].rules] == ["Write(path:src/**)"]
    assert [rule.text for rule in bars_of(deny=["Write(path:**)"]).sandbox[1].rules] == ["Write(path:**)"]


def test_a_command_reaches_the_paths_that_it_was_approved_for():
    bars = bars_of(ask=["Write(path:src/**)", "Write(path:docs/**)"])
    subject = call("run_shell", Touched("write", f"{ROOT}/src/a", "src/a"))

    watches = Barrier(bars, subject, ROOT, ()).sandbox

    assert watches is not None
    assert [rule.text for rule in watches[1].rules] == ["Write(path:docs/**)"]


def test_a_rule_that_names_a_link_applies_to_where_it_leads():
    links = {f"{ROOT}/current": f"{ROOT}/releases/5", "/etc/alias": "/srv/other"}
    rule_set = ruleset(deny=["Read(path:current/**)", "Read(path:/etc/alias/*.key)"])
    bars = make_bars([rule_set], Base(ROOT), (ROOT,), links)
    assert bars is not None
    watch = bars.deny[0]

    covered = [f"{ROOT}/current/a", f"{ROOT}/releases/5/a", f"{ROOT}/releases/5", "/srv/other/a.key"]
    free = [f"{ROOT}/releases/4/a", f"{ROOT}/releases", "/srv/other/a", "/srv/other"]
    assert [path for path in covered if watch.covering(path) is None] == []
    assert [path for path in free if watch.covering(path) is not None] == []
    assert {"/etc/alias", "/srv/other"} <= watch.literal_prefixes()


@given(globs=st.lists(sources, min_size=1, max_size=4), parts=st.lists(names, max_size=5), linked=st.booleans())
@example(["/srv/**/secret"], ["a", "secret"], False)
@example([f"{ROOT}/a/**"], ["b", "c"], True)
def test_a_rule_applies_to_the_same_paths_in_a_copy_of_the_workspace(globs, parts, linked):
    links = {f"{ROOT}/a": f"{ROOT}/b"} if linked else {}
    rule_set = ruleset(deny=[f"Read(path:{glob})" for glob in globs])
    bars = make_bars([rule_set], Base(ROOT, "/copies/one"), (ROOT,), links)
    assert bars is not None
    watch, path, copy = bars.deny[0], posixpath.join(ROOT, *parts), posixpath.join("/copies/one", *parts)

    for match in (watch.covering, watch.enclosing):
        assert match(path) is None or match(copy) is not None
    assert watch.reach(path) == "no" or watch.reach(copy) != "no"
    named_elsewhere = any(glob.startswith("/") and not glob.startswith(ROOT) for glob in globs)
    assert named_elsewhere or watch.covering(copy) is None or watch.covering(path) is not None


@pytest.mark.parametrize(
    "glob, below, is_covered",
    [
        ("/project/secret/**", "secret/f", True),
        ("/project/secret/**", "other/f", False),
        ("/pro*/secret", "secret/f", True),
        ("/**/f", "a/b/f", True),
        ("/project", "anything", True),
        ("/elsewhere/**", "secret/f", False),
        ("secret", "a/secret", True),
        ("sub/secret", "a/sub/secret", False),
    ],
)
def test_a_glob_matches_in_the_copy_and_not_beside_it(glob, below, is_covered):
    bars = make_bars([ruleset(deny=[f"Read(path:{glob})"])], Base("/project", "/copies/one"), ("/project",), {})
    assert bars is not None

    assert (bars.deny[0].covering(f"/copies/one/{below}") is not None) == is_covered
    assert bars.deny[0].covering("/copies/ones/secret") is None


def test_a_watch_returns_the_literal_paths_of_rules():
    watch = bars_of(
        deny=["Write(path:locked/**)", "Write(path:a/b/*)", "Write(path:name)", "Write(path:x/*.y)", "Write(path:**/z)"]
    ).deny[1]

    assert watch.literal_paths() == {f"{ROOT}/locked", f"{ROOT}/a/b", f"{ROOT}/name"}


def test_without_path_rules_there_is_no_barrier():
    rule_set = ruleset(deny=["Bash:rm.*", "Read", "WebFetch(domain:x.org)"], allow=["Read(path:src/**)"])

    assert make_bars([rule_set], Base(ROOT), (ROOT,), {}) is None
    assert barriers.make_barrier(None, [rule_set], call("read_file", Touched("read", ROOT, ".")), ROOT) is None


@pytest.mark.parametrize(
    "path, tree, walked, code",
    [
        ("private/a", False, "private", None),
        ("private/a", False, "private/a", None),
        ("private/a", False, "private/b", "stale_file"),
        ("private/a", False, "private/a/b", "stale_file"),
        (".", True, "private/b", None),
        ("src", True, "private/b", "stale_file"),
        ("src/a", False, "other/b", None),
        ("src/a", False, "secret/b", "denied"),
    ],
)
def test_paths_that_ask_open_only_for_calls_whose_decision_covered_them(path, tree, walked, code):
    bars = bars_of(ask=["Read(path:private/**)"], deny=["Read(path:secret/**)"])
    target = posixpath.normpath(posixpath.join(ROOT, path))
    barrier = Barrier(bars, call("search_files", Touched("read", target, path, tree)), ROOT, ())

    raised = None
    try:
        barrier.check(f"{ROOT}/{walked}", walked, write=False)
    except ToolError as error:
        raised = error
    assert (raised and raised.code) == code
    assert barrier.hides(f"{ROOT}/{walked}") == (code is not None)
    if raised is not None:
        assert "permissions.yaml, line" in raised.message
