"""The tools offered to models: what each does and takes, where it comes from, and what its definition costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hilt.custom.definition import Definition, definition_of
from hilt.listing import ListedTool, definition
from hilt.policy.modes import PROFILES
from hilt.schema import Schema, cost, public

if TYPE_CHECKING:
    from hilt.call import Call, Result
    from hilt.runtime import Runtime

__all__ = ["PROFILES"]

CHARACTERS_PER_TOKEN = 4  # measured on the built-in tools: 4.1 to 4.3


class AvailableTool(NamedTuple):
    """A tool as it is offered to models."""

    name: str
    title: str
    description: str
    source: str
    effects: tuple[str, ...]
    input_schema: Schema
    output_schema: Schema | None


class DescribedTool(NamedTuple):
    """A tool by one of its names: in a dialect, `stands_for` is the tool behind it."""

    name: str
    source: str
    effects: tuple[str, ...]
    description: str
    details: str
    stands_for: str | None
    parameters: Schema


class DefinitionCost(NamedTuple):
    """The size of a list of tools in a model's context: characters of the definitions, and estimated tokens."""

    tools: int
    characters: int

    @property
    def tokens(self) -> int:
        """An estimate: definitions have a little more than four characters per token."""
        return -(-self.characters // CHARACTERS_PER_TOKEN)


class ToolCost(NamedTuple):
    """What a tool costs, and with shorter descriptions."""

    name: str
    full: DefinitionCost
    lean: DefinitionCost


class ListCost(NamedTuple):
    """What the tools of a profile cost together."""

    lean: bool
    search: bool
    total: DefinitionCost


def offered(runtime: Runtime) -> list[AvailableTool]:
    """Return the tools offered to models, always in the same order."""
    return list(map(_offered, runtime.parts.authority.listed_tools(runtime.session)))


def finders(runtime: Runtime) -> list[AvailableTool]:
    """Return the tools that are offered instead with --search; none under a dialect, which has its own."""
    if runtime.settings["dialect"] not in (None, "jinn"):
        return []
    return list(map(_offered, runtime.parts.authority.listed_tools(runtime.session, search=True)))


def describe(runtime: Runtime, name: str) -> tuple[DescribedTool, Definition | None]:
    """Return a tool by one of its names, and its definition if it is a custom tool."""
    match = runtime.parts.catalog.find(name, runtime.settings["dialect"])
    tool, entry = match.tool, match.entry
    effects = tuple(sorted(tool.effects))
    if entry is not None:
        described = DescribedTool(
            entry.name, tool.source, effects, entry.description, "", tool.name, public(entry.schema)
        )
    else:
        described = DescribedTool(
            tool.name, tool.source, effects, tool.description, tool.details, None, public(tool.schema)
        )
    return described, definition_of(tool)


def call_lines(runtime: Runtime, call: Call, result: Result) -> str | None:
    """Return the call of a markdown tool the way its format shows it; None for other tools."""
    tool = runtime.parts.catalog.find(call.tool, runtime.settings["dialect"]).tool
    definition = definition_of(tool)
    if definition is None or definition.format != "markdown":
        return None
    from hilt.custom.scripts import call_lines

    return call_lines(tool.name, call.args, result.result if result.ok else None)


def tool_costs(runtime: Runtime) -> list[ToolCost]:
    """Return what the definition of each offered tool costs."""
    full, short = (runtime.parts.authority.listed_tools(runtime.session, lean=lean) for lean in (False, True))
    return [ToolCost(tool.name, _cost([tool]), _cost([lean])) for tool, lean in zip(full, short, strict=True)]


def list_costs(runtime: Runtime) -> Iterator[ListCost]:
    """Yield what all tools of the runtime's profile cost, also with --lean and with --search."""
    for lean, search in ((False, False), (True, False), (False, True)):
        tools = runtime.parts.authority.listed_tools(runtime.session, lean=lean, search=search)
        yield ListCost(lean, search, _cost(tools))


def _offered(tool: ListedTool) -> AvailableTool:
    effects = tuple(sorted(tool.effects))
    return AvailableTool(tool.name, tool.title, tool.description, tool.tool.source, effects, tool.schema, tool.output)


def _cost(tools: Sequence[ListedTool]) -> DefinitionCost:
    return DefinitionCost(len(tools), sum(cost(definition(tool)) for tool in tools))
