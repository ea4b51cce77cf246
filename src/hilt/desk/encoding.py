"""The values of the desk as JSON, the same on every surface, and the schemas of these."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hilt.formats.times import Moment, rfc3339
from hilt.schema import STRING, Schema, array, from_annotation, mapping, record


def plain(value: Any) -> Any:
    """Return a value of the desk as JSON values: tuples with names as objects, times as RFC 3339."""
    if isinstance(value, Moment):
        return rfc3339(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return value


def schema_of(annotation: Any) -> Schema:
    """Return the schema of what `plain` returns for a value with this annotation."""
    if annotation is Moment:
        return STRING
    if hasattr(annotation, "_fields"):
        return record(fields_of(annotation))
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple or origin is list:
        return array(schema_of(arguments[0]))
    if origin in (Union, UnionType):  # with None
        schema = schema_of(arguments[0])
        return {**schema, "type": [schema["type"], "null"]}
    if origin in (dict, Mapping):
        return {"type": "object"} if arguments[1] is Any else mapping(schema_of(arguments[1]))
    return from_annotation(annotation)


def fields_of(row: Any) -> dict[str, Schema]:
    """Return the schemas of the fields of a tuple with names."""
    hints = get_type_hints(row)
    return {name: schema_of(hints[name]) for name in row._fields}
