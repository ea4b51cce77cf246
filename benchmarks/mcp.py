"""MCP over standard input and output, against an echo tool on the SDK's high-level server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

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


OURS = (HILT, "mcp")
ECHO = (sys.executable, "-c", _ECHO)


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
    with fresh_place(files=100) as place, _resident(place) as shared:
        alone = place._replace(environ={**place.environ, "HILT_RESIDENT": "off"})
        servers = [Server("in process", alone, OURS, 0.4), Server("pipe", shared, OURS, 0.05)]
        for modern in (False, True):
            with ExitStack() as stack:
                name = small_name(0)
                echo = stack.enter_context(client(alone, ECHO, modern=modern))
                clients = [stack.enter_context(client(each.place, each.command, modern=modern)) for each in servers]
                calls = [partial(hilt.call, "stat_file", path=name) for hilt in clients]
                base, *medians = best_median(5, 200, partial(echo.call, "echo", path=name), *calls)
            era = "stateless" if modern else "handshake"
            for server, p50 in zip(servers, medians, strict=True):
                yield Figure(f"MCP stat_file, {server.name}, {era}", p50, "ms", REFERENCE, base, max_ratio=1.3)
        with ExitStack() as stack:
            runs = [partial(_list, stack, server.place, server.command) for server in servers]
            base, *starts = best(STARTS, partial(_list, stack, alone, ECHO), *runs)
        for server, start in zip(servers, starts, strict=True):
            max_ratio = server.max_start_ratio
            yield Figure(f"MCP first tools/list, {server.name}", start, "ms", REFERENCE, base, max_ratio=max_ratio)
        yield from _against_node(alone, servers)


class Server(NamedTuple):
    """A way to serve MCP, and the limit of its start time relative to the reference."""

    name: str
    place: Place
    command: Sequence[str]
    max_start_ratio: float


@contextmanager
def _resident(place: Place) -> Iterator[Place]:
    """Start the resident process, and stop it afterwards."""
    shared = place._replace(environ={**place.environ, "HILT_RESIDENT": "auto"})
    subprocess.run([HILT, "resident", "start"], env=shared.environ, stdout=subprocess.DEVNULL, check=True)
    try:
        yield shared
    finally:
        subprocess.run([HILT, "resident", "stop"], env=shared.environ, stdout=subprocess.DEVNULL, check=True)


def _against_node(place: Place, servers: Sequence[Server]) -> Iterator[Figure]:
    """Compare with the filesystem server of npm, if it is installed."""
    program = shutil.which("mcp-server-filesystem", path=f"{os.path.dirname(HILT)}{os.pathsep}{place.environ['PATH']}")
    if program is None:
        return
    reference, node = "npm's filesystem server", [program, place.workspace]
    with ExitStack() as stack:
        runs = [partial(_list, stack, server.place, server.command) for server in servers]
        base, *starts = best(STARTS, partial(_list, stack, place, node), *runs)
    for server, start in zip(servers, starts, strict=True):
        yield Figure(f"MCP first tools/list, {server.name}", start, "ms", reference, base)
    with ExitStack() as stack:
        path = place.path(small_name(0))
        theirs = stack.enter_context(client(place, node, modern=False))
        ours = stack.enter_context(client(place, OURS, modern=False))
        base, p50 = best_median(
            5, 200, partial(theirs.call, "get_file_info", path=path), partial(ours.call, "stat_file", path=path)
        )
    yield Figure("MCP stat_file, in process, handshake", p50, "ms", reference, base)


def _list(stack: ExitStack, place: Place, command: Sequence[str]) -> None:
    """Start a server and list its tools; its shutdown is not measured."""
    process = stack.enter_context(started(place, command))
    assert Client(process, modern=False).ask("tools/list")["tools"]
    process.kill()
