from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx2
import mcp_types as types
import pytest

from hilt.surfaces import Usage
from hilt.surfaces.http.listening import CONNECTIONS_MAX
from hilt.surfaces.http.listening import Address as Listening
from hilt.surfaces.http.requests import BODY_BYTES, VALUES_MAX
from hilt.surfaces.mcp.http import read_address
from hilt.surfaces.mcp.messages import BATCH_MAX
from tests.marks import Mark, wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import Command
from tests.surfaces.mcp.hosts import WAIT_SECONDS, Address, listening, over_http, run, text_of, wait_until_idle

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
BOTH = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


def post(address: Address, message: Any, **headers: str) -> httpx2.Response:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    headers = {**HEADERS, **address.headers, **headers}
    # nothing to verify on loopback, and loading certificates takes as long as the rest
    return httpx2.post(address.url, content=body, headers=headers, timeout=WAIT_SECONDS, verify=False)


def modern(address: Address, method: str, **params: Any) -> dict[str, Any]:
    """Send one request of the stateless protocol, and return its result."""
    meta = {**META, **params.pop("meta", {})}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    answer: dict[str, Any] = post(address, message, **headers).json()
    return answer


def call(address: Address, tool: str, arguments: dict[str, Any], **params: Any) -> dict[str, Any]:
    answer = modern(address, "tools/call", name=tool, arguments=arguments, **params)
    result: dict[str, Any] = answer["result"]
    return result


class Session:
    """A client of the older protocol, which posts one message at a time."""

    def __init__(self, address: Address, version: str = "2025-11-25", **capabilities: Any) -> None:
        self.address = address
        hello = {**HELLO["params"], "protocolVersion": version, "capabilities": capabilities}  # type: ignore[dict-item]
        started = post(address, {**HELLO, "params": hello})
        self.headers = {"mcp-session-id": started.headers["mcp-session-id"]}
        if version not in ("2024-11-05", "2025-03-26"):
            self.headers["MCP-Protocol-Version"] = version
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message: Any) -> httpx2.Response:
        return post(self.address, message, **self.headers)

    def stream(self, message: Any) -> Any:
        headers = {**HEADERS, **self.address.headers, **self.headers}
        return httpx2.stream(
            "POST", self.address.url, json=message, headers=headers, timeout=WAIT_SECONDS, verify=False
        )

    def call(self, tool: str, id: Any = 1, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.post(request(id, "tools/call", name=tool, arguments=arguments)).json()["result"]
        return result


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def events(response: httpx2.Response) -> list[dict[str, Any]]:
    """Return the messages of a stream that has ended."""
    assert response.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if line.startswith("data: ")]


@pytest.fixture(scope="module")
def secret(tmp_path_factory) -> Iterator[Address]:
    """A server that many tests share."""
    with listening(Command(str(tmp_path_factory.mktemp("secret")))) as address:
        yield address


@pytest.fixture(scope="module")
def hasty(tmp_path_factory) -> Iterator[Address]:
    """A server that waits two seconds for a request."""
    constants = ["hilt.surfaces.http.listening:HEAD_SECONDS=2"]
    with listening(Command(str(tmp_path_factory.mktemp("hasty"))), constants=constants) as address:
        yield address


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory) -> Iterator[Address]:
    """A server without a token."""
    with listening(Command(str(tmp_path_factory.mktemp("open"))), "--no-token") as address:
        yield address


def asks(command: Any) -> None:
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], "permissions.yaml")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("ask: [Write]\n")


# --- access ---------------------------------------------------------------------------------------------------------


def test_the_token_is_created_once_and_printed_once(command):
    outputs = []
    for _ in range(2):
        with command.start("mcp", "--http") as process:
            assert process.stderr is not None
            text = b""
            while b"listening on" not in text:
                line = process.stderr.readline()
                assert line, text.decode()
                text += line
            process.terminate()
            for pipe in (process.stdin, process.stdout):
                pipe.close()
            outputs.append(text.decode())
    path = os.path.join(command.state, "mcp-token")
    with open(path, encoding="ascii") as file:
        token = file.read().strip()

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert len(token) > 40
    assert (token in outputs[0], token in outputs[1]) == (True, False)
    assert "Authorization: Bearer" in outputs[0]


@pytest.mark.parametrize("change", ["readable", "short", "link"])
def test_an_insecure_token_file_is_refused(command, change):
    path = os.path.join(command.state, "mcp-token")
    if change == "link":
        os.symlink("/dev/null", path)
    else:
        with open(path, "w", encoding="ascii") as file:
            file.write("x" * (5 if change == "short" else 50))
        os.chmod(path, 0o644 if change == "readable" else 0o600)

    done = command.run("mcp", "--http")

    assert done.returncode == 1
    assert b"mcp-token" in done.stderr


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", "Basic TOKEN", "TOKEN", "Bearer TOKENx", "Bearer é"]
)
def test_a_request_without_the_token_is_refused(secret, header):
    sent = [] if header is None else [(b"Authorization", header.replace("TOKEN", str(secret.token)).encode())]
    headers = [*((name.encode(), value.encode()) for name, value in HEADERS.items()), *sent]
    answers = [
        httpx2.post(secret.url, content=json.dumps(HELLO), headers=headers, verify=False),
        httpx2.get(secret.url, headers=headers, verify=False),
    ]

    assert [answer.status_code for answer in answers] == [401, 401]
    assert answers[0].headers["www-authenticate"] == "Bearer"


def test_two_tokens_are_refused(secret):
    headers = [*HEADERS.items(), ("Authorization", "Bearer wrong"), *secret.headers.items()]
    answer = httpx2.post(secret.url, content=json.dumps(HELLO), headers=headers)

    assert answer.status_code == 401


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 200),
        ({"Host": "localhost:PORT"}, 200),
        ({"Host": "LOCALHOST:PORT"}, 200),
        ({"Host": "[::1]:PORT"}, 200),
        ({"Host": "evil.example:PORT"}, 421),
        ({"Host": "127.0.0.1.evil.example:PORT"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Host": "localhost:PORT@evil.example"}, 421),
        ({"Origin": "http://127.0.0.1:PORT"}, 200),
        ({"Origin": "http://localhost:PORT"}, 200),
        ({"Origin": "http://[::1]:PORT"}, 200),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "https://localhost:PORT"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:PORT.evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
    ],
    ids=str,
)
def test_a_web_page_in_a_browser_cannot_connect(open_to_all, headers, status):
    sent = {name: value.replace("PORT", str(open_to_all.port)) for name, value in headers.items()}

    assert post(open_to_all, HELLO, **sent).status_code == status


def test_ipv6_is_protected_as_well(command):
    with listening(command, "--no-token", "--http", "[::1]:0") as address:
        assert address.url.startswith("http://[::1]:")
        assert post(address, HELLO).status_code == 200
        assert post(address, HELLO, Host="evil.example").status_code == 421


def test_a_server_without_a_token_warns_and_only_listens_on_loopback(command):
    done = command.run("mcp", "--http", "0.0.0.0:0", "--no-token")

    assert done.returncode == 2
    assert b"loopback" in done.stderr
    with command.start("mcp", "--http", "--no-token") as process:
        assert process.stderr is not None
        assert b"WARNING" in process.stderr.readline()
        process.terminate()
        for pipe in (process.stdin, process.stdout):
            pipe.close()


def test_another_address_needs_the_token_too(command):
    with listening(command, "--http", "0.0.0.0:0") as address:
        address.url = address.url.replace("0.0.0.0", "127.0.0.1")
        assert post(address, HELLO).status_code == 200
        address.token = None
        assert post(address, HELLO).status_code == 401


@pytest.mark.parametrize("path", ["/", "/mcp/", "/MCP", "/mcp/x", "/sse"])
def test_other_paths_are_not_found(secret, path):
    url = secret.url.removesuffix("/mcp") + path

    assert httpx2.get(url, headers=secret.headers).status_code == 404


def test_a_port_in_use_is_reported(command):
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        done = command.run("mcp", "--http", f"127.0.0.1:{occupied.getsockname()[1]}")

    assert done.returncode == 1
    assert b"port_in_use: Cannot listen on" in done.stderr
    user = f"process {os.getpid()} (" if sys.platform == "linux" else "another process"
    assert user in done.stderr.decode()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", Listening("127.0.0.1", 0)),
        ("8000", Listening("127.0.0.1", 8000)),
        (":8000", Listening("127.0.0.1", 8000)),
        ("localhost:8000", Listening("127.0.0.1", 8000)),
        ("0.0.0.0:1", Listening("0.0.0.0", 1)),
        ("127.0.0.1", Listening("127.0.0.1", 0)),
        ("[::1]:8000", Listening("::1", 8000)),
        ("[::1]", Listening("::1", 0)),
    ],
)
def test_addresses_are_parsed(text, expected):
    assert read_address(text) == expected


@pytest.mark.parametrize("text", ["example.com:80", "127.0.0.1:", "127.0.0.1:x", ":99999", ":-1", "300.0.0.1:1"])
def test_invalid_addresses_are_reported(text):
    with pytest.raises(Usage):
        read_address(text)


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"garbage",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        b"{}",
        b'{"jsonrpc":"2.0","id":1,"method":"nothing"}',
        b'{"a":1,"a":1}',
        b'{"a":"\\ud800"}',
    ],
)
@pytest.mark.parametrize("version", [None, "2026-07-28", "1999-01-01"])
def test_garbage_is_refused_and_affects_no_other_request(secret, body, version):
    headers = {} if version is None else {"MCP-Protocol-Version": version}

    assert 400 <= post(secret, body, **headers).status_code < 500
    assert not call(secret, "list_dir", {})["isError"]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize(
    "message, id",
    [
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":7,"method":1}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}', 7),
        (b'{"jsonrpc":"1.0","id":"x","method":"ping"}', "x"),
        (b'{"jsonrpc":"2.0","id":7}', 7),
        (b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]', None),
        (b"1", None),
    ],
    ids=repr,
)
def test_an_invalid_message_has_the_same_error_as_on_other_transports(secret, message, id, version):
    session = Session(secret, version)

    response = session.post(message)

    answer = response.json()
    assert (response.status_code, answer["id"], answer["error"]["code"]) == (400, id, -32600)
    assert session.post(request(1, "ping")).json()["result"] == {}


def test_a_body_that_is_too_large_is_refused(secret):
    assert post(secret, b"x" * (BODY_BYTES + 1)).status_code == 413
    assert not call(secret, "list_dir", {})["isError"]


@pytest.mark.parametrize("value", [b"[]", b"{}", b"0", b'""', b'"[\\\\\\""'], ids=repr)
def test_a_body_with_too_many_values_is_refused(secret, value):
    body = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[' + b",".join([value] * (VALUES_MAX + 1)) + b"]}}"

    assert post(secret, body).status_code == 413
    assert not call(secret, "list_dir", {})["isError"]


def test_a_string_counts_as_one_value_whatever_its_contents(command):
    text = '[],{},"\\",' * 200_000
    with listening(command) as address:
        assert not call(address, "write_file", {"path": "a.txt", "content": text})["isError"]

    assert command.folder.read("a.txt") == text


def test_idle_connections_are_closed_and_others_accepted(hasty):
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", hasty.port))) for _ in range(100)]
        for number, connection in enumerate(silent):
            connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: x\r\n"[: number % 30])
        assert not call(hasty, "list_dir", {})["isError"]
        for connection in silent:
            connection.settimeout(WAIT_SECONDS)
            assert connection.recv(1000) == b""


def test_more_half_open_connections_than_slots_do_not_block_others(secret):
    with ExitStack() as stack:
        for number in range(CONNECTIONS_MAX + 200):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", secret.port)))
            with suppress(OSError):  # another connection took its slot
                connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: x\r\n"[: number % 30])
        answers = [post(secret, HELLO) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200] * 3
        assert not call(secret, "list_dir", {})["isError"]


REQUEST = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"


@pytest.mark.parametrize(
    "head, more",
    [
        (REQUEST + "Content-Length: 0\r\n\r\n", b"P"),
        (REQUEST + "Content-Length: 100000\r\n\r\n", b"x"),
        (REQUEST + "Transfer-Encoding: chunked\r\n\r\n", b"5\r\nab"),
    ],
    ids=["kept alive", "without its body", "in pieces"],
)
def test_refused_connections_take_no_slot(secret, head, more):
    with ExitStack() as stack:
        refused = [stack.enter_context(socket.create_connection(("127.0.0.1", secret.port))) for _ in range(20)]
        for connection in refused:
            connection.settimeout(WAIT_SECONDS)
            connection.sendall(head.format(port=secret.port).encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 401")
            with suppress(OSError):
                connection.sendall(more)
                while connection.recv(4096):
                    pass
        assert not call(secret, "list_dir", {})["isError"]


def test_a_connection_that_does_not_finish_its_next_request_is_closed(hasty):
    body = json.dumps(HELLO).encode()
    headers = {**HEADERS, **hasty.headers, "Content-Length": str(len(body))}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    head = REQUEST.format(port=hasty.port) + "".join(lines) + "\r\n"
    with socket.create_connection(("127.0.0.1", hasty.port)) as connection:
        connection.settimeout(WAIT_SECONDS)
        connection.sendall(head.encode() + body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"P")
        while connection.recv(65536):
            pass


def test_fifty_clients_work_at_once(command):
    for number in range(50):
        command.folder.write(f"{number}.txt", f"file {number}\n")

    async def read_file(address: Address, number: int) -> None:
        mode = "legacy" if number % 2 else "2026-07-28"
        async with over_http(address, mode) as client:
            for _ in range(3):
                result = await client.call_tool("read_file", {"path": f"{number}.txt"})
                assert f"file {number}\n" in text_of(result) + "\n"

    async def test() -> None:
        with listening(command) as address:
            await asyncio.gather(*(read_file(address, number) for number in range(50)))

    run(test())


# --- responses ------------------------------------------------------------------------------------------------------


@needs_sandbox
def test_a_response_is_json_unless_a_message_precedes_it(secret):
    session = Session(secret)

    listed = session.post(request(1, "tools/list"))
    unknown = session.post(request(2, "tools/call", name="no_such_tool", arguments={}))
    slow = {"command": "sleep 1.5"}
    streamed = session.post(request(3, "tools/call", name="run_shell", arguments=slow, _meta={"progressToken": 7}))

    assert listed.headers["content-type"] == unknown.headers["content-type"] == "application/json"
    assert listed.json()["result"]["tools"]
    assert unknown.json()["error"]["code"] == -32602
    *steps, answer = events(streamed)
    assert {step["params"]["progressToken"] for step in steps} == {7}
    assert answer["id"] == 3


@BOTH
def test_a_response_of_five_megabytes_is_read(command, mode):
    header = bytes.fromhex("89504e470d0a1a0a 0000000d 49484452 00000064 00000064 0802000000")
    command.folder.write("a.png", header + os.urandom(3_700_000))

    async def test() -> None:
        with listening(command) as address:
            async with over_http(address, mode) as client:
                _, picture = (await client.call_tool("read_file", {"path": "a.png"})).content
        assert len(picture.data) > 4_900_000

    run(test())


@pytest.mark.parametrize("reply", [{"error": 5}, {"result": "x"}, {"x": 1}], ids=str)
def test_an_invalid_reply_leaves_no_call_waiting(command, reply):
    asks(command)
    with listening(command) as address:
        session = Session(address, elicitation={})
        arguments = {"path": "a.txt", "content": ""}
        with session.stream(request(1, "tools/call", name="write_file", arguments=arguments)) as response:
            data = (json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: "))
            question = next(data)
            assert session.post({"jsonrpc": "2.0", "id": question["id"], **reply}).status_code == 400
            answer = next(data)

    assert (answer["id"], answer["result"]["isError"]) == (1, True)


FLOOD = '''
from hilt import tool

@tool(effects="read")
def flood(ctx) -> str:
    """Log more than the client reads."""
    for _ in range(200):
        ctx.log("error", "\U0001d11e" * 10_000)
    return "dry"
'''


def test_an_unread_response_does_not_block_others(command):
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], "tools", "flood.py")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(FLOOD)
    with listening(command, cold=True) as address, socket.socket() as unread:
        session = Session(address)
        body = json.dumps(request("f", "tools/call", name="flood", arguments={})).encode()
        headers = {**HEADERS, **address.headers, **session.headers, "Content-Length": str(len(body))}
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread.settimeout(WAIT_SECONDS)
        unread.connect(("127.0.0.1", address.port))
        unread.sendall((REQUEST.format(port=address.port) + "".join(lines) + "\r\n").encode() + body)
        assert unread.recv(15) == b"HTTP/1.1 200 OK"
        wait_until_idle(address.process.pid)

        assert [session.call("list_dir", number)["isError"] for number in range(20)] == [False] * 20

        rest = b""
        while not rest.endswith(b"0\r\n\r\n"):
            rest = rest[-10_000:] + unread.recv(1 << 20)
        assert b'"text":"dry"' in rest


@needs_sandbox
def test_an_id_in_use_is_refused_and_its_request_continues(command):
    with listening(command) as address:
        session, other = Session(address), Session(address)
        wait = {"command": "until [ -e go ]; do sleep 0.05; done"}
        message = request(7, "tools/call", name="run_shell", arguments=wait, _meta={"progressToken": 1})
        with session.stream(message) as response:
            lines = response.iter_lines()
            next(lines)
            for id in (7, "7"):
                refused = session.post(request(id, "ping"))
                answer = refused.json()
                assert (refused.status_code, answer["id"], answer["error"]["code"]) == (400, id, -32600)
            assert other.post(request(7, "ping")).json()["result"] == {}
            command.folder.write("go")
            assert any('"id":7' in line for line in lines)
        # the response comes just before its id is free again
        wait_until(lambda: session.post(request(7, "ping")).json().get("result") == {})


# --- batches --------------------------------------------------------------------------------------------------------


def test_a_batch_is_answered_in_one_stream(secret):
    session = Session(secret, "2025-03-26")
    note = {"jsonrpc": "2.0", "method": "notifications/nobody/knows"}
    listing = request("b", "tools/call", name="list_dir", arguments={})

    answers = {
        message["id"]: message
        for message in events(session.post([request(1, "ping"), note, listing, 5, request("x", "y")]))
    }

    assert answers.keys() == {1, "b", None, "x"}
    assert answers[1]["result"] == {}
    assert not answers["b"]["result"]["isError"]
    assert (answers[None]["error"]["code"], answers["x"]["error"]["code"]) == (-32600, -32601)


def test_a_long_batch_is_answered(secret):
    answers = events(Session(secret, "2025-03-26").post([request(number, "ping") for number in range(BATCH_MAX)]))

    assert {message["id"] for message in answers} == set(range(BATCH_MAX))


def test_questions_of_a_batch_are_asked_and_answered_by_a_batch(command):
    asks(command)
    with listening(command) as address:
        session = Session(address, "2025-03-26", elicitation={})
        calls = [
            request(name, "tools/call", name="write_file", arguments={"path": name, "content": ""}) for name in "ab"
        ]
        with session.stream(calls) as response:
            data = (json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: "))
            questions = [next(data), next(data)]
            assert {question["method"] for question in questions} == {"elicitation/create"}
            yes = {"action": "accept", "content": {"decision": "once"}}
            answer = session.post([{"jsonrpc": "2.0", "id": question["id"], "result": yes} for question in questions])
            assert (answer.status_code, answer.content) == (202, b"")
            assert {next(data)["id"], next(data)["id"]} == {"a", "b"}
            assert next(data, None) is None

    assert command.folder.tree() == {"a": "", "b": ""}


@pytest.mark.parametrize(
    "batch, version, status",
    [
        ([], "2025-03-26", 400),
        ([request(number, "ping") for number in range(BATCH_MAX + 1)], "2025-03-26", 400),
        ([{"jsonrpc": "2.0", "method": "notifications/nobody/knows"}] * 2, "2025-03-26", 202),
        ([request(1, "ping")], "2025-06-18", 400),
        ([request(1, "ping")], "2025-11-25", 400),
    ],
    ids=["empty", "too long", "without requests", "2025-06-18", "2025-11-25"],
)
def test_a_batch_without_answers_has_only_a_status(secret, batch, version, status):
    assert Session(secret, version).post(batch).status_code == status


def test_a_batch_without_a_session_is_refused(secret):
    ping = [request(1, "ping"), request(2, "ping")]

    assert post(secret, ping).status_code == 400
    assert post(secret, [HELLO]).status_code == 400
    assert post(secret, ping, **{"mcp-session-id": "unknown"}).status_code == 404


# --- separate clients -----------------------------------------------------------------------------------------------


def test_another_clients_session_is_not_found(secret):
    session = post(secret, HELLO).headers["mcp-session-id"]
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}

    assert post(secret, listing, **{"mcp-session-id": session[:-1] + "x"}).status_code == 404
    assert post(secret, listing).status_code == 400
    assert post(secret, listing, **{"mcp-session-id": session}).status_code == 200
    assert httpx2.delete(secret.url, headers={**secret.headers, "mcp-session-id": session}).status_code == 200
    assert post(secret, listing, **{"mcp-session-id": session}).status_code == 404


@needs_sandbox
@BOTH
def test_jobs_and_request_ids_belong_to_their_client(command, mode):
    mark = Mark()
    job = {"command": f"sleep 300; echo {mark.name}", "run_in_background": True}

    async def test() -> None:
        with listening(command) as address:
            async with over_http(address, mode) as first, over_http(address, mode) as second:
                meta: Any = {"dev.hilt/session": "first"} if mode != "legacy" else None
                started = await first.call_tool("run_shell", job, meta=meta)
                wait_until(mark.alive)
                other = await second.call_tool("job_list", {})
                assert other.structured_content == {"jobs": []}
                task = started.structured_content["task_id"]
                assert (await second.call_tool("job_stop", {"task_id": task})).is_error
                own = await first.call_tool("job_list", {}, meta=meta)
                assert mark.name in str(own.structured_content)
                assert mark.alive()
            if mode == "legacy":  # the connection has ended, and the session with it
                await asyncio.to_thread(wait_until, lambda: not mark.alive())

    run(test())
    wait_until(lambda: not mark.alive())


def test_a_session_without_a_connection_continues_by_its_name(command):
    with listening(command) as address:
        first = call(address, "enter_plan_mode", {})
        name = first["_meta"]["dev.hilt/session"]

        def tools(**meta: str) -> list[str]:
            return [tool["name"] for tool in modern(address, "tools/list", meta=meta)["result"]["tools"]]

        assert "write_file" in tools()
        assert "write_file" not in tools(**{"dev.hilt/session": name})
        assert "write_file" in tools(**{"dev.hilt/session": "default"})
        named = call(address, "list_dir", {}, meta={"dev.hilt/session": name})
        assert "dev.hilt/session" not in named.get("_meta", {})
        invalid = modern(address, "tools/call", name="list_dir", arguments={}, meta={"dev.hilt/session": 1})
        assert invalid["error"]["code"] == -32602


def test_an_approved_call_resumes_once_and_only_unchanged(command):
    asks(command)
    arguments = {"path": "a.txt", "content": "new\n"}
    yes = {"approval": {"action": "accept", "content": {"decision": "once"}}}
    with listening(command) as address:

        def resume(state: str, args: dict[str, Any] = arguments, tool: str = "write_file", **params: Any) -> Any:
            return modern(
                address, "tools/call", name=tool, arguments=args, requestState=state, inputResponses=yes, **params
            )

        first = call(address, "write_file", arguments)
        assert first["resultType"] == "input_required"
        state = first["requestState"]

        # with an answer alone, a made-up state, another call or another session, nothing runs
        again = call(address, "write_file", arguments, inputResponses=yes)
        assert again["resultType"] == "input_required"
        assert resume("made-up")["error"]["code"] == -32602
        assert resume(state, {**arguments, "content": "other"})["error"]["code"] == -32602
        assert resume(state, {"path": "a.txt"}, "read_file")["error"]["code"] == -32602
        assert resume(state, meta={"dev.hilt/session": "other"})["error"]["code"] == -32602
        assert command.folder.tree() == {}

        assert not resume(state)["result"]["isError"]
        assert command.folder.read("a.txt") == "new\n"
        os.unlink(command.folder.join("a.txt"))
        assert resume(state)["error"]["code"] == -32602
        assert command.folder.tree() == {}


def test_an_approved_call_asks_again_when_the_file_has_changed(command):
    asks(command)
    command.folder.write("a.txt", "seen\n")
    arguments = {"path": "a.txt", "content": "new\n"}
    yes = {"approval": {"action": "accept", "content": {"decision": "once"}}}
    with listening(command) as address:
        first = call(address, "write_file", arguments)
        command.folder.write("a.txt", "changed meanwhile\n")

        second = call(address, "write_file", arguments, inputResponses=yes, requestState=first["requestState"])

        assert second["resultType"] == "input_required"
        assert command.folder.read("a.txt") == "changed meanwhile\n"


@needs_sandbox
def test_a_stream_that_is_closed_ends_its_call(command):
    mark = Mark()
    with listening(command) as address:
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "run_shell",
                "arguments": {"command": f"sleep 300; echo {mark.name}", "timeout": 200},
                "_meta": {**META, "progressToken": 1},
            },
        }
        headers = {**HEADERS, **address.headers, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
        headers["Mcp-Name"] = "run_shell"
        with httpx2.stream("POST", address.url, json=message, headers=headers, timeout=WAIT_SECONDS) as response:
            lines = response.iter_lines()  # a variable, because the stream is closed with its iterator
            next(lines)
            wait_until(mark.alive)  # a progress message may come before the command runs
        wait_until(lambda: not mark.alive())


@needs_sandbox
def test_jobs_end_with_the_server(command):
    mark = Mark()
    with listening(command, cold=True) as address:
        started = {"command": f"sleep 300; echo {mark.name}", "run_in_background": True}
        call(address, "run_shell", started, meta={"dev.hilt/session": "s"})
        wait_until(mark.alive)
        address.process.terminate()
        assert address.process.wait(WAIT_SECONDS) < 0
    wait_until(lambda: not mark.alive())


async def asked(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


def test_with_a_named_session_all_clients_share_it(command):
    async def test() -> None:
        with listening(command, "--session", "ours") as address:
            old, new = (over_http(address, mode, elicitation_callback=asked) for mode in ("legacy", "2026-07-28"))
            async with old as first, new as second:
                await first.call_tool("enter_plan_mode", {})
                assert "write_file" not in [tool.name for tool in (await second.list_tools()).tools]

    run(test())


@needs_sandbox
@BOTH
def test_a_client_cannot_end_the_call_of_another(command, mode):
    first_mark, second_mark = Mark(), Mark()

    async def test() -> None:
        with listening(command) as address:
            async with over_http(address, mode) as first, over_http(address, mode) as second:
                wait = f"until [ -e go ]; do sleep 0.05; done; echo {first_mark.name}"
                running = asyncio.create_task(first.call_tool("run_shell", {"command": wait, "timeout": 200}))
                sleep = {"command": f"sleep 300; echo {second_mark.name}", "timeout": 200}
                ended = asyncio.create_task(second.call_tool("run_shell", sleep))
                await asyncio.to_thread(wait_until, lambda: first_mark.alive() and second_mark.alive())
                ended.cancel()  # both have the same request id
                await asyncio.to_thread(wait_until, lambda: not second_mark.alive())
                command.folder.write("go")
                assert first_mark.name in text_of(await running)
                with pytest.raises(asyncio.CancelledError):
                    await ended

    run(test())
