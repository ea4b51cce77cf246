"""The folders that hold skills and commands, in order of precedence.

The project's files need trust. The user's files need none, unless tools can write to them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from hilt.places import SKILL_FOLDERS, config_dir, is_below, skill_dirs
from hilt.state.trust import COMMAND_FOLDERS

Origin = Literal["project", "personal", "built-in"]

BUILT_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "builtin")


class LibraryPlace(NamedTuple):
    """A folder of skills or commands."""

    path: str
    source: Origin


class WritablePlaces(NamedTuple):
    """Where tools can write: the workspace folders, except the user's own configuration directory."""

    roots: tuple[str, ...]  # real
    config: str

    def holds(self, real: str) -> bool:
        """Whether tools may be able to write to a real path."""
        return any(is_below(real, root) for root in self.roots) and not is_below(real, self.config)


def writable_places(roots: Sequence[str], environ: Mapping[str, str]) -> WritablePlaces:
    """Return where tools can write, given the workspace folders."""
    return WritablePlaces(tuple(map(os.path.realpath, roots)), os.path.realpath(config_dir(environ)))


def skill_places(root: str, environ: Mapping[str, str]) -> list[LibraryPlace]:
    """Return the folders of skills, in order of precedence."""
    return [*_places(root, SKILL_FOLDERS, skill_dirs(environ)), LibraryPlace(BUILT_IN, "built-in")]


def command_places(root: str, environ: Mapping[str, str]) -> list[LibraryPlace]:
    """Return the folders of commands, in order of precedence."""
    home = environ.get("HOME") or os.path.expanduser("~")
    own = [os.path.join(config_dir(environ), "commands"), os.path.join(home, ".claude/commands")]
    return _places(root, COMMAND_FOLDERS, own)


def _places(root: str, folders: Sequence[str], own: Sequence[str]) -> list[LibraryPlace]:
    all_places = [LibraryPlace(os.path.join(root, folder), "project") for folder in folders]
    all_places += [LibraryPlace(path, "personal") for path in own]
    # a folder listed twice keeps its highest precedence, so a project's folder never counts as the user's own;
    # a link in the project, which is rejected later, does not replace its target
    places: dict[str, LibraryPlace] = {}
    for place in all_places:
        places.setdefault(place.path if place.source == "project" else os.path.realpath(place.path), place)
    return list(places.values())
