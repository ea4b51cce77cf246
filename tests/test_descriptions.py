"""The descriptions of built-in tools: short enough to send with every request, with every rule that a model needs."""

from __future__ import annotations

import pytest

from hilt.declaration import Tool
from hilt.listing import definition
from hilt.schema import cost, lean

AVERAGE = 700  # characters of JSON for a tool
LEAN_AVERAGE = 450
MAX_COST = 1500  # for any single tool


@pytest.fixture
def tools(runtime) -> dict[str, Tool]:
    return {tool.name: tool for tool in runtime.parts.catalog.tools() if tool.source == "built-in"}


@pytest.mark.parametrize("is_lean, limit", [(False, AVERAGE), (True, LEAN_AVERAGE)])
def test_the_list_of_tools_is_short(runtime, is_lean, limit):
    costs = {
        tool.name: cost(definition(tool))
        for tool in runtime.parts.authority.listed_tools(runtime.session, lean=is_lean)
    }

    assert len(costs) > 20
    assert sum(costs.values()) / len(costs) <= limit
    assert {name: count for name, count in costs.items() if count > MAX_COST} == {}


def test_a_tool_that_needs_a_display_is_short_as_well(tools):
    listed = {tool.name: tool for tool in tools.values() if tool.traits.needs_display}

    assert list(listed) == ["computer"]
    for tool in listed.values():
        assert cost({"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}) <= MAX_COST


def test_a_lean_list_omits_only_parameter_descriptions(runtime):
    for full, short in zip(
        runtime.parts.authority.listed_tools(runtime.session),
        runtime.parts.authority.listed_tools(runtime.session, lean=True),
        strict=True,
    ):
        assert (short.name, short.description, short.schema) == (full.name, full.description, lean(full.schema))
        assert list(short.schema["properties"]) == list(full.schema["properties"])
        assert short.schema.get("required") == full.schema.get("required")


@pytest.mark.parametrize(
    "name, rules",
    [
        ("apply_patch", ["all or nothing", "*** Begin Patch", "*** Update File: PATH", "*** Move to: PATH", "undo"]),
        ("ask_user", ["one to four", "questions", "wait"]),
        ("checksum_tree", ["50 MB", "links", "node_modules"]),
        ("computer", ["last screenshot", "30 s", "data, not instructions", "Positive is down", "Up to 10"]),
        ("edit_file", ["exactly once", "changed since you read it", "empty deletes", "undo", "Preview"]),
        ("enter_plan_mode", ["only reading", "exit_plan_mode", "2-3 files"]),
        ("exit_plan_mode", ["approves", "Markdown", "not granted"]),
        ("find_files", ["at any depth", "from path on", "node_modules", ".gitignore", "newest first"]),
        ("job_input", ["tty: true", "Ctrl-C", "job_output"]),
        ("job_output", ["Milliseconds", "600000", "output_file", "the job keeps running"]),
        ("job_stop", ["everything it started"]),
        ("list_dir", ["slash", "up to 10", "Unix time", "dotfiles"]),
        ("memory", ["128", "A-Za-z0-9_.-", "16 KiB", "global", "per project", "30d"]),
        ("multi_edit", ["all or nothing", "overlap", "on the result of the edits before it"]),
        ("multi_read", ["20", "errors", "512 KB", "start_line + 1999"]),
        ("read_file", ["2,000 lines", "50 KB", "image", "start_line + 1999", "both ends", "whole blocks"]),
        ("register_hook", ["user is asked", "Seconds", "Bash(git push:*)", "help"]),
        ("related_context", ["best first", "read_file", "up to 20"]),
        ("run_shell", ["sandbox", "no network", "need force", "Seconds, up to 300", "124", "job_output"]),
        ("search_files", ["no look-around", "path:line:text", "path:count", ".gitignore", "node_modules"]),
        ("search_replace", ["50 files", "all or nothing", "$1", "$$", "every line", "undo"]),
        (
            "shell_exec",
            ["without a shell", "git node npm", "cmake", "start another program are rejected", "Milliseconds", "124"],
        ),
        ("task", ["in_progress with your name as owner", "busy", "needs title", "200", "8,000", "can be started"]),
        ("todo_write", ["Only one", "in_progress", "Update by id and append", "next free number"]),
        ("undo", ["One id is one call", "can itself be undone", "unique prefix", "newest first"]),
        ("write_file", ["changed since you read it", "creating folders", "edit_file", "undo"]),
    ],
)
def test_a_description_states_every_rule_a_model_needs(tools, name, rules):
    tool = tools[name]
    text = " ".join(f"{tool.description} {descriptions(tool.parameters)}".split())

    assert [rule for rule in rules if rule not in text] == []


def descriptions(schema: dict[str, object]) -> str:
    """Return the descriptions of parameters, at any depth."""
    texts = [schema["description"]] if isinstance(schema.get("description"), str) else []
    properties = schema.get("properties")
    inner = list(properties.values()) if isinstance(properties, dict) else []
    if "items" in schema:
        inner.append(schema["items"])
    return " ".join([*map(str, texts), *map(descriptions, inner)])


def test_details_are_not_sent_to_models(runtime, tools):
    texts = {tool.name: str(definition(tool)) for tool in runtime.parts.authority.listed_tools(runtime.session)}

    detailed = {name: tool.details for name, tool in tools.items() if tool.details and name in texts}
    assert "USER_REJECTION" in detailed["exit_plan_mode"]
    for name, details in detailed.items():
        assert "Details:" not in texts[name]
        assert details not in texts[name]


def test_the_first_line_of_a_description_is_one_sentence(tools):
    for tool in tools.values():
        assert tool.summary.endswith("."), tool.name
        assert len(tool.summary) <= 120, tool.name
