from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hilt.call import Call, Result
from hilt.errors import ToolError
from tests.custom.calls import has_ended

pytestmark = pytest.mark.starts_processes

TALKING = '''
import os
from hilt import Output, ToolError, tool

@tool(effects="read")
def talk(ctx) -> dict:
    """Send every kind of message."""
    ctx.progress(1, 2, "half")
    ctx.log("info", {"a": 1})
    form = ctx.elicit("Who?", {"type": "object", "properties": {}})
    answer = ctx.sample({"messages": [], "maxTokens": 1}, name="model")
    more = ctx.inputs({"roots": {"method": "roots/list", "params": {}}})
    return {"form": form, "answer": answer, "more": more, "pid": os.getpid()}

@tool(effects="read")
def need(ctx) -> str:
    """Need a model."""
    ctx.require("sampling")
    return "there"

@tool(effects="read")
def odd(ctx) -> str:
    """Send a value that JSON does not support."""
    ctx.log("info", {1, 2})
    return "not reached"

@tool(effects="read")
def crowd(ctx) -> str:
    """Report progress from many threads."""
    import threading
    threads = [threading.Thread(target=ctx.progress, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "done"

@tool(effects="read")
def content(blocks: list[dict]) -> Output:
    """Answer with blocks."""
    return Output("text", content=tuple(blocks))
'''


class Client:
    """A client that answers every request with the name of its method."""

    def __init__(self, *, supports_requests: bool = True) -> None:
        self.supports_requests = supports_requests
        self.received: list[Any] = []

    can_ask = has_questions = False

    def approve(self, prompt: Any, digest: str) -> None:
        return None

    def ask(self, questions: Sequence[Any]) -> None:
        return None

    def elicit(self, message: str, schema: dict[str, Any]) -> None:
        return None

    def sample(self, request: dict[str, Any]) -> None:
        return None

    def inputs(self, requests: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
        if not self.supports_requests:
            raise ToolError("no_one_to_ask", "Not now.")
        return {name: {"to": request["method"]} for name, request in requests.items()}

    def require(self, capability: str) -> None:
        if not self.supports_requests:
            raise ToolError("no_one_to_ask", f"There is no {capability}.")

    def progress(self, done: float, total: float | None, message: str) -> None:
        self.received.append((done, total, message))

    def log(self, level: str, data: Any) -> None:
        self.received.append((level, data))


@pytest.fixture
def tools(base) -> None:
    folder = os.path.join(base, "config", "tools")
    os.makedirs(folder)
    with open(os.path.join(folder, "talking.py"), "w", encoding="utf-8") as file:
        file.write(TALKING)


def call(runtime, tool: str, client: Client | None = None, **args: Any) -> Result:
    results: list[Result] = []
    ended = threading.Event()

    def done(result: Result) -> None:
        results.append(result)
        ended.set()

    runtime.submit(Call(tool, args), done, attendant=client)
    assert ended.wait(60)
    return results[0]


def test_a_tool_sends_requests_to_the_client_of_its_call(tools, runtime):
    client = Client()

    replies = call(runtime, "talk", client).data

    assert client.received == [(1, 2, "half"), ("info", {"a": 1})]
    assert replies["form"] == {"to": "elicitation/create"}
    assert replies["answer"] == {"to": "sampling/createMessage"}
    assert replies["more"] == {"roots": {"to": "roots/list"}}


def test_without_a_client_requests_have_no_answer(tools, runtime):
    replies = call(runtime, "talk").data

    assert (replies["form"], replies["answer"], replies["more"]) == (None, None, {"roots": None})
    assert call(runtime, "need").text == "there"


def test_a_client_error_ends_the_call_but_not_the_worker(tools, runtime):
    before = call(runtime, "talk", Client()).data["pid"]

    refused = call(runtime, "talk", Client(supports_requests=False))
    needed = call(runtime, "need", Client(supports_requests=False))

    assert [result.error.code for result in (refused, needed) if result.error] == ["no_one_to_ask"] * 2
    assert "There is no sampling." in str(needed.error)
    assert not has_ended(before)
    assert call(runtime, "talk", Client()).data["pid"] == before


def test_a_value_that_is_not_json_is_an_error_of_the_tool(tools, runtime):
    odd = call(runtime, "odd", Client())

    assert odd.error is not None
    assert odd.error.code == "tool_failed"
    assert call(runtime, "need", Client()).text == "there"


def test_threads_of_a_tool_can_send_requests_to_the_client(tools, runtime):
    client = Client()

    assert call(runtime, "crowd", client).text == "done"
    assert sorted(client.received) == [(number, None, "") for number in range(20)]
    assert call(runtime, "need", client).text == "there"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "more"},
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "audio", "data": "", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "a:b", "text": ""}},
        {"type": "resource_link", "uri": "a:b", "name": "b"},
    ],
)
def test_content_blocks_are_passed_on(tools, runtime, block):
    result = call(runtime, "content", blocks=[block])

    assert (result.text, result.content) == ("text", (block,))


@pytest.mark.parametrize(
    "block", [{}, {"type": "video"}, {"type": "image", "data": "x"}, {"type": "text", "text": 1}, {"type": "resource"}]
)
def test_invalid_content_blocks_are_an_error_of_the_tool(tools, runtime, block):
    result = call(runtime, "content", blocks=[block])

    assert result.error is not None
    assert result.error.code == "tool_failed"
    assert "resource_link" in result.error.suggestion
