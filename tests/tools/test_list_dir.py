from __future__ import annotations

import os
from typing import Any

import pytest

from hilt import wire


@pytest.fixture
def tree(workspace):
    for path in ("b.txt", "a/z.txt", "a/b/c/d/e/deep.txt", "a-file", ".hidden", ".config/x", "a/.secret", "B.txt"):
        workspace.write(path, "x")
    os.makedirs(workspace.join("empty"))
    return workspace


def ls(runtime, **args):
    return runtime.call("list_dir", **args).data


def test_three_levels_are_listed_in_order_with_a_slash_after_folders(runtime, tree):
    assert ls(runtime) == {
        "entries": ["B.txt", "a-file", "a/", "a/b/", "a/b/c/", "a/z.txt", "b.txt", "empty/"],
        "truncated": False,
        "total_count": 8,
    }


@pytest.mark.parametrize(
    "args, entries",
    [
        ({"path": "a"}, ["a/b/", "a/b/c/", "a/b/c/d/", "a/z.txt"]),
        ({"path": "a", "depth": 1}, ["a/b/", "a/z.txt"]),
        ({"path": "./a/", "depth": 1}, ["a/b/", "a/z.txt"]),
        ({"depth": 1}, ["B.txt", "a-file", "a/", "b.txt", "empty/"]),
        ({"path": "a/b/c/d/e"}, ["a/b/c/d/e/deep.txt"]),
        ({"path": "empty"}, []),
        ({"path": "a", "depth": 1, "hidden": True}, ["a/.secret", "a/b/", "a/z.txt"]),
        ({"path": None, "depth": None, "max_entries": None, "changed_since": None, "offset": 7}, ["empty/"]),
    ],
)
def test_path_depth_and_hidden_select_the_entries(runtime, tree, args, entries):
    assert ls(runtime, **args)["entries"] == entries


@pytest.mark.parametrize(
    "args, note",
    [
        ({"depth": 0}, "depth 0 was changed to 1, its minimum"),
        ({"depth": -5}, "depth -5 was changed to 1, its minimum"),
        ({"depth": 99}, "depth 99 was changed to 10, its maximum"),
        ({"max_entries": 10**6}, "max_entries 1000000 was changed to 10000, its maximum"),
        ({"max_entries": 0}, "max_entries 0 was changed to 1, its minimum"),
    ],
)
def test_values_beyond_the_limits_are_clamped_with_a_note(runtime, tree, args, note):
    assert runtime.call("list_dir", **args).meta["notes"] == [note]


def test_five_hundred_entries_are_returned_and_the_next_call_continues(runtime, workspace):
    for number in range(1203):
        workspace.write(f"{number:04d}", "")
    entries: list[str] = []
    args: Any = {}
    calls = 0
    while args is not None:
        data = ls(runtime, **args)
        assert data["total_count"] == 1203
        entries += data["entries"]
        args = data.get("next", {}).get("args")
        assert data["truncated"] == (args is not None)
        calls += 1

    assert calls == 3
    assert entries == [f"{number:04d}" for number in range(1203)]


def test_the_next_call_keeps_every_argument(runtime, tree):
    first = ls(runtime, path="a", depth=9, max_entries=2, hidden=True, details=True, changed_since=5)

    assert first["next"]["args"] == {
        "path": "a",
        "depth": 9,
        "max_entries": 2,
        "offset": 2,
        "changed_since": 5,
        "hidden": True,
        "details": True,
    }


@pytest.mark.parametrize(
    "since, entries", [(0, ["new", "old"]), (1000, ["new"]), (1000.5, ["new"]), (2000.5, []), (1e12, [])]
)
def test_only_entries_changed_since_are_listed(runtime, workspace, since, entries):
    os.utime(workspace.write("old", ""), (1000, 1000))
    os.utime(workspace.write("new", ""), (2000.5, 2000.5))

    assert ls(runtime, changed_since=since)["entries"] == entries


def test_details_give_type_size_and_time(runtime, workspace):
    os.utime(workspace.write("a.txt", "abc"), (1000, 1000))
    os.makedirs(workspace.join("folder"))
    os.symlink("a.txt", workspace.join("link"))

    entries = ls(runtime, details=True)["entries"]

    assert entries[0] == {"name": "a.txt", "type": "file", "size": 3, "modified": "1970-01-01T00:16:40.000000000Z"}
    assert [(entry["name"], entry["type"]) for entry in entries[1:]] == [("folder/", "directory"), ("link", "special")]


def test_sensitive_names_never_appear(runtime, workspace):
    for path in (".git/config", ".ssh/id", "sub/.env", "sub/.env.local", "sub/.env.example", "sub/a.txt"):
        workspace.write(path, "x")

    assert ls(runtime, hidden=True)["entries"] == ["sub/", "sub/.env.example", "sub/a.txt"]


def test_links_are_listed_and_not_followed(runtime, workspace, tmp_path):
    workspace.write("folder/a", "")
    os.symlink("folder", workspace.join("link"))
    os.symlink("/", workspace.join("root"))
    os.symlink("loop", workspace.join("loop"))

    assert ls(runtime)["entries"] == ["folder/", "folder/a", "link", "loop", "root"]


def test_unusual_names_are_listed(runtime, workspace):
    for name in (b"new\nline", b'"q"', b"caf\xe9", "é".encode()):
        with open(os.path.join(os.fsencode(workspace.path), name), "wb"):
            pass

    result = runtime.call("list_dir")

    assert sorted(result.data["entries"]) == sorted(["new\nline", '"q"', "caf\\xe9", "é"])
    wire.decode_value(wire.encode_result(result))


@pytest.mark.parametrize(
    "args, code",
    [
        ({"path": "nothing"}, "file_not_found"),
        ({"path": "b.txt"}, "invalid_args"),
        ({"path": ".."}, "path_outside_workspace"),
        ({"path": "/"}, "path_outside_workspace"),
        ({"path": ".git"}, "sensitive_path"),
        ({"depth": "2"}, "invalid_args"),
        ({"depth": True}, "invalid_args"),
        ({"changed_since": "2020-01-01"}, "invalid_args"),
        ({"max_entry": 3}, "invalid_args"),
        ({"offset": -1}, "invalid_args"),
    ],
)
def test_invalid_arguments_are_rejected(runtime, tree, args, code):
    error = runtime.call("list_dir", **args).error

    assert (error.code, bool(error.suggestion)) == (code, True)


def test_the_view_is_a_file_list(runtime, tree):
    view = runtime.call("list_dir", max_entries=2).view

    assert (view["type"], view["total"], len(view["files"])) == ("file-list", 8, 2)
