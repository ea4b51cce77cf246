"""A server whose start is cancelled is stopped."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from hilt.servers.configured import Server
from hilt.servers.transport import FloodGate, _Starting, open_transport
from hilt.surroundings import Surroundings
from tests.marks import Mark, wait_until


class Running:
    """A process that records that it was stopped."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def end(self) -> None:
        """Record the stop."""
        self.ended.set()


@pytest.mark.parametrize("first", ["started", "abandoned"])
def test_a_cancelled_start_stops_its_process(first):
    starting, running = _Starting(), Running()

    if first == "abandoned":
        starting.abandon()
    starting.run(lambda: running)  # type: ignore[arg-type, return-value]
    if first == "started":
        assert not running.ended.is_set()
        starting.abandon()

    assert running.ended.wait(30)


def test_a_start_that_is_not_cancelled_continues():
    running = Running()

    _Starting().run(lambda: running)  # type: ignore[arg-type, return-value]

    assert not running.ended.is_set()


def test_a_server_is_stopped_even_if_its_loop_is_closed_first(tmp_path):
    mark = Mark()
    server = Server("raw", "", "personal", "stdio", "", command="sh", args=("-c", f": {mark.name}; exec cat"))

    async def hold(ready: asyncio.Event) -> None:
        where = {"root": str(tmp_path), "surroundings": Surroundings(mark.env), "log": str(tmp_path / "log")}
        async with open_transport(server, FloodGate(), **where):  # type: ignore[arg-type]
            ready.set()
            await asyncio.Event().wait()

    async def main() -> None:
        ready = asyncio.Event()
        task = asyncio.create_task(hold(ready))
        await ready.wait()
        while not task.done():
            task.cancel()  # once per await, so that every one of them is cancelled
            await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    wait_until(lambda: not any(thread.name == "hilt-server-end" for thread in threading.enumerate()))
    gc.collect()  # an unclosed socket would be reported here
    assert not mark.alive()
