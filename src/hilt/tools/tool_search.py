"""Find tools by what they do."""

from collections.abc import Sequence
from typing import Annotated, Any

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError, did_you_mean
from hilt.knowledge import ranking
from hilt.listing import ListedTool, definition, listed
from hilt.params import Bounds
from hilt.schema import cost, fields

SELECT = "select:"
NAMES_MAX = 50

_TOOL = fields("name:string description:string inputSchema:object")
_ANSWER = fields(
    "tools:[tool] count:integer searched:integer left_out?:[string] missing?:[missing]",
    tool=_TOOL,
    missing=fields("name:string nearest:string|null"),
)


@tool(effects="read", output=_ANSWER, traits=Traits(finds_tools=True))
def tool_search(
    ctx: Context, query: str, limit: Annotated[int, Bounds(minimum=1, maximum=20, clamp=True)] = 5
) -> Output:
    """Find tools by what they do, with the parameters they take; tool_call then runs one.

    Args:
        query: Words for the task ("replace text in files"), a name, or select:NAME,NAME for these exactly.
        limit: Maximum tools.
    """
    if not query.strip():
        raise ToolError(
            "invalid_args", "query is empty.", suggestion="Describe in a few words what the tool should do."
        )
    tools = listed(ctx.catalog, ctx.settings["dialect"], ctx.principal.hidden)
    if query.startswith(SELECT):
        names = [name.strip() for name in query.removeprefix(SELECT).split(",") if name.strip()]
        if len(names) > NAMES_MAX:
            raise ToolError("invalid_args", f"{SELECT} takes at most {NAMES_MAX} names, not {len(names):,}.")
        selected, missing = _selected(ctx, names, tools)
        return _answer(ctx, selected, tools, missing)
    return _answer(ctx, _ranked(query, tools, limit), tools, [])


def _selected(
    ctx: Context, names: Sequence[str], tools: Sequence[ListedTool]
) -> tuple[list[ListedTool], list[dict[str, str | None]]]:
    """Return the tools with these names, and the unknown names, each with the nearest name."""
    by_name = _by_name(tools)
    selected: dict[str, ListedTool] = {}
    missing = []
    for name in dict.fromkeys(names):
        entry = by_name.get(name) or by_name.get(_canonical_name(ctx, name))
        if entry is not None:
            selected[entry.name] = entry
        else:
            missing.append({"name": name[:100], "nearest": did_you_mean(name[:100], by_name)})
    if not selected:
        near = [item["nearest"] for item in missing if item["nearest"]]
        unknown = ", ".join(str(item["name"]) for item in missing[:10])
        raise ToolError(
            "unknown_tool",
            f"Unknown tools: {unknown}." if unknown else f"{SELECT} needs at least one name.",
            suggestion=f"Use {SELECT}{','.join(near)}."
            if near
            else "Search with words that describe what the tool should do.",
            nearest=near,
        )
    return list(selected.values()), missing


def _canonical_name(ctx: Context, name: str) -> str:
    """Return the canonical name of a tool that a dialect renames."""
    try:
        return ctx.catalog.find(name, ctx.settings["dialect"]).tool.name
    except ToolError:
        return name


def _ranked(query: str, tools: Sequence[ListedTool], limit: int) -> list[ListedTool]:
    """Return the best matches; tools that the query names come first."""
    by_name = _by_name(tools)
    ranked = {by_name[word].name: by_name[word] for word in query.split() if word in by_name}
    texts = [(f"{entry.name} {entry.tool.name}", "", entry.description, _parameters(entry.schema)) for entry in tools]
    for index in ranking.best(query, texts, limit + len(ranked)):
        ranked.setdefault(tools[index].name, tools[index])
    return list(ranked.values())[:limit]


def _by_name(tools: Sequence[ListedTool]) -> dict[str, ListedTool]:
    """Return the tools by their listed name, and by their built-in name."""
    return {entry.tool.name: entry for entry in reversed(tools)} | {entry.name: entry for entry in tools}


def _parameters(schema: Any) -> str:
    """Return the names and descriptions of parameters, at any depth."""
    texts: list[str] = []
    pending = [schema]
    while pending:
        inner = pending.pop()
        if isinstance(inner, list):
            pending += inner
        elif isinstance(inner, dict):
            properties = inner.get("properties")
            if isinstance(properties, dict):
                texts += properties
            if isinstance(inner.get("description"), str):
                texts.append(inner["description"])
            pending += [value for value in inner.values() if isinstance(value, dict | list)]
    return " ".join(texts)


def _answer(ctx: Context, matches: Sequence[ListedTool], tools: Sequence[ListedTool], missing: Sequence[Any]) -> Output:
    """Return as many definitions as fit."""
    room = ctx.overflow.limit
    definitions: list[dict[str, Any]] = []
    omitted: list[str] = []
    for entry in matches:
        room -= cost(definition(entry))
        if room >= 0 or not definitions:
            definitions.append(definition(entry))
        else:
            omitted.append(entry.name)
    data: dict[str, Any] = {"tools": definitions, "count": len(definitions), "searched": len(tools)}
    if omitted:
        data["left_out"] = omitted
    if missing:
        data["missing"] = missing
    return Output(data=data)
