"""The budget of content blocks, for the results of every tool."""

from __future__ import annotations

import base64
import io
import struct
from typing import Any

import pytest
from PIL import Image

from hilt.call import Output, Result
from hilt.context import Context
from hilt.declaration import tool
from hilt.output.blocks import BLOCKS, CHARACTERS
from hilt.testing import temporary_runtime

Block = dict[str, Any]


def image(data: bytes) -> Block:
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + struct.pack(">II", width, height)


def tiff(width: int, height: int) -> bytes:
    fields = struct.pack("<" + "HHII" * 2, 256, 4, 1, width, 257, 4, 1, height)
    return b"II*\0\x08\0\0\0\x02\0" + fields


def icon(width: int, height: int) -> bytes:
    return b"\0\0\1\0\1\0" + struct.pack("<12xI", 22) + png(width, height)


def blob(characters: int) -> Block:
    return {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "a/b", "blob": "A" * characters}}


SMALL = image(png(1, 1))
UNKNOWN = ", whose header does not tell its width and height. A result"


def result_of(base: str, blocks: list[Block], data: Any = None) -> Result:
    @tool(effects="read")
    def many_blocks(ctx: Context) -> Output:
        """Return blocks."""
        return Output("" if data else "text", data, content=tuple(blocks))

    with temporary_runtime(base, tools=[many_blocks]) as (runtime, _):
        return runtime.call("many_blocks")


@pytest.mark.parametrize(
    "blocks, fitting, fact",
    [
        ([SMALL] * (BLOCKS + 5), [SMALL] * BLOCKS, "5 of 105 content blocks: image of"),
        ([image(png(8000, 8001)), SMALL], [SMALL], "1 of 2 content blocks: image of 8000 x 8001 pixels. A result"),
        ([image(png(8000, 4000))] * 3, [image(png(8000, 4000))] * 2, "1 of 3 content blocks"),
        ([blob(CHARACTERS + 1), SMALL], [SMALL], "resource of 83886"),
        ([blob(CHARACTERS // 2)] * 3, [blob(CHARACTERS // 2)] * 2, "1 of 3 content blocks"),
        ([{"type": "text", "text": "x" * 200_000}, SMALL], [SMALL], "text of 200012 characters"),
        ([{**SMALL, "_meta": {"a": ["x" * 200_000]}}, SMALL], [SMALL], "1 of 2 content blocks: image of"),
        ([{**SMALL, "data": "not base64!"}, SMALL], [SMALL], UNKNOWN),
        ([image(b"\xff\xd8\xff\xd0" + b"x" * 50), SMALL], [SMALL], UNKNOWN),
        ([image(b"\0\0\0\x1cftypavif")], [], UNKNOWN),
        ([image(b"\0\0\1\0\0\0")], [], UNKNOWN),
        ([{**image(tiff(90000, 90000)), "mimeType": "image/tiff"}], [], "90000 x 90000 pixels"),
        ([{**image(icon(90000, 90000)), "mimeType": "image/x-icon"}], [], "90000 x 90000 pixels"),
        ([image(b"\0\0\0\x0cjP  \r\n\x87\n")], [], UNKNOWN),
        ([image(b"P6\n90000 90000\n255\n")], [], UNKNOWN),
        ([image(png(1, 1) + b"\x08\0\0\0\0" + b"\0\0\0\0" + png(90000, 90000)[8:])], [], UNKNOWN),
        ([image(b"\xff\x0ajxl")], [], UNKNOWN),
        ([{"type": "resource", "resource": {"blob": image(png(9000, 9000))["data"]}}], [], "9000 x 9000 pixels"),
    ],
)
def test_blocks_over_the_budget_are_left_out_and_named(base, blocks, fitting, fact):
    result = result_of(base, blocks)

    assert list(result.content) == fitting
    assert result.text.partition("\n")[0] == "text"
    assert fact in result.text
    assert ("[Left out" in result.text) == bool(fact)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0", b"no image", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0\0\x10JFIF", b"GIF89a"]
)
def test_what_no_program_can_draw_is_passed_on(base, data):
    assert result_of(base, [image(data)]).content == (image(data),)


def test_the_note_is_a_block_when_the_result_is_data(base):
    result = result_of(base, [image(png(9000, 9000)), SMALL], data={"a": 1})

    assert (result.data, result.content[0]) == ({"a": 1}, SMALL)
    assert result.content[1]["text"].startswith("[Left out 1 of 2 content blocks: image of 9000 x 9000 pixels.")


def test_an_image_of_a_tool_within_the_budget_is_unchanged(base):
    buffer = io.BytesIO()
    Image.new("RGB", (1920, 1080)).save(buffer, "PNG")
    blocks = [image(buffer.getvalue())]

    result = result_of(base, blocks)

    assert (result.text, list(result.content)) == ("text", blocks)
