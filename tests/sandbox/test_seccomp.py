"""The seccomp filter, run by a small BPF interpreter."""

from __future__ import annotations

import os
import shutil
import stat
import struct
from collections.abc import Iterator
from errno import EAFNOSUPPORT, ENOSYS, EPERM, ESOCKTNOSUPPORT

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.sandbox import ruleset, seccomp
from hilt.sandbox.seccomp import FilterRules
from tests.sandbox.confined import Box, Worker

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


STRICT = FilterRules(internet=False, unix=False, user_namespaces=False, processes=False, group_bits=False)
OPEN = FilterRules(internet=True, unix=True, user_namespaces=True, processes=True, group_bits=True)


def assembled(machine: str, rules: FilterRules = STRICT) -> bytes:
    program = seccomp.assemble(machine, rules)
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
    closed, opened = assembled(name), assembled(name, OPEN)

    for family in (INET, INET6):
        assert judge(closed, machine, socket, family, 1) == EAFNOSUPPORT
        assert judge(opened, machine, socket, family, 1) == judge(opened, machine, socket, family, 2) == 0
    for protocol, answer in ((0, 0), (2, EAFNOSUPPORT), (4, EAFNOSUPPORT)):
        assert judge(opened, machine, socket, NETLINK, 3, protocol) == answer
        assert judge(closed, machine, socket, NETLINK, 3, protocol) == EAFNOSUPPORT
    for family in (VSOCK, ALG, PACKET, 0, 99):
        assert judge(closed, machine, socket, family) == judge(opened, machine, socket, family) == EAFNOSUPPORT
    for kind, answer in ((1, 0), (5, 0), (1 | 0x80000, 0), (2, ESOCKTNOSUPPORT), (3, ESOCKTNOSUPPORT)):
        assert judge(closed, machine, socket, UNIX, kind) == EAFNOSUPPORT
        assert judge(opened, machine, socket, UNIX, kind) == answer
        assert (
            judge(closed, machine, socketpair, UNIX, kind) == judge(opened, machine, socketpair, UNIX, kind) == answer
        )
    assert judge(opened, machine, ioctl, 0, 0x5412) == judge(opened, machine, ioctl, 0, 0x541C) == EPERM
    assert judge(opened, machine, ioctl, 0, 0x5401) == 0
    assert judge(opened, machine, keyctl) == EPERM
    assert judge(opened, machine, 425) == EPERM
    assert judge(opened, machine, 437) == ENOSYS
    for number in (clone, unshare):
        assert judge(closed, machine, number, NEW_USER | 17) == EPERM
        assert judge(closed, machine, number, 17) == judge(opened, machine, number, NEW_USER) == 0
    assert (judge(closed, machine, 435), judge(opened, machine, 435)) == (ENOSYS, 0)


# machine as uname names it, machine of the call, chmod, fchmod, fchmodat, open, openat, creat, mknodat, prlimit, others
MODES = [
    ("x86_64", X86_64, 90, 91, 268, 2, 257, 85, 259, 302, (142, 144, 203, 314), 141, 251),
    ("x86_64", I386, 15, 94, 306, 5, 295, 8, 297, 340, (154, 156, 241, 351), 97, 289),
    ("aarch64", AARCH64, None, 52, 53, None, 56, None, 33, 261, (118, 119, 122, 274), 140, 30),
    ("aarch64", ARM, 15, 94, 333, 5, 322, 8, 324, 369, (154, 156, 241, 380), 97, 314),
]


@pytest.mark.parametrize("row", MODES)
def test_no_call_sets_the_bits_of_other_users_programs(row):
    name, machine, chmod, fchmod, fchmodat, open_, openat, creat, mknodat, *_ = row
    closed, opened = assembled(name), assembled(name, OPEN)
    changes = [(chmod, (0,)), (fchmod, (0,)), (fchmodat, (0, 0)), (452, (0, 0))]
    creates = [(creat, (0,)), (mknodat, (0, 0)), (open_, (0, 0x41)), (openat, (0, 0, 0x41)), (openat, (0, 0, 0x410002))]

    for number, first in changes + creates:
        if number is not None:
            for program in (closed, opened):
                assert judge(program, machine, number, *first, 0o4755) == EPERM
                assert judge(program, machine, number, *first, 0o1777) == 0
            assert judge(closed, machine, number, *first, 0o2755) == EPERM
    for number, first in changes:
        assert number is None or judge(opened, machine, number, *first, 0o2755) == 0
    # without the flag, the argument is whatever was in the register
    assert judge(closed, machine, openat, 0, 0, 0x2, 0o6755) == 0


@pytest.mark.parametrize("row", MODES)
def test_other_processes_keep_their_limits_and_priorities(row):
    name, machine, *_, prlimit, scheduling, setpriority, ioprio_set = row
    closed, opened = assembled(name), assembled(name, OPEN)

    for number in (prlimit, *scheduling):
        assert judge(closed, machine, number, 0) == judge(opened, machine, number, 17) == 0
        assert judge(closed, machine, number, 17) == EPERM
    for number, kind in ((setpriority, 0), (ioprio_set, 1)):
        assert judge(closed, machine, number, kind, 0) == 0
        assert judge(closed, machine, number, kind, 17) == judge(closed, machine, number, kind + 1, 0) == EPERM


def test_the_upper_half_of_an_argument_changes_nothing():
    # the kernel uses 32 bits of a family and of a request
    assert judge(assembled("x86_64"), X86_64, 41, 1 << 32 | UNIX) == EAFNOSUPPORT
    assert judge(assembled("x86_64"), X86_64, 16, 0, 1 << 32 | 0x5412) == EPERM


def test_socketcall_is_refused():
    assert judge(assembled("x86_64", OPEN), I386, 102, 3) == ENOSYS


@given(number=st.integers(0, (1 << 32) - 1))
def test_other_calling_conventions_are_refused(number):
    program = assembled("x86_64", OPEN)

    assert judge(program, 0xDEADBEEF, number) == judge(program, AARCH64, number) == ENOSYS
    assert judge(program, X86_64, number | 0x40000000) == ENOSYS


@given(number=st.integers(0, 600), arguments=st.lists(st.integers(0, (1 << 64) - 1), min_size=6, max_size=6))
def test_every_call_is_answered(number, arguments):
    for name, machine, *_ in MACHINES:
        judge(assembled(name), machine, number, *arguments)


def test_an_unknown_machine_has_no_filter():
    assert seccomp.assemble("vax", OPEN) is None


@pytest.fixture(params=["bubblewrap", "landlock"])
def either(request: pytest.FixtureRequest, worker: Worker) -> Iterator[Box]:
    """A workspace for programs confined by each backend."""
    landlock = request.param == "landlock"
    if not (ruleset.abi() if landlock else shutil.which("bwrap")):
        pytest.skip(f"needs {request.param}")
    box = Box(worker, kind="landlock" if landlock else "")
    yield box
    box.close()


SET_BITS = """
import os
for bits in (0o4755, 0o2755, 0o6711):
    for act in (
        lambda: os.chmod("made", bits),
        lambda: os.fchmod(os.open("made", os.O_RDWR), bits),
        lambda: os.chmod("made", bits, dir_fd=os.open(".", os.O_RDONLY)),
        lambda: os.open(f"new-{bits}", os.O_CREAT | os.O_WRONLY, bits),
        lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, bits),
        lambda: os.mknod(f"node-{bits}", bits),
        lambda: os.setxattr("made", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000")),
    ):
        try:
            act()
            print("done")
        except PermissionError:
            pass
"""


def test_a_command_leaves_no_program_that_runs_as_its_owner(either):
    either.write("ws/made", "#!/bin/sh")

    assert either.run(f"python3 -I -S -c '{SET_BITS}'") == (0, "")

    modes = [path.stat().st_mode for path in either.workspace.iterdir()]
    assert not any(mode & (stat.S_ISUID | stat.S_ISGID) for mode in modes)


def test_copies_and_archives_lose_the_bits(either):
    program = either.write("home/program", "#!/bin/sh")
    program.chmod(0o4755)
    script = f"cp -p {program} . ; tar -cf all.tar -C {either.home} program; mkdir out; tar -xpf all.tar -C out; ls out"

    assert either.run(script).output.endswith("program\n")

    for copy in (either.workspace / "program", either.workspace / "out/program"):
        assert copy.stat().st_mode & 0o777
        assert not copy.stat().st_mode & stat.S_ISUID


def test_git_can_store_objects_in_a_repository_that_a_group_shares(either):
    objects = either.mkdir("ws/.git/objects")
    for folder in (objects.parent, objects):
        os.chmod(folder, 0o2775)

    # as git does for core.sharedRepository
    assert either.run("mkdir .git/objects/ab && chmod 2775 .git/objects/ab && chmod 4755 .git/objects/ab").code == 1

    assert (objects / "ab").stat().st_mode & 0o7777 == 0o2775


def test_folders_that_pass_their_group_on_can_be_copied(either):
    os.chmod(either.workspace, 0o2755)

    done = either.run("mkdir -p a/b && cp -a a c && chmod 4755 c")

    assert done.code == 1
    assert [(either.workspace / name).stat().st_mode & 0o7000 for name in ("a/b", "c/b", "c")] == [stat.S_ISGID] * 3
