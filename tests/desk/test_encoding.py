from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jsonschema_rs
import pytest

from hilt.desk.encoding import plain
from hilt.formats.times import Moment
from hilt.surfaces.http.routes import fields_of, schema_of


class Inner(NamedTuple):
    at: Moment
    names: tuple[str, ...]


class Outer(NamedTuple):
    inner: Inner | None
    rows: list[Inner]
    by_name: dict[str, Inner]


class Other(NamedTuple):
    number: int
    ratio: float
    kind: Literal["a", "b"]
    done: bool
    at: Moment | None
    data: Mapping[str, Any]
    counts: dict[str, int]


@pytest.mark.parametrize(
    "value, encoded",
    [
        (Moment(1_500_000_000), "1970-01-01T00:00:01.500000000Z"),
        (1_500_000_000, 1_500_000_000),
        (Inner(Moment(0), ("a", "b")), {"at": "1970-01-01T00:00:00.000000000Z", "names": ["a", "b"]}),
        (
            Outer(None, [Inner(Moment(0), ())], {"x": Inner(Moment(0), ())}),
            {
                "inner": None,
                "rows": [{"at": "1970-01-01T00:00:00.000000000Z", "names": []}],
                "by_name": {"x": {"at": "1970-01-01T00:00:00.000000000Z", "names": []}},
            },
        ),
        ({"as": ["it", 1, 1.5, True, None]}, {"as": ["it", 1, 1.5, True, None]}),
    ],
)
def test_values_are_encoded_as_json_values(value: Any, encoded: Any):
    assert plain(value) == encoded


TIME = {"type": "string"}
INNER = {
    "type": "object",
    "properties": {"at": TIME, "names": {"type": "array", "items": {"type": "string"}}},
    "required": ["at", "names"],
}


def test_the_schema_of_a_row_has_its_fields_and_types():
    assert schema_of(Inner) == INNER
    assert fields_of(Outer) == {
        "inner": {**INNER, "type": ["object", "null"]},
        "rows": {"type": "array", "items": INNER},
        "by_name": {"type": "object", "additionalProperties": INNER},
    }
    assert fields_of(Other) == {
        "number": {"type": "integer"},
        "ratio": {"type": "number"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "done": {"type": "boolean"},
        "at": {"type": ["string", "null"]},
        "data": {"type": "object"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    }


@pytest.mark.parametrize(
    "value",
    [
        Outer(None, [Inner(Moment(0), ("a",))], {"x": Inner(Moment(0), ())}),
        Other(1, 0.5, "b", done=True, at=None, data={"x": [1]}, counts={"y": 2}),
    ],
)
def test_an_encoded_value_matches_the_schema_of_its_type(value: Any):
    jsonschema_rs.Draft202012Validator(schema_of(type(value))).validate(plain(value))
