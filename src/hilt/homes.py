"""Home directories inside a workspace: what in them runs by itself, or configures programs that the user runs.

Such names cannot be listed: every program has its own. So all names with a dot, and all folders on PATH, are protected,
except those below (ADR 0048).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

from hilt.formats.names import fold
from hilt.places import homes, is_below, steps

# caches, and the names of a project in the home directory itself; nothing runs them by itself
EXEMPT = (
    *(".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".venv", ".git", ".github", ".gitignore"),
    *(".gitattributes", ".gitmodules", ".gitkeep", ".editorconfig", ".dockerignore", ".env.example"),
)
# in which all names are protected if the folder itself is the workspace
_INNER = (".config", ".local")
# login scripts add these to PATH once they exist
_PROGRAMS = ("bin", "go/bin")
_LINK_DEPTH = 2  # of folders searched for links, not counting .config and .local; links between packages are deeper


class Homes(NamedTuple):
    """The home directories that workspace folders contain or are a hidden part of.

    `paths` are further protected paths: folders of programs, and the targets of links. `exempt` are paths relative to a
    home directory that stay writable, and `opened` hidden folders in which each name is protected instead of the whole.
    """

    folders: tuple[str, ...] = ()
    paths: frozenset[str] = frozenset()
    exempt: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()

    def protects(self, path: str) -> bool:
        """Whether the last name of an absolute path is protected; not whether a folder above it is."""
        if path in self.paths:
            return True
        for folder in self.folders:
            if is_below(path, folder) and path != folder and self._protects_inside(fold(os.path.relpath(path, folder))):
                return True
        return False

    def _protects_inside(self, name: str) -> bool:
        if name in self.opened or any(is_below(name, exempt) for exempt in self.exempt):
            return False
        if name in _PROGRAMS:
            return True
        if outer := name.rpartition("/")[0]:
            return outer in self.opened
        return name.startswith(".") or (sys.platform == "darwin" and name == "library")


def find_homes(roots: Sequence[str], environ: Mapping[str, str], lifted: Iterable[str]) -> Homes:
    """Return the home directories of these workspace folders, of any user; `lifted` are further names to exempt."""
    folders = [home for home in dict.fromkeys((*homes(environ), *_others(roots))) if _concerns(home, roots)]
    if not folders:
        return Homes()
    exempt = [*EXEMPT, *(fold(name).strip("/") for name in lifted)]
    opened = [os.path.relpath(root, folder) for root in roots for folder in folders]
    opened = [name for name in opened if name in _INNER]
    opened += (outer for name in exempt for outer in accumulate(name.split("/")[:-1], "{}/{}".format))
    named = Homes(tuple(folders), frozenset(), tuple(exempt), tuple(name for name in opened if name.startswith(".")))
    entries = filter(os.path.isabs, environ.get("PATH", os.defpath).split(os.pathsep))
    programs = [os.path.realpath(entry) for entry in entries]
    # someone could replace a link on the way of another, and the end
    links = [path for folder in folders for link in _links(folder, named) for path, _ in steps(link)]
    links = [path for path in links if not any(named.protects(outer) for outer in _outwards(path))]
    inside = [path for path in (*programs, *links) if path not in (*roots, *folders)]
    inside = [path for path in inside if any(is_below(path, folder) for folder in folders)]
    return named._replace(
        paths=frozenset(path for path in inside if not any(is_below(folder, path) for folder in folders))
    )


def _others(roots: Sequence[str]) -> Iterator[str]:
    """Yield the home directories of other users."""
    yield "/root"
    for folder in ("/home", "/Users"):
        if any(is_below(folder, root) or is_below(root, folder) for root in roots):
            with suppress(OSError):
                yield from (os.path.join(folder, name) for name in os.listdir(folder))


def _concerns(home: str, roots: Sequence[str]) -> bool:
    """Whether a workspace folder contains a home directory, or is one of its hidden folders."""
    return any(
        is_below(home, root) or (is_below(root, home) and os.path.relpath(root, home).startswith(".")) for root in roots
    )


def _links(folder: str, named: Homes) -> Iterator[str]:
    """Yield the links among the hidden names of a home directory, and in hidden folders, but not deep in them."""
    pending = [(folder, 0)]
    while pending:
        outer, depth = pending.pop()
        with suppress(OSError), os.scandir(outer) as entries:
            for entry in entries:
                name = fold(os.path.relpath(entry.path, folder))
                if any(is_below(name, exempt) for exempt in named.exempt) or not name.startswith("."):
                    continue
                if entry.is_symlink():
                    yield entry.path
                elif depth < _LINK_DEPTH and entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, depth if name in _INNER else depth + 1))


def _outwards(path: str) -> Iterator[str]:
    while path != "/":
        yield path
        path = os.path.dirname(path)
