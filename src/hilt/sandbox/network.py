"""Networks of confined programs: a loopback network per session, and a record of its Unix sockets."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.profile import Availability

_ISOLATED = ("--unshare-user", "--unshare-net", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/")


class Loopbacks:
    """A separate network for each session, with only a loopback device.

    It exists as long as we hold its descriptors, or a program runs in it. The record of Unix sockets that programs of
    the session have bound is a file in memory, which connecting.py reads and writes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[int, int]] = {}
        self._records: dict[str, int] = {}

    def enter(self, session: str, available: Availability) -> tuple[int, int]:
        """Return copies of the session's namespace descriptors, user first; the caller closes them."""
        with self._lock:
            if session not in self._open:
                self._open[session] = _make(available)
            user, net = self._open[session]
            return os.dup(user), os.dup(net)

    @contextmanager
    def record(self, session: str) -> Iterator[int]:
        """Yield a descriptor of the session's record."""
        with self._lock:
            if session not in self._records:
                self._records[session] = os.memfd_create("sockets", os.MFD_CLOEXEC)
                fcntl.fcntl(self._records[session], fcntl.F_SETFL, os.O_APPEND)
            record = os.dup(self._records[session])
        try:
            yield record
        finally:
            os.close(record)

    def close(self) -> None:
        """Close all networks."""
        with self._lock:
            descriptors = [*self._records.values(), *(fd for pair in self._open.values() for fd in pair)]
            self._records.clear()
            self._open.clear()
        for fd in descriptors:
            os.close(fd)


def _make(available: Availability) -> tuple[int, int]:
    """Let bubblewrap create the namespaces, and open them before it exits."""
    from hilt.sandbox import spawning

    pid_in, pid_out = os.pipe()
    hold_in, hold_out = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        child = spawning.start(
            (available.program, *_ISOLATED, "--", "/bin/sh", "-c", "echo $$; read -r line"),
            cwd="/",
            env={},
            stdin=hold_in,
            stdout=pid_out,
            stderr=null,
        )
        os.close(pid_out)
        pid_out = -1
        with child:
            pid = os.read(pid_in, 32).strip()
            if not pid.isdigit():
                raise ToolError("sandbox_unavailable", "bubblewrap could not create a network for the session.")
            folder = f"/proc/{int(pid)}/ns/"
            user = os.open(folder + "user", os.O_RDONLY | os.O_CLOEXEC)
            try:
                return user, os.open(folder + "net", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                os.close(user)
                raise
    except OSError as error:
        raise ToolError("sandbox_unavailable", f"Cannot open the session's network: {error.strerror}.") from error
    finally:
        for fd in (pid_in, pid_out, hold_in, hold_out, null):
            if fd >= 0:
                os.close(fd)
