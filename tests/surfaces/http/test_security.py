"""Attacks on `hilt serve`: foreign hosts and origins, tokens, framing, slow and silent clients, paths, agents."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from glob import glob
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from hilt.state.approvals import Approvals
from hilt.state.questions import Questions
from hilt.surfaces.http.app import MCP, ROUTES
from hilt.surfaces.http.static import FOLDER, pages, read_files
from tests.marks import wait_until
from tests.programs import needs_sandbox
from tests.surfaces.commands import HILT, Command
from tests.surfaces.http.servers import PERSON_TOKEN, WAIT_SECONDS, Server, pending, serving
from tests.surfaces.mcp.hosts import Address, Lines, over_http, run, text_of

PATH_PARAMETERS = {"id": "x", "name": "x"}
PATHS = [(route.method, route.path.format(**PATH_PARAMETERS), route.who) for route in ROUTES]


@pytest.fixture(scope="module")
def hasty(tmp_path_factory) -> Iterator[Server]:
    """A server with few slots that waits two seconds for a request and for a reader."""
    command = Command(str(tmp_path_factory.mktemp("hasty")))
    command.folder.write("a.txt", "hello\n")
    command.folder.write("big.txt", ("x" * 99 + "\n") * 40_000)
    constants = [
        "hilt.surfaces.http.listening:HEAD_SECONDS=2",
        "hilt.surfaces.http.listening:CLOSING_SECONDS=1",
        "hilt.surfaces.http.serving:CONNECTIONS_MAX=300",
        "hilt.surfaces.http.app:RATE=20",
        "hilt.surfaces.http.app:SEND_SECONDS=1",
        "hilt.surfaces.http.serving:PING_SECONDS=1.0",
        "hilt.surfaces.http.serving:PONG_SECONDS=1.0",
    ]
    with serving(command, constants=constants) as server:
        yield server


def raw(server: Server, request: bytes) -> bytes:
    """Send bytes, and return the response until the connection closes."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(WAIT_SECONDS)
        with suppress(OSError):  # refused before everything was sent
            connection.sendall(request)
        answer = b""
        with suppress(ConnectionResetError):
            while data := connection.recv(65536):
                answer += data
        return answer


# --- hosts and origins ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}", "0.0.0.0:{port}", ""],
)
@pytest.mark.parametrize("path", ["/", "/v1/tools", "/mcp", "/metrics"])
def test_a_foreign_host_is_refused_even_with_the_token(server, host, path):
    headers = {"Host": host.format(port=server.port)}

    assert server.request("GET", path, headers=headers).status_code == 421


def test_the_host_in_the_request_line_takes_precedence(server):
    rest = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\nConnection: close\r\n\r\n"
    for host, status in ((f"localhost:{server.port}", b"200"), ("evil.example", b"421")):
        answer = raw(server, f"GET http://{host}/v1/tools HTTP/1.1\r\n{rest}".encode())
        assert answer.startswith(b"HTTP/1.1 " + status), host


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_the_loopback_names_are_accepted(server, host):
    assert server.request("GET", "/v1/tools", headers={"Host": f"{host}:{server.port}"}).status_code == 200


ORIGINS = [
    "null",
    "http://evil.example",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1",
    "http://127.0.0.1:{port}.evil",
    "",
]


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_foreign_origin_is_refused(server, origin):
    headers = {"Origin": origin.format(port=server.port)}

    response = server.request("POST", "/v1/call", headers=headers, json={"tool": "list_dir"})

    assert (response.status_code, response.json()["error_code"]) == (403, "denied")
    assert server.request("GET", "/", headers=headers, token=None).status_code == 403


def test_its_own_origin_is_accepted_without_cors_headers(server):
    response = server.request("GET", "/v1/tools", headers={"Origin": server.url})

    assert response.status_code == 200
    assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("header", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}])
def test_a_websocket_of_a_foreign_page_is_refused(server, header):
    request = f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    for name, value in header.items():
        line = f"{name}: {value}\r\n"
        request = request.replace(f"Host: 127.0.0.1:{server.port}\r\n", line) if name == "Host" else request + line
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    request += f"Upgrade: websocket\r\nConnection: Upgrade\r\n{key}\r\n"

    assert raw(server, request.encode()).startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize("header", ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="])
def test_an_invalid_handshake_is_a_problem(server, header):
    upgrade = f"Upgrade: websocket\r\nConnection: Upgrade\r\n{header}\r\n\r\n"

    answer = raw(server, f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{upgrade}".encode())

    head, _, body = answer.partition(b"\r\n\r\n")
    assert (head.split()[1], b"application/problem+json" in head) == (b"400", True)
    assert json.loads(body)["error_code"] == "invalid_request"


def test_a_websocket_at_another_path_is_not_found(server):
    with pytest.raises(InvalidStatus) as caught, connect(f"ws://127.0.0.1:{server.port}/v1/other"):
        pass

    assert caught.value.response.status_code == 404


# --- tokens ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method, path, who", [*PATHS, ("POST", MCP, "agents"), ("GET", "/v1/unknown", "person")])
def test_every_path_needs_a_token_of_the_right_kind(server, method, path, who):
    for token in (None, "wrong", server.token[:-1], server.token + "x"):
        response = server.request(method, path, token=token)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    statuses = {
        kind: server.request(method, path, token=token).status_code
        for kind, token in (("person", server.token), ("agents", server.agents_token))
    }

    for kind, status in statuses.items():
        if path != "/v1/unknown":
            assert (status == 403) == (who not in ("both", kind)), kind
        assert status != 401


@pytest.mark.parametrize(
    "header", ["Bearer", "Basic {token}", "{token}", "bearer  {token}x", "Bearer {token}, Bearer {token}"]
)
def test_a_malformed_authorization_header_is_rejected(server, header):
    headers = {"Authorization": header.format(token=server.token)}

    assert server.request("GET", "/v1/tools", token=None, headers=headers).status_code == 401


def test_a_token_in_the_query_is_not_accepted(server):
    for name in ("token", "access_token"):
        assert server.request("GET", f"/v1/tools?{name}={server.token}", token=None).status_code == 401
    with (
        pytest.raises(InvalidStatus) as caught,
        connect(f"ws://127.0.0.1:{server.port}/v1/events?token={server.token}"),
    ):
        pass
    assert caught.value.response.status_code == 400


def test_stored_tokens_are_readable_by_their_owner_only_and_survive_a_restart(tmp_path):
    command = Command(str(tmp_path))
    agents_token = command.run("serve", "--show-agent-token").stdout.decode().strip()
    options = ("serve", "--port", "0", "--no-open")
    tokens: list[str] = []
    for _ in range(2):
        with command.start(*options) as process:
            assert process.stdout is not None
            tokens.append(process.stdout.readline().decode().strip().partition("#token=")[2])
            arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            process.terminate()
            process.communicate()
        assert tokens[0].encode() not in arguments

    assert tokens[0] == tokens[1] != agents_token
    for name in ("serve-token", "serve-agent-token"):
        assert stat.S_IMODE(os.stat(f"{command.state}/{name}").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(command.state).st_mode) == 0o700
    os.chmod(f"{command.state}/serve-token", 0o644)
    rejected = command.run(*options)
    assert (rejected.returncode, b"others can read it" in rejected.stderr) == (1, True)


def test_the_token_is_in_no_log_and_no_database(tmp_path):
    command = Command(str(tmp_path))
    with serving(command) as server:
        server.call("read_file", path="a.txt")
        server.call("search_files", pattern=server.token)
        server.request("GET", f"/v1/{server.token}")
        raw(server, f"GET /{server.token} garbage\r\n\r\n".encode())
        server.stop()
        assert server.process.stderr is not None
        errors = server.process.stderr.read().decode()

    assert server.token not in errors
    contents = {
        path: Path(path).read_bytes() for path in glob(f"{command.state}/**/*", recursive=True) if os.path.isfile(path)
    }
    assert any(path.endswith("events.db") for path in contents)
    assert [path for path, data in contents.items() if PERSON_TOKEN.encode() in data] == []


@pytest.mark.parametrize(
    "environ, code",
    [
        ({"HILT_TOKEN": "short"}, b"invalid_args"),
        ({"HILT_AGENT_TOKEN": "with a blank in the middle"}, b"invalid_args"),
        ({"HILT_TOKEN": "the-same-for-both-of-them", "HILT_AGENT_TOKEN": "the-same-for-both-of-them"}, b"invalid_args"),
    ],
)
def test_weak_tokens_are_refused(tmp_path, environ, code):
    done = Command(str(tmp_path), **environ).run("serve", "--port", "0", "--no-open")

    assert (done.returncode, done.stderr.startswith(code), done.stdout) == (1, True, b"")


# --- pages ----------------------------------------------------------------------------------------------------------


def test_pages_can_neither_be_framed_nor_load_anything_foreign(server):
    for path in ("/", "/approvals", "/v1/tools", "/openapi.json", "/nothing"):
        headers = server.request("GET", path).headers
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert "set-cookie" not in headers
        if path.startswith("/v1"):
            assert headers["cache-control"] == "no-store"


def test_the_start_page_names_the_document_and_its_files_are_hashed(server):
    page = server.request("GET", "/", token=None)
    style = next(path for path in read_files() if path.endswith(".css"))
    response = server.request("GET", style, token=None)

    assert "/openapi.json" in page.text
    assert style in page.text
    assert (response.headers["content-type"], "immutable" in response.headers["cache-control"]) == (
        "text/css; charset=utf-8",
        True,
    )
    again = server.request("GET", style, token=None, headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for name in pages(read_files()["/"]):
        assert server.request("GET", f"/{name}", token=None, headers={"Accept": "text/html"}).text == page.text
    assert server.request("POST", "/", token=None).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/../app.py",
        "/%2e%2e/app.py",
        "/assets/../../app.py",
        "/assets/..%2f..%2fapp.py",
        "/..%5c..%5capp.py",
        "//etc/passwd",
        "/index.html",
        "/assets/",
        "/assets/style.css%00.js",
        "/approvals/../v1/tools",
        "/.",
        "/assets//style.css",
    ],
)
def test_a_path_reaches_only_the_files_of_the_console(server, path):
    answer = raw(server, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 401")
    assert b"import" not in answer


def test_links_in_the_folder_of_the_console_are_only_its_own_files():
    assert [path for path in glob(f"{FOLDER}/**/*", recursive=True) if os.path.islink(path)] == []


# --- slow, silent and large -----------------------------------------------------------------------------------------


def test_half_open_connections_do_not_block_others(hasty):
    with ExitStack() as stack:
        for number in range(700):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", hasty.port)))
            with suppress(OSError):  # another connection took its slot
                connection.sendall(b"GET /v1/tools HTTP/1.1\r\nHost: x\r\n"[: number % 30])
        assert hasty.call("read_file", path="a.txt")["ok"]
        with hasty.events(recent=100) as client:  # the call may end before the WebSocket is open
            hasty.call("stat_file", path="a.txt")
            while client.next("call")["tool"] != "stat_file":
                pass


def test_websockets_without_a_token_do_not_block_others(hasty):
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    head = f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{hasty.port}\r\nUpgrade: websocket\r\n"
    head += f"Connection: Upgrade\r\n{key}\r\n"
    with ExitStack() as stack:
        for _ in range(400):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", hasty.port)))
            with suppress(OSError):  # another connection took its slot
                connection.sendall(head.encode())
        assert hasty.call("read_file", path="a.txt")["ok"]


def test_silent_connections_are_closed(hasty):
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", hasty.port))) for _ in range(20)]
        for number, connection in enumerate(silent):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n"[:number])
        for connection in silent:
            connection.settimeout(WAIT_SECONDS)
            assert connection.recv(1000) == b""


def test_a_client_that_does_not_read_its_response_is_disconnected(hasty):
    body = json.dumps({"tool": "read_file", "args": {"path": "big.txt"}}).encode()
    head = f"POST /v1/call HTTP/1.1\r\nHost: 127.0.0.1:{hasty.port}\r\nAuthorization: Bearer {hasty.token}\r\n"
    request = head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", hasty.port))
        connection.sendall(request * 20)  # pipelined: more than the kernel buffers
        connection.settimeout(WAIT_SECONDS)
        wait_until(lambda: _is_reset(connection))


def test_a_websocket_that_answers_no_ping_is_closed(hasty):
    with socket.create_connection(("127.0.0.1", hasty.port)) as connection:
        key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        head = f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{hasty.port}\r\nUpgrade: websocket\r\n"
        connection.sendall(f"{head}Connection: Upgrade\r\n{key}\r\n".encode())
        hello = json.dumps({"token": hasty.token}).encode()
        connection.sendall(bytes((0x81, 0x80 | len(hello), 0, 0, 0, 0)) + hello)  # masked with zeros
        connection.settimeout(WAIT_SECONDS)
        received = b""
        while data := connection.recv(65536):
            received += data

    assert b"keepalive ping timeout" in received


def _is_reset(connection: socket.socket) -> bool:
    """Whether the server has ended a connection, without reading from it."""
    try:
        connection.sendall(b"\r\n")
    except OSError:
        return True
    time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    "request_line, status",
    [
        ("GET /v1/tools HTTP/1.1\r\nX: " + "x" * 100_000, b"431"),
        ("GET /" + "x" * 100_000 + " HTTP/1.1\r\nX: y", b"431"),
        ("nonsense", b"400"),
        ("GET /v1/tools HTTP/1.1\r\nContent-Length: x", b"400"),
        ("GET /v1/tools HTTP/1.1\r\nTransfer-Encoding: gzip", b"400"),
        ("POST /v1/call HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked", b"400"),
        ("POST /v1/call HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3", b"400"),
        ("POST /v1/call HTTP/1.1\r\nContent-Length : 2", b"400"),
        ("GET /v1/tools HTTP/1.1\r\nX: a\nAuthorization: b", b"400"),
    ],
)
def test_invalid_and_long_headers_are_problems(server, request_line, status):
    answer = raw(server, f"{request_line}\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"application/problem+json" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


def test_headers_after_the_body_are_ignored_and_limited(server):
    head = f"POST /v1/call HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    trailer = f"Authorization: Bearer {PERSON_TOKEN}\r\n\r\n"

    assert raw(server, (head + trailer).encode()).startswith(b"HTTP/1.1 401")
    head = head.replace("\r\n\r\n", f"\r\nAuthorization: Bearer {PERSON_TOKEN}\r\n\r\n", 1)
    assert raw(server, (head + "X: " + "x" * 1_000_000).encode()).startswith(b"HTTP/1.1 431")


def test_requests_that_arrive_together_are_answered_in_order(server):
    head = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {PERSON_TOKEN}\r\n"
    bodies = [json.dumps({"tool": "stat_file", "args": {"path": "."}, "id": id}) for id in range(5)]
    requests = [f"POST /v1/call HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies]
    last = f"GET /v1/unknown HTTP/1.1\r\n{head}Connection: close\r\n\r\n"

    answer = raw(server, ("".join(requests) + last).encode())

    ids = [json.loads(part.splitlines()[0])["id"] for part in answer.split(b"\r\n\r\n")[1:-1]]
    assert ids == [0, 1, 2, 3, 4]
    assert answer.count(b"HTTP/1.1 200") == 5
    assert b"HTTP/1.1 404" in answer


def test_requests_after_an_invalid_one_are_ignored(server):
    head = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {PERSON_TOKEN}\r\n"
    valid = f"GET /v1/tools HTTP/1.1\r\n{head}\r\n"

    answer = raw(server, f"{valid}nonsense\r\n\r\n{valid}".encode())

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_too_many_requests_are_rejected_with_retry_after(hasty):
    responses = [hasty.request("GET", "/v1/unknown") for _ in range(150)]
    limited = [response for response in responses if response.status_code == 429]

    assert limited
    assert limited[0].headers["retry-after"] == "1"
    assert hasty.call("read_file", path="a.txt")["ok"]  # the other token has its own rate limit


def test_the_server_stops_within_five_seconds_under_load(tmp_path):
    command = Command(str(tmp_path))
    command.folder.write("a.txt", "a\n")
    with serving(command) as server:
        ended = threading.Event()

        def load() -> None:
            while not ended.is_set():
                with suppress(Exception):
                    server.call("read_file", path="a.txt")

        def wait() -> None:
            with suppress(Exception):
                server.call("run_shell", command="sleep 100", timeout=200)

        threads = [threading.Thread(target=work, daemon=True) for work in (load, load, load, wait, wait)]
        for thread in threads:
            thread.start()
        with server.events() as client:
            client.next("call")
            began = time.monotonic()
            status = server.stop()
            seconds = time.monotonic() - began
        ended.set()

    assert status == -2
    assert seconds < 5


# --- agents ---------------------------------------------------------------------------------------------------------


def test_an_agent_cannot_approve_its_own_call(server):
    envelope = server.call("write_file", path="own.txt", content="x")
    id = envelope["meta"]["details"]["approval"]

    for path, body in ((f"/v1/approvals/{id}", {"answer": "once"}), ("/v1/trust", {"path": "x", "sha256": "0" * 64})):
        assert server.post(path, body, status=403, token=server.agents_token)["error_code"] == "denied"
    again = server.post(
        "/v1/call",
        {"tool": "write_file", "args": {"path": "own.txt", "content": "x"}, "approval": id},
        token=server.agents_token,
    )
    assert again["error_code"] == "approval_required"
    assert "own.txt" not in server.command.folder.tree()


def test_an_agent_can_neither_revoke_grants_nor_answer_questions_to_the_person(server):
    with closing(Approvals(server.command.state)) as approvals, closing(Questions(server.command.state)) as questions:
        grant = approvals.add_grant("w", "read_file", by="terminal")
        question = questions.ask("w", "s", "/w", [{"question": "Sure?"}], seconds=60)
        path = server.command.folder.write(".hilt/hooks.yaml", "hooks: []\n")
        digest = hashlib.sha256(b"hooks: []\n").hexdigest()
        attempts = [
            ("DELETE", f"/v1/grants/{grant.id}", None),
            ("POST", "/v1/trust", {"path": path, "sha256": digest}),
            ("DELETE", f"/v1/trust?path={path}", None),
            ("GET", f"/v1/trust/file?path={path}", None),
            ("POST", f"/v1/questions/{question.id}", {"answers": {"Sure?": "yes"}}),
            ("GET", "/v1/settings", None),
        ]
        for method, address, body in attempts:
            for token in (server.agents_token, server.token[:-1], server.token + "x", server.token.upper(), None):
                answer = server.request(method, address, json=body, token=token)
                assert answer.status_code == (403 if token == server.agents_token else 401), address

        assert [stored.id for stored in approvals.grants("w")] == [grant.id]
        assert questions.get(question.id).state == "pending"
    states = {row["path"]: row["state"] for row in server.get("/v1/trust")["files"]}
    assert states[path] == "untrusted"


def test_an_mcp_host_cannot_answer_for_itself_once_the_console_has(server):
    """A host whose form is answered at the console cannot turn the denial into an approval."""
    with server.events(approver=True), Lines(server.command, elicitation={}) as host:
        arguments = {"path": "forced.txt", "content": "x"}
        request = host.send("tools/call", name="write_file", arguments=arguments)
        form = host.read()
        server.post(f"/v1/approvals/{pending(server, arguments=arguments)['id']}", {"answer": "deny"})
        yes = {"jsonrpc": "2.0", "id": form["id"], "result": {"action": "accept", "content": {"decision": "always"}}}
        host.write(json.dumps(yes).encode() + b"\n")
        answer = host.read()
        while answer.get("id") != request or "method" in answer:
            answer = host.read()

    assert "forced.txt" not in server.command.folder.tree()
    assert answer["result"]["isError"] is True
    assert "write_file" not in json.dumps(server.get("/v1/grants"))


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_an_agent_cannot_approve_its_own_call_by_a_form(server, mode):
    """A client with the agents' token may use MCP, but must not answer its own approvals there."""
    forms: list[str] = []

    async def accept(context: Any, params: Any) -> Any:
        forms.append(params.message)
        await asyncio.sleep(1.1)  # as long as a person would take
        return types.ElicitResult(action="accept", content={"decision": "once"})

    async def check() -> None:
        address = Address(f"{server.url}/mcp", server.agents_token, server.process)
        async with over_http(address, mode, elicitation_callback=accept) as client:
            result = await client.call_tool("write_file", {"path": "self.txt", "content": "x"})
            assert result.is_error
            assert "approval" in text_of(result)

    run(check())

    assert forms == []
    assert "self.txt" not in server.command.folder.tree()


def test_the_name_that_a_host_reports_is_only_displayed(server):
    """A host cannot pose as the console, or as another host, by its name."""
    with server.events(approver=True), Lines(server.command, handshake=False) as host:
        info = {"name": "console", "version": "1\n2"}
        host.ask("initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}}, clientInfo=info)
        host.tell("notifications/initialized")
        arguments = {"path": "posed.txt", "content": "x"}
        host.send("tools/call", name="write_file", arguments=arguments)
        form = host.read()
        row = pending(server, arguments=arguments)
        yes = {"jsonrpc": "2.0", "id": form["id"], "result": {"action": "accept", "content": {"decision": "once"}}}
        host.write(json.dumps(yes).encode() + b"\n")
        host.read()
        late = server.post(f"/v1/approvals/{row['id']}", {"answer": "deny"}, status=409)

    assert (row["client"], late["first"]["by"]) == ("mcp client console", "mcp client console")


def test_marks_of_hosts_that_are_not_ours_are_ignored(server):
    folder = os.path.join(server.command.state, "hosts")
    os.makedirs(folder, exist_ok=True)
    secret = server.command.folder.write("secret.txt", "secret")
    os.symlink(secret, os.path.join(folder, "link"))
    for name, text in (("broken", "{"), ("list", "[]"), ("other", '{"id": 5}')):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(text)
    with open(os.path.join(folder, "odd"), "w", encoding="ascii") as locked:
        locked.write('{"id": "odd"}')
        locked.flush()
        fcntl.flock(locked, fcntl.LOCK_EX)

        assert {host["transport"] for host in server.get("/v1/settings")["hosts"]} <= {"http"}  # of other tests
    assert server.command.folder.read("secret.txt") == "secret"


@needs_sandbox
def test_a_tool_cannot_start_a_server(hasty):
    line = f"{HILT} serve --port 0 --no-open"

    blocked = hasty.call("run_shell", command=line)
    forced = hasty.call("run_shell", command=line, force=True)

    assert blocked["error_code"] == "command_blocked"
    assert "denied: hilt serve" in forced["result"]
    assert "#token=" not in forced["result"]


def test_a_command_of_an_agent_reaches_neither_the_server_nor_its_token(server):
    state = server.command.state
    script = (
        f"cat {state}/serve-token {state}/serve-agent-token; exec 3<>/dev/tcp/127.0.0.1/{server.port} && echo reached"
    )

    envelope = server.call("run_shell", command=script)

    assert "reached" not in envelope["result"]
    assert "token-of-the-tests" not in json.dumps(envelope)


def test_commands_do_not_inherit_the_tokens(server):
    envelope = server.call("run_shell", command="env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")

    assert "token-of-the-tests" not in envelope["result"]


# --- other addresses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("--host", "0.0.0.0"),
        ("--host", "192.0.2.1", "--tls-cert", "x"),
        ("--host", "example.org"),
        ("--port", "70000"),
        ("--tls-key", "x"),
    ],
)
def test_an_open_address_needs_encryption(tmp_path, words):
    done = Command(str(tmp_path)).run("serve", "--no-open", *words)

    assert (done.returncode, done.stdout) == (2, b"")


def test_behind_a_proxy_any_host_is_accepted_and_an_origin_must_match_it(tmp_path):
    with serving(Command(str(tmp_path)), "--behind-proxy") as server:
        named = {"Host": "hilt.example.org"}
        assert server.request("GET", "/v1/tools", headers=named).status_code == 200
        own = {**named, "Origin": "https://hilt.example.org"}
        assert server.request("GET", "/v1/tools", headers=own).status_code == 200
        foreign = {**named, "Origin": "https://evil.example.org"}
        assert server.request("GET", "/v1/tools", headers=foreign).status_code == 403


def test_a_problem_never_shows_a_traceback(server):
    answers: list[Any] = [
        server.request("GET", "/v1/audit?since=99999999999999999w").status_code,
        server.request("GET", "/v1/changes/" + "f" * 300).status_code,
        server.request("GET", "/v1/sessions/%ff%00").status_code,
        server.request("GET", "/v1/trust/file?path=%00").status_code,
        server.request("POST", "/v1/call", content=b'{"tool": "\\u0000", "args": {"x": "\\ud800"}}').status_code,
        server.request("GET", "/v1/tasks?workspace=%00").status_code,
        server.request("PATCH", "/v1/tasks/0", json={"title": "x"}).status_code,
    ]

    assert answers == [422, 404, 404, 404, 400, 404, 404]
