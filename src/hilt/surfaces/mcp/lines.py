"""Lines from and to an MCP client. Many threads write, and none waits for the client to read."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from hilt import wire
from hilt.errors import ToolError
from hilt.surfaces.mcp.pipe import is_pipe

REQUESTS_MAX = 512  # active requests of a client on a connection; at this limit, further ones wait
LINES_MAX = 256  # lines read and not yet handled; at this limit, reading pauses
BUSY = -32000
IN_USE = "a request with this id is still active"
UNREAD_BYTES = 16 << 20  # unread by the client; beyond this, no further requests are handled
_CHUNK_BYTES = 1 << 20

_COMPACT = wire.json_encoder()


class LineOutput:
    """The output to one client; data that it does not read at once is buffered, and written by a thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        if is_pipe(descriptor):  # other files are written at once
            os.set_blocking(descriptor, False)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._unsent = bytearray()
        self._is_closed = False
        self._writer: threading.Thread | None = None
        self.has_read: Callable[[], None] = lambda: None  # called when there is room again
        self.lost: Callable[[], None] = lambda: None  # called when the client has closed its end

    @property
    def is_closed(self) -> bool:
        """Whether the client has closed its end."""
        return self._is_closed

    @property
    def has_room(self) -> bool:
        """Whether the client keeps up with reading."""
        return len(self._unsent) <= UNREAD_BYTES

    @property
    def is_read(self) -> bool:
        """Whether the client has read everything."""
        return not self._unsent

    def send(self, message: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Write a message."""
        self.write(wire.as_line(_COMPACT(message)))

    def write(self, data: bytes) -> None:
        """Write lines, after those in the buffer."""
        with self._lock:
            if self._is_closed:
                return
            if not self._unsent:
                data = data[self._write_some(data) :]
            if data and not self._is_closed:
                self._unsent += data
                if self._writer is None:
                    self._writer = threading.Thread(target=self._write_rest, name="hilt-output", daemon=True)
                    self._writer.start()
            is_lost = self.is_closed
            self._changed.notify_all()
        if is_lost:
            self.lost()

    def _write_some(self, data: bytes | bytearray) -> int:
        """Write as many bytes as possible, and return the number; close if the client has closed its end."""
        written = 0
        with memoryview(data) as view:
            try:
                while written < len(view):
                    written += os.write(self._descriptor, view[written : written + _CHUNK_BYTES])
            except BlockingIOError:
                pass
            except OSError:
                self._is_closed = True
        return written

    def _write_rest(self) -> None:
        ready = select.poll()
        ready.register(self._descriptor, select.POLLOUT)
        while True:
            with self._lock:
                while not self._unsent and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    break
            ready.poll(1000)
            with self._lock:
                if self.is_closed:
                    break
                was_full = not self.has_room
                del self._unsent[: self._write_some(self._unsent)]
                is_free = was_full and self.has_room
                self._changed.notify_all()
            if is_free:
                self.has_read()
        self.lost()

    def close(self, seconds: float) -> None:
        """Wait up to this long until everything is read, and stop writing."""
        deadline = time.monotonic() + seconds
        with self._lock:
            while self._unsent and not self._is_closed and (remaining := deadline - time.monotonic()) > 0:
                self._changed.wait(remaining)
            self._is_closed = True
            self._changed.notify_all()


class LineInput:
    """Splits bytes into lines; the bytes of a line that is too long are counted and dropped."""

    def __init__(self) -> None:
        self._part = bytearray()
        self._skipped = 0

    def split(self, data: bytes) -> list[bytes | ToolError]:
        """Return the lines that these bytes complete."""
        *lines, rest = data.split(b"\n")
        complete = [self._finish(line) for line in lines]
        self._keep(rest)
        return complete

    def rest(self) -> list[bytes | ToolError]:
        """Return the last line if it has no newline."""
        return [self._finish(b"")] if self._part.strip() else []

    def _keep(self, data: bytes) -> None:
        if self._skipped or len(self._part) + len(data) > wire.MAX_REQUEST_BYTES + 1:
            self._skipped += len(self._part) + len(data)
            self._part.clear()
        else:
            self._part += data

    def _finish(self, data: bytes) -> bytes | ToolError:
        self._keep(data)
        skipped, self._skipped = self._skipped, 0
        line = bytes(self._part)
        self._part.clear()
        return wire.too_large(skipped) if skipped else line
