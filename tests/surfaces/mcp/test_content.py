from __future__ import annotations

import json
from typing import Any

import pytest

from hilt.call import Result
from hilt.errors import ToolError
from hilt.surfaces.mcp.content import META_CHARACTERS, call_result, hints


@pytest.mark.parametrize(
    "effects, expected",
    [
        ({"read"}, (True, False, True, False)),
        (set(), (True, False, True, False)),
        ({"read", "network"}, (False, False, False, True)),
        ({"write"}, (False, True, False, False)),
        ({"execute"}, (False, True, False, True)),
        ({"control"}, (False, False, False, False)),
    ],
)
def test_effects_become_hints(effects, expected):
    annotations = hints(frozenset(effects))

    assert (
        tuple(annotations[f"{name}Hint"] for name in ("readOnly", "destructive", "idempotent", "openWorld")) == expected
    )


@pytest.mark.parametrize(
    "data, output, structured",
    [
        ({"a": 1}, None, {"a": 1}),
        ({"a": 1}, {"type": "object"}, {"a": 1}),
        ([1], {"type": "array"}, {"result": [1]}),
        ([1], None, None),
        ("text", None, None),
    ],
)
def test_structured_results_are_objects_with_text(data, output, structured):
    reply = call_result(Result("plain", data=data), output)

    assert reply.get("structuredContent") == structured
    assert reply["content"][0]["text"] == json.dumps(data, separators=(",", ":"))


COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


@pytest.mark.parametrize("trusted", [True, False])
def test_text_instead_of_declared_data_is_a_failure_that_includes_the_text(trusted):
    reply = call_result(Result("plain"), COUNT, trusted=trusted)

    assert reply["isError"]
    assert "output schema requires data" in reply["content"][0]["text"]
    assert reply["content"][1]["text"] == "plain"


@pytest.mark.parametrize("data", [{"count": "1"}, {}, {"count": None}, {"count": '{"a": 1}'}])
def test_data_that_violates_a_foreign_output_schema_is_a_failure(data):
    reply = call_result(Result(data=data), COUNT, trusted=False)

    assert reply["isError"]
    assert "structuredContent" not in reply
    assert "violates its output schema" in reply["content"][0]["text"]
    assert json.loads(reply["content"][1]["text"]) == data


@pytest.mark.parametrize(
    "block",
    [
        {"type": "resource", "resource": {"uri": 5, "text": "x"}},
        {"type": "text"},
        {"type": "nothing"},
        {"type": "image", "data": "x", "mimeType": "image/png", "annotations": {"priority": 99}},
    ],
)
def test_an_invalid_content_block_is_a_failure(block):
    reply = call_result(Result("kept", content=(block,)), trusted=False)

    assert reply["isError"]
    assert [item["type"] for item in reply["content"]] == ["text", "text"]
    assert reply["content"][1]["text"] == "kept"


def test_an_empty_result_is_empty_text():
    assert call_result(Result())["content"] == [{"type": "text", "text": ""}]


def test_text_comes_before_other_content():
    image = {"type": "image", "data": "", "mimeType": "image/png"}

    assert call_result(Result("see", content=(image,)))["content"] == [{"type": "text", "text": "see"}, image]
    assert call_result(Result(content=(image,)))["content"] == [image]


def test_a_failure_is_readable_by_models_and_programs():
    error = ToolError("past_end", "Too far.", suggestion="Go back.", total_lines=3)

    reply = call_result(Result(error=error))

    assert reply["isError"]
    assert reply["content"] == [{"type": "text", "text": "past_end: Too far.\nGo back."}]
    meta = {"code": "past_end", "details": {"total_lines": 3}}
    assert reply["_meta"] == {"dev.hilt/error": meta}


@pytest.mark.parametrize(
    "tool, args, text, details",
    [
        (
            "read_file",
            {"start": 1},
            "invalid_args: start is not an argument",
            {"violations": [{"path": "start"}, {"path": "path"}]},
        ),
        (
            "multi_edit",
            {"edits": [{"path": "a", "old_text": "x", "new_text": "y"}]},
            "edit_not_unique: 1 of 1 edits failed",
            {
                "failures": [{"index": 0, "path": "a", "error_code": "edit_not_unique"}],
                "lines": [1, 2],
                "count": 2,
            },
        ),
        (
            "multi_read",
            {"files": [{"path": "b"}]},
            "file_not_found: b does not exist.",
            {"errors": {"b": {"error_code": "file_not_found"}}},
        ),
    ],
)
def test_the_text_of_an_error_is_sent_once(runtime, workspace, tool, args, text, details):
    workspace.write("a", "x\nx\n")

    reply = call_result(runtime.call(tool, **args))

    assert reply["content"][0]["text"].startswith(text)
    assert reply["_meta"]["dev.hilt/error"]["details"] == details


@pytest.mark.parametrize("details", [{"a": "x" * META_CHARACTERS}, {"a": object()}])
def test_details_that_are_large_or_not_json_are_omitted(details):
    reply: Any = call_result(Result(error=ToolError("internal", "No.", **details)))

    assert "details" not in reply["_meta"]["dev.hilt/error"]


def test_the_metadata_has_only_what_a_host_can_use():
    meta = {"timing": {"ms": 1}, "_filePath": "/a", "truncation": {"truncated": True}}

    assert call_result(Result("x", meta=meta))["_meta"] == {
        "dev.hilt/meta": {"truncation": {"truncated": True}, "filePath": "/a"}
    }
    assert "_meta" not in call_result(Result("x", meta={"timing": {"ms": 1}}))
