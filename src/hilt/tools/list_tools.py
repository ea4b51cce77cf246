"""List the tools."""

from typing import Any

from hilt.call import Output
from hilt.catalog import dialect
from hilt.context import Context
from hilt.declaration import tool
from hilt.schema import fields, public

_TOOL = fields("name:string source:string effects:[string] description:string read_only:boolean")
_ANSWER = fields("tools:[tool] count:integer schema?:[object]", tool=_TOOL)


@tool(effects="read", output=_ANSWER)
def list_tools(ctx: Context, include_schema: bool = False) -> Output:
    """List the available tools: name, source, effects and summary.

    Args:
        include_schema: Include schemas, as OpenAI functions.
    """
    chosen = ctx.settings["dialect"]
    entries = {} if chosen is None else dialect(chosen)
    tools: list[dict[str, Any]] = []
    schema: list[dict[str, Any]] = []
    for canonical in ctx.catalog.tools():
        if canonical.traits.finds_tools or ctx.principal.hidden(canonical):
            continue
        variants = [entry for entry in entries.values() if entry.tool == canonical.name] if entries else [canonical]
        for listed in variants:
            summary = listed.description.partition("\n")[0]
            tools.append(
                {
                    "name": listed.name,
                    "source": canonical.source,
                    "effects": sorted(canonical.effects),
                    "description": summary,
                    "read_only": canonical.effects == {"read"},
                }
            )
            function = {
                "name": listed.name,
                "description": summary,
                "parameters": public(listed.schema) if entries else canonical.parameters,
            }
            schema.append({"type": "function", "function": function})
    data: dict[str, Any] = {"tools": tools, "count": len(tools)}
    if include_schema:
        data["schema"] = schema
    return Output(data=data)
