"""Endpoints for work in progress: background jobs, tasks, agents and sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hilt.call import Json
from hilt.desk import agents, jobs, sessions, tasks
from hilt.desk.agents import Agent
from hilt.desk.encoding import plain
from hilt.errors import ToolError
from hilt.schema import INTEGER, STRING, Schema, array, record
from hilt.surfaces.http.problems import HttpProblem, from_error
from hilt.surfaces.http.routes import PAGING, WORKSPACE, ApiRequest, body, fields_of, listing, page, route, schema_of
from hilt.surfaces.http.workspaces import SESSION, ServedWorkspace

_AGENTS_MAX = 10_000
_OFFSET_MAX = 2**53

JOB = schema_of(jobs.BackgroundJob)
_AFTER: dict[str, Schema] = {
    "after": {
        "type": "integer",
        "minimum": 0,
        "maximum": _OFFSET_MAX,
        "default": 0,
        "description": "Number of bytes that the client already has.",
    }
}
_OUTPUT = record({"output": STRING, "next": INTEGER, "status": STRING})
_INPUT = body({"text": {"type": "string", "maxLength": 65_536}})

TASK = schema_of(tasks.ListedTask)
_NEW_TASK = body(tasks.FIELDS, optional="description status owner blockedBy")
_TASK_CHANGE: Schema = {
    "type": "object",
    "properties": tasks.FIELDS,
    "minProperties": 1,
    "additionalProperties": False,
}

AGENT = record(
    {
        **fields_of(Agent),
        "cost": {"type": ["number", "null"]},
        "prompt": STRING,
        "answer": STRING,
        "messages": array({"type": "object"}),
    },
    optional="prompt answer messages",
)
_MESSAGE = body({"text": {"type": "string", "minLength": 1, "maxLength": agents.MESSAGE_CHARACTERS}})
SESSION_ROW = record({**fields_of(sessions.ListedSession), "messages": array({"type": "object"})}, optional="messages")


# --- jobs -----------------------------------------------------------------------------------------------------------


@route("GET /v1/jobs", listing("jobs", JOB), PAGING | WORKSPACE)
def _jobs(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List the background jobs."""
    rows = sorted(served.ask_jobs("list")["jobs"], key=lambda job: (job["started"], job["id"]), reverse=True)
    return page("jobs", rows, request, by="started")


@route("GET /v1/jobs/{id}/output", _OUTPUT, _AFTER | WORKSPACE, errors=(404,))
def _job_output(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Return the output of a job, starting at an offset."""
    return served.ask_jobs("output", id=request.path["id"], after=request.query["after"])


@route("POST /v1/jobs/{id}/stop", JOB, WORKSPACE, errors=(404,))
def _stop_job(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Stop a job."""
    return served.ask_jobs("stop", id=request.path["id"])


@route("POST /v1/jobs/{id}/input", JOB, WORKSPACE, _INPUT, errors=(404, 409))
def _job_input(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Type text into a job with a terminal; no newline is added."""
    id = request.path["id"]
    status = served.ask_jobs("output", id=id, after=_OFFSET_MAX)["status"]
    if status != "running":
        raise HttpProblem(409, f"{id} has ended ({status}).", suggestion="Start the command again.")
    return served.ask_jobs("input", id=id, text=request.body["text"])


# --- tasks ----------------------------------------------------------------------------------------------------------


@route("GET /v1/tasks", listing("tasks", TASK), {"status": tasks.STATUS, **PAGING, **WORKSPACE})
def _tasks(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List the tasks."""
    return page("tasks", list(map(plain, tasks.newest(served.runtime, request.query.get("status")))), request)


@route("POST /v1/tasks", TASK, WORKSPACE, _NEW_TASK, status=201, errors=(404, 409))
def _add_task(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Add a task."""
    with _missing_blockers():
        added: Json = plain(tasks.add(served.runtime, request.body, SESSION))
    return added


@route("PATCH /v1/tasks/{id}", TASK, WORKSPACE, _TASK_CHANGE, errors=(404, 409))
def _edit_task(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Change a task."""
    text = request.path["id"]
    id = tasks.parse_id(text)
    if id is None:
        raise HttpProblem(404, f"There is no task {text[:40]!r}.", suggestion="Use an id from /v1/tasks.")
    with _missing_blockers(id):
        changed: Json = plain(tasks.change(served.runtime, id, request.body, SESSION))
    return changed


@contextmanager
def _missing_blockers(id: int | None = None) -> Iterator[None]:
    """Report missing blockers as a conflict; a missing task `id` is not found."""
    try:
        yield
    except ToolError as error:
        if error.code == "not_found" and error.details.get("ids") != [id]:
            raise from_error(error, 409) from None
        raise


# --- agents ---------------------------------------------------------------------------------------------------------


@route("GET /v1/agents", listing("agents", AGENT), PAGING | WORKSPACE)
def _agents(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List the agents."""
    rows = list(map(plain, agents.newest(served.runtime, _AGENTS_MAX)))
    agents_page = page("agents", rows, request, by="created")
    costs = {row["id"]: sessions.cost(served.runtime, row["id"]) for row in agents_page["agents"]}
    return {**agents_page, "agents": [{**row, "cost": costs[row["id"]]} for row in agents_page["agents"]]}


@route("GET /v1/agents/{id}", AGENT, WORKSPACE, errors=(404,))
def _agent(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Show an agent and its transcript."""
    agent = _find_agent(served, request)
    prompt, answer = agents.prompt_and_answer(served.runtime, agent.id)
    messages = sessions.messages(served.runtime, agent.id)
    return {**_agent_row(served, agent), "prompt": prompt, "answer": answer, "messages": messages}


def _find_agent(served: ServedWorkspace, request: ApiRequest) -> Agent:
    id = request.path["id"]
    agent = agents.find(served.runtime, id)
    if agent is None:
        raise HttpProblem(404, f"There is no agent {id[:100]!r}.", suggestion="Use an id from /v1/agents.")
    return agent


def _agent_row(served: ServedWorkspace, agent: Agent) -> dict[str, Any]:
    return {**plain(agent), "cost": sessions.cost(served.runtime, agent.id)}


@route("POST /v1/agents/{id}/messages", AGENT, WORKSPACE, _MESSAGE, errors=(404, 409))
def _send(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Send a message to an agent."""
    agent = _find_agent(served, request)
    result = served.request(agents.message(agent.id, request.body["text"])._replace(session=SESSION))
    if result.error is not None:
        raise result.error
    return _agent_row(served, _find_agent(served, request))


@route("POST /v1/agents/{id}/cancel", AGENT, WORKSPACE, errors=(404,))
def _cancel(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Cancel an agent and its descendants."""
    agents.cancel(served.runtime, _find_agent(served, request).id)
    return _agent_row(served, _find_agent(served, request))


# --- sessions -------------------------------------------------------------------------------------------------------


@route("GET /v1/sessions", listing("sessions", SESSION_ROW), PAGING | WORKSPACE)
def _sessions(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List the sessions."""
    return page("sessions", list(map(plain, sessions.sessions(served.runtime))), request, by="changed")


@route("GET /v1/sessions/{id}", SESSION_ROW, WORKSPACE, errors=(404,))
def _session(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Show a session and its transcript."""
    id = request.path["id"]
    for session in sessions.sessions(served.runtime):
        if session.id == id:
            return {**plain(session), "messages": sessions.messages(served.runtime, id)}
    raise HttpProblem(404, f"There is no session {id[:100]!r}.", suggestion="Use an id from /v1/sessions.")
