from __future__ import annotations

import json
import os
import re
from typing import Any

import jsonschema_rs
import pytest

from hilt import catalog
from hilt.choices import dialect_names
from tests.surfaces.commands import HILT
from tests.surfaces.terminals import Screen

FINDERS = {"tool_search", "tool_call"}
UNSEEN = {"computer", "ComputerUse"}  # there is no display


@pytest.mark.parametrize(
    "kind, name, parameters",
    [
        (None, lambda tool: tool["function"]["name"], lambda tool: tool["function"]["parameters"]),
        ("openai", lambda tool: tool["function"]["name"], lambda tool: tool["function"]["parameters"]),
        ("anthropic", lambda tool: tool["name"], lambda tool: tool["input_schema"]),
        ("mcp", lambda tool: tool["name"], lambda tool: tool["inputSchema"]),
    ],
)
@pytest.mark.parametrize("dialect", [None, *dialect_names()])
def test_schemas_are_valid_and_describe_every_parameter(command, kind, name, parameters, dialect):
    words = ["--schema", *([kind] if kind else []), *(["--dialect", dialect] if dialect else [])]

    schemas = json.loads(command.run(*words).stdout)

    tools = schemas["tools"] if kind == "mcp" else schemas
    own = set(catalog.built_in_names()) - FINDERS
    listed = own if dialect in (None, "jinn") else set(catalog.dialect(dialect))
    assert sorted(map(name, tools)) == sorted(listed - UNSEEN)
    for tool in tools:
        schema = parameters(tool)
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert schema["type"] == "object"
        assert documented(schema) == []
        assert "x-" not in json.dumps(schema)
        assert (tool.get("function") or tool)["description"].strip()


def documented(schema: Any) -> list[str]:
    """Return the parameters without a description, at any depth."""
    missing = []
    for parameter, subschema in schema.get("properties", {}).items():
        if not subschema.get("description"):
            missing.append(parameter)
        for inner in (subschema, subschema.get("items", {}), *subschema.get("anyOf", ())):
            missing += documented(inner) if inner is not schema else []
    return missing


def test_tools_are_listed_with_effect_and_summary(command):
    lines = command.run("tools").stdout.decode().splitlines()

    assert [line.split()[0] for line in lines] == [name for name in catalog.built_in_names() if name not in UNSEEN]
    assert any(line.startswith("read_file ") and " read " in line for line in lines)
    names, effects = (max(len(line.split()[column]) for line in lines) for column in (0, 1))
    assert all(line[names : names + 2] == line[names + 2 + effects :][:2] == "  " for line in lines)
    assert [line.split()[0] for line in lines if line.endswith("--search.")] == sorted(FINDERS)
    assert command.run("tools", "list").stdout.decode().splitlines() == lines


@pytest.mark.parametrize("words", [("tools",), ("skills",)])
def test_lists_are_cut_to_the_width_of_the_terminal(command, words):
    with Screen([HILT, *words], env=command.environ, cwd=command.folder.path) as screen:
        status, text = screen.end()

    assert status == 0
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "…" in text


@pytest.mark.parametrize("name", ["read_file", "Read", "tool::file_read"])
def test_a_tool_is_shown_with_its_parameters(command, name):
    text = command.run("tools", "show", name).stdout.decode()

    assert text.startswith(f"{name}\n")
    assert "  path: string, required\n" in text
    assert ("calls read_file" in text) == (name != "read_file")


def test_every_tool_can_be_shown_on_80_columns(command):
    for name in catalog.built_in_names():
        done = command.run("tools", "show", name)
        assert (done.returncode, done.stderr) == (0, b"")
        assert [line for line in done.stdout.decode().splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("words", [("tools",), ("tools", "show", "evil"), ("call", "evil", "--help")])
def test_descriptions_of_custom_tools_cannot_control_the_terminal(command, words):
    tools = os.path.join(command.environ["HILT_CONFIG_DIR"], "tools")
    os.makedirs(tools)
    with open(os.path.join(tools, "evil.md"), "w", encoding="utf-8") as file:
        file.write(
            '---\nname: evil\ndescription: "Do \\e[2J."\nparameters:\n  a: {type: string, description: "\\e[8m"}\n'
        )
        file.write("---\necho hi\n")

    done = command.run(*words)

    assert b"\x1b" not in done.stdout
    assert "Do ␛[2J." in done.stdout.decode()


def test_an_unknown_tool_suggests_the_nearest_name(command):
    done = command.run("tools", "show", "read_flie")

    assert (done.returncode, done.stdout) == (1, b"")
    assert b"read_file" in done.stderr


def test_under_a_dialect_only_its_names_are_listed(command):
    lines = command.run("tools", "--dialect", "jcli").stdout.decode().splitlines()

    assert [line.split()[0] for line in lines] == [name for name in catalog.dialect("jcli") if name not in UNSEEN]


# --- cost ---------------------------------------------------------------------------------------------------------


def test_the_cost_of_every_tool_and_list_is_shown(command):
    report = json.loads(command.run("tools", "list", "--tokens", "--json").stdout)

    listed = json.loads(command.run("--schema", "mcp").stdout)["tools"]
    exact = {tool["name"]: len(json.dumps(tool, ensure_ascii=False, separators=(",", ":"))) for tool in listed}
    assert {tool["name"]: tool["characters"] for tool in report["tools"]} == exact
    assert all(tool["lean"]["characters"] <= tool["characters"] for tool in report["tools"])
    sets = {(tool_set["profile"], tool_set["lean"], tool_set["search"]): tool_set for tool_set in report["sets"]}
    full, lean, search = (sets["full", *how] for how in ((False, False), (True, False), (False, True)))
    assert (full["tools"], full["characters"]) == (len(listed), sum(exact.values()))
    assert lean["characters"] == sum(tool["lean"]["characters"] for tool in report["tools"])
    assert (lean["tools"], search["tools"]) == (len(listed), 2)
    assert full["tokens"] == -(-full["characters"] // report["characters_per_token"])
    costs = [sets[profile, False, False]["characters"] for profile in ("full", "minimal", "nano")]
    assert costs == sorted(costs, reverse=True)
    assert search["characters"] < lean["characters"] < full["characters"]


def test_the_cost_is_printed_as_a_table(command):
    text = command.run("tools", "list", "--tokens").stdout.decode()

    lines = text.splitlines()
    assert lines[0].split() == ["tool", "characters", "tokens", "with", "--lean", "tokens"]
    assert any(line.startswith("read_file ") for line in lines)
    assert any(line.startswith("--profile nano --search ") for line in lines)
    assert len({len(line) for line in lines[:20]}) == 1
    assert "4 characters each" in text


def test_the_cost_covers_only_the_named_tools(command):
    report = json.loads(command.run("tools", "list", "--tokens", "--json", "--tools", "Read,undo").stdout)

    assert [tool["name"] for tool in report["tools"]] == ["read_file", "undo"]
    assert [tool_set["tools"] for tool_set in report["sets"]] == [2, 2, 2, 1, 1, 2, 1, 1, 2]


def test_the_figures_in_the_guide_are_right(command):
    with open(os.path.join(os.path.dirname(__file__), "../../../docs/guides/mcp.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| (everything|`--[^`]+`) \| (\d+) \| ([\d,]+) \| ([\d,]+) \|$", file.read(), re.MULTILINE)
    sets = json.loads(command.run("tools", "list", "--tokens", "--json").stdout)["sets"]

    assert len(rows) == 5
    for name, *figures in rows:
        tools, characters, tokens = (int(figure.replace(",", "")) for figure in figures)
        (tool_set,) = [
            candidate
            for candidate in sets
            if (candidate["lean"], candidate["search"]) == ("--lean" in name, "--search" in name)
            and candidate["profile"] == (name.strip("`").split()[1] if "--profile" in name else "full")
        ]
        assert tools == tool_set["tools"]
        assert characters == pytest.approx(tool_set["characters"], rel=0.05)
        assert tokens == pytest.approx(tool_set["tokens"], rel=0.05)


@pytest.mark.parametrize("words", [("list", "--jsn"), ("list", "--tokens", "--lean"), ("list", "x")])
def test_invalid_list_flags_are_reported(command, words):
    done = command.run("tools", *words)

    assert (done.returncode, b"Try hilt tools list --help." in done.stderr) == (2, True)


def test_the_list_is_available_as_json(command):
    for words in (("tools", "--json"), ("tools", "list", "--json")):
        listed = json.loads(command.run(*words).stdout)
        names = [tool["name"] for tool in listed["tools"]]
        assert names == command.run("tools", "list", "--names").stdout.decode().split()
        assert {"read_file", "run_shell"} <= set(names)
        assert {tool["source"] for tool in listed["tools"]} == {"built-in"}
        assert (listed["problems"], listed["untrusted"]) == ([], [])


@pytest.mark.parametrize("name, stands_for", [("read_file", None), ("Read", "read_file")])
def test_a_tool_is_available_as_json(command, name, stands_for):
    described = json.loads(command.run("tools", "show", name, "--json").stdout)

    assert (described["name"], described["stands_for"], described["effects"]) == (name, stands_for, ["read"])
    assert "path" in described["parameters"]["properties"]
    assert "x-" not in json.dumps(described["parameters"])


# --- selections ---------------------------------------------------------------------------------------------------


def test_only_the_named_tools_are_listed_and_run(command):
    command.folder.write("a", "x\n")

    listed = json.loads(command.run("--schema", "mcp", "--tools", "Read, stat_file").stdout)["tools"]
    replies = command.ask(
        {"tool": "read_file", "args": {"path": "a"}},
        {"tool": "write_file", "args": {"path": "b", "content": "x"}},
        {"tool": "tool_call", "args": {"name": "write_file", "arguments": {"path": "b", "content": "x"}}},
        words=("--tools", "Read,stat_file"),
    )

    assert [tool["name"] for tool in listed] == ["read_file", "stat_file"]
    assert [reply.get("error_code", "ok") for reply in replies] == ["ok", "denied", "denied"]
    assert "b" not in command.folder.tree()


def test_an_unknown_name_in_the_selection_suggests_the_nearest(command):
    done = command.run("--schema", "mcp", "--tools", "read_file,writ_file")

    assert (done.returncode, done.stdout) == (1, b"")
    assert b"write_file" in done.stderr
