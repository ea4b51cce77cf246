"""Tools that return every kind of content."""

from __future__ import annotations

from hilt import Output, ToolError, tool

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="


@tool(effects="read")
def test_simple_text() -> str:
    """Answer with text."""
    return "This is a simple text response for testing."


@tool(effects="read")
def test_image_content() -> Output:
    """Answer with a picture."""
    return Output(content=({"type": "image", "data": PIXEL, "mimeType": "image/png"},))


@tool(effects="read")
def test_audio_content() -> Output:
    """Answer with a sound."""
    return Output(content=({"type": "audio", "data": SILENCE, "mimeType": "audio/wav"},))


@tool(effects="read")
def test_embedded_resource() -> Output:
    """Answer with a resource."""
    text = "This is an embedded resource content."
    return Output(content=(_resource("test://embedded-resource", "text/plain", text),))


@tool(effects="read")
def test_multiple_content_types() -> Output:
    """Answer with text, a picture and a resource."""
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    resource = _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return Output("Multiple content types test:", content=(image, resource))


@tool(effects="read")
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("tool_failed", "This tool intentionally returns an error for testing")


def _resource(uri: str, kind: str, text: str) -> dict[str, object]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}}
