"""Networks of confined programs: a loopback network per session, and Unix sockets of other programs."""

from __future__ import annotations

import os
import threading

from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.profile import Availability

_ISOLATED = ("--unshare-user", "--unshare-net", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/")
_UNIX_SOCKETS = "/proc/net/unix"


class Loopbacks:
    """A separate network for each session, with only a loopback device.

    It exists as long as we hold its descriptors, or a program runs in it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[int, int]] = {}

    def enter(self, session: str, available: Availability) -> tuple[int, int]:
        """Return copies of the session's namespace descriptors, user first; the caller closes them."""
        with self._lock:
            if session not in self._open:
                self._open[session] = _make(available)
            user, net = self._open[session]
            return os.dup(user), os.dup(net)

    def close(self) -> None:
        """Close all networks."""
        with self._lock:
            descriptors = [fd for pair in self._open.values() for fd in pair]
            self._open.clear()
        for fd in descriptors:
            os.close(fd)


def _make(available: Availability) -> tuple[int, int]:
    """Let bubblewrap create the namespaces, and open them before it exits."""
    from hilt.sandbox import process

    pid_in, pid_out = os.pipe()
    hold_in, hold_out = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        child = process.start(
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


def host_sockets() -> set[str]:
    """Return the paths of Unix sockets outside the sandbox, which can be reached from any network namespace."""
    try:
        with open(_UNIX_SOCKETS, "rb") as file:
            lines = file.read().splitlines()[1:]
    except OSError:
        return set()
    rows = (line.split(None, 7) for line in lines)
    return {os.fsdecode(fields[7]) for fields in rows if len(fields) == 8 and fields[7].startswith(b"/")}
