"""Hand a one-shot call to the resident process, if there is one and it accepts; imports nothing that costs.

What is sent: fields that end with NUL (the protocol, the version, the kind, the working directory, "o:" options and
"e:" the environment), a newline, then standard input as it comes. What comes back: "+" or "-", the replies, and at the
end NUL and the exit status as a digit.
"""

from __future__ import annotations

import os

from hilt import __version__, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

PROTOCOL = "hilt-resident-2"

# what shells change all the time, and no tool looks at
_RESTLESS = (b"_", b"OLDPWD", b"PWD", b"SHLVL")

# the reply when there will be none
LOST = (
    b'{"ok":false,"error":"The resident process ended before it answered; the call may have been carried out.",'
    b'"error_code":"internal","suggestion":"Look at what the call should have changed, then send it again."}\n'
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
    except OSError:
        connection.close()
        return None
    finally:
        if handle is not None:
            os.close(handle)
    return connection


def header(kind: str, options: dict[str, str]) -> bytes:
    """Return what a client says first."""
    fields = [PROTOCOL, __version__, kind, os.getcwd()]
    fields += [f"o:{name}={value}" for name, value in options.items()]
    variables = [b"e:%b=%b" % pair for pair in os.environb.items() if pair[0] not in _RESTLESS]
    return b"\0".join([os.fsencode("\0".join(fields)), *variables]) + b"\0\n"


def try_resident(options: dict[str, str]) -> int | None:
    """Answer standard input through the resident process; None when there is none or it declines."""
    connection = connect(places.state_dir(os.environ))
    if connection is None:
        return None
    try:
        connection.sendall(header("call", options))
        accepted = connection.recv(1)
    except OSError:
        accepted = b""
    if accepted != b"+":
        connection.close()
        return None
    from _thread import start_new_thread

    start_new_thread(_relay, (connection,))
    status = _copy(connection)
    # the relay may still wait for input that nobody will read
    os._exit(status)


def _relay(connection: socket) -> None:
    from _socket import SHUT_WR

    try:
        while chunk := os.read(0, 65536):
            connection.sendall(chunk)
        connection.shutdown(SHUT_WR)
    except OSError:
        return  # the resident is gone; the other direction says so


def _copy(connection: socket) -> int:
    """Copy replies to standard output and return the exit status at their end."""
    held = b""
    while True:
        try:
            chunk = connection.recv(65536)
        except OSError:
            chunk = b""
        if not chunk:
            break
        # no reply holds a NUL, so what comes before one can be shown at once
        text, end, status = (held + chunk).partition(b"\0")
        _write(text)
        held = end + status
    if len(held) == 2 and held[:1] == b"\0":
        return int(held[1:])
    _write(held + LOST)
    return 1


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
