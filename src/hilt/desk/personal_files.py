"""Write what a person installs among their own files: whole or not at all, with errors that say what to do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from hilt.errors import ToolError
from hilt.formats.invisible import one_line


def write_whole(target: str, files: Mapping[str, bytes], programs: Collection[str] = ()) -> None:
    """Write a folder, or the one file whose name is empty, atomically: it appears when it is complete."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=os.path.dirname(target)) as fresh:
        top = os.path.join(fresh, "new")
        for name, content in files.items():
            path = os.path.join(top, name) if name else top
            os.makedirs(os.path.dirname(path), exist_ok=True)
            mode = 0o755 if name in programs else 0o644
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                file.write(content)
        os.rename(top, target)


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn file errors into tool errors."""
    try:
        yield
    except OSError as error:
        raise ToolError(
            "permission_denied",
            f"{one_line(path)}: {os.strerror(error.errno or 0)}.",
            suggestion="Check that you can write to the folder around it.",
        ) from error
