from __future__ import annotations

import random
import shutil
import subprocess
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hilt.text.diffing import DiffLine, Hunk, compare, first_changed_line, stripped, unified_diff
from hilt.text.lines import split_lines, strip_ending
from hilt.text.sequences import equal_runs
from tests.text.work import count_steps

FEW_LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "a\r\n", "é\n"]), max_size=25)
TEXTS = st.builds(lambda lines, end: "".join(lines) + end, FEW_LINES, st.sampled_from(["", "end", "a", "x\r"]))


def apply(old, hunks):
    """Apply hunks to the lines of a text; every context and removed line must match."""
    lines = [strip_ending(line) for line in split_lines(old)]
    result, at = [], 0
    for hunk in hunks:
        start = hunk.old_start - (hunk.old_lines > 0)
        result += lines[at:start]
        assert len(result) == hunk.new_start - (hunk.new_lines > 0)
        at = start
        for kind, text in hunk.changes:
            if kind != "added":
                assert lines[at] == text
                at += 1
            if kind != "removed":
                result.append(text)
        assert (at - start, len(result)) == (hunk.old_lines, hunk.new_start - (hunk.new_lines > 0) + hunk.new_lines)
    return result + lines[at:]


def test_a_hunk_has_three_context_lines_around_its_changes():
    old = "".join(f"{n}\n" for n in range(1, 21))

    hunks = stripped(compare(old, old.replace("10\n", "ten\n")))

    assert hunks == [
        Hunk(7, 7, 7, 7, (
            DiffLine("context", "7"), DiffLine("context", "8"), DiffLine("context", "9"),
            DiffLine("removed", "10"), DiffLine("added", "ten"),
            DiffLine("context", "11"), DiffLine("context", "12"), DiffLine("context", "13"),
        )),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "first, second, hunks",
    [(5, 11, 1), (5, 12, 1), (5, 13, 2), (1, 20, 2)],
)
def test_changes_share_a_hunk_when_their_context_would_touch(first, second, hunks):
    old = [f"{n}\n" for n in range(1, 21)]
    new = [f"changed {n}" if n.strip() in (str(first), str(second)) else n for n in old]

    assert len(stripped(compare("".join(old), "".join(new)))) == hunks


def test_equal_texts_have_no_hunks_and_no_diff():
    assert stripped(compare("same\n", "same\n")) == []
    assert unified_diff("same\n", "same\n", "a.txt") == ""
    assert first_changed_line("same\n", "same\n") is None


@pytest.mark.parametrize(
    "old, new, line",
    [
        ("a\nb\n", "a\nc\n", 2),
        ("", "a\n", 1),
        ("a\n", "a\nb\n", 2),
        ("a\nb\nc\n", "a\nc\n", 2),
        ("ab", "ac", 1),
        ("a", "a\n", 1),
    ],
)
def test_the_first_changed_line_is_found(old, new, line):
    assert first_changed_line(old, new) == line


@pytest.mark.parametrize(
    "old, new, path, new_path, diff",
    [
        ("a\n", "b\n", "f.txt", None, "--- a/f.txt\n+++ b/f.txt\n@@ -1 +1 @@\n-a\n+b\n"),
        ("a", "a\n", "f", None,
         "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"),
        ("a\r\n", "a\n", "f", None, "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\r\n+a\n"),
        (None, "a\n", "f", None,
         "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"),
        ("a\n", None, "f", None,
         "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
        (None, "", "f", None, "diff --git a/f b/f\nnew file mode 100644\n"),
        ("", None, "f", None, "diff --git a/f b/f\ndeleted file mode 100644\n"),
        ("a\n", "a\n", "f", "g", "diff --git a/f b/g\nrename from f\nrename to g\n"),
        ("a\n", "b\n", "my file", None, "--- a/my file\t\n+++ b/my file\t\n@@ -1 +1 @@\n-a\n+b\n"),
        ("a\n", "b\n", 'q"\\\t\né\x01', None,
         '--- "a/q\\"\\\\\\t\\né\\001"\n+++ "b/q\\"\\\\\\t\\né\\001"\n@@ -1 +1 @@\n-a\n+b\n'),
    ],
)  # fmt: skip
def test_a_unified_diff_is_in_git_format(old, new, path, new_path, diff):
    assert unified_diff(old, new, path, new_path=new_path) == diff


@given(TEXTS, TEXTS, st.integers(0, 4))
def test_hunks_applied_to_the_old_text_give_the_new(old, new, context):
    assert apply(old, stripped(compare(old, new, context))) == [strip_ending(line) for line in split_lines(new)]


@given(TEXTS, st.data())
def test_one_changed_line_is_one_change(old, data):
    lines = split_lines(old + "\n")
    at = data.draw(st.integers(0, len(lines) - 1))

    hunks = stripped(compare("".join(lines), "".join([*lines[:at], "unlike any\n", *lines[at + 1 :]])))

    assert [change.kind for hunk in hunks for change in hunk.changes if change.kind != "context"] == [
        "removed",
        "added",
    ]


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_the_diff_of_short_sequences_is_minimal(old, new):
    longest = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, a in enumerate(old):
        for j, b in enumerate(new):
            longest[i + 1][j + 1] = longest[i][j] + 1 if a == b else max(longest[i][j + 1], longest[i + 1][j])

    runs = equal_runs(old, new)

    assert sum(run.length for run in runs) == longest[-1][-1]
    assert all(old[run.old : run.old + run.length] == new[run.new : run.new + run.length] for run in runs)


@pytest.fixture
def repository(tmp_path):
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")

    def run(*arguments, patch=None):
        return subprocess.run([git, *arguments], cwd=tmp_path, input=patch, capture_output=True)

    run("init", "--quiet")
    return tmp_path, run


NAMES = ["plain.txt", "with blank.txt", 'odd"\\\tname', "new\nline", "é.txt", " lead"]


@pytest.mark.starts_processes
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.none(), TEXTS), st.one_of(st.none(), TEXTS), st.sampled_from(NAMES), st.booleans())
def test_git_applies_the_diff_and_gets_the_new_text(repository, old, new, name, moved):
    folder, git = repository
    target = "moved to.txt" if moved and None not in (old, new) else name
    for path in (folder / name, folder / target):
        path.unlink(missing_ok=True)
    if old is not None:
        (folder / name).write_bytes(old.encode())
    diff = unified_diff(old, new, name, new_path=target)

    if diff:
        done = git("apply", "--whitespace=nowarn", "-", patch=diff.encode())
        assert done.returncode == 0, done.stderr

    assert (folder / target).exists() == (new is not None)
    assert new is None or (folder / target).read_bytes() == new.encode()


def repeated(count, kinds, seed):
    return [random.Random(seed * 99_991 + i).randrange(kinds) for i in range(count)]


def scattered(count, kinds):
    old = repeated(count, kinds, 1)
    return old, [-1 if i % 97 == 13 else item for i, item in enumerate(old)]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: (repeated(n, 2, 1), repeated(n, 2, 2)),
        lambda n: (repeated(n, 50, 1), repeated(n, 50, 2)),
        lambda n: scattered(n, 3),
        lambda n: (list(range(n)), list(range(n, 2 * n))),
        lambda n: (list(range(n)), list(range(n))[::-1]),
        lambda n: ([0, 1] * (n // 2), [1, 0, 2] * (n // 3)),
        lambda n: ([0] * n, [0, 1] * (n // 2)),
        lambda n: ([i // 2 for i in range(n)], [(i + 1) // 3 for i in range(n)]),
    ],
)
def test_the_work_is_bounded_for_any_two_sequences(make):
    small, large = (count_steps(equal_runs, *make(n)) for n in (1_000, 4_000))

    # the exact search for few differences costs the same for both; beyond it, work grows with the length
    assert large < 6 * small + 250_000


@pytest.mark.parametrize("kinds", [2, 5, 40])
def test_context_lines_between_unrelated_sequences_are_really_equal(kinds):
    old, new = repeated(3_000, kinds, 1), repeated(3_000, kinds, 2)

    runs = equal_runs(old, new)

    assert all(old[run.old : run.old + run.length] == new[run.new : run.new + run.length] for run in runs)
    assert all(a.old + a.length <= b.old and a.new + a.length <= b.new for a, b in pairwise(runs))
    assert sum(run.length for run in runs) > 3_000 / kinds


def test_unique_lines_keep_their_place_among_repeated_ones():
    fillers = repeated(6_000, 2, 1), repeated(6_000, 2, 2)
    old, new = ([10 + i // 3 if i % 3 == 0 else item for i, item in enumerate(filler)] for filler in fillers)

    runs = equal_runs(old, new)

    unchanged = [item for run in runs for item in old[run.old : run.old + run.length]]
    assert [item for item in unchanged if item >= 10] == list(range(10, 2_010))
    assert len(unchanged) > 4_000


def test_only_the_scattered_edits_among_repeated_lines_are_shown():
    old, new = scattered(20_000, 20)

    assert sum(run.length for run in equal_runs(old, new)) == sum(item >= 0 for item in new)


def test_a_moved_block_leaves_the_other_lines_in_place():
    lines = list(range(5_000))

    runs = equal_runs(lines, lines[3_500:] + lines[:3_500])

    assert [run.length for run in runs] == [3_500]


def test_a_hunk_of_many_changes_is_built_without_copying_it_each_time():
    old, new = "a\nb\n" * 3000, "b\na\nc\n" * 3000
    hunks = stripped(compare(old, new))

    assert len(hunks) == 1
    assert [change.text for change in hunks[0].changes if change.kind != "added"] == old.split("\n")[:-1]
    assert [change.text for change in hunks[0].changes if change.kind != "removed"] == new.split("\n")[:-1]
