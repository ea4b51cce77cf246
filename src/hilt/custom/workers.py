"""Warm worker processes: programs that answer lines of JSON, kept for the next call, restarted after they exit.

    request  {"id": 1, "op": "call", ...}      one line on its standard input
    reply    {"id": 1, ...}                    one line on its standard output; other lines there are noise

A worker answers one request at a time, so concurrent calls need several. The last part of its other output is kept for
the error message if it exits. A program that does not use ids answers each request with one line. If it prints extra
lines, it is not used again, because its next answer could belong to another request.
"""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence
    from hilt.processes.piped import PipedProgram
    from hilt.sandbox.backend import Launch
    from hilt.sandbox.spawning import Child

PER_TOOL = 4  # busy workers of one tool; further concurrent calls wait
MAX_IDLE = 16  # idle workers kept at most
IDLE_SECONDS = 600.0
REPLY_BYTES = 64 << 20
NOISE_BYTES = 4096
START_SECONDS = 20.0

_CHUNK_BYTES = 1 << 16


Confine = Callable[[], AbstractContextManager["Launch | None"]]
Decode = Callable[[bytes], dict[str, Any] | None]


class Recipe(NamedTuple):
    """How to start a worker. `greeting`, unless None, is its first request, which it must answer before any other."""

    key: str  # derived from the content it runs: workers with the same key are interchangeable
    place: str  # the file and its working folder: when its key changes, workers with the old key are stopped
    origin: str  # the file alone
    label: str  # in messages
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    greeting: Mapping[str, Any] | None = None
    confine: Confine | None = None  # its sandbox, held while it runs; None: the sandbox of modules
    decode: Decode | None = None  # decodes a reply without an id, None for noise; if not set, replies have an id


class Workers:
    """The workers of a runtime. Thread-safe; closing it stops them all."""

    def __init__(
        self,
        *,
        per_tool: int = PER_TOOL,
        max_idle: int = MAX_IDLE,
        idle: float = IDLE_SECONDS,
        confine: Callable[[str], AbstractContextManager[Launch]] | None = None,
    ) -> None:
        """`confine` provides the sandbox of modules for a working folder; without it they have the user's rights."""
        self._per_tool = per_tool
        self._max_idle = max_idle
        self._idle_seconds = idle
        self._confine = confine
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []  # least recently used first
        self._busy: dict[str, int] = {}
        self._current: dict[str, str] = {}  # the newest key of each place
        self._closed = False
        self._timer: threading.Timer | None = None  # stops workers that were idle for too long

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self,
        recipe: Recipe,
        request: Mapping[str, Any],
        *,
        seconds: float,
        fence: Fence | None = None,
        on_noise: Callable[[], None] = lambda: None,
        answer: Callable[[Any], Any] | None = None,
    ) -> dict[str, Any]:
        """Return the reply of a warm or new worker; kill it on timeout or when the call is cancelled.

        The timeout includes waiting for a worker, but not starting one. `on_noise` is called for every line that is
        printed before the reply. A worker may send requests before it replies: `answer` handles them, and that time
        does not count.
        """
        deadline = monotonic() + seconds
        with self._turn(recipe, deadline, fence):
            worker = self._take(recipe)
            if worker is None:
                worker = self._start(recipe, fence)
                deadline = monotonic() + seconds
            try:
                reply = worker.exchange(request, deadline, fence, on_noise)
                while answer is not None and "ask" in reply:
                    started = monotonic()
                    answered = answer(reply["ask"])
                    deadline += monotonic() - started
                    reply = worker.exchange({"answer": answered}, deadline, fence, on_noise)
                worker.check()
            except BaseException:
                worker.close()
                raise
            self._keep(worker)
        if fence is not None:
            fence.check()
        return reply

    def greet(self, recipe: Recipe, *, seconds: float = START_SECONDS) -> dict[str, Any]:
        """Start a worker and return its reply to the greeting; the worker is kept for the first call."""
        with self._turn(recipe, monotonic() + seconds, None):
            worker = self._start(recipe, None, seconds)
            self._keep(worker)
        return worker.greeting

    def _start(self, recipe: Recipe, fence: Fence | None, seconds: float = START_SECONDS) -> _Worker:
        confine = recipe.confine
        if confine is None:
            confine = nullcontext if self._confine is None else partial(self._confine, recipe.cwd)
        return _start(recipe, confine, fence, seconds)

    def forget(self, origin: str) -> None:
        """Stop the idle workers of a removed file."""
        with self._changed:
            stopped = [worker for worker in self._idle if worker.recipe.origin == origin]
            self._idle = [worker for worker in self._idle if worker.recipe.origin != origin]
            for worker in stopped:
                self._current.pop(worker.recipe.place, None)
        _close(stopped)

    def close(self) -> None:
        """Stop all workers; busy ones stop after their call."""
        with self._changed:
            self._closed = True
            stopped, self._idle = self._idle, []
            if self._timer is not None:
                self._timer.cancel()
            self._changed.notify_all()
        _close(stopped)

    @property
    def pids(self) -> list[int]:
        """The process ids of the idle workers."""
        with self._changed:
            return [worker.child.pid for worker in self._idle]

    @contextmanager
    def _turn(self, recipe: Recipe, deadline: float, fence: Fence | None) -> Iterator[None]:
        """Wait until fewer than the maximum of workers with this key are busy; count as busy inside the block."""
        key = recipe.key
        if fence is not None:
            fence.watch(self._wake)
        with self._changed:
            while self._busy.get(key, 0) >= self._per_tool and not self._closed:
                if not self._changed.wait(max(0.0, deadline - monotonic())) and monotonic() >= deadline:
                    raise ToolError(
                        "timeout", f"Timed out: all {self._per_tool} workers of {recipe.label} stayed busy."
                    )
                if fence is not None:
                    fence.check()
            if self._closed:
                raise ToolError("cancelled", f"{recipe.label} was not run: hilt is closing.")
            self._busy[key] = self._busy.get(key, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._busy[key] -= 1
                if not self._busy[key]:
                    del self._busy[key]
                self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _take(self, recipe: Recipe) -> _Worker | None:
        """Return an idle worker that is alive, or None; stop the stale ones."""
        reusable = None
        with self._changed:
            self._current[recipe.place] = recipe.key
            oldest = monotonic() - self._idle_seconds
            idle: list[_Worker] = []
            stale: list[_Worker] = []
            for worker in reversed(self._idle):
                if worker.last_used < oldest or not self._is_current(worker) or not worker.is_alive():
                    stale.append(worker)
                elif reusable is None and worker.recipe.key == recipe.key:
                    reusable = worker
                else:
                    idle.append(worker)
            self._idle = idle[::-1]
        _close(stale)
        return reusable

    def _keep(self, worker: _Worker) -> None:
        stopped = []
        with self._changed:
            worker.last_used = monotonic()
            self._current.setdefault(worker.recipe.place, worker.recipe.key)
            if self._closed or not self._is_current(worker):
                stopped = [worker]
            else:
                self._idle.append(worker)
                stopped, self._idle = self._idle[: -self._max_idle], self._idle[-self._max_idle :]
                self._set_timer()
        _close(stopped)

    def _set_timer(self) -> None:
        """Start the timer that stops the longest idle worker, unless it is running."""
        if self._timer is None and self._idle and not self._closed:
            seconds = max(0.0, min(worker.last_used for worker in self._idle) + self._idle_seconds - monotonic())
            self._timer = threading.Timer(seconds, self._stop_idle)
            self._timer.daemon = True
            self._timer.start()

    def _stop_idle(self) -> None:
        with self._changed:
            self._timer = None
            oldest = monotonic() - self._idle_seconds
            stopped = [worker for worker in self._idle if worker.last_used <= oldest]
            self._idle = [worker for worker in self._idle if worker.last_used > oldest]
            self._set_timer()
        _close(stopped)

    def _is_current(self, worker: _Worker) -> bool:
        return self._current.get(worker.recipe.place) == worker.recipe.key


class _Worker:
    """One running process; used by one thread at a time."""

    def __init__(self, recipe: Recipe, program: PipedProgram) -> None:
        self.recipe = recipe
        self.child = program.child
        self.check = program.check
        self.last_used = monotonic()
        self.greeting: dict[str, Any] = {}
        self.close = program.close  # kills the process and everything it started
        self._stdin = program.stdin
        self._stdout = program.stdout
        self._stderr = program.stderr
        self._number = 0
        self._on_noise: Callable[[], None] = lambda: None
        self._unread = bytearray()
        self._noise = bytearray()

    def is_alive(self) -> bool:
        """Whether the process still accepts requests, and printed nothing after its last reply."""
        try:
            return self.child.poll() is None and self.child.exit is None and self._is_quiet()
        except ToolError:
            return False

    def _is_quiet(self) -> bool:
        decode = self.recipe.decode
        if decode is None:
            return True
        with suppress(BlockingIOError):
            data = os.read(self._stdout, _CHUNK_BYTES)
            if not data:
                return False
            self._unread += data
        *lines, rest = self._unread.split(b"\n")
        return not rest and not any(decode(bytes(line)) is not None for line in lines)

    def exchange(
        self,
        request: Mapping[str, Any],
        deadline: float,
        fence: Fence | None,
        on_noise: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Send a request and return its reply, or raise; after an error the worker must not be used again."""
        *noise, self._unread = self._unread.split(b"\n")  # printed after the last reply
        self._remember(b"".join(line + b"\n" for line in noise if line.strip()))
        self._number += 1
        self._on_noise = on_noise
        message = request if self.recipe.decode else {**request, "id": self._number}
        line = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        kill_switch = _KillSwitch(self.child)
        if fence is not None:
            fence.watch(kill_switch.kill)
        try:
            reply = self._converse(memoryview(line), deadline)
        finally:
            kill_switch.end()
            if kill_switch.killed and fence is not None:
                fence.check()
        return reply

    def _converse(self, line: memoryview, deadline: float) -> dict[str, Any]:
        poller = select.poll()
        poller.register(self._stdin, select.POLLOUT)
        poller.register(self._stdout, select.POLLIN)
        poller.register(self._stderr, select.POLLIN)
        stderr_open = True
        while True:
            remaining = deadline - monotonic()
            ready = dict(poller.poll(max(0.0, remaining * 1000))) if remaining > 0 else {}
            if not ready:
                raise self._timed_out()
            if stderr_open and self._stderr in ready:
                stderr_open = self._read_noise(poller)
            if self._stdout in ready:
                reply = self._read_reply()
                if reply is not None:
                    return reply
            if self._stdin in ready:
                line = self._send(line, poller)

    def _send(self, line: memoryview, poller: select.poll) -> memoryview:
        try:
            line = line[os.write(self._stdin, line[:_CHUNK_BYTES]) :]
        except BlockingIOError:
            return line
        except BrokenPipeError:
            line = line[:0]  # reading its output reports the exit
        if not line:
            poller.unregister(self._stdin)
        return line

    def _read_noise(self, poller: select.poll) -> bool:
        data = os.read(self._stderr, _CHUNK_BYTES)
        if not data:
            poller.unregister(self._stderr)
        self._remember(data)
        return bool(data)

    def _remember(self, data: bytes | bytearray) -> None:
        self._noise += data
        del self._noise[:-NOISE_BYTES]

    def _read_reply(self) -> dict[str, Any] | None:
        data = os.read(self._stdout, 1 << 20)
        if not data:
            raise self._exited()
        searched = len(self._unread)
        self._unread += data
        while (end := self._unread.find(b"\n", searched)) >= 0:
            line = bytes(self._unread[:end])
            del self._unread[: end + 1]
            searched = 0
            decode = self.recipe.decode
            reply = _decoded(line, self._number) if decode is None else decode(line)
            if reply is not None:
                return reply
            if line.strip():
                self._remember(line + b"\n")
                self._on_noise()
        if len(self._unread) > REPLY_BYTES:
            raise ToolError(
                "resource_limit",
                f"{self.recipe.label} answered with more than {REPLY_BYTES >> 20} MiB.",
                suggestion="Request less at once.",
            )
        return None

    def _timed_out(self) -> ToolError:
        return ToolError(
            "timeout",
            f"{self.recipe.label} timed out and its process was killed." + self._printed(),
            suggestion="Request less at once, or increase the tool's timeout.",
        )

    def _exited(self) -> ToolError:
        with suppress(OSError, ToolError):
            self.child.wait(1.0)
        outcome = self.child.exit
        if outcome is None:
            how = "closed its output"
        elif outcome.reason == "signal":
            how = f"was killed by signal {outcome.code - 128}"
        else:
            how = f"exited with status {outcome.code}"
        with suppress(BlockingIOError):
            while data := os.read(self._stderr, _CHUNK_BYTES):
                self._remember(data)
        return ToolError(
            "tool_failed",
            f"The process of {self.recipe.label} {how} before it answered.{self._printed()}",
            suggestion="Fix the tool; the next call starts a new process.",
            exit_code=None if outcome is None else outcome.code,
        )

    def _printed(self) -> str:
        text = self._noise.decode("utf-8", "replace").strip()
        return f" It printed: {text}" if text else ""


class _KillSwitch:
    """Kills a process when its call is cancelled; does nothing once the call is over."""

    def __init__(self, child: Child) -> None:
        self.killed = False
        self._lock = threading.Lock()
        self._child: Child | None = child

    def kill(self) -> None:
        """Kill the process if the call is not over."""
        with self._lock:
            if self._child is not None:
                self.killed = True
                self._child.kill()

    def end(self) -> None:
        """Mark the call as over."""
        with self._lock:
            self._child = None


def _start(recipe: Recipe, confine: Confine, fence: Fence | None, seconds: float) -> _Worker:
    from hilt.processes.piped import start_piped

    program = start_piped(recipe.argv, cwd=recipe.cwd, env=recipe.env, confine=confine)
    # drop `confine`: the sandbox is already held, and a reference would keep the call that started the worker alive
    worker = _Worker(recipe._replace(confine=None), program)
    try:
        if recipe.greeting is not None:
            worker.greeting = worker.exchange(recipe.greeting, monotonic() + seconds, fence)
    except BaseException:
        worker.close()
        raise
    return worker


def _decoded(line: bytes, number: int) -> dict[str, Any] | None:
    """Return the reply in a line; None if the line is noise."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return reply if isinstance(reply, dict) and reply.get("id") == number else None


def _close(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.close()
