"""Convert tools and results to MCP's format."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hilt.authority.visibility import Shown
from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.pipeline import Prepared
from hilt.places import command
from hilt.schema import Schema, fit, promised, structured
from hilt.surfaces.mcp.names import META_CHARACTERS, OWN, RESULT_CHARACTERS, SESSION
from hilt.surfaces.mcp.sessions import Session

COMPLETE = {"resultType": "complete"}  # of every result except questions; older clients do not receive it


def tool_entry(shown: Shown) -> dict[str, Any]:
    """Return the tools/list entry of a tool."""
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
    """Return the annotations of a tool for the host's user; decisions on calls do not depend on them."""
    reads = effects <= {"read"}
    return {
        "readOnlyHint": reads,
        "destructiveHint": bool(effects & {"write", "execute"}),
        "idempotentHint": reads,
        "openWorldHint": bool(effects & {"network", "execute"}),
    }


def call_result(result: Result, output: Schema | None = None, *, trusted: bool = True) -> dict[str, Any]:
    """Return the answer to a call of a tool with this output schema; errors are results that the model reads.

    The answer of a tool that is not `trusted` is validated, because clients reject answers that violate the schema.
    """
    if result.error is not None:
        return error_result(result.error, result)
    content: list[dict[str, Any]] = list(sound(result.content)) if result.content else []
    text, data = result.result, result.data
    if not _is_sound(text):
        text, data = sound(text), sound(data)
    visible = text or _named_image(content, result)
    if visible or not content:
        content.insert(0, {"type": "text", "text": visible})
    answer: dict[str, Any] = {**COMPLETE, "content": content, "isError": False}
    if isinstance(data, dict) or (data is not None and output is not None):
        answer["structuredContent"] = structured(output, data)
    broken = _broken(answer, output, trusted=trusted)
    if broken is not None:
        if result.meta.get("_persisted"):
            advice = "Request less. The text says where the full output is."
            error = ToolError("limit_exceeded", "The answer is too long to return as data.", suggestion=advice)
            failed = error_result(error, result)
        else:
            failed = error_result(ToolError("tool_failed", broken, suggestion="Ask the author of the tool to fix it."))
        return {**failed, "content": [*failed["content"], {"type": "text", "text": text}]}
    meta = _facts(result)
    if meta:
        answer["_meta"] = meta
    return answer


def call_answer(session: Session, call: Call, result: Result, prepared: Prepared | None) -> dict[str, Any]:
    """Return the answer to a call in a session; a pending approval is noted there, for when the client repeats it."""
    error = result.error
    if error is not None and error.code == "approval_required" and "approval" in error.details:
        id = str(error.details["approval"])
        session.waits_for(call.tool, call.args, id)
        error.suggestion = f"Ask the user to run: {command('approve', id)}. Then make the same call again."
    # dialects have their own result formats
    output = prepared.tool.output if prepared is not None and prepared.entry is None else None
    trusted = prepared is None or prepared.tool.source == "built-in"
    answer = call_result(result, output, trusted=trusted)
    if session.offered is not None:
        answer["_meta"] = {**answer.get("_meta", {}), SESSION: session.offered}
    return answer


def _named_image(content: list[dict[str, Any]], result: Result) -> str:
    """Return a description of an image file, for hosts that pass only text to their model."""
    if "path" not in result.meta or [block.get("type") for block in content] != ["image"]:
        return ""
    return str(sound(f"{result.meta['path']}: {content[0]['mimeType']}, {result.meta['size']} bytes"))


def _broken(answer: dict[str, Any], output: Schema | None, *, trusted: bool) -> str | None:
    """Return how an answer violates the output schema or the protocol; None if it does not."""
    wanted = promised(output)
    if wanted is not None and "structuredContent" not in answer:
        return "The tool returned text, but its output schema requires data."
    if trusted:
        return None
    for block in answer["content"]:
        try:
            _block().validate_python(block)
        except ValueError as error:
            return f"The tool returned an invalid MCP content block: {str(error).splitlines()[2].strip()}."
    if wanted is not None:
        try:
            fit(wanted, answer["structuredContent"])
        except ToolError as error:
            return f"The tool returned data that violates its output schema: {error.message}"
    return None


@cache
def _block() -> Any:
    import mcp_types as types
    from pydantic import TypeAdapter

    return TypeAdapter(types.ContentBlock)


def error_result(error: ToolError, result: Result | None = None) -> dict[str, Any]:
    """Return an error result: code, message and suggestion as text, and code and details for programs."""
    text = f"{error.code}: {error.message}" + (f"\n{error.suggestion}" if error.suggestion else "")
    data: dict[str, Any] = {"code": error.code}
    if error.details and _is_small(error.details):
        data["details"] = error.details
    meta = {f"{OWN}error": sound(data), **(_facts(result) if result is not None else {})}
    return {**COMPLETE, "content": [{"type": "text", "text": sound(text)}], "isError": True, "_meta": meta}


# metadata that a host can use; other surfaces show more
_USEFUL = ("truncation", "_filePath", "_originalSize", "notes", "stop", "context", "policy", "recovered")


def _facts(result: Result) -> dict[str, Any]:
    """Return small metadata for programs, under our own key."""
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
    """Return the value as valid UTF-8: output of tools and file names may contain lone surrogates."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _is_sound(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
