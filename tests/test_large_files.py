"""Large files: edited by their surroundings alone, and kept for undo by link instead of a copy."""

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
def test_the_diff_of_a_large_file_is_that_of_the_whole(runtime, workspace, contents, old, new):
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
def test_a_text_that_is_not_there_once_is_refused_in_a_large_file_too(runtime, workspace, old_text):
    workspace.write("big.txt", LARGE)

    result = runtime.call("edit_file", path="big.txt", old_text=old_text, new_text="y")

    assert result.error.code in ("edit_not_unique", "edit_not_found")
    assert workspace.read("big.txt") == LARGE


def test_a_program_that_still_writes_to_the_old_file_does_not_change_what_undo_restores(runtime, workspace):
    path = workspace.write("big.txt", LARGE)
    with open(path, "r+b") as writer:
        edited = runtime.call("edit_file", path="big.txt", old_text="the needle", new_text="a pin")
        writer.write(b"overwritten in place")
        writer.seek(0, os.SEEK_END)
        writer.write(b"appended")

    assert runtime.call("undo", action="restore", id=edited.meta["undo"]).ok
    assert workspace.read("big.txt") == LARGE


def test_a_file_with_a_second_name_is_copied_for_undo(runtime, workspace):
    path = workspace.write("big.txt", LARGE)
    os.link(path, workspace.join("other.txt"))
    edited = runtime.call("edit_file", path="big.txt", old_text="the needle", new_text="a pin")
    with open(workspace.join("other.txt"), "r+b") as other:
        other.write(b"overwritten in place")

    assert runtime.call("undo", action="restore", id=edited.meta["undo"]).ok
    assert workspace.read("big.txt") == LARGE


def test_a_refused_change_leaves_no_second_name_of_the_file(base):
    with temporary_runtime(base) as (runtime, workspace):
        path = workspace.write("big.txt", LARGE)
        assert not runtime.call("edit_file", path="big.txt", old_text="nowhere", new_text="y").ok
        assert runtime.call("edit_file", path="big.txt", old_text="the needle", new_text="y", dry_run=True).ok

        assert os.stat(path).st_nlink == 1


def test_large_contents_are_packed_later_and_restored_all_the_same(base):
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write("big.txt", LARGE)
        edited = runtime.call("edit_file", path="big.txt", old_text="the needle", new_text="a pin")
        runtime.tidy(30)
        blobs = [name for _, _, names in os.walk(os.path.join(base, "state", "blobs")) for name in names]

        assert blobs == []
        assert runtime.call("undo", action="restore", id=edited.meta["undo"]).ok
        assert workspace.read("big.txt") == LARGE
