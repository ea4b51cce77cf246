"""Weakens foreign schemas, so that validating against them takes a bounded time.

Patterns and conditions are dropped, and so are references that recur or lead out of the definitions: a few of them can
keep a machine busy for hours. The server that wrote the schema validates the arguments too. The rest is a tree, and
checking a value takes at most one step for each part of both.
"""

from __future__ import annotations

import re
from typing import Any

from hilt.errors import ToolError
from hilt.schema import Schema

SCHEMAS_MAX = 20_000  # with every reference replaced by what it refers to
STEPS_MAX = 200_000_000

_OWN = frozenset(
    (
        *("$schema", "type", "enum", "const", "default", "required", "minimum", "maximum", "exclusiveMinimum"),
        *("exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties"),
        "maxProperties",
    )
)
_INNER = ("items", "prefixItems", "allOf", "anyOf", "additionalProperties")
_OTHER_REFERENCES = frozenset(("$dynamicRef", "$recursiveRef"))
_DEFINITION = re.compile(r"#/(\$defs|definitions)/([^/~%]+)\Z")


def bounded(schema: Schema) -> Schema:
    """Return a weaker schema, which accepts all that the schema accepts."""
    room = SCHEMAS_MAX

    def weaker(part: Any, references: tuple[str, ...]) -> Any:
        nonlocal room
        if isinstance(part, list):
            return [weaker(inner, references) for inner in part]
        if not isinstance(part, dict):
            return part
        room -= 1
        # in a part with its own id, references have another meaning
        if room < 0 or not _OTHER_REFERENCES.isdisjoint(part) or ("$id" in part and part is not schema):
            return {}
        if "$ref" in part:  # in older drafts, it overrides what is beside it
            definition = _DEFINITION.match(str(part["$ref"]))
            if definition is None or definition[0] in references:
                return {}
            definitions = schema.get(definition[1])
            target = definitions.get(definition[2], {}) if isinstance(definitions, dict) else {}
            return weaker(target, (*references, definition[0]))
        result = {key: value for key, value in part.items() if key in _OWN}
        if isinstance(properties := part.get("properties"), dict):
            result["properties"] = {name: weaker(inner, references) for name, inner in properties.items()}
        # what `additionalProperties` applies to depends on the patterns
        dropped = "additionalProperties" if "patternProperties" in part else ""
        return result | {key: weaker(part[key], references) for key in _INNER if key in part and key != dropped}

    try:
        result: Schema = weaker(schema, ())
    except RecursionError:
        return {}
    return result


def parts(value: Any) -> int:
    """Return the number of values in a JSON value, itself included."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(parts, inner))


def refuse_work(schema_parts: int, args: Any) -> None:
    """Raise if validating arguments against a schema with this many parts could take too long."""
    if schema_parts * parts(args) > STEPS_MAX:
        raise ToolError(
            "invalid_args",
            "The arguments are too many for the schema of this tool.",
            suggestion="Send fewer arguments.",
        )
