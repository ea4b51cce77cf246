"""The event stream: every event of every process, in order, to any number of WebSockets.

Each client has its own position and receives the events after it, from memory or from the store. A slow client falls
behind without delaying others; a client that falls too far behind receives `reset`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

from hilt.desk import approvals
from hilt.desk.activity import BATCH, EventRow, EventWatch

RECENT_MAX = 4_000  # events in memory
RECENT_CHARACTERS = 8 << 20
BEHIND_MAX = 5_000  # events by which a client may fall behind once it has caught up
HELLO_SECONDS = 5.0
HELLO_CHARACTERS = 4_096
GRACE_SECONDS = 3.0  # for which a console that reloads still counts as open

UNKNOWN_TOKEN = 4401

Offload = Callable[[Callable[[], Any]], Awaitable[Any]]
Message = MutableMapping[str, Any]


class Feed:
    """Keeps the newest events in memory, for the clients of the event loop."""

    def __init__(self, state: str, workspaces: dict[str, str], *, days: int, megabytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._watch = EventWatch(state, workspaces, self._receive, days=days, megabytes=megabytes)
        self._recent: deque[EventRow] = deque()
        self._size = 0
        self.last = self._watch.first
        self._news: asyncio.Future[None] = self._loop.create_future()
        self.newest, self.stored = self._watch.newest, self._watch.stored
        self._watch.start()

    def close(self) -> None:
        """Stop reading."""
        self._watch.close()

    def _receive(self, rows: list[EventRow]) -> None:
        self._loop.call_soon_threadsafe(self._take, rows)

    def _take(self, rows: list[EventRow]) -> None:
        if rows[0].seq != self.last + 1 or rows[-1].seq - rows[0].seq >= len(rows):
            # some events were removed before they were read: clients must reload
            self._recent.clear()
            self._size = 0
            rows = rows[-1:]
        self._recent.extend(rows)
        self._size += sum(len(row.text) for row in rows)
        while len(self._recent) > RECENT_MAX or (self._size > RECENT_CHARACTERS and len(self._recent) > 1):
            self._size -= len(self._recent.popleft().text)
        self.last = rows[-1].seq
        news, self._news = self._news, self._loop.create_future()
        news.set_result(None)

    async def wait(self) -> None:
        """Wait for the next event."""
        await asyncio.shield(self._news)

    def recent(self, seq: int) -> list[EventRow] | None:
        """Return up to BATCH events after a number, from memory; None if the store must be read."""
        if not self._recent or self._recent[0].seq > seq + 1:
            return None
        start = seq + 1 - self._recent[0].seq
        return [self._recent[index] for index in range(start, min(len(self._recent), start + BATCH))]


class Attendance:
    """Announces that a user is available to answer approvals while at least one console is open."""

    def __init__(self, state: str, offload: Offload) -> None:
        self._state = state
        self._offload = offload
        self._count = 0
        self._lock = asyncio.Lock()
        self._attending: AbstractContextManager[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def enter(self) -> None:
        """Add a console; return once every process can see that a user is available."""
        self._count += 1
        await self._apply()

    def leave(self) -> None:
        """Remove a console, after a grace period in which it may reconnect."""
        task = asyncio.get_running_loop().create_task(self._leave())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """Remove all consoles at once."""
        self._count = 0
        for task in self._leaving:
            task.cancel()
        await self._apply()

    async def _leave(self) -> None:
        await asyncio.sleep(GRACE_SECONDS)
        self._count -= 1
        await self._apply()

    async def _apply(self) -> None:
        async with self._lock:
            attending = self._attending
            if self._count > 0 and attending is None:
                attending = approvals.attend(self._state)
                await self._offload(attending.__enter__)
                self._attending = attending
            elif self._count <= 0 and attending is not None:
                self._attending = None
                await self._offload(lambda: attending.__exit__(None, None, None))


class EventSocket:
    """One WebSocket, from its acceptance to its end."""

    def __init__(
        self,
        feed: Feed,
        attendance: Attendance,
        offload: Offload,
        token: bytes,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        self._feed = feed
        self._attendance = attendance
        self._offload = offload
        self._token = token
        self._receive = receive
        self._send = send

    async def serve(self, after: int | None, recent: int, authenticated: Callable[[], None]) -> None:
        """Accept the connection, check its first message, and send events until it ends.

        Without `after`, start with at most `recent` older events. `authenticated` is called once the client has sent
        a valid token.
        """
        if (await self._receive())["type"] != "websocket.connect":
            return
        # before accepting, so that the client misses no event once it is connected
        newest: int = await self._offload(self._feed.newest)
        await self._send({"type": "websocket.accept"})
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                is_approver = _read_hello(await self._receive(), self._token)
        except TimeoutError:
            is_approver = None
        if is_approver is None:
            await self._send({"type": "websocket.close", "code": UNKNOWN_TOKEN, "reason": "invalid token"})
            return
        authenticated()
        if is_approver:
            await self._attendance.enter()
        reading = asyncio.create_task(self._read())
        writing = asyncio.create_task(self._write(newest, after, recent))
        try:
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                with suppress(Exception):  # it may already be closed
                    await self._send({"type": "websocket.close", "code": 1013, "reason": "the client reads too slowly"})
        finally:
            if is_approver:
                self._attendance.leave()
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    async def _read(self) -> None:
        """Discard messages from the client until it disconnects."""
        while (await self._receive())["type"] != "websocket.disconnect":
            pass

    async def _write(self, newest: int, after: int | None, recent: int) -> None:
        """Send the events after `after`, by default after the newest event at the time of the connection."""
        feed, position = self._feed, newest if after is None else after
        if position > newest:  # the number is from another store
            position = await self._reset(newest)
        if after is None and recent:
            await self._send_recent(newest - recent, newest)
        has_caught_up = after is None
        while True:
            if position >= feed.last:
                has_caught_up = True
                await feed.wait()
                continue
            if has_caught_up and feed.last - position > BEHIND_MAX:
                position = await self._reset(feed.last)
                continue
            rows = feed.recent(position)
            if rows is None:
                rows = await self._offload(partial(feed.stored, position))
                # events that were removed cannot be sent
                if not rows or rows[0].seq != position + 1 or rows[-1].seq - position != len(rows):
                    position = await self._reset(feed.last)
                    continue
            for row in rows:
                await self._text(row.text)
                position = row.seq

    async def _send_recent(self, position: int, newest: int) -> None:
        """Send the events between two numbers that are still stored."""
        while position < newest:
            rows = await self._offload(partial(self._feed.stored, position))
            if not rows:
                return
            for row in rows:
                if row.seq <= newest:
                    await self._text(row.text)
            position = rows[-1].seq

    async def _reset(self, last: int) -> int:
        """Tell the client to reload, and return the number after which the stream continues."""
        await self._text(json.dumps({"type": "reset", "seq": last}))
        return last

    async def _text(self, text: str) -> None:
        await self._send({"type": "websocket.send", "text": text})


def _read_hello(message: Message, token: bytes) -> bool | None:
    """Return whether an authenticated client answers approvals; None if the message or its token is invalid."""
    text = message.get("text")
    if message["type"] != "websocket.receive" or not isinstance(text, str) or len(text) > HELLO_CHARACTERS:
        return None
    try:
        hello = json.loads(text)
    except (ValueError, RecursionError):
        return None
    sent_token = hello.get("token") if isinstance(hello, dict) else None
    if not isinstance(sent_token, str) or not hmac.compare_digest(sent_token.encode("utf-8", "surrogatepass"), token):
        return None
    return hello.get("approver") is True
