"""The paths of records: changes and their restore, the audit trail, statistics, settings."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from queue import SimpleQueue
from typing import Any

from hilt.call import Call, Json, Result
from hilt.config import KEYS, digest
from hilt.formats.times import duration_seconds, rfc3339
from hilt.output.metrics import prometheus
from hilt.schema import BOOLEAN, INTEGER, NUMBER, STRING, Schema, array, mapping, record
from hilt.state.history import RecordedChange
from hilt.state.spending import Spending
from hilt.state.usage import BOUNDS_MS
from hilt.surfaces.cli.audit import audit_data
from hilt.surfaces.cli.config import without_secrets
from hilt.surfaces.http.attendant import HttpAttendant
from hilt.surfaces.http.problems import HttpProblem
from hilt.surfaces.http.routes import PAGING, WORKSPACE, ApiRequest, Route, listing, page
from hilt.surfaces.http.workspaces import BY, SESSION, ServedWorkspace

_RANGES = {"1h": 3600, "24h": 86_400, "7d": 7 * 86_400}
_PARTS = 60  # of the plots

_OR_NULL: Schema = {"type": ["string", "null"]}

_CHANGE = record(
    {
        "id": STRING,
        "session": STRING,
        "operation": STRING,
        "time": STRING,
        "files": array(
            record(
                {
                    "path": STRING,
                    "action": {"type": "string", "enum": ["created", "deleted", "modified"]},
                    "size": INTEGER,
                }
            )
        ),
    }
)
_PREVIEW = record({"id": STRING, "diff": STRING, "visualization": {"type": ["object", "null"]}})
_RESTORED = record({"id": _OR_NULL, "files": array(STRING), "result": STRING})
_ENTRY = record(
    {
        "id": INTEGER,
        "seq": INTEGER,
        "time": STRING,
        "workspace": STRING,
        "session": STRING,
        "tool": STRING,
        "digest": STRING,
        "decision": STRING,
        "reason": STRING,
        "approver": STRING,
        "outcome": STRING,
        "micros": INTEGER,
        "agent": STRING,
        "contacts": STRING,
        "call": STRING,
        "hash": STRING,
    }
)
_VERIFIED = record({"ok": BOOLEAN, "breaks": array(record({"row": INTEGER, "reason": STRING}))})
_USE = record(
    {"tool": STRING, "calls": INTEGER, "failed": INTEGER, "p50_ms": NUMBER, "p95_ms": NUMBER, "plot": array(INTEGER)}
)
_MODEL = record(
    {
        "model": STRING,
        "requests": INTEGER,
        "unpriced": INTEGER,
        "input_tokens": INTEGER,
        "output_tokens": INTEGER,
        "cost": NUMBER,
    }
)
_STATS = record(
    {
        "start": NUMBER,
        "end": NUMBER,
        "calls": INTEGER,
        "failed": INTEGER,
        "approvals_waiting": INTEGER,
        "tools": array(_USE),
        "errors": mapping(INTEGER),
        "models": array(_MODEL),
    }
)
_SETTINGS = record(
    {
        "settings": array(record({"id": STRING, "value": {}, "source": STRING})),
        "rules": array(record({"file": STRING, "trusted": BOOLEAN})),
        "notes": array(STRING),
        "servers": array(record({"id": STRING, "transport": STRING, "origin": STRING, "disabled": BOOLEAN})),
        "workspace": STRING,
    }
)


# --- changes --------------------------------------------------------------------------------------------------------


def _changes(served: ServedWorkspace, request: ApiRequest) -> Json:
    return page("changes", [_change(change) for change in served.runtime.history().changes()], request)


def _change(change: RecordedChange) -> dict[str, Any]:
    files = [
        {
            "path": file.path,
            "action": "created" if file.before is None else "deleted" if file.after is None else "modified",
            "size": file.size,
        }
        for file in change.snapshots
    ]
    facts = {"id": change.id, "session": change.session, "operation": change.operation}
    return {**facts, "time": rfc3339(change.at), "files": files}


def _preview(served: ServedWorkspace, request: ApiRequest) -> Json:
    id = _known(served, request)
    result = _undo(served, {"action": "preview", "id": id})
    return {"id": id, "diff": result.text, "visualization": result.view}


def _restore(served: ServedWorkspace, request: ApiRequest) -> Json:
    result = _undo(served, {"action": "restore", "id": _known(served, request)})
    return {"id": result.meta.get("undo"), "files": result.meta.get("files", []), "result": result.text}


def _known(served: ServedWorkspace, request: ApiRequest) -> str:
    """Return the id of a change; only a whole id counts."""
    id = request.path["id"]
    if id and not id.strip("0123456789abcdef"):
        change = served.runtime.history().find(id)
        if change.id == id:
            return id
    raise HttpProblem(404, f"There is no change {id[:40]!r}.", suggestion="Use an id of /v1/changes.")


def _undo(served: ServedWorkspace, args: dict[str, Json]) -> Result:
    """Call undo for the person: they have seen what it does, and approve it by this request."""
    results: SimpleQueue[Result] = SimpleQueue()
    call = Call("undo", args, session=SESSION, dialect="jinn")
    served.runtime.submit(call, results.put, attendant=HttpAttendant(approver=BY))
    result = results.get()
    if result.error is not None:
        raise result.error
    return result


# --- the audit trail ------------------------------------------------------------------------------------------------


def _audit(served: ServedWorkspace, request: ApiRequest) -> Json:
    query = dict(request.query)
    limit, cursor, folder = query.pop("limit"), query.pop("cursor", None), query.pop("workspace", None)
    if "since" in query:
        query["since"] = _moment(query["since"])
    if folder is not None:
        query["workspace"] = digest(folder)
    if cursor is not None:
        query["before"] = cursor
    rows = served.runtime.trail.rows(**query, limit=limit + 1)
    shown = [{"id": row.seq, **audit_data(row)} for row in rows[-limit:]]
    return {"entries": shown[::-1], "next": str(shown[0]["id"]) if len(rows) > limit else None}


def _moment(text: str) -> float:
    seconds = duration_seconds(text)
    if seconds is not None:
        return max(0.0, time.time() - seconds)
    try:
        moment = datetime.fromisoformat(text)
        return max(0.0, moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    except (ValueError, OverflowError):
        advice = "Use a time such as 30m, 2h, 7d or 2026-01-31."
        raise HttpProblem(422, f"since is {text[:40]!r}, which is not a time.", suggestion=advice) from None


def _verify(served: ServedWorkspace, request: ApiRequest) -> Json:
    breaks = served.runtime.trail.breaks()
    return {"ok": not breaks, "breaks": [{"row": broken.seq, "reason": broken.reason} for broken in breaks]}


def _stats(served: ServedWorkspace, request: ApiRequest) -> Json:
    now = time.time()
    chosen = {} if "workspace" not in request.query else {"workspace": digest(request.query["workspace"])}
    since = now - _RANGES[request.query["range"]]
    usage = served.runtime.trail.usage(since=since, parts=_PARTS, **chosen)
    return {
        "start": usage.start,
        "end": usage.end,
        "calls": sum(use.calls for use in usage.tools),
        "failed": sum(use.failed for use in usage.tools),
        "approvals_waiting": len(served.runtime.authority.approvals().pending()),
        "tools": [{**use._asdict(), "plot": list(use.plot)} for use in usage.tools],
        "errors": usage.errors,
        "models": _spent(served.runtime.state, since),
    }


def _spent(state: str, since: float) -> list[dict[str, Any]]:
    """Return what models have cost since the day of a time, by model."""
    totals: dict[str, dict[str, Any]] = {}
    first, today = date.fromtimestamp(since), date.today()  # noqa: DTZ011, DTZ012 -- stored by local days
    with closing(Spending(state)) as spending:
        for number in range((today - first).days + 1):
            for model in spending.models(str(first + timedelta(days=number))):
                total = totals.setdefault(model.model, {**model._asdict(), **dict.fromkeys(model._fields[1:], 0)})
                for name in model._fields[1:]:
                    total[name] += getattr(model, name)
    return list(totals.values())


def metrics(served: ServedWorkspace) -> bytes:
    """Return counters and histograms of all calls in the Prometheus text format."""
    return prometheus(BOUNDS_MS, served.runtime.trail.counters()).encode()


# --- settings -------------------------------------------------------------------------------------------------------


def _settings(served: ServedWorkspace, request: ApiRequest) -> Json:
    runtime = served.runtime
    settings = runtime.settings
    servers = runtime.servers()
    return {
        "settings": [
            {"id": key, "value": without_secrets(settings[key]), "source": settings.sources[key]} for key in KEYS
        ],
        "rules": [
            {"file": rules.file, "trusted": rules.trusted} for rules in runtime.authority.rulesets() if rules.file
        ],
        "notes": runtime.authority.notes(),
        "servers": [
            {"id": state.server.name, "transport": state.server.transport, "origin": state.server.origin}
            | {"disabled": state.server.disabled}
            for state in (() if servers is None else servers.states())
        ],
        "workspace": runtime.root,
    }


_FILTERS: dict[str, Schema] = {
    "since": {
        "type": "string",
        "anyOf": [{"pattern": "^[0-9]{1,9}[smhdw]$"}, {"format": "date"}, {"format": "date-time"}],
        "description": "30m, 2h, 7d or a date.",
    },
    "tool": STRING,
    "session": STRING,
    "outcome": {"type": "string", "description": "ok or an error code."},
    "text": {"type": "string", "description": "Occurs in the tool, session, reason, approver or outcome."},
    "workspace": {"type": "string", "description": "Only calls in this folder; by default of all folders."},
    "limit": PAGING["limit"],
    "cursor": {"type": "integer", "minimum": 1, "maximum": 2**53},
}
_RANGE: dict[str, Schema] = {
    "range": {"type": "string", "enum": list(_RANGES), "default": "24h"},
    "workspace": _FILTERS["workspace"],
}

ROUTES = (
    Route(
        "GET",
        "/v1/changes",
        "List the changes of files",
        _changes,
        listing("changes", _CHANGE),
        {**PAGING, **WORKSPACE},
    ),
    Route(
        "GET",
        "/v1/changes/{id}",
        "Show what a restore would change",
        _preview,
        _PREVIEW,
        WORKSPACE,
        errors=(404, 409),
    ),
    Route(
        "POST",
        "/v1/changes/{id}/restore",
        "Restore files to their state before a change",
        _restore,
        _RESTORED,
        WORKSPACE,
        errors=(404, 409),
    ),
    Route("GET", "/v1/audit", "List recorded calls", _audit, listing("entries", _ENTRY), _FILTERS),
    Route("GET", "/v1/audit/verify", "Verify that the audit trail is intact", _verify, _VERIFIED),
    Route("GET", "/v1/stats", "Count calls, failures and durations", _stats, _STATS, _RANGE),
    Route("GET", "/v1/settings", "Show settings, rules and MCP servers", _settings, _SETTINGS, WORKSPACE),
)
