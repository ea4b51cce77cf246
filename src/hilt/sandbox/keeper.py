"""The keeper: a small process that starts every child of hilt, and ends it together with all its descendants.

hilt is threaded, and between fork and exec a threaded process may do next to nothing. So it has one single-threaded
interpreter that forks on its behalf. There, plain fork and exec are safe, and can do what posix_spawn cannot: enter a
directory by descriptor and set limits.

    hilt ── keeper ─┬─ warden ── program ── its descendants
                     └─ warden ── program ── its descendants

A warden guards one program and is a sub-reaper: processes that the program leaves behind by setsid, by a double fork or
by the death of a parent become the warden's own children. So everything has ended exactly when the warden has no child
to wait for. It kills its children, whose ids cannot be reused before it has reaped them, with their process groups,
which the kernel signals atomically with respect to fork. Orphans of killed processes become its children and die in
the next pass. Passes over the whole tree follow, for programs that keep creating processes and sessions.

One warden is always ready, with its program forked and waiting for a request, so that no command waits for a fork. hilt
talks to each warden over a separate socket. When that closes, because hilt closed it or was killed, the warden ends its
program. When the keeper dies, the wardens continue. When a warden dies, its processes become children of the keeper,
which kills every child that is not a warden.

Without sub-reapers (macOS) descendants are found by parent and by process group, through ps. A process that has left
both before its program ends is not found there.

This module runs alone in the keeper, and the first command of every one-shot call waits for its imports. So it imports
only mounting.py from hilt, and `_socket` and `_signal` instead of the modules that wrap them, whose enums add half the
startup time of the bare interpreter.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket
import gc
import marshal
import os
import select
import sys
from errno import ENOENT, ENOMEM
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import NoReturn

    from hilt.sandbox.meter import Meter

    Prctl = Callable[[int, int | bytes], object]

# the keeper's end of the control socket: it answers every byte with READY and the channel of a new warden, or with
# SCARCE and the error number
CONTROL = 3
READY, SCARCE = b"+", b"-"

# warden to hilt, each followed by a number
HELLO, STARTED, REFUSED, EXITED, ENDED, EXCEEDED = b"h", b"s", b"r", b"x", b"e", b"m"
NEWS_BYTES = 5
# hilt to warden
TERMINATE, KILL = b"t", b"k"

# `pkill python` in a command must not end its warden
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

_RETRY_SECONDS = 0.02  # between two passes of killing, when nothing died in between
# Passes over the children catch programs that fork and exit; passes over the tree catch those that fork and stay. So
# most passes are of the first kind, and the second are repeated until they find nothing new, up to a maximum.
_TURNS, _TREE_TURN, _TREE_PASSES = 8, 4, 20

_MEASURE_SECONDS = 2.0  # maximum time until the memory of a program is first measured
_BYTES_PER_SECOND = 2 << 30  # of memory that one CPU can fill

# requests for a warden before modules are preloaded: the first program causes two, and most processes start only one
_PRELOAD_REQUESTS = 3

_SUB_REAPER = sys.platform == "linux"
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 15, 36, 38
_SECCOMP = {"x86_64": 317}  # the number of the system call, 277 elsewhere
_NEW_LISTENER = 8
_NETLINK_SOCK_DIAG = 4
_CONNECTING_FDS = 3  # for connecting.py
_LANDLOCK_RESTRICT_SELF = 446  # the number of the system call, the same on every architecture
# for capset: its header (version 3, this process), and effective, permitted and inheritable sets of 64 bits each
_NO_CAPABILITIES = 0x20080522.to_bytes(4, sys.byteorder) + bytes(4), bytes(24)
_FDS_MAX = 64  # descriptors that come with a request


def news(kind: bytes, number: int = 0) -> bytes:
    """Return a message from a warden to hilt."""
    return kind + number.to_bytes(NEWS_BYTES - 1, "big")


def framed(body: bytes) -> bytes:
    """Return a message with its length, as `receive_body` expects it."""
    return len(body).to_bytes(4, "big") + body


def pack_fds(*fds: int) -> list[tuple[int, int, bytes]]:
    """Return descriptors as the ancillary data of a message."""
    return [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds))]


def main() -> None:
    """Serve until hilt closes the control socket, then end everything."""
    for name in os.listdir("/dev/fd"):
        if int(name) > CONTROL:
            _attempt(os.close, int(name))
    os.set_inheritable(CONTROL, False)  # noqa: FBT003 -- takes no keyword
    os.chdir("/")
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # garbage collection would write to every page that the wardens share
    gc.disable()
    prctl = _load_prctl()
    prctl(_PR_SET_NAME, b"hilt-keeper")
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _serve(_socket.socket(fileno=CONTROL), prctl)
    # without sub-reapers the wardens end everything: hilt has closed their sockets too
    if _SUB_REAPER:
        _end_children()


def _serve(control: _socket.socket, prctl: Prctl) -> None:
    wake = _wake_on_child_exit()
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(wake, select.POLLIN)
    wardens: set[int] = set()
    killer = _Killer(sparing=wardens)
    strays = False
    requests = 0
    while True:
        ready = {fd for fd, _ in poller.poll(_RETRY_SECONDS * 1000 if strays else None)}
        if control.fileno() in ready:
            orders = receive(control, 64)[0]
            if not orders:
                return
            for _ in orders:
                warden = _ready_warden(control, wake, prctl)
                if warden:
                    wardens.add(warden)
            requests += len(orders)
            if requests >= _PRELOAD_REQUESTS > requests - len(orders):
                _import_for_wardens()
        if wake in ready:
            os.read(wake, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                break
            if not pid:
                break
            if os.WIFSTOPPED(status):
                # a warden must not stay stopped
                _attempt(os.kill, pid, signal.SIGCONT)
                continue
            # a warden exits with 0 when it has nothing left to guard
            strays = strays or status != 0 or pid not in wardens
            wardens.discard(pid)
        if strays:
            strays = killer.run_pass()


def _import_for_wardens() -> None:
    """Import what a program needs before it starts, so that later wardens inherit it."""
    try:
        import fcntl  # noqa: F401
        import resource  # noqa: F401

        import mounting  # type: ignore[import-not-found]

        mounting.prepare()
    except ImportError:
        return  # reported when a program needs it


def _ready_warden(control: _socket.socket, wake: int, prctl: Prctl) -> int:
    """Fork a warden and send hilt its channel; return 0 when that fails."""
    channel = theirs = None
    try:
        channel, theirs = _socket.socketpair()
        warden = os.fork()
    except OSError as error:
        _attempt(control.send, news(SCARCE, error.errno or 0))
        warden = 0
    else:
        if warden == 0:
            try:
                os.close(wake)
                control.close()
                theirs.close()
                _Warden(channel, prctl).guard()
            finally:
                os._exit(1)
        _attempt(control.sendmsg, [news(READY)], pack_fds(theirs.fileno()))
    for end in (channel, theirs):
        if end:
            end.close()
    return warden


class _Warden:
    """Guards one program: starts it, reports its exit, ends its descendants."""

    def __init__(self, channel: _socket.socket, prctl: Prctl) -> None:
        self._channel = channel
        self._prctl = prctl
        self._program = 0
        self._has_terms = False
        self._settle = self._grace = 0.0
        self._shielded = False
        self._asks: tuple[tuple[int, ...], tuple[str, ...]]
        self._memory = 0
        self._meter: Meter | None = None
        self._measure_at = float("inf")
        self._terminate_at = self._kill_at = float("inf")
        self._killer = _Killer()

    def guard(self) -> NoReturn:
        """Fork the program that hilt requests, and exit when it and its descendants have ended."""
        self._prctl(_PR_SET_NAME, b"hilt-warden")
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1)
        wake = _wake_on_child_exit()
        # until it gets this message, hilt knows that nothing was started and may ask another keeper
        self._tell(HELLO, os.getpid())
        terms = self._fork()
        poller = select.poll()
        poller.register(wake, select.POLLIN)
        poller.register(terms, select.POLLIN)
        while True:
            progress = self._reap()
            now = monotonic()
            if now >= self._measure_at:
                self._measure(now)
            if now >= self._terminate_at:
                self._terminate_at = float("inf")
                self._kill_at = min(self._kill_at, now + self._grace)
                self._terminate()
            if now >= self._kill_at:
                self._killer.run_pass(self._program)
                # processes that fork and exit can be caught only without a pause
                wait = 0.0 if progress else _RETRY_SECONDS
            else:
                wait = max(0.0, min(self._terminate_at, self._kill_at, self._measure_at) - now)
            for fd, _ in poller.poll(None if wait == float("inf") else wait * 1000):
                if fd == wake:
                    os.read(wake, 4096)
                elif fd == terms.fileno():
                    data, sent = receive(terms, 256)
                    if data and not self._has_terms:
                        self._accept(data)
                        # the program has read its request: from now on the channel carries orders
                        poller.register(self._channel, select.POLLIN)
                    if len(sent) == _CONNECTING_FDS:
                        import connecting  # type: ignore[import-not-found]

                        connecting.start(*self._asks, *sent)
                    if not data:
                        poller.unregister(terms)
                else:
                    self._obey(poller)

    def _accept(self, terms: bytes) -> None:
        """Take over the warden's part of the request."""
        self._has_terms = True
        (self._settle, self._grace, self._shielded, self._memory, self._asks) = marshal.loads(terms)  # noqa: S302 -- our own fork
        if self._memory and _SUB_REAPER:
            # the limit cannot be reached sooner
            self._measure_at = monotonic() + min(self._memory / _fill_rate(), _MEASURE_SECONDS)

    def _fork(self) -> _socket.socket:
        """Fork the program; return the socket on which it sends the warden's part of the request."""
        warden = os.getpid()
        terms, theirs = _socket.socketpair()
        try:
            self._program = os.fork()
        except OSError as error:
            self._tell(REFUSED, error.errno or 0)
            os._exit(0)
        if self._program == 0:
            try:
                # the program dies even when hilt, keeper and warden are all killed at once
                self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == warden:
                    self._become_requested(warden, theirs)
            finally:
                os._exit(1)
        theirs.close()
        return terms

    def _become_requested(self, warden: int, terms: _socket.socket) -> None:
        """Read a request, and become the program.

        The descriptors sent with it are stdin, stdout, stderr, cwd and fault, then `fd_count` that the program gets as
        3 and up, then the namespaces to enter, then at most one Landlock ruleset, then with `asks` the record of bound
        sockets, then if `grouped` the `cgroup.procs` file of a control group. With `tty`, stdin becomes the controlling
        terminal. A `shielded` program is a sandbox: SIGTERM goes only to its descendants, because they would die with
        it. A `trusted` program keeps its capabilities under a ruleset (root needs them to read files of others), and
        follows no links from its folder. mounting.py performs `mounts`. `program_filter` is a seccomp filter. The
        program is ended when its processes use more than `memory` bytes together, unless that is 0. `asks` are a
        seccomp filter, and numbers and paths for connecting.py.
        """
        import mounting  # imported while waiting for the request

        body, fds = receive_body(self._channel)
        if not body:
            return
        fields = marshal.loads(body)  # noqa: S302 -- hilt
        argv, env, rlimits, settle, grace, tty, fd_count, namespace_count, shielded, mounts, memory, *flags = fields
        grouped, trusted, program_filter, asks = flags
        entrance = fds.pop() if grouped else -1
        record = fds.pop() if asks else -1
        terms.send(marshal.dumps((settle, grace, shielded, memory, asks[1:] if asks else ())))
        # sent from here, because the program may kill the warden before the warden's next step
        self._tell(STARTED, os.getpid())
        *streams, cwd, fault = fds[:5]
        inherited, entered, rulesets = (
            fds[5 : 5 + fd_count],
            fds[5 + fd_count : 5 + fd_count + namespace_count],
            fds[5 + fd_count + namespace_count :],
        )
        step = "start"
        try:
            os.setsid()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            if tty:
                _take_terminal()
            step = "cwd"
            os.fchdir(cwd)
            for signal_number in _IGNORED + _IGNORED_BY_PYTHON:
                signal.signal(signal_number, signal.SIG_DFL)
            if grouped:
                step = "group"
                os.write(entrance, b"0")
            step = "limits"
            limit(rlimits)
            step = "confinement"
            _enter(entered)
            if mounts:
                mounting.carry_out(*mounts)
            diagnosis = None
            if asks:
                diagnosis = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
            if trusted:
                mounting.follow_no_links()
            if entered or mounts or trusted:
                # entering a user namespace resets it
                self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != warden:
                    return
            for ruleset in rulesets:
                _restrict(ruleset, trusted)
            if program_filter:
                _filter(program_filter)
            if asks and diagnosis:
                terms.sendmsg([b"."], pack_fds(_filter(asks[0], _NEW_LISTENER), diagnosis.fileno(), record))
            step = "start"
            fault = _inherit(inherited, fault)
            step = "exec"
            _execute(argv, env)
        except OSError as error:
            os.write(fault, marshal.dumps((step, error.errno or 0)))
        except MemoryError:
            os.write(fault, marshal.dumps((step, ENOMEM)))

    def _reap(self) -> bool:
        """Reap children and return whether there were any; exit when none are left."""
        progress = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                if _SUB_REAPER or not _descendants(self._program):
                    self._tell(ENDED)
                    os._exit(0)
                return progress
            if not pid:
                return progress
            progress = True
            if pid == self._program:
                self._tell(EXITED, status)
                self._terminate_at = min(self._terminate_at, monotonic() + self._settle)

    def _measure(self, now: float) -> None:
        """Measure the memory of all guarded processes, and end them above the limit."""
        if self._meter is None:
            # imported late: most commands end before it is needed
            from meter import Meter  # type: ignore[import-not-found]

            self._meter = Meter(self._memory, _fill_rate(), lambda: [pid for pid, _, _ in _descendants()])
        used, pause = self._meter.measure()
        self._measure_at = now + pause
        if used and self._kill_at > now:
            # sent before the message about the end
            self._tell(EXCEEDED, min(used >> 10, 0xFFFFFFFF))
            self._kill_at = now
            self._measure_at = float("inf")

    def _terminate(self) -> None:
        if self._shielded:
            tree = _descendants(self._program)
            _signal_each([process for process in tree if process[0] != self._program], signal.SIGTERM, signal.SIGCONT)
            return
        for group in _groups(_descendants(self._program)):
            _attempt(os.killpg, group, signal.SIGTERM)
            # a stopped process handles no signal but SIGKILL until it continues
            _attempt(os.killpg, group, signal.SIGCONT)

    def _obey(self, poller: select.poll) -> None:
        try:
            order = self._channel.recv(1)
        except ConnectionError:
            order = b""
        if order == TERMINATE:
            self._terminate_at = 0.0
        else:
            self._kill_at = 0.0
        if not order:
            poller.unregister(self._channel)

    def _tell(self, kind: bytes, number: int = 0) -> None:
        _attempt(self._channel.send, news(kind, number))


def _fill_rate() -> int:
    """Return how many bytes of memory the CPUs can fill per second."""
    return _BYTES_PER_SECOND * (os.cpu_count() or 1)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _enter(namespaces: list[int]) -> None:
    for namespace in namespaces:
        _call_kernel("setns", namespace, 0)


def _restrict(ruleset: int, trusted: bool) -> None:
    _call_kernel("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call_kernel("syscall", _LANDLOCK_RESTRICT_SELF, ruleset, 0)
    if not trusted:
        # Landlock restricts only files, so root's capabilities are dropped; with no_new_privs they cannot be regained
        _call_kernel("capset", *_NO_CAPABILITIES)


def _filter(program: bytes, flags: int = 0) -> int:
    """Filter the system calls of this process and those that it starts; return the listener, if flags ask for one."""
    import ctypes

    steps = ctypes.create_string_buffer(program, len(program))
    words = len(program) // 8, ctypes.addressof(steps)
    _call_kernel("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    number = _SECCOMP.get(os.uname().machine, 277)
    return _call_kernel("syscall", number, 1, flags, b"".join(word.to_bytes(8, sys.byteorder) for word in words))


def _call_kernel(name: str, *arguments: int | bytes) -> int:
    import ctypes

    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    words = (argument if isinstance(argument, bytes) else ctypes.c_long(argument) for argument in arguments)
    outcome: int = function(*words)
    if outcome < 0:
        raise OSError(ctypes.get_errno(), name)
    return outcome


def _inherit(fds: list[int], fault: int) -> int:
    """Give the program these descriptors as 3 and up; return the one for faults, which may have moved."""
    if not fds:
        return fault
    import fcntl

    first = 3 + len(fds)
    fault, *moved = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, first) for fd in (fault, *fds))
    for number, fd in enumerate(moved, 3):
        os.dup2(fd, number)
    return fault


def limit(rlimits: dict[int, int]) -> None:
    """Set the limits of this process, as far as permitted."""
    if rlimits:
        import resource

        for kind, maximum in rlimits.items():
            hard = resource.getrlimit(kind)[1]
            if hard != resource.RLIM_INFINITY:
                maximum = min(maximum, hard)
            resource.setrlimit(kind, (maximum, maximum))


def _execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    program = argv[0]
    if b"/" in program:
        os.execve(program, argv, env)  # noqa: S606 -- no shell on purpose
    refusal = OSError(ENOENT, "")
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        # a relative entry would let the workspace provide the program
        if folder.startswith(b"/"):
            path = folder + b"/" + program
            try:
                os.execve(path, argv, env)  # noqa: S606 -- no shell on purpose
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError as error:
                # otherwise the folder is inaccessible
                if os.access(path, os.F_OK):
                    refusal = error
    raise refusal


class _Killer:
    """Kills all descendants of this process, in passes; the caller reaps them."""

    def __init__(self, sparing: Collection[int] = ()) -> None:
        self._sparing = sparing
        self._passes = 0

    def run_pass(self, program: int = 0) -> bool:
        """Make one pass; return whether there was anything to kill."""
        if not _SUB_REAPER:
            groups = _groups(_descendants(program, self._sparing))
            for group in groups:
                _attempt(os.killpg, group, signal.SIGKILL)
            return bool(groups)
        self._passes += 1
        if self._passes % _TURNS == _TREE_TURN:
            self._kill_tree()
        children = [pid for pid in _children() if pid not in self._sparing]
        for pid in children:
            group = os.getpgid(pid)
            # between fork and setsid a program is still in the keeper's process group
            if group == os.getpgrp():
                os.kill(pid, signal.SIGKILL)
            else:
                _attempt(os.killpg, group, signal.SIGKILL)
        return bool(children)

    def _kill_tree(self) -> None:
        """Kill every descendant before any is reaped: zombies still count towards a limit on processes."""
        struck: set[int] = set()
        for _ in range(_TREE_PASSES):
            tree = _descendants(sparing=self._sparing)
            if struck.issuperset(pid for pid, _, _ in tree):
                return
            struck.update(pid for pid, _, _ in tree)
            _signal_each(tree, signal.SIGKILL)


def _signal_each(tree: list[tuple[int, int, int]], *signals: int) -> None:
    """Send signals to descendants of this process, as just listed."""
    parents = {os.getpid(), *(parent for _, parent, _ in tree), *(pid for pid, _, _ in tree)}
    for pid, _, _ in tree:
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        # the id may have been reused since it was listed; the handle stays valid
        stat = _stat(pid)
        if stat and stat[0] in parents:
            for number in signals:
                _attempt(signal.pidfd_send_signal, handle, number)
        os.close(handle)


def _end_children() -> None:
    killer = _Killer()
    try:
        while True:
            killer.run_pass()
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                sleep(_RETRY_SECONDS)
    except ChildProcessError:
        return


def _children() -> list[int]:
    """Return the children of this process, newest first: those may be gone soonest."""
    try:
        with open("/proc/thread-self/children", "rb", buffering=0) as file:
            return [int(pid) for pid in reversed(file.readall().split())]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        parent_id = os.getpid()
        return [pid for pid, parent, _, _ in reversed(_processes()) if parent == parent_id]


def _descendants(program: int = 0, sparing: Collection[int] = ()) -> list[tuple[int, int, int]]:
    """Return id, parent and group of the live descendants of this process."""
    table = _processes()
    below = {os.getpid()}
    # a sub-reaper is the ancestor of everything; elsewhere orphans are identified by the group of their program
    groups = set() if _SUB_REAPER else {program}
    size = 0
    while size != len(below):
        size = len(below)
        for pid, parent, group, _ in table:
            if (parent in below or group in groups) and pid not in sparing:
                below.add(pid)
    below.remove(os.getpid())
    return [(pid, parent, group) for pid, parent, group, state in table if pid in below and state != b"Z"]


def _groups(processes: Iterable[tuple[int, int, int]]) -> set[int]:
    return {group for _, _, group in processes} - {os.getpgrp()}


def _processes() -> list[tuple[int, int, int, bytes]]:
    """Return id, parent, group and state of every process."""
    if not _SUB_REAPER:
        return _processes_by_ps()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [(pid, *stat) for pid in pids if (stat := _stat(pid))]


def _stat(pid: int) -> tuple[int, int, bytes] | None:
    """Return parent, group and state of a process; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            # the program name may contain spaces and parentheses
            state, parent, group, _ = file.readall().rpartition(b")")[2].split(None, 3)
    except OSError:
        return None
    return int(parent), int(group), state


def _processes_by_ps() -> list[tuple[int, int, int, bytes]]:
    reading, writing = os.pipe()
    ps = os.posix_spawn(
        "/bin/ps", ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="], {}, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)]
    )
    os.close(writing)
    with open(reading, "rb") as file:
        rows = [line.split() for line in file]
    os.waitpid(ps, 0)
    return [(int(pid), int(parent), int(group), state[:1]) for pid, parent, group, state in rows if int(pid) != ps]


def receive(sock: _socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Return the next bytes and the descriptors sent with them; nothing when the peer is gone."""
    try:
        data, ancillary, _, _ = sock.recvmsg(size, _socket.CMSG_SPACE(_FDS_MAX * 4))
    except ConnectionError:
        return b"", []
    fds = [
        int.from_bytes(packed[start : start + 4], sys.byteorder)
        for _, _, packed in ancillary
        for start in range(0, len(packed), 4)
    ]
    for fd in fds:
        os.set_inheritable(fd, False)  # noqa: FBT003 -- takes no keyword
    return data, fds


def receive_body(sock: _socket.socket) -> tuple[bytes, list[int]]:
    """Return a message that follows its length, and the descriptors sent with it; nothing when the peer is gone."""
    size, fds = receive(sock, 4)
    length = int.from_bytes(size, "big")
    body = bytearray()
    while len(body) < length and (part := sock.recv(1 << 16)):
        body += part
    return (bytes(body), fds) if len(body) == length else (b"", [])


def _wake_on_child_exit() -> int:
    """Return a descriptor that becomes readable when a child exits."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    inherited = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if inherited >= 0:
        os.close(inherited)
    return reading


def _load_prctl() -> Prctl:
    if not _SUB_REAPER:
        return lambda option, value: None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = (ctypes.c_int, ctypes.c_void_p)
    return prctl


def _attempt(act: Callable[..., object], *args: object) -> None:
    """Call a function, ignoring OSError: the process may have ended, or hilt may be gone."""
    try:
        act(*args)
    except OSError:
        return
