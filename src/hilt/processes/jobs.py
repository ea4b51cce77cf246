"""Background jobs: processes that outlive the call that started them, and end with their session.

One thread, the pump, moves the output of all jobs to files as fast as they write: a job never waits for a reader, and
no output is kept in memory. It starts with the first job and ends when none is running.
"""

from __future__ import annotations

import os
import re
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from math import inf
from time import monotonic
from typing import Literal, NamedTuple

from hilt.errors import ToolError
from hilt.handles import Closing
from hilt.output import printed
from hilt.sandbox.backend import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence
    from hilt.sandbox.spawning import Child, Excess

Status = Literal["running", "completed", "failed", "stopped", "timeout", "limit"]

RUNNING_MAX = 128
ENDED_MAX = 256  # ended jobs that stay listed, the newest ones
OUTPUT_BYTES = 64 << 20
INPUT_BYTES = 64 << 10  # unread input of a job

_CHUNK_BYTES = 1 << 16
_END_BYTES = 256  # at the end of the output, where a character or escape sequence may be incomplete
_STUCK_SECONDS = 15.0  # a job that still runs this long after SIGTERM is stuck in the kernel
_UNCONFINED = Launch()
_EXIT_CODES = {"timeout": 124, "limit": 137}

_UNFINISHED = re.compile(rb"(?:\r|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*))\Z")


class Job(NamedTuple):
    """A background process: what was started, when and where."""

    id: str
    session: str
    command: str
    started: int  # nanoseconds since 1970
    cwd: str
    tty: bool
    output_file: str


class JobState(NamedTuple):
    """A job at one moment. The exit code is None while it runs, or if it is unknown."""

    job: Job
    status: Status
    exit_code: int | None
    seconds: float
    output_bytes: int
    reason: str  # why it was ended; empty if it exited by itself
    notes: tuple[str, ...]  # on what it left for git to run


class JobOutput(NamedTuple):
    """The output of a job, or an excerpt if it is too long."""

    state: JobState
    raw: str
    text: str  # without terminal control sequences
    truncated: bool


class Jobs:
    """The jobs of all sessions in one workspace. Safe to use from many threads.

    `folder` returns the output folder of a session, and `report` is called when a job has started or ended.
    """

    def __init__(
        self,
        *,
        folder: Callable[[str], str],
        limit: int = RUNNING_MAX,
        ended_limit: int = ENDED_MAX,
        output_bytes: int = OUTPUT_BYTES,
        report: Callable[[JobState], None] = lambda state: None,
    ) -> None:
        self._report = report
        self._folder = folder
        self._limit = limit
        self._ended_limit = ended_limit
        self._output_bytes = output_bytes
        self._changed = threading.Condition()
        self._works: dict[str, _Work] = {}  # the oldest first
        self._wake: int | None = None  # wakes the pump, if it is running
        self._closed = False

    @property
    def running(self) -> int:
        """How many jobs are running."""
        with self._changed:
            return len(self._running())

    @property
    def busy(self) -> bool:
        """Whether any job is running."""
        return self.running > 0

    def start(
        self,
        session: str,
        command: str,
        begin: Callable[[int, int, int], Child],
        *,
        tty: bool = False,
        resources: ExitStack | None = None,
        timeout: float | None = None,
        cwd: str = "",
        launch: Launch = _UNCONFINED,
    ) -> Job:
        """Start a job and return when it runs.

        `begin` starts the process on three descriptors, which are identical for a terminal. `resources` are closed when
        the job and its descendants have ended, or if it could not be started. `launch` has what checks it while it
        runs.
        """
        with ExitStack() as unless_started:
            ours = ExitStack()
            if resources is not None:
                unless_started.callback(resources.close)
                ours.callback(resources.close)
            work = self._make_room(session, command, cwd, ours, launch, tty=tty)
            unless_started.callback(self._forget, work)
            unless_started.callback(ours.close)
            try:
                work.open_output()
                unless_started.callback(work.discard_output)
                with ExitStack() as theirs:
                    streams = work.open_terminal() if tty else work.open_pipe(theirs)
                    work.child = ours.enter_context(begin(*streams))
                if timeout is not None:
                    work.deadline = monotonic() + timeout
                with self._changed:
                    if work.ending is not None:
                        raise ToolError("cancelled", "The session ended before the job could start.")
                    self._run_pump()
                    work.watched = True
            except OSError as error:
                raise _cannot_start(os.strerror(error.errno or 0)) from error
            unless_started.pop_all()
        self._report(work.state())
        return work.job

    def output(
        self, session: str, task_id: str, *, fence: Fence, block: bool = True, seconds: float = 30.0, new: bool = False
    ) -> JobOutput:
        """Return the output of a job; with `block`, after its end or the timeout.

        With `new`, only output that no call has returned before. Cancelling the call ends the wait at once.
        """
        work = self._find(session, task_id)
        if block:
            self._wait([work], seconds, fence)
        with self._changed:
            fence.check()
            state = work.state()
            file = work.open_written()
            start, end = work.returned if new else 0, state.output_bytes
            if file is not None and state.status == "running":
                end -= _unfinished(os.pread(file, _END_BYTES, max(start, end - _END_BYTES)))
            work.returned = max(work.returned, end)
        if file is None:
            note = "[The output of this job was deleted.]"
            return JobOutput(state, note, note, truncated=True)
        with Closing(file):
            raw, truncated = _excerpt(file, start, end, state.job.output_file)
        return JobOutput(state, raw, printed.plain(raw), truncated)

    def window(self, session: str | None, task_id: str, start: int, limit: int) -> tuple[JobState, bytes]:
        """Return the raw output of a job from an offset on, up to `limit` bytes, without an incomplete end."""
        work = self._find(session, task_id)
        with self._changed:
            state = work.state()
            file = work.open_written()
        if file is None:
            return state, b""
        with Closing(file):
            end = min(state.output_bytes, start + limit)
            data = _read(file, start, end)
        is_open = state.status == "running" or end < state.output_bytes
        return state, data[: len(data) - _unfinished(data[-_END_BYTES:])] if is_open else data

    def list(self, session: str | None) -> Sequence[JobState]:
        """Return the jobs of a session, or of all, oldest first."""
        with self._changed:
            return [work.state() for work in self._works.values() if session in (None, work.job.session)]

    def stop(self, session: str | None, task_id: str) -> JobState:
        """End a job and return its state; no effect on one that has ended."""
        work = self._find(session, task_id)
        self._end([work], "it was asked to stop")
        return work.state()

    def write(self, session: str | None, task_id: str, data: bytes) -> JobState:
        """Send input to the terminal of a job, without waiting for the job to read it."""
        work = self._find(session, task_id)
        with self._changed:
            work.type(data)
            self._wake_pump()
            return work.state()

    def end_session(self, session: str) -> int:
        """End the jobs of a session and forget them; return how many were running."""
        with self._changed:
            works = [work for work in self._works.values() if work.job.session == session]
            running = [work for work in works if work.status == "running"]
        self._end(running, "its session ended")
        for work in works:
            self._forget(work)
        return len(running)

    def touch(self, session: str) -> None:
        """Record that a session is in use."""
        now = monotonic()
        with self._changed:
            for work in self._works.values():
                if work.job.session == session:
                    work.used = now

    def end_idle(self, seconds: float) -> None:
        """End the jobs of sessions that have been idle for that long."""
        limit = monotonic() - seconds
        with self._changed:
            last_used: dict[str, float] = {}
            for work in self._works.values():
                last_used[work.job.session] = max(last_used.get(work.job.session, 0.0), work.used)
        for session, used in last_used.items():
            if used < limit:
                self.end_session(session)

    def close(self) -> None:
        """End all jobs; no more can be started."""
        with self._changed:
            self._closed = True
            running = self._running()
        self._end(running, "hilt exited")

    # --- bookkeeping ----------------------------------------------------------------------------------------------

    def _running(self) -> Sequence[_Work]:
        return [work for work in self._works.values() if work.status == "running"]

    def _make_room(self, session: str, command: str, cwd: str, ours: ExitStack, launch: Launch, *, tty: bool) -> _Work:
        """Register a job that is about to start, and drop the oldest ended ones."""
        folder = self._folder(session)
        with self._changed:
            if self._closed:
                raise ToolError("cancelled", "Cannot start a job: hilt is shutting down.")
            running = len(self._running())
            if running >= self._limit:
                raise ToolError(
                    "limit_exceeded",
                    f"{running} background jobs are running, which is the limit.",
                    suggestion="Stop one with job_stop, or wait until one ends.",
                    limit=self._limit,
                )
            ended = [name for name, work in self._works.items() if work.status != "running"]
            for name in ended[: max(0, len(ended) - self._ended_limit + 1)]:
                del self._works[name]
            while (name := f"job_{os.urandom(3).hex()}") in self._works:
                pass
            job = Job(name, session, command, time.time_ns(), cwd, tty, os.path.join(folder, f"{name}.out"))
            work = self._works[name] = _Work(job, ours, launch, self._output_bytes)
            return work

    def _forget(self, work: _Work) -> None:
        with self._changed:
            self._works.pop(work.job.id, None)
            self._changed.notify_all()

    def _find(self, session: str | None, task_id: str) -> _Work:
        with self._changed:
            work = self._works.get(task_id)
        if work is None or session not in (None, work.job.session):
            raise ToolError(
                "not_found",
                f"This session has no job {task_id[:40]!r}.",
                suggestion="Call job_list to see its jobs. The oldest ended jobs are no longer listed.",
            )
        return work

    def _end(self, works: Sequence[_Work], reason: str) -> None:
        """End jobs, and wait until they and their descendants have ended."""
        with self._changed:
            for work in works:
                work.end("stopped", reason)
            self._wake_pump()
        self._wait(works, 2 * _STUCK_SECONDS)

    def _wait(self, works: Sequence[_Work], seconds: float, fence: Fence | None = None) -> None:
        """Wait until the jobs have ended or were dropped, or until the timeout."""

        def done() -> bool:
            if fence is not None:
                fence.check()
            return not any(work.status == "running" and work.job.id in self._works for work in works)

        if fence is not None:
            fence.watch(self._notify)
        with self._changed:
            self._changed.wait_for(done, seconds)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # --- the pump -------------------------------------------------------------------------------------------------

    def _run_pump(self) -> None:
        if self._wake is not None:
            self._wake_pump()
            return
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        try:
            threading.Thread(target=self._pump, args=(woken, wake), name="hilt-jobs", daemon=True).start()
        except RuntimeError as error:
            os.close(woken)
            os.close(wake)
            raise _cannot_start("too many threads") from error
        self._wake = wake

    def _wake_pump(self) -> None:
        if self._wake is not None:
            with suppress(BlockingIOError):  # the pipe is full, so the pump will wake anyway
                os.write(self._wake, b"+")

    def _pump(self, woken: int, wake: int) -> None:
        """Serve all jobs until none is running."""
        while True:
            with self._changed:
                works = [work for work in self._running() if work.watched]
                if not works:
                    self._wake = None
                    break
            poller = select.poll()
            poller.register(woken, select.POLLIN)
            for work in works:
                work.register(poller)
            until = min(work.due() for work in works)
            pause = None if until == inf else max(0.0, until - monotonic()) * 1000
            ready = dict(poller.poll(pause))
            if woken in ready:
                os.read(woken, 4096)
            for work in works:
                if work.attend(ready):
                    self._settle(work)
        os.close(woken)
        os.close(wake)

    def _settle(self, work: _Work) -> None:
        """Release the resources of a job, and mark it as ended."""
        work.release()
        with self._changed:
            work.close_output()
            work.status = work.outcome
            self._changed.notify_all()
        self._report(work.state())


class _Ending(NamedTuple):
    status: Status
    reason: str


class _Work:
    """A job and its process. Only the pump reads, writes and polls; other threads change fields under the lock."""

    def __init__(self, job: Job, ours: ExitStack, launch: Launch, output_limit: int) -> None:
        self.job = job
        self.status: Status = "running"
        self.outcome: Status = "failed"  # the status once its resources are released
        self.exit_code: int | None = None
        self.ending: _Ending | None = None
        self.child: Child | None = None
        self.watched = False
        self.deadline = inf
        self.written = 0
        self.returned = 0  # offset up to which the output was returned
        self.used = monotonic()  # when its session was last used
        self._report, self._stay = launch.report, launch.stay
        self._output_limit = output_limit
        self._ours = ours
        self._output: int | None = None
        self._source = -1
        self._typed = bytearray()
        self._stuck = inf
        self._began = monotonic()
        self._ended: float | None = None

    def state(self) -> JobState:
        seconds = (self._ended or monotonic()) - self._began
        running = self.status == "running"
        reason = "" if running or self.ending is None else self.ending.reason
        exit_code = None if running else self.exit_code
        return JobState(self.job, self.status, exit_code, seconds, self.written, reason, self._report.notes())

    # --- starting

    def open_output(self) -> None:
        try:
            os.makedirs(os.path.dirname(self.job.output_file), mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._output = os.open(self.job.output_file, flags, 0o600)
        except OSError as error:
            raise _cannot_start(f"its output cannot be saved: {os.strerror(error.errno or 0)}") from error

    def open_pipe(self, theirs: ExitStack) -> tuple[int, int, int]:
        """Return the streams of a job without a terminal: empty input, and one pipe for all output."""
        self._source, sink = os.pipe()
        self._ours.callback(os.close, self._source)
        theirs.callback(os.close, sink)
        os.set_blocking(self._source, False)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        theirs.callback(os.close, null)
        return null, sink, sink

    def open_terminal(self) -> tuple[int, int, int]:
        """Return the streams of a job on a terminal."""
        import termios

        from hilt.sandbox.capturing import SCREEN

        self._source, screen = os.openpty()
        self._ours.callback(os.close, self._source)
        # held open to the end, so that the last output is not lost when the job closes its terminal
        self._ours.callback(os.close, screen)
        os.set_blocking(self._source, False)
        termios.tcsetwinsize(screen, SCREEN)
        return screen, screen, screen

    # --- running

    def register(self, poller: select.poll) -> None:
        if self.child is not None and self.child.fileno() >= 0:
            poller.register(self.child, select.POLLIN)
        if self._source >= 0:
            poller.register(self._source, select.POLLIN | (select.POLLOUT if self._typed else 0))

    def due(self) -> float:
        """When the job must be checked even without an event."""
        next_measurement = inf if self._stay is None or self.ending is not None else self._stay.due()
        return min(self.deadline, self._stuck, self._report.due(), next_measurement)

    def attend(self, ready: Mapping[int, int]) -> bool:
        """Handle pending events; True when the job has ended."""
        try:
            return self._attend(ready)
        except Exception as error:  # noqa: BLE001  # one failing job must not end the others
            with suppress(Exception):
                self._drain()
            self._fail(error)
            return True

    def _attend(self, ready: Mapping[int, int]) -> bool:
        child = self.child
        if child is None:
            return False
        if self._source in ready:
            if ready[self._source] & select.POLLOUT:
                self._push()
            if ready[self._source] & ~select.POLLOUT:
                self._pull()
        ended = child.poll()
        now = monotonic()
        if ended is not None:
            self._drain()
            self._conclude(ended.code, child.exceeded())
            return True
        if self._stay is not None and self.ending is None and now >= self._stay.due():
            exceeded = self._stay.check()
            if exceeded is not None:
                self._give_up(_describe(exceeded))
        if now >= self._report.due():
            self._report.check()
        if self.ending is None and (repeated := self._report.repeated()):
            self._give_up(repeated, "stopped")
        if now >= self.deadline:
            self.end("timeout", "it timed out")
        if self._stuck == inf and (self.ending is not None or child.exit is not None):
            self._stuck = now + _STUCK_SECONDS
        if now >= self._stuck:
            self.ending = _Ending("stopped", "it could not be killed; some of its processes may still be running")
            self._conclude(None if child.exit is None else child.exit.code)
            return True
        return False

    def _pull(self) -> bool:
        """Read what has arrived; False when there is no more for now, or at the end."""
        if self._source < 0:
            return False
        remaining = self._output_limit - self.written
        try:
            chunk = os.read(self._source, min(remaining, _CHUNK_BYTES) or 1)
        except BlockingIOError:
            return False
        except OSError:  # end of file on a terminal
            chunk = b""
        if not chunk:
            self._source = -1
        elif not remaining:
            self._give_up(f"it wrote more than {self._output_limit} bytes")
        else:
            self._keep(chunk)
        return self._source >= 0

    def _drain(self) -> None:
        """Read what is still in the pipe, without waiting: another process may hold it open forever."""
        while self._pull():
            pass

    def _keep(self, chunk: bytes) -> None:
        remaining = memoryview(chunk)
        try:
            while remaining and self._output is not None:
                count = os.write(self._output, remaining)
                remaining = remaining[count:]
                self.written += count
        except OSError as error:
            self._give_up(f"its output could not be saved: {os.strerror(error.errno or 0)}")

    def _give_up(self, reason: str, status: Status = "limit") -> None:
        self.ending = _Ending(status, reason)
        self._source = -1
        if self.child is not None:
            self.child.kill()

    def _push(self) -> None:
        with suppress(BlockingIOError):
            # a copy: the original cannot grow while it is being written
            del self._typed[: os.write(self._source, bytes(self._typed))]

    def type(self, data: bytes) -> None:
        """Queue input for a job on a terminal."""
        name = self.job.id
        if not self.job.tty:
            raise ToolError(
                "invalid_args",
                f"{name} has no terminal, so it takes no input.",
                suggestion="Start the command with tty: true.",
            )
        if self.status != "running":
            raise ToolError("not_found", f"{name} has ended ({self.status}).", suggestion="Start the command again.")
        if len(data) > INPUT_BYTES:
            raise ToolError(
                "invalid_args",
                f"The text has {len(data)} bytes; a terminal takes at most {INPUT_BYTES} at once.",
                suggestion="Send it in parts, or have the job read it from a file.",
            )
        if len(self._typed) + len(data) > INPUT_BYTES:
            raise ToolError(
                "busy",
                f"{name} has not read its input yet: {len(self._typed)} bytes are pending.",
                suggestion="Retry when the job has read them.",
            )
        self._typed += data

    # --- ending

    def end(self, status: Status, reason: str) -> None:
        """Terminate the job, unless it is already ending."""
        if self.status != "running" or self.ending is not None or (self.child is not None and self.child.exit):
            return
        self.ending = _Ending(status, reason)
        self.deadline = inf
        if self.child is not None:
            self.child.terminate()

    def _conclude(self, code: int | None, exceeded: Excess | None = None) -> None:
        self._ended = monotonic()
        if self.ending is None and exceeded is not None:
            self.ending = _Ending("limit", _describe(exceeded))
        if self.ending is None:
            self.exit_code = code
            self.outcome = "completed" if code == 0 else "failed"
        else:
            self.exit_code = _EXIT_CODES.get(self.ending.status, code)
            self.outcome = self.ending.status

    def _fail(self, error: Exception) -> None:
        self._ended = monotonic()
        reason = error.message if isinstance(error, ToolError) else f"hilt failed ({type(error).__name__})"
        self.ending = _Ending("failed", reason)
        self.outcome = "failed"

    def release(self) -> None:
        """Close everything but the output; a stuck job is closed on a separate thread."""
        if self._stuck <= monotonic():
            threading.Thread(target=self._close, name="hilt-jobs-stuck", daemon=True).start()
        else:
            self._close()

    def _close(self) -> None:
        try:
            self._ours.close()
        except Exception as error:  # noqa: BLE001  # one failing job must not end the others
            self._fail(error)

    # --- output

    def open_written(self) -> int | None:
        """Return a descriptor of the output; None when it was deleted. Requires the lock."""
        if self._output is not None:
            return os.dup(self._output)
        try:
            return os.open(self.job.output_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None

    def close_output(self) -> None:
        if self._output is not None:
            os.close(self._output)
            self._output = None

    def discard_output(self) -> None:
        self.close_output()
        with suppress(OSError):
            os.unlink(self.job.output_file)


def _unfinished(data: bytes) -> int:
    """Return how many bytes at the end belong to an incomplete character or escape sequence."""
    match = _UNFINISHED.search(data)
    if match is not None:
        return len(match[0])
    for count in range(1, min(3, len(data)) + 1):
        byte = data[-count]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return count if count < needed else 0
        if byte < 0x80:
            return 0
    return 0


def _excerpt(file: int, start: int, end: int, path: str) -> tuple[str, bool]:
    """Return a range of the output as text, and whether its middle was omitted because it is too long."""
    size = end - start
    max_bytes = 4 * printed.SHOWN_CHARACTERS  # at most 4 bytes per character
    first = _read(file, start, min(end, start + max_bytes))
    text = printed.full_text(first) if size <= max_bytes else None
    if text is not None:
        return text, False
    last = first if size <= max_bytes else _read(file, end - max_bytes, end)
    return "\n".join(printed.excerpt(first, last, size, path)), True


def _read(file: int, start: int, end: int) -> bytes:
    data = b""
    while start + len(data) < end and (part := os.pread(file, end - start - len(data), start + len(data))):
        data += part
    return data


def _describe(exceeded: Excess) -> str:
    from hilt.sandbox.rooms import describe

    return describe(exceeded)


def _cannot_start(reason: str) -> ToolError:
    return ToolError("resource_limit", f"Cannot start the job: {reason}.")
