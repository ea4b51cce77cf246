"""Links in the literal paths of rules: rules apply to their targets, too."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from hilt.authority.rulebook import is_settled, status
from hilt.authority.targets import followed


class _Name:
    """A name in the paths of rules, with the names below it, and which of those existed when it was last read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_literal = False  # whether it is the end of a path
        self.below: dict[str, _Name] = {}
        self.stamp: tuple[int, ...] | None = None
        self.existing: list[_Name] = []
        self.links: list[_Name] = []

    def read(self) -> None:
        """Find out which of the names below exist, unless the folder has not changed."""
        stamp = status(self.path or "/")
        if stamp is None or stamp != self.stamp:
            existing = [name for name in self.below.values() if stamp and os.path.lexists(name.path)]
            self.links = [name for name in existing if os.path.islink(name.path)]
            self.existing = [name for name in existing if name not in self.links]
            self.stamp = stamp if is_settled(stamp) else None


class RuleLinks:
    """Finds the links in the literal paths of rules. Looks at each folder once, and reads it only if it has changed."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._top = _Name("")
        for path in paths:
            current = self._top
            for name in filter(None, path.split("/")):
                current = current.below.setdefault(name, _Name(f"{current.path}/{name}"))
            current.is_literal = True

    def find(self) -> dict[str, str]:
        """Return the paths that contain links, with the resolved paths."""
        folders, links = [self._top], []
        while folders:
            folder = folders.pop()
            if folder.below:
                folder.read()
                folders += folder.existing
                links += folder.links
        return {path: followed(path)[0] for link in links for path in _literal_paths(link)}


def _literal_paths(name: _Name) -> Iterator[str]:
    """Yield the paths that end at a name or below it."""
    names = [name]
    while names:
        name = names.pop()
        names += name.below.values()
        if name.is_literal:
            yield name.path
