"""Landlock rulesets, with which a process restricts itself.

Separate from `landlock`, which builds rulesets for profiles: a search needs one too and should not import that module.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any

from hilt.handles import Closing

# the same numbers on every architecture
_CREATE_RULESET, _ADD_RULE = 444, 445
_VERSION_FLAG, _PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR = (1 << bit for bit in range(8))
MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM, REFER, TRUNCATE, IOCTL_DEV = (1 << bit for bit in range(8, 16))
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2

_FIRST_VERSION_RIGHTS = (1 << 13) - 1
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

# where the loader finds shared libraries
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
# memory allocators read these, and are slower without them
_MEMORY_FACTS = ("/proc/sys/vm/overcommit_memory", "/sys/kernel/mm/transparent_hugepage/enabled")


class Ruleset:
    """A ruleset under construction: nothing is allowed except what `allow` adds."""

    def __init__(self, version: int, *, network: bool) -> None:
        self.handled = _FIRST_VERSION_RIGHTS
        for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
            if version >= since:
                self.handled |= right
        net = 0 if network or version < 4 else _BIND_TCP | _CONNECT_TCP
        scoped = _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL if version >= 6 else 0
        attributes = struct.pack("=QQQ", self.handled, net, scoped)
        # older kernels support only the first fields
        size = 8 if version < 4 else 16 if version < 6 else 24
        self.descriptor = _call(_CREATE_RULESET, attributes, size, 0)

    def allow(self, path: str, rights: int) -> None:
        """Allow access to a path and everything below it; missing or inaccessible paths stay denied."""
        with suppress(OSError), Closing(os.open(path, os.O_PATH | os.O_CLOEXEC)) as descriptor:
            self.allow_open(descriptor, rights if os.path.isdir(path) else rights & _ON_FILES)

    def allow_open(self, descriptor: int, rights: int) -> None:
        """Allow access to an open file or folder, and everything below it."""
        if rights & self.handled:
            rule = struct.pack("=Qi", rights & self.handled, descriptor)
            _call(_ADD_RULE, self.descriptor, _PATH_BENEATH, rule, 0)


def reading(folder: int | None, files: Iterable[int], programs: Iterable[str]) -> int | None:
    """Return the descriptor of a ruleset that allows only these programs, and reading this folder and these files.

    None where the kernel does not support Landlock.
    """
    version = abi()
    if not version:
        return None
    ruleset = Ruleset(version, network=False)
    try:
        if folder is not None:
            ruleset.allow_open(folder, READ_FILE | READ_DIR)
        for descriptor in files:
            ruleset.allow_open(descriptor, READ_FILE)
        for path in (*programs, *_LIBRARIES):
            ruleset.allow(path, EXECUTE | READ_FILE | READ_DIR)
        for path in _MEMORY_FACTS:
            ruleset.allow(path, READ_FILE)
    except BaseException:
        os.close(ruleset.descriptor)
        raise
    return ruleset.descriptor


@cache
def abi() -> int:
    """Return the Landlock version of the kernel; 0 if unsupported."""
    if sys.platform != "linux":
        return 0
    try:
        return _call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def _call(number: int, first: object, second: object, third: object, fourth: int = 0) -> int:
    result: int = _system_call()(number, first, second, third, fourth)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@cache
def _system_call() -> Any:
    call = ctypes.CDLL(None, use_errno=True).syscall
    # arguments are full registers; a pointer can be a number, too
    call.restype, call.argtypes = ctypes.c_long, (ctypes.c_long, *(ctypes.c_void_p,) * 4)
    return call
