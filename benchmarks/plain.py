"""Changing a file safely: write a new one next to it, sync, rename."""

from __future__ import annotations

import os


def replace(path: str, data: bytes) -> None:
    """Replace the contents of a file atomically."""
    temporary = f"{path}.new"
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)


def replace_line(path: str, old: str, new: str) -> None:
    """Read a file and replace the first occurrence of a text in it."""
    with open(path, "rb") as file:
        data = file.read()
    replace(path, data.replace(old.encode(), new.encode(), 1))
