"""The declaration of an API route: its parameters, its response, and who may use it (ADR 0056).

Routing, validation and the OpenAPI document use the same declarations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import jsonschema_rs

from hilt.call import Json
from hilt.formats.times import Moment
from hilt.schema import STRING, Schema, array, errors_of, from_annotation, mapping, record
from hilt.surfaces.http.problems import HttpProblem

if TYPE_CHECKING:
    from types import ModuleType

    from hilt.surfaces.http.workspaces import ServedWorkspace

    Endpoint = Callable[[ServedWorkspace, "ApiRequest"], Json]

Caller = Literal["person", "agents"]
Who = Literal["person", "agents", "both"]

LIMIT_MAX = 1000
LIMIT = 100

_VIOLATIONS_MAX = 10
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", re.ASCII)  # fixed length: sorts as text

PAGING: dict[str, Schema] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT},
    "cursor": {"type": "string", "description": "The `next` of the previous page.", "minLength": 1},
}
STRING_OR_NULL: Schema = {"type": ["string", "null"]}
_NO_FIELDS: Schema = {"type": "object"}
WORKSPACE: dict[str, Schema] = {
    "workspace": {"type": "string", "description": "The folder; by default the first served one."}
}


class ApiRequest(NamedTuple):
    """A validated request: its path parameters, query and body."""

    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]


class Route(NamedTuple):
    """One method of one path."""

    method: str
    path: str  # parameters are in braces
    summary: str
    run: Endpoint | None  # None: the app responds
    result: Schema
    query: Mapping[str, Schema] = {}
    body: Schema | None = None
    who: Who = "person"
    status: int = 200
    errors: tuple[int, ...] = ()  # besides those of every path

    @property
    def names(self) -> list[str]:
        """The names of the path parameters."""
        return _PATH_PARAMETER.findall(self.path)

    @property
    def takes_folder(self) -> bool:
        """Whether a request may select one of the served folders, in its query or body."""
        return self.query.get("workspace") is WORKSPACE["workspace"]

    @property
    def has_body(self) -> bool:
        """Whether a body is read, for its fields or only for the folder."""
        return self.body is not None or (self.takes_folder and self.method in ("POST", "PATCH"))


def route(
    line: str,
    result: Schema,
    query: Mapping[str, Schema] = {},
    body: Schema | None = None,
    *,
    who: Who = "person",
    status: int = 200,
    errors: tuple[int, ...] = (),
) -> Callable[[Endpoint], Route]:
    """Declare the endpoint of a method and path; its docstring is the summary."""
    method, path = line.split()

    def declare(run: Endpoint) -> Route:
        return Route(method, path, (run.__doc__ or "").rstrip("."), run, result, query, body, who, status, errors)

    return declare


def routes_of(module: ModuleType) -> list[Route]:
    """Return the routes that a module declares."""
    return [value for value in vars(module).values() if isinstance(value, Route)]


def body(fields: dict[str, Schema], *, optional: str = "") -> Schema:
    """Return the schema of a body with these fields only; `optional` is a space-separated list of names."""
    return {**record(fields, optional=optional), "additionalProperties": False}


def listing(name: str, row: Schema) -> Schema:
    """Return the schema of one page of a list."""
    return record({name: array(row), "next": STRING_OR_NULL})


def page(
    name: str, rows: Sequence[Mapping[str, Json]], request: ApiRequest, *, by: str | None = None
) -> dict[str, Json]:
    """Return one page of the rows, which are sorted with the newest first.

    `by` is the timestamp field that orders the rows. With it, paging continues even if the last row of the previous
    page is gone: approvals, for example, leave their list once they are answered.
    """
    cursor = request.query.get("cursor")
    start = 0 if cursor is None else _start(rows, cursor, by)
    end = start + int(request.query["limit"])
    selected = rows[start:end]
    return {name: list(selected), "next": _cursor(selected[-1], by) if selected and end < len(rows) else None}


def _cursor(row: Mapping[str, Json], by: str | None) -> str:
    return str(row["id"]) if by is None else f"{row[by]}_{row['id']}"


def _start(rows: Sequence[Mapping[str, Json]], cursor: str, by: str | None) -> int:
    """Return the index of the row after a cursor."""
    for index, row in enumerate(rows):
        if _cursor(row, by) == cursor:
            return index + 1
    timestamp = cursor.partition("_")[0]
    if by is None or not _TIMESTAMP.fullmatch(timestamp):
        raise HttpProblem(404, "The cursor is unknown: its row may be gone.", suggestion="Start without a cursor.")
    return next((index for index, row in enumerate(rows) if str(row[by]) < timestamp), len(rows))


class RouteTable:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[Route]) -> None:
        paths: dict[str, dict[str, Route]] = {}
        for route in routes:
            paths.setdefault(route.path, {})[route.method] = route
        patterns = {path: re.compile(_PATH_PARAMETER.sub(r"(?P<\1>[^/]+)", path)) for path in paths}
        self._paths = [(patterns[path], methods) for path, methods in paths.items()]

    def find(self, path: str) -> tuple[dict[str, Route], dict[str, str]] | None:
        """Return the routes of a path by method, and the path parameters; None for an unknown path."""
        for pattern, methods in self._paths:
            match = pattern.fullmatch(path)
            if match is not None:
                return methods, match.groupdict()
        return None


# --- validation -----------------------------------------------------------------------------------------------------


def read_query(route: Route, query: bytes) -> dict[str, Any]:
    """Return the parameters of a query, converted and with their defaults."""
    try:
        text = query.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=50) if text else []
    except ValueError:
        raise HttpProblem(422, "The query is not valid UTF-8, or has more than 50 parameters.") from None
    values: dict[str, Any] = {
        name: schema["default"] for name, schema in route.query.items() if schema.get("default") is not None
    }
    present: set[str] = set()
    for name, text in pairs:
        schema = route.query.get(name)
        if schema is None or name in present:
            fault = "is unknown" if schema is None else "occurs twice"
            names = ", ".join(route.query) or "no parameters"
            raise HttpProblem(
                422, f"The query parameter {name[:50]!r} {fault}.", suggestion=f"This path takes {names}."
            )
        present.add(name)
        values[name] = _converted(name, text, schema)
    missing = [name for name, schema in route.query.items() if schema.get("required") and name not in present]
    if missing:
        raise HttpProblem(422, f"Missing query parameter: {missing[0]}.")
    return values


def _converted(name: str, text: str, schema: Schema) -> Any:
    value: Any = text
    if schema["type"] == "integer" and re.fullmatch(r"-?\d{1,19}", text, re.ASCII):
        value = int(text)
    elif schema["type"] == "boolean":
        value = {"true": True, "false": False}.get(text, text)
    rules = {key: rule for key, rule in schema.items() if key != "required"}
    _check(rules, value, f"The query parameter {name}")
    return value


def read_fields(route: Route, value: Json) -> tuple[Mapping[str, Any], str | None]:
    """Return the validated body of a request, and the folder that it selects."""
    folder = None
    if route.takes_folder and isinstance(value, dict) and "workspace" in value:
        _check(STRING_OR_NULL, value["workspace"], "workspace")
        folder = value["workspace"]
        value = {name: field for name, field in value.items() if name != "workspace"}
    _check(route.body or _NO_FIELDS, value, "The body")
    fields: Mapping[str, Any] = value
    return fields, folder


def _check(schema: Schema, value: Json, what: str) -> None:
    violations = [
        f"{'.'.join(map(str, error.instance_path)) or what}: {error.message[:300]}"
        for error in errors_of(_validator(json.dumps(schema)), value)[:_VIOLATIONS_MAX]
    ]
    if violations:
        raise HttpProblem(422, f"{what} is invalid. {'; '.join(violations)}")


@cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.Draft202012Validator(json.loads(schema), validate_formats=True)


# --- schemas of what the desk returns -------------------------------------------------------------------------------


def schema_of(annotation: Any) -> Schema:
    """Return the schema of what `desk.encoding.plain` returns for a value with this annotation."""
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
