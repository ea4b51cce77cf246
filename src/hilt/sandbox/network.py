"""Networks of confined programs: what each kind leads to, and those that sessions have of their own.

To add a kind, add its `Network` below and its name to `NetworkName` in params.py; a feature that it needs goes to the
backends that have it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.handles import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.params import NetworkName
    from hilt.sandbox.backend import Feature


class Network(NamedTuple):
    """What a program can connect to.

    `internet`: whatever this machine can reach. `unix`: Unix sockets of its session, and those that the user named;
    without it, only those that it has made. `needs` is the feature that a backend must have. `open` makes the
    namespaces that the programs of a session share: it gets the program of the backend, and returns the user and the
    network namespace. Without it, and without `internet`, each program has a network of its own that leads nowhere.
    """

    name: NetworkName
    internet: bool = False
    unix: bool = False
    needs: Feature | None = None
    open: Callable[[str], tuple[int, int]] | None = None


class SessionNetworks:
    """The networks of sessions, and for each session a record of the Unix sockets that its programs have bound.

    A network exists as long as we hold its descriptors, or a program runs in it. A record is a file in memory, which
    connecting.py reads and writes. Safe to use from many threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[str, NetworkName], tuple[int, int]] = {}
        self._records: dict[str, int] = {}

    def enter(self, session: str, network: Network, program: str) -> tuple[int, ...]:
        """Return copies of the descriptors of the namespaces to enter, in this order; the caller closes them."""
        if network.open is None:
            return ()
        key = session, network.name
        with self._lock:
            if key not in self._open:
                self._open[key] = network.open(program)
            user, net = self._open[key]
            return os.dup(user), os.dup(net)

    @contextmanager
    def record(self, session: str, network: Network) -> Iterator[int]:
        """Yield a descriptor of the session's record; a program that reaches no other has one of its own."""
        with self._lock:
            if not network.unix:
                record = _make_record()
            else:
                if session not in self._records:
                    self._records[session] = _make_record()
                record = os.dup(self._records[session])
        with Closing(record):
            yield record

    def close(self) -> None:
        """Close all networks."""
        with self._lock:
            descriptors = [*self._records.values(), *(fd for pair in self._open.values() for fd in pair)]
            self._records.clear()
            self._open.clear()
        for fd in descriptors:
            os.close(fd)


def _make_record() -> int:
    import fcntl

    record = os.memfd_create("sockets", os.MFD_CLOEXEC)
    fcntl.fcntl(record, fcntl.F_SETFL, os.O_APPEND)
    return record


_ISOLATED = ("--unshare-user", "--unshare-net", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/")


def _open_loopback(program: str) -> tuple[int, int]:
    """Let bubblewrap create namespaces with only a loopback device, and open them before it exits."""
    from hilt.sandbox import spawning

    pid_in, pid_out = os.pipe()
    hold_in, hold_out = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        child = spawning.start(
            (program, *_ISOLATED, "--", "/bin/sh", "-c", "echo $$; read -r line"),
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


NONE = Network("none")
LOOPBACK = Network("loopback", unix=True, needs="loopback", open=_open_loopback)
FULL = Network("full", internet=True, unix=True)
NETWORKS: dict[str, Network] = {network.name: network for network in (NONE, LOOPBACK, FULL)}
