"""`hilt mcp` as a pipe into the resident process, which serves all hosts of the user; imports nothing expensive.

Standard input is not read until the resident process accepts. If that exits during a session, unanswered requests fail,
and the session continues with a new resident process, or in this process if there is none.
"""

from __future__ import annotations

import os
import select
import time
from _socket import SHUT_WR

from hilt import places
from hilt.surfaces import handover

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Mapping, Sequence
    from typing import Any

START_SECONDS = 5.0  # for the resident process to start
RETRY_SECONDS = 2.0
ACCEPT_SECONDS = 20.0
REPLAY_SECONDS = 30.0
ANSWER_LOST = -32000

# options that belong to the connection, not to its runtime
OWN = frozenset({"search", "lean", "connection", "again"})

FAREWELL = b"\0"  # the last byte from a server that has answered all requests it started; never part of a line

_CHUNK_BYTES = 1 << 16
_SETTINGS_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 20  # in one direction; beyond this, reading pauses
_UNPARSED_BYTES = 1 << 16  # of traffic before it is parsed
TOOLS_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
_LOST = "The resident process exited before it answered; the call may have run."


def main(options: dict[str, str], arguments: Sequence[str]) -> int:
    """Serve one client on standard input and output, through the resident process if it accepts."""
    flags = {argument.removeprefix("--"): "on" for argument in arguments}
    if os.environ.get("HILT_RESIDENT") != "off":
        session = {"connection": new_session()}
        connection = connected({**options, **flags, **session})
        if connection is not None:
            return Pipe(connection, {**options, **flags, **session}).run()
    from hilt.surfaces.mcp.command import ServeOptions, serve

    return serve(options, ServeOptions(search="search" in flags, lean="lean" in flags))


def new_session() -> str:
    """Return the name of a session that ends with its connection."""
    return f"mcp-{os.urandom(8).hex()}"


def connected(options: Mapping[str, str]) -> socket | None:
    """Return a connection that the resident process has accepted, starting it if necessary; None if it declines."""
    state = places.state_dir(os.environ)
    deadline = retry_at = 0.0
    while (connection := handover.connect(state)) is None:
        now = time.monotonic()
        deadline = deadline or now + START_SECONDS
        if now > deadline or (not retry_at and not _may_start(options)):
            return None
        if now > retry_at:  # an earlier one may have been shutting down
            retry_at = now + RETRY_SECONDS
            try:
                handover.spawn()
            except OSError:
                return None
        time.sleep(0.01)
    return handover.accepted(connection, "mcp", dict(options), ACCEPT_SECONDS)


def _may_start(options: Mapping[str, str]) -> bool:
    """Whether the settings allow starting the resident process; they are loaded only if a file mentions it."""
    if os.environ.get("HILT_NESTED"):
        return False  # it would inherit the sandbox of the tool that runs this
    try:
        folder = options.get("workspace") or places.workspace_dir(os.environ, os.getcwd())
    except OSError:
        return False  # the working directory is gone
    for path in (os.path.join(places.config_dir(os.environ), "config.toml"), os.path.join(folder, ".hilt/config.toml")):
        try:
            # a project's may be a pipe, or a link to a device
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if b"resident" in file.read(_SETTINGS_BYTES):
                    break
        except OSError:
            continue
    else:
        return True
    from hilt.errors import ToolError
    from hilt.surfaces.opening import open_runtime

    try:
        with open_runtime({name: options[name] for name in options.keys() - OWN}) as runtime:
            return bool(runtime.settings["resident"] != "off")
    except ToolError:
        return False  # this process reports the error


class Pipe:
    """Copies lines between a host and its server."""

    def __init__(self, connection: socket, options: Mapping[str, str]) -> None:
        self._connection = connection
        self._options = options
        self._to_server = bytearray()
        self._to_client = bytearray()  # complete lines
        self._part = bytearray()  # an incomplete line to the client
        self._ledger = Ledger()
        self._input_ended = False
        self._has_shut_down = False
        self._has_received = True  # since the connection was made
        self._has_farewell = False  # whether the server has answered all requests it started, and exits

    def run(self) -> int:
        """Copy until either side ends; return the exit status."""
        import _signal  # type: ignore[import-not-found]

        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        for descriptor in (1, self._connection.fileno()):
            if is_pipe(descriptor):
                os.set_blocking(descriptor, False)
        while True:
            if self._copy() or not self._reconnect():
                return self._end()

    def _copy(self) -> bool:
        """Copy until the session ends (True), or the server is gone (False)."""
        server = self._connection.fileno()
        while True:
            ready = select.poll()
            if not self._input_ended and len(self._to_server) < _BUFFER_BYTES:
                ready.register(0, select.POLLIN)
            ready.register(1, select.POLLOUT if self._to_client else 0)
            reads = select.POLLIN if len(self._to_client) < _BUFFER_BYTES else 0
            ready.register(server, reads | (select.POLLOUT if self._to_server else 0))
            for descriptor, event in ready.poll():
                if descriptor == 0:
                    self._read_client()
                elif descriptor == 1:
                    if not self._write_client() or (not self._to_client and event & (select.POLLERR | select.POLLHUP)):
                        return True
                elif event & select.POLLOUT and not self._write_server():
                    return False
                elif event & ~select.POLLOUT and not self._read_server():
                    return self._input_ended
            if self._input_ended and not self._to_server and not self._has_shut_down:
                self._has_shut_down = True
                try:
                    self._connection.shutdown(SHUT_WR)
                except OSError:
                    continue  # the server has exited; reading reports it

    def _read_client(self) -> None:
        data = self._read_input()
        self._to_server += data
        self._ledger.sent(data)

    def _read_input(self) -> bytes:
        try:
            data = os.read(0, _CHUNK_BYTES)
        except OSError:
            data = b""
        self._input_ended = not data
        return data

    def _write_server(self) -> bool:
        try:
            del self._to_server[: self._connection.send(self._to_server)]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def _read_server(self) -> bool:
        try:
            data = self._connection.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            return False
        if data.endswith(FAREWELL):
            self._has_farewell = True
            data = data[:-1]
        # only complete lines, so that none is cut off if the server exits
        lines, end, rest = (data if b"\n" in data else b"").rpartition(b"\n")
        if end:
            self._has_received = True
            self._ledger.received(self._part + lines + end)
            self._to_client += self._part + lines + end
            self._part = bytearray(rest)
        else:
            self._part += data
        return True

    def _write_client(self) -> bool:
        try:
            while self._to_client:
                del self._to_client[: os.write(1, self._to_client[:_CHUNK_BYTES])]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def _end(self) -> int:
        """Write the remaining output as long as the client reads it, and exit."""
        ready = select.poll()
        ready.register(1, select.POLLOUT)
        while self._to_client and ready.poll(1000) and self._write_client():
            pass
        os._exit(0)  # skip the interpreter's shutdown, which takes longer than the rest

    # --- when the server is gone ----------------------------------------------------------------------------------

    def _reconnect(self) -> bool:
        """Continue the session with another server once there is something to send; return False at its end.

        Requests that the last server may have started fail.
        """
        self._connection.close()
        self._part.clear()
        self._to_server.clear()
        unanswered = self._ledger.unanswered(forget=not self._has_farewell)
        if not self._has_farewell:
            self._to_client += b"".join(_lost_response(id) for id, _ in unanswered)
            unanswered = []
        new_input = b"" if unanswered else self._next_bytes()
        if not self._has_received or not (unanswered or new_input):
            return False
        # `again` keeps a resident process of another version from exiting for this one
        connection = connected({**self._options, "again": "on"}) or _served_here(self._options)
        connection.settimeout(REPLAY_SECONDS)
        handshake = [line for line in self._ledger.handshake if all(line != other for _, other in unanswered)]
        try:
            for line in handshake:
                connection.sendall(line)
            while handshake and connection.recv(1) not in (b"", b"\n"):
                pass  # the client already has this response
        except OSError:
            return False
        connection.settimeout(0)
        self._connection = connection
        # a batch is one line of several requests
        self._to_server += b"".join(dict.fromkeys(line for _, line in unanswered)) + self._ledger.part + new_input
        self._ledger.sent(new_input)
        if handshake:
            self._to_client += TOOLS_CHANGED  # the tools may have changed in the meantime
        self._has_received, self._has_farewell = bool(handshake), False
        return True

    def _next_bytes(self) -> bytes:
        """Wait for input from the client and return it; empty at the end of the input."""
        while not self._input_ended:
            ready = select.poll()
            ready.register(0, select.POLLIN)
            ready.register(1, select.POLLOUT if self._to_client else 0)
            for descriptor, _ in ready.poll():
                if descriptor == 0:
                    return self._read_input()
                if not self._to_client or not self._write_client():
                    return b""
        return b""


class Ledger:
    """Tracks the handshake of a session, and the client's unanswered requests.

    Traffic is parsed in blocks, or on demand: most sessions are too short to need the parser.
    """

    def __init__(self) -> None:
        self.handshake: list[bytes] = []  # the lines that a new server needs first
        self._unparsed: list[tuple[bool, bytes]] = []  # whether the client sent it, and the data
        self._size = 0
        self._sent = bytearray()  # an incomplete line from the client
        self._unanswered: dict[str, tuple[Any, bytes]] = {}  # ids and lines, by type and id

    @property
    def part(self) -> bytes:
        """The beginning of a line whose end the client has not sent."""
        return bytes(self._sent)

    def sent(self, data: bytes) -> None:
        """Record bytes from the client."""
        self._record(True, data)  # noqa: FBT003 -- a private function with one other caller

    def received(self, data: bytes | bytearray) -> None:
        """Record lines from the server."""
        self._record(False, bytes(data))  # noqa: FBT003 -- a private function with one other caller

    def _record(self, by_client: bool, data: bytes) -> None:
        self._unparsed.append((by_client, data))
        self._size += len(data)
        if self._size > _UNPARSED_BYTES:
            self._parse()

    def unanswered(self, *, forget: bool) -> list[tuple[Any, bytes]]:
        """Return the ids and lines of unanswered requests."""
        self._parse()
        unanswered = list(self._unanswered.values())
        if forget:
            self._unanswered.clear()
        return unanswered

    def _parse(self) -> None:
        import json

        for by_client, data in self._unparsed:
            if not by_client:
                lines = data.split(b"\n")
            else:
                *lines, rest = (bytes(self._sent) + data).split(b"\n")
                self._sent = bytearray(rest)
            for line in lines:
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError):
                    continue  # the server answers it, without an id
                for part in message if isinstance(message, list) else [message]:
                    if isinstance(part, dict):
                        self._track(by_client, part, line)
        self._unparsed.clear()
        self._size = 0

    def _track(self, by_client: bool, message: Mapping[str, Any], line: bytes) -> None:
        id, method = message.get("id"), message.get("method")
        key = f"{type(id).__name__} {id}"
        if not by_client:
            if method is None:
                self._unanswered.pop(key, None)
        elif method == "initialize":
            self.handshake = [line + b"\n"]
            self._unanswered[key] = id, line + b"\n"
        elif method == "notifications/initialized":
            self.handshake.append(line + b"\n")
        elif method == "notifications/cancelled":
            params = message.get("params")
            cancelled = params.get("requestId") if isinstance(params, dict) else None
            self._unanswered.pop(f"{type(cancelled).__name__} {cancelled}", None)
        elif method is not None and isinstance(id, int | str):
            self._unanswered[key] = id, line + b"\n"


def _served_here(options: Mapping[str, str]) -> socket:
    """Return a connection to a server in this process."""
    import socket
    import threading

    from hilt.surfaces.mcp.call_tasks import CallTasks
    from hilt.surfaces.mcp.command import HostConnection
    from hilt.surfaces.opening import open_runtime

    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs, open_runtime({name: options[name] for name in options.keys() - OWN}) as runtime:
            HostConnection(runtime, theirs.fileno(), options, os.environ, CallTasks()).run()

    threading.Thread(target=serve, daemon=True).start()
    return ours


def _lost_response(id: Any) -> bytes:
    import json

    failure = {"code": ANSWER_LOST, "message": _LOST}
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": failure}).encode() + b"\n"


def is_pipe(descriptor: int) -> bool:
    """Whether a descriptor is a pipe or socket."""
    import stat

    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
