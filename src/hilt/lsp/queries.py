"""Questions to a language server and its answers, as plain data: the server may run in another process."""

from __future__ import annotations

from typing import Any, NamedTuple

from hilt.errors import ToolError


class ServerQuestion(NamedTuple):
    """One question about a file, or with an empty path about the workspace of a language.

    The position counts lines and characters from 0. `before` is the text of a file before it was changed.
    """

    action: str  # an action of lsp_query, "workspace_symbols" or "compare"
    language: str
    path: str = ""  # real and absolute
    text: str = ""
    line: int = 0
    character: int = 0
    new_name: str = ""
    query: str = ""
    before: str = ""
    seconds: float = 0.0  # maximum wait, set only for questions to a warm server; 0 for the default


class ServerAnswer(NamedTuple):
    """The result of a question in the form of the protocol, and the encoding that its columns count."""

    server: str
    encoding: str
    result: Any
    notes: tuple[str, ...] = ()
    private: str = ""  # the path of a folder that only the server can see


def to_error(fields: dict[str, Any]) -> ToolError:
    """Return the error from its data."""
    details = fields.get("details", {})
    return ToolError(fields["code"], fields["message"], suggestion=fields.get("suggestion"), **details)


def from_error(error: ToolError) -> dict[str, Any]:
    """Return an error as data."""
    return {
        "code": error.code,
        "message": error.message,
        "suggestion": error.suggestion,
        "details": {name: value for name, value in error.details.items() if isinstance(value, str | int | list)},
    }
