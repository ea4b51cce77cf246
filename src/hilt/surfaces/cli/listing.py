"""What tools there are: for people, and as schemas for models."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any, NamedTuple

from hilt.authority.visibility import Shown, definition, shown
from hilt.policy.modes import PROFILES
from hilt.schema import cost
from hilt.surfaces.cli import Usage
from hilt.surfaces.opening import open_runtime

FORMATS = ("openai", "anthropic", "mcp")
CHARACTERS_PER_TOKEN = 4  # measured on the built-in tools: 4.1 to 4.3


def schema(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt --schema [openai|anthropic|mcp]`."""
    kind = words[0] if words else "openai"
    if len(words) > 1 or kind not in FORMATS:
        raise Usage(f"--schema takes one of {', '.join(FORMATS)}")
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


def tools(options: dict[str, str], words: list[str]) -> int:
    """Run `hilt tools [list [--tokens [--json]]|show NAME]`, and what is done to tool files."""
    match words:
        case [] | ["list"]:
            return _list(options)
        case ["list", *flags] if "--tokens" in flags and set(flags) <= {"--tokens", "--json"}:
            return _tokens(options, as_json="--json" in flags)
        case ["show", name]:
            return _show(options, name)
        case ["new" | "check" | "install" | "remove" | "trust", *_]:
            from hilt.surfaces.cli.tool_files import tool_files

            return tool_files(options, words)
    raise Usage("tools takes list [--tokens [--json]], show NAME, new, check, install, remove or trust")


def _list(options: dict[str, str]) -> int:
    with open_runtime(options) as runtime:
        described = {one.name: one for one in shown(runtime.authority, session=runtime.session)}
        if runtime.settings["dialect"] in (None, "jinn"):
            described |= {one.name: one for one in shown(runtime.authority, session=runtime.session, search=True)}
        found = runtime.custom()
    width = max(map(len, described), default=0)
    columns = get_terminal_size((10_000, 24)).columns if sys.stdout.isatty() else 10_000
    has_finders = any(one.tool.traits.finds for one in described.values())
    for name, one in sorted(described.items()) if has_finders else described.items():
        finds = one.tool.traits.finds
        effects = "finds" if finds else ", ".join(sorted(one.effects))
        summary = one.description.partition("\n")[0] + (" Shown with --search." if finds else "")
        line = f"{name:<{width}}  {effects:<6}  {summary}"
        sys.stdout.write((line if len(line) <= columns else line[: columns - 1] + "…") + "\n")
    if found.definitions or found.problems or found.untrusted:
        from hilt.surfaces.cli.tool_files import listed

        sys.stdout.write(f"\n{listed(found)}".rstrip("\n") + "\n")
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


def _tokens(options: dict[str, str], *, as_json: bool) -> int:
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


def _show(options: dict[str, str], name: str) -> int:
    with open_runtime(options) as runtime:
        found = runtime.catalog.find(name, runtime.settings["dialect"])
    named = found.entry or found.tool
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
