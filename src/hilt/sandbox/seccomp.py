"""A seccomp filter: restricts the sockets of a confined program, and a few system calls that no namespace covers.

The filter is a BPF program, assembled here. Denied calls fail with an error, and everything else is allowed: mounts and
namespaces do the rest of the confinement.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Iterator
from errno import EAFNOSUPPORT, ENOSYS, EPERM, ESOCKTNOSUPPORT
from functools import cache
from typing import NamedTuple

from hilt import variables
from hilt.errors import ToolError
from hilt.sandbox.backend import Launch, SocketCalls, StartSteps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.profile import Profile

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE_MASK = 1, 5, 0xF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_CLONE_NEWUSER = 0x10000000
_X32_BIT = 0x40000000
_CREATES = 0x400040  # O_CREAT and what O_TMPFILE adds to O_DIRECTORY
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1

NO_SOCKETS = " Commands cannot use Unix sockets, because hilt may not connect them for others."
_CONNECT = "from _socket import *; a = socket(1); a.bind(''); a.listen(); socket(1).connect(a.getsockname())"
_PROBE_SECONDS = 20.0

# fields of struct seccomp_data; arguments have 64 bits, and the low half is compared
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_LOAD, _AND, _JUMP, _RETURN = 0x20, 0x54, 0x05, 0x06
_JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000

# an architecture, and the 32-bit one that it also runs
MACHINES = {"x86_64": ("x86_64", "i386"), "aarch64": ("aarch64", "arm")}
_ARCHITECTURES = {"x86_64": 0xC000003E, "i386": 0x40000003, "aarch64": 0xC00000B7, "arm": 0x40000028}
# numbers of system calls in this order; None for a missing call
_CALLS: dict[str, tuple[int | None, ...]] = {
    "socket": (41, 359, 198, 281),
    "socketpair": (53, 360, 199, 288),
    "bind": (49, 361, 200, 282),
    "connect": (42, 362, 203, 283),
    "socketcall": (None, 102, None, None),
    "ioctl": (16, 54, 29, 54),
    "add_key": (248, 286, 217, 309),
    "request_key": (249, 287, 218, 310),
    "keyctl": (250, 288, 219, 311),
    "clone": (56, 120, 220, 120),
    "clone3": (435, 435, 435, 435),
    "unshare": (272, 310, 97, 337),
    "setns": (308, 346, 268, 375),
    "io_uring_setup": (425, 425, 425, 425),
    "open": (2, 5, None, 5),
    "openat": (257, 295, 56, 322),
    "openat2": (437, 437, 437, 437),
    "creat": (85, 8, None, 8),
    "mknod": (133, 14, None, 14),
    "mknodat": (259, 297, 33, 324),
    "chmod": (90, 15, None, 15),
    "fchmod": (91, 94, 52, 94),
    "fchmodat": (268, 306, 53, 333),
    "fchmodat2": (452, 452, 452, 452),
    "prlimit64": (302, 340, 261, 369),
    "setpriority": (141, 97, 140, 97),
    "ioprio_set": (251, 289, 30, 314),
    "sched_setparam": (142, 154, 118, 154),
    "sched_setscheduler": (144, 156, 119, 156),
    "sched_setaffinity": (203, 241, 122, 241),
    "sched_setattr": (314, 351, 274, 380),
}


class FilterRules(NamedTuple):
    """What a filter allows.

    `internet`: sockets that leave the network namespace, which need one of its own or permission. `unix`: Unix sockets.
    `user_namespaces`: creating them. `processes`: changing limits and priorities of other processes, which needs a
    process namespace. `group_bits`: the set-group-ID bit in changes of a mode.
    """

    internet: bool
    unix: bool
    user_namespaces: bool
    processes: bool
    group_bits: bool


def for_profile(
    profile: Profile, *, internet: bool, unix: bool, processes: bool, user_namespaces: bool
) -> bytes | None:
    """Return the filter for a profile on this machine; None if it is not supported."""
    # where a folder passes its group on, tools set the bit when they copy a folder, and git when it stores an object
    folders = [path for root in profile.writable for path in (root, os.path.join(root, ".git"))]
    group_bits = any(os.stat(path).st_mode & stat.S_ISGID for path in folders if os.path.isdir(path))
    rules = FilterRules(
        internet=internet,
        unix=unix,
        user_namespaces=user_namespaces,
        processes=processes,
        group_bits=group_bits,
    )
    return assemble(os.uname().machine, rules)


def assemble(machine: str, rules: FilterRules) -> bytes | None:
    """Return the filter for an architecture as in `uname -m`; None if it is not supported."""
    if machine not in MACHINES:
        return None
    return b"".join((_step(_LOAD, _MACHINE), *(_block(name, rules) for name in MACHINES[machine]), _deny(ENOSYS)))


@cache
def _block(name: str, rules: FilterRules) -> bytes:
    """Return the steps for one architecture; every path through its rules ends in a verdict."""
    column = list(_ARCHITECTURES).index(name)
    code = [_step(_LOAD, _NUMBER)]
    if name == "x86_64":
        code += [_jump(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1), _deny(ENOSYS)]
    for call, body in _bodies(rules):
        number = _CALLS[call][column]
        if number is not None:
            code += _on(number, body)
    code.append(_ALLOWED)
    # conditional jumps reach 255 steps
    test = [_jump(_JUMP_EQUAL, _ARCHITECTURES[name], 0, 1), _step(_JUMP, 1), _step(_JUMP, len(code))]
    return b"".join(test + code)


def _bodies(rules: FilterRules) -> Iterator[tuple[str, list[bytes]]]:
    """Yield system calls, each with the steps that decide it."""
    # a datagram socket, also one of a pair, sends to any address without a call that names only that address
    connected = [_argument(1), _step(_AND, _SOCK_TYPE_MASK), *_unless((_SOCK_STREAM, _SOCK_SEQPACKET), ESOCKTNOSUPPORT)]
    # vsock reaches the host of a virtual machine, and other families ignore namespaces
    families = {}
    if rules.internet:
        families = {AF_INET: [_ALLOWED], AF_INET6: [_ALLOWED]}
        # other protocols reach other programs
        families[AF_NETLINK] = [_argument(2), *_unless((_NETLINK_ROUTE,), EAFNOSUPPORT)]
    if rules.unix:
        families[AF_UNIX] = connected
    yield (
        "socket",
        [_argument(0), *(step for family, body in families.items() for step in _on(family, body)), _deny(EAFNOSUPPORT)],
    )
    yield "socketpair", connected
    # its arguments are in memory, which a filter cannot read
    yield "socketcall", [_deny(ENOSYS)]
    # io_uring creates sockets without a system call that this filter sees
    yield "io_uring_setup", [_deny(EPERM)]
    yield "ioctl", [_argument(1), *_if_any((_TIOCSTI, _TIOCLINUX), EPERM)]
    # keyrings belong to the user and not to a namespace
    yield from ((call, [_deny(EPERM)]) for call in ("add_key", "request_key", "keyctl"))
    yield from _mode_bodies(rules)
    if not rules.processes:
        for call in ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"):
            yield call, _own_only(0)
        for call, kind in (("setpriority", _PRIO_PROCESS), ("ioprio_set", _IOPRIO_WHO_PROCESS)):
            own = _own_only(1)
            yield call, [_argument(0), _jump(_JUMP_EQUAL, kind, 0, len(own)), *own, _deny(EPERM)]
    if not rules.user_namespaces:
        for call in ("clone", "unshare"):
            yield call, _unless_bits(0, _CLONE_NEWUSER)
        yield "setns", [_deny(EPERM)]
        # its flags are in memory; libraries fall back to clone
        yield "clone3", [_deny(ENOSYS)]


def _mode_bodies(rules: FilterRules) -> Iterator[tuple[str, list[bytes]]]:
    """Deny set-user-ID and set-group-ID programs: the next user to run one might be root."""
    both = stat.S_ISUID | stat.S_ISGID
    for call, mode in (("creat", 1), ("mknod", 1), ("mknodat", 2)):
        yield call, _unless_bits(mode, both)
    for call, flags in (("open", 1), ("openat", 2)):
        # without these flags the mode has no meaning
        yield call, [_argument(flags), _jump(_JUMP_ANY_BIT, _CREATES, 1, 0), _ALLOWED, *_unless_bits(flags + 1, both)]
    # its mode is in memory; programs fall back to openat
    yield "openat2", [_deny(ENOSYS)]
    for call, mode in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        yield call, _unless_bits(mode, stat.S_ISUID if rules.group_bits else both)


def _own_only(index: int) -> list[bytes]:
    """Allow a process id of 0, which is the caller."""
    return [_argument(index), *_unless((0,), EPERM)]


def _unless_bits(index: int, bits: int) -> list[bytes]:
    """Allow an argument without these bits."""
    return [_argument(index), _jump(_JUMP_ANY_BIT, bits, 0, 1), _deny(EPERM), _ALLOWED]


def socket_calls(named: tuple[str, ...], record: int) -> SocketCalls:
    """Return what lets connecting.py answer `bind` and `connect`, with the sockets of others that it may use.

    Its filter is added to another one, which denies other calling conventions.
    """
    code = [_step(_LOAD, _MACHINE)]
    binds = []
    for name in MACHINES[os.uname().machine]:
        bind, connect = (_CALLS[call][list(_ARCHITECTURES).index(name)] or 0 for call in ("bind", "connect"))
        tests = [_jump(_JUMP_EQUAL, bind, 1, 0), _jump(_JUMP_EQUAL, connect, 0, 1), _ASKED, _ALLOWED]
        code += _on(_ARCHITECTURES[name], [_step(_LOAD, _NUMBER), *tests])
        binds.append(bind)
    return SocketCalls(b"".join([*code, _ALLOWED]), tuple(binds), named, record)


def answers_calls(*prefix: str) -> bool:
    """Whether connecting.py may answer the system calls of a program; not in every container."""
    from hilt.sandbox.capturing import run
    from hilt.sandbox.spawning import Limits

    if os.uname().machine not in MACHINES:
        return False
    record = os.memfd_create("sockets", os.MFD_CLOEXEC)
    try:
        launch = Launch(steps=StartSteps(sockets=socket_calls((), record)))
        argv = (*prefix, sys.executable, "-I", "-S", "-c", _CONNECT)
        limits = Limits(timeout=_PROBE_SECONDS)
        return run(argv, cwd="/", env=variables.libraries(os.environ), limits=limits, confined=launch).exit_code == 0
    except (OSError, ToolError):
        return False
    finally:
        os.close(record)


def _on(value: int, body: list[bytes]) -> list[bytes]:
    """Run `body`, which ends in a verdict, for one value."""
    return [_jump(_JUMP_EQUAL, value, 0, len(body)), *body]


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
_ASKED = _step(_RETURN, _NOTIFY)
