"""Starting hilt without the second that the MCP SDK takes: a fork of a process that has imported it.

Run as a program, this file is that process, or the stand-in that a test starts: it hands over its streams, arguments,
environment and folder, passes signals on, and ends as the server does. Only the process id is another. Words such as
`hilt.surfaces.mcp.http:HEAD_SECONDS=2` before the others give a constant of the fork another value.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import sys
from contextlib import suppress

STATUS_BYTES = 64
REQUEST_BYTES = 1 << 17


def launch(path: str, words: list[str]) -> None:
    """Have a server forked, and stand for it until it ends."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    request = marshal.dumps((words, dict(os.environb), os.getcwdb()))
    socket.send_fds(connection, [request], [0, 1, 2])
    os.closerange(0, 3)
    pid = int(connection.recv(STATUS_BYTES))

    def forward(number: int, _: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    status = int(connection.recv(STATUS_BYTES) or -signal.SIGKILL)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def serve(listener: socket.socket) -> list[str]:
    """Fork for each connection until standard input ends; return, in each fork, the arguments."""
    wake, woken = os.pipe()
    for end in (wake, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    while True:
        watched: list[int | socket.socket] = [0, wake, listener, *running.values()]
        ready, _, _ = select.select(watched, [], [])
        if 0 in ready:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        for pid, connection in running.items():
            if connection in ready:  # the stand-in was killed
                os.kill(pid, signal.SIGKILL)
        if wake in ready:
            os.read(wake, 4096)
            _reap(running)
        if listener in ready:
            connection = listener.accept()[0]
            request, streams, _, _ = socket.recv_fds(connection, REQUEST_BYTES, 3)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                words, environ, folder = marshal.loads(request)
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                os.closerange(3, max(listener.fileno(), connection.fileno(), wake, woken, *streams) + 1)
                os.environb.clear()
                os.environb.update(environ)
                os.chdir(folder)
                # the others are pipes, as before
                sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
                return words  # type: ignore[no-any-return]
            for stream in streams:
                os.close(stream)
            running[pid] = connection
            connection.send(str(pid).encode())


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as connection, suppress(OSError):  # the stand-in may be gone
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def main() -> None:
    if sys.argv[1] == "launch":
        launch(sys.argv[2], sys.argv[3:])
    import gc
    import re
    import threading

    listener = socket.socket(fileno=int(sys.argv[2]))
    import hilt.servers.client
    import hilt.servers.results
    import hilt.surfaces.mcp.http
    import hilt.surfaces.mcp.stdio  # noqa: F401
    from hilt.surfaces.cli import main

    assert threading.active_count() == 1
    gc.freeze()
    words = serve(listener)
    while words and (constant := re.fullmatch(r"(hilt[.\w]*):(\w+)=([\d.]+)", words[0])):
        module, name, value = constant.groups()
        assert hasattr(sys.modules[module], name)
        setattr(sys.modules[module], name, float(value))
        del words[0]
    sys.argv = [sys.argv[3], *words]
    sys.exit(main())


if __name__ == "__main__":
    main()
