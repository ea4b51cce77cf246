"""Converts the result of an MCP tool to an Output: its text, structured data, images, audio and files."""

from __future__ import annotations

import json
import math
from typing import Any

import mcp_types as types

from hilt.call import Output
from hilt.errors import ToolError
from hilt.servers.definitions import clean

FAILURE_MAX = 8000  # characters of the error message of a tool


def output_of(result: types.CallToolResult, name: str, limit: int) -> Output:
    """Return a result as an Output; raise if the tool failed.

    Data of more than `limit` characters, or with infinite or NaN numbers, is returned as text.
    """
    texts: list[str] = []
    blocks: list[dict[str, Any]] = []
    for block in result.content:
        converted = _block(block)
        if isinstance(converted, str):
            texts.append(converted)
        else:
            blocks.append(converted)
    text = "\n".join(texts)
    if result.is_error:
        reason = clean(text, FAILURE_MAX) or "no reason given."
        raise ToolError("tool_failed", f"{name} failed: {reason}")
    data = result.structured_content
    if data is None:
        return Output(text, content=tuple(blocks))
    encoded = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    if len(encoded) > limit or not _is_finite(data):
        return Output(text or encoded, content=tuple(blocks))
    return Output(text, data, content=tuple(blocks))


def _is_finite(value: Any) -> bool:
    """Whether all numbers in a value are finite, as JSON requires."""
    if isinstance(value, float):
        return math.isfinite(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_is_finite, inner))


def _block(block: Any) -> dict[str, Any] | str:
    """Return a content block: text as a string, others as an MCP block without extra fields."""
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent():
            return {"type": "image", "data": block.data, "mimeType": clean(block.mime_type, 100)}
        case types.AudioContent():
            return {"type": "audio", "data": block.data, "mimeType": clean(block.mime_type, 100)}
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return f"[{clean(str(resource.uri), 500)}]\n{resource.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            kind = clean(resource.mime_type or "application/octet-stream", 100)
            return {"type": "resource", "resource": {"uri": str(resource.uri), "mimeType": kind, "blob": resource.blob}}
        case types.ResourceLink():
            description = f": {clean(block.description, 500)}" if block.description else ""
            return f"[{clean(block.name, 200)} is at {clean(str(block.uri), 500)}{description}]"
    return f"[{type(block).__name__}, which is not supported]"
