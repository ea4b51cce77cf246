from __future__ import annotations

import json
from typing import Any

import pytest

from hilt import catalog
from hilt.choices import dialect_names
from hilt.declaration import tool
from hilt.errors import ToolError
from hilt.listing import NAMES_CHARACTERS, definition
from hilt.schema import CheckedArguments, cost
from hilt.testing import temporary_runtime

FINDERS = {"tool_search", "tool_call"}
UNSEEN = {"computer", "ComputerUse"}  # there is no display


@tool(effects="read")
def shout(text: str) -> str:
    """Say it louder.

    Args:
        text: What to say.
    """
    return text.upper()


def names(runtime, **how):
    return [entry.name for entry in runtime.parts.authority.listed_tools(runtime.session, **how)]


def test_all_tools_but_the_finders_are_shown_in_order_of_their_names(runtime):
    assert names(runtime) == [name for name in catalog.built_in_names() if name not in FINDERS | UNSEEN]
    assert [name for name, *_ in runtime.parts.authority.listed_tools(runtime.session)] == names(runtime)


def test_a_tool_is_shown_with_all_that_a_host_needs(base):
    with temporary_runtime(base, tools=[shout]) as (runtime, _):
        shown_tools = {entry.name: entry for entry in runtime.parts.authority.listed_tools("s")}

    assert shown_tools["shout"].title == "Shout"
    assert shown_tools["shout"].description == "Say it louder."
    assert shown_tools["shout"].schema["properties"]["text"] == {"type": "string", "description": "What to say."}
    assert shown_tools["shout"].effects == {"read"}
    assert shown_tools["shout"].output is None
    assert (shown_tools["list_tools"].output or {})["type"] == "object"
    assert "x-" not in json.dumps([entry.schema for entry in shown_tools.values()])


@pytest.mark.parametrize(
    "flags", [{"mode": "plan"}, {"profile": "nano"}, {"profile": "minimal"}, {"disabledTools": ["Bash"]}]
)
def test_tools_hidden_by_mode_profile_or_settings_are_not_shown(base, flags):
    with temporary_runtime(base, flags=flags) as (runtime, _):
        listed = names(runtime)

        assert "shell_exec" not in listed or "mode" in flags
        assert "apply_patch" not in listed or "disabledTools" in flags
        assert set(names(runtime, search=True)) == FINDERS


def test_the_mode_is_that_of_the_session(base):
    with temporary_runtime(base, session="planning") as (runtime, _):
        runtime.call("enter_plan_mode")

        assert "write_file" not in [entry.name for entry in runtime.parts.authority.listed_tools("planning")]
        assert "write_file" in [entry.name for entry in runtime.parts.authority.listed_tools("other")]


@pytest.mark.parametrize("name", dialect_names()[1:])
def test_under_a_dialect_its_names_are_shown_with_its_schemas(base, name):
    with temporary_runtime(base, flags={"dialect": name}) as (runtime, _):
        tools = runtime.parts.authority.listed_tools("s")

    entries = catalog.dialect(name)
    assert [entry.name for entry in tools] == [name for name in entries if name not in UNSEEN]
    assert all(entry.description == entries[entry.name].description and entry.output is None for entry in tools)


@pytest.mark.parametrize(
    "only", [("write_file", "read_file", "shout"), ("Write", "Read", "shout"), ("tool::file_write", "Read", "shout")]
)
def test_only_the_requested_tools_are_shown_under_any_of_their_names(base, only):
    with temporary_runtime(base, tools=[shout]) as (runtime, _):
        assert names(runtime, only=only) == ["read_file", "shout", "write_file"]


def test_an_unknown_name_is_reported_with_the_nearest(runtime):
    with pytest.raises(ToolError) as raised:
        names(runtime, only=("read_file", "writefil"))

    assert raised.value.code == "unknown_tool"
    assert "The nearest names are: write_file" in raised.value.message


# --- lean ---------------------------------------------------------------------------------------------------------


def described(schema):
    """Return every description of a schema, at any depth, but no property of that name."""
    descriptions = [schema["description"]] if isinstance(schema.get("description"), str) else []
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), *schema.get("anyOf", ())):
        descriptions += described(inner) if isinstance(inner, dict) else []
    return descriptions


def test_lean_omits_only_the_descriptions_of_parameters(runtime):
    full, lean = (runtime.parts.authority.listed_tools("s", lean=lean) for lean in (False, True))

    assert [(entry.name, entry.description) for entry in lean] == [(entry.name, entry.description) for entry in full]
    assert any(described(entry.schema) for entry in full)
    assert [described(entry.schema) for entry in lean] == [[]] * len(lean)
    for entry, short in zip(full, lean, strict=True):
        assert short.schema.get("required") == entry.schema.get("required")
        assert short.schema["properties"].keys() == entry.schema["properties"].keys()
    assert sum(cost(definition(entry)) for entry in lean) < sum(cost(definition(entry)) for entry in full)


def test_a_parameter_called_description_stays(base):
    @tool(effects="read")
    def label(description: str) -> str:
        """Label it.

        Args:
            description: What it is.
        """
        return description

    with temporary_runtime(base, tools=[label]) as (runtime, _):
        (shown_tool,) = runtime.parts.authority.listed_tools("s", only=("label",), lean=True)

    assert shown_tool.schema["properties"] == {"description": {"type": "string"}}


def test_lean_omits_descriptions_anywhere_in_a_foreign_schema(base):
    text = {"type": "string", "description": "said"}
    holds: dict[str, Any] = {
        "type": "object",
        "properties": {"a": text, "description": {"enum": ["description"], "default": {"description": "kept"}}},
        "patternProperties": {"^x": text},
        "additionalProperties": text,
        "items": [text],
        "if": {"properties": {"b": text}},
        "then": {"anyOf": [text, {"contains": text}]},
        "$defs": {"description": text},
    }
    own = shout._replace(schema=holds, check=lambda args: CheckedArguments(args, []))
    with temporary_runtime(base, tools=[own]) as (runtime, _):
        (shown_tool,) = runtime.parts.authority.listed_tools("s", only=("shout",), lean=True)

    assert "said" not in json.dumps(shown_tool.schema)
    assert shown_tool.schema["properties"]["description"] == holds["properties"]["description"]
    assert shown_tool.schema.keys() == holds.keys()
    assert "said" in json.dumps(holds)


# --- search -------------------------------------------------------------------------------------------------------


def test_a_search_tool_names_the_tools_it_searches(base):
    with temporary_runtime(base, tools=[shout], flags={"disabledTools": ["write_file"]}) as (runtime, _):
        call, search = runtime.parts.authority.listed_tools("s", search=True)

    assert (call.name, search.name) == ("tool_call", "tool_search")
    assert " shout," in search.description
    assert "read_file" in search.description
    assert "write_file" not in search.description


def test_the_names_of_very_many_tools_are_truncated(base):
    many = [shout._replace(name=f"tool_number_{number:04}") for number in range(500)]
    with temporary_runtime(base, tools=many) as (runtime, _):
        search = runtime.parts.authority.listed_tools("s", search=True)[1]

    assert len(search.description) < NAMES_CHARACTERS + 300
    assert " more." in search.description


def test_disabled_search_tools_are_not_shown(base):
    with temporary_runtime(base, flags={"disabledTools": ["tool_call"]}) as (runtime, _):
        assert names(runtime, search=True) == ["tool_search"]


# --- the setting tools.only ---------------------------------------------------------------------------------------


def test_tools_that_the_setting_does_not_name_are_neither_shown_nor_run(base):
    with temporary_runtime(base, flags={"tools.only": ["Read", "run_shell"]}) as (runtime, workspace):
        refused = runtime.call("write_file", path="a", content="x")
        sibling = runtime.call("shell_exec", argv=["ls"])
        workspace.write("b", "x\n")

        assert names(runtime) == ["read_file", "run_shell"]
        assert refused.error is not None
        assert sibling.error is not None
        assert (refused.error.code, sibling.error.code) == ("denied", "denied")
        assert "tools.only" in refused.error.message
        assert runtime.call("read_file", path="b").ok
        assert workspace.tree() == {"b": "x\n"}
        assert set(names(runtime, search=True)) == FINDERS


def test_an_unknown_name_in_the_setting_shows_nothing_more(base):
    with temporary_runtime(base, flags={"tools.only": ["read_file", "nothing"]}) as (runtime, _):
        assert names(runtime) == ["read_file"]
