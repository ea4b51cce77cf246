"""The seccomp filter, run by a small BPF interpreter."""

from __future__ import annotations

import struct
from errno import EACCES, EAFNOSUPPORT, ENOSYS, EPERM

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.sandbox import seccomp

ALLOW = 0x7FFF0000
X86_64, I386, AARCH64, ARM = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028
UNIX, INET, INET6, NETLINK, VSOCK, ALG, PACKET = 1, 2, 10, 16, 40, 38, 17
NEW_USER = 0x10000000


def judge(program: bytes, machine: int, number: int, *arguments: int) -> int:
    """The errno that a filter returns for a call; 0 when it allows it."""
    values = [argument & (1 << 64) - 1 for argument in (*arguments, *[0] * 6)][:6]
    data = struct.pack("=IIQ6Q", number, machine, 0, *values)
    steps = list(struct.iter_unpack("=HBBI", program))
    index = accumulator = 0
    while True:
        kind, if_true, if_false, value = steps[index]
        index += 1
        if kind == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif kind == 0x54:
            accumulator &= value
        elif kind == 0x05:
            index += value
        elif kind == 0x06:
            return 0 if value == ALLOW else value & 0xFFFF
        else:
            test = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[kind]
            index += if_true if test else if_false


def assembled(machine: str, *, unix: bool = False, user_namespaces: bool = True) -> bytes:
    program = seccomp.assemble(machine, unix=unix, user_namespaces=user_namespaces)
    assert program
    return program


# machine as uname names it, machine of the call, socket, socketpair, ioctl, keyctl, clone, unshare
MACHINES = [
    ("x86_64", X86_64, 41, 53, 16, 250, 56, 272),
    ("x86_64", I386, 359, 360, 54, 288, 120, 310),
    ("aarch64", AARCH64, 198, 199, 29, 219, 220, 97),
    ("aarch64", ARM, 281, 288, 54, 311, 120, 337),
]


@pytest.mark.parametrize("name,machine,socket,socketpair,ioctl,keyctl,clone,unshare", MACHINES)
def test_each_machine_has_the_same_rules(name, machine, socket, socketpair, ioctl, keyctl, clone, unshare):
    closed, opened = assembled(name), assembled(name, unix=True)
    strict = assembled(name, user_namespaces=False)

    for family in (INET, INET6, NETLINK):
        assert judge(closed, machine, socket, family) == judge(opened, machine, socket, family) == 0
    for family in (VSOCK, ALG, PACKET, 0, 99):
        assert judge(closed, machine, socket, family) == judge(opened, machine, socket, family) == EAFNOSUPPORT
    assert (judge(closed, machine, socket, UNIX), judge(opened, machine, socket, UNIX)) == (EAFNOSUPPORT, 0)
    for kind, answer in ((1, 0), (5, 0), (1 | 0x80000, 0), (2, EAFNOSUPPORT), (3, EAFNOSUPPORT)):
        assert judge(closed, machine, socketpair, UNIX, kind) == answer
        assert judge(opened, machine, socketpair, UNIX, kind) == 0
    assert judge(opened, machine, ioctl, 0, 0x5412) == judge(opened, machine, ioctl, 0, 0x541C) == EPERM
    assert judge(opened, machine, ioctl, 0, 0x5401) == 0
    assert judge(opened, machine, keyctl) == EPERM
    assert judge(opened, machine, 425) == EPERM
    for number in (clone, unshare):
        assert judge(strict, machine, number, NEW_USER | 17) == EPERM
        assert judge(strict, machine, number, 17) == judge(closed, machine, number, NEW_USER) == 0
    assert (judge(strict, machine, 435), judge(closed, machine, 435)) == (ENOSYS, 0)


def test_the_upper_half_of_an_argument_changes_nothing():
    # the kernel uses 32 bits of a family and of a request
    assert judge(assembled("x86_64"), X86_64, 41, 1 << 32 | UNIX) == EAFNOSUPPORT
    assert judge(assembled("x86_64"), X86_64, 16, 0, 1 << 32 | 0x5412) == EPERM


def test_creating_sockets_through_socketcall_is_refused():
    assert judge(assembled("x86_64"), I386, 102, 1) == judge(assembled("x86_64"), I386, 102, 8) == EACCES
    assert judge(assembled("x86_64"), I386, 102, 3) == judge(assembled("x86_64", unix=True), I386, 102, 1) == 0


@given(number=st.integers(0, (1 << 32) - 1))
def test_other_calling_conventions_are_refused(number):
    program = assembled("x86_64", unix=True)

    assert judge(program, 0xDEADBEEF, number) == judge(program, AARCH64, number) == ENOSYS
    assert judge(program, X86_64, number | 0x40000000) == ENOSYS


@given(number=st.integers(0, 600), arguments=st.lists(st.integers(0, (1 << 64) - 1), min_size=6, max_size=6))
def test_every_call_is_answered(number, arguments):
    for name, machine, *_ in MACHINES:
        judge(assembled(name, user_namespaces=False), machine, number, *arguments)


def test_an_unknown_machine_has_no_filter():
    assert seccomp.assemble("vax", unix=True, user_namespaces=True) is None
