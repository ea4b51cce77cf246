"""A system call filter: which kinds of sockets a confined program may make, and a few calls that no namespace covers.

The filter is a program for the kernel's packet filter machine, assembled here. It answers refused calls with an error
and lets everything else pass: the mounts and namespaces around it do the confining.
"""

from __future__ import annotations

import struct
from errno import EACCES, EAFNOSUPPORT, ENOSYS, EPERM
from typing import NamedTuple

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 5, 0xF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_CLONE_NEWUSER = 0x10000000
_X32_BIT = 0x40000000
_SOCKETCALL_SOCKET, _SOCKETCALL_SOCKETPAIR = 1, 8

# fields of struct seccomp_data; arguments are 64 bits wide, of which the low half is looked at
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Calls(NamedTuple):
    """The numbers of the calls on one machine; None where it does not have them."""

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
# a machine, and the one whose programs it runs as well
MACHINES = {"x86_64": (_X86_64, _I386), "aarch64": (_AARCH64, _ARM)}


def assemble(machine: str, *, unix: bool, user_namespaces: bool) -> bytes | None:
    """Return the filter for a machine as `uname -m` names it; None for one that is not known.

    `unix` allows sockets that reach any other process of this system by a path, `user_namespaces` new ones of those.
    """
    kinds = MACHINES.get(machine)
    if kinds is None:
        return None
    code: list[bytes] = [_step(_LOAD, _MACHINE)]
    for calls in kinds:
        block = _block(calls, unix=unix, user_namespaces=user_namespaces)
        code.append(_jump(_JUMP_EQUAL, calls.machine, 0, 1))
        # conditional jumps reach 255 steps, which a block may exceed
        code += [_step(0x05, 1), _step(0x05, len(block)), *block]
    code.append(_refuse(ENOSYS))
    return b"".join(code)


def _block(calls: _Calls, *, unix: bool, user_namespaces: bool) -> list[bytes]:
    """The rules of one machine; every way through it ends in an answer."""
    rules: list[list[bytes]] = []
    if calls is _X86_64:
        rules.append([_jump(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1), _refuse(ENOSYS)])
    families = (AF_INET, AF_INET6, AF_NETLINK, AF_UNIX) if unix else (AF_INET, AF_INET6, AF_NETLINK)
    # vsock reaches the host of a virtual machine, and others reach what no namespace divides
    rules.append(_on(calls.socket, [_argument(0), *_unless(families, EAFNOSUPPORT)]))
    if not unix:
        # a datagram socket of a pair can still send to any address
        kinds = (_SOCK_STREAM, _SOCK_SEQPACKET)
        rules.append(_on(calls.socketpair, [_argument(1), _step(_AND, _SOCK_TYPE_MASK), *_unless(kinds, EAFNOSUPPORT)]))
        if calls.socketcall is not None:
            numbers = (_SOCKETCALL_SOCKET, _SOCKETCALL_SOCKETPAIR)
            rules.append(_on(calls.socketcall, [_argument(0), *_if_any(numbers, EACCES)]))
    # it would make sockets without a call that is seen here
    rules.append(_on(_IO_URING_SETUP, [_refuse(EPERM)]))
    rules.append(_on(calls.ioctl, [_argument(1), *_if_any((_TIOCSTI, _TIOCLINUX), EPERM)]))
    # keyrings belong to the user and not to a namespace
    rules += [_on(number, [_refuse(EPERM)]) for number in (calls.add_key, calls.request_key, calls.keyctl)]
    if not user_namespaces:
        for number in (calls.clone, calls.unshare):
            rules.append(
                _on(number, [_argument(0), _jump(_JUMP_ANY_BIT, _CLONE_NEWUSER, 0, 1), _refuse(EPERM), _ALLOWED])
            )
        rules.append(_on(calls.setns, [_refuse(EPERM)]))
        # its flags are in memory, where they cannot be looked at; libraries then use clone
        rules.append(_on(_CLONE3, [_refuse(ENOSYS)]))
    return [_step(_LOAD, _NUMBER), *(step for rule in rules for step in rule), _ALLOWED]


def _on(number: int, body: list[bytes]) -> list[bytes]:
    """Do `body`, which ends in an answer, for one call."""
    return [_jump(_JUMP_EQUAL, number, 0, len(body)), *body]


def _unless(values: tuple[int, ...], error: int) -> list[bytes]:
    """Allow these values, refuse all others."""
    tests = [_jump(_JUMP_EQUAL, value, len(values) - index, 0) for index, value in enumerate(values)]
    return [*tests, _refuse(error), _ALLOWED]


def _if_any(values: tuple[int, ...], error: int) -> list[bytes]:
    """Refuse these values, allow all others."""
    tests = [_jump(_JUMP_EQUAL, value, len(values) - index, 0) for index, value in enumerate(values)]
    return [*tests, _ALLOWED, _refuse(error)]


def _argument(index: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS + 8 * index)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)


def _jump(kind: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("=HBBI", kind, if_true, if_false, value)


def _step(kind: int, value: int) -> bytes:
    return struct.pack("=HBBI", kind, 0, 0, value)


_ALLOWED = _step(_RETURN, _ALLOW)
