"""Serve the tools to MCP hosts, over standard input and output or over HTTP."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from hilt.runtime import Runtime
from hilt.surfaces import Usage
from hilt.surfaces.mcp.content import Choice
from hilt.surfaces.mcp.pipe import FAREWELL, new_session
from hilt.surfaces.mcp.sessions import Session
from hilt.surfaces.oneshot import die
from hilt.surfaces.opening import open_runtime

if TYPE_CHECKING:
    from hilt.surfaces.mcp.call_tasks import CallTasks
    from hilt.surfaces.mcp.front import Front

START_SECONDS = 2.0  # without garbage collection

_NAME = re.compile("mcp-[0-9a-f]{16}")  # of a session that a pipe proposes
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ServeOptions(NamedTuple):
    """The options of `hilt mcp` itself."""

    http: str | None = None  # the address; empty for the default
    token: bool = True
    search: bool = False
    lean: bool = False


def serve(options: dict[str, str], flags: ServeOptions) -> int:
    """Serve until the client disconnects, or a signal arrives."""
    # imported objects stay alive: garbage collection during imports would take a tenth of the start time
    gc.disable()
    if flags.http is None:
        stop_signal = _serve_stdio(options, flags)
    else:
        from hilt.surfaces.mcp.http import over_http

        with open_runtime(options) as runtime:
            stop_signal = _run(runtime, over_http(runtime, flags, _chosen_session(options)))
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.flush()
    if stop_signal:
        die(stop_signal)
    os._exit(0)  # skip the interpreter's shutdown, which takes as long as a call


def _chosen_session(options: dict[str, str]) -> str | None:
    """Return the session that the user chose for all clients; it outlives this process."""
    return options.get("session") or os.environ.get("HILT_SESSION")


class Wires:
    """Standard input and output, hidden from the rest of the process: prints go to standard error."""

    def __init__(self) -> None:
        try:
            self.input = _move(0, os.open(os.devnull, os.O_RDONLY))
            self.output = _move(1, _print_target())
        except OSError:
            raise Usage("mcp needs standard input and output to be open") from None


def _print_target() -> int:
    """Return a descriptor for prints: standard error, or the null device if that is closed."""
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _move(descriptor: int, replacement: int) -> int:
    """Move a standard stream to a new descriptor, and put the replacement in its place."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    new_descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
    os.dup2(replacement, descriptor)
    os.close(replacement)
    return new_descriptor


def _serve_stdio(options: dict[str, str], flags: ServeOptions) -> int:
    from hilt.surfaces.mcp.front import Front

    wires = Wires()
    chosen = _chosen_session(options)
    session = chosen or new_session()
    options = {**options, "session": session}
    # a client with a named session may reconnect for each call, so only the resident process can keep its jobs
    with open_runtime(options, keeps_jobs=not chosen or os.environ.get("HILT_RESIDENT") == "off") as runtime:
        runtime.watch_deadlines()
        choice = Choice(flags.search, flags.lean)
        front = Front(runtime, choice, Session(session), wires.input, wires.output)
        received = _stopped_by_signals(front)
        timer = threading.Timer(START_SECONDS, _collect_garbage)
        timer.daemon = True
        timer.start()
        front.run()
        runtime.close()
        if chosen is None:
            runtime.end_session(session)
    return received[0] if received else 0


def _collect_garbage() -> None:
    gc.freeze()
    gc.enable()


def _stopped_by_signals(front: Front) -> list[int]:
    """Let signals stop the front loop; return the list of received signals."""
    received: list[int] = []

    def stop(number: int, _: object) -> None:
        received.append(number)
        front.stop()

    for number in _STOP_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)
    return received


def _run(runtime: Runtime, main: Any) -> int:
    """Run until done; return the signal that ended it, or 0."""
    import asyncio

    from hilt.surfaces.event_loop import EndingSignal

    ending = EndingSignal()

    async def guarded() -> None:
        ending.cancel_task()
        runtime.watch_deadlines()
        try:
            await main
        finally:
            runtime.close()

    loop = asyncio.new_event_loop()
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(guarded())
    return ending.number


class HostConnection:
    """A host of a process that serves several hosts, and its session."""

    def __init__(
        self,
        runtime: Runtime,
        descriptor: int,
        options: Mapping[str, str],
        environ: Mapping[str, str],
        tasks: CallTasks,
    ) -> None:
        """Serve a host with these options and this environment on a socket; `tasks` outlive the connection."""
        from hilt.surfaces.mcp.front import Front

        chosen = options.get("session") or environ.get("HILT_SESSION")
        proposed = options.get("connection", "")
        self.session = chosen or (proposed if _NAME.fullmatch(proposed) else new_session())
        self._is_private = chosen is None
        self._runtime = runtime
        self._tasks = tasks
        choice = Choice("search" in options, "lean" in options)
        farewell = FAREWELL if "connection" in options else b""  # only our own pipe understands it
        session = Session(self.session)
        self.front = Front(runtime, choice, session, descriptor, descriptor, farewell=farewell, tasks=tasks)

    def run(self) -> None:
        """Serve until the host disconnects; then end its session, unless the user chose its name."""
        self._runtime.watch_deadlines()
        self.front.run()
        if self._is_private and self.front.is_complete:
            self._tasks.end((self._runtime.parts.id, self.session))
            self._runtime.end_session(self.session)
