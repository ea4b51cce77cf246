"""API errors as problem+json (RFC 9457), with the code and suggestion of hilt's errors."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from hilt.errors import ToolError

CONTENT_TYPE = b"application/problem+json"

# HTTP status by error code; others are 409: a valid request that conflicts with the current state
_STATUSES = {
    "invalid_request": 400,
    "invalid_args": 422,
    "not_found": 404,
    "file_not_found": 404,
    "unknown_tool": 404,
    "resource_limit": 503,
    "internal": 500,
}

# error code and suggestion by status, for errors of the server itself
_DEFAULTS = {
    400: ("invalid_request", "Send a valid HTTP request with a JSON body."),
    401: ("permission_denied", "Send the header Authorization: Bearer TOKEN."),
    403: ("denied", "Use the person's token for the console, and the agents' token for agents."),
    404: ("not_found", "See /openapi.json for the paths."),
    405: ("invalid_request", "See /openapi.json for the methods of this path."),
    408: ("timeout", "Send the body faster."),
    413: ("invalid_request", "Send less in one request."),
    421: ("invalid_request", "Use the address that hilt serve printed."),
    422: ("invalid_args", "Correct the values named in the error."),
    426: ("invalid_request", "Connect with a WebSocket."),
    429: ("limit_exceeded", "Send requests more slowly."),
    431: ("invalid_request", "Send shorter headers."),
    500: ("internal", "This is a bug in hilt; report it."),
    503: ("limit_exceeded", "Try again in a moment."),
}


class HttpProblem(Exception):
    """A failed request: the status and fields of the response."""

    def __init__(self, status: int, detail: str, *, headers: tuple[tuple[bytes, bytes], ...] = (), **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers
        code, suggestion = _DEFAULTS.get(status, _DEFAULTS[400])
        self.fields: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            "error_code": code,
            "suggestion": suggestion,
            **more,
        }

    @property
    def body(self) -> bytes:
        """The body of the response."""
        return json.dumps(self.fields).encode()


def from_error(error: ToolError, status: int | None = None, **more: Any) -> HttpProblem:
    """Return the problem for an error."""
    status = status or _STATUSES.get(error.code, 409)
    problem = HttpProblem(status, error.message, error_code=error.code, **more)
    problem.fields["suggestion"] = error.suggestion
    return problem


def sentence(reason: str) -> str:
    """Return a reason as a sentence, with a capital letter and a full stop."""
    return reason[:1].upper() + reason[1:] + "."
