from __future__ import annotations

import threading

import pytest

from hilt.servers import polling
from hilt.servers.definitions import named
from hilt.servers.pins import Pins
from tests.servers.running import WAIT_SECONDS, Bench


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    monkeypatch.setattr(polling, "POLL_SECONDS", 0.02)
    return Bench(str(tmp_path))


def test_servers_that_are_added_later_are_reported(bench):
    told = threading.Semaphore(0)
    with bench.runtime() as runtime:
        stop = runtime.listen(told.release)
        path = bench.write({"raw": bench.raw()})
        bench.trust(path)
        assert "mcp__raw__echo" in [one.name for one in runtime.catalog.tools()]
        assert told.acquire(timeout=WAIT_SECONDS)

        bench.write({})
        assert told.acquire(timeout=WAIT_SECONDS)
        assert not [one.name for one in runtime.catalog.tools() if one.name.startswith("mcp__")]
        stop()


def test_definitions_accepted_elsewhere_are_reported(bench):
    told = threading.Semaphore(0)
    with bench.runtime({"raw": bench.raw()}) as runtime:
        found = runtime.servers()
        assert found is not None
        runtime.catalog.tools()
        stop = runtime.listen(told.release)
        (state,) = found.states()
        new = {"name": "extra", "inputSchema": {"type": "object"}}
        Pins(bench.state, state.server).accept(named("raw", [new], {})[0])
        assert told.acquire(timeout=WAIT_SECONDS)
        assert found.names() == ["mcp__raw__extra"]
        stop()


def test_a_server_that_starts_with_accepted_definitions_is_no_change(bench):
    told = threading.Semaphore(0)
    with bench.runtime({"raw": bench.raw()}) as runtime:
        runtime.catalog.tools()
    with bench.runtime({"raw": bench.raw()}) as runtime:
        stop = runtime.listen(told.release)
        assert runtime.call("mcp__raw__echo", text="a").text == "a"
        stop()  # ends the watch, so nothing can come later

    assert not told.acquire(blocking=False)


def test_a_callback_that_fails_is_called_again(bench):
    told = threading.Semaphore(0)

    def fail() -> None:
        told.release()
        raise ValueError("nobody hears this")

    with bench.runtime() as runtime:
        stop = polling.watch(runtime.servers, fail)
        bench.trust(bench.write({"raw": bench.raw()}))
        runtime.catalog.tools()
        assert told.acquire(timeout=WAIT_SECONDS)
        bench.write({})
        assert told.acquire(timeout=WAIT_SECONDS)
        stop()
