"""Start the resident process, and hand a one-shot call to it if it accepts; imports nothing expensive (ADR 0033).

The client sends fields terminated by NUL (the protocol, the version, the kind, the working directory, "o:" options and
"e:" environment variables), a newline, then standard input. The server sends "+" or "-", the replies, and at the end
NUL and the exit status as a digit. With the kind "mcp", the lines of an MCP client and its server follow after "+".
native/client.c speaks the same protocol.
"""

from __future__ import annotations

import os
import sys

from hilt import __version__, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

PROTOCOL = "hilt-resident-2"

# variables that shells change all the time and no tool reads
_VOLATILE = (b"_", b"OLDPWD", b"PWD", b"SHLVL")

# the reply if the resident process exits without one
LOST = (
    b'{"ok":false,"error":"The resident process exited before it answered; the call may have run.",'
    b'"error_code":"internal","suggestion":"Check whether the call took effect before you send it again."}\n'
)


def connect(state: str) -> socket | None:
    """Return a socket connected to the resident process, or None."""
    import _socket

    try:
        address, handle = places.socket_address(state)
    except OSError:
        return None
    if not os.path.exists(address):
        if handle is not None:
            os.close(handle)
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(address)
        if _peer_user(connection) == os.geteuid():
            return connection
    except OSError:
        pass  # nobody is listening
    finally:
        if handle is not None:
            os.close(handle)
    connection.close()
    return None


def spawn() -> None:
    """Start the resident process, without waiting for it; a second one exits at once."""
    null = os.open(os.devnull, os.O_RDWR)
    state = places.state_dir(os.environ)
    places.make_state_dir(state)
    log = os.open(os.path.join(state, "resident.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.posix_spawn(
            sys.executable,
            # with -P nothing is imported from the working directory, which may be hostile
            [sys.executable, "-P", "-m", "hilt", "resident", "serve"],
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


def _peer_user(connection: socket) -> int:
    """Return the user id of the process that listens: another user's must not get our environment."""
    import _socket

    # struct ucred on Linux, struct xucred on macOS
    option = (_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12) if sys.platform == "linux" else (0, 1, 76)
    return int.from_bytes(connection.getsockopt(*option)[4:8], sys.byteorder)


def header(kind: str, options: dict[str, str]) -> bytes:
    """Return the header that a client sends first."""
    fields = [PROTOCOL, __version__, kind, os.getcwd()]
    fields += [f"o:{name}={value}" for name, value in options.items()]
    variables = [b"e:%b=%b" % pair for pair in os.environb.items() if pair[0] not in _VOLATILE]
    return b"\0".join([os.fsencode("\0".join(fields)), *variables]) + b"\0\n"


def accepted(connection: socket, kind: str, options: dict[str, str], seconds: float | None = None) -> socket | None:
    """Return the connection if the resident process accepts it, within this time; None if it declines or hangs."""
    try:
        connection.settimeout(seconds)
        connection.sendall(header(kind, options))
        if connection.recv(1) == b"+":
            connection.settimeout(None)
            return connection
    except OSError:
        pass  # it has exited, or hangs
    connection.close()
    return None


def try_resident(options: dict[str, str]) -> int | None:
    """Answer standard input through the resident process; None if it is not running or declines."""
    connection = connect(places.state_dir(os.environ))
    if connection is None or accepted(connection, "call", options) is None:
        return None
    from _socket import SO_RCVTIMEO, SOL_SOCKET
    from _thread import start_new_thread

    # a signal right before recv is noticed only when recv returns, so it returns every second (a struct timeval)
    connection.setsockopt(SOL_SOCKET, SO_RCVTIMEO, (1).to_bytes(8, sys.byteorder) + bytes(8))
    start_new_thread(_relay, (connection,))
    status = _copy(connection)
    # the relay thread may still be waiting for input
    os._exit(status)


def _relay(connection: socket) -> None:
    from _socket import SHUT_WR

    try:
        while chunk := _read():
            connection.sendall(chunk)
        connection.shutdown(SHUT_WR)
    except OSError:
        return  # the resident process has exited; _copy reports it


def _read() -> bytes:
    """Return the next part of standard input; empty at its end, or if it cannot be read."""
    while True:
        try:
            return os.read(0, 65536)
        except BlockingIOError:
            from select import select

            select([0], [], [])
        except OSError:
            return b""


def _copy(connection: socket) -> int:
    """Copy replies to standard output, and return the exit status that follows them."""
    pending = b""
    while True:
        try:
            chunk = connection.recv(65536)
        except BlockingIOError:
            continue
        except OSError:
            chunk = b""
        if not chunk:
            break
        # replies contain no NUL, so everything before one can be written at once
        text, end, status = (pending + chunk).partition(b"\0")
        _write(text)
        pending = end + status
    if len(pending) == 2 and pending[1:].isdigit():
        return int(pending[1:])
    _write(LOST)
    return 1


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
