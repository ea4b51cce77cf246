"""A fresh workspace with separate state and settings, all on one file system."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

SMALL = "".join(f"line {number} of a small file\n" for number in range(1, 21))


class Place(NamedTuple):
    """A workspace and the environment in which hilt uses it."""

    workspace: str
    environ: dict[str, str]

    def path(self, name: str) -> str:
        """Return a path in the workspace."""
        return os.path.join(self.workspace, name)

    def write(self, name: str, text: str) -> str:
        """Write a file and return its path; creates its folder."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, name: str) -> str:
        """Return the contents of a file."""
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()


@contextmanager
def fresh_place(*, files: int = 0) -> Iterator[Place]:
    """Create a place with that many small files, a hundred per folder, and remove it afterwards."""
    # /tmp may be a tmpfs, where fsync costs nothing
    parent = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="hilt-bench-", dir=parent) as root:
        folders = {name: os.path.join(root, name) for name in ("home", "state", "config", "workspace")}
        for folder in folders.values():
            os.mkdir(folder, 0o700)
        environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": folders["home"],
            "HILT_STATE_DIR": folders["state"],
            "HILT_CONFIG_DIR": folders["config"],
        }
        place = Place(folders["workspace"], environ)
        for number in range(files):
            place.write(small_name(number), SMALL)
        yield place


def small_name(number: int) -> str:
    """Return the name of one of the small files of a place."""
    return f"folder{number // 100}/file{number}.txt"
