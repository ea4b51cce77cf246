"""Which tools a session has, and how they are listed for a model in the active dialect.

Every surface takes its list from here, and so does tool search.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hilt import schema as schemas
from hilt.catalog import Catalog, DialectEntry, dialect
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.schema import Schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.authority import Authority

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


def listed_tools(
    authority: Authority,
    *,
    session: str,
    only: Collection[str] = (),
    search: bool = False,
    lean: bool = False,
    client_asks: bool = True,
) -> list[ListedTool]:
    """Return the tools listed for a session, always in the same order; `lean` omits the descriptions of parameters.

    `only` restricts the list to these tools, by any of their names. With `search`, only the two tools that find and
    call the others are listed. `client_asks` is whether the client can ask a user.
    """
    return visible(
        authority.catalog,
        authority.settings["dialect"],
        lambda tool: (
            authority.hidden(tool, session)
            or lacks_person(authority, tool, client_asks=client_asks)
            or lacks_display(authority, tool)
        ),
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
) -> list[ListedTool]:
    """Like `listed_tools`, from its parts: `hidden` returns why a tool is hidden."""
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


# --- what is hidden -------------------------------------------------------------------------------------------------


def hidden(authority: Authority, tool: Tool, session: str) -> str | None:
    """Return why mode, profile or settings hide a tool, or None."""
    from hilt.policy import modes

    settings = authority.settings
    agent = authority.agent(session)
    if agent is not None:
        if tool.name not in agent.profile.tools and not tool.traits.finds_tools:
            return f"the agent {agent.name} does not have {tool.name}"
        refusal = authority.hidden(tool, agent.parent)
        if refusal is not None:
            return refusal
    if settings["tools.only"] and not tool.traits.finds_tools and tool.name not in _only(authority):
        return f"{tool.name} is not among the tools of the setting tools.only"
    return modes.hidden(
        authority.mode(session),
        settings["profile"],
        tool,
        named_tools=settings["tools.in_profile"],
        disabled=_disabled(authority, tool.name),
        action=None,
    )


def lacks_person(authority: Authority, tool: Tool, *, client_asks: bool) -> str | None:
    """Return why a tool that needs a user is hidden, or None; `client_asks` is whether the client can ask one."""
    if not tool.traits.needs_person or client_asks or authority.settings["approve"] in ("once", "always", "all"):
        return None
    return None if authority.approvals().attended(authority.place.id) else "no user is available to ask"


def lacks_display(authority: Authority, tool: Tool) -> str | None:
    """Return why a tool that needs a display is not listed, or None."""
    if not tool.traits.needs_display:
        return None
    from hilt.desktop.displays import is_offered

    return None if is_offered(authority.environ, authority.settings["desktop.display"]) else "there is no display"


def _only(authority: Authority) -> set[str]:
    """Return the canonical names of the tools in the setting tools.only; unknown names are kept unchanged."""
    names = set()
    for name in authority.settings["tools.only"]:
        names.add(name)
        if not name.startswith("mcp__"):  # looking it up may start its server
            with suppress(ToolError):
                names.add(authority.catalog.find(name, authority.settings["dialect"]).tool.name)
    return names


def _disabled(authority: Authority, tool: str) -> frozenset[str]:
    """Return every name of the disabled tools, including `tool` if its server is disabled.

    A misspelt or invalid name is rejected.
    """
    names = authority.names()
    disabled: set[str] = set()
    for name in authority.settings["disabledTools"]:
        if name not in names.twins:
            from hilt.policy import rule_forms

            try:
                form = rule_forms.parse(name, names)
                if not isinstance(form, rule_forms.Whole | rule_forms.ServedBy):
                    raise rule_forms.BadForm(f"{name} is not the name of a tool")
                if form.scope.names is None and tool.startswith(form.scope.server or ""):
                    disabled.add(tool)
            except rule_forms.BadForm as error:
                source = authority.settings.sources["disabledTools"]
                raise ToolError(
                    "denied",
                    f"{source}: disabledTools: {error.message.rstrip('?.')}.",
                    suggestion=f"Ask the user to correct {source}.",
                ) from None
        disabled |= names.twins.get(name, frozenset((name,)))
    return frozenset(disabled)
