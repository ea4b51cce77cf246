"""Tools and results as MCP has them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hilt.authority.visibility import Shown
from hilt.call import Result
from hilt.errors import ToolError
from hilt.schema import Schema, fit, promised, structured
from hilt.surfaces.mcp.names import META_CHARACTERS, OWN, RESULT_CHARACTERS

COMPLETE = {"resultType": "complete"}  # of every result that is no question; older clients are not sent it


def tool_entry(shown: Shown) -> dict[str, Any]:
    """Return a tool as it is listed."""
    entry: dict[str, Any] = {
        "name": shown.name,
        "title": shown.title,
        "description": shown.description,
        "inputSchema": shown.schema,
        "annotations": hints(shown.effects),
        "_meta": {"anthropic/maxResultSizeChars": RESULT_CHARACTERS},
    }
    if shown.output is not None:
        entry["outputSchema"] = shown.output
    return entry


def hints(effects: frozenset[str]) -> dict[str, bool]:
    """Return what a host may tell its user of a tool; the decision on a call does not depend on it."""
    reads = effects <= {"read"}
    return {
        "readOnlyHint": reads,
        "destructiveHint": bool(effects & {"write", "execute"}),
        "idempotentHint": reads,
        "openWorldHint": bool(effects & {"network", "execute"}),
    }


def call_result(result: Result, output: Schema | None = None, *, trusted: bool = True) -> dict[str, Any]:
    """Return what a call is answered with, by a tool that promised such output; a failure is one the model reads.

    What a tool that is not `trusted` answers is held to its promise, for clients refuse an answer that breaks one.
    """
    if result.error is not None:
        return error_result(result.error, result)
    content: list[dict[str, Any]] = list(sound(result.content)) if result.content else []
    text, data = result.result, result.data
    if not _is_sound(text):
        text, data = sound(text), sound(data)
    shown = text or _named_image(content, result)
    if shown or not content:
        content.insert(0, {"type": "text", "text": shown})
    answer: dict[str, Any] = {**COMPLETE, "content": content, "isError": False}
    if isinstance(data, dict) or (data is not None and output is not None):
        answer["structuredContent"] = structured(output, data)
    broken = _broken(answer, output, trusted=trusted)
    if broken is not None:
        if result.meta.get("_persisted"):
            advice = "Ask for less. The text says where all of it is."
            told = ToolError("limit_exceeded", "The answer is too long to be given as data.", suggestion=advice)
            failed = error_result(told, result)
        else:
            failed = error_result(ToolError("tool_failed", broken, suggestion="Ask the author of the tool to mend it."))
        return {**failed, "content": [*failed["content"], {"type": "text", "text": text}]}
    meta = _facts(result)
    if meta:
        answer["_meta"] = meta
    return answer


def _named_image(content: list[dict[str, Any]], result: Result) -> str:
    """Return what the image of a file is, for hosts that show their model only text."""
    if "path" not in result.meta or [block.get("type") for block in content] != ["image"]:
        return ""
    return str(sound(f"{result.meta['path']}: {content[0]['mimeType']}, {result.meta['size']} bytes"))


def _broken(answer: dict[str, Any], output: Schema | None, *, trusted: bool) -> str | None:
    """Return how an answer breaks what was promised of it, or the protocol."""
    wanted = promised(output)
    if wanted is not None and "structuredContent" not in answer:
        return "The tool answered with text, and its output schema promises data."
    if trusted:
        return None
    for block in answer["content"]:
        try:
            _block().validate_python(block)
        except ValueError as error:
            return f"The tool answered with a block that MCP does not have: {str(error).splitlines()[2].strip()}."
    if wanted is not None:
        try:
            fit(wanted, answer["structuredContent"])
        except ToolError as error:
            return f"The tool answered what its output schema does not allow: {error.message}"
    return None


@cache
def _block() -> Any:
    import mcp_types as types
    from pydantic import TypeAdapter

    return TypeAdapter(types.ContentBlock)


def error_result(error: ToolError, result: Result | None = None) -> dict[str, Any]:
    """Return a failure: code, facts and next step as text, and for programs the code with its details."""
    text = f"{error.code}: {error.message}" + (f"\n{error.suggestion}" if error.suggestion else "")
    told: dict[str, Any] = {"code": error.code}
    if error.details and _is_small(error.details):
        told["details"] = error.details
    meta = {f"{OWN}error": sound(told), **(_facts(result) if result is not None else {})}
    return {**COMPLETE, "content": [{"type": "text", "text": sound(text)}], "isError": True, "_meta": meta}


# what a host can use; the rest is for surfaces that show more
_USEFUL = ("truncation", "_filePath", "_originalSize", "notes", "stop", "context", "policy", "recovered")


def _facts(result: Result) -> dict[str, Any]:
    """Return the facts for programs that are small, under names of our own."""
    meta = {name.strip("_"): result.meta[name] for name in _USEFUL if name in result.meta}
    if result.risk:
        meta["risk"] = result.risk
    return {f"{OWN}meta": sound(meta)} if meta and _is_small(meta) else {}


def _is_small(value: Any) -> bool:
    try:
        return len(json.dumps(value)) <= META_CHARACTERS
    except (TypeError, ValueError, RecursionError):
        return False


def sound(value: Any) -> Any:
    """Return the same value in whole characters: what a tool answers, or the name of a file, may have half of one."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _is_sound(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
