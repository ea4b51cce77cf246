"""JSON-RPC messages of MCP clients: validation, and batches."""

from __future__ import annotations

from typing import Any

from mcp_types import INVALID_REQUEST
from mcp_types.jsonrpc import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

BATCHES = "2025-03-26"  # the only protocol version with batches
BATCH_MAX = 256

Message = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError


class InvalidMessage(Exception):
    """An invalid message: the reason, and its id if it has one."""

    def __init__(self, code: int, reason: str, id: Any = None, *, is_error: bool = False) -> None:
        self.code = code
        self.reason = reason
        self.id = id
        self.is_error = is_error  # an error message, which must not be answered with another

    @property
    def answer(self) -> dict[str, Any]:
        """The error response."""
        return {"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code, "message": self.reason}}


def message_of(value: Any) -> Message:
    """Return the message in a decoded value."""
    if not isinstance(value, dict):
        reason = "batches are not supported" if isinstance(value, list) else "a message must be a JSON object"
        raise InvalidMessage(INVALID_REQUEST, reason)
    id = value.get("id")
    has_id = isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool))
    valid_id = id if has_id else None
    if value.get("jsonrpc") != "2.0":
        raise InvalidMessage(INVALID_REQUEST, 'jsonrpc must be "2.0"', valid_id)
    if "method" not in value:
        return _response(value, valid_id)
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        raise InvalidMessage(INVALID_REQUEST, "method must be a string", valid_id)
    if "id" in value and not has_id:
        raise InvalidMessage(INVALID_REQUEST, "id must be a string or an integer")
    if not isinstance(params, dict) and "params" in value:
        raise InvalidMessage(INVALID_REQUEST, "params must be an object", valid_id)
    if has_id:
        return JSONRPCRequest.model_construct(jsonrpc="2.0", id=id, method=method, params=params)
    return JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params)


def _response(value: dict[str, Any], id: Any) -> JSONRPCResponse | JSONRPCError:
    """Return the client's response to one of our requests."""
    error, result = value.get("error"), value.get("result")
    if isinstance(result, dict) and id is not None:
        return JSONRPCResponse.model_construct(jsonrpc="2.0", id=id, result=result)
    if isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str):
        data = ErrorData(code=error["code"], message=error["message"], data=error.get("data"))
        return JSONRPCError.model_construct(jsonrpc="2.0", id=id, error=data)
    reason = "the message has no method" if id is None else "the message has neither method nor result"
    raise InvalidMessage(INVALID_REQUEST, reason, id, is_error=error is not None)


def batch_of(values: list[Any]) -> tuple[list[Message], list[InvalidMessage]]:
    """Return the messages of a batch, and the errors of those that are invalid."""
    if not 0 < len(values) <= BATCH_MAX:
        raise InvalidMessage(INVALID_REQUEST, f"a batch must have 1 to {BATCH_MAX} messages, not {len(values)}")
    messages: list[Message] = []
    invalid: list[InvalidMessage] = []
    ids: set[str] = set()
    for value in values:
        try:
            message = message_of(value)
            if isinstance(message, JSONRPCRequest):
                if message.method == "initialize":
                    raise InvalidMessage(INVALID_REQUEST, "initialize must not be in a batch", message.id)

                if str(message.id) in ids:
                    raise InvalidMessage(INVALID_REQUEST, "another request of the batch has this id", message.id)
                ids.add(str(message.id))
        except InvalidMessage as error:
            invalid.append(error)
        else:
            messages.append(message)
    return messages, invalid
