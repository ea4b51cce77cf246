"""The resident process: answers one-shot calls on a Unix socket without starting anew, until it has been idle long."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Protocol

from tongs import __version__, places, wire
from tongs.call import Call, Result
from tongs.errors import ToolError
from tongs.runtime import Runtime
from tongs.state.locks import held
from tongs.surfaces import handover
from tongs.surfaces.cli import Usage
from tongs.surfaces.oneshot import Writer, answer_all, refusing
from tongs.surfaces.opening import open_runtime

IDLE_SECONDS = 1800
START_SECONDS = 20
HEADER_BYTES = 1024 * 1024
RUNTIMES_MAX = 32
GONE_SECONDS = 0.25
SCARCE_SECONDS = 0.05
TIDY_EVERY_SECONDS = 60

# of /proc/PID/status: a caller that differs in any of these is confined in another way, or is somebody else
_CREDENTIALS = ("Uid", "Gid", "Groups", "Umask", "CapInh", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
_NAMESPACES = ("ipc", "mnt", "net", "pid", "user", "uts")


def resident(options: dict[str, str], words: list[str]) -> int:
    """Run `tongs resident start|stop|status`."""
    match words:
        case ["start"]:
            return _start()
        case ["stop"]:
            return _stop()
        case ["status"]:
            return _status()
        case ["serve"]:
            return Resident(IDLE_SECONDS).run()
        case ["serve", seconds] if seconds.replace(".", "", 1).isdecimal():
            return Resident(float(seconds)).run()
    raise Usage("resident takes start, stop or status")


def start() -> bool:
    """Start the resident process unless there is one; return whether it answers."""
    if ask("status") is not None:
        return True
    null = os.open(os.devnull, os.O_RDWR)
    state = places.state_dir(os.environ)
    places.make_state_dir(state)
    log = os.open(os.path.join(state, "resident.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.posix_spawn(
            sys.executable,
            # with -P nothing is imported from the working directory, which may be hostile
            [sys.executable, "-P", "-m", "tongs", "resident", "serve"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, null, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(null)
        os.close(log)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if ask("status") is not None:
            return True
        time.sleep(0.02)
    return False


def _start() -> int:
    if not start():
        return _refuse(f"the resident process did not start; see {places.state_dir(os.environ)}/resident.log")
    return _status()


def _stop() -> int:
    if ask("stop") is None:
        sys.stdout.write("not running\n")
        return 0
    deadline = time.monotonic() + START_SECONDS
    while ask("status") is not None:
        if time.monotonic() > deadline:
            return _refuse("the resident process did not stop")
        time.sleep(0.02)
    sys.stdout.write("stopped\n")
    return 0


def _refuse(reason: str) -> int:
    sys.stderr.write(f"tongs: {reason}\n")
    return 1


def _status() -> int:
    answer = ask("status")
    sys.stdout.write(f"{answer}\n" if answer is not None else "not running\n")
    return 0 if answer is not None else 1


def ask(kind: str) -> str | None:
    """Return what the resident process answers to "status" or "stop"; None when there is none."""
    connection = handover.connect(places.state_dir(os.environ))
    if connection is None:
        return None
    try:
        connection.sendall(handover.header(kind, {}))
        chunks = []
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    except OSError:
        return None
    finally:
        connection.close()
    answer = b"".join(chunks)
    return answer[1:].decode() if answer.startswith(b"+") else None


class _Stream(wire.Reader, Writer, Protocol):
    """A connection, both ways."""


class Resident:
    """The server: one socket, a thread per caller, a runtime per workspace and settings."""

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._state = places.state_dir(os.environ)
        self._own = _credentials(os.getpid())
        self._lock = threading.Lock()
        self._runtimes: dict[tuple[object, ...], Runtime] = {}  # the one used last is last
        self._users: dict[Runtime, int] = {}  # callers under way
        self._active = 0
        self._answered = 0
        self._last = time.monotonic()
        self._stopping = False
        self._tidied = self._last

    def run(self) -> int:
        """Serve until told to stop, idle, or replaced by another version."""
        places.make_state_dir(self._state)
        os.chdir("/")
        with held(os.path.join(self._state, "resident.lock"), _somebody_else), self._listening() as listener:
            listener.settimeout(0.25)
            while not self._done():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    self._tidy()
                    continue
                except OSError:
                    time.sleep(SCARCE_SECONDS)  # too many files are open, or the caller is gone already
                    continue
                self._welcome(connection)
        for runtime in self._runtimes.values():
            runtime.close()
        return 0

    def _welcome(self, connection: socket.socket) -> None:
        with self._lock:
            self._active += 1
        try:
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        except RuntimeError:  # no more threads: the caller does its work itself
            connection.close()
            with self._lock:
                self._active -= 1

    def _tidy(self) -> None:
        """Use a quiet minute for what calls put off."""
        now = time.monotonic()
        if now - self._tidied > TIDY_EVERY_SECONDS and now - self._last > 1:
            self._tidied = now
            with self._lock:
                runtimes = list(self._runtimes.values())
            for runtime in runtimes:
                runtime.tidy(0.2)

    def _done(self) -> bool:
        with self._lock:
            if self._active:
                return False
            return self._stopping or time.monotonic() - self._last > self._idle

    @contextlib.contextmanager
    def _listening(self) -> Iterator[socket.socket]:
        address, handle = places.socket_address(self._state)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address)  # the lock says that nobody listens there any more
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
                self._answer(connection, stream)
        except OSError:
            return  # the caller went away
        finally:
            with self._lock:
                self._active -= 1
                self._last = time.monotonic()

    def _answer(self, connection: socket.socket, stream: _Stream) -> None:
        fields = _read_header(stream)
        if fields is None or not self._is_like_us(connection):
            stream.write(b"-")
            return
        protocol, version, kind, cwd, *rest = fields
        if kind == "stop" or protocol != handover.PROTOCOL or version != __version__:
            # a newer tongs is there: it starts its own when this one is gone
            self._stopping = True
            stream.write(b"+" if kind == "stop" else b"-")
            return
        if kind == "status":
            stream.write(f"+running: pid {os.getpid()}, version {__version__}, {self._answered} calls".encode())
            return
        options = dict(field[2:].split("=", 1) for field in rest if field.startswith("o:"))
        environ = dict(field[2:].split("=", 1) for field in rest if field.startswith("e:"))
        with contextlib.ExitStack() as stack:
            try:
                runtime = stack.enter_context(self._lent(options, environ, cwd))
            except ToolError as error:
                ask = refusing(error)
            else:
                if runtime.settings["resident"] == "off":
                    stream.write(b"-")  # the settings say so; the caller, which reads none, could not know
                    return
                ask = partial(_ask_for, runtime, connection)
            stream.write(b"+")
            stream.flush()
            status = answer_all(ask, stream, stream)
        with self._lock:
            self._answered += 1
        stream.write(b"\0%d" % status)

    @contextlib.contextmanager
    def _lent(self, options: dict[str, str], environ: dict[str, str], cwd: str) -> Iterator[Runtime]:
        """Yield the runtime for a caller, which nobody closes before the block ends."""
        runtime = self._runtime(options, environ, cwd)
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
        """Return the runtimes that are too many, those longest unused first, and forget them."""
        idle = [key for key, runtime in self._runtimes.items() if runtime not in self._users]
        return [self._runtimes.pop(key) for key in idle[: max(0, len(self._runtimes) - RUNTIMES_MAX)]]

    def _runtime(self, options: dict[str, str], environ: dict[str, str], cwd: str) -> Runtime:
        folder = os.path.join(cwd, options.get("workspace") or places.workspace_dir(environ, cwd))
        key = (
            os.path.realpath(folder),
            tuple(sorted(options.items())),
            tuple(sorted(environ.items())),
            _files(environ, folder),
        )
        with self._lock:
            found = self._runtimes.pop(key, None)
            if found is None:
                found = open_runtime(options, environ, cwd)
            self._runtimes[key] = found
            self._users[found] = self._users.get(found, 0) + 1
        return found

    def _is_like_us(self, connection: socket.socket) -> bool:
        """Whether the caller is the same user, in the same namespaces, confined in the same way."""
        if hasattr(socket, "SO_PEERCRED"):
            import struct

            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            pid, uid, _ = struct.unpack("3i", raw)
            return uid == os.geteuid() and self._own is not None and _credentials(pid) == self._own
        # without peer credentials the folder's mode is what keeps others out
        return os.stat(self._state).st_mode & 0o077 == 0


def _ask_for(runtime: Runtime, connection: socket.socket, call: Call) -> Result:
    """Run a call for a caller, and give it up when the caller is gone: in its own process it would have died too."""
    ended = threading.Event()
    results: list[Result] = []

    def done(result: Result) -> None:
        results.append(result)
        ended.set()

    running = runtime.submit(call, done)
    gone = select.poll()
    gone.register(connection, 0)  # only what is always reported: the other end has closed both ways
    while not ended.wait(min(running.patience(), GONE_SECONDS)):
        if gone.poll(0):
            running.cancel()
        running.time_out_if_late()
    return results[0]


def _files(environ: dict[str, str], folder: str) -> tuple[object, ...]:
    """Return what tells whether the settings files changed: a runtime has its settings frozen."""
    found: list[object] = []
    for path in (os.path.join(places.config_dir(environ), "config.toml"), os.path.join(folder, ".tongs/config.toml")):
        try:
            status = os.stat(path)
            found.append((status.st_size, status.st_mtime_ns, status.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)


def _credentials(pid: int) -> tuple[object, ...] | None:
    """Return what tells one confinement from another; None when it cannot be known."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        spaces = [os.readlink(f"/proc/{pid}/ns/{name}") for name in _NAMESPACES]
        root = os.stat(f"/proc/{pid}/root/")
        return (*(status.get(name) for name in _CREDENTIALS), *spaces, root.st_dev, root.st_ino, _label(pid))
    except OSError:
        return None


def _label(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/attr/current", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _read_header(stream: wire.Reader) -> list[str] | None:
    received = b""
    while not received.endswith(b"\0\n"):
        line = stream.readline(HEADER_BYTES)
        received += line
        if not line or len(received) > HEADER_BYTES:
            return None
    fields = [os.fsdecode(field) for field in received[:-2].split(b"\0")]
    return fields if len(fields) >= 4 else None


def _somebody_else() -> None:
    raise SystemExit("another resident process is already running")
