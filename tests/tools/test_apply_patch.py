from __future__ import annotations

import os
import subprocess
from hashlib import sha256

import pytest

from tests.tools.changes import DIFFABLE, ENCODED, git_apply, tree_bytes


def codex(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def apply(runtime, patch: str, **args):
    return runtime.call("apply_patch", patch=patch, **args)


def test_the_three_operations_and_a_move_are_one_change(runtime, workspace):
    workspace.write("update.txt", "a\nold\nc\n")
    workspace.write("delete.txt", "gone\n")
    workspace.write("from.txt", "x\ny\n")
    patch = codex(
        "*** Add File: sub/new.txt",
        "+first",
        "+second",
        "*** Delete File: delete.txt",
        "*** Update File: update.txt",
        "@@",
        " a",
        "-old",
        "+new",
        "*** Update File: from.txt",
        "*** Move to: sub/to.txt",
        "@@",
        "-x",
        "+X",
    )
    before = workspace.tree()

    result = apply(runtime, patch)

    assert workspace.tree() == {
        "update.txt": "a\nnew\nc\n",
        "sub/": None,
        "sub/new.txt": "first\nsecond\n",
        "sub/to.txt": "X\ny\n",
    }
    assert result.text == (
        "applied patch with 4 operations:\nadded sub/new.txt\ndeleted delete.txt\nupdated update.txt\n"
        "moved from.txt to sub/to.txt"
    )
    assert result.meta["edit"]["first_changed_line"] == 1
    assert all(
        name in result.meta["edit"]["diff"] for name in ("sub/new.txt", "delete.txt", "update.txt", "sub/to.txt")
    )
    runtime.call("undo", action="restore", id=result.meta["undo"])
    assert workspace.tree() == before


def test_files_may_be_swapped_and_keep_their_modes(runtime, workspace):
    os.chmod(workspace.write("a", "1\n"), 0o755)
    os.chmod(workspace.write("b", "2\n"), 0o640)
    moves = [f"*** Update File: {source}\n*** Move to: {target}\n" for source, target in ("at", "ba", "tb")]

    result = runtime.call("apply_patch", patch="*** Begin Patch\n" + "".join(moves) + "*** End Patch")

    assert result.ok, result.error
    assert workspace.tree() == {"a": "2\n", "b": "1\n"}
    assert [os.stat(workspace.join(name)).st_mode & 0o777 for name in "ab"] == [0o640, 0o755]
    assert runtime.call("undo", action="restore", id=result.meta["undo"]).ok
    assert workspace.tree() == {"a": "1\n", "b": "2\n"}
    assert [os.stat(workspace.join(name)).st_mode & 0o777 for name in "ab"] == [0o755, 0o640]


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "steps, after, files",
    [
        ("a>t t>n", {"n": "1\n", "b": "2\n"}, "n"),
        ("a>t b>a t>b", {"a": "2\n", "b": "1\n"}, "ab"),
        ("+x x>n", {"n": "x\n", "a": "1\n", "b": "2\n"}, "n"),
        ("a>n +a a>m", {"n": "1\n", "m": "x\n", "b": "2\n"}, "nm"),
        ("a>n n>a -b", {"a": "1\n"}, "b"),
        ("a>n -n", {"b": "2\n"}, "a"),
        ("a>b b>n", {"n": "1\n"}, "bn"),
        ("a>b", {"b": "1\n"}, "ab"),
        ("+x -x -a", {"b": "2\n"}, "a"),
        ("-a b>a", {"a": "2\n"}, "ab"),
    ],
)
def test_the_diff_of_several_steps_shows_their_combined_effect(runtime, workspace, steps, after, files):
    workspace.write("a", "1\n")
    workspace.write("b", "2\n")
    lines = []
    for step in steps.split():
        if step[0] == "+":
            lines += [f"*** Add File: {step[1]}", "+x"]
        elif step[0] == "-":
            lines += [f"*** Delete File: {step[1]}"]
        else:
            lines += [f"*** Update File: {step[0]}", f"*** Move to: {step[2]}"]

    preview = apply(runtime, codex(*lines), dry_run=True)
    applied = apply(runtime, codex(*lines))

    assert applied.ok, applied.error
    assert applied.meta["edit"]["diff"] == preview.text
    assert set(applied.meta["files"]) == set(files)
    assert workspace.tree() == after
    assert runtime.call("undo", action="restore", id=applied.meta["undo"]).ok
    assert git_apply(workspace, preview.text) == {name: text.encode() for name, text in after.items()}


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "patch, name",
    [
        ("diff --git a/a b/a\nold mode 100644\nnew mode 100755\n", "a"),
        ("diff --git a/a b/a\nold mode 100644\nnew mode 100755\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n", "a"),
        ("diff --git a/a b/n\nold mode 100644\nnew mode 100755\nrename from a\nrename to n\n", "n"),
        ("diff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", "n"),
    ],
)
def test_a_preview_shows_file_modes(runtime, workspace, patch, name):
    os.chmod(workspace.write("a", "1\n"), 0o644)

    preview = apply(runtime, patch, dry_run=True)

    assert preview.meta["files"] == [name]
    git_apply(workspace, preview.text)
    assert os.stat(os.path.join(workspace.path + "-git", name)).st_mode & 0o100
    assert apply(runtime, preview.text).ok
    assert os.stat(workspace.join(name)).st_mode & 0o100


@pytest.mark.parametrize(
    "before, lines, after",
    [
        (
            {"x": "1\n"},
            ["*** Add File: x/d/y", "+2", "*** Add File: x/z", "+3", "*** Delete File: x"],
            {"x/": None, "x/d/": None, "x/d/y": "2\n", "x/z": "3\n"},
        ),
        ({"x/d/y": "2\n", "x/z": "3\n"}, ["*** Add File: x", "+1", "*** Delete File: x/d/y", "*** Delete File: x/z"], {"x": "1\n"}),  # noqa: E501
        ({"x/d/y": "2\n"}, ["*** Update File: x/d/y", "*** Move to: x"], {"x": "2\n"}),
    ],
)  # fmt: skip
def test_a_file_may_become_a_folder_and_a_folder_a_file(runtime, workspace, before, lines, after):
    for name, content in before.items():
        workspace.write(name, content)
    old = workspace.tree()

    result = apply(runtime, codex(*lines))

    assert result.ok, result.error
    assert workspace.tree() == after
    assert runtime.call("undo", action="restore", id=result.meta["undo"]).ok
    assert workspace.tree() == old


@pytest.mark.parametrize(
    "lines, code",
    [
        (["*** Add File: x", "+1", "*** Delete File: x/y"], "already_exists"),
        (["*** Add File: f/y", "+1", "*** Update File: f", "@@", "-1", "+2"], "not_a_file"),
        (["*** Add File: f/y", "+1"], "not_a_file"),
        (["*** Add File: x", "+1"], "not_a_file"),
    ],
)
def test_a_folder_with_other_files_stays_a_folder_and_a_file_that_stays_is_none(runtime, workspace, lines, code):
    for name in ("x/y", "x/z", "f"):
        workspace.write(name, "1\n")
    old = workspace.tree()

    assert apply(runtime, codex(*lines)).error.code == code
    assert workspace.tree() == old


def test_a_file_that_is_added_and_deleted_again_does_not_exist(runtime, workspace):
    workspace.write("a", "1\n")
    added = "diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n"
    deleted = "diff --git a/x b/x\ndeleted file mode 100755\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    changed = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n"

    assert runtime.call("apply_patch", patch=added + deleted + changed).ok
    assert workspace.tree() == {"a": "2\n"}


@pytest.mark.parametrize(
    "lines, code",
    [
        (["*** Add File: kept.txt", "+x"], "already_exists"),
        (["*** Delete File: nothing.txt"], "file_not_found"),
        (["*** Update File: nothing.txt", "@@", "-a", "+b"], "file_not_found"),
        (["*** Update File: kept.txt", "@@", "-missing", "+b"], "patch_conflict"),
        (["*** Update File: twice.txt", "@@", "-x", "+b"], "patch_conflict"),
        (["*** Update File: bin", "@@", "-a", "+b"], "binary_file"),
        (["*** Add File: ../out.txt", "+x"], "path_outside_workspace"),
        (["*** Add File: .env", "+x"], "sensitive_path"),
        (["*** Delete File: .git/config"], "sensitive_path"),
        (["*** Add File: .hilt/config.toml", "+x"], "protected_path"),
        (["*** Update File: kept.txt", "*** Move to: .git/hooks/x"], "sensitive_path"),
        (["*** Frobnicate File: kept.txt"], "patch_invalid"),
        (["*** Add File: new.txt", "no plus"], "patch_invalid"),
        (["*** Update File: kept.txt"], "patch_invalid"),
        ([], "patch_invalid"),
    ],
)
def test_a_patch_with_any_invalid_part_changes_nothing(runtime, workspace, lines, code):
    workspace.write("kept.txt", "kept\n")
    workspace.write("twice.txt", "x\nx\n")
    workspace.write("bin", b"a\0b")
    workspace.write(".git/config", "[core]\n")
    before = tree_bytes(workspace) | {".git/config": workspace.bytes(".git/config")}

    error = apply(runtime, codex("*** Add File: first.txt", "+x", *lines) if lines else codex()).error

    assert (error.code, bool(error.suggestion)) == (code, True)
    assert tree_bytes(workspace) | {".git/config": workspace.bytes(".git/config")} == before


@pytest.mark.parametrize(
    "patch", ["", " \n", "hello", "*** Begin Patch\n*** Delete File: a.txt", "*** Delete File: a.txt\n*** End Patch"]
)
def test_text_that_is_not_a_patch_is_refused(runtime, workspace, patch):
    workspace.write("a.txt", "a\n")

    assert apply(runtime, patch).error.code == "patch_invalid"
    assert workspace.tree() == {"a.txt": "a\n"}


@pytest.mark.parametrize("name, before, old, new, after", ENCODED, ids=[case[0] for case in ENCODED])
def test_context_lines_keep_the_original_bytes_of_the_file(runtime, workspace, name, before, old, new, after):
    from hilt.text.encodings import decode

    workspace.write("a.txt", before)
    text = decode(before)[0]
    line = next(line for line in text.replace("\r\n", "\n").split("\n") if old in line)

    result = apply(runtime, codex("*** Update File: a.txt", "@@", f"-{line}", f"+{line.replace(old, new)}"))

    assert result.ok, result.error
    assert workspace.bytes("a.txt") == after or name == "no final newline"
    runtime.call("undo", action="restore", id=result.meta["undo"])
    assert workspace.bytes("a.txt") == before


@pytest.mark.parametrize("name, before, old, new, after", DIFFABLE, ids=[case[0] for case in DIFFABLE])
def test_the_preview_of_an_edit_is_a_patch_with_the_same_outcome(runtime, workspace, name, before, old, new, after):
    workspace.write("a.txt", before)
    preview = runtime.call("edit_file", path="a.txt", old_text=old, new_text=new, dry_run=True).text

    result = apply(runtime, preview)

    assert result.ok, result.error
    assert workspace.bytes("a.txt") == after


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "lines",
    [
        ["*** Add File: new.txt", "+x", "*** Delete File: gone.txt", "*** Update File: a.txt", "@@", "-two", "+TWO"],
        ["*** Update File: a.txt", "*** Move to: sub/b.txt"],
        ["*** Update File: a.txt", "*** Move to: sub/b.txt", "@@", "-two", "+TWO"],
        ["*** Update File: sp ace.txt", '*** Move to: é "q".txt', "@@", "-two", "+TWO"],
        ["*** Delete File: empty.txt", "*** Add File: sub/x/y.txt"],
        ["*** Delete File: run.sh"],
        ["*** Update File: run.sh", "*** Move to: sub/run.sh"],
        ["*** Update File: crlf.txt", "@@", " one", "-two", "+TWO", "+more"],
        ["*** Update File: noend.txt", "@@", "-two", "+TWO"],
        ["*** Update File: a.txt", "@@", "-one", "+ONE", "@@", "-three", "+THREE", "*** End of File"],
    ],
)
def test_a_dry_run_is_a_diff_that_git_applies_with_the_same_outcome(runtime, workspace, lines):
    workspace.write("a.txt", "one\ntwo\nthree\n")
    workspace.write("gone.txt", "gone\n")
    workspace.write("sp ace.txt", "one\ntwo\nthree\n")
    workspace.write("empty.txt", "")
    workspace.write("crlf.txt", "one\r\ntwo\r\n")
    workspace.write("noend.txt", "one\ntwo")
    os.chmod(workspace.write("run.sh", "#!/bin/sh\n"), 0o755)
    before = tree_bytes(workspace)

    preview = apply(runtime, codex(*lines), dry_run=True)
    assert tree_bytes(workspace) == before
    patched = git_apply(workspace, preview.text)

    assert apply(runtime, codex(*lines)).ok
    assert tree_bytes(workspace) == patched


@pytest.mark.starts_processes
def test_a_diff_made_by_git_is_applied(runtime, workspace, tmp_path):
    (tmp_path / "repo").mkdir()
    repo = str(tmp_path / "repo")
    run = lambda *arguments: subprocess.run(["git", "-C", repo, *arguments], check=True, capture_output=True).stdout  # noqa: E731
    run("init", "-q")
    files = {"a.txt": "1\n2\n3\n4\n5\n", "b.txt": "b\n", "c d.txt": "moved\n" * 9, "x.sh": "run\n"}
    for name, text in files.items():
        (tmp_path / "repo" / name).write_text(text)
        workspace.write(name, text)
    run("add", "-A")
    run("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x")
    (tmp_path / "repo" / "a.txt").write_text("0\n1\n2\nthree\n4\n5")
    (tmp_path / "repo" / "b.txt").unlink()
    (tmp_path / "repo" / "c d.txt").rename(tmp_path / "repo" / "é.txt")
    (tmp_path / "repo" / "new.txt").write_text("new\n")
    (tmp_path / "repo" / "x.sh").chmod(0o755)
    run("add", "-A")
    diff = run("diff", "--cached", "-M").decode()

    result = apply(runtime, diff)

    assert result.ok, result.error
    expected = tree_bytes(type(workspace)(repo))
    assert tree_bytes(workspace) == expected
    assert os.stat(workspace.join("x.sh")).st_mode & 0o111


@pytest.mark.parametrize(
    "patch",
    [
        "@@ -1,3 +1,3 @@\n-two\n+TWO\n",
        "@@ -99,1 +99,7 @@\n one\n-two\n+TWO\n three\n",
        f"@@ -{'9' * 5000},{'9' * 5000} +1,{'9' * 5000} @@\n one\n-two\n+TWO\n three\n",
        "--- a.txt\n+++ a.txt\n@@ -2 +2 @@\n-two\n+TWO\n",
        "--- a/other.txt\n+++ b/other.txt\n@@ -2 +2 @@\n-two\n+TWO\n",
    ],
)
def test_a_unified_diff_for_a_given_path_needs_no_valid_header(runtime, workspace, patch):
    workspace.write("a.txt", "one\ntwo\nthree\n")

    assert apply(runtime, patch, path="a.txt").ok
    assert workspace.read("a.txt") == "one\nTWO\nthree\n"


def test_an_anchor_chooses_between_two_matches(runtime, workspace):
    workspace.write("a.py", "def f():\n    x = 1\n\ndef g():\n    x = 1\n")

    assert (
        apply(runtime, codex("*** Update File: a.py", "@@", "-    x = 1", "+    x = 2")).error.code == "patch_conflict"
    )
    assert apply(runtime, codex("*** Update File: a.py", "@@ def g():", "-    x = 1", "+    x = 2")).ok
    assert workspace.read("a.py") == "def f():\n    x = 1\n\ndef g():\n    x = 2\n"


def test_a_patch_is_refused_when_a_checksum_does_not_match(runtime, workspace):
    workspace.write("a.txt", "old\n")
    patch = codex("*** Update File: a.txt", "@@", "-old", "+new")

    assert apply(runtime, patch, if_checksums={"a.txt": "00"}).error.code == "stale_file"
    assert apply(runtime, patch, if_checksums={"b.txt": "00"}).error.code == "invalid_args"
    assert apply(runtime, patch, if_checksums={"a.txt": sha256(b"old\n").hexdigest()}).ok


def test_a_patch_over_a_file_changed_since_it_was_read_is_refused(runtime, workspace):
    workspace.write("a.txt", "old\n")
    runtime.call("read_file", path="a.txt")
    workspace.write("a.txt", "old\nmore\n")

    error = apply(runtime, codex("*** Update File: a.txt", "@@", "-old", "+new")).error

    assert error.code == "stale_file"


def test_moving_over_an_existing_file_can_be_undone(runtime, workspace):
    workspace.write("a.txt", "a\n")
    workspace.write("b.txt", "b\n")

    result = apply(runtime, codex("*** Update File: a.txt", "*** Move to: b.txt"))

    if result.ok:
        runtime.call("undo", action="restore", id=result.meta["undo"])
    assert workspace.tree() == {"a.txt": "a\n", "b.txt": "b\n"}
