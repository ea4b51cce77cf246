"""Bounds the work of validating against a foreign schema: a few branching references can make it exponential.

`size` is the number of schemas checked for one value, with every reference followed. A recursive schema is checked
again for each level of the value; `returns` is how often it may recurse for the same part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hilt.errors import ToolError
from hilt.schema import Schema

MAX_CHECKS = 20_000_000  # schema checks: about a second
MAX_SIZE = 1_000_000

# keywords with schemas for parts of a value; the keywords of one group never apply to the same part
_CHILDREN = (
    (
        ("properties",),
        ("patternProperties",),
        ("additionalProperties",),
        ("unevaluatedProperties",),
        ("propertyNames",),
    ),
    (("items", "prefixItems", "additionalItems"), ("contains",), ("unevaluatedItems",)),
)
_NAMED = ("properties", "patternProperties", "dependentSchemas", "dependencies")  # schemas by name
_SAME = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_MAPS = (*_NAMED, "$defs", "definitions")
_PATTERNS = ("pattern", "patternProperties")
_OTHERS = ("additionalProperties", "unevaluatedProperties")  # apply to names that no pattern matches
_DATA = ("enum", "const", "default", "examples")


class SchemaCost(NamedTuple):
    """The cost of validating against a schema."""

    size: int = 1
    returns: int = 0


def cost_of(schema: Schema) -> SchemaCost:
    """Return the cost of a schema; raise ValueError if it cannot be determined."""
    return _SchemaWalk(schema).cost(schema)


def refuse_work(cost: SchemaCost, args: Any) -> None:
    """Raise if validating arguments against a schema could take too long."""
    values, depth = _measure(args)
    if cost.size * values * max(1, cost.returns) ** depth > MAX_CHECKS:
        raise ToolError(
            "invalid_args",
            "The arguments are too many or nested too deeply for the schema of this tool.",
            suggestion="Send fewer or flatter arguments.",
        )


def without_patterns(schema: Any) -> Any:
    """Return a schema without patterns: a few short ones can keep a machine busy for minutes.

    The server that wrote them validates the arguments too.
    """
    if isinstance(schema, list):
        return [without_patterns(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = (*_PATTERNS, *_OTHERS) if "patternProperties" in schema else _PATTERNS
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in dropped or (key in _DATA and any(set(_PATTERNS) & part.keys() for part in _parts(value))):
            continue  # data may still be the target of a reference
        if key in _DATA:
            result[key] = value
        elif key in _MAPS and isinstance(value, dict):
            # a reference may interpret the names as keywords
            entries = [(name, inner) for name, inner in value.items() if name != "patternProperties"]
            result[key] = {name: without_patterns(inner) for name, inner in entries if not isinstance(inner, str)}
        else:
            result[key] = without_patterns(value)
    return result


class _SchemaWalk:
    """A walk through a schema that visits each part once."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._known: dict[int, SchemaCost | None] = {}  # None: being visited
        self._anchors: dict[str, Any] = {}
        for part in _parts(root):
            if part is not root and "$id" in part:
                raise ValueError("its schema has a nested $id, which is not supported")
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(part.get(key), str):
                    self._anchors.setdefault(part[key], part)

    def cost(self, schema: Any) -> SchemaCost:
        if not isinstance(schema, dict):
            return SchemaCost()
        if id(schema) in self._known:
            return self._known[id(schema)] or SchemaCost(1, 1)
        self._known[id(schema)] = None
        same = [self.cost(inner) for key in _SAME for inner in _subschemas(schema, key)]
        same += [self.cost(self._target(schema[key])) for key in _REFERENCES if isinstance(schema.get(key), str)]
        size = 1 + sum(inner.size for inner in same)
        below = 0
        for kind in _CHILDREN:
            returns = 0
            for group in kind:
                costs = [self.cost(inner) for key in group for inner in _subschemas(schema, key)]
                size += sum(inner.size for inner in costs)
                returns += max((inner.returns for inner in costs), default=0)
            below = max(below, returns)
        cost = self._known[id(schema)] = SchemaCost(size, below + sum(inner.returns for inner in same))
        return cost

    def _target(self, reference: str) -> Any:
        """Return the part of the schema that a reference names; None for an external or unresolved one."""
        place, _, fragment = reference.partition("#")
        if place and place != self._root.get("$id"):
            return None
        if not fragment.startswith("/"):
            return self._anchors.get(fragment) if fragment else self._root
        part: Any = self._root
        for token in fragment[1:].split("/"):
            key = token.replace("~1", "/").replace("~0", "~")
            if isinstance(part, list) and key.isdecimal() and int(key) < len(part):
                part = part[int(key)]
            elif isinstance(part, Mapping) and key in part:
                part = part[key]
            elif "%" in key:
                raise ValueError("its schema has a percent-encoded reference, which is not supported")
            else:
                return None
        return part


def _subschemas(schema: Schema, key: str) -> Iterator[Any]:
    """Yield the schemas below a keyword."""
    value = schema.get(key)
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict) and key in _NAMED:
        yield from value.values()
    elif value is not None:
        yield value


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(inner)


def _measure(value: Any) -> tuple[int, int]:
    """Return the number of nested values in a value, and their depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    measured = [_measure(item) for item in inner]
    return 1 + sum(values for values, _ in measured), 1 + max((depth for _, depth in measured), default=0)
