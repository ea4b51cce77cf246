from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt import Context, Output, ToolError, tool
from hilt.catalog import OPEN_DIALECTS, Catalog, built_in_names, dialect
from hilt.choices import dialect_names
from hilt.testing import temporary_runtime


@tool(effects="read")
def greet(ctx: Context, name: str = "you", times: int = 1) -> Output:
    """Greet somebody.

    Args:
        name: Whom to greet.
        times: How often.
    """
    return Output(" ".join([f"Hello, {name}."] * times))


def test_a_tool_passed_to_the_runtime_is_called_like_any_other(base):
    with temporary_runtime(base, tools=[greet]) as (runtime, _):
        assert runtime.call("greet", name="Ada", times=2.0).text == "Hello, Ada. Hello, Ada."
        error: Any = runtime.call("greet", nme="Ada").error
        assert error.suggestion == "Use name."


@pytest.mark.parametrize("name", ["read_file", "greet"])
def test_a_tool_name_cannot_be_used_twice(name):
    with pytest.raises(ValueError, match=f"already a tool called '{name}'"):
        Catalog([greet, greet._replace(name=name)])


@pytest.mark.parametrize(
    "name, near",
    [("readfile", "read_file"), ("ReadFile", "read_file"), ("read-file", "read_file"), ("list_dirs", "list_dir"), ("Raed", "Read")],  # noqa: E501
)  # fmt: skip
def test_an_unknown_name_suggests_the_nearest_tool(name, near):
    with pytest.raises(ToolError) as caught:
        Catalog().find(name)

    assert caught.value.code == "unknown_tool"
    nearest: Any = caught.value.details["nearest"]
    assert nearest[0] == near


@given(st.text(max_size=40))
def test_any_text_is_a_tool_name_or_unknown(name):
    known = {*built_in_names(), *dialect("jcli"), *dialect("agentos")}
    if name in known:
        assert Catalog().find(name).tool.name in built_in_names()
        return
    with pytest.raises(ToolError) as caught:
        Catalog().find(name)
    assert caught.value.code == "unknown_tool"


def test_dialect_names_map_to_existing_tools_and_open_dialects_clash_with_none():
    names = [name for dialect_name in OPEN_DIALECTS for name in dialect(dialect_name)]

    assert len(names) == len(set(names))
    assert set(names).isdisjoint(built_in_names())
    for dialect_name in dialect_names():
        for entry in dialect(dialect_name).values():
            assert entry.tool in built_in_names()


def test_a_bug_in_a_tool_is_an_incident_and_not_a_crash(base):
    @tool
    def broken() -> str:
        """Fail."""
        raise RuntimeError("secret detail")

    with temporary_runtime(base, tools=[broken]) as (runtime, _):
        error: Any = runtime.call("broken").error

    assert (error.code, "secret" in error.message) == ("internal", False)
    assert error.details["incident"] in error.message


@pytest.mark.parametrize(
    "value, text, data", [(None, "", None), ("x", "x", None), ({"a": 1}, "", {"a": 1}), ([1], "", [1])]
)
def test_a_tool_may_return_text_nothing_or_json(base, value, text, data):
    @tool
    def answer() -> object:
        """Answer."""
        return value

    with temporary_runtime(base, tools=[answer]) as (runtime, _):
        result = runtime.call("answer")

    assert (result.text, result.data) == (text, data)
