"""The ignore files in the folders above a tree, whose rules apply in the tree, too."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.handles import FILE, Closing
from hilt.search.selection import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.door import Door, Place

NAME = ".gitignore"


class InheritedRules(NamedTuple):
    """The open ignore files of the folders above a tree, and whether they belong to a git repository.

    ripgrep finds these files by itself. It may read no others there: outside a repository, rules apply from the
    workspace folder on.
    """

    files: tuple[int, ...] = ()
    repository: bool = False


@contextmanager
def inherited_rules(door: Door, place: Place, selection: Selection) -> Iterator[InheritedRules]:
    """Open the ignore files above a tree, as far as they may be read."""
    if selection.no_ignore:
        yield InheritedRules()
        return
    root, depth = place.root, len(place.parts)
    folder = os.path.join(root.real, *place.parts)
    above: list[str] = []
    while not (is_repository := os.path.lexists(os.path.join(folder, ".git"))) and folder != "/":
        folder = os.path.dirname(folder)
        above.append(folder)
    files: list[int] = []
    with ExitStack() as stack:
        for level, path in enumerate(above if is_repository else above[:depth], 1):
            opened: AbstractContextManager[tuple[int, object, object]]
            if level <= depth:
                opened = door.open_file(root.display_path((*place.parts[: depth - level], NAME)))
            else:
                opened = _open_outside(path)
            with suppress(ToolError, OSError):  # missing, or may not be read
                files.append(stack.enter_context(opened)[0])
        yield InheritedRules(tuple(files), is_repository)


@contextmanager
def _open_outside(folder: str) -> Iterator[tuple[int, None, None]]:
    """Open the ignore file of a folder above the workspace."""
    with Closing(os.open(os.path.join(folder, NAME), FILE)) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield descriptor, None, None
