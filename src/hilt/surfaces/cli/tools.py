"""`hilt tools`: list and explain tools for people and programs; `hilt --schema`: print them for models."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from hilt.desk import tools as desk
from hilt.desk.custom_tools import CustomTools
from hilt.desk.tools import CHARACTERS_PER_TOKEN, AvailableTool, DefinitionCost, ListCost, ToolCost
from hilt.output.terminal import inert
from hilt.surfaces import Usage
from hilt.surfaces.cli.layout import list_row, print_json, wrapped
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.opening import open_runtime

FORMATS = ("openai", "anthropic", "mcp")


def schema(options: Options, words: list[str]) -> int:
    """Run `hilt --schema [openai|anthropic|mcp]`."""
    kind = words[0] if words else "openai"
    if len(words) > 1 or kind not in FORMATS:
        raise Usage(f"--schema takes {', '.join(FORMATS)}, not {words[-1]!r}")
    with open_runtime(options) as runtime:
        listed = runtime.parts.authority.listed_tools(runtime.session)
        tools = [_formatted(kind, tool.name, tool.description, tool.schema) for tool in listed]
    return print_json({"tools": tools} if kind == "mcp" else tools, indent=2)


def _formatted(kind: str, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    if kind == "openai":
        function = {"name": name, "description": description, "parameters": parameters}
        return {"type": "function", "function": function}
    key = "input_schema" if kind == "anthropic" else "inputSchema"
    return {"name": name, "description": description, key: parameters}


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    from hilt.surfaces.cli import tool_files

    parser.run = _list
    parser.details = """Without a command, the tools are listed. Custom tools are files in .hilt/tools of a project, or
in the tools folder beside your settings."""
    listing = parser.command("list", "List the tools offered to models, and custom tools by source", _list)
    listing.add_argument("--tokens", action="store_true", help="Show how many tokens the definitions take")
    listing.add_argument("--names", action="store_true", help="Print only the names, one per line")
    showing = parser.command("show", "Explain a tool and its arguments", _show)
    showing.add_argument("name", metavar="TOOL", help="The name of the tool")
    for below in (parser, listing, showing):
        below.add_argument("--json", action="store_true", help="Print JSON")
    tool_files.build(parser)
    parser.examples = [
        ("hilt tools", "List the tools"),
        ("hilt tools show edit_file", "Explain one"),
        ("hilt tools list --tokens", "Show the tokens that each definition takes"),
        ("hilt tools new word_count", "Start a custom tool"),
    ]


def _list(options: Options, arguments: Namespace) -> int:
    if getattr(arguments, "tokens", False):
        return _tokens(options, as_json=arguments.json)
    with open_runtime(options) as runtime:
        tools, finders = desk.offered(runtime), desk.finders(runtime)
        custom = runtime.parts.toolbox.tools_found()
    if finders:
        tools = sorted([*tools, *finders], key=lambda tool: tool.name)
    if getattr(arguments, "names", False):
        sys.stdout.write("".join(f"{tool.name}\n" for tool in tools))
        return 0
    if arguments.json:
        return print_json(_listed(tools, custom))
    finding = {tool.name for tool in finders}
    effects = ["finds" if tool.name in finding else ", ".join(tool.effects) for tool in tools]
    width, effects_width = max((len(tool.name) for tool in tools), default=0), max(map(len, effects), default=0)
    for tool, effect in zip(tools, effects, strict=True):
        summary = tool.description.partition("\n")[0] + " Offered with --search." * (tool.name in finding)
        sys.stdout.write(list_row(f"{tool.name:<{width}}  {effect:<{effects_width}}  {summary}"))
    if custom.definitions or custom.problems or custom.untrusted:
        from hilt.surfaces.cli.tool_files import listed

        sys.stdout.write(f"\n{listed(custom)}".rstrip("\n") + "\n")
    return 0


def _listed(tools: Sequence[AvailableTool], custom: CustomTools) -> dict[str, Any]:
    fields = ("name", "source", "effects", "description")
    return {
        "tools": [{name: getattr(tool, name) for name in fields} for tool in tools],
        "problems": [{"place": problem.place, "message": problem.message} for problem in custom.problems],
        "untrusted": [file.path for file in custom.untrusted],
    }


def _tokens(options: Options, *, as_json: bool) -> int:
    """Print the cost of each tool, and of each profile with and without --lean and --search."""
    with open_runtime(options) as runtime:
        each = desk.tool_costs(runtime)
    lists: list[tuple[str, ListCost]] = []
    for profile in desk.PROFILES:
        with open_runtime({**options, "profile": profile}) as runtime:
            lists += [(profile, list_cost) for list_cost in desk.list_costs(runtime)]
    if as_json:
        return print_json(_cost_data(each, lists), indent=2)
    sys.stdout.write(_cost_table(each, lists))
    return 0


def _cost_data(each: Sequence[ToolCost], lists: Sequence[tuple[str, ListCost]]) -> dict[str, Any]:
    def fields(cost: DefinitionCost) -> dict[str, int]:
        return {"characters": cost.characters, "tokens": cost.tokens}

    return {
        "tools": [{"name": tool.name, **fields(tool.full), "lean": fields(tool.lean)} for tool in each],
        "sets": [
            {"profile": profile, "lean": lean, "search": search, "tools": total.tools, **fields(total)}
            for profile, (lean, search, total) in lists
        ],
        "characters_per_token": CHARACTERS_PER_TOKEN,
    }


def _cost_table(each: Sequence[ToolCost], lists: Sequence[tuple[str, ListCost]]) -> str:
    width = max(26, *(len(tool.name) for tool in each))
    lines = [f"{'tool':<{width}}  characters  tokens  with --lean  tokens"]
    lines += [
        f"{name:<{width}}  {full.characters:>10,}  {full.tokens:>6,}  {lean.characters:>11,}  {lean.tokens:>6,}"
        for name, full, lean in each
    ]
    lines += ["", f"{'list':<{width}}  characters  tokens  tools"]
    for profile, (lean, search, total) in lists:
        name = f"--profile {profile}{' --lean' * lean}{' --search' * search}"
        lines.append(f"{name:<{width}}  {total.characters:>10,}  {total.tokens:>6,}  {total.tools:>5,}")
    basis = "Characters of name, description and parameters as compact JSON"
    lines += ["", f"{basis}; tokens are estimated at {CHARACTERS_PER_TOKEN} characters each."]
    return "\n".join(lines) + "\n"


def _show(options: Options, arguments: Namespace) -> int:
    return show(options, arguments.name, as_json=arguments.json)


def show(options: Options, name: str, *, as_json: bool = False) -> int:
    """Print the description and the arguments of a tool."""
    with open_runtime(options) as runtime:
        tool, custom = desk.describe(runtime, name)
    if as_json:
        return print_json(tool)
    sys.stdout.write(f"{inert(tool.name)}\n\n{wrapped(tool.description)}\n\n")
    if tool.details:
        sys.stdout.write(f"{wrapped(tool.details)}\n\n")
    required = tool.parameters.get("required", ())
    for argument, inner in tool.parameters["properties"].items():
        parameter = inner if isinstance(inner, dict) else {}  # the schema of a custom tool or a server may be `true`
        choices = f" ({', '.join(map(str, parameter['enum']))})" if isinstance(parameter.get("enum"), list) else ""
        presence = "required" if argument in required else f"default {json.dumps(parameter.get('default'))}"
        sys.stdout.write(f"  {wrapped(f'{argument}: {_kind(parameter)}{choices}, {presence}', 4)}\n")
        if "description" in parameter:
            sys.stdout.write(f"      {wrapped(str(parameter['description']), 6)}\n")
    if custom is not None:
        from hilt.surfaces.cli.tool_files import describe

        sys.stdout.write(f"\n{describe(custom)}".rstrip("\n") + "\n")
        return 0
    canonical = f", calls {tool.stands_for}" if tool.stands_for is not None else ""
    sys.stdout.write(f"\n{tool.source}, effects: {', '.join(tool.effects)}{canonical}\n")
    return 0


def _kind(schema: Any) -> str:
    """Return the type of a parameter; the schema of a custom tool or a server may contain anything."""
    types = (schema.get("type") or schema.get("anyOf")) if isinstance(schema, dict) else None
    if isinstance(types, str):
        return types
    if not isinstance(types, list):
        return "any"
    return " or ".join(kind if isinstance(kind, str) else _kind(kind) for kind in types)
