from __future__ import annotations

import json
from typing import Any

import pytest

from tongs.call import Result
from tongs.errors import ToolError
from tongs.surfaces.mcp_content import call_result, hints
from tongs.surfaces.mcp_names import META_CHARACTERS


@pytest.mark.parametrize(
    "effects, said",
    [
        ({"read"}, (True, False, True, False)),
        (set(), (True, False, True, False)),
        ({"read", "network"}, (False, False, False, True)),
        ({"write"}, (False, True, False, False)),
        ({"execute"}, (False, True, False, True)),
        ({"control"}, (False, False, False, False)),
    ],
)
def test_effects_are_hints(effects, said):
    found = hints(frozenset(effects))

    assert tuple(found[f"{name}Hint"] for name in ("readOnly", "destructive", "idempotent", "openWorld")) == said


@pytest.mark.parametrize(
    "data, output, structured",
    [
        ({"a": 1}, None, {"a": 1}),
        ({"a": 1}, {"type": "object"}, {"a": 1}),
        ([1], {"type": "array"}, {"result": [1]}),
        ([1], None, None),
        ("text", None, None),
        (None, {"type": "object"}, None),
    ],
)
def test_structured_answers_are_objects_and_text_as_well(data, output, structured):
    found = call_result(Result("plain", data=data), output)

    assert found.get("structuredContent") == structured
    assert found["content"][0]["text"] == ("plain" if data is None else json.dumps(data, separators=(",", ":")))


def test_an_answer_without_anything_is_empty_text():
    assert call_result(Result())["content"] == [{"type": "text", "text": ""}]


def test_text_stands_before_other_content():
    image = {"type": "image", "data": "", "mimeType": "image/png"}

    assert call_result(Result("see", content=(image,)))["content"] == [{"type": "text", "text": "see"}, image]
    assert call_result(Result(content=(image,)))["content"] == [image]


def test_a_failure_is_read_by_models_and_programs():
    error = ToolError("past_end", "Too far.", suggestion="Go back.", total_lines=3)

    found = call_result(Result(error=error))

    assert found["isError"]
    assert found["content"] == [{"type": "text", "text": "past_end: Too far.\nGo back."}]
    told = {"code": "past_end", "message": "Too far.", "suggestion": "Go back.", "details": {"total_lines": 3}}
    assert found["_meta"] == {"dev.tongs/error": told}


@pytest.mark.parametrize("details", [{"a": "x" * META_CHARACTERS}, {"a": object()}])
def test_details_that_are_large_or_no_json_are_left_out(details):
    found: Any = call_result(Result(error=ToolError("internal", "No.", **details)))

    assert "details" not in found["_meta"]["dev.tongs/error"]


def test_facts_that_a_host_can_use_are_beside_the_answer():
    meta = {"timing": {"ms": 1}, "_filePath": "/a", "truncation": {"truncated": True}}

    assert call_result(Result("x", meta=meta))["_meta"] == {
        "dev.tongs/meta": {"truncation": {"truncated": True}, "filePath": "/a"}
    }
    assert "_meta" not in call_result(Result("x", meta={"timing": {"ms": 1}}))
