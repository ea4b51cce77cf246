"""Calls over HTTP: reads run in batches, and a slow one blocks nothing."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from hilt.call_threads import CallThreads
from hilt.surfaces.http import calling
from hilt.surfaces.http.calling import BATCH_MAX, Deliveries, Read, ReadBatches


def never() -> None:
    raise AssertionError("the other function must be called")


def test_reads_that_arrive_together_run_in_order_on_one_thread(monkeypatch):
    monkeypatch.setattr(calling, "PAUSE_SECONDS", 60)

    async def work() -> list[tuple[int, int]]:
        deliveries, ran = Deliveries(), []
        reads = ReadBatches(CallThreads(), deliveries)
        ended = [asyncio.get_running_loop().create_future() for _ in range(BATCH_MAX)]

        def run(number: int) -> None:
            ran.append((number, threading.get_ident()))
            deliveries.put(ended[number], b"")

        for number in range(BATCH_MAX):
            reads.add(Read("read_file", partial(run, number), never))
        await asyncio.gather(*ended)
        return ran

    ran = asyncio.run(work())

    assert [number for number, _ in ran] == list(range(BATCH_MAX))
    assert len({thread for _, thread in ran} - {threading.get_ident()}) == 1


def test_a_slow_read_blocks_neither_the_event_loop_nor_other_reads():
    async def work() -> list[bytes]:
        deliveries, released = Deliveries(), threading.Event()
        reads = ReadBatches(CallThreads(), deliveries)
        slow, quick = (asyncio.get_running_loop().create_future() for _ in range(2))

        def search() -> None:
            released.wait()
            deliveries.put(slow, b"slow")

        def read() -> None:
            deliveries.put(quick, b"quick")

        reads.add(Read("search_files", search, threading.Thread(target=search).start))
        reads.add(Read("read_file", read, read))
        answers = [await quick]
        released.set()
        return [*answers, await slow]

    assert asyncio.run(work()) == [b"quick", b"slow"]


def test_reads_are_answered_if_no_thread_can_be_started():
    async def work() -> bytes:
        deliveries = Deliveries()
        reads = ReadBatches(CallThreads(), deliveries)
        ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        default_size = threading.stack_size(1 << 44)  # more than any system has
        try:
            reads.add(Read("read_file", never, partial(deliveries.put, ended, b"started")))
            async with asyncio.timeout(60):
                return await ended
        finally:
            threading.stack_size(default_size)

    assert asyncio.run(work()) == b"started"
