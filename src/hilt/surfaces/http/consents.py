"""Endpoints where the person decides: approvals, questions, grants and trust."""

from __future__ import annotations

from typing import Any

from hilt.call import AGENT, ApprovalRequest, Json, UserAnswer
from hilt.config import digest
from hilt.desk import approvals, trust
from hilt.desk.approvals import ANSWER_CHARACTERS, Approval, Grant, QuestionSet
from hilt.desk.encoding import plain
from hilt.desk.trust import FileTrust
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.formats.invisible import decoded
from hilt.formats.times import duration_seconds, rfc3339
from hilt.loaders import ProjectFile
from hilt.schema import BOOLEAN, STRING, Schema, array, mapping, record
from hilt.surfaces.http.problems import HttpProblem, from_error
from hilt.surfaces.http.routes import (
    PAGING,
    STRING_OR_NULL,
    WORKSPACE,
    ApiRequest,
    body,
    fields_of,
    listing,
    page,
    route,
    schema_of,
)
from hilt.surfaces.http.workspaces import BY, ServedWorkspace

_ANY_WORKSPACE: dict[str, Schema] = {
    "workspace": {"type": "string", "description": "Only rows of this folder; all folders by default."}
}

APPROVAL = record(
    {
        "id": STRING,
        **fields_of(ApprovalRequest),
        "agent": STRING_OR_NULL,
        "state": fields_of(Approval)["state"],
        "asked": STRING,
        "expires": STRING,
        "answered_by": STRING_OR_NULL,
    }
)
_ANSWER: Schema = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "enum": ["once", "always", "preview", "deny"]},
        "reason": {"type": "string", "maxLength": 2000},
        "for": {
            "type": "string",
            "pattern": "^[1-9][0-9]{0,3}[smhdw]$",
            "description": "With always: how long, such as 30m, 8h or 7d.",
        },
    },
    "required": ["answer"],
    "if": {"required": ["for"]},
    "then": {"properties": {"answer": {"const": "always"}}},
    "additionalProperties": False,
}
_QUESTION = record(
    {
        "question": STRING,
        "header": STRING,
        "multi_select": BOOLEAN,
        "options": array(record({"label": STRING, "description": STRING})),
    }
)
QUESTIONS = record(
    {
        "id": STRING,
        "workspace": STRING,
        "session": STRING,
        "agent": STRING_OR_NULL,
        "questions": array(_QUESTION),
        "state": fields_of(QuestionSet)["state"],
        "asked": STRING,
        "expires": STRING,
        "answered_by": STRING_OR_NULL,
    }
)
_TEXT: Schema = {"type": "string", "maxLength": ANSWER_CHARACTERS}
_ANSWERS = body({"answers": mapping({"anyOf": [_TEXT, array(_TEXT)]})})
_GRANT = schema_of(Grant)
_FILE = record({"id": STRING, **fields_of(FileTrust)})
_REVIEW = record({"path": STRING, "kind": STRING, "text": STRING, "sha256": STRING, "before": STRING_OR_NULL})
_PATH: dict[str, Schema] = {"path": {"type": "string", "description": "A path from GET /v1/trust.", "required": True}}
_TRUST = body({"path": STRING, "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}})


# --- approvals ------------------------------------------------------------------------------------------------------


@route("GET /v1/approvals", listing("approvals", APPROVAL), PAGING | _ANY_WORKSPACE)
def _approvals(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List the calls that are waiting for approval."""
    pending = approvals.pending(served.runtime.parts.state, _workspace_id(request))
    return page("approvals", [_approval(approval) for approval in pending[::-1]], request, by="asked")


def _workspace_id(request: ApiRequest) -> str | None:
    """Return the id of the workspace to list, or None for all."""
    folder = request.query.get("workspace")
    return None if folder is None else digest(folder)


def _approval(approval: Approval) -> dict[str, Any]:
    return {
        **plain(approval.asked),
        "id": approval.id,
        "session": approval.session,
        "agent": approval.session if approval.session.startswith(AGENT) else None,
        "state": approval.state,
        "asked": rfc3339(approval.asked_at),
        "expires": rfc3339(approval.expires_at),
        "answered_by": approval.answered_by or None,
    }


@route("POST /v1/approvals/{id}", APPROVAL, body=_ANSWER, errors=(404, 409))
def _answer_approval(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Answer a call that is waiting for approval."""
    state, id, body = served.runtime.parts.state, request.path["id"], request.body
    seconds = duration_seconds(body["for"]) if "for" in body else None
    try:
        given = UserAnswer(body["answer"], body.get("reason", ""), BY)
        return _approval(approvals.answer(state, id, given, seconds=seconds))
    except ToolError as error:
        if error.code != "not_found":
            raise
        settled = _settled(state, id)
        if settled is None:
            raise
        conflict = ToolError("busy", error.message, suggestion="Reload the approvals.")
        raise from_error(conflict, first=plain(approvals.settled_by(settled))) from None


def _settled(state: str, id: str) -> Approval | None:
    """Return the approval with exactly this id if it is no longer pending."""
    try:
        approval = approvals.find(state, id)
    except ToolError:
        return None
    return approval if approval.id == id and approval.state != "pending" else None


# --- questions ------------------------------------------------------------------------------------------------------


@route("GET /v1/questions", listing("questions", QUESTIONS), PAGING | _ANY_WORKSPACE)
def _questions(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List the questions that are waiting for an answer."""
    pending = approvals.pending_questions(served.runtime.parts.state, _workspace_id(request))
    return page("questions", [_question(questions) for questions in pending[::-1]], request, by="asked")


def _question(question: QuestionSet) -> dict[str, Any]:
    return {
        "id": question.id,
        "workspace": question.folder,
        "session": question.session,
        "agent": question.session if question.session.startswith(AGENT) else None,
        "questions": question.questions,
        "state": question.state,
        "asked": rfc3339(question.asked_at),
        "expires": rfc3339(question.expires_at),
        "answered_by": question.answered_by or None,
    }


@route("POST /v1/questions/{id}", QUESTIONS, body=_ANSWERS, errors=(404, 409))
def _answer_question(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Answer the questions of a call."""
    state, id, answers = served.runtime.parts.state, request.path["id"], request.body["answers"]
    by_text = {str(question["question"]): question for question in approvals.find_questions(state, id).questions}
    if set(answers) != set(by_text):
        raise HttpProblem(
            422,
            "The answers do not match the questions.",
            suggestion="Send one answer for each question, with the text of the question as its key.",
        )
    for text, answer in answers.items():
        if isinstance(answer, list) and not by_text[text]["multi_select"]:
            raise HttpProblem(422, f"{text[:100]!r} takes one answer.", suggestion="Send a string.")
    try:
        return _question(approvals.answer_questions(state, id, answers, by=BY))
    except ToolError as error:
        if error.code != "busy":
            raise
        settled = approvals.find_questions(state, id)
        first = None
        if settled.state == "answered" and settled.answered_at is not None:
            answered_at = rfc3339(settled.answered_at)
            first = {"answers": settled.answers, "by": settled.answered_by, "time": answered_at}
        raise from_error(error, first=first) from None


# --- grants ---------------------------------------------------------------------------------------------------------


@route("GET /v1/grants", listing("grants", _GRANT), PAGING | _ANY_WORKSPACE)
def _grants(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List the grants."""
    rows = list(map(plain, approvals.grants(served.runtime.parts.state, _workspace_id(request))))
    return page("grants", rows[::-1], request, by="since")


@route("DELETE /v1/grants/{id}", _GRANT, errors=(404,))
def _revoke_grant(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Revoke a grant."""
    state, id = served.runtime.parts.state, request.path["id"]
    if all(grant.id != id for grant in approvals.grants(state)):
        raise HttpProblem(404, f"There is no grant {id[:40]!r}.", suggestion="Reload the grants.")
    return plain(approvals.revoke(state, id))


# --- trust ----------------------------------------------------------------------------------------------------------


@route("GET /v1/trust", listing("files", _FILE), PAGING | WORKSPACE)
def _trusted(served: ServedWorkspace, request: ApiRequest) -> Json:
    """List trusted files, and files of the project that need trust."""
    return page("files", [_file(row) for row in trust.of_workspace(served.runtime).values()], request)


def _file(row: FileTrust) -> dict[str, Any]:
    return {"id": row.path, **plain(row)}


def _find_file(served: ServedWorkspace, path: str) -> tuple[ProjectFile, FileTrust]:
    for file, row in trust.of_workspace(served.runtime).items():
        if row.path == path:
            return file, row
    raise HttpProblem(404, f"{path[:200]!r} is not a file that needs trust.", suggestion="Use a path from /v1/trust.")


@route("GET /v1/trust/file", _REVIEW, _PATH | WORKSPACE, errors=(404, 409))
def _review(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Show a file that needs trust."""
    file, _ = _find_file(served, request.query["path"])
    review = trust.review(served.runtime.parts.state, file)
    return {
        "path": file.full,
        "kind": file.kind,
        "text": decoded(review.content),
        "sha256": sha256(review.content).hex(),
        "before": None if review.before is None else decoded(review.before),
    }


@route("POST /v1/trust", _FILE, WORKSPACE, _TRUST, errors=(404, 409))
def _trust(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Trust a file with exactly the content that was shown."""
    file, _ = _find_file(served, request.body["path"])
    review = trust.review(served.runtime.parts.state, file)
    if sha256(review.content).hex() != request.body["sha256"]:
        advice = "Review the file again."
        raise HttpProblem(
            409, f"{file.full} has changed since it was shown.", error_code="stale_file", suggestion=advice
        )
    return _file(trust.trust(served.runtime.parts.state, review))


@route("DELETE /v1/trust", _FILE, _PATH | WORKSPACE, errors=(404,))
def _distrust(served: ServedWorkspace, request: ApiRequest) -> Json:
    """Revoke the trust in a file."""
    file, row = _find_file(served, request.query["path"])
    trust.distrust(served.runtime.parts.state, file)
    return _file(row._replace(state="untrusted", since=None))
