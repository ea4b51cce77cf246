"""A file system of a few megabytes, mounted as the state directory of a test."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess

import pytest

from hilt.sandbox import wardens

CLONE_NEWNS = 0x20000


@functools.cache
def _own_mounts() -> None:
    """Give this process its own mount namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        pytest.skip(f"cannot create a mount namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    if wardens.WARDENS._pid:
        # a process from earlier tests would start others in the old namespace
        wardens.WARDENS.discard(wardens.WARDENS._pid)


class SmallDisk:
    """A disk that can be filled to the last byte."""

    def __init__(self, path: str, kilobytes: int = 2048) -> None:
        if os.getuid() != 0:
            pytest.skip("only root can mount a small disk")
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
        """Fill the disk until at most this many bytes are free."""
        with open(self.filler, "ab", buffering=0) as file:
            while self.free > leave:
                file.write(bytes(4096))

    def empty(self) -> None:
        """Remove the file that `fill` wrote."""
        os.unlink(self.filler)

    def close(self) -> None:
        """Unmount it, even while it is in use."""
        subprocess.run(["umount", "-l", self.path], check=True)
