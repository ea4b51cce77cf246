"""Endpoints for work in progress: background jobs, tasks, agents and sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from hilt.agents.reading import as_messages
from hilt.agents.starting import transcripts_of
from hilt.agents.transcripts import read
from hilt.call import Call, Json
from hilt.errors import ToolError
from hilt.formats.invisible import SOMETHING_VISIBLE, visible
from hilt.formats.times import rfc3339
from hilt.schema import BOOLEAN, INTEGER, NUMBER, STRING, Schema, array, record
from hilt.state.board import (
    BLOCKERS_MAX,
    DESCRIPTION_CHARACTERS,
    LARGEST_ID,
    OWNER_CHARACTERS,
    TITLE_CHARACTERS,
    Task,
    TaskChange,
)
from hilt.state.roster import MESSAGE_BYTES, AgentRecord
from hilt.surfaces.cli.agents import SENDER, agent_data
from hilt.surfaces.cli.sessions import session_data
from hilt.surfaces.http.problems import HttpProblem, from_error
from hilt.surfaces.http.routes import PAGING, WORKSPACE, ApiRequest, Route, listing, page
from hilt.surfaces.http.workspaces import SESSION, ServedWorkspace

_AGENTS_MAX = 10_000
_OFFSET_MAX = 2**53
_MESSAGES_MAX = 2_000  # the newest of a transcript

_STRING_OR_NULL: Schema = {"type": ["string", "null"]}
_INTEGER_OR_NULL: Schema = {"type": ["integer", "null"]}

JOB = record(
    {
        "id": STRING,
        "session": STRING,
        "command": STRING,
        "status": {"type": "string", "enum": ["running", "completed", "failed", "stopped", "timeout", "limit"]},
        "exit_code": _INTEGER_OR_NULL,
        "started": STRING,
        "seconds": NUMBER,
        "output_bytes": INTEGER,
        "cwd": STRING,
        "tty": BOOLEAN,
        "reason": STRING,
        "disarmed": array(STRING),
    }
)
_OUTPUT = record({"output": STRING, "next": INTEGER, "status": STRING})
_INPUT: Schema = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 65_536}},
    "required": ["text"],
    "additionalProperties": False,
}

_STATUS: Schema = {"type": "string", "enum": ["pending", "in_progress", "completed"]}
TASK = record(
    {
        "id": INTEGER,
        "title": STRING,
        "description": STRING,
        "status": _STATUS,
        "owner": STRING,
        "ready": BOOLEAN,
        "blockedBy": array(INTEGER),
        "created": STRING,
        "updated": STRING,
    }
)
_TASK_FIELDS: dict[str, Schema] = {
    "title": {"type": "string", "minLength": 1, "maxLength": TITLE_CHARACTERS, "pattern": SOMETHING_VISIBLE},
    "description": {"type": "string", "maxLength": DESCRIPTION_CHARACTERS},
    "status": _STATUS,
    "owner": {"type": "string", "maxLength": OWNER_CHARACTERS},
    "blockedBy": {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": LARGEST_ID},
        "maxItems": BLOCKERS_MAX,
    },
}
_NEW_TASK: Schema = {
    "type": "object",
    "properties": _TASK_FIELDS,
    "required": ["title"],
    "additionalProperties": False,
}
_TASK_CHANGE: Schema = {
    "type": "object",
    "properties": _TASK_FIELDS,
    "minProperties": 1,
    "additionalProperties": False,
}

AGENT = record(
    {
        "id": STRING,
        "parent": STRING,
        "agent": STRING,
        "title": STRING,
        "status": {"type": "string", "enum": ["queued", "running", "completed", "failed", "cancelled"]},
        "idle": BOOLEAN,
        "depth": INTEGER,
        "created": STRING,
        "changed": STRING,
        "error_code": _STRING_OR_NULL,
        "input_tokens": INTEGER,
        "output_tokens": INTEGER,
        "model": _STRING_OR_NULL,
        "cost": {"type": ["number", "null"]},
        "prompt": STRING,
        "answer": STRING,
        "messages": array({"type": "object"}),
    },
    optional="prompt answer messages",
)
_MESSAGE: Schema = {
    "type": "object",
    "properties": {"text": {"type": "string", "minLength": 1, "maxLength": MESSAGE_BYTES // 4}},
    "required": ["text"],
    "additionalProperties": False,
}
SESSION_ROW = record(
    {
        "id": STRING,
        "started": STRING,
        "changed": STRING,
        "model": _STRING_OR_NULL,
        "title": _STRING_OR_NULL,
        "transcript": BOOLEAN,
        "messages": array({"type": "object"}),
    },
    optional="messages",
)


# --- jobs -----------------------------------------------------------------------------------------------------------


def _jobs(served: ServedWorkspace, request: ApiRequest) -> Json:
    rows = sorted(served.ask_jobs("list")["jobs"], key=lambda job: (job["started"], job["id"]), reverse=True)
    return page("jobs", rows, request, by="started")


def _job_output(served: ServedWorkspace, request: ApiRequest) -> Json:
    return served.ask_jobs("output", id=request.path["id"], after=request.query["after"])


def _stop_job(served: ServedWorkspace, request: ApiRequest) -> Json:
    return served.ask_jobs("stop", id=request.path["id"])


def _job_input(served: ServedWorkspace, request: ApiRequest) -> Json:
    id = request.path["id"]
    status = served.ask_jobs("output", id=id, after=_OFFSET_MAX)["status"]
    if status != "running":
        raise HttpProblem(409, f"{id} has ended ({status}).", suggestion="Start the command again.")
    return served.ask_jobs("input", id=id, text=request.body["text"])


# --- tasks ----------------------------------------------------------------------------------------------------------


def _tasks(served: ServedWorkspace, request: ApiRequest) -> Json:
    board_page = served.runtime.board().page(status=request.query.get("status"), first=1, limit=LARGEST_ID)
    return page("tasks", [_task(task) for task in reversed(board_page.tasks)], request)


def _task(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "status": task.status,
        "owner": task.owner,
        "ready": task.is_ready,
        "blockedBy": list(task.blockers),
        "created": rfc3339(task.created),
        "updated": rfc3339(task.updated),
    }


def _change(request: ApiRequest) -> TaskChange:
    fields = request.body
    texts = {name: " ".join(visible(fields[name]).split()) for name in ("title", "owner") if name in fields}
    if "description" in fields:
        texts["description"] = visible(fields["description"]).strip()
    blockers = tuple(map(int, fields["blockedBy"])) if "blockedBy" in fields else None
    return TaskChange(**texts, status=fields.get("status"), blockers=blockers)


def _add_task(served: ServedWorkspace, request: ApiRequest) -> Json:
    with _missing_blockers():
        return _task(served.runtime.board().create(_change(request), SESSION, commit=_no_commit))


def _edit_task(served: ServedWorkspace, request: ApiRequest) -> Json:
    id = _task_id(request)
    with _missing_blockers(id):
        return _task(served.runtime.board().update(id, _change(request), SESSION, commit=_no_commit).task)


@contextmanager
def _missing_blockers(id: int | None = None) -> Iterator[None]:
    """Report missing blockers as a conflict; a missing task `id` is not found."""
    try:
        yield
    except ToolError as error:
        if error.code == "not_found" and error.details.get("ids") != [id]:
            raise from_error(error, 409) from None
        raise


def _task_id(request: ApiRequest) -> int:
    text = request.path["id"]
    if text.isascii() and text.isdecimal() and 0 < len(text) < 20 and 0 < int(text) <= LARGEST_ID:
        return int(text)
    raise HttpProblem(404, f"There is no task {text[:40]!r}.", suggestion="Use an id from /v1/tasks.")


def _no_commit() -> None:
    return None


# --- agents ---------------------------------------------------------------------------------------------------------


def _agents(served: ServedWorkspace, request: ApiRequest) -> Json:
    rows = [_agent_data(served, agent) for agent in served.runtime.roster().newest(_AGENTS_MAX)]
    agents_page = page("agents", rows, request, by="created")
    return {**agents_page, "agents": [{**row, "cost": _cost(served, row["id"])} for row in agents_page["agents"]]}


def _agent_data(served: ServedWorkspace, agent: AgentRecord) -> dict[str, Any]:
    return {**agent_data(agent), "model": agent.profile.model or served.runtime.settings["model.name"]}


def _agent(served: ServedWorkspace, request: ApiRequest) -> Json:
    agent = _find_agent(served, request.path["id"])
    return {
        **_agent_row(served, agent),
        "prompt": agent.prompt,
        "answer": agent.answer,
        "messages": _messages(served, agent.id),
    }


def _find_agent(served: ServedWorkspace, id: str) -> AgentRecord:
    agent = served.runtime.roster().get(id)
    if agent is None:
        raise HttpProblem(404, f"There is no agent {id[:100]!r}.", suggestion="Use an id from /v1/agents.")
    return agent


def _agent_row(served: ServedWorkspace, agent: AgentRecord) -> dict[str, Any]:
    return {**_agent_data(served, agent), "cost": _cost(served, agent.id)}


def _cost(served: ServedWorkspace, session: str) -> float | None:
    """Return the cost of the model's answers in a session, in dollars; None if it is unknown."""
    path = transcripts_of(served.runtime).path(session)
    try:
        status = os.stat(path)
    except OSError:
        return None
    return _cost_of(path, status.st_size, status.st_mtime_ns)


@lru_cache(1000)
def _cost_of(path: str, size: int, mtime_ns: int) -> float | None:
    """Return the sum of the costs in a transcript; the size and modification time are part of the cache key."""
    with suppress(OSError):
        costs = [record["cost"] for record in read(path) if "cost" in record]
        return sum(costs) if costs else None
    return None


def _messages(served: ServedWorkspace, session: str) -> list[dict[str, Any]]:
    path = transcripts_of(served.runtime).path(session)
    try:
        messages = as_messages(read(path))
    except FileNotFoundError:
        return []
    return messages[-_MESSAGES_MAX:]


def _send(served: ServedWorkspace, request: ApiRequest) -> Json:
    agent = _find_agent(served, request.path["id"])
    args = {"agentId": SENDER, "targetAgentId": agent.id, "message": request.body["text"]}
    result = served.request(Call("agent_send", args, session=SESSION, dialect="jinn"))
    if result.error is not None:
        raise result.error
    return _agent_row(served, _find_agent(served, agent.id))


def _cancel(served: ServedWorkspace, request: ApiRequest) -> Json:
    agent = _find_agent(served, request.path["id"])
    served.runtime.agents().cancel(agent.id)
    return _agent_row(served, _find_agent(served, agent.id))


# --- sessions -------------------------------------------------------------------------------------------------------


def _session_rows(served: ServedWorkspace) -> list[dict[str, Any]]:
    """Return the sessions with a recent call or a transcript, the most recently used first."""
    runtime = served.runtime
    rows: dict[str, dict[str, Any]] = {}
    for id, started, used in runtime.trail.sessions(runtime.id):
        times = {"started": rfc3339(started * 1_000_000_000), "changed": rfc3339(used * 1_000_000_000)}
        rows[id] = {"id": id, **times, "model": None, "title": None, "transcript": False}
    for file in transcripts_of(runtime).list():
        data = session_data(file)
        fields = {name: data[name] for name in ("id", "started", "changed", "model", "title")}
        rows[file.id] = {**fields, "transcript": True}
    return sorted(rows.values(), key=lambda row: (row["changed"], row["id"]), reverse=True)


def _sessions(served: ServedWorkspace, request: ApiRequest) -> Json:
    return page("sessions", _session_rows(served), request, by="changed")


def _session(served: ServedWorkspace, request: ApiRequest) -> Json:
    for row in _session_rows(served):
        if row["id"] == request.path["id"]:
            return {**row, "messages": _messages(served, row["id"])}
    raise HttpProblem(
        404, f"There is no session {request.path['id'][:100]!r}.", suggestion="Use an id from /v1/sessions."
    )


_AFTER: dict[str, Schema] = {
    "after": {
        "type": "integer",
        "minimum": 0,
        "maximum": _OFFSET_MAX,
        "default": 0,
        "description": "Number of bytes that the client already has.",
    }
}

ROUTES = (
    Route("GET", "/v1/jobs", "List the background jobs", _jobs, listing("jobs", JOB), {**PAGING, **WORKSPACE}),
    Route(
        "GET",
        "/v1/jobs/{id}/output",
        "Return the output of a job, starting at an offset",
        _job_output,
        _OUTPUT,
        {**_AFTER, **WORKSPACE},
        errors=(404,),
    ),
    Route("POST", "/v1/jobs/{id}/stop", "Stop a job", _stop_job, JOB, WORKSPACE, errors=(404,)),
    Route(
        "POST",
        "/v1/jobs/{id}/input",
        "Type text into a job with a terminal; no newline is added",
        _job_input,
        JOB,
        WORKSPACE,
        _INPUT,
        errors=(404, 409),
    ),
    Route(
        "GET",
        "/v1/tasks",
        "List the tasks",
        _tasks,
        listing("tasks", TASK),
        {"status": _STATUS, **PAGING, **WORKSPACE},
    ),
    Route("POST", "/v1/tasks", "Add a task", _add_task, TASK, WORKSPACE, _NEW_TASK, status=201, errors=(404, 409)),
    Route("PATCH", "/v1/tasks/{id}", "Change a task", _edit_task, TASK, WORKSPACE, _TASK_CHANGE, errors=(404, 409)),
    Route("GET", "/v1/agents", "List the agents", _agents, listing("agents", AGENT), {**PAGING, **WORKSPACE}),
    Route("GET", "/v1/agents/{id}", "Show an agent and its transcript", _agent, AGENT, WORKSPACE, errors=(404,)),
    Route(
        "POST",
        "/v1/agents/{id}/messages",
        "Send a message to an agent",
        _send,
        AGENT,
        WORKSPACE,
        _MESSAGE,
        errors=(404, 409),
    ),
    Route(
        "POST",
        "/v1/agents/{id}/cancel",
        "Cancel an agent and its descendants",
        _cancel,
        AGENT,
        WORKSPACE,
        errors=(404,),
    ),
    Route(
        "GET", "/v1/sessions", "List the sessions", _sessions, listing("sessions", SESSION_ROW), {**PAGING, **WORKSPACE}
    ),
    Route(
        "GET", "/v1/sessions/{id}", "Show a session and its transcript", _session, SESSION_ROW, WORKSPACE, errors=(404,)
    ),
)
