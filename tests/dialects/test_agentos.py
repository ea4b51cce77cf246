from __future__ import annotations

import os

import jsonschema_rs
import pytest

from hilt.call import Output
from hilt.dialects.agentos import ENTRIES
from tests.tools.test_read_file import pdf, picture


@pytest.mark.parametrize(
    "name, arguments, expected",
    [
        ("tool::file_read", {"path": "a"}, {"path": "a", "max_bytes": 1024 * 1024}),
        ("tool::file_read", {"path": "a", "maxBytes": 10.7}, {"path": "a", "max_bytes": 10}),
        ("tool::file_write", {"path": "a", "content": "b"}, {"path": "a", "content": "b"}),
        ("tool::apply_patch", {"path": "a", "patch": "b"}, {"path": "a", "patch": "b"}),
        ("tool::file_list", {"path": "a"}, {"path": "a", "depth": 1, "max_entries": 10_000, "hidden": True, "details": True}),  # noqa: E501
        ("tool::file_list", {"path": "a", "recursive": True}, {"path": "a", "depth": 10, "max_entries": 10_000, "hidden": True, "details": True}),  # noqa: E501
    ],
)  # fmt: skip
def test_arguments_are_translated(name, arguments, expected):
    assert ENTRIES[name].arguments(arguments) == expected


def test_a_patch_without_changes_returns_the_path():
    output = ENTRIES["tool::apply_patch"].reply(Output("", meta={"files": []}), {"path": "sub/a"}, "/w")

    assert output.data == {"patched": True, "path": "/w/sub/a"}


def call(runtime, name, **args):
    result = runtime.call(f"tool::{name}", **args)
    assert result.ok, result.error
    return result.data


@pytest.mark.parametrize(
    "data, limit, content",
    [
        (b"abc\n", None, "abc\n"),
        (b"abc\n", 0, ""),
        (b"abc\n", 2, "ab"),
        (b"a\r\nb", None, "a\r\nb"),
        (b"", None, ""),
        ("é\n".encode("utf-16"), None, "é\n"),
        (b"x" * 100_000, None, "x" * 100_000),
    ],
)
def test_contents_are_exact_and_the_size_is_that_of_the_file(runtime, workspace, data, limit, content):
    workspace.write("a.txt", data)

    reply = call(runtime, "file_read", path="a.txt", **({} if limit is None else {"maxBytes": limit}))

    assert (reply["content"], reply["size"]) == (content, len(data))
    assert reply["path"] == os.path.realpath(workspace.join("a.txt"))


@pytest.mark.parametrize("size, truncated", [(1024 * 1024, False), (1024 * 1024 + 1, True)])
def test_one_call_reads_up_to_the_limit_and_reports_truncation(runtime, workspace, size, truncated):
    workspace.write("a.txt", b"x" * size)

    result = runtime.call("tool::file_read", path="a.txt", maxBytes=10**12)

    assert (len(result.data["content"]), result.data["size"]) == (1024 * 1024, size)
    assert (result.data.get("truncated", False), "notes" in result.meta) == (truncated, False)


@pytest.mark.starts_processes
@pytest.mark.parametrize("data", [picture("PNG"), pdf("text"), b"a\0b"])
def test_the_size_of_a_binary_file_is_that_of_the_file(runtime, workspace, data):
    workspace.write("file", data)

    assert call(runtime, "file_read", path="file")["size"] == len(data)


def test_entries_are_files_or_directories(runtime, workspace):
    workspace.write("sub/a.txt", "abc")
    workspace.write(".hidden", "")
    os.symlink("sub", workspace.join("link"))

    entries = call(runtime, "file_list", path=".")["entries"]

    assert [(entry["name"], entry["type"]) for entry in entries] == [
        (".hidden", "file"),
        ("link", "file"),
        ("sub", "directory"),
    ]
    assert set(entries[0]) == {"name", "type", "size", "modified"}


def test_relative_and_absolute_paths_return_the_absolute_path(runtime, workspace):
    workspace.write("sub/a.txt", "a")
    full = os.path.realpath(workspace.join("sub/a.txt"))

    for path in ("sub/a.txt", "./sub/../sub/a.txt", full):
        assert call(runtime, "file_read", path=path)["path"] == full


@pytest.mark.parametrize(
    "name, args, code",
    [
        ("file_read", {}, "invalid_args"),
        ("file_read", {"path": "a.txt", "maxBytes": -1}, "invalid_args"),
        ("file_read", {"path": "a.txt", "maxBytes": "1"}, "invalid_args"),
        ("file_read", {"path": "a.txt", "max_bytes": 1}, "invalid_args"),
        ("file_read", {"path": "nothing"}, "file_not_found"),
        ("file_read", {"path": "../x"}, "path_outside_workspace"),
        ("file_write", {"path": "b.txt"}, "invalid_args"),
        ("file_list", {}, "invalid_args"),
        ("file_list", {"path": "a.txt"}, "invalid_args"),
        ("apply_patch", {"path": "a.txt", "patch": "nonsense"}, "patch_invalid"),
        ("apply_patch", {"path": "a.txt", "patch": "@@ -1 +1 @@\n-x\n+y\n"}, "patch_conflict"),
        ("apply_patch", {"path": "b.txt", "patch": "@@ -1 +1 @@\n-x\n+y\n"}, "file_not_found"),
        ("file_raed", {"path": "a.txt"}, "unknown_tool"),
    ],
)
def test_invalid_calls_are_rejected(runtime, workspace, name, args, code):
    workspace.write("a.txt", "a\n")

    assert runtime.call(f"tool::{name}", **args).error.code == code
    assert workspace.tree() == {"a.txt": "a\n"}


@pytest.mark.parametrize("name", ENTRIES)
def test_schemas_are_valid_and_closed(name):
    schema = ENTRIES[name].schema

    jsonschema_rs.meta.validate(schema)
    assert schema["additionalProperties"] is False
    assert all(parameter["description"] for parameter in schema["properties"].values())
