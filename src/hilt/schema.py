"""Build a JSON Schema from a signature and its docstring, and validate arguments against it.

Built-in tools use the subset of JSON Schema that a signature can express, validated here with the standard library.
Custom and remote tools may use any JSON Schema; `check_any` passes those to jsonschema-rs. Both report every
violation in the same shape.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from hilt.errors import ToolError, did_you_mean
from hilt.params import Bounds, Items, Spellings, TouchMark

Schema = dict[str, Any]

CLAMP = "x-clamp"  # marks a number that is clamped to its limits instead of rejected
TOUCH = "x-touch"  # the effect of the call on the target that the argument names
SPELLINGS = "x-spellings"  # other spellings of the values of an enumeration
TEXT = "x-text"  # marks the output schema of a tool that may return plain text instead

VIOLATIONS_IN_MESSAGE = 20
FOREIGN_MESSAGE_CHARACTERS = 300  # of one message from jsonschema-rs
VIOLATIONS_IN_DETAILS = 100  # a request can contain millions, so checking stops after these
_COPIED = 10_000_000  # characters: jsonschema-rs copies a part of the value into each of its errors

_TYPES: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_KINDS: dict[type, str] = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    str: "string",
    list: "array",
    dict: "object",
}
ARTICLES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


# building blocks of output schemas
STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
NEXT: Schema = {  # the call that continues where a result was cut
    "type": "object",
    "properties": {"tool": STRING, "args": {"type": "object"}},
    "required": ["tool", "args"],
}


def array(items: Schema) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    """Return the schema of an object with arbitrary keys."""
    return {"type": "object", "additionalProperties": values}


def record(properties: dict[str, Schema], *, optional: str = "") -> Schema:
    """Return the schema of an object with these properties; `optional` is a space-separated list of names."""
    not_required = optional.split()
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in not_required],
    }


def fields(text: str, **kinds: Schema) -> Schema:
    """Return the schema of an object with these fields: `name:kind`, or `name?:kind` for one that may be missing.

    A kind is a JSON type, several joined by |, the name of one of `kinds`, `next` for a call, or any of these in
    brackets for an array.
    """
    pairs = [field.split(":") for field in text.split()]
    properties = {name.removesuffix("?"): _kind_schema(kind, {"next": NEXT, **kinds}) for name, kind in pairs}
    return record(properties, optional=" ".join(name[:-1] for name, _ in pairs if name.endswith("?")))


def _kind_schema(kind: str, kinds: dict[str, Schema]) -> Schema:
    if kind.startswith("["):
        return array(_kind_schema(kind[1:-1], kinds))
    types = kind.split("|")
    return kinds.get(kind) or {"type": types if len(types) > 1 else kind}


class Violation(NamedTuple):
    """One way in which the arguments are invalid."""

    path: str
    message: str
    suggestion: str | None = None


class _TooManyViolations(Exception):
    """The list of violations is full."""


class _Violations(list[Violation]):
    """The violations so far; checking ends when there are too many."""

    def append(self, violation: Violation) -> None:
        super().append(violation)
        if len(self) == VIOLATIONS_IN_DETAILS:
            raise _TooManyViolations


class CheckedArguments(NamedTuple):
    """Arguments with defaults filled in, and notes on values that were clamped."""

    args: dict[str, Any]
    notes: list[str]


# --- schema from a signature ------------------------------------------------------------------------------------


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into its description and the entries of its `Args:` section."""
    description: list[str] = []
    entries: dict[str, str] = {}
    current: str | None = None
    in_args = False
    for raw in text.strip().split("\n"):
        line = raw.strip()
        if line == "Args:":
            in_args = True
        elif not in_args:
            description.append(line)
        elif line:
            name, colon, rest = line.partition(":")
            if colon and name.isidentifier() and _indent(raw) <= 8:
                current = name
                entries[name] = rest.strip()
            elif current is not None:
                entries[current] = f"{entries[current]} {line}".strip()
    return "\n".join(description).strip(), entries


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def from_function(function: Callable[..., Any], *, skip: int) -> tuple[str, Schema, dict[str, Any]]:
    """Return the description, the schema of the parameters after the first `skip`, and their annotations."""
    code = function.__code__
    names = code.co_varnames[skip : code.co_argcount + code.co_kwonlyargcount]
    hints = _annotations(function)
    positional = function.__defaults__ or ()
    defaults = dict(
        zip(code.co_varnames[code.co_argcount - len(positional) : code.co_argcount], positional, strict=True)
    )
    defaults.update(function.__kwdefaults__ or {})
    description, entries = parse_docstring(function.__doc__ or "")
    annotations = {name: hints[name] for name in names}
    return description, _object(annotations, defaults, entries), annotations


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    hints = function.__annotations__
    if any(isinstance(hint, str) for hint in hints.values()):
        from typing import get_type_hints

        return get_type_hints(function, include_extras=True)
    return hints


def _object(annotations: dict[str, Any], defaults: dict[str, Any], entries: dict[str, str]) -> Schema:
    properties: dict[str, Schema] = {}
    for name, annotation in annotations.items():
        schema = from_annotation(annotation)
        if name in entries:
            schema["description"] = entries[name]
        if defaults.get(name) is not None:
            schema["default"] = defaults[name]
        properties[name] = schema
    schema = {"type": "object", "properties": properties}
    required = [name for name in annotations if name not in defaults]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def from_annotation(annotation: Any) -> Schema:
    """Return the schema of one annotation; `| None` only makes the argument optional."""
    if annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    origin = get_origin(annotation)
    metadata = getattr(annotation, "__metadata__", None)
    if metadata is not None:
        return _marked(from_annotation(annotation.__origin__), metadata)
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(annotation))}
    if origin is list:
        return {"type": "array", "items": from_annotation(get_args(annotation)[0])}
    if origin is dict or annotation is dict:
        values = get_args(annotation)
        extra = from_annotation(values[1]) if values and values[1] is not Any else True
        return {"type": "object", "additionalProperties": extra}
    if origin is Union or origin is UnionType:
        choices = [from_annotation(choice) for choice in get_args(annotation) if choice is not NoneType]
        return choices[0] if len(choices) == 1 else {"anyOf": choices}
    if isinstance(annotation, type) and hasattr(annotation, "_field_defaults"):
        _, entries = parse_docstring(annotation.__doc__ or "")
        return _object(_field_annotations(annotation), annotation._field_defaults, entries)
    if annotation is Any:
        return {}
    raise TypeError(f"unsupported type of a tool parameter: {annotation!r}")


def _field_annotations(record: Any) -> dict[str, Any]:
    if any(isinstance(hint, str) or type(hint).__name__ == "ForwardRef" for hint in record.__annotations__.values()):
        from typing import get_type_hints

        return get_type_hints(record, include_extras=True)
    return dict(record.__annotations__)


def _marked(schema: Schema, metadata: Iterable[object]) -> Schema:
    for mark in metadata:
        if isinstance(mark, TouchMark):
            schema[TOUCH] = mark.effect
        elif isinstance(mark, Bounds):
            if mark.minimum is not None:
                schema["minimum"] = mark.minimum
            if mark.maximum is not None:
                schema["maximum"] = mark.maximum
            if mark.clamp:
                schema[CLAMP] = True
        elif isinstance(mark, Spellings):
            schema[SPELLINGS] = dict(mark.values)
        elif isinstance(mark, Items):
            if mark.minimum is not None:
                schema["minItems"] = mark.minimum
            if mark.maximum is not None:
                schema["maxItems"] = mark.maximum
    return schema


def public(schema: Any) -> Any:
    """Return the schema without hilt's own keywords."""
    if isinstance(schema, dict):
        return {key: public(value) for key, value in schema.items() if key not in (CLAMP, TOUCH, SPELLINGS, TEXT)}
    if isinstance(schema, list):
        return [public(item) for item in schema]
    return schema


# --- schemas as models see them ---------------------------------------------------------------------------------


def compact(schema: Schema) -> Schema:
    """Return a schema made from a signature without what a model does not need to call the tool (ADR 0020).

    Drops a default of false, 0 or "", a minimum of 0 or 1, limits that only clamp, and `additionalProperties: false`.
    """
    dropped = [CLAMP, TOUCH, SPELLINGS]
    if schema.get("default") in (False, ""):
        dropped.append("default")
    dropped += [limit for limit in ("minimum", "minItems") if schema.get(limit) in (0, 1)]
    if schema.get(CLAMP):
        dropped += ["minimum", "maximum"]
    if schema.get("additionalProperties") is False:
        dropped.append("additionalProperties")
    return _map_subschemas({key: value for key, value in schema.items() if key not in dropped}, compact)


def lean(schema: Schema) -> Schema:
    """Return a schema without descriptions."""
    return _map_subschemas({key: value for key, value in schema.items() if key != "description"}, lean)


_SINGLE_SUBSCHEMA = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")


def _map_subschemas(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Apply `change` to the direct subschemas; property names are not keywords."""
    for key, inner in schema.items():
        if key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas") and isinstance(
            inner, dict
        ):
            schema[key] = {name: change(value) if isinstance(value, dict) else value for name, value in inner.items()}
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems", "items") and isinstance(inner, list):
            schema[key] = [change(choice) if isinstance(choice, dict) else choice for choice in inner]
        elif key in _SINGLE_SUBSCHEMA and isinstance(inner, dict):
            schema[key] = change(inner)
    return schema


def cost(entry: Schema) -> int:
    """Return what a tool costs in a prompt: the characters of name, description and schema as JSON."""
    return len(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))


def structured_schema(output: Schema | None) -> Schema | None:
    """Return the schema of `structured` results, an object as MCP requires; None when some results are plain text."""
    if output is None or output.get(TEXT):
        return None
    schema: Schema = public(output)
    if _is_object(output):
        return schema
    if '"$ref"' in json.dumps(schema):
        return None  # a reference would resolve differently inside another schema
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


def structured(output: Schema | None, data: Any) -> dict[str, Any]:
    """Return the data as an object that matches the `structured_schema`: unchanged, or wrapped as `result`."""
    return data if isinstance(data, dict) and (output is None or _is_object(output)) else {"result": data}


def _is_object(output: Schema) -> bool:
    return output.get("type") == "object"


def build(annotation: Any, value: Any) -> Any:
    """Convert a validated value to what the function expects: records become their NamedTuple."""
    metadata = getattr(annotation, "__metadata__", None)
    if metadata is not None:
        return build(annotation.__origin__, value)
    if isinstance(value, list) and get_origin(annotation) is list:
        item = get_args(annotation)[0]
        return [build(item, element) for element in value]
    if isinstance(value, dict) and isinstance(annotation, type) and hasattr(annotation, "_field_defaults"):
        fields = _field_annotations(annotation)
        return annotation(**{name: build(fields[name], element) for name, element in value.items()})
    return value


# --- validation -------------------------------------------------------------------------------------------------


def check(schema: Schema, args: Any) -> CheckedArguments:
    """Return the arguments with defaults filled in, or raise `invalid_args` with every violation."""
    violations = _Violations()
    notes: list[str] = []
    value: Any = None
    with suppress(_TooManyViolations):
        value = _check(schema, decoded(schema, args), "", violations, notes)
    if violations:
        raise refusal(violations)
    return CheckedArguments(value, notes[:VIOLATIONS_IN_DETAILS])


def check_value(schema: Schema, value: Any, name: str) -> tuple[Any, list[str]]:
    """Return one value as `check` converts it, and the violations, which call it by this name."""
    violations = _Violations()
    with suppress(_TooManyViolations):
        value = _check(schema, value, name, violations, [])
    return value, [violation.message for violation in violations]


def check_any(schema: Schema, args: Any) -> CheckedArguments:
    """Like `check`, for any JSON Schema (draft 2020-12 unless it says otherwise), using jsonschema-rs."""
    value = _with_defaults(schema, decoded(schema, args))
    validate(schema, value)
    return CheckedArguments(value, [])


def validate(schema: Schema, value: Any) -> None:
    """Raise unless a value matches a JSON Schema."""
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(with_numbered_groups(schema), retriever=no_retrieval)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise ToolError("tool_invalid", f"The tool's schema is invalid: {quoted(str(error))}.") from error
    errors = sorted(errors_of(validator, value), key=lambda error: list(map(str, error.instance_path)))
    if errors:
        raise refusal([violation for error in errors for violation in _foreign_violations(schema, error)])


def errors_of(validator: Any, value: Any) -> list[Any]:
    """Return the errors of a validator from jsonschema-rs; of a large value only the first.

    The library collects all errors at once, each with a copy of the part of the value that it is about: together they
    take the square of the memory of the value.
    """
    if validator.is_valid(value):
        return []
    if _is_small(value):
        return list(validator.iter_errors(value))
    from jsonschema_rs import ValidationError

    try:
        validator.validate(value)
    except ValidationError as error:
        return [error]
    return []


def _is_small(value: Any) -> bool:
    """Whether a copy of the value for each value in it is small."""
    count = size = 0
    pending = [value]
    while pending and count * size < _COPIED:
        inner = pending.pop()
        count += 1
        size += 10 + (len(inner) if isinstance(inner, str) else 0)
        if isinstance(inner, dict):
            pending += [*inner, *inner.values()]
        elif isinstance(inner, list):
            pending += inner
    return not pending and count * size < _COPIED


def with_numbered_groups(schema: Any) -> Any:
    """Return a schema whose patterns refer to groups by number: jsonschema-rs does not support ECMAScript's names."""
    if isinstance(schema, list):
        return [with_numbered_groups(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    converted: Schema = {}
    for key, inner in schema.items():
        if key == "pattern" and isinstance(inner, str):
            converted[key] = numbered_groups(inner)
        elif key == "patternProperties" and isinstance(inner, dict):
            converted[key] = {numbered_groups(name): with_numbered_groups(value) for name, value in inner.items()}
        elif key in ("enum", "const", "default", "examples"):
            converted[key] = inner
        else:
            converted[key] = with_numbered_groups(inner)
    return converted


def numbered_groups(pattern: str) -> str:
    """Return an ECMAScript regular expression with numbered instead of named groups.

    What looks like a group name may be part of an escape or a character class, so those are tokens too.
    """
    if "(?<" not in pattern:
        return pattern
    import re

    token = re.compile(r"\\k<([^>]*)>|\\.|\[(?:\\.|[^\]\\])*\]|\(\?<(?![=!])([^>]*)>|\((?!\?)", re.DOTALL)
    names: dict[str, int] = {}
    count = 0
    for match in token.finditer(pattern):
        if match[0].startswith("("):
            count += 1
            if match[2] is not None:
                names[match[2]] = count

    def replaced(match: re.Match[str]) -> str:
        if match[2] is not None:
            return "("
        return f"(?:\\{names[match[1]]})" if match[1] in names else match[0]

    return token.sub(replaced, pattern)


def refusal(violations: list[Violation]) -> ToolError:
    """Return one error that reports all violations."""
    message = "; ".join(violation.message for violation in violations[:VIOLATIONS_IN_MESSAGE])
    if len(violations) > VIOLATIONS_IN_MESSAGE:
        more = "at least " * (len(violations) >= VIOLATIONS_IN_DETAILS)
        message += f"; and {more}{len(violations) - VIOLATIONS_IN_MESSAGE} more"
    return ToolError(
        "invalid_args",
        message + ("" if message.endswith("?") else "."),
        suggestion=next((violation.suggestion for violation in violations if violation.suggestion), None),
        violations=[
            {"path": violation.path, "message": violation.message} for violation in violations[:VIOLATIONS_IN_DETAILS]
        ],
    )


def decoded(schema: Schema, value: Any) -> Any:
    """Decode a JSON string passed in place of an object or array, once: some models send that."""
    if isinstance(value, str) and (expected := schema.get("type")) in ("object", "array"):
        try:
            if kind_of(json.loads(value)) != expected:
                return value
        except (ValueError, RecursionError):
            return value
        from hilt.wire import decode_value

        return decode_value(value.encode("utf-8", "surrogatepass"))  # with the same limits as a request
    return value


def kind_of(value: Any) -> str:
    """Return the JSON Schema type of a value; 10.0 is an integer."""
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    # a caller from Python may send instances of subclasses
    return next((name for base, name in _KINDS.items() if isinstance(value, base)), "object")


def quoted(value: Any) -> str:
    """Return a value as JSON for a message, truncated."""
    # a caller from Python may send anything
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr, skipkeys=True)
    except ValueError:
        return "a value with thousands of digits, or one that contains itself"
    return text if len(text) <= 60 else text[:57] + "..."


def _check(schema: Schema, value: Any, path: str, violations: list[Violation], notes: list[str]) -> Any:
    if "anyOf" in schema:
        return _check_choices(schema["anyOf"], value, path, violations, notes)
    expected = schema.get("type")
    if expected is None:
        return value
    kind = kind_of(value)
    if kind != expected and not (expected == "number" and kind == "integer"):
        message = f"{path or 'args'} must be {ARTICLES[expected]}, not {ARTICLES[kind]} ({quoted(value)})"
        violations.append(Violation(path, message))
        return value
    if SPELLINGS in schema:
        value = schema[SPELLINGS].get(value, value)
    if "enum" in schema and value not in schema["enum"]:
        choices = ", ".join(choice if isinstance(choice, str) else quoted(choice) for choice in schema["enum"])
        near = did_you_mean(value, schema["enum"]) if isinstance(value, str) else None
        hint = f'Use {path} "{near}".' if near else f"Use one of: {choices}."
        violations.append(Violation(path, f"{path} must be one of {choices}, not {quoted(value)}", hint))
    if expected in ("integer", "number"):
        return _check_number(schema, int(value) if kind == "integer" else value, path, violations, notes)
    if expected == "string":
        _check_text(schema, value, path, violations)
    if expected == "array":
        return _check_array(schema, value, path, violations, notes)
    if expected == "object":
        return _check_object(schema, value, path, violations, notes)
    return value


def _check_choices(choices: list[Schema], value: Any, path: str, violations: list[Violation], notes: list[str]) -> Any:
    kind = kind_of(value)
    for choice in choices:
        if choice.get("type") in (kind, None) or (choice.get("type") == "number" and kind == "integer"):
            return _check(choice, value, path, violations, notes)
    expected = " or ".join(ARTICLES[choice["type"]] for choice in choices)
    violations.append(Violation(path, f"{path} must be {expected}, not {ARTICLES[kind]} ({quoted(value)})"))
    return value


def _check_number(schema: Schema, value: Any, path: str, violations: list[Violation], notes: list[str]) -> Any:
    for bound, words in (("minimum", "at least"), ("maximum", "at most")):
        limit = schema.get(bound)
        if limit is not None and (value < limit if bound == "minimum" else value > limit):
            if schema.get(CLAMP):
                notes.append(f"{path} {quoted(value)} was changed to {limit}, its {bound}")
                return limit
            violations.append(Violation(path, f"{path} must be {words} {limit}, not {quoted(value)}"))
    return value


def _check_text(schema: Schema, value: str, path: str, violations: list[Violation]) -> None:
    for bound, words in (("minLength", "at least"), ("maxLength", "at most")):
        limit = schema.get(bound)
        if limit is not None and (len(value) < limit if bound == "minLength" else len(value) > limit):
            unit = f"character{'s' * (limit != 1)}"
            violations.append(Violation(path, f"{path} must have {words} {limit} {unit}, not {len(value)}"))
    if "pattern" in schema:
        import jsonschema_rs

        # the few patterns that need backtracking give up after a bounded number of steps
        for error in jsonschema_rs.validator_for({"pattern": numbered_groups(schema["pattern"])}).iter_errors(value):
            message = f"{path} must match the pattern {schema['pattern']}, and {quoted(value)} does not"
            if type(error.kind).__name__.endswith("BacktrackLimitExceeded"):
                message = f"{path} takes too long to match against the pattern {schema['pattern']}"
            violations.append(Violation(path, message))


def _check_array(schema: Schema, value: Any, path: str, violations: list[Violation], notes: list[str]) -> Any:
    minimum, maximum = schema.get("minItems"), schema.get("maxItems")
    if minimum is not None and len(value) < minimum:
        violations.append(
            Violation(path, f"{path} must have at least {minimum} item{'s' * (minimum != 1)}, not {len(value)}")
        )
    if maximum is not None and len(value) > maximum:
        hint = f"Send at most {maximum} in one call."
        violations.append(Violation(path, f"{path} must have at most {maximum} items, not {len(value)}", hint))
        return value
    items = schema.get("items")
    if items is None:
        return value
    return [_check(items, item, f"{path}[{index}]", violations, notes) for index, item in enumerate(value)]


def _check_object(schema: Schema, value: Any, path: str, violations: list[Violation], notes: list[str]) -> Any:
    properties: dict[str, Schema] = schema.get("properties", {})
    required = schema.get("required", ())
    extra = schema.get("additionalProperties", True)
    checked: dict[str, Any] = {}
    prefix = f"{path}." if path else ""
    for name, item in value.items():
        expected = properties.get(name)
        if expected is None:
            if extra is False:
                violations.append(_unknown(prefix, name, properties, guess=len(violations) < VIOLATIONS_IN_MESSAGE))
            elif isinstance(extra, dict):
                checked[name] = _check(extra, item, prefix + name, violations, notes)
            else:
                checked[name] = item
        elif item is None and name not in required:
            continue
        else:
            checked[name] = _check(expected, decoded(expected, item), prefix + name, violations, notes)
    for name, expected in properties.items():
        if name not in checked and "default" in expected:
            checked[name] = expected["default"]
    for name in required:
        if name not in value:
            message = f"Missing required argument: {prefix}{name}"
            violations.append(Violation(prefix + name, message, f"Add {prefix}{name}."))
    return checked


def _unknown(prefix: str, name: str, properties: Iterable[str], *, guess: bool) -> Violation:
    """Return the violation for an unknown argument; guessing the intended name is slow, so only for the message."""
    path = prefix + (name if len(name) <= 100 else name[:100] + "…")
    near = did_you_mean(name, properties) if guess else None
    if near:
        return Violation(path, f"{path} is not an argument (did you mean {near}?)", f"Use {near}.")
    names = ", ".join(properties) or "none"
    return Violation(path, f"{path} is not an argument; the arguments are: {names}")


def _with_defaults(schema: Any, value: Any) -> Any:
    """Normalize a value as `check` does, at any depth: fill in defaults, drop optional nulls, turn 10.0 into 10."""
    if not isinstance(schema, dict):
        return value
    if isinstance(schema.get("anyOf"), list):
        matching = [choice for choice in schema["anyOf"] if isinstance(choice, dict) and _has_type(choice, value)]
        return _with_defaults(matching[0], value) if len(matching) == 1 else value
    if isinstance(value, float) and value.is_integer():
        return int(value) if schema.get("type") in ("integer", "number") else value
    if isinstance(value, list):
        return [_with_defaults(schema.get("items"), item) for item in value]
    return _object_with_defaults(schema, value) if isinstance(value, dict) else value


def _object_with_defaults(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    required = schema.get("required", ())
    filled = {}
    for name, item in value.items():
        if not isinstance(declared.get(name), dict):
            filled[name] = _with_defaults(schema.get("additionalProperties"), item)
        elif item is not None or name in required:
            filled[name] = _with_defaults(declared[name], decoded(declared[name], item))
    for name, inner in declared.items():
        if name not in filled and isinstance(inner, dict) and "default" in inner:
            filled[name] = inner["default"]
    return filled


def _has_type(schema: Schema, value: Any) -> bool:
    kind = kind_of(value)
    return schema.get("type") in (kind, None) or (schema["type"] == "number" and kind == "integer")


def no_retrieval(uri: str) -> Any:
    """Reject an external reference: validating against a schema opens no file and no connection."""
    raise ToolError("tool_invalid", f"The schema has an external reference, which is not supported: {uri}.")


def _foreign_violations(schema: Schema, error: Any) -> list[Violation]:
    path = ""
    for part in error.instance_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    if type(error.kind).__name__.endswith("AdditionalProperties"):
        parent: Any = schema
        try:
            for part in error.schema_path[:-1]:
                parent = parent[part]
            names = list(parent.get("properties", {}))
        except (AttributeError, IndexError, KeyError, TypeError):
            names = []  # the schema path goes through a reference
        prefix = f"{path}." if path else ""
        return [
            _unknown(prefix, name, names, guess=index < VIOLATIONS_IN_MESSAGE)
            for index, name in enumerate(error.kind.unexpected[:VIOLATIONS_IN_DETAILS])
        ]
    message = error.message  # starts with the whole value and ends with the reason
    if len(message) > FOREIGN_MESSAGE_CHARACTERS:
        message = f"{message[:60]}...{message[60 - FOREIGN_MESSAGE_CHARACTERS :]}"
    return [Violation(path, f"{path or 'args'}: {message}")]
