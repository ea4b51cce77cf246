"""A session: JSON lines both ways until the end of input."""

from __future__ import annotations

import sys
import threading
from typing import Any

from tongs import wire
from tongs.call import Call, Result
from tongs.errors import ToolError
from tongs.runtime import Running, Runtime
from tongs.surfaces.oneshot import Writer
from tongs.surfaces.opening import open_runtime

TIDY_SECONDS = 0.5
PENDING_MAX = 4096  # calls under way; beyond, reading waits


def main(options: dict[str, str]) -> int:
    """Serve standard input and output."""
    try:
        runtime = open_runtime(options)
    except ToolError as error:
        sys.stdout.buffer.write(wire.encode_result(Result(error=error)))
        return 1
    with runtime:
        serve(runtime, sys.stdin.buffer, sys.stdout.buffer)
        runtime.tidy(TIDY_SECONDS)
    return 0


def serve(runtime: Runtime, reader: wire.Reader, writer: Writer) -> None:
    """Answer requests as they end, until the input does and everything was answered."""
    runtime.watch_deadlines()
    session = _Session(runtime, writer)
    for line in wire.read_lines(reader):
        if isinstance(line, ToolError):
            session.send(Result(error=line))
        elif line.strip():
            session.take(line)
    session.drain()


class _Session:
    def __init__(self, runtime: Runtime, writer: Writer) -> None:
        self._runtime = runtime
        self._writer = writer
        self._lock = threading.Lock()
        self._running: dict[int, Running] = {}
        self._by_id: dict[Any, Running] = {}
        self._room = threading.Semaphore(PENDING_MAX)
        self._idle = threading.Condition(self._lock)
        self._count = 0

    def take(self, line: bytes) -> None:
        """Start the call of one line, or answer what is wrong with it."""
        try:
            call = wire.decode_request(line)
        except wire.Refused as refused:
            self.send(refused.result)
            return
        if isinstance(call, wire.Cancel):
            self._cancel(call)
        else:
            self._start(call)

    def send(self, result: Result) -> None:
        """Write one reply."""
        data = wire.encode_result(result)
        with self._lock:
            try:
                self._writer.write(data)
                self._writer.flush()
            except (BrokenPipeError, ValueError):
                pass  # nobody reads any more; the end of input follows

    def drain(self) -> None:
        """Wait until everything that was started has been answered."""
        with self._idle:
            while self._count:
                self._idle.wait()

    def _start(self, call: Call) -> None:
        self._room.acquire()
        key = _key(call.id)
        with self._lock:
            self._count += 1

        def done(result: Result) -> None:
            self.send(result)
            self._room.release()
            with self._idle:
                self._by_id.pop(key, None)
                self._count -= 1
                if not self._count:
                    self._idle.notify_all()

        running = self._runtime.submit(call, done)
        if key is not None:
            with self._lock:
                if not running.settled:
                    self._by_id[key] = running

    def _cancel(self, request: wire.Cancel) -> None:
        with self._lock:
            running = self._by_id.get(_key(request.id))
        if running is not None:
            running.cancel()


def _key(id: Any) -> Any:
    """Return something that can be looked up for any JSON id; None when there is none."""
    if id is None or isinstance(id, str):
        return id
    import json

    # apart from texts, and true apart from 1
    return (json.dumps(id, sort_keys=True),)
