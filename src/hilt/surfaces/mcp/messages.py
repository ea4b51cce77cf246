"""JSON-RPC messages of MCP clients: what is one, what is none and why, and which come together in a batch."""

from __future__ import annotations

from typing import Any

from mcp_types import INVALID_REQUEST
from mcp_types.jsonrpc import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

BATCHES = "2025-03-26"  # the one revision in which messages may come in batches
BATCH_MAX = 256

Message = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError


class Wrong(Exception):
    """What is no message: why, and the id of what was meant."""

    def __init__(self, code: int, reason: str, id: Any = None, *, is_error: bool = False) -> None:
        self.code = code
        self.reason = reason
        self.id = id
        self.is_error = is_error  # which is not answered with another

    @property
    def answer(self) -> dict[str, Any]:
        """The answer that tells."""
        return {"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.reason}}


def message_of(value: Any) -> Message:
    """Return the message that a decoded value is."""
    if not isinstance(value, dict):
        what = "batches are not accepted" if isinstance(value, list) else "a message is a JSON object"
        raise Wrong(INVALID_REQUEST, what)
    id = value.get("id")
    has_id = isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool))
    known = id if has_id else None
    if value.get("jsonrpc") != "2.0":
        raise Wrong(INVALID_REQUEST, 'jsonrpc must be "2.0"', known)
    if "method" not in value:
        return _response(value, known)
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        raise Wrong(INVALID_REQUEST, "method must be text", known)
    if "id" in value and not has_id:
        raise Wrong(INVALID_REQUEST, "an id is text or an integer")
    if not isinstance(params, dict) and "params" in value:
        raise Wrong(INVALID_REQUEST, "params must be an object", known)
    if has_id:
        return JSONRPCRequest.model_construct(jsonrpc="2.0", id=id, method=method, params=params)
    return JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params)


def _response(value: dict[str, Any], id: Any) -> JSONRPCResponse | JSONRPCError:
    """Return the client's answer to a request of ours."""
    error, result = value.get("error"), value.get("result")
    if isinstance(result, dict) and id is not None:
        return JSONRPCResponse.model_construct(jsonrpc="2.0", id=id, result=result)
    if isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str):
        known = ErrorData(code=error["code"], message=error["message"], data=error.get("data"))
        return JSONRPCError.model_construct(jsonrpc="2.0", id=id, error=known)
    what = "the message has no method" if id is None else "the message has neither method nor result"
    raise Wrong(INVALID_REQUEST, what, id, is_error=error is not None)


def batch_of(values: list[Any]) -> tuple[list[Message], list[Wrong]]:
    """Return the messages of a batch, and what in it is none."""
    if not 0 < len(values) <= BATCH_MAX:
        raise Wrong(INVALID_REQUEST, f"a batch has 1 to {BATCH_MAX} messages")
    messages: list[Message] = []
    wrong: list[Wrong] = []
    ids: set[str] = set()
    for value in values:
        try:
            message = message_of(value)
            if isinstance(message, JSONRPCRequest):
                if message.method == "initialize":
                    raise Wrong(INVALID_REQUEST, "initialize comes alone", message.id)
                if str(message.id) in ids:
                    raise Wrong(INVALID_REQUEST, "another request of the batch has this id", message.id)
                ids.add(str(message.id))
        except Wrong as error:
            wrong.append(error)
        else:
            messages.append(message)
    return messages, wrong
