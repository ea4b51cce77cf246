from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.servers.schema_cost import MAX_CHECKS, MAX_SIZE, cost_of, refuse_work, without_patterns


def branching(levels: int, keyword: str = "oneOf") -> dict[str, Any]:
    parts: dict[str, Any] = {f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**parts, f"d{levels}": {"type": "object"}}}


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"x": value}
    return value


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf", "allOf"])
def test_branching_references_cost_their_expanded_size(keyword):
    assert cost_of(branching(10, keyword)).size > 2**10
    assert cost_of(branching(200, keyword)).size > MAX_SIZE


def test_branching_references_by_anchor_cost_the_same():
    parts = {
        f"d{n}": {"$anchor": f"a{n}", "not": {"$ref": f"#a{n + 1}"}, "if": {"$ref": f"#a{n + 1}"}} for n in range(60)
    }
    schema = {"type": "object", "$ref": "#a0", "$defs": {**parts, "end": {"$anchor": "a60"}}}

    assert cost_of(schema).size > MAX_SIZE


def test_a_recursive_branching_schema_accepts_only_flat_arguments():
    schema = {"type": "object", "properties": {"x": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    cost = cost_of(schema)

    refuse_work(cost, nested(8))
    with pytest.raises(ToolError) as caught:
        refuse_work(cost, nested(60))
    assert caught.value.code == "invalid_args"


def test_a_plain_tree_schema_accepts_any_arguments():
    tree = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "x": {"$ref": "#"}, "all": {"items": {"$ref": "#"}}},
    }

    assert cost_of(tree).returns == 1
    refuse_work(cost_of(tree), nested(60))


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": "#"}]}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {"$dynamicRef": "#x"},
        {"properties": {"a": True, "b": False}}, {"$ref": "http://127.0.0.1/x"}, {"$ref": "#/nowhere"},
        {"items": [{}, {}]}, {"properties": 3, "items": "x", "allOf": None, "$ref": 7},
        {"$ref": "#/allOf/7", "allOf": [{}]},
    ],
)  # fmt: skip
def test_odd_schemas_cost_little(schema):
    assert cost_of(schema).size < 20


@pytest.mark.parametrize(
    "schema",
    [{"$defs": {"a": {"$id": "b"}}}, {"$ref": "#/$defs/%61", "$defs": {"a": {}}}],
)
def test_unsupported_references_are_rejected(schema):
    with pytest.raises(ValueError, match="schema"):
        cost_of(schema)


def test_many_values_for_a_large_schema_are_rejected():
    cost = cost_of({"type": "object", "properties": {"a": {"items": {"anyOf": [{"const": n} for n in range(2000)]}}}})

    refuse_work(cost, {"a": list(range(100))})
    with pytest.raises(ToolError):
        refuse_work(cost, {"a": list(range(MAX_CHECKS // 2000))})


words = st.sampled_from(
    ["a", "b", "properties", "allOf", "$ref", "$defs", "items", "pattern", "patternProperties", "const", "dependencies"]
)
values = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["#", "#/$defs/a", "#/allOf/0", "#/a/b", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(words, values, max_size=5))
def test_every_schema_has_a_cost(schema):
    assert cost_of(schema).size >= 1


def parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(inner)


@given(st.dictionaries(words, values, max_size=5))
def test_patterns_are_removed_behind_every_reference(schema):
    for part in parts(without_patterns(schema)):
        assert "patternProperties" not in part
        assert not isinstance(part.get("pattern"), str)


def test_only_patterns_are_removed():
    schema = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "pattern": "^a$", "default": "a"},
            "mode": {"enum": ["pattern", {"a": 1}]},
            "names": {"patternProperties": {"^x": {}}, "additionalProperties": False, "required": ["a"]},
        },
        "additionalProperties": False,
    }

    assert without_patterns(schema) == {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "default": "a"},
            "mode": {"enum": ["pattern", {"a": 1}]},
            "names": {"required": ["a"]},
        },
        "additionalProperties": False,
    }
