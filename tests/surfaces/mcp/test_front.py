"""The front loop: which modules it loads, that it responds like the SDK, and calls around the loading of the SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from hilt.surfaces.mcp import plain
from tests.marks import Mark, wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import Command
from tests.surfaces.mcp.hosts import Lines

META = {plain.VERSION_KEY: plain.MODERN, plain.CAPABILITIES_KEY: {}}
INFO = {"name": "lines", "version": "1"}

# after a message like this, the SDK answers everything, so that its responses can be compared
BYPASS = b'{"jsonrpc":"2.0","method":"notifications/nobody/knows"}\n'


class Pair:
    """Two servers of one workspace: one as hosts use it, one where the SDK answers everything."""

    def __init__(self, command: Command, *arguments: str, opening: dict[str, Any] | None) -> None:
        self._clients = [Lines(command, *arguments, handshake=False), Lines(command, *arguments, handshake=False)]
        self._clients[1].write(BYPASS)
        self.opened = self.answers("initialize", opening) if opening is not None else []
        for client in self._clients if opening is not None else ():
            client.tell("notifications/initialized")

    def answers(self, method: Any, params: Any, **fields: Any) -> list[Any]:
        """Send the same request to both, and return their responses."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params})}
        return [_exchange(client, {**message, **fields}) for client in self._clients]

    def end(self) -> None:
        for client in self._clients:
            client.end()


def _exchange(client: Lines, message: dict[str, Any]) -> Any:
    """Return the response to a request; decline questions before it."""
    client.write(json.dumps(message).encode() + b"\n")
    while True:
        answer = client.read()
        if "method" not in answer:
            return answer
        if "id" in answer:
            reply = {"jsonrpc": "2.0", "id": answer["id"], "result": {"action": "decline"}}
            client.write(json.dumps(reply).encode() + b"\n")


def opening(version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": capabilities, "clientInfo": INFO}


def test_the_versions_are_those_of_the_sdk():
    assert tuple(HANDSHAKE_PROTOCOL_VERSIONS) == plain.HANDSHAKE_VERSIONS
    assert tuple(MODERN_PROTOCOL_VERSIONS) == (plain.MODERN,)


# --- loaded modules -------------------------------------------------------------------------------------------------

COUNT = """
import os, sys
def report(status):
    os.write(2, "\\n".join(sys.modules).encode())
    leave(status)
leave, os._exit = os._exit, report
from hilt.surfaces.cli import main
main(["mcp"])
"""
HEAVY = {"argparse", "asyncio", "mcp", "mcp_types", "pydantic", "starlette", "uvicorn"}
if sys.version_info < (3, 14):
    HEAVY.add("dataclasses")  # later, Python's own traceback module loads it


def loaded(command: Command, *messages: dict[str, Any]) -> set[str]:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{COUNT}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=command.folder.path,
        env=command.environ,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
            if "id" in message:
                assert "result" in json.loads(process.stdout.readline())
        return set(process.communicate(timeout=60)[1].decode().split("\n"))


SESSIONS: dict[str, list[dict[str, Any]]] = {
    "handshake": [
        {"id": 1, "method": "initialize", "params": opening(elicitation={}, roots={"listChanged": True})},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "ping"},
    ],
    "stateless": [{"id": 1, "method": "server/discover", "params": {"_meta": META}}],
}


@pytest.mark.parametrize("messages", SESSIONS.values(), ids=SESSIONS)
def test_the_start_of_a_session_loads_neither_the_sdk_nor_asyncio(command, messages):
    assert loaded(command, *messages) & HEAVY == set()


def test_the_sdk_is_loaded_when_it_is_needed(command):
    first = SESSIONS["handshake"][0]

    modules = loaded(command, first, {"id": 2, "method": "resources/list"})

    assert {"asyncio", "mcp", "pydantic"} <= modules


# --- the same responses ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Command(str(tmp_path_factory.mktemp("front")))


OPENINGS = [
    *(opening(version) for version in (*HANDSHAKE_PROTOCOL_VERSIONS, "2026-07-28", "1999-01-01", "")),
    opening(elicitation={}, sampling={}, roots={}),
    opening(elicitation={"form": {}, "url": {}}, experimental={"x": {"y": [1]}}, extensions={"a/b": {}}),
    opening(tasks={"list": {}}, unknown={}),
    opening(elicitation=1),
    opening(roots={"listChanged": "yes"}),
    {**opening(), "clientInfo": {**INFO, "title": "Lines", "websiteUrl": "https://example.org"}},
    {**opening(), "clientInfo": {**INFO, "icons": [{"src": "https://example.org/i.png"}]}},
    {**opening(), "clientInfo": {"name": "lines"}},
    {**opening(), "_meta": {"progressToken": 1}},
    {"protocolVersion": 1},
]


@pytest.mark.parametrize("params", OPENINGS, ids=lambda params: json.dumps(params)[:60])
def test_a_handshake_is_answered_as_by_the_sdk(workspace, params):
    pair = Pair(workspace, opening=params)
    try:
        ours, theirs = pair.opened
        assert ours == theirs
        assert len({json.dumps(answer, sort_keys=True) for answer in pair.answers("tools/list", None)}) == 1
    finally:
        pair.end()


REQUESTS: list[tuple[Any, Any]] = [
    ("ping", None),
    ("ping", {"_meta": {"progressToken": 5}}),
    ("ping", {"extra": 1}),
    ("tools/list", None),
    ("tools/list", {"_meta": {"vendor/key": {"a": [1]}}}),
    ("tools/list", {"_meta": {"progressToken": 5}}),
    ("tools/list", {"_meta": {plain.VERSION_KEY: plain.MODERN}}),
    ("tools/list", {"_meta": {f"{plain.RESERVED}logLevel": "debug"}}),
    ("tools/list", {"cursor": "x"}),
    ("tools/list", {"cursor": None}),
    ("tools/list", []),
    ("server/discover", None),
    ("tools/call", {"name": "list_dir"}),
    ("nothing/known", {}),
    (5, {}),
]
METAS: list[Any] = [
    None,
    {},
    META,
    {**META, "vendor/key": 1},
    {**META, "progressToken": 1},
    {**META, plain.INFO_KEY: INFO},
    {**META, plain.INFO_KEY: {"name": 1}},
    {**META, plain.CAPABILITIES_KEY: {"elicitation": 1}},
    {**META, plain.CAPABILITIES_KEY: {"elicitation": {}, "roots": {}, "extensions": {plain.TASKS: {}}}},
    {**META, plain.VERSION_KEY: "1999-01-01"},
    {plain.VERSION_KEY: plain.MODERN},
]


@pytest.mark.parametrize("method, params", REQUESTS, ids=str)
def test_a_request_after_the_handshake_is_answered_as_by_the_sdk(workspace, method, params):
    pair = Pair(workspace, opening=opening())
    try:
        ours, theirs = pair.answers(method, params)
        assert ours == theirs
    finally:
        pair.end()


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "ping"])
@pytest.mark.parametrize("meta", METAS, ids=str)
def test_a_request_without_a_handshake_is_answered_as_by_the_sdk(workspace, method, meta):
    pair = Pair(workspace, opening=None)
    try:
        for _ in range(2):
            ours, theirs = pair.answers(method, {} if meta is None else {"_meta": meta})
            assert ours == theirs
    finally:
        pair.end()


# --- calls ----------------------------------------------------------------------------------------------------------


def test_a_ping_is_answered_while_the_sdk_is_being_loaded(command):
    with Lines(command, cold=True) as client:
        client.send("resources/list")
        ping = client.send("ping")

        assert client.read()["id"] == ping


@needs_sandbox
def test_a_call_can_be_cancelled_before_and_after_the_sdk_is_loaded(command):
    for load in (False, True):
        mark = Mark()
        with Lines(command) as client:
            arguments = {"command": f"sleep 300; echo {mark.name}", "timeout": 200}
            request = client.send("tools/call", name="run_shell", arguments=arguments)
            wait_until(mark.alive)
            if load:
                client.ask("resources/list")

            client.tell("notifications/cancelled", requestId=request)

            wait_until(partial(_is_gone, mark))
            assert client.ask("ping")["id"] == request + 1 + load


def _is_gone(mark: Mark) -> bool:
    return not mark.alive()


def test_a_request_that_waits_can_be_cancelled_and_a_ping_overtakes_it(command):
    constants = ["hilt.surfaces.mcp.front:REQUESTS_MAX=1"]
    mark = Mark()
    with Lines(command, constants=constants) as client:
        arguments = {"command": f"sleep 300; echo {mark.name}", "timeout": 200}
        first = client.send("tools/call", name="run_shell", arguments=arguments)
        second = client.send("tools/call", name="write_file", arguments={"path": "a.txt", "content": "x"})
        third = client.send("tools/call", name="list_dir", arguments={})
        assert client.ask("ping")["result"] == {}

        client.tell("notifications/cancelled", requestId=second)
        client.tell("notifications/cancelled", requestId=first)

        assert client.read()["id"] == third
    assert command.folder.tree() == {}


@needs_sandbox
def test_two_requests_may_have_the_same_id_in_different_types(command):
    marks = [Mark(), Mark()]
    with Lines(command) as client:
        for id, mark in zip((7, "7"), marks, strict=True):
            call = {"name": "run_shell", "arguments": {"command": f"sleep 300; echo {mark.name}", "timeout": 200}}
            message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call}
            client.write(json.dumps(message).encode() + b"\n")
        wait_until(lambda: all(mark.alive() for mark in marks))

        client.tell("notifications/cancelled", requestId="7")

        wait_until(partial(_is_gone, marks[1]))
        assert marks[0].alive()


ASKS = "ask: [Write]\n"


@pytest.fixture
def asking(command):
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], "permissions.yaml")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(ASKS)
    return command


def recorded(command: Command) -> list[tuple[str, str]]:
    rows = [json.loads(line) for line in command.run("audit", "--json").stdout.splitlines()]
    return [(row["tool"], row["outcome"]) for row in rows]


def test_a_question_is_asked_once_and_the_call_runs_once(asking):
    with Lines(asking, elicitation={}) as client:
        request = client.send("tools/call", name="write_file", arguments={"path": "a.txt", "content": "x"})
        question = client.read()
        assert question["method"] == "elicitation/create"
        assert asking.folder.tree() == {}

        yes = {"action": "accept", "content": {"decision": "once"}}
        client.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": yes}).encode() + b"\n")

        answer = client.read()
        assert (answer["id"], answer["result"]["isError"]) == (request, False)
    assert [tool for tool, _ in recorded(asking)] == ["write_file"]


YES = {"action": "accept", "content": {"decision": "once"}}


def answer_to(client: Lines, question: dict[str, Any], **answer: Any) -> None:
    client.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}).encode() + b"\n")


@pytest.mark.parametrize(
    "answer",
    [
        {"result": YES},
        {"result": {"action": "decline"}},
        {"result": {"action": "cancel", "content": None}},
        {"result": {"action": "maybe"}},
        {"result": "yes"},
        {"error": {"code": -1, "message": "no"}},
    ],
    ids=str,
)
def test_only_a_valid_acceptance_lets_a_call_run(asking, answer):
    with Lines(asking, elicitation={}) as client:
        client.send("tools/call", name="write_file", arguments={"path": "a.txt", "content": "x"})
        answer_to(client, client.read(), **answer)
        response = client.read()

    is_accepted = answer == {"result": YES}
    assert response["result"]["isError"] is not is_accepted
    assert asking.folder.tree() == ({"a.txt": "x"} if is_accepted else {})
    assert len(recorded(asking)) == 1


def test_a_question_in_a_response_is_answered_once_for_the_same_call(asking):
    meta = {**META, plain.CAPABILITIES_KEY: {"elicitation": {}}}
    call = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}, "_meta": meta}
    with Lines(asking, handshake=False) as client:
        state = client.ask("tools/call", **call)["result"]["requestState"]
        others = [{"requestState": "x"}, {"requestState": state, "arguments": {"path": "b.txt", "content": "x"}}]
        continued = [{"requestState": state, "inputResponses": {"approval": YES}}] * 2
        responses = [client.ask("tools/call", **{**call, **fields}) for fields in (*others, *continued)]

    assert ["error" in response for response in responses] == [True, True, False, True]
    assert asking.folder.tree() == {"a.txt": "x"}
    assert recorded(asking) == [("write_file", "ok")]


def test_other_calls_pass_one_that_waits_and_hooks_run_once(asking):
    log = os.path.join(os.path.dirname(asking.folder.path), "hooks.log")
    hook = {"event": "pre_tool_execution", "match": "write_file", "command": f"echo ran >> {log}"}
    asking.folder.write("../config/hooks.yaml", json.dumps({"hooks": [hook]}))
    with Lines(asking, elicitation={}) as client:
        asked = client.send("tools/call", name="write_file", arguments={"path": "a.txt", "content": "x"})
        question = client.read()
        read = client.ask("tools/call", name="list_dir", arguments={})
        assert not read["result"]["isError"]

        answer_to(client, question, result=YES)

        assert client.read()["id"] == asked
        answer_to(client, question, result=YES)  # too late
        assert client.ask("ping")["result"] == {}
    assert asking.folder.tree() == {"a.txt": "x"}
    with open(log, encoding="utf-8") as file:
        assert file.read() == "ran\n"


def test_a_question_that_nobody_answers_in_time_ends_the_call(asking):
    asking.environ["HILT_APPROVALS_TIMEOUT_S"] = "1"
    with Lines(asking, elicitation={}) as client:
        request = client.send("tools/call", name="write_file", arguments={"path": "a.txt", "content": "x"})
        question = client.read()

        withdrawn, answer = client.read(), client.read()

        assert (withdrawn["method"], withdrawn["params"]["requestId"]) == (
            "notifications/cancelled",
            question["id"],
        )
        assert (answer["id"], answer["result"]["_meta"]["dev.hilt/error"]["code"]) == (request, "approval_timeout")
    assert recorded(asking) == [("write_file", "approval_timeout")]


def test_a_question_that_is_cancelled_leaves_one_row_and_no_file(asking):
    with Lines(asking, elicitation={}) as client:
        request = client.send("tools/call", name="write_file", arguments={"path": "a.txt", "content": "x"})
        assert client.read()["method"] == "elicitation/create"

        client.tell("notifications/cancelled", requestId=request)

        assert client.ask("ping")["result"] == {}
    assert [tool for tool, _ in recorded(asking)] == ["write_file"]
    assert asking.folder.tree() == {}


def test_the_client_is_notified_when_a_mode_changes_its_tools(command):
    with Lines(command, elicitation={}) as client:
        client.ask("tools/list")
        client.send("tools/call", name="enter_plan_mode", arguments={})

        methods = [client.read().get("method") for _ in range(2)]

        assert "notifications/tools/list_changed" in methods
