"""Sandbox profiles: what a child process may do. A backend (backend.py) enforces it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, NamedTuple

from hilt import places
from hilt.homes import Homes
from hilt.sandbox import network
from hilt.sandbox.network import Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.sensitive import NameRules, PathJudge

Name = Literal["read-only", "workspace-write", "full"]


is_below = places.is_below  # for the other modules of this package


class Profile(NamedTuple):
    """What a child process may do.

    All paths are real and absolute. `is_sensitive` and `is_protected` take a path relative to a root and match its last
    name. `protected` are names in each root that can be neither changed nor created. Deeper in a root, existing paths
    that match `is_protected` cannot be changed, nor those that `homes` protects. `read_only` paths cannot be changed
    wherever they are: the running hilt, where the last name may be a link or missing. `closed` paths are not visible at
    all.

    `read` "workspace" hides everything in the home directory except programs. `write` restricts "workspace-write" to
    these paths in the roots. `always_readable` paths can be read even if they, or a folder around them, are hidden.
    `sockets` are Unix sockets of others that a program with a network may use.
    `session` selects the loopback network and the private /tmp, `private` is the folder that holds them (ours alone,
    below the state directory, limited to `private_bytes` unless that is 0), and `folder` is the session's own folder,
    which can be read.

    `denies_read` and `denies_write` return whether a rule denies a path, or everything below a folder, existing or not.
    They stay equal between profiles until the rules change. `denied_outside` are existing paths outside the roots, or
    in their repositories, that rules deny: True if they cannot be read, False if they cannot be written.
    `denied_missing` are missing paths in the roots that must not be created. `git_paths` are what variables of the user
    name for git to read, with their roles.
    """

    name: Name
    roots: tuple[str, ...]
    is_sensitive: Callable[[str], bool]
    protected: tuple[str, ...]
    closed: tuple[str, ...]
    home: str
    read: Literal["all", "workspace"] = "all"
    network: Network = network.NONE
    session: str = "default"
    private: str = ""
    private_bytes: int = 0
    folder: str | None = None
    write: tuple[str, ...] = ()
    always_readable: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    denies_read: Callable[[str], bool] | None = None
    denies_write: Callable[[str], bool] | None = None
    denied_outside: tuple[tuple[str, bool], ...] = ()
    denied_missing: tuple[str, ...] = ()
    is_protected: Callable[[str], bool] = lambda path: False
    homes: Homes = Homes()
    read_only: tuple[str, ...] = ()
    git_paths: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> NameRules:
        """The names that are hidden or protected wherever they are in a root."""
        from hilt.sandbox.sensitive import NameRules

        return NameRules(self.is_sensitive, self.is_protected, self.homes)

    def judge(self, root: str) -> PathJudge:
        """Return what classifies the paths in a root."""
        from hilt.sandbox.sensitive import PathJudge

        return PathJudge(root, self.names, self.denies_read, self.denies_write)

    @property
    def writable(self) -> tuple[str, ...]:
        """The workspace folders, or paths in them, that a program can write."""
        if self.name != "workspace-write":
            return ()
        folders = self.write or self.roots
        return folders if self.denies_write is None else tuple(path for path in folders if not self.denies_write(path))


def own_programs(profile: Profile) -> list[str]:
    """Return the folders of the running hilt and its Python, which can be read wherever they are installed.

    Outermost first; not those inside the workspace, which are part of it, and none that contains the home directory.
    """
    home = os.path.realpath(profile.home)
    return [path for path in places.programs() if not innermost(path, profile.roots) and not is_below(home, path)]


def own_variables(profile: Profile) -> tuple[str, ...]:
    """Return variables that redirect temporary files and caches to the private folder, where there are no mounts."""
    return f"TMPDIR={profile.private}/tmp", f"XDG_CACHE_HOME={profile.private}/cache"  # noqa: S108


def developer_hint(path: str) -> str:
    """Return how to let commands change hilt itself, for its developers."""
    return f"To develop hilt itself, add {path} to shell.writable in the personal settings."


def innermost(path: str, folders: tuple[str, ...]) -> str | None:
    """Return the deepest of the folders that contain a path; None when none does."""
    return max((folder for folder in folders if is_below(path, folder)), key=len, default=None)


def is_plain(path: str) -> bool:
    """Whether listings show a relative path; a mount point there would get in the user's way."""
    return not any(name.startswith(".") for name in path.split("/"))


def plain_names(profile: Profile) -> list[str]:
    """Return the protected paths that listings would show, which are watched while they are missing."""
    names = [os.path.join(root, name) for root in profile.writable for name in profile.protected if is_plain(name)]
    roots = ((path, innermost(path, profile.writable)) for path in profile.read_only)
    return names + [path for path, root in roots if root and is_plain(os.path.relpath(path, root))]
