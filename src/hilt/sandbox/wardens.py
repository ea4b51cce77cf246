"""Where hilt gets the wardens of its programs: from the keeper, which serves all runtimes of this process.

`WARDENS` is the only state at module level in the packages that start programs (ADR 0053).
"""

from __future__ import annotations

import _socket
import os
import signal
import sys
import threading
from contextlib import ExitStack, closing, suppress

from hilt import variables
from hilt.errors import ToolError
from hilt.sandbox import keeper
from hilt.sandbox.cgroups import Groups

_START_SECONDS = 20.0  # a program that does not run by then is stuck in the kernel, or the keeper was stopped
_LAUNCH = "import sys; sys.path.append(sys.argv[1]); import keeper; keeper.main()"


class Wardens:
    """The keeper of this process, started on first use, and again if it has died; and the control groups."""

    def __init__(self, patience: float = _START_SECONDS, launch: str = _LAUNCH) -> None:
        """`patience`: how long a program may take to start, in seconds; `launch`: what the keeper runs."""
        self.groups = Groups()
        self.patience = patience
        self._launch_code = launch
        self._lock = threading.Lock()
        self._control: _socket.socket | None = None
        self._pid = 0
        self._registered = False

    def take_channel(self) -> tuple[_socket.socket, int]:
        """Return the channel of a waiting warden, and the process id of its keeper."""
        with self._lock:
            try:
                return self._take(self._control or self._launch()), self._pid
            except (ConnectionError, TimeoutError):
                self._bury()
                return self._take(self._launch()), self._pid

    def _take(self, control: _socket.socket) -> _socket.socket:
        reply, fds = keeper.receive(control, keeper.NEWS_BYTES)
        with ExitStack() as unless_taken:
            for fd in fds:
                unless_taken.callback(os.close, fd)
            # asks for the next warden while this one is used; fails if the keeper is gone
            if not reply or not control.send(b"+"):
                raise ConnectionResetError
            if reply[:1] == keeper.SCARCE:
                number = int.from_bytes(reply[1:], "big")
                raise OSError(number, os.strerror(number))
            unless_taken.pop_all()
        return _socket.socket(fileno=fds[0])

    def discard(self, pid: int) -> None:
        """Discard an unresponsive keeper, unless another thread has done so."""
        with self._lock:
            if pid == self._pid:
                self._bury()

    def _launch(self) -> _socket.socket:
        if not self._registered:
            import atexit

            atexit.register(self._close)
            os.register_at_fork(after_in_child=self._forget)
            self._registered = True
        ours, theirs = _socket.socketpair()
        with ExitStack() as unless_launched, closing(theirs):
            unless_launched.callback(ours.close)
            try:
                self._pid = os.posix_spawn(
                    sys.executable,
                    [sys.executable, "-I", "-S", "-c", self._launch_code, os.path.dirname(keeper.__file__)],
                    variables.libraries(os.environ),
                    file_actions=[
                        (os.POSIX_SPAWN_DUP2, theirs.fileno(), keeper.CONTROL),
                        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                        (os.POSIX_SPAWN_DUP2, 0, 1),
                        (os.POSIX_SPAWN_DUP2, 0, 2),
                    ],
                    # an interrupt from the terminal is for hilt alone
                    setpgroup=0,
                    setsigmask=(),
                    setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
                )
            except FileNotFoundError as error:
                raise ToolError(
                    "runtime_missing", f"The Python interpreter {sys.executable!r} does not exist."
                ) from error
            unless_launched.pop_all()
        ours.settimeout(self.patience)
        ours.send(b"+")
        self._control = ours
        return ours

    def _bury(self) -> None:
        # killed before its socket closes, or it would end the programs of other calls
        with suppress(ChildProcessError):
            # no exit status yet, so the id was not reused
            if os.waitpid(self._pid, os.WNOHANG) == (0, 0):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
        self._close()

    def _close(self) -> None:
        if self._control:
            self._control.close()
        self._control, self._pid = None, 0

    def _forget(self) -> None:
        """After a fork, in the child: the keeper belongs to the parent, and must end when the parent does."""
        self._lock = threading.Lock()
        self._close()


WARDENS = Wardens()
