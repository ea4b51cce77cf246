from __future__ import annotations

import jsonschema_rs
import pytest

from hilt import catalog, tool
from hilt.choices import dialect_names
from hilt.testing import temporary_runtime

FINDERS = {"tool_search", "tool_call"}
HIDDEN = {"computer", "ComputerUse"}  # without a display


def test_every_tool_is_listed_without_its_schema(runtime):
    data = runtime.call("list_tools").data

    names = [name for name in catalog.built_in_names() if name not in FINDERS | HIDDEN]
    assert [entry["name"] for entry in data["tools"]] == names
    assert data["count"] == len(data["tools"])
    assert "schema" not in data
    read = next(entry for entry in data["tools"] if entry["name"] == "read_file")
    assert read == {
        "name": "read_file",
        "source": "built-in",
        "effects": ["read"],
        "description": "Read a text file with line numbers, or view an image.",
        "read_only": True,
    }


@pytest.mark.parametrize("include", [False, None])
def test_schemas_are_omitted_unless_requested(runtime, include):
    assert "schema" not in runtime.call("list_tools", include_schema=include).data


def test_schemas_are_an_openai_function_list(runtime):
    data = runtime.call("list_tools", include_schema=True).data

    assert [entry["function"]["name"] for entry in data["schema"]] == [entry["name"] for entry in data["tools"]]
    for entry in data["schema"]:
        assert entry["type"] == "function"
        jsonschema_rs.meta.validate(entry["function"]["parameters"])


def test_a_tool_passed_to_the_library_is_listed_with_its_source(base):
    @tool(effects="read")
    def shout(text: str) -> str:
        """Say it louder.

        Args:
            text: What to say.
        """
        return text.upper()

    with temporary_runtime(base, tools=[shout]) as (runtime, _):
        listed = {entry["name"]: entry for entry in runtime.call("list_tools").data["tools"]}

        assert listed["shout"]["source"] == "library"
        assert runtime.call("shout", text="hey").text == "HEY"


@pytest.mark.parametrize("name", dialect_names()[1:])
def test_under_a_dialect_only_its_names_are_listed(base, name):
    with temporary_runtime(base, flags={"dialect": name}) as (runtime, _):
        listed = [entry["name"] for entry in runtime.call("list_tools").data["tools"]]

    assert sorted(listed) == sorted(catalog.dialect(name).keys() - HIDDEN)


@pytest.mark.parametrize("args", [{"include_schema": "true"}, {"include_schemas": True}, {"include_schema": 1}])
def test_invalid_arguments_are_rejected(runtime, args):
    assert runtime.call("list_tools", **args).error.code == "invalid_args"
