"""An append-only file with the newest rows of the trail, until they are moved to the database (ADR 0035).

A row costs one write here; in the database it would cost a transaction. Each line is a payload, which may be empty,
followed by the number and the hash of the last row so far, both of fixed width: the end of the file is the end of the
chain. A partially written line is ignored, and the next writer truncates it.
"""

import errno
import fcntl
import os
import threading
import time
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.state.directory import PATIENCE_SECONDS, Writing, open_private

_NUMBER, _HASH = 16, 64  # hexadecimal digits
_MARK = 1 + _NUMBER + _HASH + 1  # a tab, the number, the hash, a line feed


class LogLine(NamedTuple):
    """A line: its payload, and the number and hash of the last row when it was written."""

    payload: bytes
    number: int
    hash: bytes


class AppendLog:
    """The log. Hold its lock, `with log:`, to call any method except `close`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._writing = Writing(os.path.dirname(path))
        self._lock = threading.Lock()  # flock does not exclude threads that share a descriptor
        self._descriptor = -1
        self.length = 0  # in bytes, as of the last time the lock was held
        self._last: tuple[int, bytes] = (0, b"")
        self._last_mark: bytes | None = None  # the end of the last line that this process wrote

    def __enter__(self) -> "AppendLog":
        self._lock.acquire()
        try:
            while True:
                with self._writing:
                    if self._descriptor < 0:
                        self._descriptor = open_private(self._path)
                    _lock_file(self._descriptor)
                    status = os.fstat(self._descriptor)
                if status.st_nlink:
                    self.length = status.st_size
                    return self
                self._close()  # the file was deleted
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *exc: object) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._lock.release()

    @property
    def is_empty(self) -> bool:
        """Whether it contains only the end of the chain."""
        return self.length <= _MARK

    def end(self) -> tuple[int, bytes] | None:
        """Return the number and the hash of the last row; None if the log is new."""
        mark = os.pread(self._descriptor, _MARK, max(0, self.length - _MARK))
        if mark == self._last_mark:
            return self._last
        last = parse_line(mark)
        if last is None and self.length:
            last = self._truncate_partial()
        return None if last is None else last[1:]

    def data(self) -> bytes:
        """Return the bytes of all lines; `parse_line` parses one."""
        return os.pread(self._descriptor, self.length, 0)

    def lines(self) -> list[LogLine]:
        """Return all lines, without invalid ones."""
        return [line for line in map(parse_line, self.data().splitlines(keepends=True)) if line is not None]

    def add(self, payload: bytes, number: int, hash: bytes) -> None:
        """Append a line."""
        mark = b"\t%016x%-64b\n" % (number, hash.hex().encode())
        line = payload + mark
        with self._writing:
            if os.pwrite(self._descriptor, line, self.length) < len(line):
                os.ftruncate(self._descriptor, self.length)
                raise OSError(errno.ENOSPC, "")
        self.length += len(line)
        self._last, self._last_mark = (number, hash), mark

    def restart(self, number: int, hash: bytes) -> None:
        """Empty the log, after every row up to this one was stored in the database."""
        with self._writing:
            os.ftruncate(self._descriptor, 0)
        self.length = 0
        self.add(b"", number, hash)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        self.length = 0
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _truncate_partial(self) -> LogLine | None:
        """Truncate the log after its last valid line: an interrupted write left the rest."""
        position = end = 0
        last: LogLine | None = None
        for text in self.data().splitlines(keepends=True):
            position += len(text)
            line = parse_line(text)
            if line is not None:
                last, end = line, position
        with self._writing:
            os.ftruncate(self._descriptor, end)
        self.length = end
        return last


def parse_line(line: bytes) -> LogLine | None:
    """Return the parts of a line, or None if it is incomplete or invalid."""
    if line[-_MARK : -_MARK + 1] != b"\t" or line[-1:] != b"\n":
        return None
    try:
        number = int(line[1 - _MARK : _NUMBER + 1 - _MARK], 16)
        return LogLine(line[:-_MARK], number, bytes.fromhex(line[_NUMBER + 1 - _MARK : -1].decode("ascii")))
    except ValueError:
        return None


def _lock_file(descriptor: int) -> None:
    pause, deadline = 0.0001, 0.0
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            deadline = deadline or time.monotonic() + PATIENCE_SECONDS
            if time.monotonic() > deadline:
                message = f"The audit trail has been locked for {PATIENCE_SECONDS:.0f} s."
                raise ToolError("busy", message) from None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.01)
