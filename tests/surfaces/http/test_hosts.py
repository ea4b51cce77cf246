"""MCP hosts as the console shows them: who is connected, in whatever process, and their calls."""

from __future__ import annotations

from typing import Any

import pytest

from tests.marks import wait_until
from tests.surfaces.http.servers import Server, serving
from tests.surfaces.mcp.hosts import Address, Lines, over_http, run


def hosts(server: Server) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = server.get("/v1/settings")["hosts"]
    return rows


def named(server: Server, name: str) -> dict[str, Any]:
    """Wait for a host of this name, and return it."""
    wait_until(lambda: any(host["name"] == name for host in hosts(server)))
    return next(host for host in hosts(server) if host["name"] == name)


def test_a_host_is_shown_while_it_is_connected_and_reported_when_it_leaves(server):
    with server.events() as client:
        with Lines(server.command):
            host = named(server, "lines")
            joined = client.next("host")
        left = client.next("host")

    assert (host["version"], host["transport"], host["workspace"]) == ("1", "stdio", server.command.folder.path)
    assert host["session"].startswith("mcp-")
    assert (joined["id"], joined["status"], joined["name"]) == (host["id"], "connected", "lines")
    assert (left["id"], left["status"]) == (host["id"], "disconnected")
    assert hosts(server) == []


def test_a_host_whose_process_is_killed_is_no_longer_shown(server):
    with server.events() as client, Lines(server.command, cold=True) as lines:
        assert client.next("host")["status"] == "connected"
        lines.process.kill()

        assert client.next("host")["status"] == "disconnected"
        assert hosts(server) == []


def test_a_host_of_the_resident_process_is_shown(short):
    with serving(short) as server, Lines(short, cold=True):
        host = named(server, "lines")

        assert (host["transport"], host["workspace"]) == ("stdio", short.folder.path)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_host_over_http_is_shown(server, mode):
    before = {host["id"] for host in hosts(server)}

    async def check() -> None:
        address = Address(f"{server.url}/mcp", server.agents_token, server.process)
        async with over_http(address, mode) as client:
            await client.list_tools()
            await client.list_tools()
            wait_until(lambda: len({host["id"] for host in hosts(server)} - before) == 1)

    run(check())

    (host,) = [host for host in hosts(server) if host["id"] not in before] or [{"transport": "http"}]
    assert host["transport"] == "http"


def test_an_introduction_that_is_invalid_shows_no_host_or_only_its_text(server):
    with Lines(server.command, handshake=False) as lines:
        info = {"name": "\x1b[31m<b>" + "x" * 10_000, "version": 5}
        lines.send("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        lines.read()
        host = named(server, "[31m<b>" + "x" * 52)

    assert host["version"] == "5"


def test_a_call_that_asks_its_host_is_one_call_with_one_start(server):
    with server.events() as client, Lines(server.command, elicitation={}) as lines:
        lines.send("tools/call", name="write_file", arguments={"path": "asked.txt", "content": "x"})
        question = lines.read()
        started = client.next("call_started")
        lines.write(b'{"jsonrpc":"2.0","id":%d,"result":{"action":"decline"}}\n' % question["id"])
        ended = client.next("call_started", "call")

    assert (started["tool"], started["args"]["path"]) == ("write_file", "asked.txt")
    assert (ended["type"], ended["id"]) == ("call", started["id"])
