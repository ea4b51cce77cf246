"""The surfaces on which the examples of a document run: add one to SURFACES and every document runs on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from hilt.surfaces.mcp.plain import SESSION
from tests.surfaces.commands import Command, forked
from tests.surfaces.http.servers import serving
from tests.surfaces.mcp import test_http
from tests.surfaces.mcp.hosts import Lines, listening


class Answer(NamedTuple):
    """The answer to a call: its text or error, its error code, the media types of its images, and its view.

    MCP has no views.
    """

    ok: bool
    text: str
    code: str = ""
    images: tuple[str, ...] = ()
    view: dict[str, Any] | None = None

    @property
    def data(self) -> Any:
        """The text as JSON."""
        return json.loads(self.text)


Ask = Callable[[str, Any], Answer]


def of_envelope(envelope: dict[str, Any]) -> Answer:
    """Return the answer in an envelope."""
    images = tuple(block["mimeType"] for block in envelope.get("content", ()))
    text = envelope["result"] if envelope["ok"] else envelope["error"]
    return Answer(envelope["ok"], text, envelope.get("error_code", ""), images, envelope.get("visualization"))


def of_result(result: dict[str, Any]) -> Answer:
    """Return the answer in an MCP result; a result without content asks the client a question."""
    if "content" not in result:
        return Answer(False, json.dumps(result), "input_required")
    text = "".join(block["text"] for block in result["content"] if block["type"] == "text")
    images = tuple(block["mimeType"] for block in result["content"] if block["type"] == "image")
    if not result.get("isError"):
        return Answer(True, text, "", images)
    code = result["_meta"]["dev.hilt/error"]["code"]
    return Answer(False, text.removeprefix(f"{code}: "), code, images)


@contextmanager
def one_shot(command: Command) -> Iterator[Ask]:
    """One process for each call, and a resident process for jobs and agents."""
    command.environ["HILT_RESIDENT"] = "auto"
    try:
        yield lambda tool, args: of_envelope(command.ask({"tool": tool, "args": args})[0])
    finally:
        command.run("resident", "stop")


@contextmanager
def session(command: Command) -> Iterator[Ask]:
    """`hilt stdio`."""
    with command.start(line=forked("stdio")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(tool: str, args: Any) -> Answer:
            stdin.write(json.dumps({"tool": tool, "args": args}).encode() + b"\n")
            stdin.flush()
            return of_envelope(json.loads(stdout.readline()))

        yield ask
        process.communicate(timeout=60)


@contextmanager
def mcp(command: Command) -> Iterator[Ask]:
    """`hilt mcp` on standard input and output."""
    with Lines(command) as lines:
        yield lambda tool, args: of_result(lines.call(tool, **args))


@contextmanager
def mcp_http(command: Command) -> Iterator[Ask]:
    """`hilt mcp --http`."""
    with listening(command) as address:
        meta: dict[str, Any] = {}

        def ask(tool: str, args: Any) -> Answer:
            result = test_http.call(address, tool, args, meta=meta)
            session_id = result.get("_meta", {}).get(SESSION)
            if session_id is not None:  # nothing else links the requests
                meta[SESSION] = session_id
            return of_result(result)

        yield ask


@contextmanager
def api(command: Command) -> Iterator[Ask]:
    """`POST /v1/call` of `hilt serve`."""
    with serving(command) as server:

        def ask(tool: str, args: Any) -> Answer:
            body = {"tool": tool, "args": args, "session": "document"}
            return of_envelope(server.post("/v1/call", body, token=server.agents_token))

        yield ask


SURFACES: dict[str, Callable[[Command], AbstractContextManager[Ask]]] = {
    "one-shot": one_shot,
    "session": session,
    "mcp": mcp,
    "mcp over http": mcp_http,
    "api": api,
}


class Step(NamedTuple):
    """A call of a document, and its expected answer: an exact text, or a predicate."""

    tool: str
    args: Any
    expected: str | Callable[[Answer], bool]
    fails: bool = False


def play(ask: Ask, steps: list[Step]) -> list[Answer]:
    """Make the calls in order, and compare the answers."""
    answers = []
    for step in steps:
        answer = ask(step.tool, step.args)
        assert answer.ok != step.fails, (step, answer)
        if isinstance(step.expected, str):
            assert (answer.code if step.fails else answer.text) == step.expected, step
        else:
            assert step.expected(answer), (step, answer)
        answers.append(answer)
    return answers
