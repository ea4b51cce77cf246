"""Find tools by what they do."""

from collections.abc import Sequence
from typing import Annotated, Any

from hilt.authority.visibility import Shown, definition, visible
from hilt.call import Output
from hilt.context import Context
from hilt.declaration import Traits, tool
from hilt.errors import ToolError
from hilt.knowledge import lookup
from hilt.params import Bounds
from hilt.schema import INTEGER, STRING, array, cost, did_you_mean, record

SELECT = "select:"
NAMES_MAX = 50

_TOOL = record({"name": STRING, "description": STRING, "inputSchema": {"type": "object"}})
_ANSWER = record(
    {
        "tools": array(_TOOL),
        "count": INTEGER,
        "searched": INTEGER,
        "left_out": array(STRING),
        "missing": array(record({"name": STRING, "nearest": {"type": ["string", "null"]}})),
    },
    optional="left_out missing",
)


@tool(effects="read", output=_ANSWER, traits=Traits(finds=True))
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
            "invalid_args", "query is empty.", suggestion="Say in a few words what the tool should do, as query."
        )
    tools = visible(ctx.catalog, ctx.settings["dialect"], ctx.principal.hidden)
    if query.startswith(SELECT):
        names = [name.strip() for name in query.removeprefix(SELECT).split(",") if name.strip()]
        if len(names) > NAMES_MAX:
            raise ToolError("invalid_args", f"{SELECT} takes at most {NAMES_MAX} names, not {len(names):,}.")
        found, missing = _selected(ctx, names, tools)
        return _answer(ctx, found, tools, missing)
    return _answer(ctx, _ranked(query, tools, limit), tools, [])


def _selected(
    ctx: Context, names: Sequence[str], tools: Sequence[Shown]
) -> tuple[list[Shown], list[dict[str, str | None]]]:
    """Return the tools of these names, and the names that no tool has with the nearest one each."""
    known = _by_name(tools)
    found: dict[str, Shown] = {}
    missing = []
    for name in dict.fromkeys(names):
        one = known.get(name) or known.get(_own_name(ctx, name))
        if one is not None:
            found[one.name] = one
        else:
            missing.append({"name": name[:100], "nearest": did_you_mean(name[:100], known)})
    if not found:
        near = [one["nearest"] for one in missing if one["nearest"]]
        said = ", ".join(str(one["name"]) for one in missing[:10])
        raise ToolError(
            "unknown_tool",
            f"There is no tool {said}." if said else "select: names no tool.",
            suggestion=f"Use {SELECT}{','.join(near)}." if near else "Search by words for what the tool should do.",
            nearest=near,
        )
    return list(found.values()), missing


def _own_name(ctx: Context, name: str) -> str:
    """Return what a tool is called that a dialect gives another name."""
    try:
        return ctx.catalog.find(name, ctx.settings["dialect"]).tool.name
    except ToolError:
        return name


def _ranked(query: str, tools: Sequence[Shown], limit: int) -> list[Shown]:
    """Return what fits best, first of all the tools that the query names."""
    known = _by_name(tools)
    named = {known[word].name: known[word] for word in query.split() if word in known}
    texts = [(f"{one.name} {one.tool.name}", "", one.description, _parameters(one.schema)) for one in tools]
    for place in lookup.best(query, texts, limit + len(named)):
        named.setdefault(tools[place].name, tools[place])
    return list(named.values())[:limit]


def _by_name(tools: Sequence[Shown]) -> dict[str, Shown]:
    """Return the tools by the names they are shown with, and by their own where that is another."""
    return {one.tool.name: one for one in reversed(tools)} | {one.name: one for one in tools}


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


def _answer(ctx: Context, found: Sequence[Shown], tools: Sequence[Shown], missing: Sequence[Any]) -> Output:
    """Return the definitions, as many as there is room for."""
    room = ctx.overflow.limit
    told: list[dict[str, Any]] = []
    left: list[str] = []
    for one in found:
        room -= cost(definition(one))
        if room >= 0 or not told:
            told.append(definition(one))
        else:
            left.append(one.name)
    data: dict[str, Any] = {"tools": told, "count": len(told), "searched": len(tools)}
    if left:
        data["left_out"] = left
    if missing:
        data["missing"] = missing
    return Output(data=data)
