"""What a careful program does to change a file: read it, write a new one beside it, sync, rename."""

from __future__ import annotations

import os


def replace_line(path: str, old: str, new: str) -> None:
    """Replace text in a file so that no reader ever sees half of it."""
    with open(path, "rb") as file:
        data = file.read()
    temporary = f"{path}.new"
    with open(temporary, "wb") as file:
        file.write(data.replace(old.encode(), new.encode(), 1))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
