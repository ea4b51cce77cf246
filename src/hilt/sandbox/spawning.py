"""Starts child processes and ends them together with everything they started. Safe to use from many threads.

keeper.py describes how a process is started, and how its descendants are found and ended.
"""

from __future__ import annotations

import _socket
import errno
import marshal
import os
import select
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from math import inf
from time import monotonic
from typing import Literal, NamedTuple, Self

from hilt import variables
from hilt.errors import ToolError
from hilt.handles import Closing
from hilt.sandbox import keeper
from hilt.sandbox.backend import Launch
from hilt.sandbox.cgroups import Group
from hilt.sandbox.wardens import WARDENS

Reason = Literal["exit", "signal", "timeout", "cancelled", "limit"]
Resource = Literal["memory", "room"]
StrPath = str | os.PathLike[str]
DEATH_SECONDS = 5.0  # a process that lives this long after SIGKILL is stuck in the kernel, or belongs to another user
SCARCITIES = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS)


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


DEFAULT_LIMITS = Limits()
UNCONFINED = Launch()


def start(
    argv: Sequence[str],
    *,
    cwd: StrPath | int,
    env: Mapping[str, str],
    stdin: int,
    stdout: int,
    stderr: int,
    limits: Limits = DEFAULT_LIMITS,
    confined: Launch = UNCONFINED,
    tty: bool = False,
) -> Child:
    """Start a program on three descriptors of the caller, and return when it runs.

    The caller enforces the limits on time and output. With `tty`, stdin becomes the program's controlling terminal.
    """
    if not argv:
        raise ToolError("invalid_args", "No program to run: argv is empty.")
    streams = (stdin, stdout, stderr)
    with ExitStack() as unless_started:
        group = None if limits.memory is None else WARDENS.groups.make(limits.memory)
        if group is not None:
            unless_started.callback(group.close)
            with suppress(_NoEntrance):
                child = _start(argv, cwd, env, streams, limits, confined, tty, group)
                unless_started.pop_all()
                return child
            WARDENS.groups.give_up()
    return _start(argv, cwd, env, streams, limits, confined, tty, None)


class _NoEntrance(Exception):
    """A program could not enter its control group."""


def _start(
    argv: Sequence[str],
    cwd: StrPath | int,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    limits: Limits,
    confined: Launch,
    tty: bool,
    group: Group | None,
) -> Child:
    prefix, steps = [*confined.argv], confined.steps
    if confined.set_variable:
        # the prefix runs outside the sandbox: it must not load libraries of the workspace
        loaders = {name: value for name, value in env.items() if variables.is_loader(name)}
        prefix[-1:-1] = [word for pair in loaders.items() for word in (confined.set_variable, *pair)]
        env = {name: value for name, value in env.items() if name not in loaders}
    fields = (
        *encode([*prefix, *argv], env),
        rlimits(limits),
        limits.settle,
        limits.grace,
        tty,
        len(confined.descriptors),
        len(steps.namespaces),
        confined.shielding,
        steps.mounts,
        limits.memory or 0 if group is None else 0,
        group is not None,
        confined.trusted,
        steps.program_filter,
        None if steps.sockets is None else steps.sockets[:3],
    )
    message = keeper.framed(marshal.dumps(fields))
    rulesets = () if steps.ruleset is None else (steps.ruleset,)
    entrances = () if group is None else (group.entrance,)
    records = () if steps.sockets is None else (steps.sockets.record,)
    extra_fds = (*confined.descriptors, *steps.namespaces, *rulesets, *records, *entrances)
    refusal = 0
    with scarcity(), _directory(cwd) as directory:
        for _ in range(2):
            channel, server = WARDENS.take_channel()
            child = Child((*confined.argv, *argv)[0], channel, limits.memory, group)
            try:
                if child._begin(message, (*streams, directory), extra_fds):
                    return child
            except TimeoutError:
                WARDENS.discard(server)
                raise _unresponsive(child.program) from None
            refusal = child._refusal
            if not refusal:
                WARDENS.discard(server)
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
        while (outcome := self.poll()) is None and wait_readable(self, deadline):
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
            deadline = monotonic() + DEATH_SECONDS
            while not self._over() and wait_readable(self, deadline):
                self._listen()
            if not self._over():
                self.give_up()
        self._channel.close()
        if self.pid and self._group is not None:
            self._group.close()
            self._group = None

    def _over(self) -> bool:
        return self.ended or self._lost or self._refusal != 0

    def give_up(self) -> None:
        """Kill an unresponsive warden; the keeper takes over the processes that it guards."""
        # the open channel proves that the warden is alive, so its id was not reused
        with suppress(ProcessLookupError):
            os.kill(self._warden, signal.SIGKILL)
        self._channel.close()

    def _begin(self, message: bytes, places: tuple[int, ...], extra_fds: tuple[int, ...]) -> bool:
        """Start the program; False when the warden refused or died before it received the request."""
        deadline = monotonic() + WARDENS.patience
        fault, fault_sink = pipe()
        with ExitStack() as unless_started, fault:
            unless_started.callback(self.close)
            with fault_sink, suppress(ConnectionError):
                self._channel.settimeout(WARDENS.patience)
                sent = self._channel.sendmsg([message], keeper.pack_fds(*places, fault_sink.fileno(), *extra_fds))
                self._channel.sendall(message[sent:])
            self._channel.settimeout(0)
            while not (self.pid or self._over()):
                if not wait_readable(self, deadline):
                    raise TimeoutError
                self._listen()
            if self._refusal or not self.pid:
                return False
            # closes when the program runs; before that, it carries the reason for a failure
            if not wait_readable(fault, deadline):
                raise TimeoutError
            if failure := fault.read():
                step, number = marshal.loads(failure)  # noqa: S302 -- our own keeper wrote it
                raise _NoEntrance if step == "group" else refusal(self.program, step, number)
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
    with Closing(fd):
        yield fd


def refusal(program: str, step: str, number: int) -> ToolError:
    """Return the error for a step that failed before the program ran."""
    problem = os.strerror(number)
    if step == "cwd":
        code = "permission_denied" if number == errno.EACCES else "file_not_found"
        message = f"Cannot enter the working directory of {program}: {problem}."
    elif step == "confinement" and number == errno.ESTALE:
        from hilt.handles import renamed

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
    elif number in SCARCITIES:
        code, message = "resource_limit", f"{program} cannot be started: {problem}."
    else:
        code, message = "internal", f"{program} cannot be started: {problem} ({step})."
    return ToolError(code, message, program=program)


def _unresponsive(program: str) -> ToolError:
    return ToolError("resource_limit", f"{program} did not start within {WARDENS.patience:.0f} seconds.")


@contextmanager
def scarcity() -> Iterator[None]:
    """Convert errors for exhausted system resources to a ToolError."""
    try:
        yield
    except OSError as error:
        if error.errno not in SCARCITIES:
            raise
        raise ToolError("resource_limit", f"Cannot start a process: {error.strerror}.") from error


def pipe() -> tuple[FileIO, FileIO]:
    """Return the reading and the writing end of a new pipe."""
    reading, writing = os.pipe()
    return FileIO(reading, "rb"), FileIO(writing, "wb")


def wait_readable(file: FileIO | Child, deadline: float) -> bool:
    """Wait until there is data or end of file; False at the deadline."""
    poller = select.poll()
    poller.register(file, select.POLLIN)
    return bool(poller.poll(milliseconds(deadline)))


def milliseconds(deadline: float) -> float | None:
    """Return the time until a deadline, as `poll` takes it."""
    return None if deadline == inf else max(0.0, deadline - monotonic()) * 1000
