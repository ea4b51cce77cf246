"""A sandbox that waits for the next program, so that the program does not wait for its sandbox.

After a command has ended, bubblewrap is started again with launcher.py as its program: in the same namespaces, with the
same system call filter, on a read-only view of the whole file system with its own /dev and /proc. That takes most of
the time of a start, and depends on no file. Everything that does is left to the command that uses it: its plan is made
as for any other, and mounted by handle in the waiting sandbox (mounting.py). So names that were created or swapped in
the meantime make no difference.

A process has one waiting sandbox at most. It ends when it was not used for a while, when anything is mounted or
unmounted on the system, and with this process.
"""

from __future__ import annotations

import _socket
import marshal
import os
import select
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from hilt import variables
from hilt.errors import ToolError
from hilt.sandbox import keeper, mounting, process
from hilt.sandbox.bubblewrap import memory_file
from hilt.sandbox.process import Child, Confined, Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.mounting import Mount, Overlay

_IDLE_SECONDS = 30.0
# a sandbox is made after this long without a command ending, so not between commands in quick succession
_QUIET_SECONDS = 0.03
_SPARE_PROCESSES = 256  # how far the limit on processes may change, which depends on how many are running
_MAX_MOUNTS = 200  # each takes a descriptor in the process that mounts
FIRST_FD = 3  # the first descriptor that bubblewrap inherits
_LAUNCH = "import sys; sys.path.append(sys.argv[1]); import launcher; launcher.main(int(sys.argv[2]))"


class SandboxTemplate(NamedTuple):
    """What a sandbox has before its program is known: bubblewrap's arguments, the filter, the stage and its mounts."""

    program: str
    arguments: tuple[str, ...]
    program_filter: bytes | None
    stage: bytes
    mounts: tuple[Mount, ...]


class Entry:
    """Starts one program in the waiting sandbox, if that one fits."""

    def __init__(
        self,
        template: SandboxTemplate,
        mounts: list[Mount],
        overlays: list[Overlay],
        variables: Mapping[str, str],
        cwd: str,
    ) -> None:
        """`mounts` and `overlays` complete the template for this program; `variables` are added to its environment."""
        self.is_used = False
        self.limits: Limits | None = None  # of the program, once it was started
        self._template = template
        self._mounts = mounts
        self._overlays = overlays
        self._variables = variables
        self._cwd = cwd

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], streams: tuple[int, int, int], limits: Limits
    ) -> Child | None:
        """Start a program on three descriptors of the caller; None when no suitable sandbox is waiting."""
        self.limits = limits
        self.is_used = False
        arguments, environment = process.encode(argv, {**env, **self._variables, "PWD": self._cwd})
        if len(self._mounts) > _MAX_MOUNTS or (waiting := STANDBY.take(self._template, limits)) is None:
            return None
        launch = marshal.dumps((arguments, environment, process.rlimits(limits), os.fsencode(self._cwd)))
        message = marshal.dumps((self._mounts, self._overlays, launch))
        try:
            child = waiting.enter(argv[0], keeper.framed(message), streams)
        except process.IncompleteSandbox:
            if not self._overlays:  # an overlay can also fail for lack of space
                STANDBY.give_up()
            return None
        self.is_used = child is not None
        return child

    def renew(self) -> None:
        """Prepare a sandbox like this one for the next program, if this one was started."""
        if self.limits is not None:
            STANDBY.renew(self._template, self.limits, self._mounts)


class _Waiting:
    """A sandbox that waits for its program."""

    def __init__(self, template: SandboxTemplate, limits: Limits, last_mounts: list[Mount]) -> None:
        """Prepare as many empty folders as `last_mounts` contains."""
        self.template = template
        # the kernel also limits the processes of its user namespace, to the number at this time
        spare = None if limits.processes is None else limits.processes + _SPARE_PROCESSES
        self._limits = limits._replace(processes=spare)
        # opened before the mounts are copied
        self._table = _open_mount_table()
        with ExitStack() as unless_started, ExitStack() as theirs:
            unless_started.callback(os.close, self._table)
            self._is_ready = self._is_usable = False
            self._desk, desk = _socket.socketpair()
            unless_started.callback(self._desk.close)
            theirs.callback(desk.close)
            self._desk.send(bytes((min(mounting.count_empty(last_mounts), _MAX_MOUNTS),)))
            fds = [memory_file("arguments", b"".join(os.fsencode(argument) + b"\0" for argument in template.arguments))]
            fds.append(memory_file("status", b""))
            if template.program_filter is not None:
                fds.append(memory_file("filter", template.program_filter))
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            for fd in (*fds, null):
                theirs.callback(os.close, fd)
            folder = os.path.dirname(keeper.__file__)
            self.child = process.start(
                [sys.executable, "-I", "-S", "-c", _LAUNCH, folder, str(FIRST_FD + len(fds))],
                cwd="/",
                env=variables.libraries(os.environ),
                stdin=null,
                stdout=null,
                stderr=null,
                limits=self._limits,
                confined=Confined(
                    prefix=(template.program, "--args", str(FIRST_FD), "--"),
                    fds=tuple(fds),
                    mounts=(template.stage, list(template.mounts), []),
                ),
                desk=desk.fileno(),
            )
            unless_started.pop_all()

    def fits(self, template: SandboxTemplate, limits: Limits) -> bool:
        """Whether it fits a program."""
        own_limits = self._limits
        if own_limits.processes is not None and limits.processes is not None:
            if not 0 <= own_limits.processes - limits.processes <= 2 * _SPARE_PROCESSES:
                return False
            own_limits = own_limits._replace(processes=limits.processes)
        return self.template == template and _enforced(own_limits) == _enforced(limits)

    def is_ready(self) -> bool:
        """Whether its setup has ended."""
        if not self._is_ready:
            with suppress(BlockingIOError):
                self._is_usable = bool(self._desk.recv(1, _socket.MSG_DONTWAIT))
                self._is_ready = True
        return self._is_ready

    def is_usable(self) -> bool:
        """Whether it is alive, and nothing was mounted or unmounted since it was made."""
        return self._is_usable and not _has_changed(self._table)

    def enter(self, program: str, message: bytes, streams: tuple[int, int, int]) -> Child | None:
        """Start the program; None when the sandbox has died."""
        with ExitStack() as unless_started:
            unless_started.callback(self.close)
            if not self.child.enter(program, self._desk, message, streams):
                return None
            unless_started.pop_all()
        self._desk.close()
        os.close(self._table)
        return self.child

    def close(self) -> None:
        """End it."""
        self._desk.close()
        os.close(self._table)
        self.child.close()


class Standby:
    """The waiting sandbox of this process. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: _Waiting | None = None
        self._requested: tuple[SandboxTemplate, Limits, list[Mount]] | None = None
        self._useless: list[_Waiting] = []
        self._closed = 0  # how often `close` was called
        self._wake = -1  # of the thread that makes and ends sandboxes; -1 without one
        self._is_supported = True
        self._is_registered = False

    def take(self, template: SandboxTemplate, limits: Limits) -> _Waiting | None:
        """Return the waiting sandbox if it is ready and fits."""
        with self._lock:
            waiting = self._waiting
            if waiting is None or not waiting.fits(template, limits) or not waiting.is_ready():
                return None
            self._waiting = None
            if waiting.is_usable():
                return waiting
            self._useless.append(waiting)
        return None

    def give_up(self) -> None:
        """Make no more sandboxes: this system does not support them."""
        self._is_supported = False

    def renew(self, template: SandboxTemplate, limits: Limits, last_mounts: list[Mount]) -> None:
        """Make a sandbox for programs like the last one, unless one is waiting."""
        with self._lock:
            if not self._is_supported or (self._waiting is not None and self._waiting.fits(template, limits)):
                return
            self._requested = template, limits, last_mounts
            if self._wake >= 0 or self._start_thread():
                os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """End the waiting sandbox."""
        with self._lock:
            self._requested = None
            self._closed += 1
            useless = self._take_useless()
        for waiting in useless:
            waiting.close()

    def _start_thread(self) -> bool:
        if not self._is_registered:
            os.register_at_fork(after_in_child=self._forget)
            self._is_registered = True
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            threading.Thread(target=self._serve, args=(self._wake,), name="hilt-standby", daemon=True).start()
        except RuntimeError:  # too many threads
            os.close(self._wake)
            self._wake = -1
        return self._wake >= 0

    def _serve(self, wake: int) -> None:
        """Make and end sandboxes, until none was requested for a while."""
        table = _open_mount_table()
        endings = select.poll()
        endings.register(wake, select.POLLIN)
        poller = select.poll()
        poller.register(wake, select.POLLIN)
        poller.register(table, select.POLLPRI)
        while True:
            ready = {fd for fd, _ in poller.poll(_IDLE_SECONDS * 1000)}
            if wake in ready:
                os.eventfd_read(wake)
                while endings.poll(_QUIET_SECONDS * 1000):
                    os.eventfd_read(wake)
            with self._lock:
                requested, self._requested = self._requested, None
                closed = self._closed
                keeps_waiting = requested is None and ready and table not in ready
                useless = [] if keeps_waiting else self._take_useless()
                is_over = not ready and requested is None
                if is_over:
                    self._wake = -1
            for waiting in useless:
                waiting.close()
            if is_over:
                os.close(wake)
                os.close(table)
                return
            if requested is not None:
                # the next command retries a failed start, and reports the failure
                with suppress(ToolError, OSError):
                    self._put(_Waiting(*requested), closed)

    def _put(self, waiting: _Waiting, closed: int) -> None:
        """Keep a new sandbox, unless `close` was called since."""
        with self._lock:
            if closed == self._closed:
                self._waiting = waiting
                return
        waiting.close()

    def _take_useless(self) -> list[_Waiting]:
        useless = self._useless + ([] if self._waiting is None else [self._waiting])
        self._useless, self._waiting = [], None
        return useless

    def _forget(self) -> None:
        """After a fork, in the child: the sandbox and its thread belong to the parent."""
        self._lock = threading.Lock()
        self._waiting = self._requested = None
        self._useless = []
        self._wake = -1


STANDBY = Standby()


def _enforced(limits: Limits) -> Limits:
    """Return the limits that a program has from its start; the caller enforces the others."""
    return limits._replace(timeout=None, keep_bytes=0, max_bytes=0)


def _open_mount_table() -> int:
    return os.open("/proc/self/mounts", os.O_RDONLY | os.O_CLOEXEC)


def _has_changed(table: int) -> bool:
    """Whether anything was mounted or unmounted since the table was opened, or since the last call."""
    poller = select.poll()
    poller.register(table, select.POLLPRI)
    return bool(poller.poll(0))
