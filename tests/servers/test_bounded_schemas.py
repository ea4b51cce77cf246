from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.servers.bounded_schemas import STEPS_MAX, bounded, parts, refuse_work


def test_only_what_takes_a_bounded_time_is_kept():
    schema = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "pattern": "^a$", "default": "a"},
            "mode": {"enum": ["pattern", {"$ref": 1}]},
            "names": {"patternProperties": {"^x": {}}, "additionalProperties": False, "required": ["a"]},
            "list": {"items": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}, "uniqueItems": True},
            "tree": {"$ref": "#/$defs/tree"},
            "other": {"not": {"pattern": "a"}, "if": {}, "oneOf": [{}, {}]},
        },
        "additionalProperties": False,
        "$defs": {"a": {"type": "string"}, "tree": {"items": {"$ref": "#/$defs/tree"}, "maxItems": 2}},
    }

    assert bounded(schema) == {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "default": "a"},
            "mode": {"enum": ["pattern", {"$ref": 1}]},
            "names": {"required": ["a"]},
            "list": {"items": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
            "tree": {"items": {}, "maxItems": 2},
            "other": {},
        },
        "additionalProperties": False,
    }


def test_many_values_for_a_large_schema_are_rejected():
    size = parts(bounded({"properties": {"a": {"items": {"anyOf": [{"const": n} for n in range(20_000)]}}}}))

    refuse_work(size, {"a": list(range(100))})
    with pytest.raises(ToolError) as caught:
        refuse_work(size, {"a": list(range(STEPS_MAX // 20_000))})
    assert caught.value.code == "invalid_args"


NAMES = st.sampled_from(("a", "b"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(("", "a", "ab")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=8,
)
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(("object", "array", "string", "integer", "null")),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "minimum": st.integers(0, 3),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(("a", "^b$")),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "uniqueItems": st.booleans(),
        "$ref": st.sampled_from(("#", "#/properties/a", "#/$defs/a")),
    },
)
SCHEMAS = st.recursive(
    st.booleans() | LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "patternProperties": st.dictionaries(NAMES, inner, max_size=1),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            **{key: st.lists(inner, min_size=1, max_size=2) for key in ("allOf", "anyOf", "oneOf")},
            **dict.fromkeys(("not", "if", "then", "else", "contains", "propertyNames"), inner),
        },
    ),
    max_leaves=8,
)


@given(SCHEMAS, SCHEMAS, VALUES)
def test_what_a_schema_accepts_is_accepted_by_the_weaker_one(schema: Any, definition: Any, value: Any):
    if isinstance(schema, dict):
        schema = {**schema, "$defs": {"a": definition}}
    try:
        accepted = jsonschema_rs.validator_for(schema).is_valid(value)
    except (ValueError, jsonschema_rs.ReferencingError):
        assume(False)  # a reference that leads nowhere
    assert not accepted or jsonschema_rs.validator_for(bounded(schema)).is_valid(value)
