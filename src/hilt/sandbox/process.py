"""Starts, feeds, captures, limits and ends child processes. Nothing that a call starts outlives it.

`run` runs a program to its end; `start` starts one that keeps running. Both are safe to use from many threads.
keeper.py describes how a process is started, and how its descendants are found and ended.
"""

from __future__ import annotations

import _socket
import errno
import marshal
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from io import FileIO
from math import inf
from time import monotonic
from typing import Literal, NamedTuple, Protocol, Self

from hilt import variables
from hilt.errors import ToolError
from hilt.sandbox import keeper
from hilt.sandbox.cgroups import Group, Groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.mounting import Mount, Overlay
    from hilt.sandbox.overlay import UpperLayer

Reason = Literal["exit", "signal", "timeout", "cancelled", "limit"]
Resource = Literal["memory", "room"]
StrPath = str | os.PathLike[str]

SCREEN = (40, 120)  # lines and columns of a terminal

_CHUNK_BYTES = 1 << 16
_CANCEL_SECONDS = 0.025  # how often a wait checks the cancel event
_START_SECONDS = 20.0  # a program that does not run by then is stuck in the kernel, or the keeper was stopped
_DEATH_SECONDS = 5.0  # a process that lives this long after SIGKILL is stuck in the kernel, or belongs to another user

_LAUNCH = "import sys; sys.path.append(sys.argv[1]); import keeper; keeper.main()"
_SCARCITIES = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS)


class Limits(NamedTuple):
    """What a process may use: times in seconds, sizes in bytes.

    At the timeout SIGTERM is sent, and SIGKILL after `grace`. Descendants that outlive the program have `settle` to
    finish, as the `tee` of a process substitution needs. Of each stream `keep_bytes` stay in memory; more than
    `max_bytes` from both together end the process. `address_space` (including reserved memory) and `data` (writable
    memory) limit each process; `memory` limits the memory in use by all of them together. The kernel counts `processes`
    over everything that the user runs, and does not limit root.
    """

    timeout: float | None = 30.0
    grace: float = 0.5
    settle: float = 0.2
    keep_bytes: int = 1 << 20
    max_bytes: int = 64 << 20
    address_space: int | None = None
    data: int | None = None
    memory: int | None = None
    processes: int | None = None
    file_size: int | None = None


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


class Exit(NamedTuple):
    """Why and with which code a program ended.

    The code is the program's own for "exit", 128 + the signal for "signal", 124 for "timeout", 130 for "cancelled", and
    137 for "limit": more output than `max_bytes`, or another limit exceeded.
    """

    reason: Reason
    code: int


class Excess(NamedTuple):
    """The limit that a program exceeded, in bytes: memory, or the size of its private folders."""

    resource: Resource
    used: int
    limit: int


class RoomWatch(Protocol):
    """Polls the resource usage of a running program."""

    def due(self) -> float:
        """When to poll next, on the clock of `monotonic`."""
        ...

    def check(self) -> Excess | None:
        """Return the exceeded limit, if any."""
        ...


class Confined(NamedTuple):
    """How to start a confined program: its command prefix, descriptors, namespaces, mounts and ruleset."""

    prefix: tuple[str, ...] = ()
    set_variable: str = ""  # the option of the prefix that sets a variable for the program alone
    fds: tuple[int, ...] = ()  # numbered 3, 4, 5 ... in the program
    namespaces: tuple[int, ...] = ()  # entered in this order
    mounts: tuple[bytes, list[Mount], list[Overlay]] | None = None  # performed before the start, see mounting.py
    layer: UpperLayer | None = None  # of the overlay that it runs on
    ruleset: int | None = None  # a Landlock ruleset
    program_filter: bytes = b""  # a seccomp filter
    # a seccomp filter for connecting.py, the numbers of `bind`, and sockets of others
    asks: tuple[bytes, tuple[int, ...], tuple[str, ...]] | None = None
    record: int = -1  # then the file of the sockets that programs of the session have bound
    trusted: bool = False  # one of our own programs, which keeps its capabilities
    has_run: Callable[[], bool] = lambda: True  # whether the program itself ran; valid after its end
    notes: Callable[[], tuple[str, ...]] = lambda: ()  # on what it left for git to run; complete after the block
    check: Callable[[], None] = lambda: None  # disarms it while the program runs; for background jobs
    repeated: Callable[[], str] = lambda: ""  # what it wrote again after it was disarmed


class Finished(NamedTuple):
    """What `run` returns. Merged streams are in `stdout`. Not `clean`: some process could not be killed.

    A program with the reason "limit" printed too much, unless `exceeded` names another limit. The caller fills in the
    `notes` after the confinement has ended.
    """

    exit_code: int
    reason: Reason
    stdout: Captured
    stderr: Captured
    duration: float
    clean: bool
    exceeded: Excess | None = None
    notes: tuple[str, ...] = ()


_DEFAULT_LIMITS = Limits()
_UNCONFINED = Confined()
_TIMEOUT, _CANCELLED, _LIMIT = Exit("timeout", 124), Exit("cancelled", 130), Exit("limit", 137)


def run(
    argv: Sequence[str],
    *,
    cwd: StrPath | int,
    env: Mapping[str, str],
    stdin: bytes = b"",
    limits: Limits = _DEFAULT_LIMITS,
    cancelled: threading.Event | None = None,
    spill: StrPath | Callable[[], StrPath] | None = None,
    merge: bool = False,
    tty: bool = False,
    confined: Confined = _UNCONFINED,
    on_output: Callable[[bytes], None] | None = None,
    watch: RoomWatch | None = None,
) -> Finished:
    """Run a program to its end and return its output; nothing that it started keeps running.

    With `merge` both streams share one pipe, which preserves their order; with `tty` they share a terminal. `cwd` is a
    path or the descriptor of a directory, `env` the whole environment. `spill` is the directory for output that does
    not fit in memory, or a function that returns it when needed; without it, only head and tail are kept. Cancellation
    ends the program as the timeout does. `on_output` receives the output as it arrives, and `watch` is polled for
    resource usage, both on this thread.
    """
    began = monotonic()
    with _scarcity(), ExitStack() as ours:
        outputs = ours.enter_context(_Outputs(limits, spill, on_output))
        feed = None
        with ExitStack() as theirs:
            sinks = []
            for _ in range(1 if merge or tty else 2):
                reading, writing = _terminal() if tty else _pipe()
                outputs.add(reading)
                sinks.append(theirs.enter_context(writing))
            if tty:
                source = sinks[0]
            elif stdin:
                source, writing = _pipe()
                feed = ours.enter_context(_Feed(writing, stdin))
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
        (reason, exit_code), exceeded = _attend(child, outputs, feed, limits, deadline, cancelled, watch)
        stdout, stderr = outputs.captured()
        if reason == "exit" and not confined.has_run():
            printed = b" ".join((stdout.head, stderr.head)).decode("utf-8", "replace").strip()
            raise _unstarted(argv[0], printed or f"exit {exit_code}")
        return Finished(exit_code, reason, stdout, stderr, monotonic() - began, child.ended, exceeded)


def start(
    argv: Sequence[str],
    *,
    cwd: StrPath | int,
    env: Mapping[str, str],
    stdin: int,
    stdout: int,
    stderr: int,
    limits: Limits = _DEFAULT_LIMITS,
    confined: Confined = _UNCONFINED,
    tty: bool = False,
) -> Child:
    """Start a program on three descriptors of the caller, and return when it runs.

    The caller enforces the limits on time and output. With `tty`, stdin becomes the program's controlling terminal.
    """
    if not argv:
        raise ToolError("invalid_args", "No program to run: argv is empty.")
    streams = (stdin, stdout, stderr)
    with ExitStack() as unless_started:
        group = None if limits.memory is None else GROUPS.make(limits.memory)
        if group is not None:
            unless_started.callback(group.close)
            with suppress(_NoEntrance):
                child = _start(argv, cwd, env, streams, limits, confined, tty, group)
                unless_started.pop_all()
                return child
            GROUPS.give_up()
    return _start(argv, cwd, env, streams, limits, confined, tty, None)


class _NoEntrance(Exception):
    """A program could not enter its control group."""


def _start(
    argv: Sequence[str],
    cwd: StrPath | int,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    limits: Limits,
    confined: Confined,
    tty: bool,
    group: Group | None,
) -> Child:
    prefix = [*confined.prefix]
    if confined.set_variable:
        # the prefix runs outside the sandbox: it must not load libraries of the workspace
        loaders = {name: value for name, value in env.items() if variables.is_loader(name)}
        prefix[-1:-1] = [word for pair in loaders.items() for word in (confined.set_variable, *pair)]
        env = {name: value for name, value in env.items() if name not in loaders}
    message = _request([*prefix, *argv], env, limits, confined, tty, group)
    rulesets = () if confined.ruleset is None else (confined.ruleset,)
    entrances = () if group is None else (group.entrance,)
    records = () if confined.asks is None else (confined.record,)
    extra_fds = (*confined.fds, *confined.namespaces, *rulesets, *records, *entrances)
    refusal = 0
    with _scarcity(), _directory(cwd) as directory:
        for _ in range(2):
            channel, server = _KEEPER.take_channel()
            child = Child(confined.prefix[0] if confined.prefix else argv[0], channel, limits.memory, group)
            try:
                if child._begin(message, (*streams, directory), extra_fds):
                    return child
            except TimeoutError:
                _KEEPER.discard(server)
                raise _unresponsive(child.program) from None
            refusal = child._refusal
            if not refusal:
                _KEEPER.discard(server)
        if refusal:
            raise OSError(refusal, os.strerror(refusal))
    raise ToolError("internal", "The keeper process, which starts all programs, exits immediately after it starts.")


class Child:
    """A running program and everything it starts. They end when this is closed or garbage-collected."""

    def __init__(
        self, program: str, channel: _socket.socket, memory: int | None = None, group: Group | None = None
    ) -> None:
        self.program = program
        self.pid = 0
        self._memory = memory
        self._group = group
        self._measured = 0
        # as of the last `poll`: how the program itself ended, and whether its descendants have ended too
        self.exit: Exit | None = None
        self.ended = False
        self._channel = channel
        self._warden = 0
        self._refusal = 0
        self._unread = b""
        self._lost = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """A descriptor that becomes readable when `poll` may have news."""
        return self._channel.fileno()

    def poll(self) -> Exit | None:
        """How the program ended, once it and everything it started have ended; None before."""
        if not self.ended:
            self._listen()
            if self._lost:
                raise ToolError(
                    "internal",
                    f"The process that supervised {self.program} was killed, so the outcome is unknown.",
                    suggestion="Check what the command has done before you run it again.",
                    pid=self.pid,
                )
        return self.exit if self.ended else None

    def wait(self, timeout: float | None = None) -> Exit | None:
        """Like `poll`, but wait at most `timeout` seconds for the end."""
        deadline = inf if timeout is None else monotonic() + timeout
        while (outcome := self.poll()) is None and _readable(self, deadline):
            pass
        return outcome

    def exceeded(self) -> Excess | None:
        """Return the memory limit if its processes together exceeded it; valid after its end."""
        if self._memory is None:
            return None
        if self._group is not None and self._group.was_exceeded():
            return Excess("memory", max(self._group.peak(), self._memory), self._memory)
        return Excess("memory", self._measured, self._memory) if self._measured else None

    def terminate(self) -> None:
        """Send SIGTERM to the program and its descendants, and SIGKILL after the grace. Returns at once."""
        self._order(keeper.TERMINATE)

    def kill(self) -> None:
        """Send SIGKILL to the program and its descendants. Returns at once."""
        self._order(keeper.KILL)

    def close(self) -> None:
        """Kill what still runs, wait until it is gone, and release the channel."""
        if self.fileno() >= 0 and self._warden and not self._over():
            self.kill()
            deadline = monotonic() + _DEATH_SECONDS
            while not self._over() and _readable(self, deadline):
                self._listen()
            if not self._over():
                self._give_up()
        self._channel.close()
        if self.pid and self._group is not None:
            self._group.close()
            self._group = None

    def _over(self) -> bool:
        return self.ended or self._lost or self._refusal != 0

    def _give_up(self) -> None:
        """Kill an unresponsive warden; the keeper takes over the processes that it guards."""
        # the open channel proves that the warden is alive, so its id was not reused
        with suppress(ProcessLookupError):
            os.kill(self._warden, signal.SIGKILL)
        self._channel.close()

    def _begin(self, message: bytes, places: tuple[int, ...], extra_fds: tuple[int, ...]) -> bool:
        """Start the program; False when the warden refused or died before it received the request."""
        deadline = monotonic() + _START_SECONDS
        fault, fault_sink = _pipe()
        with ExitStack() as unless_started, fault:
            unless_started.callback(self.close)
            with fault_sink, suppress(ConnectionError):
                self._channel.settimeout(_START_SECONDS)
                sent = self._channel.sendmsg([message], keeper.pack_fds(*places, fault_sink.fileno(), *extra_fds))
                self._channel.sendall(message[sent:])
            self._channel.settimeout(0)
            while not (self.pid or self._over()):
                if not _readable(self, deadline):
                    raise TimeoutError
                self._listen()
            if self._refusal or not self.pid:
                return False
            # closes when the program runs; before that, it carries the reason for a failure
            if not _readable(fault, deadline):
                raise TimeoutError
            if failure := fault.read():
                step, number = marshal.loads(failure)  # noqa: S302 -- our own keeper wrote it
                raise _NoEntrance if step == "group" else _refusal(self.program, step, number)
            unless_started.pop_all()
        return True

    def _order(self, order: bytes) -> None:
        # a program that has ended needs no orders
        with suppress(OSError):
            self._channel.send(order)

    def _listen(self) -> None:
        """Read and apply messages from the warden."""
        try:
            received = self._channel.recv(1024)
        except BlockingIOError:
            return
        except ConnectionError:
            received = b""
        self._unread += received
        while len(self._unread) >= keeper.NEWS_BYTES:
            kind, number = self._unread[:1], int.from_bytes(self._unread[1 : keeper.NEWS_BYTES], "big")
            self._unread = self._unread[keeper.NEWS_BYTES :]
            if kind == keeper.HELLO:
                self._warden = number
            elif kind == keeper.STARTED:
                self.pid = number
            elif kind == keeper.REFUSED:
                self._refusal = number
            elif kind == keeper.EXITED:
                code = os.waitstatus_to_exitcode(number)
                self.exit = Exit("exit", code) if code >= 0 else Exit("signal", 128 - code)
            elif kind == keeper.ENDED:
                self.ended = True
            elif kind == keeper.EXCEEDED:
                self._measured = number << 10
        if not received and not self._over():
            self._lost = True
            # the keeper ends the warden's processes, unless it was killed as well
            if self.pid:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)


def _attend(
    child: Child,
    outputs: _Outputs,
    feed: _Feed | None,
    limits: Limits,
    deadline: float,
    cancelled: threading.Event | None,
    watch: RoomWatch | None,
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
                outcome, give_up_at = child.exit, now + limits.settle + limits.grace + _DEATH_SECONDS
            elif now >= deadline or (cancelled and cancelled.is_set()):
                outcome, give_up_at = _TIMEOUT if now >= deadline else _CANCELLED, now + limits.grace + _DEATH_SECONDS
                child.terminate()
        elif now >= give_up_at:
            outputs.drain()
            child._give_up()
            return outcome, exceeded
        if watch is not None and outcome is None and now >= watch.due():
            exceeded = watch.check()
            if exceeded is not None:
                outcome, give_up_at = _LIMIT, now + _DEATH_SECONDS
                child.kill()
        if outputs.overrun and outcome in (None, child.exit):
            outcome, give_up_at = _LIMIT, now + _DEATH_SECONDS
            child.kill()
        wake_at = deadline if outcome is None else give_up_at
        if watch is not None and outcome is None:
            wake_at = min(wake_at, watch.due())
        if cancelled and outcome is None:
            wake_at = min(wake_at, now + _CANCEL_SECONDS)
        for fd, _ in poller.poll(_milliseconds(wake_at)):
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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


class _Keeper:
    """The process that starts all others; started on first use, and again if it has died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: _socket.socket | None = None
        self._pid = 0
        self._registered = False

    def take_channel(self) -> tuple[_socket.socket, int]:
        """Return the channel of a waiting warden, and the process id of its keeper."""
        with self._lock:
            try:
                return self._take(self._control or self._launch()), self._pid
            except (ConnectionError, TimeoutError):
                self._bury()
                return self._take(self._launch()), self._pid

    def _take(self, control: _socket.socket) -> _socket.socket:
        reply, fds = keeper.receive(control, keeper.NEWS_BYTES)
        with ExitStack() as unless_taken:
            for fd in fds:
                unless_taken.callback(os.close, fd)
            # asks for the next warden while this one is used; fails if the keeper is gone
            if not reply or not control.send(b"+"):
                raise ConnectionResetError
            if reply[:1] == keeper.SCARCE:
                number = int.from_bytes(reply[1:], "big")
                raise OSError(number, os.strerror(number))
            unless_taken.pop_all()
        return _socket.socket(fileno=fds[0])

    def discard(self, pid: int) -> None:
        """Discard an unresponsive keeper, unless another thread has done so."""
        with self._lock:
            if pid == self._pid:
                self._bury()

    def _launch(self) -> _socket.socket:
        if not self._registered:
            import atexit

            atexit.register(self._close)
            os.register_at_fork(after_in_child=self._forget)
            self._registered = True
        ours, theirs = _socket.socketpair()
        with ExitStack() as unless_launched, closing(theirs):
            unless_launched.callback(ours.close)
            try:
                self._pid = os.posix_spawn(
                    sys.executable,
                    [sys.executable, "-I", "-S", "-c", _LAUNCH, os.path.dirname(keeper.__file__)],
                    variables.libraries(os.environ),
                    file_actions=[
                        (os.POSIX_SPAWN_DUP2, theirs.fileno(), keeper.CONTROL),
                        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                        (os.POSIX_SPAWN_DUP2, 0, 1),
                        (os.POSIX_SPAWN_DUP2, 0, 2),
                    ],
                    # an interrupt from the terminal is for hilt alone
                    setpgroup=0,
                    setsigmask=(),
                    setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
                )
            except FileNotFoundError as error:
                raise ToolError(
                    "runtime_missing", f"The Python interpreter {sys.executable!r} does not exist."
                ) from error
            unless_launched.pop_all()
        ours.settimeout(_START_SECONDS)
        ours.send(b"+")
        self._control = ours
        return ours

    def _bury(self) -> None:
        # killed before its socket closes, or it would end the programs of other calls
        with suppress(ChildProcessError):
            # no exit status yet, so the id was not reused
            if os.waitpid(self._pid, os.WNOHANG) == (0, 0):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
        self._close()

    def _close(self) -> None:
        if self._control:
            self._control.close()
        self._control, self._pid = None, 0

    def _forget(self) -> None:
        """After a fork, in the child: the keeper belongs to the parent, and must end when the parent does."""
        self._lock = threading.Lock()
        self._close()


_KEEPER = _Keeper()
GROUPS = Groups()


def encode(argv: Sequence[str], env: Mapping[str, str]) -> tuple[list[bytes], dict[bytes, bytes]]:
    """Return the arguments and environment of a program as bytes; raise for what the system does not accept."""
    try:
        arguments = [os.fsencode(text) for text in argv]
        variables = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    except UnicodeEncodeError as error:
        raise ToolError(
            "invalid_args", f"{error.object!r} cannot be encoded as an argument or variable of a program."
        ) from error
    if any(b"\0" in text for text in (*arguments, *variables, *variables.values())):
        raise ToolError(
            "invalid_args", f"An argument or variable of {os.path.basename(argv[0])!r} contains a NUL character."
        )
    for name in variables:
        if not name or b"=" in name:
            raise ToolError("invalid_args", f"Invalid variable name: {os.fsdecode(name)!r}.")
    return arguments, variables


def rlimits(limits: Limits) -> dict[int, int]:
    """Return the limits that the kernel enforces for each process."""
    if all(maximum is None for maximum in (limits.address_space, limits.data, limits.processes, limits.file_size)):
        return {}
    import resource

    kinds = {
        resource.RLIMIT_AS: limits.address_space,
        resource.RLIMIT_DATA: limits.data,
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_FSIZE: limits.file_size,
    }
    return {kind: maximum for kind, maximum in kinds.items() if maximum is not None}


def _request(
    argv: Sequence[str],
    env: Mapping[str, str],
    limits: Limits,
    confined: Confined,
    tty: bool,
    group: Group | None,
) -> bytes:
    return keeper.request(
        *encode(argv, env),
        rlimits(limits),
        settle=limits.settle,
        grace=limits.grace,
        tty=tty,
        inherited=len(confined.fds),
        namespaces=len(confined.namespaces),
        shielded=bool(confined.prefix) and confined.ruleset is None and sys.platform == "linux",
        mounts=confined.mounts,
        memory=limits.memory or 0 if group is None else 0,
        grouped=group is not None,
        trusted=confined.trusted,
        program_filter=confined.program_filter,
        asks=confined.asks,
    )


@contextmanager
def _directory(cwd: StrPath | int) -> Iterator[int]:
    """Yield a descriptor of a directory, which stays valid if its path changes."""
    if isinstance(cwd, int):
        yield cwd
        return
    name = os.fspath(cwd)
    try:
        fd = os.open(name, os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY))
    except PermissionError as error:
        raise ToolError(
            "permission_denied", f"Cannot open directory {name!r}: permission denied.", path=name
        ) from error
    except NotADirectoryError as error:
        raise ToolError("file_not_found", f"{name!r} is not a directory.", path=name) from error
    except (OSError, ValueError) as error:
        raise ToolError("file_not_found", f"Directory {name!r} does not exist.", path=name) from error
    try:
        yield fd
    finally:
        os.close(fd)


def _refusal(program: str, step: str, number: int) -> ToolError:
    """Return the error for a step that failed before the program ran."""
    problem = os.strerror(number)
    if step == "cwd":
        code = "permission_denied" if number == errno.EACCES else "file_not_found"
        message = f"Cannot enter the working directory of {program}: {problem}."
    elif step == "confinement" and number == errno.ESTALE:
        from hilt.sandbox.handles import renamed

        return renamed()
    elif step == "confinement":
        code, message = "sandbox_unavailable", f"{program} cannot be confined: {problem}."
    elif number in (errno.EACCES, errno.EPERM):
        code, message = "permission_denied", f"{program} is not executable."
    elif number in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
        if "/" in program:
            message = f"{program} does not exist, or the interpreter in its first line does not."
        else:
            message = f"{program} is not on the PATH."
        code = "runtime_missing"
    elif number == errno.ENOEXEC:
        code, message = "runtime_missing", f"{program} is not in an executable format."
    elif number == errno.ETXTBSY:
        code, message = "busy", f"{program} is open for writing in another process."
    elif number == errno.E2BIG:
        code, message = "resource_limit", f"The arguments and the environment of {program} are too long."
    elif number in _SCARCITIES:
        code, message = "resource_limit", f"{program} cannot be started: {problem}."
    else:
        code, message = "internal", f"{program} cannot be started: {problem} ({step})."
    return ToolError(code, message, program=program)


def _unresponsive(program: str) -> ToolError:
    return ToolError("resource_limit", f"{program} did not start within {_START_SECONDS:.0f} seconds.")


def _unstarted(program: str, printed: str) -> ToolError:
    """Return the error for a program that did not run, from what the sandbox printed instead."""
    numbers = (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.E2BIG)
    number = next((number for number in numbers if printed.endswith(f": {os.strerror(number)}")), errno.ENOENT)
    # printed when the sandbox is set up, but the program or its directory fails
    if printed.startswith(f"bwrap: execvp {program}: "):
        return _refusal(program, "exec", number)
    if printed.startswith("bwrap: Can't chdir to "):
        return _refusal(program, "cwd", number)
    return ToolError("sandbox_unavailable", f"The sandbox could not be set up: {printed}.")


def _unsaved(error: OSError) -> ToolError:
    return ToolError(
        "resource_limit",
        f"The output is too large for memory and cannot be saved to disk: {error.strerror}.",
        suggestion="Make the command print less, or free disk space.",
    )


@contextmanager
def _scarcity() -> Iterator[None]:
    """Convert errors for exhausted system resources to a ToolError."""
    try:
        yield
    except OSError as error:
        if error.errno not in _SCARCITIES:
            raise
        raise ToolError("resource_limit", f"Cannot start a process: {error.strerror}.") from error


def _pipe() -> tuple[FileIO, FileIO]:
    reading, writing = os.pipe()
    return FileIO(reading, "rb"), FileIO(writing, "wb")


def _terminal() -> tuple[FileIO, FileIO]:
    import termios

    ours, theirs = os.openpty()
    # a new terminal has size 0 x 0, and programs would draw nothing
    termios.tcsetwinsize(theirs, SCREEN)
    return FileIO(ours, "rb"), FileIO(theirs, "rb+")


def _readable(file: FileIO | Child, deadline: float, events: int = select.POLLIN) -> bool:
    """Wait until there is data or end of file, without `events` only for the end; False at the deadline."""
    poller = select.poll()
    poller.register(file, events)
    return bool(poller.poll(_milliseconds(deadline)))


def _milliseconds(deadline: float) -> float | None:
    return None if deadline == inf else max(0.0, deadline - monotonic()) * 1000
