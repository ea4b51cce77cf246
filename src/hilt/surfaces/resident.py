"""The resident process: answers one-shot calls and MCP hosts on a Unix socket, and exits when idle."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from hilt import __version__, places
from hilt.call import Call, Result
from hilt.desk import jobs, language_servers
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.lazy import Lazy
from hilt.parts import Shared, settings_stamp, share
from hilt.runtime import Runtime
from hilt.surfaces import Usage, handover
from hilt.surfaces.mcp.pipe import OWN
from hilt.surfaces.oneshot import answer_all, refusing
from hilt.surfaces.opening import open_runtime

if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser
    from hilt.surfaces.mcp.call_tasks import CallTasks
    from hilt.surfaces.mcp.command import HostConnection

IDLE_SECONDS = 1800
START_SECONDS = 20
AGAIN_SECONDS = 2
GREETING_SECONDS = 1  # for a caller that does not need an answer
DECLINED = b"-declined"
KINDS = ("call", "end", "jobs", "lsp", "mcp")
HEADER_BYTES = 1024 * 1024
REQUEST_BYTES = 64 * 1024 * 1024
RUNTIMES_MAX = 32
GONE_SECONDS = 0.25
SCARCE_SECONDS = 0.05
POLL_SECONDS = 0.25
WAITING_MAX = 4  # threads that wait for a caller
TIDY_EVERY_SECONDS = 60
SWITCH_SECONDS = 0.001  # between threads, so that a busy caller delays others less
RETIRE_SECONDS = 10  # for MCP hosts to get their answers when this process stops

# lines of /proc/PID/status: a caller that differs in one of these is confined differently, or is another user
_CREDENTIALS = re.compile(rb"^(?:Uid|Gid|Groups|Umask|CapInh|CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):.*", re.MULTILINE)
_NAMESPACES = ("ns/ipc", "ns/mnt", "ns/net", "ns/pid", "ns/user", "ns/uts")


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.details = """The resident process answers one-shot calls without the cost of a start, serves MCP hosts, and
keeps background jobs and language servers. It is started by the first call or host that needs it, and exits after half
an hour without calls and hosts."""
    parser.command("start", "Start the resident process unless it is running", lambda options, arguments: _start())
    parser.command(
        "stop", "Stop the resident process, its jobs and its language servers", lambda options, arguments: _stop()
    )
    parser.command(
        "status", "Show whether the resident process runs; exit status 1 if not", lambda options, arguments: _status()
    )
    parser.commands["stop"].examples = [("hilt resident stop", "Stop it, with its background jobs")]
    serving = parser.command("serve", "Run the resident process", _serve, hidden=True)
    serving.add_argument("seconds", metavar="SECONDS", nargs="?", type=_seconds, default=IDLE_SECONDS)
    parser.examples = [
        ("hilt resident start", "Speed up later calls"),
        ("hilt resident status", "Show its process id and number of jobs"),
    ]


def _seconds(value: str) -> float:
    if not value.replace(".", "", 1).isdecimal():
        raise Usage(f"SECONDS needs a number, not {value!r}")
    return float(value)


def _serve(options: Options, arguments: Namespace) -> int:
    return Resident(arguments.seconds).run()


def start() -> bool:
    """Start the resident process unless there is one; return whether it answers."""
    deadline = time.monotonic() + START_SECONDS
    next_spawn = 0.0
    while not (answer := _exchange("status", {})).startswith(b"+"):
        now = time.monotonic()
        if answer == DECLINED or now > deadline:
            return False
        # a second one exits at once; the first answers soon, or is shutting down and makes room
        if now > next_spawn:
            next_spawn = now + AGAIN_SECONDS
            handover.spawn()
        time.sleep(0.02)
    return True


def _start() -> int:
    if not start():
        return _fail(f"the resident process did not start; see {places.state_dir(os.environ)}/resident.log")
    return _status()


def stop() -> bool:
    """Stop the resident process; return whether there was one."""
    if ask("stop") is None:
        return False
    deadline = time.monotonic() + START_SECONDS
    while ask("status") is not None:
        if time.monotonic() > deadline:
            raise ToolError("busy", "The resident process did not stop.")
        time.sleep(0.02)
    return True


def _stop() -> int:
    sys.stdout.write("stopped\n" if stop() else "not running\n")
    return 0


def _fail(reason: str) -> int:
    sys.stderr.write(f"hilt: {reason}\n")
    return 1


def _status() -> int:
    answer = ask("status")
    sys.stdout.write(f"{answer}\n" if answer is not None else "not running\n")
    return 0 if answer is not None else 1


def ask(kind: str, options: dict[str, str] | None = None) -> str | None:
    """Return the answer of the resident process to "status", "stop" or "end"; None if it is not running."""
    answer = _exchange(kind, options or {})
    return answer[1:].decode() if answer.startswith(b"+") else None


def end_session(options: dict[str, str]) -> int:
    """End the background jobs of a session in the resident process; return how many were running."""
    return int(ask("end", options) or 0)


def hand_over(call: Call, options: dict[str, str]) -> Result:
    """Run a call in the resident process, starting it if necessary."""
    fields = {name: value for name, value in call._asdict().items() if value not in (None, ())}
    answer = _exchange("call", options, json.dumps(fields).encode()) if start() else b""
    reply, end, _ = answer[1:].partition(b"\0")
    if answer.startswith(b"+"):
        return _read_envelope(json.loads(reply if end else handover.LOST))
    error = ToolError(
        "resident_required",
        "The resident process, which keeps background jobs, cannot be reached: it did not start, or it declined the "
        "call because it is confined differently.",
        suggestion="See resident.log in the state directory, or send the call again after: "
        + places.command("resident", "stop"),
    )
    return Result(error=error, id=call.id, request_id=call.request_id)


def ask_jobs(options: dict[str, str], request: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer of the resident process about the jobs of a workspace; None if it is not running."""
    answer = _exchange("jobs", options, json.dumps(request).encode() + b"\n")
    if not answer.startswith(b"+"):
        return None
    fields: dict[str, Any] = json.loads(answer[1:])
    return fields


def connect(options: dict[str, str], *, wake: bool) -> socket.socket | None:
    """Return a connection to the language servers of the resident process; None if it cannot be reached."""
    if wake and not start():
        return None
    connection = handover.connect(places.state_dir(os.environ))
    seconds = START_SECONDS if wake else GREETING_SECONDS
    if connection is None or handover.accepted(connection, "lsp", options, seconds) is None:
        return None
    return socket.socket(fileno=connection.detach())


def _read_envelope(fields: dict[str, Any]) -> Result:
    meta = fields.get("meta", {})
    error = None
    if not fields["ok"]:
        details = meta.pop("details", {})
        error = ToolError(fields["error_code"], fields["error"], suggestion=fields.get("suggestion", ""), **details)
    return Result(
        fields.get("result", ""),
        error=error,
        view=fields.get("visualization"),
        meta=meta,
        content=tuple(fields.get("content", ())),
        classification=fields.get("classification"),
        risk=fields.get("risk"),
        id=fields.get("id"),
        request_id=fields.get("request_id"),
    )


def _exchange(kind: str, options: dict[str, str], request: bytes = b"") -> bytes:
    """Return the answer of the resident process, which begins with "+" or "-"; empty if it is not running."""
    connection = handover.connect(places.state_dir(os.environ))
    if connection is None:
        return b""
    answer = b""
    try:
        connection.sendall(handover.header(kind, options) + request)
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(65536):
            answer += chunk
    except OSError:
        pass  # it has exited; the part that it sent is still valid
    finally:
        connection.close()
    return answer


class Resident:
    """The server: one socket, a thread per caller, a runtime per workspace and settings."""

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._state = places.state_dir(os.environ)
        self._own = _credentials(os.getpid())
        self._lock = threading.Lock()
        self._runtimes: dict[tuple[object, ...], Runtime] = {}  # least recently used first
        self._users: dict[Runtime, int] = {}  # active callers
        # by state directory and workspace, so that a session finds its jobs from any caller
        self._shared: dict[tuple[str, str], Shared] = {}
        self._hosts: dict[HostConnection, Shared] = {}  # MCP hosts
        self._tasks = Lazy(_open_tasks)  # of MCP hosts; those of a named session outlive its connection
        self._active = 0
        self._waiting = 0  # threads that wait for a caller
        self._answered = 0
        self._last = time.monotonic()
        self._stopping = False
        self._ended = False  # by a signal: do not wait for callers
        self._is_closed = threading.Event()  # jobs have ended; until then, it counts as running
        self._tidied = self._last

    def run(self) -> int:
        """Serve until stopped, idle, or replaced by another version."""
        places.make_state_dir(self._state)
        os.chdir("/")
        sys.setswitchinterval(SWITCH_SECONDS)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._end)
        with _only_one(os.path.join(self._state, "resident.lock")):
            with self._listening() as listener:
                self._wait_on_thread(listener)
                while not self._stopping:
                    time.sleep(POLL_SECONDS)
                    self._tidy()
                    self._stop_if_idle()
                if self._ended:
                    self._close_runtimes()
                self._end_jobs()
                self._is_closed.set()
                with contextlib.suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)  # ends the threads that wait
            until = time.monotonic() + (0 if self._ended else RETIRE_SECONDS)
            while self._active:
                self._retire_hosts(at_once=time.monotonic() > until)
                time.sleep(SCARCE_SECONDS)
        self._close_runtimes()
        return 0

    def _end(self, *_: object) -> None:
        self._ended = self._stopping = True

    def _retire_hosts(self, *, at_once: bool) -> None:
        """End the connections of MCP hosts, which reconnect to the next resident process."""
        with self._lock:
            hosts = list(self._hosts)
        for host in hosts:
            if at_once:
                host.front.stop()
            else:
                host.front.retire()

    def _close_runtimes(self) -> None:
        with self._lock:
            runtimes = list(self._runtimes.values())
            self._runtimes.clear()
        for runtime in runtimes:
            runtime.close()

    def _wait_on_thread(self, listener: socket.socket) -> None:
        self._waiting += 1
        threading.Thread(target=self._wait, args=(listener,), daemon=True).start()

    def _wait(self, listener: socket.socket) -> None:
        """Accept callers, and serve each on this thread; another thread waits for the next caller meanwhile."""
        while not self._stopping:
            try:
                connection, _ = listener.accept()
            except OSError:
                time.sleep(SCARCE_SECONDS)  # too many open files, or the caller has disconnected
                continue
            if self._welcome(listener):
                self._serve(connection)
            else:
                self._turn_away(connection)
            with self._lock:
                if self._waiting >= WAITING_MAX:
                    return
                self._waiting += 1

    def _welcome(self, listener: socket.socket) -> bool:
        """Count a caller, and ensure that a thread waits for the next one; False if the caller cannot be served."""
        with self._lock:
            self._waiting -= 1
            if self._stopping:
                return False
            if not self._waiting:
                try:
                    self._wait_on_thread(listener)
                except RuntimeError:  # no more threads
                    self._waiting -= 1
                    return False
            self._active += 1
            return True

    def _turn_away(self, connection: socket.socket) -> None:
        """Make a caller run its call itself; if this process is stopping, only after its jobs have ended."""
        if self._stopping:
            self._is_closed.wait()
        connection.close()

    def _tidy(self) -> None:
        """Do deferred maintenance while there are no calls."""
        now = time.monotonic()
        if now - self._tidied > TIDY_EVERY_SECONDS and now - self._last > 1:
            self._tidied = now
            with self._lock:
                runtimes, shared = list(self._runtimes.values()), list(self._shared.values())
                hosts = list(self._hosts.items())
            for runtime in runtimes:
                runtime.tidy(0.2)
            for host, resources in hosts:
                resources.jobs.touch(host.session)
            for resources in shared:
                jobs.end_idle(resources.jobs)

    def _end_jobs(self) -> None:
        with self._lock:
            shared = list(self._shared.values())
        for resources in shared:
            resources.close()

    def _stop_if_idle(self) -> None:
        with self._lock:
            if self._active:
                return
            if any(shared.jobs.busy for shared in self._shared.values()) or any(
                runtime.parts.runs_agents for runtime in self._runtimes.values()
            ):
                self._last = time.monotonic()  # a caller may still ask for the output of a job
            if time.monotonic() - self._last > self._idle:
                self._stopping = True

    @contextlib.contextmanager
    def _listening(self) -> Iterator[socket.socket]:
        address, handle = places.socket_address(self._state)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address)  # stale: we hold the lock, so nobody listens there
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            mask = os.umask(0o177)
            try:
                listener.bind(address)
            finally:
                os.umask(mask)
            listener.listen(128)
            try:
                yield listener
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(address)
                if handle is not None:
                    os.close(handle)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rwb") as stream:
                self._answer(connection, cast("BinaryIO", stream))
        except OSError:
            return  # the caller has disconnected
        finally:
            with self._lock:
                self._active -= 1
                self._last = time.monotonic()

    def _answer(self, connection: socket.socket, stream: BinaryIO) -> None:
        fields = _read_header(stream)
        if fields is None or not self._has_same_confinement(connection):
            stream.write(DECLINED)
            return
        protocol, version, kind, cwd, *optional = fields
        if kind == "stop" or protocol != handover.PROTOCOL or version != __version__:
            # another version of hilt is installed, and starts its own resident process after this one exits; a host
            # that reconnects does not stop this one, because it may be the older version
            self._stopping = self._stopping or "o:again=on" not in optional
            stream.write(b"+" if kind == "stop" else b"-")
            return
        if kind == "status":
            stream.write(f"+{self._status()}".encode())
            return
        if kind not in KINDS:
            stream.write(b"-")
            return
        options = dict(field[2:].split("=", 1) for field in optional if field.startswith("o:"))
        environ = _with_coerced_locale(dict(field[2:].split("=", 1) for field in optional if field.startswith("e:")))
        shared = self._share(environ, _folder(options, environ, cwd))
        if kind == "jobs":
            stream.write(
                b"+" + json.dumps(jobs.answer_or_error(shared.jobs, json.loads(stream.readline(HEADER_BYTES)))).encode()
            )
            return
        own = {name: options.pop(name) for name in OWN & options.keys()}
        with contextlib.ExitStack() as stack:
            try:
                runtime = stack.enter_context(self._lent(options, environ, cwd, shared))
            except ToolError as error:
                if kind in ("end", "lsp", "mcp"):
                    stream.write(b"+0" if kind == "end" else b"-")  # the caller gets the same error itself
                    return
                ask = refusing(error)
            else:
                if kind == "end":
                    stream.write(b"+%d" % shared.jobs.end_session(runtime.session))
                    return
                if runtime.settings["resident"] == "off":
                    stream.write(b"-")  # the caller has not read the settings
                    return
                if kind == "mcp":
                    stream.write(b"+")
                    stream.flush()
                    self._serve_host(runtime, connection, {**options, **own}, environ, shared)
                    return
                if kind == "lsp":
                    stream.write(b"+")
                    stream.flush()
                    _serve_language_servers(runtime, connection, stream)
                    return
                ask = partial(_run_for_caller, runtime, shared.jobs.touch, connection)
            stream.write(b"+")
            stream.flush()
            status = answer_all(ask, stream, stream)
        with self._lock:
            self._answered += 1
        stream.write(b"\0%d" % status)

    def _serve_host(
        self,
        runtime: Runtime,
        connection: socket.socket,
        options: dict[str, str],
        environ: dict[str, str],
        shared: Shared,
    ) -> None:
        from hilt.surfaces.mcp.command import HostConnection

        host = HostConnection(runtime, connection.fileno(), options, environ, self._tasks())
        with self._lock:
            self._hosts[host] = shared
        try:
            host.run()
        finally:
            with self._lock:
                del self._hosts[host]

    @contextlib.contextmanager
    def _lent(self, options: dict[str, str], environ: dict[str, str], cwd: str, shared: Shared) -> Iterator[Runtime]:
        """Yield the runtime for a caller; it stays open until the block ends."""
        runtime = self._runtime(options, environ, cwd, shared)
        try:
            yield runtime
        finally:
            with self._lock:
                self._users[runtime] -= 1
                if not self._users[runtime]:
                    del self._users[runtime]
                unused = self._take_unused()
            for other in unused:
                other.close()

    def _take_unused(self) -> list[Runtime]:
        """Remove and return the least recently used idle runtimes beyond the limit."""
        idle = [
            key
            for key, runtime in self._runtimes.items()
            if runtime not in self._users and not runtime.parts.runs_agents
        ]
        return [self._runtimes.pop(key) for key in idle[: max(0, len(self._runtimes) - RUNTIMES_MAX)]]

    def _share(self, environ: dict[str, str], folder: str) -> Shared:
        key = places.state_dir(environ), os.path.realpath(folder)
        with self._lock:
            if key not in self._shared:
                self._shared[key] = share(*key)
            return self._shared[key]

    def _status(self) -> str:
        with self._lock:
            running = sum(shared.jobs.running for shared in self._shared.values())
            pools = [shared.language_servers.part for shared in self._shared.values()]
            hosts = len(self._hosts)
        servers = sum(pool.running for pool in pools if pool is not None)
        jobs = f", {running} background job{'s' * (running != 1)}" if running else ""
        warm = f", {servers} language server{'s' * (servers != 1)}" if servers else ""
        served = f", {hosts} MCP host{'s' * (hosts != 1)}" if hosts else ""
        return f"running: pid {os.getpid()}, version {__version__}, {self._answered} calls{jobs}{warm}{served}"

    def _runtime(self, options: dict[str, str], environ: dict[str, str], cwd: str, shared: Shared) -> Runtime:
        folder = _folder(options, environ, cwd)
        key = (
            os.path.realpath(folder),
            tuple(sorted(options.items())),
            tuple(sorted(environ.items())),
            settings_stamp(folder, environ),
        )
        with self._lock:
            runtime = self._runtimes.pop(key, None)
            if runtime is None:
                runtime = open_runtime(options, environ, cwd, shared=shared)
            self._runtimes[key] = runtime
            self._users[runtime] = self._users.get(runtime, 0) + 1
        return runtime

    def _has_same_confinement(self, connection: socket.socket) -> bool:
        """Whether the caller is the same user, in the same namespaces, with the same confinement."""
        if hasattr(socket, "SO_PEERCRED"):
            import struct

            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            pid, uid, _ = struct.unpack("3i", raw)
            return uid == os.geteuid() and self._own is not None and _credentials(pid) == self._own
        # without peer credentials, only the mode of the folder keeps others out
        return os.stat(self._state).st_mode & 0o077 == 0


def _folder(options: dict[str, str], environ: dict[str, str], cwd: str) -> str:
    return os.path.join(cwd, options.get("workspace") or places.workspace_dir(environ, cwd))


def _run_for_caller(runtime: Runtime, use: Callable[[str], None], connection: socket.socket, call: Call) -> Result:
    """Run a call for a caller, and cancel it if the caller disconnects."""
    use(call.session or runtime.session)
    ended = threading.Lock()  # an event costs several locks
    ended.acquire()
    results: list[Result] = []

    def done(result: Result) -> None:
        results.append(result)
        ended.release()

    running = runtime.submit(call, done)
    hangup = select.poll()
    hangup.register(connection, 0)  # only events that are always reported: the peer has closed both directions
    while not ended.acquire(timeout=min(running.patience(), GONE_SECONDS)):
        if hangup.poll(0):
            running.cancel()
        running.time_out_if_late()
    return results[0]


def _serve_language_servers(runtime: Runtime, connection: socket.socket, stream: BinaryIO) -> None:
    """Answer a language server request of another process, and cancel it if that process disconnects."""
    line = stream.readline(REQUEST_BYTES)
    if not line.endswith(b"\n"):
        return
    fence = Fence()
    ended = threading.Event()

    def send(reply: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the caller has disconnected
            stream.write(json.dumps(reply).encode() + b"\n")
            stream.flush()

    def work() -> None:
        try:
            language_servers.answer(
                runtime.parts.session(runtime.session).language_servers(), json.loads(line), fence, send
            )
        finally:
            ended.set()

    threading.Thread(target=work, daemon=True).start()
    hangup = select.poll()
    hangup.register(connection, 0)  # only events that are always reported: the peer has closed both directions
    while not ended.wait(GONE_SECONDS):
        if hangup.poll(0):
            fence.cancel(ToolError("cancelled", "The caller has disconnected."))


def _credentials(pid: int) -> tuple[object, ...] | None:
    """Return a fingerprint of the user and confinement of a process; None if it cannot be read."""
    try:
        process = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = _CREDENTIALS.findall(_read(process, "status"))
        spaces = [os.readlink(name, dir_fd=process) for name in _NAMESPACES]
        root = os.stat("root/", dir_fd=process)
        return (*status, *spaces, root.st_dev, root.st_ino, _label(process))
    except OSError:
        return None
    finally:
        os.close(process)


def _label(process: int) -> bytes:
    try:
        return _read(process, "attr/current")
    except OSError:
        return b""


def _read(folder: int, name: str) -> bytes:
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb", buffering=0) as file:
        return file.readall()


def _with_coerced_locale(environ: dict[str, str]) -> dict[str, str]:
    """Return an environment as a Python process sees it: in the C locale, Python switches to UTF-8 (PEP 538).

    The native client sends its environment unchanged.
    """
    locale = environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    if environ.get("LC_ALL") or environ.get("PYTHONCOERCECLOCALE") == "0" or _is_installed(locale):
        return environ
    return {**environ, "LC_CTYPE": "C.UTF-8"}


@lru_cache(16)
def _is_installed(locale: str) -> bool:
    """Whether this system has a locale, and it is not the C locale."""
    if locale in ("C", "POSIX"):
        return False
    import ctypes

    libc = ctypes.CDLL(None)
    libc.newlocale.restype = ctypes.c_void_p
    libc.freelocale.argtypes = [ctypes.c_void_p]
    locale_object = libc.newlocale(
        2 if sys.platform == "darwin" else 1, os.fsencode(locale), None
    )  # the mask of LC_CTYPE
    if locale_object:
        libc.freelocale(locale_object)
    return bool(locale_object)


def _read_header(stream: BinaryIO) -> list[str] | None:
    received = b""
    while not received.endswith(b"\0\n"):
        line = stream.readline(HEADER_BYTES)
        received += line
        if not line or len(received) > HEADER_BYTES:
            return None
    fields = [os.fsdecode(field) for field in received[:-2].split(b"\0")]
    return fields if len(fields) >= 4 else None


def _open_tasks() -> CallTasks:
    from hilt.surfaces.mcp.call_tasks import CallTasks

    return CallTasks()


@contextlib.contextmanager
def _only_one(path: str) -> Iterator[None]:
    """Hold the lock of a file; exit if another process holds it."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit("another resident process is already running") from None
        yield
