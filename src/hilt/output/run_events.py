"""The events of a conversation: drawn on a terminal, printed by `--json`, sent by other surfaces.

A `Conversation` passes each event to its `emit` function, on the thread of its event loop and in order. `as_json`
returns the events for programs; the others are for people.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from hilt.call import Result
from hilt.errors import ToolError

DONE, FAILED, USAGE, OVER_BUDGET, UNAPPROVED, INTERRUPTED = 0, 1, 2, 3, 4, 130  # exit statuses of a run


class TextPiece(NamedTuple):
    """The next piece of the model's answer. With `restart`, the message starts again: discard its earlier pieces."""

    text: str
    restart: bool = False


class ThoughtPiece(NamedTuple):
    """The next piece of the model's reasoning before it answers."""

    text: str


class CallStarted(NamedTuple):
    """The model calls a tool; `args` is a string if it is not a JSON object."""

    id: str
    tool: str
    args: dict[str, Any] | str


class CallProgress(NamedTuple):
    """A running call reports progress."""

    id: str
    done: float
    total: float | None
    message: str


class CallFinished(NamedTuple):
    """A call has its result."""

    id: str
    tool: str
    result: Result


class ApprovalAsked(NamedTuple):
    """A call needs the user's approval."""

    id: str
    tool: str


class TokensUsed(NamedTuple):
    """The tokens of one request, its cost in dollars (None: unknown), and how full the context is."""

    input_tokens: int
    output_tokens: int
    cost: float | None = None
    context_used: int = 0
    context_tokens: int = 0


class Notice(NamedTuple):
    """A message for the user: a retry, a file that is not used, a compaction."""

    text: str
    kind: Literal["retry", "compaction", "note"] = "note"


class RunEnded(NamedTuple):
    """The end of a run: its exit status, the last message, and the error that ended it."""

    status: int
    session: str
    text: str = ""
    error: ToolError | None = None


Event: TypeAlias = (
    TextPiece
    | ThoughtPiece
    | CallStarted
    | CallProgress
    | CallFinished
    | ApprovalAsked
    | TokensUsed
    | Notice
    | RunEnded
)


def as_json(event: Event) -> dict[str, Any] | None:
    """Return an event for programs; None for events that only people see."""
    match event:
        case TextPiece(text, restart):
            return {"type": "text", "text": text, **({"restart": True} if restart else {})}
        case CallStarted(id, tool, args):
            return {"type": "tool_call", "id": id, "tool": tool, "args": args}
        case CallFinished(id, tool, result):
            return {"type": "tool_result", "id": id, "ok": result.ok, **_outcome(result)}
        case ApprovalAsked(id, tool):
            return {"type": "approval", "id": id, "tool": tool}
        case TokensUsed(input_tokens, output_tokens, cost):
            return {"type": "usage", "input_tokens": input_tokens, "output_tokens": output_tokens, "cost": cost}
        case RunEnded(status, session, text, error):
            code = None if error is None else error.code
            facts = {} if error is None else {"message": error.message, "suggestion": error.suggestion}
            ended = {"type": "done", "status": status, "session": session, "text": text, "error_code": code}
            return {**ended, **facts}
    return None


def _outcome(result: Result) -> dict[str, Any]:
    if result.error is None:
        return {"result": result.result}
    approval = result.error.details.get("approval")
    facts = {"error_code": result.error.code, "message": result.error.message}
    return facts if approval is None else {**facts, "approval": approval}
