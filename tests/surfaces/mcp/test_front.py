"""The front loop: which modules it loads, that it responds like the SDK, and the questions of calls."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from hilt.surfaces.mcp import plain
from tests.conformance.server import TOOLS
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
        {"id": 3, "method": "tools/list"},
        {"id": 4, "method": "tools/call", "params": {"name": "read_file", "arguments": {"path": "a.txt"}}},
    ],
    "stateless": [
        {"id": 1, "method": "server/discover", "params": {"_meta": META}},
        {"id": 2, "method": "tools/list", "params": {"_meta": META}},
        {"id": 3, "method": "tools/call", "params": {"name": "list_dir", "_meta": META}},
    ],
}


@pytest.mark.parametrize("messages", SESSIONS.values(), ids=SESSIONS)
def test_a_plain_session_loads_neither_the_sdk_nor_asyncio(command, messages):
    command.folder.write("a.txt", "a\n")

    assert loaded(command, *messages) & HEAVY == set()


def test_the_sdk_is_loaded_when_it_is_needed(command):
    first = SESSIONS["handshake"][0]

    modules = loaded(command, first, {"id": 2, "method": "resources/list"})

    assert {"asyncio", "mcp", "pydantic"} <= modules


# --- the same responses ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    command = Command(str(tmp_path_factory.mktemp("front")))
    command.folder.write("a.txt", "alpha\nbeta \u2028 gamma\n")
    command.folder.write("folder/b.bin", "\0")
    command.folder.write("picture.png", PIXEL)
    with open(os.path.join(command.folder.path.encode(), b"\xff.txt"), "wb") as file:
        file.write(b"\xff\xfe")
    return command


PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00"
    b"\x00\rIDATx\x9cc\xf8\xff\xff?\x00\x05\xfe\x02\xfe\xa75\x81\x84\x00\x00\x00\x00IEND\xaeB`\x82"
)


@pytest.fixture(scope="module")
def handshake(workspace):
    pair = Pair(workspace, opening=opening())
    yield pair
    pair.end()


@pytest.fixture(scope="module")
def stateless(workspace):
    pair = Pair(workspace, opening=None)
    yield pair
    pair.end()


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


CALLS: list[dict[str, Any]] = [
    {"name": "read_file", "arguments": {"path": "a.txt"}},
    {"name": "read_file", "arguments": {"path": "missing.txt"}},
    {"name": "read_file", "arguments": {"path": "picture.png"}},
    {"name": "read_file", "arguments": {"path": "/etc/passwd"}},
    {"name": "read_file", "arguments": {"pth": "a.txt"}},
    {"name": "read_file", "arguments": {"path": "a.txt"}, "_meta": {"vendor/key": {"a": [1]}}},
    {"name": "read_file", "arguments": {"path": "a.txt"}, "_meta": {"progressToken": 5}},
    {"name": "read_file", "arguments": {"path": "a.txt"}, "task": {"ttl": 5}},
    {"name": "read_file", "arguments": None},
    {"name": "read_file", "arguments": []},
    {"name": "read_file"},
    {"name": "Read", "arguments": {"file_path": "a.txt"}},
    {"name": "list_dir"},
    {"name": "list_dir", "arguments": {"details": True}},
    {"name": "stat_file", "arguments": {"path": "folder"}},
    {"name": "find_files", "arguments": {"pattern": "*"}},
    {"name": "search_files", "arguments": {"pattern": "a"}},
    {"name": "todo_read", "arguments": {}},
    {"name": "tool_call", "arguments": {"name": "read_file", "arguments": {"path": "a.txt"}}},
    {"name": "tool_call", "arguments": {"name": "nothing"}},
    {"name": "nothing", "arguments": {}},
    {"name": "undo", "arguments": {"action": "list"}},
    {"name": 5},
    {},
]


@pytest.mark.parametrize("params", CALLS, ids=lambda params: json.dumps(params)[:60])
@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])
def test_a_call_is_answered_as_by_the_sdk(handshake, stateless, params, modern):
    if modern:
        params = {**params, "_meta": {**params.get("_meta", {}), **META}}

    ours, theirs = (stateless if modern else handshake).answers("tools/call", params)

    assert ours == theirs


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 1, 1.5, "", "a.txt", "a\u2028", [], {}, {"a": 1}, {"path": "a.txt"}]
)
METAS = st.dictionaries(
    st.sampled_from(["x", "progressToken", *META, plain.INFO_KEY, f"{plain.RESERVED}logLevel", "dev.hilt/approval"]),
    VALUES | st.sampled_from([plain.MODERN, INFO, {"elicitation": {}}, {"elicitation": 1}, {"roots": {}}]),
    max_size=4,
)
PARAMS = (
    st.none()
    | VALUES
    | st.fixed_dictionaries(
        {},
        optional={
            "_meta": METAS | VALUES | METAS.map(lambda meta: {**meta, **META}),
            "name": st.sampled_from(["list_dir", "stat_file", "nothing", "read_file", "greet"]) | VALUES,
            "arguments": st.fixed_dictionaries({}, optional={"path": VALUES, "tail": VALUES}) | VALUES,
            "cursor": VALUES,
            "uri": VALUES,
        },
    )
)
METHODS = st.sampled_from(["ping", "tools/list", "tools/call", "tools/call", "server/discover", "nothing/known"])


@given(method=METHODS, params=PARAMS, modern=st.booleans(), fields=st.sampled_from([{}, {"id": "a"}, {"extra": 1}]))
def test_generated_requests_are_answered_as_by_the_sdk(handshake, stateless, method, params, modern, fields):
    if modern and isinstance(params, dict) and "_meta" not in params:
        params = {**params, "_meta": META}

    ours, theirs = (stateless if modern else handshake).answers(method, params, **fields)

    assert ours == theirs


def test_the_messages_of_the_conformance_suite_are_answered_as_by_the_sdk(tmp_path):
    command = Command(str(tmp_path))
    arguments = ("--tools-dir", TOOLS, "--approve", "once")
    asking: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
    pairs = {
        False: Pair(command, *arguments, opening=opening(**asking)),
        True: Pair(command, *arguments, opening=None),
    }
    with open(os.path.join(os.path.dirname(__file__), "suite_messages.jsonl"), encoding="utf-8") as file:
        messages = [json.loads(line) for line in file]
    assert len(messages) > 50
    try:
        for message in messages:
            params = message.get("params")
            pair = pairs[plain.is_modern({"jsonrpc": "2.0", "id": 1, **message})]
            ours, theirs = pair.answers(message["method"], params)
            assert _without_secrets(ours) == _without_secrets(theirs), message
    finally:
        for pair in pairs.values():
            pair.end()


def _without_secrets(answer: dict[str, Any]) -> dict[str, Any]:
    secret = ("requestState", "taskId", "createdAt", "lastUpdatedAt")
    result = answer.get("result", {})
    return {**answer, "result": {name: "" if name in secret else value for name, value in result.items()}}


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
    constants = ["hilt.surfaces.mcp.active_requests:REQUESTS_MAX=1"]
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
def test_a_question_is_asked_and_its_answer_taken_as_by_the_sdk(tmp_path, answer):
    exchanges = []
    for bypass in (b"", BYPASS):
        command = Command(str(tmp_path / ("sdk" if bypass else "front")))
        command.folder.write("../config/permissions.yaml", ASKS)
        with Lines(command, "--session", "s", handshake=False) as client:
            client.write(bypass)
            client.ask("initialize", **opening(elicitation={}))
            client.tell("notifications/initialized")
            client.send("tools/call", name="write_file", arguments={"path": "a.txt", "content": "x"})
            question = client.read()
            answer_to(client, question, **answer)
            response = client.read()
        text = json.dumps([{**question, "id": 0}, response, recorded(command), command.folder.tree()])
        same = re.sub(r"[0-9a-f]{12}", "ID", text.replace(command.folder.path, "FOLDER"))
        exchanges.append(json.loads(same))

    assert exchanges[0] == exchanges[1]


def test_a_question_in_a_response_is_asked_and_answered_as_by_the_sdk(tmp_path):
    answers = []
    meta = {**META, plain.CAPABILITIES_KEY: {"elicitation": {}}}
    call = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}, "_meta": meta}
    for bypass in (b"", BYPASS):
        command = Command(str(tmp_path / ("sdk" if bypass else "front")))
        command.folder.write("../config/permissions.yaml", ASKS)
        with Lines(command, "--session", "s", handshake=False) as client:
            client.write(bypass)
            asked = client.ask("tools/call", **call)
            state = asked["result"].pop("requestState")
            others = [{"requestState": "x"}, {"requestState": state, "arguments": {"path": "b.txt", "content": "x"}}]
            continued = [{"requestState": state, "inputResponses": {"approval": YES}}] * 2
            responses = [client.ask("tools/call", **{**call, **fields}) for fields in (*others, *continued)]
        text = json.dumps([asked, responses, recorded(command), command.folder.tree()])
        answers.append(json.loads(text.replace(command.folder.path, "FOLDER")))

    assert answers[0] == answers[1]
    assert [set(answer) - {"id", "jsonrpc"} for answer in answers[0][1]] == [
        {"error"},
        {"error"},
        {"result"},
        {"error"},
    ]


def test_an_approval_does_not_load_the_sdk(asking):
    server = f"import sys; sys.path[:0] = {sys.path!r}\n{COUNT}"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", server],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=asking.folder.path,
        env=asking.environ,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def exchange(**message: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        exchange(id=1, method="initialize", params=opening(elicitation={}))
        call = {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}
        question = exchange(id=2, method="tools/call", params=call)
        assert not exchange(id=question["id"], result=YES)["result"]["isError"]
        modules = set(process.communicate(timeout=60)[1].decode().split("\n"))

    assert modules & HEAVY == set()
    assert asking.folder.read("a.txt") == "x"


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
