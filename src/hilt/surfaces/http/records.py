"""Endpoints for what there is: tools, changes and restoring them, the audit trail, statistics, settings."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from hilt.call import Call, Json, Result
from hilt.config import digest
from hilt.desk import activity, audit, changes, servers, usage
from hilt.desk.encoding import plain
from hilt.desk.settings import RuleFile, effective, rule_files
from hilt.desk.tools import AvailableTool, offered
from hilt.schema import BOOLEAN, INTEGER, STRING, Schema, array, record
from hilt.surfaces.http.calling import HttpAttendant
from hilt.surfaces.http.problems import HttpProblem
from hilt.surfaces.http.routes import (
    PAGING,
    STRING_OR_NULL,
    WORKSPACE,
    ApiRequest,
    fields_of,
    listing,
    page,
    route,
    schema_of,
)
from hilt.surfaces.http.workspaces import BY, SESSION, ServedWorkspace

if TYPE_CHECKING:
    from hilt.runtime import Runtime

_RANGES = {"1h": 3600, "24h": 86_400, "7d": 7 * 86_400}

_TOOL = record({"id": STRING, **fields_of(AvailableTool)})
_TOOL_ERROR = record({"file": STRING, "line": {"type": ["integer", "null"]}, "message": STRING})
_TOOLS = record({"tools": array(_TOOL), "errors": array(_TOOL_ERROR), "next": STRING_OR_NULL, "total": INTEGER})
_PREVIEW = record({"id": STRING, "diff": STRING, "visualization": {"type": ["object", "null"]}})
_RESTORED = record({"id": STRING_OR_NULL, "files": array(STRING), "result": STRING})
_ENTRY_FIELDS = {name: schema for name, schema in fields_of(audit.AuditEntry).items() if name != "at"}
_VERIFIED = record({"ok": BOOLEAN, "breaks": array(schema_of(audit.AuditBreak))})
_SERVER = record(
    {
        "id": STRING,
        "transport": STRING,
        "origin": STRING,
        "disabled": BOOLEAN,
        "status": {"type": "string", "enum": ["running", "stopped", "unknown", "failed", "disabled", "untrusted"]},
        "summary": STRING,
        "tools": array(STRING),
        "failure": STRING,
        "notes": array(STRING),
        "unaccepted": array(STRING),
    }
)
_SETTINGS = record(
    {
        "settings": array(record({"id": STRING, "value": {}, "source": STRING})),
        "rules": array(schema_of(RuleFile)),
        "notes": array(STRING),
        "servers": array(_SERVER),
        "hosts": array(schema_of(activity.ConnectedHost)),
        "workspace": STRING,
        "workspaces": array(STRING),
    }
)

_FILTERS: dict[str, Schema] = {
    "since": {
        "type": "string",
        "anyOf": [{"pattern": "^[0-9]{1,9}[smhdw]$"}, {"format": "date"}, {"format": "date-time"}],
        "description": "30m, 2h, 7d or a date.",
    },
    "tool": STRING,
    "session": STRING,
    "outcome": {"type": "string", "description": "ok or an error code."},
    "text": {"type": "string", "description": "Text to find in the tool, session, reason, approver or outcome."},
    "workspace": {"type": "string", "description": "Only calls in this folder; all folders by default."},
    "limit": PAGING["limit"],
    "cursor": {"type": "integer", "minimum": 1, "maximum": 2**53},
}
_RANGE: dict[str, Schema] = {
    "range": {"type": "string", "enum": list(_RANGES), "default": "24h"},
    "workspace": _FILTERS["workspace"],
}


# --- tools ----------------------------------------------------------------------------------------------------------


def _rows(served: ServedWorkspace) -> list[dict[str, Any]]:
    return [{"id": tool.name, **plain(tool)} for tool in offered(served.runtime)]


@route("GET /v1/tools", _TOOLS, {**PAGING, "limit": {**PAGING["limit"], "default": 1000}, **WORKSPACE}, who="both")
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


# --- changes --------------------------------------------------------------------------------------------------------


@route("GET /v1/changes", listing("changes", schema_of(changes.Change)), PAGING | WORKSPACE)
def _changes(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List file changes."""
    return page("changes", list(map(plain, changes.newest(served.runtime))), request, by="time")


@route("GET /v1/changes/{id}", _PREVIEW, WORKSPACE, errors=(404, 409))
def _preview(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Show what a restore would change."""
    id = _change_id(served, request)
    result = _undo(served, changes.undo("preview", id))
    return {"id": id, "diff": result.text, "visualization": result.view}


@route("POST /v1/changes/{id}/restore", _RESTORED, WORKSPACE, errors=(404, 409))
def _restore(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Restore files to their state before a change."""
    result = _undo(served, changes.undo("restore", _change_id(served, request)))
    return {"id": result.meta.get("undo"), "files": result.meta.get("files", []), "result": result.text}


def _change_id(served: ServedWorkspace, request: ApiRequest) -> str:
    """Return the id in the path, which must be the complete id of a change."""
    id = request.path["id"]
    if changes.exists(served.runtime, id):
        return id
    raise HttpProblem(404, f"There is no change {id[:40]!r}.", suggestion="Use an id from /v1/changes.")


def _undo(served: ServedWorkspace, call: Call) -> Result:
    """Call undo for the person, who has seen the preview and approves the call with this request."""
    result = served.runtime.request(call._replace(session=SESSION), attendant=HttpAttendant(approver=BY))
    if result.error is not None:
        raise result.error
    return result


# --- the audit trail ------------------------------------------------------------------------------------------------


@route("GET /v1/audit", listing("entries", record({"id": INTEGER, **_ENTRY_FIELDS})), _FILTERS)
def _audit(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List recorded calls."""
    query = dict(request.query)
    limit, cursor, folder = query.pop("limit"), query.pop("cursor", None), query.pop("workspace", None)
    if "since" in query:
        query["since"] = _timestamp(query["since"])
    if folder is not None:
        query["workspace"] = digest(folder)
    if cursor is not None:
        query["before"] = cursor
    found = audit.entries(served.runtime.parts.trail, **query, limit=limit + 1)
    entries = [{"id": entry.seq, **plain(entry)} for entry in found[-limit:]]
    return {"entries": entries[::-1], "next": str(entries[0]["id"]) if len(found) > limit else None}


def _timestamp(text: str) -> float:
    since = audit.parse_since(text, UTC)
    if since is None:
        advice = "Use a time such as 30m, 2h, 7d or 2026-01-31."
        raise HttpProblem(422, f"since is {text[:40]!r}, which is not a time.", suggestion=advice)
    return since


@route("GET /v1/audit/verify", _VERIFIED)
def _verify(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Verify that the audit trail is intact."""
    breaks = audit.breaks(served.runtime.parts.trail)
    return {"ok": not breaks, "breaks": plain(breaks)}


@route("GET /v1/stats", schema_of(usage.UsageSummary), _RANGE)
def _stats(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Count calls, failures and durations."""
    seconds = _RANGES[request.query["range"]]
    stats: Json = plain(usage.summary(served.runtime, seconds, request.query.get("workspace")))
    return stats


def metrics(served: ServedWorkspace) -> bytes:
    """Return counters and histograms of all calls in the Prometheus text format."""
    return usage.metrics(served.runtime.parts.trail).encode()


# --- settings -------------------------------------------------------------------------------------------------------


@route("GET /v1/settings", _SETTINGS, WORKSPACE)
def _settings(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Show settings, rules and MCP servers."""
    runtime = served.runtime
    return {
        "settings": [
            {"id": name, "value": value, "source": source} for name, value, source, *_ in effective(runtime.settings)
        ],
        "rules": plain(rule_files(runtime)),
        "notes": runtime.parts.authority.notes(),
        "servers": _servers(runtime),
        "hosts": plain(activity.connected_hosts(runtime.parts.state)),
        "workspace": runtime.parts.root,
        "workspaces": served.folders,
    }


def _servers(runtime: Runtime) -> list[dict[str, Any]]:
    """Return the MCP servers of a workspace, including those in untrusted files."""
    found = servers.servers(runtime) or servers.OtherServers()
    defaults = {"transport": "", "disabled": False, "tools": [], "failure": "", "notes": [], "unaccepted": []}
    untrusted = [
        {"id": name, "origin": path, "status": "untrusted", "summary": "its file is not trusted", **defaults}
        for path, names in found.untrusted.items()
        for name in names
    ]
    return [*map(_server, found.servers), *untrusted]


def _server(server: servers.OtherServer) -> dict[str, Any]:
    changes = server.unaccepted
    return {
        **{name: value for name, value in plain(server).items() if name in _SERVER["properties"]},
        "tools": [tool.name for tool in server.tools],
        "unaccepted": [*changes.changed, *changes.new, *changes.removed],
    }
