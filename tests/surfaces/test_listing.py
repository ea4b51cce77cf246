from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from tongs import catalog


@pytest.mark.parametrize(
    "kind, name, parameters",
    [
        (None, lambda tool: tool["function"]["name"], lambda tool: tool["function"]["parameters"]),
        ("openai", lambda tool: tool["function"]["name"], lambda tool: tool["function"]["parameters"]),
        ("anthropic", lambda tool: tool["name"], lambda tool: tool["input_schema"]),
        ("mcp", lambda tool: tool["name"], lambda tool: tool["inputSchema"]),
    ],
)
@pytest.mark.parametrize("dialect", [None, "jinn", "jcli", "agentos"])
def test_schemas_are_valid_and_say_what_every_parameter_is(command, kind, name, parameters, dialect):
    words = ["--schema", *([kind] if kind else []), *(["--dialect", dialect] if dialect else [])]

    found = json.loads(command.run(*words).stdout)

    tools = found["tools"] if kind == "mcp" else found
    names = catalog.built_in_names() if dialect in (None, "jinn") else list(catalog.dialect(dialect))
    assert sorted(map(name, tools)) == sorted(names)
    for tool in tools:
        schema = parameters(tool)
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert schema["type"] == "object"
        assert documented(schema) == []
        assert "x-" not in json.dumps(schema)
        assert (tool.get("function") or tool)["description"].strip()


def documented(schema: Any) -> list[str]:
    """Return the parameters, at any depth, that have no description."""
    missing = []
    for parameter, known in schema.get("properties", {}).items():
        if not known.get("description"):
            missing.append(parameter)
        for inner in (known, known.get("items", {}), *known.get("anyOf", ())):
            missing += documented(inner) if inner is not schema else []
    return missing


def test_tools_are_listed_with_effect_and_summary(command):
    lines = command.run("tools").stdout.decode().splitlines()

    assert [line.split()[0] for line in lines] == catalog.built_in_names()
    assert any(line.startswith("read_file ") and " read " in line for line in lines)
    assert command.run("tools", "list").stdout.decode().splitlines() == lines


@pytest.mark.parametrize("name", ["read_file", "Read", "tool::file_read"])
def test_a_tool_is_shown_with_its_parameters(command, name):
    text = command.run("tools", "show", name).stdout.decode()

    assert text.startswith(f"{name}\n")
    assert "  path: string, required\n" in text
    assert ("stands for read_file" in text) == (name != "read_file")


def test_every_tool_can_be_shown(command):
    for name in catalog.built_in_names():
        done = command.run("tools", "show", name)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_name_that_is_no_tool_gets_the_nearest(command):
    done = command.run("tools", "show", "read_flie")

    assert (done.returncode, done.stdout) == (1, b"")
    assert b"read_file" in done.stderr


def test_under_a_dialect_only_its_names_are_listed(command):
    lines = command.run("tools", "--dialect", "jcli").stdout.decode().splitlines()

    assert [line.split()[0] for line in lines] == list(catalog.dialect("jcli"))
