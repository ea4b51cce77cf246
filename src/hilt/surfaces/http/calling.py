"""POST /v1/call: runs a call and returns its envelope; with stream=1, streams the output as server-sent events."""

from __future__ import annotations

import asyncio
import codecs
import json
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from hilt import wire
from hilt.active_call import ActiveCall
from hilt.call import Call, Json, Result
from hilt.call_threads import CallThreads
from hilt.errors import ToolError
from hilt.schema import BOOLEAN, STRING, Schema, array, record
from hilt.surfaces.http.attendant import HttpAttendant
from hilt.surfaces.http.problems import from_error
from hilt.surfaces.http.routes import WORKSPACE, Route
from hilt.surfaces.http.workspaces import ServedWorkspace

STARTING_MAX = 4  # short calls
STARTING_SECONDS = 0.05  # for which a call counts as starting
PAUSE_SECONDS = 0.02  # how long the event loop waits for a read-only call
SLOW_SECONDS = 0.1  # how long calls of a tool that took longer are not batched
BATCH_MAX = 32  # calls
UNSENT_MAX = 256  # chunks of output that a slow client has not read; more are skipped
SKIPPED = "[output skipped: the client reads too slowly]\n"

Offload = Callable[[Callable[[], Any]], Awaitable[Any]]

_ENVELOPE = record(
    {
        "ok": BOOLEAN,
        "result": STRING,
        "error": STRING,
        "error_code": STRING,
        "suggestion": STRING,
        "content": array({"type": "object"}),
        "classification": STRING,
        "risk": STRING,
        "meta": {"type": "object"},
        "visualization": {"type": "object"},
        "id": {},
        "request_id": {},
    },
    optional="result error error_code suggestion content classification risk meta visualization id request_id",
)
_TEXT: Schema = {"type": ["string", "null"], "minLength": 1, "maxLength": wire.MAX_FIELD}


def _request(tool: str, args: str) -> Schema:
    """Return the schema of a request whose fields for the tool and its arguments have these names."""
    return {
        "type": "object",
        "properties": {
            tool: {"type": "string", "minLength": 1},
            args: {"type": ["object", "string", "null"]},
            "id": {},
            "request_id": {},
            "session": _TEXT,
            "client": _TEXT,
            "dialect": _TEXT,
            "approval": _TEXT,
            "workspace": {"type": ["string", "null"]},
        },
        "required": [tool],
        "additionalProperties": False,
    }


ROUTE = Route(
    "POST",
    "/v1/call",
    "Call a tool; with stream=1, respond with server-sent events: output while it runs, then result",
    None,
    _ENVELOPE,
    {"stream": {"type": "integer", "enum": [0, 1], "default": 0}, **WORKSPACE},
    {"oneOf": [_request("tool", "args"), _request("name", "arguments")]},
    who="both",
)


def read_call(value: Json) -> tuple[Call, Any]:
    """Return the call in a body, and the workspace that it names."""
    folder = None
    if isinstance(value, dict) and "workspace" in value:
        value = {**value}
        folder = value.pop("workspace")
    try:
        call = wire.to_request(value)
    except wire.Refused as refused:
        raise from_error(refused.error, 400) from None
    if isinstance(call, wire.Cancel):
        advice = "Close the connection of the call."
        error = ToolError("invalid_request", "A call over HTTP cannot be cancelled by a request.", suggestion=advice)
        raise from_error(error, 400)
    return call, folder


class StartLimit:
    """Limits how many short calls start at the same time: threads that compete for the GIL slow each other down.

    A call counts until it ends, or for STARTING_SECONDS: a longer call mostly waits for something else.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._free = STARTING_MAX
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> Callable[[], None]:
        """Wait for a free slot, and return a function that releases it."""
        if self._free:
            self._free -= 1
        else:
            slot = self._loop.create_future()
            self._waiting.append(slot)
            try:
                await slot
            except asyncio.CancelledError:
                if not slot.cancelled():
                    self._release()
                raise
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                timer.cancel()
                self._release()

        timer = self._loop.call_later(STARTING_SECONDS, release)
        return release

    def _release(self) -> None:
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1


class Deliveries:
    """Passes the outcomes of calls from other threads to the event loop, in batches."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._outcomes: deque[tuple[asyncio.Future[bytes], bytes | BaseException]] = deque()
        self.is_scheduled = False  # whether the loop is going to run `deliver`

    def put(self, future: asyncio.Future[bytes], outcome: bytes | BaseException) -> None:
        """Schedule a future to be settled. Can be called on any thread."""
        self._outcomes.append((future, outcome))
        if not self.is_scheduled:
            self.is_scheduled = True
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.deliver)

    def deliver(self) -> None:
        """Settle the futures whose outcomes have arrived."""
        self.is_scheduled = False  # first: outcomes that arrive from now on need another run
        while self._outcomes:
            future, outcome = self._outcomes.popleft()
            if future.done():
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


class Read(NamedTuple):
    """A read-only call, and the two ways to run it; neither raises."""

    tool: str
    run: Callable[[], None]  # returns when the call has ended
    start: Callable[[], None]  # on a thread of the runtime


class ReadBatches:
    """Runs read-only calls in sequence on one thread while the event loop waits.

    Threads that compete for the GIL slow each other down. The loop stops waiting when a call is slow, and does not
    batch calls of that tool for SLOW_SECONDS.
    """

    def __init__(self, threads: CallThreads, deliveries: Deliveries) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = threads
        self._deliveries = deliveries
        self._waiting: deque[Read] = deque()
        self._slow_until: dict[str, float] = {}

    def takes(self, tool: str) -> bool:
        """Whether calls of this tool can be batched: none was slow recently."""
        return self._slow_until.get(tool, 0.0) < self._loop.time()

    def add(self, read: Read) -> None:
        """Add a call to the next batch."""
        self._waiting.append(read)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._run_batch)

    def _run_batch(self) -> None:
        batch = _Batch(self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_MAX)))
        self._deliveries.is_scheduled = True
        try:
            self._threads.put(batch.run)
            has_ended = batch.wait()
        except RuntimeError:  # too many threads
            has_ended = False
        if not has_ended:
            self._slow_until[batch.tool] = self._loop.time() + SLOW_SECONDS
            for read in batch.take_back():
                read.start()
        if self._waiting:
            self._loop.call_soon(self._run_batch)
        self._deliveries.deliver()


class _Batch:
    """Calls that one thread runs in sequence."""

    def __init__(self, reads: Iterable[Read]) -> None:
        self._reads = deque(reads)
        self._ended = threading.Lock()
        self._ended.acquire()
        self.tool = ""  # of the current call

    def run(self) -> None:
        """Run the calls that were not taken back."""
        for read in iter(self._next, None):
            self.tool = read.tool
            read.run()
        self._ended.release()

    def _next(self) -> Read | None:
        try:
            return self._reads.popleft()
        except IndexError:
            return None

    def wait(self) -> bool:
        """Wait until all calls have ended; return False if one takes longer than PAUSE_SECONDS."""
        remaining = len(self._reads) + 1
        while not self._ended.acquire(timeout=PAUSE_SECONDS):
            if len(self._reads) == remaining:
                return False
            remaining = len(self._reads)
        return True

    def take_back(self) -> list[Read]:
        """Remove and return the calls that have not started."""
        return list(iter(self._next, None))


class HttpCall:
    """One call, driven from the event loop."""

    def __init__(
        self, served: ServedWorkspace, call: Call, quick: Offload, slow: Offload, deliveries: Deliveries
    ) -> None:
        """`quick` and `slow` run work on other threads."""
        self._served = served
        self._call = call
        self._quick = quick
        self._slow = slow
        self._deliveries = deliveries
        self._ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._running: ActiveCall | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Cancel the call, unless it has ended."""
        self._is_cancelled = True
        if self._running is not None and not self._ended.done():
            self._running.cancel()

    async def envelope(self, attendant: HttpAttendant | None = None) -> bytes:
        """Run the call and return its envelope."""
        if await self._quick(lambda: self._start(attendant)):
            return await self._ended
        envelope: bytes = await self._slow(lambda: wire.encode_result(self._served.request(self._call)))
        return envelope

    async def short_envelope(self, starting: StartLimit) -> bytes:
        """Run a call that can be started on the event loop, and return its envelope."""
        release = await starting.acquire()
        try:
            self._submit(None)
            return await self._ended
        finally:
            release()

    async def read_envelope(self, reads: ReadBatches) -> bytes:
        """Run a read-only call and return its envelope."""
        reads.add(Read(self._call.tool, partial(self._read, here=lambda: None), self._read))
        return await self._ended

    def _read(self, here: Callable[[], None] | None = None) -> None:
        try:
            self._submit(None, here)
        except BaseException as error:  # noqa: BLE001 -- raised again where the call is awaited
            self._deliveries.put(self._ended, error)

    def _start(self, attendant: HttpAttendant | None) -> bool:
        """Start the call in this process; return False if it must run in the resident process."""
        if self._served.is_for_resident(self._call):
            return False
        self._submit(attendant)
        return True

    def _submit(self, attendant: HttpAttendant | None, here: Callable[[], None] | None = None) -> None:
        self._served.runtime.submit(self._call, self._done, here=here, began=self._began, attendant=attendant)

    def _began(self, running: ActiveCall) -> None:
        self._running = running
        if self._is_cancelled:
            running.cancel()

    def _done(self, result: Result) -> None:
        self._deliveries.put(self._ended, wire.encode_result(result))


async def stream(call: HttpCall) -> AsyncGenerator[bytes, None]:
    """Yield the output of a call as server-sent events while it runs, and its envelope as the last one."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[str | None] = asyncio.Queue()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    skipped = False

    def put(data: bytes) -> None:
        nonlocal skipped
        if chunks.qsize() >= UNSENT_MAX:
            skipped = True
            return
        text = decoder.decode(data)
        if skipped:
            text, skipped = SKIPPED + text, False
        if text:
            chunks.put_nowait(text)

    def receive(data: bytes) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(put, data)

    result = asyncio.ensure_future(call.envelope(HttpAttendant(on_output=receive)))
    result.add_done_callback(lambda _: chunks.put_nowait(None))
    try:
        while (text := await chunks.get()) is not None:
            yield _event("output", json.dumps({"stream": "stdout", "text": text}))
        yield _event("result", result.result().decode().rstrip("\n"))
    finally:
        result.cancel()


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()
