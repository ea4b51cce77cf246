"""The tool definitions of an MCP server: bounded, compared, cleaned for a model, and converted to Tools.

Definitions are untrusted text. They are stored unchanged, so that every change is detected, and cleaned when they are
shown: invisible and control characters are removed. Annotations are hints and decide nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hilt.custom.definition import Definition, Execute, to_tool
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.formats.invisible import is_hidden
from hilt.schema import CheckedArguments, check_any, public
from hilt.servers.configured import Server
from hilt.servers.schema_cost import MAX_SIZE, cost_of, refuse_work, without_patterns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.declaration import Tool

PREFIX = "mcp__"
NAME_MAX = 64
TOOLS_MAX = 500
DEFINITION_BYTES = 64 * 1024
TOTAL_BYTES = 4 << 20  # of all definitions of a server
NOTES_MAX = 50
DESCRIPTION_MAX = 2000
START_SECONDS = 30.0

# the keys of a definition; all others that a server sends are dropped
KEYS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")

_DEPTH_MAX = 40
_TEXTS = ("description", "title", "$comment")  # of a schema: only shown, so they can be cleaned
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_SPACE = re.compile(r"\n{3,}")
_HASH_LENGTH = 8

Raw = Mapping[str, Any]  # a definition as the server sent it, with only the KEYS


class AcceptedTool(NamedTuple):
    """An accepted definition, the name it is shown by, and its hash."""

    raw: Raw
    listed_name: str
    hash: str


class Difference(NamedTuple):
    """How current definitions differ from the accepted ones, by the server's own tool names."""

    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any difference."""
        return bool(self.changed or self.new or self.removed)


def usable(candidates: Iterable[Any]) -> tuple[list[Raw], list[str]]:
    """Return the usable definitions of those a server sent, and why the others are skipped."""
    definitions: dict[str, Raw] = {}
    notes: list[str] = []
    total = 0
    for number, item in enumerate(candidates):
        if len(definitions) >= TOOLS_MAX or total > TOTAL_BYTES:
            notes.append(
                f"it has more than {TOOLS_MAX} tools or {TOTAL_BYTES >> 20} MiB of definitions; the rest is ignored"
            )
            break
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not name or len(name) > 256:
            notes.append(f"tool {number + 1} has no valid name")
            continue
        raw = {key: item[key] for key in KEYS if item.get(key) is not None}
        problem = _problem(raw)
        if problem is not None:
            notes.append(f"{visible(name)}: {problem}")
        elif name in definitions:
            notes.append(f"{visible(name)} is listed twice; the first one is used")
        else:
            definitions[name] = raw
            total += len(json.dumps(raw))
    return list(definitions.values()), notes[:NOTES_MAX]


def _problem(raw: Raw) -> str | None:
    """Return why a definition cannot be used."""
    if _is_deeper(raw, _DEPTH_MAX):
        return f"its definition is nested deeper than {_DEPTH_MAX}"
    try:
        size = len(json.dumps(raw))
    except (TypeError, ValueError):
        return "its definition is not valid JSON"
    if size > DEFINITION_BYTES:
        return f"its definition is larger than {DEFINITION_BYTES // 1024} KiB"
    schema = raw.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "its input schema is not of type object"
    if not isinstance(raw.get("outputSchema", {}), dict):
        return "its output schema is not an object"
    if any(not isinstance(raw.get(key, ""), str) for key in ("title", "description")):
        return "its title or description is not a string"
    if not is_visible(schema) or not is_visible(raw.get("outputSchema", {})):
        # a name or an enum value cannot be cleaned without changing its meaning
        return "its schema contains invisible characters"
    try:
        is_light = cost_of(schema).size <= MAX_SIZE
    except RecursionError:
        is_light = False
    except ValueError as error:
        return str(error)
    return None if is_light else "its schema is too complex"


def _is_deeper(value: Any, levels: int) -> bool:
    if levels == 0:
        return True
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(_is_deeper(item, levels - 1) for item in inner)


def is_visible(value: Any, key: str = "") -> bool:
    """Whether a schema has no invisible characters in parts that cannot be cleaned."""
    if isinstance(value, str):
        return key in _TEXTS or not any(is_hidden(character) for character in value)
    if isinstance(value, dict):
        return all(is_visible(name) and is_visible(inner, name) for name, inner in value.items())
    return not isinstance(value, list) or all(map(is_visible, value))


# --- text -----------------------------------------------------------------------------------------------------------


def clean(text: str, limit: int = DESCRIPTION_MAX) -> str:
    """Return a text without invisible and control characters, cut to `limit` characters."""
    # cut first: the rest would not be shown anyway
    cleaned_text = "".join(character for character in text[: limit * 4] if not is_hidden(character))
    cleaned_text = _SPACE.sub("\n\n", cleaned_text).strip()
    return cleaned_text if len(cleaned_text) <= limit else cleaned_text[: limit - 1] + "…"


def visible(text: str) -> str:
    """Return a text with invisible characters escaped, for people who compare definitions."""
    return "".join(f"\\u{{{ord(character):x}}}" if is_hidden(character) else character for character in text)


def cleaned(value: Any, key: str = "") -> Any:
    """Return a schema with its descriptions cleaned."""
    if isinstance(value, str):
        return clean(value) if key in _TEXTS else value
    if isinstance(value, dict):
        return {name: cleaned(inner, name) for name, inner in value.items()}
    return [cleaned(inner) for inner in value] if isinstance(value, list) else value


# --- names and hashes -----------------------------------------------------------------------------------------------


def digest(raw: Raw) -> str:
    """Return the hash of a definition."""
    return sha256(json.dumps(raw, sort_keys=True).encode("utf-8", "surrogatepass")).hex()


def assign_names(
    server: str, definitions: Sequence[Raw], before: Mapping[str, AcceptedTool]
) -> tuple[list[AcceptedTool], list[str]]:
    """Return the definitions with the names they are shown by, and notes on names that clash.

    A tool keeps the name it was shown by before. If two tools map to the same name, an exact match gets it, and the
    other gets a part of its hash as a suffix.
    """
    used_names = {before[raw["name"]].listed_name for raw in definitions if raw["name"] in before}
    tools: list[AcceptedTool] = []
    notes: list[str] = []
    exact_first = sorted(definitions, key=lambda raw: (_OTHER.search(raw["name"]) is not None, raw["name"]))
    for raw in exact_first:
        name = raw["name"]
        if name in before:
            listed_name = before[name].listed_name
        else:
            plain = f"{PREFIX}{server}__{_OTHER.sub('_', name)}"
            suffix = "_" + sha256(name.encode("utf-8", "surrogatepass")).hex()[:_HASH_LENGTH]
            unique = plain[: NAME_MAX - len(suffix)] + suffix
            listed_name = plain if len(plain) <= NAME_MAX and plain not in used_names else unique
            if plain in used_names:
                notes.append(f"{visible(name)} has the same name as another tool and is renamed to {listed_name}")
            if listed_name in used_names:
                continue  # the hashes collide too
            used_names.add(listed_name)
        tools.append(AcceptedTool(raw, listed_name, digest(raw)))
    return sorted(tools, key=lambda tool: tool.listed_name), notes


def difference(accepted: Iterable[AcceptedTool], now: Iterable[Raw]) -> Difference:
    """Return how the current definitions differ from the accepted ones."""
    old = {tool.raw["name"]: tool.hash for tool in accepted}
    new = {raw["name"]: digest(raw) for raw in now}
    return Difference(
        tuple(sorted(name for name, hash in new.items() if name in old and old[name] != hash)),
        tuple(sorted(name for name in new if name not in old)),
        tuple(sorted(name for name in old if name not in new)),
    )


def shown_json(raw: Raw) -> str:
    """Return a definition as JSON for people, with invisible characters escaped."""
    return visible(json.dumps(raw, indent=2, ensure_ascii=False, sort_keys=True))


# --- tools ----------------------------------------------------------------------------------------------------------


def tool_of(server: Server, accepted: AcceptedTool, execute: Callable[[str], Execute]) -> Tool:
    """Return the Tool of an accepted definition. Only the user's settings can make it read-only."""
    raw = accepted.raw
    name = raw["name"]
    reads = name in server.read_only
    schema = {"properties": {}, **cleaned(public(raw["inputSchema"])), "type": "object"}
    if not isinstance(schema["properties"], dict):
        schema["properties"] = {}
    described = clean(raw.get("description") or raw.get("title") or "")
    definition = Definition(
        name=accepted.listed_name,
        description=f"[MCP server {server.name}] {described}".strip(),
        parameters=schema,
        origin=server.origin,
        source=server.source,
        format="server",
        folder="",
        content_hash=accepted.hash,
        approval="always",
        read_only=reads,
        timeout=server.seconds + START_SECONDS,
        effects=frozenset(("read", "network") if reads else ("execute", "network")),
        # no output schema: data that is too long for a model is returned as text
        details={"server": server.name, "tool": name},
    )
    checked = without_patterns(schema)
    cost = cost_of(checked)

    def check(args: Any) -> CheckedArguments:
        _refuse_unsendable(args)
        refuse_work(cost, args)
        return check_any(checked, args)

    # a server cannot mark arguments as paths or commands
    return to_tool(definition, execute(name))._replace(touches=_no_touches, check=check)


def _refuse_unsendable(args: Any) -> None:
    """Raise for arguments that are not valid JSON: sending them would break the connection for all calls."""
    try:
        json.dumps(args, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError("invalid_args", f"The arguments cannot be sent: {clean(str(error), 200)}.") from None


def _no_touches(args: dict[str, Any]) -> tuple[()]:
    return ()
