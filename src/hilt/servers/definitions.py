"""The tools of an MCP server as it describes them: bounded, compared, cleaned for a model, and turned into Tools.

What a server says is text from outside. It is kept as it came, so that every change shows, and is cleaned when it is
shown: characters that steer or that nobody sees are taken out. Its annotations are hints and decide nothing.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hilt.custom.definition import Definition, Execute, to_tool
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.schema import CheckedArguments, check_any, public
from hilt.servers.configured import Server
from hilt.servers.schema_cost import SIZE_MOST, cost_of, refuse_work, without_patterns

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

# what a definition consists of; everything else that a server sends beside it is dropped
KEYS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")

_DEPTH_MAX = 40
_TEXTS = ("description", "title", "$comment")  # of a schema: only read, so they can be cleaned
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_SPACE = re.compile(r"\n{3,}")
_HASH_LENGTH = 8
# letters and marks that show nothing, though their category does not say so; the last two are ranges of selectors
_BLANK = frozenset((0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0))
_SELECTORS = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))

Raw = Mapping[str, Any]  # a definition as the server sent it, with the KEYS alone


class AcceptedTool(NamedTuple):
    """A definition that was accepted, the name it is shown by, and its hash."""

    raw: Raw
    shown: str
    hash: str


class Difference(NamedTuple):
    """What a server says now against what was accepted, by its own names of the tools."""

    changed: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.changed or self.new or self.gone)


def usable(told: Iterable[Any]) -> tuple[list[Raw], list[str]]:
    """Return the definitions that can be used of those a server sent, and why the others cannot."""
    found: dict[str, Raw] = {}
    notes: list[str] = []
    total = 0
    for number, one in enumerate(told):
        if len(found) >= TOOLS_MAX or total > TOTAL_BYTES:
            notes.append(
                f"it has more than {TOOLS_MAX} tools, or {TOTAL_BYTES >> 20} MiB of them; the others do not count"
            )
            break
        name = one.get("name") if isinstance(one, Mapping) else None
        if not isinstance(name, str) or not name or len(name) > 256:
            notes.append(f"tool {number + 1} has no usable name")
            continue
        raw = {key: one[key] for key in KEYS if one.get(key) is not None}
        problem = _problem(raw)
        if problem is not None:
            notes.append(f"{visible(name)}: {problem}")
        elif name in found:
            notes.append(f"{visible(name)} is there twice; the first counts")
        else:
            found[name] = raw
            total += len(json.dumps(raw))
    return list(found.values()), notes[:NOTES_MAX]


def _problem(raw: Raw) -> str | None:
    """Return why a definition cannot be used."""
    if _is_deeper(raw, _DEPTH_MAX):
        return f"its definition is nested deeper than {_DEPTH_MAX}"
    try:
        size = len(json.dumps(raw))
    except (TypeError, ValueError):
        return "its definition is not JSON"
    if size > DEFINITION_BYTES:
        return f"its definition has more than {DEFINITION_BYTES // 1024} KiB"
    schema = raw.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "its input schema is not one of an object"
    if not isinstance(raw.get("outputSchema", {}), dict):
        return "its output schema is none"
    if any(not isinstance(raw.get(key, ""), str) for key in ("title", "description")):
        return "its description is not text"
    if not is_seen(schema) or not is_seen(raw.get("outputSchema", {})):
        # a name or a choice cannot be cleaned: it would be another one
        return "its schema holds characters that nobody sees"
    try:
        is_light = cost_of(schema).size <= SIZE_MOST
    except RecursionError:
        is_light = False
    except ValueError as error:
        return str(error)
    return None if is_light else "its schema is too involved"


def _is_deeper(value: Any, levels: int) -> bool:
    if levels == 0:
        return True
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(_is_deeper(one, levels - 1) for one in inner)


def is_seen(value: Any, key: str = "") -> bool:
    """Whether a schema has nothing that hides where it cannot be cleaned."""
    if isinstance(value, str):
        return key in _TEXTS or not any(_is_hidden(character) for character in value)
    if isinstance(value, dict):
        return all(is_seen(name) and is_seen(inner, name) for name, inner in value.items())
    return not isinstance(value, list) or all(map(is_seen, value))


# --- text -----------------------------------------------------------------------------------------------------------


def _is_hidden(character: str) -> bool:
    """Whether a character steers what is around it or shows nothing."""
    if character < "\x7f":
        return character < " " and character not in "\n\t"
    code = ord(character)
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return True
    return code in _BLANK or any(code in selectors for selectors in _SELECTORS)


def clean(text: str, most: int = DESCRIPTION_MAX) -> str:
    """Return a text without characters that steer or hide, and not longer than `most`."""
    # cut first: what nobody reads need not be looked through
    kept = "".join(character for character in text[: most * 4] if not _is_hidden(character))
    kept = _SPACE.sub("\n\n", kept).strip()
    return kept if len(kept) <= most else kept[: most - 1] + "…"


def visible(text: str) -> str:
    """Return a text with the characters that nobody sees spelled out; for people who compare."""
    return "".join(f"\\u{{{ord(one):x}}}" if _is_hidden(one) else one for one in text)


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


def named(
    server: str, definitions: Sequence[Raw], before: Mapping[str, AcceptedTool]
) -> tuple[list[AcceptedTool], list[str]]:
    """Return the definitions with the names they are shown by, and which names clash.

    What was shown before keeps its name. Of two that would have the same one, the tool that is called exactly so has
    it, and the other has a part of its hash behind it.
    """
    taken = {before[raw["name"]].shown for raw in definitions if raw["name"] in before}
    kept: list[AcceptedTool] = []
    notes: list[str] = []
    exact_first = sorted(definitions, key=lambda raw: (_OTHER.search(raw["name"]) is not None, raw["name"]))
    for raw in exact_first:
        name = raw["name"]
        if name in before:
            shown = before[name].shown
        else:
            plain = f"{PREFIX}{server}__{_OTHER.sub('_', name)}"
            ending = "_" + sha256(name.encode("utf-8", "surrogatepass")).hex()[:_HASH_LENGTH]
            marked = plain[: NAME_MAX - len(ending)] + ending
            shown = plain if len(plain) <= NAME_MAX and plain not in taken else marked
            if plain in taken:
                notes.append(f"{visible(name)} would be called as another tool is, and is called {shown}")
            if shown in taken:
                continue  # the hashes agree too
            taken.add(shown)
        kept.append(AcceptedTool(raw, shown, digest(raw)))
    return sorted(kept, key=lambda one: one.shown), notes


def difference(kept: Iterable[AcceptedTool], now: Iterable[Raw]) -> Difference:
    """Return how what a server says now differs from what was accepted."""
    old = {one.raw["name"]: one.hash for one in kept}
    new = {raw["name"]: digest(raw) for raw in now}
    return Difference(
        tuple(sorted(name for name, hash in new.items() if name in old and old[name] != hash)),
        tuple(sorted(name for name in new if name not in old)),
        tuple(sorted(name for name in old if name not in new)),
    )


def shown_json(raw: Raw) -> str:
    """Return a definition for people, with nothing in it that they do not see."""
    return visible(json.dumps(raw, indent=2, ensure_ascii=False, sort_keys=True))


# --- tools ----------------------------------------------------------------------------------------------------------


def tool_of(server: Server, kept: AcceptedTool, execute: Callable[[str], Execute]) -> Tool:
    """Return the Tool of an accepted definition. Only the user's word makes one that reads."""
    raw = kept.raw
    name = raw["name"]
    reads = name in server.read_only
    schema = {"properties": {}, **cleaned(public(raw["inputSchema"])), "type": "object"}
    if not isinstance(schema["properties"], dict):
        schema["properties"] = {}
    described = clean(raw.get("description") or raw.get("title") or "")
    definition = Definition(
        name=kept.shown,
        description=f"[MCP server {server.name}] {described}".strip(),
        parameters=schema,
        origin=server.origin,
        source=server.source,
        format="server",
        folder="",
        content_hash=kept.hash,
        approval="always",
        read_only=reads,
        timeout=server.seconds + START_SECONDS,
        effects=frozenset(("read", "network") if reads else ("execute", "network")),
        # its output schema promises nothing here: data that is too long for a model is told as text
        details={"server": server.name, "tool": name},
    )
    checked = without_patterns(schema)
    cost = cost_of(checked)

    def check(args: Any) -> CheckedArguments:
        _refuse_unsendable(args)
        refuse_work(cost, args)
        return check_any(checked, args)

    # what a server calls a path or a command binds nobody, so it marks none either
    return to_tool(definition, execute(name))._replace(touches=_nothing, check=check)


def _refuse_unsendable(args: Any) -> None:
    """Raise for what is no JSON: on the way it would end the connection, and with it the calls of others."""
    try:
        json.dumps(args, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError("invalid_args", f"The arguments cannot be sent: {clean(str(error), 200)}.") from None


def _nothing(args: dict[str, Any]) -> tuple[()]:
    return ()
