"""Servers over HTTP: good, broken and hostile ones."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hilt.servers import transport
from tests.servers.running import SDK, Bench, Client, eventually, submit

TOOL = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(str(tmp_path))


# --- servers on the SDK, of both eras -------------------------------------------------------------------------------


@contextmanager
def serving(wire: str) -> Iterator[dict[str, Any]]:
    """Start an SDK server, unless hilt starts it, and yield its entry."""
    if wire == "stdio":
        yield {"command": sys.executable, "args": [SDK, "stdio"]}
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, SDK, wire, str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: accepts_connections(port))
            yield {"type": wire, "url": f"http://127.0.0.1:{port}/{'mcp' if wire == 'http' else wire}"}
        finally:
            process.kill()


def accepts_connections(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.mark.parametrize("wire", ["stdio", "http"])
def test_every_feature_of_an_sdk_server_works(bench, wire):
    client = Client(lambda message, schema: {"action": "accept", "content": {"color": "red"}})
    with serving(wire) as entry, bench.runtime({"sdk": entry}) as runtime:
        names = [tool.name for tool in runtime.parts.catalog.tools() if tool.name.startswith("mcp__")]
        added = runtime.call("mcp__sdk__add", a=1, b=2)
        answered = submit(runtime, "mcp__sdk__ask", client)[1]()
        counted = submit(runtime, "mcp__sdk__count", client)[1]()
        assert runtime.call("mcp__sdk__grow").error is None
        servers = runtime.parts.servers
        assert servers is not None
        eventually(lambda: servers.states()[0].difference.new)
        grown = runtime.call("mcp__sdk__more")

    assert names == ["mcp__sdk__add", "mcp__sdk__ask", "mcp__sdk__count", "mcp__sdk__grow"]
    assert added.data == {"result": 3}
    assert answered.data == {"result": "accept {'color': 'red'}"}
    assert counted.data == {"result": "three"}
    assert client.forms[0][0] == "The MCP server sdk asks: Which color?"
    assert client.steps
    assert grown.error is not None
    assert grown.error.code == "untrusted"


def test_an_sse_server_works(bench):
    with serving("sse") as entry, bench.runtime({"sdk": entry}) as runtime:
        assert runtime.call("mcp__sdk__add", a=1, b=2).data == {"result": 3}


# --- misbehaving servers --------------------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """Answers like an old server, except where a test overrides it."""

    protocol_version = "HTTP/1.1"
    misbehave: Callable[[Any, dict[str, Any]], bool]
    seen: list[tuple[str, dict[str, str]]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.append((str(body.get("method")), {name.lower(): value for name, value in self.headers.items()}))
        with suppress(OSError):
            if type(self).misbehave(self, body):
                return
            if "id" not in body:
                self.send_response(202)
                self.send_header("content-length", "0")
                self.end_headers()
            else:
                self.answer(body)

    def answer(self, body: dict[str, Any]) -> None:
        if body["method"] == "initialize":
            info = {"name": "x", "version": "1"}
            result: Any = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        elif body["method"] == "tools/list":
            result = {"tools": [TOOL]}
        elif body["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": body["params"]["arguments"].get("text", "")}]}
        else:
            self.send_json({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": "no"}})
            return
        self.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result})

    def send_json(self, value: Any, **headers: str) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(200)
        for name, text in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.send_error(405)

    do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        return


@contextmanager
def listening(misbehave: Callable[[Any, dict[str, Any]], bool] = lambda handler, body: False) -> Iterator[Any]:
    seen: list[tuple[str, dict[str, str]]] = []
    kind = type("Misbehaving", (Handler,), {"misbehave": staticmethod(misbehave), "seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp", seen
        finally:
            server.shutdown()


def calls(body: dict[str, Any]) -> bool:
    return body.get("method") == "tools/call"


def test_headers_are_sent_with_every_request(bench):
    with listening() as (url, seen):
        entry = {"url": "${ADDRESS}", "headers": {"Authorization": "Bearer ${TOKEN}"}}
        with bench.runtime({"far": entry}, ADDRESS=url, TOKEN="hunter2") as runtime:
            assert runtime.call("mcp__far__echo", text="a").text == "a"

    assert len(seen) >= 4
    assert all(headers["authorization"] == "Bearer hunter2" for _, headers in seen)


def test_a_redirect_to_another_host_is_not_followed(bench):
    def redirect(handler: Any, body: dict[str, Any]) -> bool:
        if not calls(body):
            return False
        handler.send_response(307)
        handler.send_header("location", elsewhere)
        handler.send_header("content-length", "0")
        handler.end_headers()
        return True

    with listening() as (elsewhere, other), listening(redirect) as (url, _):
        elsewhere = elsewhere.replace("127.0.0.1", "localhost")
        with bench.runtime({"far": {"url": url, "headers": {"Authorization": "Bearer t"}}}) as runtime:
            result = runtime.call("mcp__far__echo", text="a")

    assert result.error is not None
    assert other == []


def test_a_secret_in_a_url_is_redacted(bench):
    with listening() as (url, _):
        entry = {"url": f"{url}?key=${{SECRET}}", "type": "sse"}
        with bench.runtime({"far": entry}, SECRET="hunter2") as runtime:
            error = runtime.call("mcp__far__echo", text="a").error

    assert "405" in error.message
    assert "hunter2" not in error.message


def endless(handler: Any, body: dict[str, Any]) -> bool:
    if not calls(body):
        return False
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * (1 << 20))


def packed(handler: Any, body: dict[str, Any]) -> bool:
    if not calls(body):
        return False
    handler.send_json(gzip.compress(b" " * (200 << 20), 1), **{"content-encoding": "gzip"})
    return True


def one_long_event(handler: Any, body: dict[str, Any]) -> bool:
    if not calls(body):
        return False
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.end_headers()
    handler.wfile.write(b"data: ")
    while True:
        handler.wfile.write(b"x" * (1 << 20))


def many_events(handler: Any, body: dict[str, Any]) -> bool:
    if not calls(body):
        return False
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.end_headers()
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    while True:
        handler.wfile.write(b"data: " + json.dumps(note).encode() + b"\n\n")


def hanging_up(handler: Any, body: dict[str, Any]) -> bool:
    if calls(body):
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
    return calls(body)


def page(handler: Any, body: dict[str, Any]) -> bool:
    if calls(body):
        handler.send_json(b"<html>", **{"content-type": "text/html"})
    return calls(body)


def broken(handler: Any, body: dict[str, Any]) -> bool:
    if calls(body):
        handler.send_json(b"{")
    return calls(body)


def failing(handler: Any, body: dict[str, Any]) -> bool:
    if calls(body):
        handler.send_error(500)
    return calls(body)


@pytest.mark.parametrize(
    "misbehave, reason",
    [
        (endless, "more than 8 MiB"),
        (packed, "compressed"),
        (one_long_event, "limit"),
        (many_events, "too many unsolicited messages"),
        (hanging_up, "disconnected"),
        (page, "text/html"),
        (broken, "parse"),
        (failing, "error"),
    ],
)
def test_an_invalid_response_fails_only_its_own_call(bench, misbehave, reason):
    with (
        listening(misbehave) as (url, _),
        listening() as (other, _),
        bench.runtime({"bad": {"url": url}, "good": {"url": other}}) as runtime,
    ):
        runtime.parts.catalog.tools()
        _, result = submit(runtime, "mcp__bad__echo", text="a")
        assert [runtime.call("mcp__good__echo", text=str(n)).text for n in range(5)] == list("01234")
        error = result().error

    assert (error.code, reason in error.message) == ("tool_failed", True), error.message


def test_a_server_may_be_silent_until_the_call_times_out(bench, monkeypatch):
    monkeypatch.setattr(transport, "_SILENCE_SECONDS", 0.3)

    def thinking(handler: Any, body: dict[str, Any]) -> bool:
        if calls(body):
            threading.Event().wait(0.6)
        return False

    with listening(thinking) as (url, _), bench.runtime({"far": {"url": url, "timeout": 30}}) as runtime:
        assert runtime.call("mcp__far__echo", text="a").text == "a"


def test_an_unreachable_server_is_reported(bench):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with bench.runtime({"far": {"url": f"http://127.0.0.1:{port}/mcp"}}) as runtime:
        result = runtime.call("mcp__far__echo", text="a")

    assert result.error is not None
    assert result.error.code == "tool_failed"


def test_a_recovered_server_is_used_again(bench):
    down = threading.Event()

    def sometimes(handler: Any, body: dict[str, Any]) -> bool:
        return hanging_up(handler, body) if down.is_set() else False

    with listening(sometimes) as (url, _), bench.runtime({"far": {"url": url}}) as runtime:
        assert runtime.call("mcp__far__echo", text="a").text == "a"
        down.set()
        failed = runtime.call("mcp__far__echo", text="a")
        down.clear()
        assert failed.error is not None
        assert eventually(lambda: runtime.call("mcp__far__echo", text="b").text) == "b"
