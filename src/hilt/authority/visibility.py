"""The tools a model is shown: what mode, profile and settings leave, in the names of the dialect in force.

The list of every surface comes from here, and so does what a search for tools looks through.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from hilt import schema as schemas
from hilt.catalog import Catalog, DialectEntry, dialect
from hilt.declaration import Tool
from hilt.policy.modes import FINDERS
from hilt.schema import Schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.runtime import Runtime

NAMES_CHARACTERS = 1000  # of the names that a search tells beforehand


class Shown(NamedTuple):
    """A tool as a model sees it, and the tool that stands behind it."""

    name: str
    title: str
    description: str
    schema: Schema
    output: Schema | None
    effects: frozenset[str]
    tool: Tool


def shown(
    runtime: Runtime,
    *,
    session: str,
    only: Collection[str] = (),
    search: bool = False,
    lean: bool = False,
    client_asks: bool = True,
) -> list[Shown]:
    """Return the tools a session is shown, always in the same order; `lean` leaves out what parameters mean.

    `only` names the tools that count, by any of their names. With `search`, just the two that lead to all others are
    listed. `client_asks` says whether the client can ask a person.
    """
    authority = runtime.authority
    return visible(
        runtime.catalog,
        runtime.settings["dialect"],
        lambda tool: authority.hidden(tool, session) or authority.lacks_person(tool, client_asks=client_asks),
        only=only,
        search=search,
        lean=lean,
    )


def visible(
    catalog: Catalog,
    chosen: str | None,
    hidden: Callable[[Tool], str | None],
    *,
    only: Collection[str] = (),
    search: bool = False,
    lean: bool = False,
) -> list[Shown]:
    """As `shown`, from its parts: `hidden` says why a tool is not there."""
    wanted = {catalog.find(name, chosen).tool.name for name in only}  # one that does not exist raises
    present = {tool.name: tool for tool in catalog.tools() if not hidden(tool)}
    tools = {name: tool for name, tool in present.items() if name not in FINDERS and (not only or name in wanted)}
    if chosen is None or chosen == "jinn":
        listed = [_shown(tool, None, lean=lean) for tool in tools.values()]
    else:
        entries = [entry for entry in dialect(chosen).values() if entry.tool in tools]
        listed = [_shown(tools[entry.tool], entry, lean=lean) for entry in entries]
    if not search:
        return listed
    finders = [_shown(tool, None, lean=lean) for name, tool in present.items() if name in FINDERS]
    return [_with_names(one, listed) if one.name == "tool_search" else one for one in finders]


def _with_names(finder: Shown, tools: Sequence[Shown]) -> Shown:
    """Return the tool that finds others with the names of those, as many as there is room for."""
    room, names = NAMES_CHARACTERS, list[str]()
    for one in tools:
        room -= len(one.name) + 2
        if room < 0:
            names.append(f"and {len(tools) - len(names)} more")
            break
        names.append(one.name)
    return finder._replace(description=f"{finder.description}\n\nThere are: {', '.join(names)}.") if names else finder


def _shown(tool: Tool, entry: DialectEntry | None, *, lean: bool) -> Shown:
    named = tool if entry is None else entry
    schema = tool.parameters if entry is None else schemas.public(entry.schema)
    output = schemas.promised(tool.output) if entry is None else None  # a dialect answers in shapes of its own
    if lean:
        schema, output = schemas.lean(schema), output and schemas.lean(output)
    return Shown(named.name, tool.title, named.description, schema, output, tool.effects, tool)


def definition(entry: Shown) -> dict[str, Any]:
    """Return what a model is told of a tool; what it answers with, only programs are."""
    return {"name": entry.name, "description": entry.description, "inputSchema": entry.schema}
