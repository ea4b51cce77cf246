"""Steps: the parts of a conversation whose outcome is stored before the next part begins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from hilt.agents.calls import MadeCall
from hilt.agents.transcripts import Record
from hilt.call import Result


class Steps(Protocol):
    """Where the steps of a conversation are stored, besides its transcript."""

    async def run(self, name: str, work: Callable[[], Awaitable[Record]]) -> Record:
        """Do the work of a step and return its record once it is stored; raise if another process has taken over."""


# returns the result of a call whose process was killed; None to run it again
Settle = Callable[[MadeCall], Result | None]


async def run_calls(
    steps: Steps,
    calls: Sequence[MadeCall],
    run: Callable[[Callable[[MadeCall, Record], None]], Awaitable[None]],
    on_stored: Callable[[Record], None],
) -> None:
    """Run the calls of a turn, each as a step; `on_stored` receives each record once it is stored.

    `run` begins when every step has begun, so that the calls start in their order, and passes on each record.
    """
    loop = asyncio.get_running_loop()
    records: dict[int, asyncio.Future[Record]] = {call.place: loop.create_future() for call in calls}
    all_begun = asyncio.Event()
    waiting = len(calls)

    async def step(call: MadeCall) -> None:
        async def work() -> Record:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                all_begun.set()
            return await records[call.place]

        on_stored(await steps.run(f"{call.tool} {call.id}", work))

    begun = asyncio.ensure_future(all_begun.wait())
    tasks = [asyncio.ensure_future(step(call)) for call in calls]
    try:
        await asyncio.wait([begun, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if begun.done():
            await run(lambda call, record: records[call.place].set_result(record))
        await asyncio.gather(*tasks)
    finally:
        for task in (begun, *tasks):
            task.cancel()
