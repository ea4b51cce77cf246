"""A file system of a few megabytes, mounted where the state directory of a test is to be."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess

import pytest

from hilt.sandbox import process

CLONE_NEWNS = 0x20000


@functools.cache
def _own_mounts() -> None:
    """Let this process see mounts that nobody else sees, and that end with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        pytest.skip(f"no mounts of its own: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    if process._KEEPER._pid:
        # what earlier tests have started sees the mounts of before, and so would all that it starts
        process._KEEPER.discard(process._KEEPER._pid)


class SmallDisk:
    """A disk that can be filled to the last byte."""

    def __init__(self, path: str, kilobytes: int = 2048) -> None:
        if os.getuid() != 0:
            pytest.skip("only root mounts a small disk")
        _own_mounts()
        self.path = path
        self.filler = os.path.join(path, "filler")
        os.makedirs(path, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=700", "none", path], check=True)

    @property
    def free(self) -> int:
        """How many bytes can be written."""
        status = os.statvfs(self.path)
        return status.f_bfree * status.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Leave only so many bytes free."""
        with open(self.filler, "ab", buffering=0) as file:
            while self.free > leave:
                file.write(bytes(4096))

    def empty(self) -> None:
        """Free what `fill` took."""
        os.unlink(self.filler)

    def close(self) -> None:
        """Unmount it, whoever still uses it."""
        subprocess.run(["umount", "-l", self.path], check=True)
