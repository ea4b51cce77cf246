"""Calls over HTTP from the event loop's side: reads run together, and a slow one holds nothing up."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from hilt.running.threads import CallThreads
from hilt.surfaces.http.calling import BATCH_MAX, Deliveries, Reads


def test_reads_that_arrive_together_run_in_order_on_one_thread():
    async def work() -> list[tuple[int, int]]:
        deliveries, ran = Deliveries(), []
        reads = Reads(CallThreads(), deliveries)
        ended = [asyncio.get_running_loop().create_future() for _ in range(BATCH_MAX)]

        def run(number: int) -> None:
            ran.append((number, threading.get_ident()))
            deliveries.put(ended[number], b"")

        for number in range(BATCH_MAX):
            reads.add("read_file", partial(run, number))
        await asyncio.gather(*ended)
        return ran

    ran = asyncio.run(work())

    assert [number for number, _ in ran] == list(range(BATCH_MAX))
    assert len({thread for _, thread in ran} - {threading.get_ident()}) == 1


def test_a_slow_read_holds_up_neither_the_event_loop_nor_other_reads():
    async def work() -> tuple[bool, bytes, bytes]:
        deliveries, released = Deliveries(), threading.Event()
        reads = Reads(CallThreads(), deliveries)
        slow, quick = (asyncio.get_running_loop().create_future() for _ in range(2))

        def search() -> None:
            released.wait()
            deliveries.put(slow, b"slow")

        reads.add("search_files", search)
        reads.add("read_file", lambda: deliveries.put(quick, b"quick"))
        answer = await quick
        is_taken = reads.takes("search_files")
        released.set()
        return is_taken, answer, await slow

    assert asyncio.run(work()) == (False, b"quick", b"slow")


def test_an_exception_reaches_the_caller():
    async def work() -> None:
        deliveries = Deliveries()
        ended = asyncio.get_running_loop().create_future()
        Reads(CallThreads(), deliveries).add("read_file", lambda: deliveries.put(ended, OSError("broken")))
        await ended

    with pytest.raises(OSError, match="broken"):
        asyncio.run(work())
