"""A seccomp filter: restricts the sockets of a confined program, and a few system calls that no namespace covers.

The filter is a BPF program, assembled here. Denied calls fail with an error, and everything else is allowed: mounts and
namespaces do the rest of the confinement.
"""

from __future__ import annotations

import struct
from errno import EACCES, EAFNOSUPPORT, ENOSYS, EPERM
from functools import cache
from typing import NamedTuple

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 5, 0xF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_CLONE_NEWUSER = 0x10000000
_X32_BIT = 0x40000000
_SOCKETCALL_SOCKET, _SOCKETCALL_SOCKETPAIR = 1, 8

# fields of struct seccomp_data; arguments have 64 bits, and the low half is compared
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Calls(NamedTuple):
    """System call numbers of one architecture; None for a missing call."""

    machine: int
    socket: int
    socketpair: int
    ioctl: int
    add_key: int
    request_key: int
    keyctl: int
    clone: int
    unshare: int
    setns: int
    socketcall: int | None = None


_IO_URING_SETUP, _CLONE3 = 425, 435  # the same everywhere
_X86_64 = _Calls(0xC000003E, 41, 53, 16, 248, 249, 250, 56, 272, 308)
_I386 = _Calls(0x40000003, 359, 360, 54, 286, 287, 288, 120, 310, 346, 102)
_AARCH64 = _Calls(0xC00000B7, 198, 199, 29, 217, 218, 219, 220, 97, 268)
_ARM = _Calls(0x40000028, 281, 288, 54, 309, 310, 311, 120, 337, 375)
# an architecture, and the 32-bit one that it also runs
MACHINES = {"x86_64": (_X86_64, _I386), "aarch64": (_AARCH64, _ARM)}


def assemble(machine: str, *, unix: bool, user_namespaces: bool) -> bytes | None:
    """Return the filter for an architecture as in `uname -m`; None if it is not supported.

    `unix` allows Unix sockets, which reach any process of this system by path; `user_namespaces` allows creating user
    namespaces.
    """
    return _assemble(machine, unix=unix, user_namespaces=user_namespaces)


@cache
def _assemble(machine: str, *, unix: bool, user_namespaces: bool) -> bytes | None:
    kinds = MACHINES.get(machine)
    if kinds is None:
        return None
    code: list[bytes] = [_step(_LOAD, _MACHINE)]
    for calls in kinds:
        block = _block(calls, unix=unix, user_namespaces=user_namespaces)
        code.append(_jump(_JUMP_EQUAL, calls.machine, 0, 1))
        # conditional jumps reach 255 steps, which a block may exceed
        code += [_step(0x05, 1), _step(0x05, len(block)), *block]
    code.append(_deny(ENOSYS))
    return b"".join(code)


def _block(calls: _Calls, *, unix: bool, user_namespaces: bool) -> list[bytes]:
    """Return the rules of one architecture; every path through them ends in a verdict."""
    rules: list[list[bytes]] = []
    if calls is _X86_64:
        rules.append([_jump(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1), _deny(ENOSYS)])
    families = (AF_INET, AF_INET6, AF_NETLINK, AF_UNIX) if unix else (AF_INET, AF_INET6, AF_NETLINK)
    # vsock reaches the host of a virtual machine, and other families ignore namespaces
    rules.append(_on(calls.socket, [_argument(0), *_unless(families, EAFNOSUPPORT)]))
    if not unix:
        # a datagram socket from a pair can still send to any address
        kinds = (_SOCK_STREAM, _SOCK_SEQPACKET)
        rules.append(_on(calls.socketpair, [_argument(1), _step(_AND, _SOCK_TYPE_MASK), *_unless(kinds, EAFNOSUPPORT)]))
        if calls.socketcall is not None:
            numbers = (_SOCKETCALL_SOCKET, _SOCKETCALL_SOCKETPAIR)
            rules.append(_on(calls.socketcall, [_argument(0), *_if_any(numbers, EACCES)]))
    # io_uring creates sockets without a system call that this filter sees
    rules.append(_on(_IO_URING_SETUP, [_deny(EPERM)]))
    rules.append(_on(calls.ioctl, [_argument(1), *_if_any((_TIOCSTI, _TIOCLINUX), EPERM)]))
    # keyrings belong to the user and not to a namespace
    rules += [_on(number, [_deny(EPERM)]) for number in (calls.add_key, calls.request_key, calls.keyctl)]
    if not user_namespaces:
        for number in (calls.clone, calls.unshare):
            rules.append(
                _on(number, [_argument(0), _jump(_JUMP_ANY_BIT, _CLONE_NEWUSER, 0, 1), _deny(EPERM), _ALLOWED])
            )
        rules.append(_on(calls.setns, [_deny(EPERM)]))
        # its flags are in memory, which a filter cannot read; libraries fall back to clone
        rules.append(_on(_CLONE3, [_deny(ENOSYS)]))
    return [_step(_LOAD, _NUMBER), *(step for rule in rules for step in rule), _ALLOWED]


def _on(number: int, body: list[bytes]) -> list[bytes]:
    """Run `body`, which ends in a verdict, for one system call."""
    return [_jump(_JUMP_EQUAL, number, 0, len(body)), *body]


def _unless(values: tuple[int, ...], error: int) -> list[bytes]:
    """Allow these values, deny all others."""
    tests = [_jump(_JUMP_EQUAL, value, len(values) - index, 0) for index, value in enumerate(values)]
    return [*tests, _deny(error), _ALLOWED]


def _if_any(values: tuple[int, ...], error: int) -> list[bytes]:
    """Deny these values, allow all others."""
    tests = [_jump(_JUMP_EQUAL, value, len(values) - index, 0) for index, value in enumerate(values)]
    return [*tests, _ALLOWED, _deny(error)]


def _argument(index: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS + 8 * index)


def _deny(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)


def _jump(kind: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("=HBBI", kind, if_true, if_false, value)


def _step(kind: int, value: int) -> bytes:
    return struct.pack("=HBBI", kind, 0, 0, value)


_ALLOWED = _step(_RETURN, _ALLOW)
