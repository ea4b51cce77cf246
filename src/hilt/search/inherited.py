"""The ignore rules that a tree inherits from the folders above it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from hilt.errors import ToolError
from hilt.handles import FILE
from hilt.search import ignores
from hilt.search.selection import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.door import Door, Place


class InheritedRules:
    """The ignore rules of the folders above a tree, relative to the tree, and their open files."""

    def __init__(self, door: Door, place: Place, selection: Selection) -> None:
        self.lines: list[str] = []
        self.repository = False
        self.files: tuple[int, ...] = ()
        self._opened = ExitStack()
        if selection.no_ignore:
            return
        root = place.root
        folder = os.path.join(root.real, *place.parts)
        chain: list[str] = []
        folders: list[tuple[str, list[str]]] = []
        while True:
            if os.path.lexists(os.path.join(folder, ".git")):
                self.repository = True
                break
            parent, name = os.path.split(folder)
            if parent == folder:
                break
            chain = [name, *chain]
            folders.append((parent, chain))
            folder = parent
        if not self.repository:
            folders = folders[: len(place.parts)]
        try:
            for path, names in reversed(folders):
                inside = len(place.parts) - len(names)
                if inside >= 0:
                    self._read(door.open_file(root.display_path((*place.parts[:inside], ignores.NAME))), names)
                else:
                    self._read(_open_outside(path), names)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> InheritedRules:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._opened.close()

    def _read(self, opened: AbstractContextManager[tuple[int, os.stat_result, object]], names: list[str]) -> None:
        try:
            descriptor = self._opened.enter_context(opened)[0]
            data = os.read(descriptor, ignores.FILE_BYTES)
        except (ToolError, OSError):
            return  # missing, or may not be read
        self.files += (descriptor,)
        for line in ignores.lines(data):
            rebased = ignores.rebase(line, names)
            if rebased is not None:
                self.lines += ignores.format_line(rebased)


@contextmanager
def _open_outside(folder: str) -> Iterator[tuple[int, os.stat_result, None]]:
    """Open the ignore file of a folder above the workspace."""
    descriptor = os.open(os.path.join(folder, ignores.NAME), FILE)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield descriptor, status, None
    finally:
        os.close(descriptor)
