"""Endpoints for tools: the catalog with schemas, sources and load errors."""

from __future__ import annotations

from typing import Any

from hilt.call import Json
from hilt.desk.encoding import plain
from hilt.desk.tools import AvailableTool, offered
from hilt.schema import INTEGER, STRING, Schema, array, record
from hilt.surfaces.http.problems import HttpProblem
from hilt.surfaces.http.routes import PAGING, WORKSPACE, ApiRequest, fields_of, page, route
from hilt.surfaces.http.workspaces import ServedWorkspace

_STRING_OR_NULL: Schema = {"type": ["string", "null"]}

_TOOL = record({"id": STRING, **fields_of(AvailableTool)})
_ERROR = record({"file": STRING, "line": {"type": ["integer", "null"]}, "message": STRING})
_LIST = record({"tools": array(_TOOL), "errors": array(_ERROR), "next": _STRING_OR_NULL, "total": INTEGER})


def _rows(served: ServedWorkspace) -> list[dict[str, Any]]:
    return [{"id": tool.name, **plain(tool)} for tool in offered(served.runtime)]


@route("GET /v1/tools", _LIST, {**PAGING, "limit": {**PAGING["limit"], "default": 1000}, **WORKSPACE}, who="both")
def _tools(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List the tools with their schemas, and the errors of custom tools."""
    custom = served.runtime.parts.toolbox.tools_found()
    errors = [{"file": problem.origin, "line": problem.line, "message": problem.message} for problem in custom.problems]
    untrusted = "The user has not trusted the current content of this file."
    errors += [{"file": file.path, "line": None, "message": untrusted} for file in custom.untrusted]
    rows = _rows(served)
    return {**page("tools", rows, request), "errors": errors, "total": len(rows)}


@route("GET /v1/tools/{name}", _TOOL, WORKSPACE, who="both", errors=(404,))
def _tool(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Show a tool."""
    for row in _rows(served):
        if row["name"] == request.path["name"]:
            return row
    raise HttpProblem(404, f"There is no tool {request.path['name'][:100]!r}.", suggestion="Use a name from /v1/tools.")
