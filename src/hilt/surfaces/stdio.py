"""A session over standard input and output: JSON lines until the end of input."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _thread
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from hilt import wire
from hilt.active_call import ActiveCall
from hilt.call import Call, Result
from hilt.errors import ToolError
from hilt.runtime import Runtime
from hilt.surfaces.oneshot import ENDING_SECONDS, die
from hilt.surfaces.opening import open_runtime

if TYPE_CHECKING:
    from hilt.surfaces.cli.parsing import Parser

TIDY_SECONDS = 0.5
MOMENT_SECONDS = 0.005
QUIET_LOOKS = 20  # checks without a request before the watcher sleeps until the next one
AGAIN_SECONDS = 1  # a signal repeated within this time is ignored
PENDING_MAX = 4096  # active calls; at this limit, reading pauses


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = lambda options, arguments: main(options)
    parser.details = """Each input line is a JSON request; each reply is a line with the id of its request. Calls that
touch different files run concurrently. A line with "cancel" cancels the call with that id."""
    example = """printf '%s\\n' '{"tool": "list_dir", "id": 1}' | hilt stdio"""
    parser.examples = [(example, "Answer one request, and exit")]


def main(options: dict[str, str]) -> int:
    """Serve standard input and output."""
    try:
        runtime = open_runtime(options)
    except ToolError as error:
        sys.stdout.buffer.write(wire.encode_result(Result(error=error)))
        return 1
    with runtime, _ended_by_signals(runtime) as received:
        runtime.fire("session_start")
        serve(runtime, sys.stdin.buffer, sys.stdout.buffer)
        if not received:
            runtime.fire("session_end")
            runtime.tidy(TIDY_SECONDS)
    return 0


@contextmanager
def _ended_by_signals(runtime: Runtime) -> Iterator[list[int]]:
    """Shut the session down on a signal, and kill it on a later one; yield the list of received signals.

    The shutdown runs on another thread, because the thread that signals interrupt may be in the middle of a call. A
    signal right after the first is a duplicate, forwarded by a parent process that received it too.
    """
    received: list[int] = []
    since = 0.0
    ended = threading.Event()
    reading = threading.get_ident()

    def finish(number: int) -> None:
        try:
            runtime.give_up(ENDING_SECONDS)
            runtime.close()
        finally:
            ended.set()
            signal.pthread_kill(reading, number)

    def end(number: int, _: object) -> None:
        nonlocal since
        if not received:
            received.append(number)
            since = time.monotonic()
            _thread.start_new_thread(finish, (number,))
        elif ended.is_set() or time.monotonic() - since > AGAIN_SECONDS:
            die(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield received
    finally:
        if received:
            ended.wait()
            die(received[0])


def serve(runtime: Runtime, reader: BinaryIO, writer: BinaryIO) -> None:
    """Answer each request when its call ends; return after the end of input, once every request is answered."""
    runtime.watch_deadlines()
    session = _StdioSession(runtime, writer)
    _Readers(session, reader).run()
    session.drain()


class _Readers:
    """One thread reads requests and runs each call itself, which saves a thread switch (ADR 0013).

    A slow call must not delay the next request: after MOMENT_SECONDS another thread takes over reading, and the first
    one ends with its call.
    """

    def __init__(self, session: _StdioSession, reader: BinaryIO) -> None:
        self._session = session
        self._lines = wire.read_lines(reader)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._awake = threading.Event()
        self._reading = 0  # the number of the thread that reads
        self._taken = 0  # requests so far
        self._busy = False

    def run(self) -> None:
        """Read until the end of input."""
        threading.Thread(target=self._watch, name="hilt-reading", daemon=True).start()
        self._read(0)
        self._ended.wait()

    def _read(self, number: int) -> None:
        try:
            for line in self._lines:
                if isinstance(line, ToolError):
                    self._session.send(Result(error=line))
                elif line.strip():
                    self._session.take(line, self._run_call)
                with self._lock:
                    if self._reading != number:
                        return
                    self._busy = False
                    self._taken += 1
        except BaseException:
            self._ended.set()
            raise
        self._ended.set()

    def _run_call(self) -> None:
        """Allow another thread to take over reading; called once the call has its place in the order."""
        self._busy = True
        if not self._awake.is_set():
            self._awake.set()

    def _watch(self) -> None:
        seen, quiet = -1, 0
        while not self._ended.is_set():
            if quiet > QUIET_LOOKS:
                self._awake.clear()
                if not self._busy:
                    self._awake.wait()
                quiet = 0
            self._ended.wait(MOMENT_SECONDS)
            with self._lock:
                quiet = 0 if self._busy or self._taken != seen else quiet + 1
                if self._busy and self._taken == seen:
                    self._reading += 1
                    self._taken += 1
                    self._busy = False
                    threading.Thread(target=self._read, args=(self._reading,), name="hilt-call", daemon=True).start()
                seen = self._taken


class _StdioSession:
    def __init__(self, runtime: Runtime, writer: BinaryIO) -> None:
        self._runtime = runtime
        self._writer = writer
        self._lock = threading.Lock()
        self._by_id: dict[Any, ActiveCall] = {}
        self._idle = threading.Condition(self._lock)
        self._count = 0
        self._is_waited_for = False  # whether a thread has waited for calls to end: in most sessions none does

    def take(self, line: bytes, here: Callable[[], None]) -> None:
        """Start the call of one line, or reply with its error; `here` is called before it runs on this thread."""
        try:
            call = wire.decode_request(line)
        except wire.Refused as refused:
            self.send(refused.result)
            return
        if isinstance(call, wire.Cancel):
            self._cancel(call)
        else:
            self._start(call, here)

    def send(self, result: Result) -> None:
        """Write one reply."""
        data = wire.encode_result(result)
        with self._lock:
            self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            self._writer.flush()
        except (OSError, ValueError):
            pass  # the client has stopped reading; the end of input follows

    def drain(self) -> None:
        """Wait until every call has been answered."""
        with self._idle:
            self._is_waited_for = True
            while self._count:
                self._idle.wait()

    def _start(self, call: Call, here: Callable[[], None]) -> None:
        key = _key(call.request_id if call.id is None else call.id)
        with self._lock:
            while self._count >= PENDING_MAX:
                self._is_waited_for = True
                self._idle.wait()
            self._count += 1

        def done(result: Result) -> None:
            data = wire.encode_result(result)
            with self._lock:
                self._write(data)
                self._by_id.pop(key, None)
                self._count -= 1
                if self._is_waited_for and self._count in (0, PENDING_MAX - 1):
                    self._idle.notify_all()

        def began(running: ActiveCall) -> None:
            with self._lock:
                self._by_id[key] = running

        self._runtime.submit(call, done, here=here, began=None if key is None else began)

    def _cancel(self, request: wire.Cancel) -> None:
        with self._lock:
            running = self._by_id.get(_key(request.target))
        if running is not None:
            running.cancel()
        if request.id is None and request.request_id is None:
            return
        ids = {"id": request.id, "request_id": request.request_id}
        if running is not None:
            self.send(Result("cancelled", **ids))
        else:
            message = f"No call with the id {request.target!r} is running."
            self.send(Result(error=ToolError("not_found", message, suggestion="It may have ended already."), **ids))


def _key(id: Any) -> Any:
    """Return a hashable key for any JSON id; None without an id."""
    if id is None or isinstance(id, str):
        return id
    if isinstance(id, int | float):
        return type(id), id  # distinguishes true from 1
    import json

    return (json.dumps(id, sort_keys=True),)
