"""Write docs/reference.md and docs/commands.md from what the code declares; with --check, compare them only."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hilt import catalog
from hilt.declaration import Tool
from hilt.schema import CLAMP, Schema
from hilt.surfaces.cli import commands, help_text
from hilt.surfaces.cli.commands import parser_of
from hilt.surfaces.cli.parsing import Parser

DOCS = Path(__file__).resolve().parent.parent / "docs"

OPENING = """\
# Reference

<!-- Written by scripts/reference.py from the declarations in src/hilt/tools and src/hilt/dialects. Do not edit. -->

Every built-in tool with its arguments, and the names under which the dialects offer them. `hilt tools show NAME`
prints the same for one tool; `hilt --schema` prints all of it as JSON Schema. The envelope around a call is in
[protocol.md](protocol.md).

Under default, *required* marks an argument that must be sent, *optional* one that may be left out and has no default.
A number marked *clamped* is moved to its limit, with a note in `meta.notes`; other values beyond a limit are refused,
and so are unknown arguments. The schemas that models are shown leave out what goes without saying: a default of
`false`, `0` or `""`, a lower limit of 0 or 1, limits that are only clamped to, and that unknown arguments are refused.
"""


COMMANDS_OPENING = """\
# Commands

<!-- Written by scripts/reference.py from the parsers in src/hilt/surfaces. Do not edit. -->

What `hilt COMMAND --help` prints, on one page; `hilt man` prints it as a manual page, and `hilt completion SHELL` as
completion. What goes into a command and what comes out is in [protocol.md](protocol.md#surfaces).
"""


def commands_page() -> str:
    """Return the page of the command line."""
    parts = [COMMANDS_OPENING, _shown("hilt", help_text.overview())]
    for group, names in commands.GROUPS.items():
        parts.append(f"## {group}\n")
        for name in names:
            parts += [_shown(parser.prog, help_text.of(parser)) for parser in _with_those_below(parser_of(name))]
    return "\n".join(parts)


def _shown(name: str, text: str) -> str:
    return f"### {name}\n\n```text\n{text}```\n"


def _with_those_below(parser: Parser) -> Iterator[Parser]:
    yield parser
    for below in parser.commands.values():
        if not below.hidden:
            yield from _with_those_below(below)


def tools_page() -> str:
    """Return the page of the tools."""
    tools = catalog.Catalog().tools()
    parts = [OPENING, "\n".join(_contents(tools))]
    parts += ["\n".join(_tool(tool)) for tool in tools]
    parts.append("\n".join(_dialects()))
    return "\n".join(parts)


def _contents(tools: list[Tool]) -> Iterator[str]:
    yield "| tool | effects | what it does |"
    yield "|---|---|---|"
    for tool in tools:
        yield f"| [`{tool.name}`](#{tool.name}) | {', '.join(sorted(tool.effects))} | {_cell(tool.summary)} |"
    yield ""


def _tool(tool: Tool) -> Iterator[str]:
    yield f"## {tool.name}"
    yield ""
    yield tool.description
    yield ""
    if tool.details:
        yield tool.details
        yield ""
    yield f"Effects: {', '.join(sorted(tool.effects))}. Time limit: {tool.timeout:g} s."
    yield ""
    yield from _arguments(tool.schema)


def _arguments(schema: Schema) -> Iterator[str]:
    yield "| argument | type | default | meaning |"
    yield "|---|---|---|---|"
    required = schema.get("required", ())
    inner: list[tuple[str, Schema]] = []
    for name, known in schema["properties"].items():
        default = "required" if name in required else _literal(known["default"]) if "default" in known else "optional"
        yield f"| `{name}` | {_type(known)} | {default} | {_cell(known.get('description', ''))} |"
        record = known.get("items", known)
        if "properties" in record:
            inner.append((name, record))
    yield ""
    for name, record in inner:
        yield f"Each of `{name}`:"
        yield ""
        yield from _arguments(record)


def _type(schema: Schema) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    kind: str = schema.get("type", "any")
    if kind == "array":
        return f"array of {_type(schema['items'])}{_range(schema, 'minItems', 'maxItems')}"
    extra = schema.get("additionalProperties")
    if kind == "object" and isinstance(extra, dict):
        return f"object of {_type(extra)}"
    return kind + _range(schema, "minimum", "maximum")


def _range(schema: Schema, least: str, most: str) -> str:
    low, high = schema.get(least), schema.get(most)
    if low is None and high is None:
        return ""
    words = f"{low} to {high}" if low is not None and high is not None else f"from {low}" if high is None else ""
    return f", {words or f'up to {high}'}{' (clamped)' if schema.get(CLAMP) else ''}"


def _literal(value: Any) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _dialects() -> Iterator[str]:
    yield "## Dialects"
    yield ""
    yield (
        "These names work over the JSON protocol at any time. With `--dialect NAME`, `HILT_DIALECT` or the request "
        "field `dialect` the names of that dialect come first, and `--dialect` shows a model no others."
    )
    yield ""
    yield "| dialect | name | arguments | stands for |"
    yield "|---|---|---|---|"
    for dialect in catalog.dialect_names():
        for entry in catalog.dialect(dialect).values():
            required = entry.schema.get("required", ())
            names = [f"`{name}`{'' if name in required else '?'}" for name in entry.schema["properties"]]
            yield f"| {dialect} | `{entry.name}` | {', '.join(names)} | [`{entry.tool}`](#{entry.tool}) |"
    yield ""
    yield "A question mark follows an argument that may be left out. The canonical names are the dialect `jinn`."
    yield ""


PAGES = {"reference.md": tools_page, "commands.md": commands_page}


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them; 1 when one is out of date, 2 for wrong use."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: reference.py [--check]\n")
        return 2
    stale = 0
    for name, page in PAGES.items():
        path, new = DOCS / name, page().rstrip("\n") + "\n"
        if not arguments:
            path.write_text(new, encoding="utf-8")
            continue
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old != new:
            stale = 1
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"docs/{name}", "declared", lineterm="")
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.write(f"docs/{name} is out of date: run .venv/bin/python scripts/reference.py\n")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
