"""Answers questions of other processes to the language servers that this process keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.lsp.queries import ServerQuestion, from_error

if TYPE_CHECKING:
    from hilt.lsp.access import ServerAccess


def answer(access: ServerAccess, request: dict[str, Any], fence: Fence, send: Callable[[dict[str, Any]], None]) -> None:
    """Answer the request of another process; `send` sends one reply."""
    try:
        if "warm" in request:
            reply = access.ask_warm(ServerQuestion(**request["warm"]))
        else:
            question = ServerQuestion(**request["ask"])
            reply = access.ask(question, fence, lambda text, share: send({"progress": [text, share]}))
    except ToolError as error:
        send({"error": from_error(error)})
    else:
        send({"answer": None if reply is None else reply._asdict()})
