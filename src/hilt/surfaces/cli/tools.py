"""`hilt tools`: what tools there are, for people and programs; `hilt --schema`, for models."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any, NamedTuple

from hilt.authority.visibility import Shown, definition, shown
from hilt.policy.modes import PROFILES
from hilt.schema import cost, public
from hilt.surfaces.cli import Usage
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
        listed = [_formatted(kind, *described) for described in runtime.schemas()]
    sys.stdout.write(json.dumps({"tools": listed} if kind == "mcp" else listed, indent=2, ensure_ascii=False) + "\n")
    return 0


def _formatted(kind: str, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    if kind == "openai":
        function = {"name": name, "description": description, "parameters": parameters}
        return {"type": "function", "function": function}
    key = "input_schema" if kind == "anthropic" else "inputSchema"
    return {"name": name, "description": description, key: parameters}


def build(parser: Parser) -> None:
    """Say what the command takes."""
    from hilt.surfaces.cli import tool_files

    parser.run = _list
    parser.details = """Without a command, the tools are listed. Custom tools are files in .hilt/tools of a project, or
in the tools folder of your settings."""
    listing = parser.command("list", "List the tools that a model is shown, and custom tools by source", _list)
    listing.add_argument("--tokens", action="store_true", help="Show what the definitions cost a model")
    listing.add_argument("--names", action="store_true", help="Print the names alone, one on a line")
    showing = parser.command("show", "Explain a tool: what it does, and its arguments", _show)
    showing.add_argument("name", metavar="TOOL", help="The name of the tool")
    for below in (parser, listing, showing):
        below.add_argument("--json", action="store_true", help="Print JSON")
    tool_files.build(parser)
    parser.examples = [
        ("hilt tools", "List the tools"),
        ("hilt tools show edit_file", "Explain one"),
        ("hilt tools list --tokens", "See what each costs a model"),
        ("hilt tools new word_count", "Write a tool of your own"),
    ]


def _list(options: Options, given: Namespace) -> int:
    if getattr(given, "tokens", False):
        return _tokens(options, as_json=given.json)
    with open_runtime(options) as runtime:
        described = {one.name: one for one in shown(runtime.authority, session=runtime.session)}
        if runtime.settings["dialect"] in (None, "jinn"):
            described |= {one.name: one for one in shown(runtime.authority, session=runtime.session, search=True)}
        found = runtime.custom()
    has_finders = any(one.tool.traits.finds for one in described.values())
    names = sorted(described) if has_finders else list(described)
    if getattr(given, "names", False):
        sys.stdout.write("".join(f"{name}\n" for name in names))
        return 0
    if given.json:
        return _print_json([described[name] for name in names], found)
    width = max(map(len, described), default=0)
    columns = get_terminal_size((10_000, 24)).columns if sys.stdout.isatty() else 10_000
    for name in names:
        one = described[name]
        finds = one.tool.traits.finds
        effects = "finds" if finds else ", ".join(sorted(one.effects))
        summary = one.description.partition("\n")[0] + (" Shown with --search." if finds else "")
        line = f"{name:<{width}}  {effects:<6}  {summary}"
        sys.stdout.write((line if len(line) <= columns else line[: columns - 1] + "…") + "\n")
    if found.definitions or found.problems or found.untrusted:
        from hilt.surfaces.cli.tool_files import listed

        sys.stdout.write(f"\n{listed(found)}".rstrip("\n") + "\n")
    return 0


def _print_json(tools: Sequence[Shown], found: CustomTools) -> int:
    data = {
        "tools": [
            {
                "name": one.name,
                "source": found.definitions[one.name].source if one.name in found.definitions else "built-in",
                "effects": sorted(one.effects),
                "description": one.description,
            }
            for one in tools
        ],
        "problems": [{"place": problem.place, "message": problem.message} for problem in found.problems],
        "untrusted": [one.path for one in found.untrusted],
    }
    sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
    return 0


# --- what they cost -----------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """What a list of tools takes of a model's room: the characters of its definitions, and about how many tokens."""

    tools: int
    characters: int

    @property
    def tokens(self) -> int:
        """An estimate: definitions have a little more than four characters to a token."""
        return -(-self.characters // CHARACTERS_PER_TOKEN)


def _cost(tools: Sequence[Shown]) -> Cost:
    return Cost(len(tools), sum(cost(definition(one)) for one in tools))


def _tokens(options: Options, *, as_json: bool) -> int:
    """Print what each tool costs, and each way to list them."""
    sets: list[tuple[str, bool, bool, Cost]] = []
    with open_runtime(options) as runtime:
        full, short = (shown(runtime.authority, session=runtime.session, lean=lean) for lean in (False, True))
    for profile in PROFILES:
        with open_runtime({**options, "profile": profile}) as runtime:
            for lean, search in ((False, False), (True, False), (False, True)):
                found = shown(runtime.authority, session=runtime.session, lean=lean, search=search)
                sets.append((profile, lean, search, _cost(found)))
    each = [(one.name, _cost([one]), _cost([other])) for one, other in zip(full, short, strict=True)]
    sys.stdout.write(_cost_data(each, sets) if as_json else _cost_table(each, sets))
    return 0


def _cost_data(each: Sequence[tuple[str, Cost, Cost]], sets: Sequence[tuple[str, bool, bool, Cost]]) -> str:
    def told(one: Cost) -> dict[str, int]:
        return {"characters": one.characters, "tokens": one.tokens}

    data = {
        "tools": [{"name": name, **told(full), "lean": told(lean)} for name, full, lean in each],
        "sets": [
            {"profile": profile, "lean": lean, "search": search, "tools": whole.tools, **told(whole)}
            for profile, lean, search, whole in sets
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
    for profile, lean, search, whole in sets:
        name = f"--profile {profile}{' --lean' * lean}{' --search' * search}"
        lines.append(f"{name:<{width}}  {whole.characters:>10,}  {whole.tokens:>6,}  {whole.tools:>5,}")
    lines += ["", f"Characters of name, description and parameters as compact JSON; {CHARACTERS_PER_TOKEN} to a token."]
    return "\n".join(lines) + "\n"


def _show(options: Options, given: Namespace) -> int:
    return show(options, given.name, as_json=given.json)


def show(options: Options, name: str, *, as_json: bool = False) -> int:
    """Print what a tool does and takes."""
    with open_runtime(options) as runtime:
        found = runtime.catalog.find(name, runtime.settings["dialect"])
    named = found.entry or found.tool
    if as_json:
        data = {
            "name": named.name,
            "source": found.tool.source,
            "effects": sorted(found.tool.effects),
            "description": named.description,
            "details": "" if found.entry is not None else found.tool.details,
            "stands_for": found.tool.name if found.entry is not None else None,
            "parameters": found.entry.schema if found.entry is not None else public(found.tool.schema),
        }
        sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
        return 0
    sys.stdout.write(f"{named.name}\n\n{named.description}\n\n")
    if found.entry is None and found.tool.details:
        sys.stdout.write(f"{found.tool.details}\n\n")
    required = named.schema.get("required", ())
    for argument, told in named.schema["properties"].items():
        known = told if isinstance(told, dict) else {}  # a foreign schema may be true
        choices = f" ({', '.join(map(str, known['enum']))})" if isinstance(known.get("enum"), list) else ""
        presence = "required" if argument in required else f"default {json.dumps(known.get('default'))}"
        sys.stdout.write(f"  {argument}: {_kind(known)}{choices}, {presence}\n")
        if "description" in known:
            sys.stdout.write(f"      {known['description']}\n")
    from hilt.custom.definition import definition_of

    definition = definition_of(found.tool)
    if definition is not None:
        from hilt.surfaces.cli.tool_files import shown as described

        sys.stdout.write(f"\n{described(definition)}".rstrip("\n") + "\n")
        return 0
    effects = ", ".join(sorted(found.tool.effects))
    canonical = f", stands for {found.tool.name}" if found.entry is not None else ""
    sys.stdout.write(f"\n{found.tool.source}, effects: {effects}{canonical}\n")
    return 0


def _kind(schema: Any) -> str:
    """Return the type of a parameter; a foreign schema may hold anything."""
    known = schema if isinstance(schema, dict) else {}
    several = known.get("type") or known.get("anyOf")
    if isinstance(several, str):
        return several
    if not isinstance(several, list):
        return "any"
    return " or ".join(one if isinstance(one, str) else _kind(one) for one in several)
