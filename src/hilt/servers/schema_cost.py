"""How much work a schema from outside can make: a few references that fork are enough for more than any machine does.

`size` is how many schemas are looked at for one value, with every reference followed. A schema that leads back to
itself does so again for each level of the value; `returns` is how often it may for the same part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hilt.errors import ToolError
from hilt.schema import Schema

MOST = 20_000_000  # looks at a schema: about a second
SIZE_MOST = 1_000_000

# keywords that hold schemas for parts of a value; those of one line never speak of the same part twice
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
_OTHERS = ("additionalProperties", "unevaluatedProperties")  # speak of the names that no pattern has
_DATA = ("enum", "const", "default", "examples")


class SchemaCost(NamedTuple):
    """What a schema costs."""

    size: int = 1
    returns: int = 0


def cost_of(schema: Schema) -> SchemaCost:
    """Return what a schema costs; raise ValueError when that cannot be told."""
    return _SchemaWalk(schema).cost(schema)


def refuse_work(cost: SchemaCost, args: Any) -> None:
    """Raise when holding arguments against a schema could take longer than anybody waits."""
    values, depth = _measured(args)
    if cost.size * values * max(1, cost.returns) ** depth > MOST:
        raise ToolError(
            "invalid_args",
            "The arguments are too many or nested too deep for the schema of this tool.",
            suggestion="Send fewer, or flatter ones.",
        )


def without_patterns(schema: Any) -> Any:
    """Return a schema that asks for no patterns: a few short ones are enough to keep a machine busy for minutes.

    Whoever wrote them looks at the arguments too.
    """
    if isinstance(schema, list):
        return [without_patterns(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = (*_PATTERNS, *_OTHERS) if "patternProperties" in schema else _PATTERNS
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in dropped or (key in _DATA and any(set(_PATTERNS) & part.keys() for part in _parts(value))):
            continue  # what is only data may still be where a reference leads
        if key in _DATA:
            kept[key] = value
        elif key in _MAPS and isinstance(value, dict):
            # a reference may take the names for keywords
            named = [(name, inner) for name, inner in value.items() if name != "patternProperties"]
            kept[key] = {name: without_patterns(inner) for name, inner in named if not isinstance(inner, str)}
        else:
            kept[key] = without_patterns(value)
    return kept


class _SchemaWalk:
    """One look through a schema, each part once."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._known: dict[int, SchemaCost | None] = {}  # None: being looked at
        self._anchors: dict[str, Any] = {}
        for part in _parts(root):
            if part is not root and "$id" in part:
                raise ValueError("its schema has parts with an $id of their own")
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(part.get(key), str):
                    self._anchors.setdefault(part[key], part)

    def cost(self, schema: Any) -> SchemaCost:
        if not isinstance(schema, dict):
            return SchemaCost()
        if id(schema) in self._known:
            return self._known[id(schema)] or SchemaCost(1, 1)
        self._known[id(schema)] = None
        same = [self.cost(inner) for key in _SAME for inner in _held(schema, key)]
        same += [self.cost(self._target(schema[key])) for key in _REFERENCES if isinstance(schema.get(key), str)]
        size = 1 + sum(one.size for one in same)
        below = 0
        for kind in _CHILDREN:
            returns = 0
            for line in kind:
                costs = [self.cost(inner) for key in line for inner in _held(schema, key)]
                size += sum(one.size for one in costs)
                returns += max((one.returns for one in costs), default=0)
            below = max(below, returns)
        found = self._known[id(schema)] = SchemaCost(size, below + sum(one.returns for one in same))
        return found

    def _target(self, reference: str) -> Any:
        """Return the part of the schema that a reference names; None for one that leads elsewhere."""
        place, _, fragment = reference.partition("#")
        if place and place != self._root.get("$id"):
            return None
        if not fragment.startswith("/"):
            return self._anchors.get(fragment) if fragment else self._root
        found: Any = self._root
        for word in fragment[1:].split("/"):
            key = word.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, Mapping) and key in found:
                found = found[key]
            elif "%" in key:
                raise ValueError("its schema has a reference that is spelled with %")
            else:
                return None
        return found


def _held(schema: Schema, key: str) -> Iterator[Any]:
    """Yield the schemas that a keyword holds."""
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


def _measured(value: Any) -> tuple[int, int]:
    """Return how many values there are in a value, and how deep they are nested."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    measured = [_measured(one) for one in inner]
    return 1 + sum(values for values, _ in measured), 1 + max((depth for _, depth in measured), default=0)
