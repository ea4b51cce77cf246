"""POST /v1/call: runs a call and returns its envelope; with stream=1, streams the output as server-sent events."""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from hilt import wire
from hilt.active_call import ActiveCall
from hilt.call import ApprovalRequest, Call, Json, Result, UserAnswer
from hilt.context import Attendant
from hilt.errors import ToolError
from hilt.schema import BOOLEAN, STRING, Schema, array, record
from hilt.surfaces.http.problems import from_error
from hilt.surfaces.http.routes import WORKSPACE, Route
from hilt.surfaces.http.workspaces import ServedWorkspace

UNSENT_MAX = 256  # chunks of output that a slow client has not read; more are skipped
SKIPPED = "[output skipped: the client reads too slowly]\n"

Offload = Callable[[Callable[[], Any]], Awaitable[Any]]

_ENVELOPE = record(
    {
        "ok": BOOLEAN,
        "result": STRING,
        "error": STRING,
        "error_code": STRING,
        "suggestion": STRING,
        "content": array({"type": "object"}),
        "classification": STRING,
        "risk": STRING,
        "meta": {"type": "object"},
        "visualization": {"type": "object"},
        "id": {},
        "request_id": {},
    },
    optional="result error error_code suggestion content classification risk meta visualization id request_id",
)
_TEXT: Schema = {"type": ["string", "null"], "minLength": 1, "maxLength": wire.MAX_FIELD}


def _request(tool: str, args: str) -> Schema:
    """Return the schema of a request whose fields for the tool and its arguments have these names."""
    return {
        "type": "object",
        "properties": {
            tool: {"type": "string", "minLength": 1},
            args: {"type": ["object", "string", "null"]},
            "id": {},
            "request_id": {},
            "session": _TEXT,
            "client": _TEXT,
            "dialect": _TEXT,
            "approval": _TEXT,
            "workspace": {"type": ["string", "null"]},
        },
        "required": [tool],
        "additionalProperties": False,
    }


ROUTE = Route(
    "POST",
    "/v1/call",
    "Call a tool; with stream=1, respond with server-sent events: output while it runs, then result",
    None,
    _ENVELOPE,
    {"stream": {"type": "integer", "enum": [0, 1], "default": 0}, **WORKSPACE},
    {"oneOf": [_request("tool", "args"), _request("name", "arguments")]},
    who="both",
)


def read_call(value: Json) -> tuple[Call, Any]:
    """Return the call in a body, and the workspace that it names."""
    folder = None
    if isinstance(value, dict) and "workspace" in value:
        value = {**value}
        folder = value.pop("workspace")
    try:
        call = wire.to_request(value)
    except wire.Refused as refused:
        raise from_error(refused.error, 400) from None
    if isinstance(call, wire.Cancel):
        advice = "Close the connection of the call."
        error = ToolError("invalid_request", "A call over HTTP cannot be cancelled by a request.", suggestion=advice)
        raise from_error(error, 400)
    return call, folder


class HttpAttendant(Attendant):
    """A client that cannot be asked anything; with `approver`, it approves the call itself."""

    def __init__(self, *, approver: str = "", on_output: Callable[[bytes], None] = lambda data: None) -> None:
        """`on_output` receives the output of commands, on any thread."""
        self._approver = approver
        self._on_output = on_output

    def approve(self, asked: ApprovalRequest, digest: str) -> UserAnswer | None:
        """Approve the call if the person makes it; otherwise return None: the approval is answered elsewhere."""
        return UserAnswer("once", by=self._approver) if self._approver else None

    def output(self, data: bytes) -> None:
        """Forward output."""
        self._on_output(data)


class HttpCall:
    """One call, driven from the event loop."""

    def __init__(self, served: ServedWorkspace, call: Call, quick: Offload, slow: Offload) -> None:
        """`quick` and `slow` run work on other threads."""
        self._served = served
        self._call = call
        self._quick = quick
        self._slow = slow
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[bytes] = self._loop.create_future()
        self._running: ActiveCall | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Cancel the call, unless it has ended."""
        self._is_cancelled = True
        if self._running is not None and not self._ended.done():
            self._running.cancel()

    async def envelope(self, attendant: HttpAttendant | None = None) -> bytes:
        """Run the call and return its envelope."""
        if await self._quick(lambda: self._start(attendant)):
            return await self._ended
        envelope: bytes = await self._slow(lambda: wire.encode_result(self._served.request(self._call)))
        return envelope

    def _start(self, attendant: HttpAttendant | None) -> bool:
        """Start the call in this process; return False if it must run in the resident process."""
        if self._served.is_for_resident(self._call):
            return False
        self._served.runtime.submit(self._call, self._done, began=self._began, attendant=attendant)
        return True

    def _began(self, running: ActiveCall) -> None:
        self._running = running
        if self._is_cancelled:
            running.cancel()

    def _done(self, result: Result) -> None:
        """Deliver the envelope to the event loop, on any thread."""
        envelope = wire.encode_result(result)
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._deliver, envelope)

    def _deliver(self, envelope: bytes) -> None:
        if not self._ended.done():
            self._ended.set_result(envelope)


async def stream(call: HttpCall) -> AsyncGenerator[bytes, None]:
    """Yield the output of a call as server-sent events while it runs, and its envelope as the last one."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[str | None] = asyncio.Queue()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    skipped = False

    def put(data: bytes) -> None:
        nonlocal skipped
        if chunks.qsize() >= UNSENT_MAX:
            skipped = True
            return
        text = decoder.decode(data)
        if skipped:
            text, skipped = SKIPPED + text, False
        if text:
            chunks.put_nowait(text)

    def receive(data: bytes) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(put, data)

    result = asyncio.ensure_future(call.envelope(HttpAttendant(on_output=receive)))
    result.add_done_callback(lambda _: chunks.put_nowait(None))
    try:
        while (text := await chunks.get()) is not None:
            yield _event("output", json.dumps({"stream": "stdout", "text": text}))
        yield _event("result", result.result().decode().rstrip("\n"))
    finally:
        result.cancel()


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()
