"""What a careful program does to change a file: write a new one beside it, sync, rename."""

from __future__ import annotations

import os


def replace(path: str, data: bytes) -> None:
    """Give a file new contents so that no reader ever sees half of them."""
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
