"""The OpenAPI document, generated from the route declarations."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from hilt import __version__
from hilt.schema import INTEGER, STRING, Schema, record
from hilt.surfaces.http.routes import WORKSPACE, Route

_PROBLEM = record(
    {
        **dict.fromkeys(("type", "title"), STRING),
        "status": INTEGER,
        **dict.fromkeys(("detail", "error_code", "suggestion"), STRING),
        "first": {"description": "With 409: the answer that was given first."},
    },
    optional="first",
)

# statuses that every path may return
_GENERAL_STATUSES = (400, 401, 403, 404, 405, 408, 413, 421, 422, 429, 431, 503)
WHO = {
    "person": "Needs the person's token.",
    "agents": "Needs the agents' token.",
    "both": "Accepts the person's token and the agents' token.",
}
_PATH_PARAMETERS = {"id": "The id of the row.", "name": "The name of the tool."}


def document(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Return the OpenAPI document of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hilt",
            "version": __version__,
            "summary": "Tool calls, approvals, questions, jobs, changes, tasks, agents and records over HTTP.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": _PROBLEM},
            "responses": {"Problem": _problem("The request failed.")},
        },
    }


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {"application/problem+json": {"schema": schema}}}


def _operation(route: Route) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_PARAMETERS[name],
            "schema": {"type": "string", "minLength": 1},
        }
        for name in route.names
    ]
    for name, schema in route.query.items():
        rules = {key: rule for key, rule in schema.items() if key not in ("required", "description")}
        parameter = {"name": name, "in": "query", "required": bool(schema.get("required")), "schema": rules}
        if "description" in schema:
            parameter["description"] = schema["description"]
        parameters.append(parameter)
    content = {"application/json": {"schema": route.result}}
    if "stream" in route.query:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    if route.path == "/metrics":
        content = {"text/plain": {"schema": {"type": "string"}}}
    success: dict[str, Any] = {"description": HTTPStatus(route.status).phrase}
    responses: dict[str, Any] = {str(route.status): success | ({"content": content} if route.result else {})}
    for status in sorted({*_GENERAL_STATUSES, *route.errors}):
        responses[str(status)] = _problem(HTTPStatus(status).phrase)
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": WHO[route.who],
        "parameters": parameters,
        "responses": responses,
    }
    if route.has_body:
        body = {"required": route.body is not None, "content": {"application/json": {"schema": _body(route)}}}
        operation["requestBody"] = body
    return operation


def _body(route: Route) -> Schema:
    """Return the schema of a body, which may also select the folder."""
    body: Schema = route.body or {"type": "object", "properties": {}}
    if not route.takes_folder or "properties" not in body:
        return body
    fields = body["properties"]
    rules = {key: rule for key, rule in body.items() if key != "minProperties"}
    if "minProperties" in body:  # the folder does not count
        rules["anyOf"] = [{"required": [name]} for name in fields]
    return {**rules, "properties": {**fields, **WORKSPACE}}


def _operation_id(route: Route) -> str:
    words = [part for part in route.path.replace("{", "by_").replace("}", "").split("/") if part not in ("", "v1")]
    return "_".join([route.method.lower(), *(word.replace(".", "_") for word in words)])
