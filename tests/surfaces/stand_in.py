"""The program that a test starts instead of hilt: it requests a fork, and represents it until the fork ends.

    stand_in.py SOCKET launch|session WORDS...

It passes on its streams, arguments, environment, folder and signals, and ends as the fork does; only the
process id differs. With `session`, the fork leads a session whose terminal is standard input. Only built-in modules
are imported: `os`, `signal` and `socket` would take longer than all the rest.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import marshal
import posix
import sys

STATUS_BYTES = 64


def main() -> None:
    path, mode, *words = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    request = marshal.dumps((words, posix.environ, posix.getcwdb(), mode == "session"))
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    connection.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    posix.closerange(0, 3)
    pid = int(connection.recv(STATUS_BYTES))

    def forward(number: int, _: object) -> None:
        try:
            posix.kill(pid, number)
        except ProcessLookupError:
            return

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    status = int(connection.recv(STATUS_BYTES) or -signal.SIGKILL)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        posix.kill(posix.getpid(), -status)
    posix._exit(status)


if __name__ == "__main__":
    main()
