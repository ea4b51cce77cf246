from __future__ import annotations

import os
import re

import pytest

from tests.tools.changes import git_apply, tree_bytes


def undo(runtime, action: str, **args):
    return runtime.call("undo", action=action, **args)


def snapshots(runtime, **args):
    return undo(runtime, "list", **args).data["snapshots"]


def test_an_empty_history_is_an_empty_list(runtime):
    assert undo(runtime, "list").data == {"snapshots": [], "count": 0, "total": 0}


def test_the_list_is_newest_first_with_details(runtime, workspace):
    workspace.write("a.txt", "one\n")
    runtime.call("write_file", path="new.txt", content="x")
    runtime.call("edit_file", path="a.txt", old_text="one", new_text="two")
    runtime.call("multi_edit", edits=[{"path": "a.txt", "old_text": "two", "new_text": "three"}])
    runtime.call("apply_patch", patch="*** Begin Patch\n*** Delete File: a.txt\n*** End Patch")

    listed = undo(runtime, "list").data

    assert (listed["count"], listed["total"]) == (4, 4)
    assert [(entry["operation"], entry["path"], entry["size"]) for entry in listed["snapshots"]] == [
        ("apply_patch", "a.txt", 6),
        ("multi_edit", "a.txt", 4),
        ("edit_file", "a.txt", 4),
        ("write_file", "new.txt", 0),
    ]
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", entry["timestamp"]) for entry in listed["snapshots"]
    )
    assert (listed["snapshots"][0]["deleted"], listed["snapshots"][3]["created"]) == (True, True)


def test_reading_and_previews_take_no_snapshot(runtime, workspace):
    workspace.write("a.txt", "one\n")
    runtime.call("read_file", path="a.txt")
    runtime.call("write_file", path="a.txt", content="x", dry_run=True)
    runtime.call("edit_file", path="a.txt", old_text="one", new_text="two", dry_run=True)
    runtime.call("edit_file", path="a.txt", old_text="nothing", new_text="two")
    runtime.call("write_file", path="a.txt", content="one\n")

    assert snapshots(runtime) == []


@pytest.mark.parametrize("limit, count", [(1, 1), (2, 2), (99, 3), (None, 3), (2.0, 2)])
def test_a_limit_shortens_the_list_and_not_the_total(runtime, limit, count):
    for number in range(3):
        runtime.call("write_file", path=f"{number}.txt", content="x")

    listed = undo(runtime, "list", limit=limit).data

    assert (listed["count"], len(listed["snapshots"]), listed["total"]) == (count, count, 3)


@pytest.mark.starts_processes
def test_a_preview_is_the_patch_of_the_restore(runtime, workspace):
    workspace.write("a.txt", "one\ntwo\n")
    id = runtime.call("edit_file", path="a.txt", old_text="two", new_text="2").meta["undo"]

    preview = undo(runtime, "preview", id=id)
    assert workspace.read("a.txt") == "one\n2\n"
    patched = git_apply(workspace, preview.text)
    undo(runtime, "restore", id=id)

    assert tree_bytes(workspace) == patched == {"a.txt": b"one\ntwo\n"}


def test_any_unique_id_prefix_works(runtime, workspace):
    id = runtime.call("write_file", path="a.txt", content="x").meta["undo"]

    assert undo(runtime, "preview", id=id[:4]).meta["id"] == id
    assert undo(runtime, "restore", id=id[:6]).meta["id"] == id
    assert workspace.tree() == {}


def test_an_ambiguous_id_prefix_is_rejected_with_the_candidates(runtime):
    for number in range(40):
        runtime.call("write_file", path="a.txt", content=str(number))
    ids = [entry["id"] for entry in snapshots(runtime)]
    first = next(id[0] for id in ids if sum(other[0] == id[0] for other in ids) > 1)

    error = undo(runtime, "restore", id=first).error

    assert error.code == "ambiguous_id"
    assert sorted(error.details["candidates"]) == sorted(id for id in ids if id[0] == first)[:10]


@pytest.mark.parametrize(
    "args, code",
    [
        ({"action": "restore"}, "invalid_args"),
        ({"action": "preview"}, "invalid_args"),
        ({"action": "restore", "id": ""}, "invalid_args"),
        ({"action": "restore", "id": "ffffffffffff0"}, "not_found"),
        ({"action": "restore", "id": "%"}, "not_found"),
        ({"action": "restore", "id": "*"}, "not_found"),
        ({"action": "preview", "id": "../x"}, "not_found"),
        ({"action": "save"}, "invalid_args"),
        ({}, "invalid_args"),
        ({"action": "list", "limit": "3"}, "invalid_args"),
    ],
)
def test_invalid_requests_are_rejected(runtime, args, code):
    runtime.call("write_file", path="a.txt", content="x")

    error = runtime.call("undo", **args).error

    assert (error.code, bool(error.suggestion)) == (code, True)


def test_undo_removes_created_files_and_their_folders_and_restores_deleted_ones(runtime, workspace):
    os.chmod(workspace.write("kept/run.sh", "#!/bin/sh\n"), 0o750)
    created = runtime.call("write_file", path="new/deep/a.txt", content="x").meta["undo"]
    deleted = runtime.call("apply_patch", patch="*** Begin Patch\n*** Delete File: kept/run.sh\n*** End Patch").meta[
        "undo"
    ]

    assert undo(runtime, "restore", id=created).text.endswith("deleted new/deep/a.txt")
    assert undo(runtime, "restore", id=deleted).text.endswith("recreated kept/run.sh")

    assert workspace.tree() == {"kept/": None, "kept/run.sh": "#!/bin/sh\n"}
    assert os.stat(workspace.join("kept/run.sh")).st_mode & 0o777 == 0o750


def test_a_restore_can_be_undone(runtime, workspace):
    workspace.write("a.txt", "one\n")
    id = runtime.call("edit_file", path="a.txt", old_text="one", new_text="two").meta["undo"]

    again = undo(runtime, "restore", id=id).meta["undo"]
    undo(runtime, "restore", id=again)

    assert workspace.read("a.txt") == "two\n"
    assert [entry["operation"] for entry in snapshots(runtime)] == ["undo", "undo", "edit_file"]


def test_restoring_an_unchanged_file_changes_nothing(runtime, workspace):
    workspace.write("a.txt", "one\n")
    id = runtime.call("edit_file", path="a.txt", old_text="one", new_text="two").meta["undo"]
    undo(runtime, "restore", id=id)

    result = undo(runtime, "restore", id=id)

    assert result.text.startswith("Nothing to restore")
    assert len(snapshots(runtime)) == 2


def test_one_file_of_a_group_can_be_restored_alone(runtime, workspace):
    workspace.write("a.txt", "a\n")
    workspace.write("b.txt", "b\n")
    edits = [{"path": name, "old_text": name[0], "new_text": "x"} for name in ("a.txt", "b.txt")]
    id = runtime.call("multi_edit", edits=edits).meta["undo"]

    undo(runtime, "restore", id=id, path="./a.txt")

    assert workspace.tree() == {"a.txt": "a\n", "b.txt": "x\n"}
    assert undo(runtime, "restore", id=id, path="c.txt").error.code == "not_found"


@pytest.mark.parametrize("path", ["sub/a.txt", "./sub//a.txt", "sub/../sub/a.txt", "{root}/sub/a.txt"])
def test_any_spelling_of_a_path_selects_one_file_of_a_call(runtime, workspace, path):
    id = runtime.call("write_file", path="sub/a.txt", content="x").meta["undo"]

    assert undo(runtime, "preview", id=id, path=path.format(root=workspace.path)).ok
    assert undo(runtime, "preview", id=id, path="../a.txt").error.code == "path_outside_workspace"


def test_clear_removes_everything_and_reports_how_much(runtime, workspace):
    runtime.call("write_file", path="a.txt", content="1")
    runtime.call("write_file", path="a.txt", content="2")

    assert undo(runtime, "clear", dry_run=True).text == "[dry-run] would clear 2 snapshots"
    assert undo(runtime, "clear").text == "cleared 2 snapshots"
    assert snapshots(runtime) == []
    assert workspace.read("a.txt") == "2"


def test_a_view_of_a_restore_says_which_files_it_deletes_and_creates(runtime, workspace):
    workspace.write("old.txt", "old\n")
    patch = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** Delete File: old.txt\n*** End Patch"
    id = runtime.call("apply_patch", patch=patch).meta["undo"]

    view = undo(runtime, "preview", id=id).view

    assert [item.get("title") for item in view["items"]] == ["new.txt (deleted)", "old.txt (created)"]


def test_a_dry_run_of_a_restore_is_its_preview(runtime, workspace):
    workspace.write("a.txt", "one\n")
    id = runtime.call("edit_file", path="a.txt", old_text="one", new_text="two").meta["undo"]

    assert undo(runtime, "restore", id=id, dry_run=True).text == undo(runtime, "preview", id=id).text
    assert workspace.read("a.txt") == "two\n"


def test_binary_contents_are_restored_byte_for_byte(runtime, workspace):
    data = bytes(range(256)) * 1000
    workspace.write("a.bin", data)
    id = runtime.call("write_file", path="a.bin", content="text").meta["undo"]

    assert "binary" in undo(runtime, "preview", id=id).text
    undo(runtime, "restore", id=id)

    assert workspace.bytes("a.bin") == data


def test_a_restore_updates_the_stale_check(runtime, workspace):
    workspace.write("a.txt", "one\n")
    runtime.call("read_file", path="a.txt")
    id = runtime.call("edit_file", path="a.txt", old_text="one", new_text="two").meta["undo"]
    undo(runtime, "restore", id=id)

    assert runtime.call("edit_file", path="a.txt", old_text="one", new_text="three").ok


def test_a_mismatched_checksum_blocks_a_restore(runtime, workspace):
    workspace.write("a.txt", "one\n")
    id = runtime.call("edit_file", path="a.txt", old_text="one", new_text="two").meta["undo"]

    assert undo(runtime, "restore", id=id, if_checksum="00").error.code == "stale_file"
    assert workspace.read("a.txt") == "two\n"
