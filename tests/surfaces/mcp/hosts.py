"""MCP hosts for tests: the SDK's client over both transports and both eras of the protocol, and a bare line client.

A server is a fork of a process that has imported hilt; `cold=True` starts the command in a new process, as a host does.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TextIO

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.surfaces.commands import HILT, Command, forked

STDIO_OLD, STDIO_NEW = ("stdio", "legacy"), ("stdio", "2026-07-28")
HTTP_OLD, HTTP_NEW = ("http", "legacy"), ("http", "2026-07-28")
ALL = [STDIO_OLD, STDIO_NEW, HTTP_OLD, HTTP_NEW]
WAIT_SECONDS = 60  # for events that must happen, so that a failing test does not hang


def run(test: Any) -> None:
    """Run the coroutine of a test."""

    async def bounded() -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await test

    asyncio.run(bounded())


class Address:
    """The address of a server, and its token."""

    def __init__(self, url: str, token: str | None, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.token = token
        self.process = process

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    @property
    def port(self) -> int:
        return int(re.findall(r":(\d+)/", self.url)[0])


@contextmanager
def listening(
    command: Command, *arguments: str, cold: bool = False, constants: Sequence[str] = ()
) -> Iterator[Address]:
    """Start `hilt mcp --http`, and end it."""
    arguments = ("mcp", *arguments, *(["--http"] if "--http" not in arguments else []))
    with command.start(line=[HILT, *arguments] if cold else forked(*constants, *arguments)) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                match = re.search(r"listening on (http://\S+)", line.decode())
                if match:
                    break
            else:
                raise AssertionError("it did not start")
            path = os.path.join(command.state, "mcp-token")
            token = None
            if "--no-token" not in arguments:
                with open(path, encoding="ascii") as file:
                    token = file.read().strip()
            yield Address(match[1], token, process)
        finally:
            process.terminate()
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()


@asynccontextmanager
async def over_http(address: Address, mode: str, **callbacks: Any) -> AsyncIterator[Any]:
    """Connect the SDK's client to a running server."""
    async with httpx2.AsyncClient(headers=address.headers, timeout=WAIT_SECONDS, verify=False) as http:
        transport = streamable_http_client(address.url, http_client=http)
        async with Client(transport, mode=mode, **callbacks) as client:
            yield client


@asynccontextmanager
async def connected(
    command: Command, kind: tuple[str, str], *arguments: str, cold: bool = False, **callbacks: Any
) -> AsyncIterator[Any]:
    """Connect the SDK's client to its own server."""
    transport, mode = kind
    if transport == "stdio":
        program, *rest = [HILT, "mcp", *arguments] if cold else forked("mcp", *arguments)
        server = StdioServerParameters(command=program, args=rest, env=command.environ, cwd=command.folder.path)
        with _null_output() as null_output:
            async with Client(stdio_client(server, errlog=null_output), mode=mode, **callbacks) as client:
                yield client
        return
    with listening(command, *arguments, cold=cold) as address:
        async with over_http(address, mode, **callbacks) as client:
            yield client


def _null_output() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


class Lines:
    """A client that writes and reads lines, valid or not."""

    def __init__(
        self,
        command: Command,
        *arguments: str,
        cold: bool = False,
        handshake: bool = True,
        version: str = "2025-11-25",
        constants: Sequence[str] = (),
        **capabilities: Any,
    ) -> None:
        self.process = command.start(line=[HILT, "mcp", *arguments] if cold else forked(*constants, "mcp", *arguments))
        self._number = 0
        if handshake:
            info = {"name": "lines", "version": "1"}
            params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}
            self.ask("initialize", **params)
            self.tell("notifications/initialized")

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def write(self, data: bytes) -> None:
        """Write bytes unchanged."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        self._number += 1
        self.write(_line({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}))
        return self._number

    def tell(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.write(_line({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}))

    def read(self) -> Any:
        """Return the next message, or batch of them."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server has ended"
        return json.loads(line)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its response, skipping earlier messages."""
        number = self.send(method, **params)
        message: dict[str, Any] = self.read()
        while message.get("id") != number or "method" in message:
            message = self.read()
        return message

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its result."""
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def end(self) -> int:
        """End the input, and return the exit status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        try:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
            return self.process.wait(WAIT_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process.stderr.close()


def wait_until_idle(pid: int) -> None:
    """Wait until a process has been idle for a while."""

    def spent() -> list[str]:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[11:13]

    before = None
    while before != (now := spent()):
        before = now
        time.sleep(0.5)


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def text_of(result: Any) -> str:
    """Return the text of a result."""
    return "".join(block.text for block in result.content if block.type == "text")


def text_of_answer(result: dict[str, Any]) -> str:
    """Return the text of a result in its wire format."""
    return "".join(block["text"] for block in result["content"] if block["type"] == "text")
