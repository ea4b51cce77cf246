"""Connects the sockets of confined programs, and Unix sockets only to those that programs of the session have bound.

Mounts and network namespaces do not separate Unix sockets: a program reaches any socket that it finds at a path, under
whatever name, and in the host's network also by an abstract name. A seccomp filter cannot read an address, and what a
program asks for may change after a check. So the kernel holds the program in `bind` and `connect`, and the warden
answers: `bind` continues after the cookie of the socket, which the kernel never reuses, was recorded for the session. A
connection is made here, on a copy of the descriptor and to a handle of the socket at the path, if the kernel reports
that the socket bound there is a recorded one (ADR 0049).

The warden imports this module without the rest of hilt (keeper.py explains why).
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket
import _thread
import errno
import fcntl
import os
import stat
import sys
from _collections import deque  # type: ignore[import-not-found]
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Address = tuple[int, int] | bytes  # device and inode of a file, or an abstract name

# of struct seccomp_notif, and requests to its descriptor
_NOTICE_BYTES = 80
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_CONTINUE = 1
_PIDFD_GETFD, _OPENAT2, _RESOLVE_IN_ROOT = 438, 437, 0x10
_THREAD = os.O_EXCL
_HANDLE = getattr(os, "O_PATH", 0) | os.O_CLOEXEC

_SO_DOMAIN, _SO_COOKIE = 39, 57
# bytes of struct sockaddr_storage, and of the fields of struct sockaddr_un
_MAX_ADDRESS, _FAMILY_BYTES, _MAX_NAME = 128, 2, 108

# a request for all listening Unix sockets with their names and files, and what comes back
_SOCK_DIAG_BY_FAMILY, _DONE, _REQUEST_DUMP = 20, 3, 0x301
_LISTENING, _SHOW_NAME_AND_FILE = 1 << 10, 3
_NAME, _FILE = 0, 1
_HEADER_BYTES, _SOCKET_BYTES = 16, 32

_COOKIE_BYTES = 8
_MAX_RECORD = 1 << 20  # bytes of cookies of a session
_MAX_CONNECTING, _STACK_BYTES = 1000, 1 << 18
_PATIENCE_SECONDS, _RETRY_SECONDS = 2.0, 0.01  # for one of these to end
# what repeating a connection returns, and what the interrupted call would have returned
_REPEATED = {errno.EISCONN: 0, errno.EALREADY: errno.EINPROGRESS}


def start(binds: Collection[int], named: Collection[str], listener: int, diagnosis: int, record: int) -> None:
    """Answer a seccomp listener on a thread.

    `binds` are the numbers of the system call `bind`; all others are `connect`. `named` are sockets of others that may
    be used. `diagnosis` is a netlink socket in the network of the programs, `record` has the cookies of the session.
    """
    _thread.start_new_thread(_Connector(binds, named, listener, diagnosis, record).serve, ())


class _Connector:
    """Answers the calls of the programs of one sandbox."""

    def __init__(
        self, binds: Collection[int], named: Collection[str], listener: int, diagnosis: int, record: int
    ) -> None:
        import ctypes

        self._binds = binds
        self._named = named
        self._listener = listener
        self._diagnosis = _socket.socket(fileno=diagnosis)
        self._record = record
        self._lock = _thread.allocate_lock()
        self._ours: set[bytes] = set()  # cookies of the session, and how much of the record they are
        self._recorded = 0
        self._connecting: set[int] = set()
        # cookies: a call that a signal interrupts is repeated
        self._begun: deque[bytes] = deque(maxlen=_MAX_CONNECTING)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._register = ctypes.c_long
        self._errno = ctypes.get_errno

    def serve(self) -> None:
        """Answer until no program is left; the warden exits then."""
        # a signal would interrupt a connection, which the program could not explain
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        _thread.stack_size(_STACK_BYTES)
        while True:
            notice = bytearray(_NOTICE_BYTES)
            try:
                fcntl.ioctl(self._listener, _RECEIVE, notice)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue  # the caller is gone
                os.close(self._listener)
                return
            call = _Call(notice)
            if call.number in self._binds:
                self._answer(call, self._note)
            else:
                self._begin(call)

    def _begin(self, call: _Call) -> None:
        """Connect on a thread, because that may take long."""
        patience = monotonic() + _PATIENCE_SECONDS
        while len(self._connecting) >= _MAX_CONNECTING:
            if monotonic() > patience:
                self._reply(call, errno.EAGAIN)
                return
            sleep(_RETRY_SECONDS)
        self._connecting.add(call.id)
        try:
            _thread.start_new_thread(self._answer, (call, self._connect))
        except RuntimeError:
            self._connecting.discard(call.id)
            self._reply(call, errno.EAGAIN)

    def _answer(self, call: _Call, act: Callable[[_Call], int | None]) -> None:
        """Let a call return an error number or 0, or continue."""
        error: int | None = errno.EPERM
        try:
            error = act(call)
        except OSError as failure:
            error = failure.errno or errno.EPERM
        finally:
            self._connecting.discard(call.id)
            self._reply(call, error)

    def _reply(self, call: _Call, error: int | None) -> None:
        flags = _CONTINUE if error is None else 0
        try:
            fcntl.ioctl(self._listener, _SEND, _pack((call.id, 8), (0, 8), (-(error or 0) & 0xFFFFFFFF, 4), (flags, 4)))
        except OSError:
            return  # the caller is gone

    def _note(self, call: _Call) -> None:
        """Record a socket that is about to be bound."""
        try:
            sock = self._copy(call)
        except OSError:
            return  # the call will fail, or its socket stay unknown
        if _domain(sock) == _socket.AF_UNIX and os.fstat(self._record).st_size < _MAX_RECORD:
            os.write(self._record, _cookie(sock))
        sock.close()

    def _connect(self, call: _Call) -> int:
        """Connect a socket as requested."""
        length = call.arguments[2] & 0xFFFFFFFF
        if length > _MAX_ADDRESS:
            return errno.EINVAL
        address = self._read(call, call.arguments[1], length)
        sock = self._copy(call)
        try:
            domain = _domain(sock)
            if domain not in (_socket.AF_INET, _socket.AF_INET6, _socket.AF_UNIX):
                return errno.EOPNOTSUPP
            cookie = _cookie(sock)
            is_repeated = cookie in self._begun
            self._begun.append(cookie)
            is_unix = domain == _socket.AF_UNIX
            error = self._connect_unix(call, sock, address) if is_unix else self._connect_to(sock, address)
            return _REPEATED.get(error, error) if is_repeated else error
        finally:
            sock.close()

    def _connect_unix(self, call: _Call, sock: _socket.socket, address: bytes) -> int:
        family, name = address[:_FAMILY_BYTES], address[_FAMILY_BYTES:]
        if not name or len(name) > _MAX_NAME or _number(family) != _socket.AF_UNIX:
            return errno.EINVAL
        if not name[0]:
            return self._connect_to(sock, address) if self._is_ours(name) else errno.ECONNREFUSED
        handle, place = self._open(call, name.partition(b"\0")[0])
        try:
            if not self._is_named(handle) and (place is None or not self._is_ours(place)):
                return errno.ECONNREFUSED
            return self._connect_to(sock, family + b"/proc/self/fd/%d" % handle)
        finally:
            os.close(handle)

    def _connect_to(self, sock: _socket.socket, address: bytes) -> int:
        return self._errno() if self._libc.connect(sock.fileno(), address, len(address)) else 0

    def _copy(self, call: _Call) -> _socket.socket:
        """Return a copy of the socket of a call."""
        try:
            process = os.pidfd_open(call.thread, _THREAD)
        except OSError:  # before Linux 6.9
            process = os.pidfd_open(_leader(call.thread))
        try:
            copy = self._system(_PIDFD_GETFD, process, call.arguments[0] & 0xFFFFFFFF, 0)
        finally:
            os.close(process)
        try:
            self._check(call)
            return _socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
            raise

    def _system(self, number: int, *arguments: int | bytes) -> int:
        registers = (self._register(value) if isinstance(value, int) else value for value in (number, *arguments))
        outcome: int = self._libc.syscall(*registers)
        if outcome < 0:
            raise OSError(self._errno(), "")
        return outcome

    def _read(self, call: _Call, start: int, length: int) -> bytes:
        """Return memory of the caller."""
        memory = os.open(f"/proc/{call.thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.pread(memory, length, start)
        except (OSError, OverflowError) as error:
            raise OSError(errno.EFAULT, "") from error
        finally:
            os.close(memory)
        self._check(call)
        if len(content) < length:
            raise OSError(errno.EFAULT, "")
        return content

    def _open(self, call: _Call, path: bytes) -> tuple[int, tuple[int, int] | None]:
        """Return a handle of a path as the caller sees it, and its device and inode if it is a socket it may have made.

        The caller may change what the path leads to; that makes no difference after this.
        """
        folder = b"/proc/%d/" % call.thread
        if not path.startswith(b"/"):
            path = os.readlink(folder + b"cwd") + b"/" + path
        root = os.open(folder + b"root", _HANDLE)
        try:
            how = _pack((_HANDLE, 8), (0, 8), (_RESOLVE_IN_ROOT, 8))
            handle = self._system(_OPENAT2, root, path, how, len(how))
        finally:
            os.close(root)
        try:
            # where it cannot write, it has made none
            is_writable = not os.fstatvfs(handle).f_flag & os.ST_RDONLY
            place = None
            if is_writable and stat.S_ISSOCK(os.fstat(handle).st_mode):
                facts = _lines(b"/proc/self/fdinfo/%d" % handle)
                mount = facts[b"mnt_id:"][0]
                # its own device: in overlayfs and btrfs, fstat returns another
                major, minor = _lines(folder + b"mountinfo")[mount][1].split(b":")
                place = int(major) << 20 | int(minor), int(facts[b"ino:"][0]) & 0xFFFFFFFF
            self._check(call)
        except (OSError, KeyError):
            os.close(handle)
            raise OSError(errno.ECONNREFUSED, "") from None
        return handle, place

    def _check(self, call: _Call) -> None:
        """Raise if the caller has died: its process id, and so what was read, may belong to another process."""
        try:
            fcntl.ioctl(self._listener, _IS_VALID, call.id.to_bytes(8, sys.byteorder))
        except OSError as error:
            raise OSError(errno.ESRCH, "") from error

    def _is_named(self, handle: int) -> bool:
        """Whether the person allowed a socket."""
        status = os.fstat(handle)
        for path in self._named:
            try:
                if os.path.samestat(os.lstat(path), status):
                    return stat.S_ISSOCK(status.st_mode)
            except OSError:
                continue
        return False

    def _is_ours(self, address: Address) -> bool:
        """Whether a listening socket with this address was bound in the session."""
        with self._lock:
            cookies = {cookie for other, cookie in self._listening() if other == address}
            added = os.pread(self._record, _MAX_RECORD + _COOKIE_BYTES, self._recorded)
            self._recorded += len(added)
            self._ours.update(added[start : start + _COOKIE_BYTES] for start in range(0, len(added), _COOKIE_BYTES))
        return bool(cookies) and cookies <= self._ours

    def _listening(self) -> Iterator[tuple[Address, bytes]]:
        """Yield the addresses of listening Unix sockets, with their cookies."""
        fields = (_socket.AF_UNIX, 1), (0, 1), (0, 2), (_LISTENING, 4), (0, 4), (_SHOW_NAME_AND_FILE, 4)
        body = _pack(*fields) + b"\xff" * _COOKIE_BYTES
        header = (_HEADER_BYTES + len(body), 4), (_SOCK_DIAG_BY_FAMILY, 2), (_REQUEST_DUMP, 2), (1, 4), (0, 4)
        self._diagnosis.send(_pack(*header) + body)
        while True:
            messages = self._diagnosis.recv(1 << 16)
            while messages:
                length, kind = _number(messages[:4]), _number(messages[4:6])
                if kind != _SOCK_DIAG_BY_FAMILY:
                    if kind == _DONE:
                        return
                    raise OSError(errno.ECONNREFUSED, "")
                message, messages = messages[:length], messages[length + 3 & ~3 :]
                cookie, attributes = message[_SOCKET_BYTES - _COOKIE_BYTES : _SOCKET_BYTES], message[_SOCKET_BYTES:]
                while attributes:
                    size, attribute = _number(attributes[:2]), _number(attributes[2:4])
                    value, attributes = attributes[4:size], attributes[size + 3 & ~3 :]
                    if attribute == _FILE:
                        yield (_number(value[4:8]), _number(value[:4])), cookie
                    elif attribute == _NAME and value[:1] == b"\0":
                        yield value, cookie


class _Call:
    """A system call that waits for an answer."""

    def __init__(self, notice: bytearray) -> None:
        self.id = _number(notice[:8])
        self.thread = _number(notice[8:12])
        self.number = _number(notice[16:20])
        self.arguments = [_number(notice[start : start + 8]) for start in range(32, 80, 8)]


def _number(field: bytes | bytearray) -> int:
    return int.from_bytes(field, sys.byteorder)


def _pack(*fields: tuple[int, int]) -> bytes:
    return b"".join(value.to_bytes(size, sys.byteorder) for value, size in fields)


def _domain(sock: _socket.socket) -> int:
    return sock.getsockopt(_socket.SOL_SOCKET, _SO_DOMAIN)


def _cookie(sock: _socket.socket) -> bytes:
    return sock.getsockopt(_socket.SOL_SOCKET, _SO_COOKIE, _COOKIE_BYTES)


def _leader(thread: int) -> int:
    """Return the process of a thread."""
    return int(_lines(b"/proc/%d/status" % thread)[b"Tgid:"][0])


def _lines(path: bytes) -> dict[bytes, list[bytes]]:
    """Return the first words of the lines of a file, each with the other words."""
    with open(path, "rb", buffering=0) as file:
        rows = [line.split() for line in file.readall().splitlines()]
    return {first: rest for first, *rest in filter(None, rows)}
