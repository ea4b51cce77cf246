"""What tools there are: for people, and as schemas for models."""

from __future__ import annotations

import json
import sys
from shutil import get_terminal_size
from typing import Any

from tongs.surfaces.cli import Usage
from tongs.surfaces.opening import open_runtime

FORMATS = ("openai", "anthropic", "mcp")


def schema(options: dict[str, str], words: list[str]) -> int:
    """Run `tongs --schema [openai|anthropic|mcp]`."""
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
    """Run `tongs tools [list|show NAME]`, and what is done to tool files."""
    match words:
        case [] | ["list"]:
            return _list(options)
        case ["show", name]:
            return _show(options, name)
        case ["new" | "check" | "install" | "remove" | "trust", *_]:
            from tongs.surfaces.tool_files import tool_files

            return tool_files(options, words)
    raise Usage("tools takes list, show NAME, new, check, install, remove or trust")


def _list(options: dict[str, str]) -> int:
    with open_runtime(options) as runtime:
        described = runtime.schemas()
        effects = {tool.name: tool for tool in runtime.catalog.tools()}
        found = runtime.custom()
    width = max(len(name) for name, _, _ in described)
    columns = get_terminal_size((10_000, 24)).columns if sys.stdout.isatty() else 10_000
    for name, description, _ in described:
        tool = effects.get(name)
        kind = f"{', '.join(sorted(tool.effects)):<6} " if tool is not None else ""
        line = f"{name:<{width}}  {kind} {description.partition(chr(10))[0]}"
        sys.stdout.write((line if len(line) <= columns else line[: columns - 1] + "…") + "\n")
    if found.definitions or found.problems or found.untrusted:
        from tongs.surfaces.tool_files import listed

        sys.stdout.write(f"\n{listed(found)}".rstrip("\n") + "\n")
    return 0


def _show(options: dict[str, str], name: str) -> int:
    with open_runtime(options) as runtime:
        found = runtime.catalog.find(name, runtime.settings["dialect"])
    shown = found.entry or found.tool
    sys.stdout.write(f"{shown.name}\n\n{shown.description}\n\n")
    required = shown.schema.get("required", ())
    for argument, known in shown.schema["properties"].items():
        kind = known.get("type") or " or ".join(choice["type"] for choice in known.get("anyOf", ()))
        choices = f" ({', '.join(known['enum'])})" if "enum" in known else ""
        presence = "required" if argument in required else f"default {json.dumps(known.get('default'))}"
        sys.stdout.write(f"  {argument}: {kind}{choices}, {presence}\n")
        if "description" in known:
            sys.stdout.write(f"      {known['description']}\n")
    from tongs.custom.definition import definition_of

    definition = definition_of(found.tool)
    if definition is not None:
        from tongs.surfaces.tool_files import shown as described

        sys.stdout.write(f"\n{described(definition)}".rstrip("\n") + "\n")
        return 0
    effects = ", ".join(sorted(found.tool.effects))
    canonical = f", stands for {found.tool.name}" if found.entry is not None else ""
    sys.stdout.write(f"\n{found.tool.source}, effects: {effects}{canonical}\n")
    return 0
