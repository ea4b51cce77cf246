"""Child processes of one call: fed, read as they write, and ended with the call."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic

from tongs.context import Fence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tongs.sandbox.process import Child

PIPE_BYTES = 1 << 20
STDERR_BYTES = 1 << 16


class Processes:
    """Starts programs for one call; they are killed at once when the call is given up."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    @contextmanager
    def stream(
        self,
        argv: Sequence[str],
        *,
        cwd: int,
        env: Mapping[str, str],
        stdin: int | None = None,
        fds: tuple[int, ...] = (),
        seconds: float | None = None,
        memory: int | None = None,
    ) -> Iterator[Stream]:
        """Start a program in an open folder and yield its output; nothing of it is left when the block ends.

        `stdin` is a descriptor, by default that of nothing; `fds` are further ones, which it has from 3 on; `memory`
        limits the address space, in bytes.
        """
        from tongs.sandbox import process

        with ExitStack() as ours:
            with ExitStack() as theirs:
                ends = []
                for _ in range(2):
                    reading, writing = os.pipe()
                    ours.callback(os.close, reading)
                    theirs.callback(os.close, writing)
                    ends.append((reading, writing))
                if stdin is None:
                    stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                    theirs.callback(os.close, stdin)
                _widen(ends[0][0])
                limits = process.Limits(timeout=None, grace=0, settle=0, address_space=memory)
                child = process.start(
                    argv,
                    cwd=cwd,
                    env=env,
                    stdin=stdin,
                    stdout=ends[0][1],
                    stderr=ends[1][1],
                    limits=limits,
                    confined=process.Confined(fds=fds),
                )
                ours.enter_context(child)
            self._fence.watch(child.kill)
            yield Stream(child, ends[0][0], ends[1][0], self._fence.check, seconds)


class Stream:
    """The output of a running program."""

    def __init__(
        self, child: Child, stdout: int, stderr: int, check: Callable[[], None], seconds: float | None
    ) -> None:
        self.stderr = b""  # as much of it as fits
        self.received = 0  # bytes of standard output
        self.timed_out = False
        self.exit_code: int | None = None  # known once the output was read to its end
        self._child = child
        self._stdout = stdout
        self._stderr = stderr
        self._check = check
        self._deadline = None if seconds is None else monotonic() + seconds

    def __iter__(self) -> Iterator[bytes]:
        """Yield what the program writes until it ends or its time is over."""
        poller = select.poll()
        open_ends = {self._stdout, self._stderr}
        for end in open_ends:
            poller.register(end, select.POLLIN)
        while open_ends:
            ready = poller.poll(self._milliseconds())
            self._check()
            if not ready or self._seconds() == 0:
                self.timed_out = True
                self._child.kill()
                return
            for end, _ in ready:
                data = os.read(end, PIPE_BYTES)
                if not data:
                    poller.unregister(end)
                    open_ends.remove(end)
                elif end == self._stdout:
                    self.received += len(data)
                    yield data
                else:
                    self.stderr += data[: STDERR_BYTES - len(self.stderr)]
        outcome = self._child.wait(self._seconds())
        self._check()
        if outcome is None:
            self.timed_out = True
        else:
            self.exit_code = outcome.code

    def _seconds(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - monotonic())

    def _milliseconds(self) -> float | None:
        seconds = self._seconds()
        return None if seconds is None else seconds * 1000


def _widen(pipe: int) -> None:
    """Give a pipe more room, so that the program and its reader wait less for each other."""
    import fcntl

    with suppress(AttributeError, OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
