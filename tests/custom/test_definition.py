from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.call import Output
from hilt.custom.definition import (
    Definition,
    Example,
    FieldReader,
    definition_of,
    fingerprint,
    to_tool,
)
from hilt.formats.front_matter import FrontMatter
from hilt.processes.declared_sandbox import DeclaredSandbox
from hilt.schema import structured_schema

ANSWER = {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]}


def parse(key: str, value: object) -> tuple[Any, list[str]]:
    """Return the value of a key, and its problems."""
    reader = FieldReader(FrontMatter({key: value}, {}, "", 1))
    return getattr(reader, key)(), [message for _, message in reader.problems]


def definition(**fields: Any) -> Definition:
    all_fields = {"source": "personal", "format": "python", "details": {"outputSchema": ANSWER}, **fields}
    return Definition("count", "Count.", {"type": "object"}, "count.py", folder=".", content_hash="", **all_fields)


@pytest.mark.parametrize("form", ["python", "javascript", "server"])
def test_the_output_schema_becomes_that_of_the_tool(form):
    tool = to_tool(definition(format=form), lambda ctx, args: Output())

    assert tool.output == ANSWER
    assert structured_schema(tool.output) == ANSWER


def test_a_script_with_an_output_schema_may_print_something_else():
    tool = to_tool(definition(format="folder"), lambda ctx, args: Output())

    assert tool.output is not None
    assert tool.output["required"] == ["words"]
    assert structured_schema(tool.output) is None


@pytest.mark.parametrize("details", [{}, {"outputSchema": None}])
def test_a_tool_without_an_output_schema_declares_none(details):
    assert to_tool(definition(details=details), lambda ctx, args: Output()).output is None


@given(st.dictionaries(st.text(), st.binary(), min_size=1), st.dictionaries(st.text(), st.binary(), min_size=1))
def test_different_files_have_different_fingerprints(first, second):
    assert (fingerprint(first) == fingerprint(second)) == (first == second)


def test_a_tool_knows_its_definition():
    declared = definition(source="project")

    tool = to_tool(declared, lambda ctx, args: pytest.fail("not called"))

    assert definition_of(tool) is declared
    assert (tool.name, tool.source, tool.effects) == ("count", "project", frozenset(["execute"]))
    assert tool.timeout > declared.timeout
    assert to_tool(declared._replace(read_only=True), tool.run).effects == {"read"}
    assert definition_of(tool._replace(run=lambda ctx, args: None)) is None  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    "value, sandbox, reason",
    [
        (None, None, ""),
        ({}, DeclaredSandbox(), ""),
        ({"network": True, "write": ["a"], "read": ["b"]}, DeclaredSandbox(True, ("a",), ("b",)), ""),
        ({"write": None}, DeclaredSandbox(), ""),
        ("off", None, "must be an object"),
        ({"network": "no"}, None, "network must be true or false"),
        ({"write": "a"}, None, "write must be a list of paths"),
        ({"read": [1]}, None, "read must be a list of paths"),
        ({"reed": []}, None, "sandbox.reed"),
    ],
)
def test_a_sandbox_is_parsed_or_rejected(value, sandbox, reason):
    parsed, problems = parse("sandbox", value)

    assert parsed == sandbox
    assert reason in " ".join(problems)
    assert bool(problems) == bool(reason)


@pytest.mark.parametrize(
    "value, examples, is_rejected",
    [
        (None, (), False),
        ([{"args": {"a": 1}, "expect": None}, {}], (Example({"a": 1}, None, True), Example({})), False),
        ({}, (), True),
        ([{"args": 1}], (), True),
        ([1], (), True),
    ],
)
def test_examples_are_parsed_or_rejected(value, examples, is_rejected):
    parsed, problems = parse("examples", value)

    assert (parsed, bool(problems)) == (examples, is_rejected)


@pytest.mark.parametrize(
    "value, effects", [(None, None), ("read network", {"read", "network"}), (["write"], {"write"})]
)
def test_effects_are_a_string_or_a_list(value, effects):
    assert parse("effects", value) == (effects, [])


@pytest.mark.parametrize("value", ["fly", [], "", [1], {}, [["read"]]])
def test_unknown_effects_are_rejected(value):
    assert parse("effects", value)[0] is None
    assert parse("effects", value)[1]
