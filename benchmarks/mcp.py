"""MCP over standard input and output: against an echo tool on the high-level server of the SDK."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from benchmarks.clock import best, best_median
from benchmarks.figure import Figure
from benchmarks.place import Place, fresh_place, small_name
from benchmarks.program import HILT

STARTS = 8
REFERENCE = "echo on the SDK's MCPServer"

_ECHO = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("echo")

@server.tool()
def echo(path: str) -> str:
    return path

server.run("stdio")
"""


class Client:
    """A minimal client."""

    def __init__(self, process: subprocess.Popen[bytes], *, modern: bool) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._number = 0
        self._meta: dict[str, Any] = {}
        if modern:
            version = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
            self._meta = {"_meta": {**version, "io.modelcontextprotocol/clientCapabilities": {}}}
        else:
            info = {"name": "benchmark", "version": "1"}
            self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its result."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": {**params, **self._meta}})
        answer = json.loads(self._stdout.readline())
        assert answer.get("id") == self._number, answer
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, tool: str, **arguments: Any) -> None:
        """Call a tool; the call must succeed."""
        assert not self.ask("tools/call", name=tool, arguments=arguments).get("isError")

    def _send(self, message: dict[str, Any]) -> None:
        self._stdin.write(json.dumps(message).encode() + b"\n")
        self._stdin.flush()


def started(place: Place, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a server."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=place.workspace,
        env=place.environ,
    )


@contextmanager
def client(place: Place, command: Sequence[str], *, modern: bool) -> Iterator[Client]:
    """Start a server, and stop it afterwards."""
    with started(place, command) as process:
        yield Client(process, modern=modern)


def figures() -> Iterator[Figure]:
    """Measure a call in both eras of the protocol, and the time from start to the first list."""
    ours, theirs = [HILT, "mcp"], [sys.executable, "-c", _ECHO]
    with fresh_place(files=100) as place:
        for modern in (False, True):
            with ExitStack() as stack:
                hilt = stack.enter_context(client(place, ours, modern=modern))
                echo = stack.enter_context(client(place, theirs, modern=modern))
                name = small_name(0)
                base, p50 = best_median(
                    5, 200, partial(echo.call, "echo", path=name), partial(hilt.call, "stat_file", path=name)
                )
            era = "stateless" if modern else "handshake"
            yield Figure(f"MCP stat_file, p50, {era}", p50, "ms", REFERENCE, base, most_ratio=1.3)
        with ExitStack() as stack:
            base, start = best(STARTS, lambda: _list(stack, place, theirs), lambda: _list(stack, place, ours))
    yield Figure("MCP start to the first tools/list", start, "ms", REFERENCE, base, most_ratio=1.3)


def _list(stack: ExitStack, place: Place, command: Sequence[str]) -> None:
    """Start a server and list its tools; its shutdown is not measured."""
    process = stack.enter_context(started(place, command))
    assert Client(process, modern=False).ask("tools/list")["tools"]
    process.kill()
