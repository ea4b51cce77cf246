from __future__ import annotations

import json

import mcp_types as types
import pytest

from hilt.errors import ToolError
from hilt.servers.results import FAILURE_MAX, output_of

TEXT = types.TextContent(type="text", text="hello")
PICTURE = types.ImageContent(type="image", data="aGk=", mime_type="image/png")


def test_data_that_is_too_long_becomes_text():
    data = {"rows": ["x" * 50] * 10}
    result = types.CallToolResult(content=[], structured_content=data)

    assert output_of(result, "t", 10_000).data == data
    short = output_of(result, "t", 100)
    assert (short.data, json.loads(short.text)) == (None, data)


def test_the_text_of_a_server_replaces_data_that_is_too_long():
    result = types.CallToolResult(content=[TEXT], structured_content={"rows": ["x" * 500]})

    assert output_of(result, "t", 100).text == "hello"


def test_a_failure_is_cut_and_cleaned():
    text = types.TextContent(type="text", text="no\u202e" + "x" * 100_000)

    with pytest.raises(ToolError) as caught:
        output_of(types.CallToolResult(content=[text], is_error=True), "t", 10)

    assert caught.value.code == "tool_failed"
    assert len(caught.value.message) < FAILURE_MAX + 100
    assert "\u202e" not in caught.value.message


def test_a_failure_without_a_message_is_still_a_failure():
    with pytest.raises(ToolError) as caught:
        output_of(types.CallToolResult(content=[], is_error=True), "t", 10)

    assert caught.value.message.startswith("t failed")


def test_an_empty_result_is_valid():
    assert output_of(types.CallToolResult(content=[]), "t", 10).text == ""


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_data_with_numbers_that_json_lacks_becomes_text(number):
    result = types.CallToolResult(content=[], structured_content={"a": [{"b": number}]})

    output = output_of(result, "t", 100)

    assert output.data is None
    assert json.loads(output.text).keys() == {"a"}


def test_the_media_type_of_a_picture_is_cleaned():
    picture = types.ImageContent(type="image", data="aGk=", mime_type="image/png\u202e\x1b")

    assert output_of(types.CallToolResult(content=[picture]), "t", 10).content[0]["mimeType"] == "image/png"
