"""Test support for tools: a real runtime on a temporary workspace with its own state."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hilt.declaration import Tool
from hilt.runtime import Runtime


class Folder:
    """A workspace folder that tests write to and inspect."""

    def __init__(self, path: str) -> None:
        self.path = path

    def join(self, name: str) -> str:
        """Return the full path of a file in the folder."""
        return os.path.join(self.path, name)

    def write(self, name: str, contents: str | bytes = "") -> str:
        """Write a file exactly as given, create its folders, and return its full path."""
        full = self.join(name)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(contents if isinstance(contents, bytes) else contents.encode())
        return full

    def bytes(self, name: str) -> bytes:
        """Return a file's bytes."""
        with open(self.join(name), "rb") as file:
            return file.read()

    def read(self, name: str) -> str:
        """Return a file's text with its line endings."""
        return self.bytes(name).decode()

    def tree(self) -> dict[str, str | None]:
        """Return every path below the folder with the contents of files; None for folders."""
        contents: dict[str, str | None] = {}
        for folder, folders, files in os.walk(self.path):
            inner = os.path.relpath(folder, self.path)
            for name in folders:
                contents[os.path.normpath(os.path.join(inner, name)) + "/"] = None
            for name in files:
                path = os.path.normpath(os.path.join(inner, name))
                with open(os.path.join(folder, name), "rb") as file:
                    contents[path] = file.read().decode("utf-8", "backslashreplace")
        return contents


def environment(base: str) -> dict[str, str]:
    """Return an environment with settings and state below `base`, isolated from the user's own."""
    return {
        "HOME": os.path.join(base, "home"),
        "PATH": os.environ.get("PATH", os.defpath),
        "HILT_CONFIG_DIR": os.path.join(base, "config"),
        "HILT_STATE_DIR": os.path.join(base, "state"),
        "HILT_RESIDENT": "off",
    }


@contextmanager
def temporary_runtime(
    base: str,
    *,
    tools: Iterable[Tool] = (),
    session: str | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Runtime, Folder]]:
    """Yield a runtime and its workspace folder, both below `base`."""
    folder = Folder(os.path.join(base, "workspace"))
    os.makedirs(folder.path, exist_ok=True)
    with Runtime(folder.path, tools=tools, session=session, environ=environment(base), flags=flags) as runtime:
        yield runtime, folder
