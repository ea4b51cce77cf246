"""What the server says to a client: its instructions, the list of its tools, and the results of calls."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.listing import ListedTool
from hilt.pipeline import Prepared
from hilt.places import command
from hilt.runtime import Runtime
from hilt.schema import Schema, structured, structured_schema, validate
from hilt.surfaces.mcp.plain import OWN, SESSION
from hilt.surfaces.mcp.sessions import Session

RESULT_CHARACTERS = 200_000  # limit for Claude Code, which by default cuts results over 50,000 characters to 2 KB
META_CHARACTERS = 4000  # of metadata for programs in a result
INSTRUCTIONS_CHARACTERS = 1200  # at most: every session's model reads them

COMPLETE = {"resultType": "complete"}  # in every result except questions; not sent to older clients

# --- instructions and tools -------------------------------------------------------------------------------------------

_SEARCH = "Only tool_search and tool_call are listed: tool_search finds the tools named here, tool_call runs them.\n"

_PLACE = "hilt works in one folder, the workspace; paths are relative to it.\n"

_TOOLS = """\
- Read with read_file, search contents with search_files, find names with find_files, list folders with list_dir.
- Change one place with edit_file, several at once with multi_edit or apply_patch, a whole file with write_file.
- Run programs with run_shell; long ones with run_in_background, then job_output. Dangerous commands need force: true; \
set it only if the user wants it.
- undo reverts what a call changed, by the id of the call.
"""

_RULES = """\
- stale_file: the file has changed since you read it; read it again.
- Commands are sandboxed: they can write only in the workspace and have no network.
- Refused: paths outside the workspace, secrets such as .env and .ssh, settings of agents and git.
- approval_required: ask the user to run the command in the error; then repeat the same call.
- denied and USER_REJECTION: do not work around it; ask the user.
- Truncated output says on its last line how to get the rest.
"""


def instructions(*, search: bool, dialect: str | None) -> str:
    """Return the instructions; with `search`, for a client that sees only tool_search and tool_call.

    A model that works with another dialect knows its tools, and sees no others.
    """
    is_canonical = dialect in (None, "jinn")
    return ((_SEARCH if search else "") + _PLACE + (_TOOLS if is_canonical else "") + _RULES).rstrip("\n")


class Choice(NamedTuple):
    """Which tools to list, and how."""

    search: bool = False
    lean: bool = False


def tool_list(runtime: Runtime, choice: Choice, session: str, *, client_asks: bool) -> list[dict[str, Any]]:
    """Return the entries of tools/list for a session; `client_asks` means that the client can ask its user."""
    authority, (search, lean) = runtime.parts.authority, choice
    return [
        tool_entry(tool) for tool in authority.listed_tools(session, search=search, lean=lean, client_asks=client_asks)
    ]


def tool_entry(shown: ListedTool) -> dict[str, Any]:
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


# --- results --------------------------------------------------------------------------------------------------------


def call_result(result: Result, output: Schema | None = None, *, trusted: bool = True) -> dict[str, Any]:
    """Return the response to a call of a tool with this output schema; errors are results that the model reads.

    The output of a tool that is not `trusted` is validated, because clients reject output that violates the schema.
    """
    if result.error is not None:
        return error_result(result.error, result)
    content: list[dict[str, Any]] = list(replace_surrogates(result.content)) if result.content else []
    text, data = result.result, result.data
    if not _is_sound(text):
        text, data = replace_surrogates(text), replace_surrogates(data)
    visible = text or _image_description(content, result)
    if visible or not content:
        content.insert(0, {"type": "text", "text": visible})
    answer: dict[str, Any] = {**COMPLETE, "content": content, "isError": False}
    if isinstance(data, dict) or (data is not None and output is not None):
        answer["structuredContent"] = structured(output, data)
    violation = _violation(answer, output, trusted=trusted)
    if violation is not None:
        if result.meta.get("_persisted"):
            advice = "Request less. The text says where the full output is."
            error = ToolError("limit_exceeded", "The output is too long to return as data.", suggestion=advice)
            failed = error_result(error, result)
        else:
            failed = error_result(
                ToolError("tool_failed", violation, suggestion="Ask the author of the tool to fix it.")
            )
        return {**failed, "content": [*failed["content"], {"type": "text", "text": text}]}
    meta = _meta_of(result)
    if meta:
        answer["_meta"] = meta
    return answer


def call_answer(session: Session, call: Call, result: Result, prepared: Prepared | None) -> dict[str, Any]:
    """Return the response to a call; store a pending approval in the session, for when the client repeats the call."""
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


def _image_description(content: list[dict[str, Any]], result: Result) -> str:
    """Return a description of an image file, for hosts that pass only text to their model."""
    if "path" not in result.meta or [block.get("type") for block in content] != ["image"]:
        return ""
    return str(replace_surrogates(f"{result.meta['path']}: {content[0]['mimeType']}, {result.meta['size']} bytes"))


def _violation(answer: dict[str, Any], output: Schema | None, *, trusted: bool) -> str | None:
    """Return how a response violates the output schema or the protocol; None if it does not."""
    if trusted and "structuredContent" in answer:
        return None
    schema = structured_schema(output)
    if schema is not None and "structuredContent" not in answer:
        return "The tool returned text, but its output schema requires data."
    if trusted:
        return None
    for block in answer["content"]:
        try:
            _block().validate_python(block)
        except ValueError as error:
            return f"The tool returned an invalid MCP content block: {str(error).splitlines()[2].strip()}."
    if schema is not None:
        try:
            validate(schema, answer["structuredContent"])
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
    details = _without_texts(error.details, text)
    if details and _is_small(details):
        data["details"] = details
    meta = {f"{OWN}error": replace_surrogates(data), **(_meta_of(result) if result is not None else {})}
    return {**COMPLETE, "content": [{"type": "text", "text": replace_surrogates(text)}], "isError": True, "_meta": meta}


def _without_texts(value: Any, text: str) -> Any:
    """Return details without the messages and suggestions that the text of the error has, too."""
    if isinstance(value, list | tuple):
        return [_without_texts(item, text) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_texts(item, text)
        for key, item in value.items()
        if not (key in _TEXT_KEYS and isinstance(item, str) and item in text)
    }


_TEXT_KEYS = ("message", "error", "suggestion")
# metadata that a host can use; other surfaces include more
_META_KEYS = ("truncation", "_filePath", "_originalSize", "notes", "stop", "context", "policy", "recovered")


def _meta_of(result: Result) -> dict[str, Any]:
    """Return the metadata for programs under our own key, unless it is too large."""
    meta = {name.strip("_"): result.meta[name] for name in _META_KEYS if name in result.meta}
    if result.risk:
        meta["risk"] = result.risk
    return {f"{OWN}meta": replace_surrogates(meta)} if meta and _is_small(meta) else {}


def _is_small(value: Any) -> bool:
    try:
        return len(json.dumps(value)) <= META_CHARACTERS
    except (TypeError, ValueError, RecursionError):
        return False


def replace_surrogates(value: Any) -> Any:
    """Replace lone surrogates, which tool output and file names may contain, so that the value is valid UTF-8."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _is_sound(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
