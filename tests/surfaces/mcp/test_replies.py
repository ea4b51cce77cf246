"""The reply to an HTTP request: JSON, or a stream of events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from sse_starlette.event import ensure_bytes

from hilt.surfaces.mcp import http
from hilt.surfaces.mcp.http import UNREAD_BYTES, Reply

START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8"), (b"mcp-session-id", b"s")],
}
END = {"type": "http.response.body", "body": b"", "more_body": False}


def event(message: Any) -> dict[str, Any]:
    """Return a message in the format of the SDK's streams for the older protocol."""
    data = message.model_dump_json(by_alias=True, exclude_unset=True)
    body = ensure_bytes({"event": "message", "data": data}, "\r\n")
    return {"type": "http.response.body", "body": body, "more_body": True}


def result(id: Any = 1, **values: Any) -> dict[str, Any]:
    return event(JSONRPCResponse(jsonrpc="2.0", id=id, result=values))


def note(text: str = "") -> dict[str, Any]:
    params = {"level": "info", "data": text}
    return event(JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params=params))


class Client:
    """Receives messages as soon as it reads."""

    def __init__(self, *, reads: bool = True) -> None:
        self.messages: list[Any] = []
        self.received = asyncio.Semaphore(0)  # released for each message
        self.reads = asyncio.Event()
        if reads:
            self.reads.set()

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.messages.append(message)
        self.received.release()

    @property
    def kind(self) -> bytes:
        headers: dict[bytes, bytes] = dict(self.messages[0]["headers"])
        return headers[b"content-type"]

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.messages[1:])


def answered(*messages: Any, holds: bool = True) -> Client:
    """Return the client after all messages were sent to it."""

    async def sent() -> Client:
        client = Client()
        async with Reply(client.send, holds=holds) as reply:
            for message in (START, *messages, END):
                await reply(message)
        return client

    return asyncio.run(sent())


@given(st.integers() | st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_a_first_result_is_json_whatever_its_contents(id, text):
    client = answered(result(id, method=text))

    headers = dict(client.messages[0]["headers"])
    assert headers == {
        b"content-type": b"application/json",
        b"content-length": b"%d" % len(client.body),
        b"mcp-session-id": b"s",
    }
    assert json.loads(client.body) == {"jsonrpc": "2.0", "id": id, "result": {"method": text}}
    assert [message.get("more_body") for message in client.messages] == [None, False]


def test_a_first_error_is_json_too():
    client = answered(event(JSONRPCError(jsonrpc="2.0", id="a", error=ErrorData(code=1, message="no"))))

    assert client.kind == b"application/json"
    assert json.loads(client.body)["error"]["message"] == "no"


@pytest.mark.parametrize(
    "first",
    [
        note("result"),
        event(JSONRPCRequest(jsonrpc="2.0", id=1, method="elicitation/create", params={"result": {}})),
        {**END, "body": b": ping\r\n\r\n", "more_body": True},
        {**END, "body": b"id: 1\r\ndata: \r\n\r\n", "more_body": True},
    ],
    ids=["a notification", "a question", "a ping", "another event"],
)
def test_a_message_before_the_result_starts_a_stream(first):
    client = answered(first, result())

    assert client.messages == [START, first, result(), END]


def test_a_stream_that_is_not_held_back_stays_a_stream():
    assert answered(result(), holds=False).messages == [START, result(), END]


def test_a_response_that_is_not_a_stream_passes_through():
    start = {**START, "headers": [(b"content-type", b"application/json")]}

    async def sent() -> Client:
        client = Client()
        async with Reply(client.send, holds=True) as reply:
            await reply(start)
            await reply(END)
        return client

    assert asyncio.run(sent()).messages == [start, END]


def test_a_stream_starts_after_a_delay(monkeypatch):
    monkeypatch.setattr(http, "HOLD_SECONDS", 0.01)

    async def sent() -> Client:
        client = Client()
        async with Reply(client.send, holds=True) as reply:
            await reply(START)
            await client.received.acquire()
            await reply(result())
            await reply(END)
        return client

    assert asyncio.run(sent()).messages == [START, result(), END]


def test_a_stream_that_ends_without_a_message_is_closed():
    async def sent() -> Client:
        client = Client()
        async with Reply(client.send, holds=True) as reply:
            await reply(START)
        return client

    assert asyncio.run(sent()).messages == [START, END]


def test_the_sender_does_not_wait_for_the_reader_and_only_notifications_are_dropped():
    question = event(JSONRPCRequest(jsonrpc="2.0", id="q", method="elicitation/create", params={}))
    notes = [note("x" * 10_000) for _ in range(2 * UNREAD_BYTES // 10_000)]

    async def sent() -> Client:
        client = Client(reads=False)
        async with Reply(client.send, holds=True) as reply:
            await reply(START)
            for message in (*notes, question, result(text="y" * 2 * UNREAD_BYTES), END):
                await reply(message)
            client.reads.set()
        return client

    client = asyncio.run(sent())
    assert client.messages[-3:] == [question, result(text="y" * 2 * UNREAD_BYTES), END]
    delivered = len(client.messages) - 4
    assert 0.9 * UNREAD_BYTES < delivered * len(notes[0]["body"]) <= UNREAD_BYTES


def test_notifications_resume_once_the_client_has_read():
    async def sent() -> Client:
        client = Client(reads=False)
        async with Reply(client.send, holds=False) as reply:
            await reply(START)
            await reply(result(text="y" * UNREAD_BYTES))
            await reply(note("first"))
            client.reads.set()
            await client.received.acquire()
            await client.received.acquire()
            await asyncio.sleep(0)  # for the counter
            await reply(note("second"))
        return client

    assert asyncio.run(sent()).messages[2:] == [note("second")]
