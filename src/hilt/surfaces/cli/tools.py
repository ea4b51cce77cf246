"""`hilt tools`: list and explain tools for people and programs; `hilt --schema`: print them for models."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from hilt.listing import ListedTool, definition
from hilt.output.terminal import inert
from hilt.policy.modes import PROFILES
from hilt.schema import cost, public
from hilt.surfaces.cli import Usage
from hilt.surfaces.cli.layout import list_row, wrapped
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.custom.layers import CustomTools
    from hilt.surfaces.cli.parsing import Options, Parser

FORMATS = ("openai", "anthropic", "mcp")
CHARACTERS_PER_TOKEN = 4  # measured on the built-in tools: 4.1 to 4.3


def schema(options: Options, words: list[str]) -> int:
    """Run `hilt --schema [openai|anthropic|mcp]`."""
    kind = words[0] if words else "openai"
    if len(words) > 1 or kind not in FORMATS:
        raise Usage(f"--schema takes {', '.join(FORMATS)}, not {words[-1]!r}")
    with open_runtime(options) as runtime:
        tools = [_formatted(kind, *definition) for definition in runtime.schemas()]
    sys.stdout.write(json.dumps({"tools": tools} if kind == "mcp" else tools, indent=2, ensure_ascii=False) + "\n")
    return 0


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
        tools = {tool.name: tool for tool in runtime.authority.listed_tools(runtime.session)}
        if runtime.settings["dialect"] in (None, "jinn"):
            tools |= {tool.name: tool for tool in runtime.authority.listed_tools(runtime.session, search=True)}
        custom = runtime.custom()
    has_finders = any(tool.tool.traits.finds_tools for tool in tools.values())
    names = sorted(tools) if has_finders else list(tools)
    if getattr(arguments, "names", False):
        sys.stdout.write("".join(f"{name}\n" for name in names))
        return 0
    if arguments.json:
        return _print_json([tools[name] for name in names], custom)
    effects = {
        name: "finds" if tool.tool.traits.finds_tools else ", ".join(sorted(tool.effects))
        for name, tool in tools.items()
    }
    name_width, effects_width = (max(map(len, column), default=0) for column in (tools, effects.values()))
    for name in names:
        tool = tools[name]
        summary = tool.description.partition("\n")[0] + (" Offered with --search." * bool(tool.tool.traits.finds_tools))
        sys.stdout.write(list_row(f"{name:<{name_width}}  {effects[name]:<{effects_width}}  {summary}"))
    if custom.definitions or custom.problems or custom.untrusted:
        from hilt.surfaces.cli.tool_files import listed

        sys.stdout.write(f"\n{listed(custom)}".rstrip("\n") + "\n")
    return 0


def _print_json(tools: Sequence[ListedTool], custom: CustomTools) -> int:
    data = {
        "tools": [
            {
                "name": tool.name,
                "source": custom.definitions[tool.name].source if tool.name in custom.definitions else "built-in",
                "effects": sorted(tool.effects),
                "description": tool.description,
            }
            for tool in tools
        ],
        "problems": [{"place": problem.place, "message": problem.message} for problem in custom.problems],
        "untrusted": [file.path for file in custom.untrusted],
    }
    sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
    return 0


# --- tokens -------------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """The size of a list of tools in a model's context: characters of the definitions, and estimated tokens."""

    tools: int
    characters: int

    @property
    def tokens(self) -> int:
        """An estimate: definitions have a little more than four characters per token."""
        return -(-self.characters // CHARACTERS_PER_TOKEN)


def _cost(tools: Sequence[ListedTool]) -> Cost:
    return Cost(len(tools), sum(cost(definition(tool)) for tool in tools))


def _tokens(options: Options, *, as_json: bool) -> int:
    """Print the cost of each tool, and of each profile with and without --lean and --search."""
    sets: list[tuple[str, bool, bool, Cost]] = []
    with open_runtime(options) as runtime:
        full, short = (runtime.authority.listed_tools(runtime.session, lean=lean) for lean in (False, True))
    for profile in PROFILES:
        with open_runtime({**options, "profile": profile}) as runtime:
            for lean, search in ((False, False), (True, False), (False, True)):
                tools = runtime.authority.listed_tools(runtime.session, lean=lean, search=search)
                sets.append((profile, lean, search, _cost(tools)))
    each = [(tool.name, _cost([tool]), _cost([lean_tool])) for tool, lean_tool in zip(full, short, strict=True)]
    sys.stdout.write(_cost_data(each, sets) if as_json else _cost_table(each, sets))
    return 0


def _cost_data(each: Sequence[tuple[str, Cost, Cost]], sets: Sequence[tuple[str, bool, bool, Cost]]) -> str:
    def fields(cost: Cost) -> dict[str, int]:
        return {"characters": cost.characters, "tokens": cost.tokens}

    data = {
        "tools": [{"name": name, **fields(full), "lean": fields(lean)} for name, full, lean in each],
        "sets": [
            {"profile": profile, "lean": lean, "search": search, "tools": total.tools, **fields(total)}
            for profile, lean, search, total in sets
        ],
        "characters_per_token": CHARACTERS_PER_TOKEN,
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _cost_table(each: Sequence[tuple[str, Cost, Cost]], sets: Sequence[tuple[str, bool, bool, Cost]]) -> str:
    width = max(26, *(len(name) for name, _, _ in each))
    lines = [f"{'tool':<{width}}  characters  tokens  with --lean  tokens"]
    lines += [
        f"{name:<{width}}  {full.characters:>10,}  {full.tokens:>6,}  {lean.characters:>11,}  {lean.tokens:>6,}"
        for name, full, lean in each
    ]
    lines += ["", f"{'list':<{width}}  characters  tokens  tools"]
    for profile, lean, search, total in sets:
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
        match = runtime.catalog.find(name, runtime.settings["dialect"])
    entry = match.entry or match.tool
    if as_json:
        data = {
            "name": entry.name,
            "source": match.tool.source,
            "effects": sorted(match.tool.effects),
            "description": entry.description,
            "details": "" if match.entry is not None else match.tool.details,
            "stands_for": match.tool.name if match.entry is not None else None,
            "parameters": match.entry.schema if match.entry is not None else public(match.tool.schema),
        }
        sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
        return 0
    sys.stdout.write(f"{inert(entry.name)}\n\n{wrapped(entry.description)}\n\n")
    if match.entry is None and match.tool.details:
        sys.stdout.write(f"{wrapped(match.tool.details)}\n\n")
    required = entry.schema.get("required", ())
    for argument, inner in entry.schema["properties"].items():
        parameter = inner if isinstance(inner, dict) else {}  # the schema of a custom tool or a server may be `true`
        choices = f" ({', '.join(map(str, parameter['enum']))})" if isinstance(parameter.get("enum"), list) else ""
        presence = "required" if argument in required else f"default {json.dumps(parameter.get('default'))}"
        sys.stdout.write(f"  {wrapped(f'{argument}: {_kind(parameter)}{choices}, {presence}', 4)}\n")
        if "description" in parameter:
            sys.stdout.write(f"      {wrapped(str(parameter['description']), 6)}\n")
    from hilt.custom.definition import definition_of

    definition = definition_of(match.tool)
    if definition is not None:
        from hilt.surfaces.cli.tool_files import describe

        sys.stdout.write(f"\n{describe(definition)}".rstrip("\n") + "\n")
        return 0
    effects = ", ".join(sorted(match.tool.effects))
    canonical = f", calls {match.tool.name}" if match.entry is not None else ""
    sys.stdout.write(f"\n{match.tool.source}, effects: {effects}{canonical}\n")
    return 0


def _kind(schema: Any) -> str:
    """Return the type of a parameter; the schema of a custom tool or a server may contain anything."""
    types = (schema.get("type") or schema.get("anyOf")) if isinstance(schema, dict) else None
    if isinstance(types, str):
        return types
    if not isinstance(types, list):
        return "any"
    return " or ".join(kind if isinstance(kind, str) else _kind(kind) for kind in types)
