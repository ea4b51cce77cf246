from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from hilt.call import Output
from hilt.dialects.jcli import ENTRIES
from hilt.testing import temporary_runtime
from hilt.tools.computer import computer


@pytest.mark.parametrize(
    "name, arguments, expected",
    [
        ("Read", {"path": "a"}, {"path": "a", "start_line": 1, "truncate": "none"}),
        ("Read", {"path": "a", "offset": 0}, {"path": "a", "start_line": 1, "truncate": "none"}),
        ("Read", {"path": "a", "offset": 9}, {"path": "a", "start_line": 10, "truncate": "none"}),
        ("Read", {"path": "a", "limit": 5}, {"path": "a", "start_line": 1, "end_line": 5, "truncate": "none"}),
        ("Read", {"path": "a", "offset": 9, "limit": 1}, {"path": "a", "start_line": 10, "end_line": 10, "truncate": "none"}),  # noqa: E501
        ("Write", {"path": "a", "content": "b"}, {"path": "a", "content": "b"}),
        ("Edit", {"path": "a", "old_string": "b"}, {"path": "a", "old_text": "b", "new_text": ""}),
        ("Edit", {"path": "a", "old_string": "b", "new_string": "c"}, {"path": "a", "old_text": "b", "new_text": "c"}),
    ],
)  # fmt: skip
def test_arguments_are_translated(name, arguments, expected):
    before = dict(arguments)

    assert ENTRIES[name].arguments(arguments) == expected
    assert arguments == before


@pytest.mark.parametrize(
    "note, next_args, printed, expected",
    [
        ("Use start_line=3 to continue.", {"start_line": 3}, "Use offset=2 to continue.", {"offset": 2}),
        ("Use end_line=7 for the lines before.", {"end_line": 7}, "Use limit=7 for the lines before.", {"limit": 7}),
    ],
)
def test_the_next_step_uses_the_arguments_of_the_dialect(note, next_args, printed, expected):
    body = f"1\tUse start_line=3 to continue.\n[Showing lines 1-1 of 9. {note}]"
    truncation: Any = {"truncated": True, "next": {"tool": "read_file", "args": {"path": "a", **next_args}}}

    output = ENTRIES["Read"].reply(Output(body, meta={"truncation": truncation}), {"path": "a"}, "/w")

    assert output.text == f"1\tUse start_line=3 to continue.\n[Showing lines 1-1 of 9. {printed}]"
    assert output.meta["truncation"]["next"] == {"tool": "Read", "args": {"path": "a", **expected}}
    assert truncation["next"]["tool"] == "read_file"


def test_the_next_call_continues_where_the_first_ended(runtime, workspace):
    workspace.write("a.txt", "".join(f"{'x' * 60} {number}\n" for number in range(3000)))
    count, args = 0, {"path": "a.txt"}
    while args:
        result = runtime.call("Read", **args)
        count += result.text.count("x" * 60)
        args = result.meta.get("truncation", {}).get("next", {}).get("args")

    assert count == 3000


@pytest.mark.parametrize(
    "name, args, code",
    [
        ("Read", {}, "invalid_args"),
        ("Read", {"path": "a.txt", "offset": -1}, "invalid_args"),
        ("Read", {"path": "a.txt", "offset": "1"}, "invalid_args"),
        ("Read", {"path": "a.txt", "limit": 0}, "invalid_args"),
        ("Read", {"path": "a.txt", "start_line": 1}, "invalid_args"),
        ("Read", {"path": "a.txt", "offset": 5}, "past_end"),
        ("Read", {"file_path": "a.txt"}, "invalid_args"),
        ("Write", {"path": "b.txt"}, "invalid_args"),
        ("Edit", {"path": "a.txt", "old_string": ""}, "old_text_empty"),
        ("Edit", {"path": "a.txt", "old_string": "x"}, "edit_not_found"),
        ("Edit", {"path": "a.txt", "old_text": "a", "new_text": "b"}, "invalid_args"),
        ("Write", {"path": ".env", "content": "x"}, "sensitive_path"),
        ("Glob", {"pattern": 1}, None),
        ("read", {"path": "a.txt"}, "unknown_tool"),
    ],
)
def test_invalid_calls_are_rejected(runtime, workspace, name, args, code):
    workspace.write("a.txt", "a\n")

    error = runtime.call(name, **args).error

    assert error.code == code or code is None
    assert workspace.tree() == {"a.txt": "a\n"}


def test_suggestions_use_the_names_of_the_dialect_but_keep_common_words(runtime, workspace):
    workspace.write("a.txt", "a\n")
    runtime.call("Task", action="create", title="One")
    runtime.call("Task", action="update", taskId=1, status="in_progress", owner="A")

    busy = runtime.call("Task", action="update", taskId=1, status="in_progress", owner="B").error
    empty = runtime.call("Agent", prompt=" ").error

    assert (busy.code, busy.suggestion[:20]) == ("busy", "Choose another task:")
    assert empty.suggestion == "Describe the task in prompt."
    assert "Read" in runtime.call("Edit", path="a.txt", old_string="x").error.suggestion


def test_the_desktop_has_the_actions_that_hilt_adds():
    schema, canonical = ENTRIES["ComputerUse"].schema, computer.schema

    assert set(canonical["properties"]["action"]["enum"]) <= set(schema["properties"]["action"]["enum"])
    assert set(canonical["properties"]) == set(schema["properties"])


def test_null_counts_as_absent(runtime, workspace):
    workspace.write("a.txt", "a\n")

    assert runtime.call("Read", path="a.txt", offset=None, limit=None).text == "1\ta"
    assert runtime.call("Read", path="a.txt", offset=0.0, limit=1.0).text == "1\ta"


@pytest.mark.parametrize("name", ENTRIES)
def test_schemas_are_valid_and_closed(name):
    schema = ENTRIES[name].schema

    jsonschema_rs.meta.validate(schema)
    assert schema["additionalProperties"] is False
    assert all(parameter["description"] for parameter in schema["properties"].values())


def test_policy_and_trail_see_the_canonical_tool(base):
    with temporary_runtime(base, flags={"dialect": "jcli"}) as (runtime, _):
        runtime.call("Write", path="a.txt", content="a\n")
        result = runtime.call("read_file", path="a.txt")

        assert result.ok
        assert [row.entry.tool for row in runtime.parts.trail.rows()] == ["write_file", "read_file"]
        assert {name for name, *_ in runtime.parts.authority.listed_tools(runtime.session)} == set(ENTRIES) - {
            "ComputerUse"
        }  # without a display
