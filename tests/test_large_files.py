"""Large files: edited without decoding all of them, and kept for undo."""

from __future__ import annotations

import os

import pytest

from hilt.testing import temporary_runtime

LINE = "x" * 99 + "\n"
LARGE = LINE * 15_000 + "the needle\n" + LINE * 15_000  # about 3 MB, plain ASCII


def test_a_large_file_is_edited_and_restored_byte_for_byte(runtime, workspace):
    workspace.write("big.txt", LARGE)

    edited = runtime.call("edit_file", path="big.txt", old_text="the needle", new_text="a pin")

    assert edited.ok
    assert edited.meta["edit"]["first_changed_line"] == 15_001
    assert workspace.read("big.txt") == LARGE.replace("the needle", "a pin")
    assert runtime.call("undo", action="restore", id=edited.meta["undo"]).ok
    assert workspace.read("big.txt") == LARGE


@pytest.mark.parametrize(
    "contents, old, new",
    [
        pytest.param(LARGE, "the needle", "a pin", id="in the middle"),
        pytest.param("first\n" + LARGE, "first\n", "", id="first line"),
        pytest.param(LARGE + "last", "last", "end\n", id="last line without a newline"),
        pytest.param(LARGE.replace("\n", "\r\n"), "the needle\nxx", "a pin\nyy", id="crlf"),
        pytest.param(LARGE, "the needle\n", "höhe\n", id="new text beyond ascii"),
        pytest.param(LARGE.replace("the", "  the"), "\tthe needle", "\ta pin", id="only with another indentation"),
    ],
)
def test_the_diff_of_a_large_file_applies_to_the_whole_file(runtime, workspace, contents, old, new):
    workspace.write("big.txt", contents)
    request = {"path": "big.txt", "old_text": old, "new_text": new, "fuzzy_indent": True}

    preview = runtime.call("edit_file", **request, dry_run=True)
    edited = runtime.call("edit_file", **request)

    assert edited.ok, edited.error
    after = workspace.read("big.txt")
    workspace.write("big.txt", contents)
    assert runtime.call("read_file", path="big.txt", tail=1).ok
    patched = runtime.call("apply_patch", patch=preview.text)
    assert patched.ok, patched.error
    assert workspace.read("big.txt") == after != contents


def test_two_edits_of_one_large_file_see_each_other(runtime, workspace):
    workspace.write("big.txt", LARGE)
    edits = [
        {"path": "big.txt", "old_text": "the needle", "new_text": "a pin"},
        {"path": "big.txt", "old_text": "a pin", "new_text": "two pins"},
    ]

    result = runtime.call("multi_edit", edits=edits)

    assert result.ok, result.error
    assert workspace.read("big.txt") == LARGE.replace("the needle", "two pins")
    assert "+two pins" in result.meta["edit"]["diff"]


@pytest.mark.parametrize("old_text", ["x" * 99 + "\nx", "not there at all"])
def test_missing_or_repeated_text_is_rejected_in_a_large_file_too(runtime, workspace, old_text):
    workspace.write("big.txt", LARGE)

    result = runtime.call("edit_file", path="big.txt", old_text=old_text, new_text="y")

    assert result.error.code in ("edit_not_unique", "edit_not_found")
    assert workspace.read("big.txt") == LARGE


def test_a_program_that_still_writes_to_the_old_file_does_not_change_the_snapshot(runtime, workspace):
    path = workspace.write("big.txt", LARGE)
    with open(path, "r+b") as writer:
        edited = runtime.call("edit_file", path="big.txt", old_text="the needle", new_text="a pin")
        writer.write(b"overwritten in place")
        writer.seek(0, os.SEEK_END)
        writer.write(b"appended")

    assert runtime.call("undo", action="restore", id=edited.meta["undo"]).ok
    assert workspace.read("big.txt") == LARGE


def test_a_file_with_a_second_hard_link_is_copied_for_undo(runtime, workspace):
    path = workspace.write("big.txt", LARGE)
    os.link(path, workspace.join("other.txt"))
    edited = runtime.call("edit_file", path="big.txt", old_text="the needle", new_text="a pin")
    with open(workspace.join("other.txt"), "r+b") as other:
        other.write(b"overwritten in place")

    assert runtime.call("undo", action="restore", id=edited.meta["undo"]).ok
    assert workspace.read("big.txt") == LARGE


def test_large_contents_are_compressed_later_and_still_restored(base):
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write("big.txt", LARGE)
        edited = runtime.call("edit_file", path="big.txt", old_text="the needle", new_text="a pin")
        runtime.tidy(30)
        blobs = [name for _, _, names in os.walk(os.path.join(base, "state", "blobs")) for name in names]

        assert blobs == []
        assert runtime.call("undo", action="restore", id=edited.meta["undo"]).ok
        assert workspace.read("big.txt") == LARGE


HUGE = 1 << 40  # a terabyte, sparse: it needs no space


@pytest.fixture
def huge(workspace) -> str:
    path: str = workspace.write("huge.txt", "first\n")
    os.truncate(path, HUGE)
    return path


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "tool, args",
    [
        ("write_file", {"path": "huge.txt", "content": "x"}),
        ("edit_file", {"path": "huge.txt", "old_text": "first", "new_text": "x"}),
        ("multi_edit", {"edits": [{"path": "huge.txt", "old_text": "first", "new_text": "x"}]}),
        ("apply_patch", {"patch": "--- a/huge.txt\n+++ b/huge.txt\n@@ -1 +1 @@\n-first\n+x\n"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: huge.txt\n*** End Patch\n"}),
        ("search_replace", {"files": "huge.txt", "pattern": "first", "replacement": "x"}),
    ],
)
def test_a_file_too_large_for_memory_is_not_changed_even_with_force(runtime, huge, tool, args, force):
    error = runtime.call(tool, **args, force=force).error

    assert (error.code, os.stat(huge).st_size) == ("file_too_large", HUGE)
    assert "200 MB" in (error.suggestion or "") + error.message


@pytest.mark.parametrize(
    "tool, args, code",
    [
        ("read_file", {"path": "huge.txt", "start_line": 1, "end_line": 1}, "file_too_large"),
        ("read_file", {"path": "huge.txt", "tail": 3}, "file_too_large"),
        ("diff_files", {"path_a": "huge.txt", "path_b": "huge.txt"}, "file_too_large"),
        ("stat_file", {"path": "huge.txt"}, None),
        ("checksum_tree", {"path": "."}, None),
        ("list_dir", {"path": "."}, None),
    ],
)
def test_a_file_too_large_for_memory_is_not_read(runtime, huge, tool, args, code):
    error = runtime.call(tool, **args).error

    assert (error.code if error else None) == code


@pytest.mark.parametrize("action", ["restore", "preview"])
def test_undo_does_not_read_a_file_that_has_become_too_large(runtime, workspace, action):
    workspace.write("a.txt", "one\n")
    written = runtime.call("write_file", path="a.txt", content="two\n")
    os.truncate(workspace.join("a.txt"), HUGE)

    error = runtime.call("undo", action=action, id=written.meta["undo"], force=True).error

    assert error.code == "file_too_large"


def test_the_files_of_one_change_have_a_total_size_limit(runtime, workspace):
    for name in "abcde":
        workspace.write(name, "first\n")
        os.truncate(workspace.join(name), 45 * 1024 * 1024)
    edits = [{"path": name, "old_text": "first", "new_text": "x"} for name in "abcde"]

    error = runtime.call("multi_edit", edits=edits, force=True).error

    assert (error.code, error.details["path"]) == ("file_too_large", "e")
    assert "200 MB" in error.message
