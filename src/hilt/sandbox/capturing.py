"""Runs a program to its end: feeds it, captures its output, and ends it at its limits."""

from __future__ import annotations

import errno
import os
import select
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from io import FileIO
from math import inf
from time import monotonic
from typing import NamedTuple, Self

from hilt.errors import ToolError
from hilt.sandbox.backend import Denial, Launch, Report, no_denial
from hilt.sandbox.spawning import (
    DEATH_SECONDS,
    DEFAULT_LIMITS,
    UNCONFINED,
    Child,
    Excess,
    Exit,
    Limits,
    Reason,
    StrPath,
    milliseconds,
    pipe,
    scarcity,
    start,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.rooms import Stay

SCREEN = (40, 120)  # lines and columns of a terminal
_CHUNK_BYTES = 1 << 16
_CANCEL_SECONDS = 0.025  # how often a wait checks the cancel event


class Captured(NamedTuple):
    """The output of one stream: all of it in `head`, or its two ends, with every byte in the file `spill`."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0
    spill: str | None = None

    @property
    def omitted(self) -> int:
        """How many bytes are missing between head and tail."""
        return self.total - len(self.head) - len(self.tail)


class Finished(NamedTuple):
    """What `run` returns. Merged streams are in `stdout`. Not `clean`: some process could not be killed.

    A program with the reason "limit" printed too much, unless `exceeded` names another limit. The caller fills in the
    `notes`, and `denial` and `hidden` of the launch, after the confinement has ended.
    """

    exit_code: int
    reason: Reason
    stdout: Captured
    stderr: Captured
    duration: float
    clean: bool
    exceeded: Excess | None = None
    notes: tuple[str, ...] = ()
    denial: Denial = no_denial
    hidden: tuple[str, ...] = ()


_TIMEOUT, _CANCELLED, _LIMIT = Exit("timeout", 124), Exit("cancelled", 130), Exit("limit", 137)
_STOPPED = Exit("signal", 137)


def run(
    argv: Sequence[str],
    *,
    cwd: StrPath | int,
    env: Mapping[str, str],
    stdin: bytes = b"",
    limits: Limits = DEFAULT_LIMITS,
    cancelled: threading.Event | None = None,
    spill: StrPath | Callable[[], StrPath] | None = None,
    merge: bool = False,
    tty: bool = False,
    confined: Launch = UNCONFINED,
    on_output: Callable[[bytes], None] | None = None,
) -> Finished:
    """Run a program to its end and return its output; nothing that it started keeps running.

    With `merge` both streams share one pipe, which preserves their order; with `tty` they share a terminal. `cwd` is a
    path or the descriptor of a directory, `env` the whole environment. `spill` is the directory for output that does
    not fit in memory, or a function that returns it when needed; without it, only head and tail are kept. Cancellation
    ends the program as the timeout does. `on_output` receives the output as it arrives, on this thread.
    """
    began = monotonic()
    with scarcity(), ExitStack() as ours:
        outputs = ours.enter_context(_Outputs(limits, spill, on_output))
        feed = None
        with ExitStack() as theirs:
            sinks = []
            for _ in range(1 if merge or tty else 2):
                reading, writing = _terminal() if tty else pipe()
                outputs.add(reading)
                sinks.append(theirs.enter_context(writing))
            if tty:
                source = sinks[0]
            elif stdin:
                source, writing = pipe()
                feed = ours.enter_context(closing(_Feed(writing, stdin)))
            else:
                source = FileIO(os.devnull)
            theirs.enter_context(source)
            child = start(
                argv,
                cwd=cwd,
                env=env,
                stdin=source.fileno(),
                stdout=sinks[0].fileno(),
                stderr=sinks[-1].fileno(),
                limits=limits,
                confined=confined,
                tty=tty,
            )
            ours.enter_context(child)
        deadline = inf if limits.timeout is None else began + limits.timeout
        (reason, exit_code), exceeded = _attend(
            child, outputs, feed, limits, deadline, cancelled, confined.stay, confined.report
        )
        stdout, stderr = outputs.captured()
        if reason == "exit":
            failure = confined.failure(argv[0], exit_code, b" ".join((stdout.head, stderr.head)))
            if failure is not None:
                raise failure
        return Finished(exit_code, reason, stdout, stderr, monotonic() - began, child.ended, exceeded)


def _attend(
    child: Child,
    outputs: _Outputs,
    feed: _Feed | None,
    limits: Limits,
    deadline: float,
    cancelled: threading.Event | None,
    stay: Stay | None,
    report: Report,
) -> tuple[Exit, Excess | None]:
    """Move bytes until the child and its descendants have ended; end them on timeout, limit or cancellation."""
    poller = select.poll()
    poller.register(child, select.POLLIN)
    for fd in outputs.streams:
        poller.register(fd, select.POLLIN)
    if feed:
        poller.register(feed, select.POLLOUT)
    outcome: Exit | None = None
    exceeded: Excess | None = None
    give_up_at = inf
    while (ended := child.poll()) is None:
        now = monotonic()
        if outcome is None:
            if child.exit:
                outcome, give_up_at = child.exit, now + limits.settle + limits.grace + DEATH_SECONDS
            elif now >= deadline or (cancelled and cancelled.is_set()):
                outcome, give_up_at = _TIMEOUT if now >= deadline else _CANCELLED, now + limits.grace + DEATH_SECONDS
                child.terminate()
        elif now >= give_up_at:
            outputs.drain()
            child.give_up()
            return outcome, exceeded
        if stay is not None and outcome is None and now >= stay.due():
            exceeded = stay.check()
            if exceeded is not None:
                outcome, give_up_at = _LIMIT, now + DEATH_SECONDS
                child.kill()
        if outcome is None and now >= report.due():
            report.check(lasting=False)
            if report.repeated():
                outcome, give_up_at = _STOPPED, now + DEATH_SECONDS
                child.kill()
        if outputs.overrun and outcome in (None, child.exit):
            outcome, give_up_at = _LIMIT, now + DEATH_SECONDS
            child.kill()
        wake_at = deadline if outcome is None else give_up_at
        if outcome is None:
            wake_at = min(wake_at, report.due(), inf if stay is None else stay.due())
        if cancelled and outcome is None:
            wake_at = min(wake_at, now + _CANCEL_SECONDS)
        for fd, _ in poller.poll(milliseconds(wake_at)):
            if feed and fd == feed.fileno():
                if not feed.push():
                    poller.unregister(fd)
                    feed.close()
            elif fd != child.fileno() and not outputs.pull(fd):
                poller.unregister(fd)
    # all writers are gone, so the pipes hold the rest of the output
    outputs.drain()
    if outputs.overrun and outcome in (None, child.exit):
        return _LIMIT, None
    if exceeded is None and outcome in (None, child.exit):
        exceeded = child.exceeded()
        outcome = outcome if exceeded is None else _LIMIT
    return outcome or ended, exceeded


class _Feed:
    """Writes to the standard input of a child, as fast as it reads."""

    def __init__(self, sink: FileIO, data: bytes) -> None:
        os.set_blocking(sink.fileno(), False)
        self._sink = sink
        self._remaining = memoryview(data)

    def fileno(self) -> int:
        return -1 if self._sink.closed else self._sink.fileno()

    def push(self) -> bool:
        """Write as much as the pipe accepts; False when everything is written, or the child closed its end."""
        try:
            self._remaining = self._remaining[self._sink.write(self._remaining) or 0 :]
        except BrokenPipeError:
            return False
        return bool(self._remaining)

    def close(self) -> None:
        self._sink.close()


class _Outputs:
    """The output streams of one child, which share one size limit."""

    def __init__(
        self,
        limits: Limits,
        spill: StrPath | Callable[[], StrPath] | None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> None:
        self.streams: dict[int, _Stream] = {}
        self.overrun = False
        self._limits = limits
        self._spill = spill
        self._on_output = on_output

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        for stream in self.streams.values():
            stream.close()
            if failure and stream.path:
                with suppress(FileNotFoundError):
                    os.unlink(stream.path)

    def add(self, source: FileIO) -> None:
        os.set_blocking(source.fileno(), False)
        self.streams[source.fileno()] = _Stream(source, self._limits.keep_bytes, self._spill)

    def pull(self, fd: int) -> bool:
        """Read what has arrived; False at the end of the stream or when the limit is exceeded."""
        remaining = self._limits.max_bytes - sum(stream.total for stream in self.streams.values())
        try:
            chunk = self.streams[fd].source.read(min(remaining, _CHUNK_BYTES) or 1)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            chunk = b""  # end of file on a terminal
        if chunk is None:
            return True
        if chunk and not remaining:
            self.overrun = True
        if not chunk or self.overrun:
            return False
        self.streams[fd].take(chunk)
        if self._on_output is not None:
            self._on_output(chunk)
        return True

    def drain(self) -> None:
        """Read what is still in the pipes, without waiting: another process may hold them open forever."""
        for fd, stream in self.streams.items():
            before = -1
            while before != stream.total:
                before = stream.total
                self.pull(fd)

    def captured(self) -> tuple[Captured, Captured]:
        """Return the output read so far from standard output and standard error."""
        first, *second = (stream.captured() for stream in self.streams.values())
        return first, second[0] if second else Captured()


class _Stream:
    """One output stream: its two ends in memory, and all of it in a file when it does not fit."""

    def __init__(self, source: FileIO, keep: int, spill: StrPath | Callable[[], StrPath] | None) -> None:
        self.source = source
        self.total = 0
        self.path: str | None = None
        self._keep = keep
        self._spill = spill
        self._file: FileIO | None = None
        self._head = bytearray()
        self._tail = bytearray()

    def take(self, chunk: bytes) -> None:
        fits = self.total <= self._keep
        self.total += len(chunk)
        if not fits:
            self._write(chunk)
            self._tail += chunk
        else:
            self._head += chunk
            if self.total <= self._keep:
                return
            self._open_file()
            self._write(self._head)
            middle = self._keep - self._keep // 2
            self._tail += self._head[middle:]
            del self._head[middle:]
        del self._tail[: max(0, len(self._tail) - self._keep // 2)]

    def captured(self) -> Captured:
        return Captured(bytes(self._head), bytes(self._tail), self.total, self.path)

    def close(self) -> None:
        self.source.close()
        if self._file:
            self._file.close()

    def _open_file(self) -> None:
        if self._spill is None:
            return
        directory = self._spill() if callable(self._spill) else self._spill
        path = os.path.join(directory, f"{os.urandom(8).hex()}.out")
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unsaved(error) from error
        self.path = path
        self._file = FileIO(fd, "wb")

    def _write(self, data: bytes | bytearray) -> None:
        if self._file:
            remaining = memoryview(data)
            while remaining:
                try:
                    remaining = remaining[self._file.write(remaining) or 0 :]
                except OSError as error:
                    raise _unsaved(error) from error


def _unsaved(error: OSError) -> ToolError:
    return ToolError(
        "resource_limit",
        f"The output is too large for memory and cannot be saved to disk: {error.strerror}.",
        suggestion="Make the command print less, or free disk space.",
    )


def _terminal() -> tuple[FileIO, FileIO]:
    import termios

    ours, theirs = os.openpty()
    # a new terminal has size 0 x 0, and programs would draw nothing
    termios.tcsetwinsize(theirs, SCREEN)
    return FileIO(ours, "rb"), FileIO(theirs, "rb+")
