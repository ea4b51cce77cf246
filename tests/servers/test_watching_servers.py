"""Changes of the tools of MCP servers are reported while something listens."""

from __future__ import annotations

import threading

import pytest

from hilt.servers import tools
from hilt.servers.definitions import assign_names
from hilt.servers.pins import Pins
from tests.servers.running import WAIT_SECONDS, Bench


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    monkeypatch.setattr(tools, "POLL_SECONDS", 0.02)
    return Bench(str(tmp_path))


def test_servers_that_are_added_later_are_reported(bench):
    notified = threading.Semaphore(0)
    with bench.runtime() as runtime:
        stop = runtime.parts.listen(notified.release)
        path = bench.write({"raw": bench.raw()})
        bench.trust(path)
        assert "mcp__raw__echo" in [tool.name for tool in runtime.parts.catalog.tools()]
        assert notified.acquire(timeout=WAIT_SECONDS)

        bench.write({})
        assert notified.acquire(timeout=WAIT_SECONDS)
        assert not [tool.name for tool in runtime.parts.catalog.tools() if tool.name.startswith("mcp__")]
        stop()


def test_definitions_accepted_elsewhere_are_reported(bench):
    notified = threading.Semaphore(0)
    with bench.runtime({"raw": bench.raw()}) as runtime:
        servers = runtime.parts.servers
        assert servers is not None
        runtime.parts.catalog.tools()
        stop = runtime.parts.listen(notified.release)
        (state,) = servers.states()
        new = {"name": "extra", "inputSchema": {"type": "object"}}
        Pins(bench.state, state.server).accept(assign_names("raw", [new], {})[0])
        assert notified.acquire(timeout=WAIT_SECONDS)
        assert servers.names() == ["mcp__raw__extra"]
        stop()


def test_the_start_of_a_server_with_accepted_definitions_is_not_reported(bench):
    notified = threading.Semaphore(0)
    with bench.runtime({"raw": bench.raw()}) as runtime:
        runtime.parts.catalog.tools()
    with bench.runtime({"raw": bench.raw()}) as runtime:
        stop = runtime.parts.listen(notified.release)
        assert runtime.call("mcp__raw__echo", text="a").text == "a"
        stop()  # ends the watch, so no notification can come later

    assert not notified.acquire(blocking=False)


def test_a_callback_that_fails_is_called_again(bench):
    notified = threading.Semaphore(0)

    def fail() -> None:
        notified.release()
        raise ValueError("ignored")

    with bench.runtime() as runtime:
        stop = tools.watch(lambda: runtime.parts.servers, fail)
        bench.trust(bench.write({"raw": bench.raw()}))
        runtime.parts.catalog.tools()
        assert notified.acquire(timeout=WAIT_SECONDS)
        bench.write({})
        assert notified.acquire(timeout=WAIT_SECONDS)
        stop()
