"""How tools are listed for a model in the active dialect, on every surface and by tool search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from hilt import schema as schemas
from hilt.catalog import Catalog, DialectEntry, dialect
from hilt.declaration import Tool
from hilt.schema import Schema

NAMES_CHARACTERS = 1000  # of the tool names in the description of tool search


class ListedTool(NamedTuple):
    """A tool as the model sees it, and the tool behind it."""

    name: str
    title: str
    description: str
    schema: Schema
    output: Schema | None
    effects: frozenset[str]
    tool: Tool


def listed(
    catalog: Catalog,
    chosen: str | None,
    hidden: Callable[[Tool], str | None],
    *,
    only: Collection[str] = (),
    search: bool = False,
    lean: bool = False,
) -> list[ListedTool]:
    """Return the tools that are not hidden, always in the same order; `lean` omits the descriptions of parameters.

    `hidden` returns why a tool is hidden. `only` restricts the list to these tools, by any of their names. With
    `search`, only the two tools that find and call the others are listed.
    """
    requested = {catalog.find(name, chosen).tool.name for name in only}  # raises for an unknown name
    present = {tool.name: tool for tool in catalog.tools() if not hidden(tool)}
    tools = {
        name: tool for name, tool in present.items() if not tool.traits.finds_tools and (not only or name in requested)
    }
    if chosen is None or chosen == "jinn":
        listed = [_shown(tool, None, lean=lean) for tool in tools.values()]
    else:
        entries = [entry for entry in dialect(chosen).values() if entry.tool in tools]
        listed = [_shown(tools[entry.tool], entry, lean=lean) for entry in entries]
    if not search:
        return listed
    finders = [_shown(tool, None, lean=lean) for tool in present.values() if tool.traits.finds_tools]
    return [finder if finder.tool.traits.forwards else _with_names(finder, listed) for finder in finders]


def _with_names(finder: ListedTool, tools: Sequence[ListedTool]) -> ListedTool:
    """Return the search tool with the names of the other tools in its description, as many as fit."""
    room, names = NAMES_CHARACTERS, list[str]()
    for tool in tools:
        room -= len(tool.name) + 2
        if room < 0:
            names.append(f"and {len(tools) - len(names)} more")
            break
        names.append(tool.name)
    if not names:
        return finder
    return finder._replace(description=f"{finder.description}\n\nAvailable tools: {', '.join(names)}.")


def _shown(tool: Tool, entry: DialectEntry | None, *, lean: bool) -> ListedTool:
    named = tool if entry is None else entry
    schema = tool.parameters if entry is None else schemas.public(entry.schema)
    output = schemas.structured_schema(tool.output) if entry is None else None  # a dialect has its own result shapes
    if lean:
        schema, output = schemas.lean(schema), output and schemas.lean(output)
    return ListedTool(named.name, tool.title, named.description, schema, output, tool.effects, tool)


def definition(entry: ListedTool) -> dict[str, Any]:
    """Return the definition of a tool for a model; the output schema is for programs only."""
    return {"name": entry.name, "description": entry.description, "inputSchema": entry.schema}
