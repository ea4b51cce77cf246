from __future__ import annotations

import os
import tracemalloc
from hashlib import sha256
from typing import Any

import pytest

from tests.tools.changes import DIFFABLE, ENCODED, git_apply, tree_bytes


def change(path: str, old: str, new: str, **more) -> Any:
    return {"path": path, "old_text": old, "new_text": new, **more}


def edit(runtime, *edits, **args):
    return runtime.call("multi_edit", edits=list(edits), **args)


def test_edits_of_several_files_are_made_together(runtime, workspace):
    workspace.write("a.go", "foo\n")
    workspace.write("b.go", "baz\n")

    result = edit(runtime, change("a.go", "foo", "bar"), change("b.go", "baz", "qux"))

    assert workspace.tree() == {"a.go": "bar\n", "b.go": "qux\n"}
    assert result.text.startswith("applied 2 edits:\nedited a.go: lines 1-1")
    assert result.meta["files"] == ["a.go", "b.go"]
    assert [(entry["index"], entry["path"]) for entry in result.meta["edits"]] == [(0, "a.go"), (1, "b.go")]
    assert result.view["type"] == "diffs"


def test_a_group_of_edits_is_undone_together(runtime, workspace):
    workspace.write("a.go", "foo\n")
    workspace.write("b.go", "baz\n")
    result = edit(runtime, change("a.go", "foo", "bar"), change("b.go", "baz", "qux"))

    runtime.call("undo", action="restore", id=result.meta["undo"])

    assert workspace.tree() == {"a.go": "foo\n", "b.go": "baz\n"}


def test_later_edits_see_the_result_of_earlier_ones(runtime, workspace):
    workspace.write("a.txt", "one\ntwo\n")

    result = edit(
        runtime,
        change("a.txt", "one", "ONE\nextra"),
        change("./a.txt", "extra", "more"),
        change("a.txt", "two", "TWO"),
    )

    assert result.ok, result.error
    assert workspace.read("a.txt") == "ONE\nmore\nTWO\n"
    assert runtime.call("undo", action="list").data["count"] == 1


@pytest.mark.parametrize(
    "first, second",
    [
        (("one two", "x"), ("two three", "y")),
        (("two", "x"), ("two", "y")),
        (("one two three", "x"), ("two", "y")),
        (("two", "x"), ("one two three", "y")),
    ],
)
def test_overlapping_edits_are_rejected_with_both_indices(runtime, workspace, first, second):
    workspace.write("a.txt", "one two three\n")
    workspace.write("b.txt", "b\n")

    error = edit(runtime, change("b.txt", "b", "c"), change("a.txt", *first), change("a.txt", *second)).error

    assert (error.code, error.details["indices"]) == ("edit_overlap", [1, 2])
    assert "edits[1] and edits[2] overlap" in error.message
    assert workspace.tree() == {"a.txt": "one two three\n", "b.txt": "b\n"}


def test_adjacent_edits_do_not_overlap(runtime, workspace):
    workspace.write("a.txt", "onetwo\n")

    assert edit(runtime, change("a.txt", "one", "1"), change("a.txt", "two", "2")).ok
    assert workspace.read("a.txt") == "12\n"


@pytest.mark.parametrize(
    "bad, code",
    [
        (change("a.txt", "", "x"), "old_text_empty"),
        (change("a.txt", "missing", "x"), "edit_not_found"),
        (change("a.txt", "x", "y"), "edit_not_unique"),
        (change("a.txt", "unique", "unique"), "edit_no_change"),
        (change("nothing.txt", "a", "b"), "file_not_found"),
        (change("bin", "a", "b"), "binary_file"),
        (change(".env", "a", "b"), "sensitive_path"),
        (change("../a", "a", "b"), "path_outside_workspace"),
        (change(".claude/x", "a", "b"), "protected_path"),
        (change("a.txt", "unique", "b", if_checksum="00"), "stale_file"),
        ({"path": "a.txt", "old_text": "unique"}, "invalid_args"),
        (change("a.txt", "unique", "b", dry_run=True), "invalid_args"),
        (change("link", "b", "c"), "not_a_file"),
    ],
)
@pytest.mark.parametrize("position", [0, 1])
def test_when_any_edit_fails_nothing_is_changed(runtime, workspace, bad, code, position):
    workspace.write("a.txt", "x x unique\n")
    workspace.write("b.txt", "b\n")
    workspace.write("bin", b"a\0b")
    workspace.write(".env", "a")
    workspace.write(".claude/x", "a")
    os.symlink("b.txt", workspace.join("link"))
    before = tree_bytes(workspace)
    edits = [change("b.txt", "b", "c")]
    edits.insert(position, bad)

    error = edit(runtime, *edits).error

    assert error.code == code
    assert tree_bytes(workspace) == before


def test_every_failure_is_reported_with_its_index(runtime, workspace):
    workspace.write("a.txt", "a\n")

    error = edit(runtime, change("a.txt", "x", "y"), change("a.txt", "a", "b"), change("b.txt", "x", "y")).error

    assert error.message.startswith("2 of 3 edits failed")
    assert [(failure["index"], failure["error_code"]) for failure in error.details["failures"]] == [
        (0, "edit_not_found"),
        (2, "file_not_found"),
    ]


@pytest.mark.parametrize("edits", [[], None, "x", [1], {}])
def test_edits_must_be_a_list_of_edits(runtime, edits):
    assert runtime.call("multi_edit", edits=edits).error.code == "invalid_args"


@pytest.mark.parametrize("name, before, old, new, after", ENCODED, ids=[case[0] for case in ENCODED])
def test_every_byte_outside_the_edits_is_preserved(runtime, workspace, name, before, old, new, after):
    workspace.write("a.txt", before)
    workspace.write("b.txt", before)

    result = edit(runtime, change("a.txt", old, new), change("b.txt", old, new))

    assert tree_bytes(workspace) == {"a.txt": after, "b.txt": after}
    runtime.call("undo", action="restore", id=result.meta["undo"])
    assert tree_bytes(workspace) == {"a.txt": before, "b.txt": before}


@pytest.mark.starts_processes
def test_a_dry_run_is_a_diff_that_git_applies_with_the_same_outcome(runtime, workspace):
    edits, after = [], {}
    for number, (_, before, old, new, changed) in enumerate(DIFFABLE):
        workspace.write(f"{number}.txt", before)
        edits.append(change(f"{number}.txt", old, new))
        after[f"{number}.txt"] = changed
    unchanged = tree_bytes(workspace)

    preview = edit(runtime, *edits, dry_run=True)

    assert tree_bytes(workspace) == unchanged
    assert git_apply(workspace, preview.text) == after
    assert edit(runtime, *edits).ok
    assert tree_bytes(workspace) == after


def test_context_and_indentation_work_for_each_edit(runtime, workspace):
    workspace.write("a.py", "def f():\n    return 1\n\ndef g():\n    return 2\n")

    result = edit(
        runtime,
        change("a.py", "return 1", "return 10", show_context=1),
        change("a.py", "  return 2", "  return 20", fuzzy_indent=True),
    )

    assert "--- context ---\n1 | def f():\n2*|     return 10\n3 | " in result.text
    assert workspace.read("a.py") == "def f():\n    return 10\n\ndef g():\n    return 20\n"


def test_one_stale_file_stops_all_edits(runtime, workspace):
    workspace.write("a.txt", "a\n")
    workspace.write("b.txt", "b\n")
    runtime.call("read_file", path="b.txt")
    workspace.write("b.txt", "bb\n")

    assert edit(runtime, change("a.txt", "a", "x"), change("b.txt", "bb", "x")).error.code == "stale_file"
    assert workspace.tree() == {"a.txt": "a\n", "b.txt": "bb\n"}


def test_a_failed_write_rolls_the_others_back(runtime, workspace):
    workspace.write("a.txt", "a\n")
    workspace.write("sub/b.txt", "b\n")
    os.chmod(workspace.join("sub/b.txt"), 0o444)
    if os.access(workspace.join("sub/b.txt"), os.W_OK):
        pytest.skip("root can write everywhere")

    error = edit(runtime, change("a.txt", "a", "x"), change("sub/b.txt", "b", "x")).error

    assert error.code == "permission_denied"
    assert workspace.tree() == {"a.txt": "a\n", "sub/": None, "sub/b.txt": "b\n"}


def test_matching_checksums_allow_the_edits(runtime, workspace):
    workspace.write("a.txt", "a\n")

    assert edit(runtime, change("a.txt", "a", "b", if_checksum=sha256(b"a\n").hexdigest())).ok


def test_a_hundred_files_are_one_change(runtime, workspace):
    for number in range(100):
        workspace.write(f"{number}.txt", "old\n")

    result = edit(runtime, *(change(f"{number}.txt", "old", "new") for number in range(100)))

    assert set(workspace.tree().values()) == {"new\n"}
    assert len(runtime.call("undo", action="list").data["snapshots"]) == 100
    runtime.call("undo", action="restore", id=result.meta["undo"])
    assert set(workspace.tree().values()) == {"old\n"}


def test_failed_edits_do_not_keep_the_searched_texts_in_memory(runtime, workspace):
    workspace.write("a.txt", "".join(f"line {number} of a longer text\n" for number in range(20_000)))
    edits = [change("a.txt", f"missing {number}", "x") for number in range(30)]
    tracemalloc.start()
    try:
        error = edit(runtime, *edits).error
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (error.code, len(error.details["failures"])) == ("edit_not_found", 30)
    assert peak < 60_000_000


def test_only_the_first_failures_report_the_nearest_line(runtime, workspace):
    workspace.write("a.txt", "some words\nother words\n")

    error = edit(runtime, *(change("a.txt", f"some wards {number}", "x") for number in range(15))).error

    failures = [failure["error"] for failure in error.details["failures"]]
    assert [("closest match" in failure) for failure in failures] == [True] * 10 + [False] * 5
    assert all("old_text is not in a.txt, which has 2 lines." in failure for failure in failures)


def test_replace_all_works_on_the_result_of_earlier_edits(runtime, workspace):
    workspace.write("a.txt", "one x\ntwo x\n")

    edits = [
        change("a.txt", "one", "x"),
        {**change("a.txt", "x", "y"), "replace_all": True},
        change("a.txt", "two y", "2"),
    ]
    result = edit(runtime, *edits)

    assert workspace.read("a.txt") == "y y\n2\n"
    assert "3 occurrences on lines 1-2 replaced" in result.text
