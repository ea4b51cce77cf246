"""What git reads, followed from every place where a person can stand, and what of it confined programs must not write.

git finds a repository through a `.git` (a folder, a file or a link), or because a folder looks like one itself. From
there it follows links, `gitdir:`, `commondir`, alternates, included configuration and `core.hooksPath`. `GitReader`
follows the same ways, whatever the targets contain: what git ignores today, because something is missing, may be
completed later. Folders are opened by handle and links are resolved one by one, so names that a program swaps meanwhile
do not lead outside (ADR 0045).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from errno import EACCES, EINVAL, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM
from typing import NamedTuple

from hilt.formats.names import fold, is_repository
from hilt.handles import FILE, LISTED, Closing, open_below, read_regular
from hilt.places import LINKS_MAX
from hilt.sandbox import gitfiles
from hilt.sandbox.profile import is_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

_MAX_MODULES = 500
_CONFIG_BYTES = 1 << 20
# core.worktree and core.bare, which git ignores if there is a `commondir`
_COMMONDIR_SENSITIVE = re.compile(
    rb"(?im)^[ \t]*(?:\[[^]]*\][ \t]*)?(?:worktree[ \t]*=|bare[ \t]*(?:$|=(?![ \t]*(?:false|no|off|0))))"
)
_MAX_BYTES = 16 << 20
_MAX_NAMES = 200  # in a path that a file or a link contains; more would delay the check, and git writes none like that
_UNREACHABLE = (ENOENT, ENOTDIR, ELOOP, EACCES, EPERM, EINVAL, ENAMETOOLONG)
_CONFIGS = ("config", "config.worktree")
SEQUENCES = {"rebase-merge": ("git-rebase-todo", "strategy"), "sequencer": ("todo", "opts")}
GLOBAL = (".gitconfig", ".config/git/config")  # in a home directory
# variables that name what git reads, and how it is followed
_VARIABLES = {
    "GIT_CONFIG_GLOBAL": "config",
    "GIT_CONFIG_SYSTEM": "config",
    "XDG_CONFIG_HOME": "config",
    "GIT_DIR": "gitdir",
    "GIT_COMMON_DIR": "part",
    "GIT_TEMPLATE_DIR": "part",
}


class Part(NamedTuple):
    """Something on git's way that may make it run a program.

    It is `name` in an open folder. Paths in it are relative to `base`.
    """

    folder: int
    name: str
    path: str
    kind: str
    base: str = ""

    def status(self) -> os.stat_result:
        """Return its attributes; does not follow a link."""
        return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def read(self) -> bytes | None:
        """Return its contents; None when it is not a regular file, too long, unreadable or missing."""
        try:
            with Closing(os.open(self.name, FILE, dir_fd=self.folder)) as fd:
                data = read_regular(fd, _MAX_BYTES)
        except OSError:
            return None
        return data if data is not None and len(data) <= _MAX_BYTES else None


class Waypoint(NamedTuple):
    """A path to follow from a folder without links: its role, and the worktree or repository that it belongs to."""

    role: str
    start: str
    path: str = ""
    owner: str = ""


def named_paths(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the paths at which git begins because a variable of the user names them, each with its role."""
    named = ((role, name, environ.get(name)) for name, role in _VARIABLES.items())
    return tuple(
        (role, os.path.join(path, "git/config") if name == "XDG_CONFIG_HOME" else path)
        for role, name, path in named
        if path
    )


def waypoints_above(root: str, home: str, named: Iterable[tuple[str, str]] = ()) -> Iterator[Waypoint]:
    """Yield where git begins outside a workspace folder: repositories around it, and the user's own configuration.

    `named` are the paths from `named_paths`; relative ones start in the folder.
    """
    for role, path in named:
        yield Waypoint(role, "/" if path.startswith("/") else root, path)
    folder = root
    while folder != "/":
        folder = os.path.dirname(folder)
        if os.path.lexists(os.path.join(folder, ".git")):
            yield Waypoint("entry", folder, ".git")
        elif os.path.lexists(os.path.join(folder, "HEAD")):
            yield Waypoint("gitdir", folder)
    for path in (*(os.path.join(home, name) for name in GLOBAL), "/etc/gitconfig"):
        if os.path.lexists(path):
            yield Waypoint("config", "/", path)


class GitReader:
    """Follows what git reads. `gitdirs` are the repositories it has reached: every folder that git may use as one."""

    def __init__(self, roots: Iterable[str], home: str) -> None:
        """Programs can write only below the roots."""
        self._roots = tuple(roots)
        self._home = home
        self._completed_only = False
        self.gitdirs: dict[str, str] = {}  # and the folder that `commondir` names, if any
        self._worktrees: dict[str, dict[str, None]] = {}  # by repository
        self._hook_paths: dict[str, list[str]] = {}  # by repository

    def parts(
        self, repositories: Iterable[str], above: Iterable[Waypoint] = (), *, completed_only: bool = False
    ) -> Iterator[Part]:
        """Yield every part, one open folder at a time; what it leads to is read only after the caller has seen it.

        `completed_only` leaves out folders that something leads to, but that git ignores because parts are missing.
        """
        self._completed_only = completed_only
        self.gitdirs, self._worktrees, self._hook_paths = {}, {}, {}
        pending = [
            *(Waypoint("entry" if is_git(path) else "gitdir", *os.path.split(path)) for path in repositories),
            *above,
        ]
        seen: set[Waypoint] = set()
        while pending:
            waypoint = pending.pop()
            if waypoint not in seen:
                seen.add(waypoint)
                yield from self._visit(waypoint, pending)

    def resolve(self, base: str, text: str) -> str | None:
        """Return the path that a text leads to, without links; None if the links form a loop."""
        links = self._follow(base, text, shows=False)
        try:
            while True:
                next(links)
        except StopIteration as end:
            path: str | None = end.value
            return path

    @contextmanager
    def opened(self, path: str) -> Iterator[int | None]:
        """Yield an open folder; None when it is missing or inaccessible, or a link is on its path."""
        root = self.root(path)
        try:
            fd = os.open(path, LISTED) if root is None else open_below(root, path[len(root.rstrip("/")) + 1 :])
        except OSError as error:
            if error.errno not in _UNREACHABLE:
                raise
            yield None
            return
        with Closing(fd):
            yield fd

    def root(self, path: str) -> str | None:
        """The outermost root around a path: no program inside can replace a folder above it."""
        return min((root for root in self._roots if is_below(path, root)), key=len, default=None)

    # --- one place

    def _visit(self, waypoint: Waypoint, pending: list[Waypoint]) -> Iterator[Part]:
        role, start, path, owner = waypoint
        physical = yield from self._follow(start, os.path.dirname(path) if role == "config" else path)
        if physical is None:
            return
        if role in ("gitdir", "part"):
            yield from self._gitdir(physical, owner, pending, is_part=role == "part")
        elif role == "config":
            with self.opened(physical) as folder:
                if folder is not None:
                    yield from self._config(folder, os.path.basename(path), physical, owner, pending)
        elif role == "entry":
            yield from self._entry(physical, start, pending)
        elif role == "objects":
            yield from self._alternates(physical, pending)
        else:
            with self.opened(physical) as folder:
                if folder is not None:
                    yield from self._list(folder, physical, role, pending)

    def _entry(self, path: str, worktree: str, pending: list[Waypoint]) -> Iterator[Part]:
        """Follow a `.git`, whose path is without links."""
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return
        if stat.S_ISDIR(mode):
            pending.append(Waypoint("gitdir", path, owner=worktree))
            return
        outer, name = os.path.split(path)
        with self.opened(outer) as folder:
            if folder is None:
                return
            part = Part(folder, name, path, "gitfile", worktree)
            yield part
            text = gitfiles.read_gitdir(part.read() or b"")
        if text:
            target = yield from self._follow(worktree, text)
            if target is not None:
                pending.append(Waypoint("gitdir", target, owner=worktree))

    def _gitdir(self, path: str, worktree: str, pending: list[Waypoint], *, is_part: bool) -> Iterator[Part]:
        """Follow a repository; `is_part` is one that need not be complete: a common folder, or a template."""
        if worktree and worktree not in self._worktrees.setdefault(path, {}):
            self._worktrees[path][worktree] = None
            hook_paths = *self._hook_paths.get(path, ()), *self._hook_paths.get("", ())
            pending += [Waypoint("hooks", worktree, hooks) for hooks in hook_paths]
        if path in self.gitdirs:
            if common := self.gitdirs[path]:
                pending.append(Waypoint("part", common, owner=worktree))
            return
        # no program can write what is outside
        followed = ("worktrees", "modules", *SEQUENCES) if self.root(path) is not None else ()
        with self.opened(path) as folder:
            names = _names(folder) if folder is not None else []
            if self._completed_only and not is_part and not is_repository(set(map(fold, names))):
                return
            self.gitdirs[path] = ""
            if folder is None:
                return
            for name in names:
                folded = fold(name)
                if folded == "commondir":
                    yield from self._commondir(folder, name, path, worktree, pending)
                elif folded in _CONFIGS:
                    yield from self._config(folder, name, path, path, pending)
                elif folded in ("hooks", "objects", *followed):
                    pending.append(Waypoint(folded, path, name))

    def _commondir(self, folder: int, name: str, gitdir: str, worktree: str, pending: list[Waypoint]) -> Iterator[Part]:
        data = yield from self._file(folder, name, gitdir, "commondir", gitdir)
        text = gitfiles.read_path(data or b"")
        if text:
            common = yield from self._follow(gitdir, text)
            if common is not None and common != gitdir:
                self.gitdirs[gitdir] = common
                pending.append(Waypoint("part", common, owner=worktree))

    def _config(self, folder: int, name: str, outer: str, gitdir: str, pending: list[Waypoint]) -> Iterator[Part]:
        data = yield from self._file(folder, name, outer, "config", gitdir)
        for section, key, value in gitfiles.references(data or b""):
            path = os.path.join(self._home, value[2:]) if value.startswith("~/") else value
            if key == "path":
                pending.append(Waypoint("config", outer, path, gitdir))
            elif section == "init":
                pending += [Waypoint("part", "/", path)] if path.startswith("/") else []
            elif key == "worktree":
                worktree = yield from self._follow(gitdir, path)
                if worktree is not None:
                    pending.append(Waypoint("gitdir", gitdir, owner=worktree))
            elif path not in self._hook_paths.setdefault(gitdir, []):
                # relative to the top of a worktree, or to a bare repository; without a repository, to all of them
                self._hook_paths[gitdir].append(path)
                bases = *self._worktrees.get(gitdir, ()), gitdir or "/"
                pending += [Waypoint("hooks", base, path) for base in bases]

    def _alternates(self, objects: str, pending: list[Waypoint]) -> Iterator[Part]:
        info = yield from self._follow(objects, "info")
        if info is None:
            return
        with self.opened(info) as folder:
            if folder is None:
                return
            for name in _names(folder):
                if fold(name) != "alternates":
                    continue
                data = yield from self._file(folder, name, info, "alternates", objects)
                for text in gitfiles.read_alternates(data or b""):
                    target = yield from self._follow(objects, text)
                    if target is not None:
                        pending.append(Waypoint("objects", target))
                        pending.append(Waypoint("gitdir", os.path.dirname(target)))

    def _list(self, folder: int, path: str, role: str, pending: list[Waypoint]) -> Iterator[Part]:
        names = _names(folder)
        if role == "worktrees":
            pending += [Waypoint("gitdir", path, name) for name in names]
        elif role == "modules":
            # a name of a submodule may contain slashes
            pending.append(Waypoint("gitdir", path))
            if "HEAD" not in names:
                pending += [Waypoint("modules", path, name) for name in names]
        else:
            for name in names:
                folded = fold(name)
                if gitfiles.is_hook(name) if role == "hooks" else folded in SEQUENCES[role]:
                    yield from self._file(folder, name, path, "hook" if role == "hooks" else folded, path)

    # --- links and files

    def _follow(self, base: str, text: str, *, shows: bool = True) -> Generator[Part, None, str | None]:
        """Yield the links on the way to a path that a program could replace; return the path without links.

        None if it has too many links or names.
        """
        path = (self.root(text) or "/") if text.startswith("/") else base  # a root has no links
        names = (text[len(path.rstrip("/")) :] if text.startswith("/") else text).split("/")[::-1]
        links = 0
        if len(names) > _MAX_NAMES:
            return None
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            if name == "..":
                path = os.path.dirname(path)
                continue
            inner = os.path.join(path, name)
            try:
                target = os.readlink(inner)
            except (OSError, ValueError):
                path = inner  # not a link, or missing
                continue
            links += 1
            if links > LINKS_MAX or len(names) > _MAX_NAMES:
                return None
            if shows and self.root(path) is not None:
                with self.opened(path) as folder:
                    if folder is not None:
                        yield Part(folder, name, inner, "link", path)
                try:
                    target = os.readlink(inner)
                except OSError:
                    return None
            names += target.split("/")[::-1]
            if target.startswith("/"):
                path = "/"
        return path

    def _file(self, folder: int, name: str, outer: str, kind: str, base: str) -> Generator[Part, None, bytes | None]:
        """Yield a file and the links that lead to it; return what it contains afterwards."""
        part = Part(folder, name, os.path.join(outer, name), kind, base)
        try:
            is_link = stat.S_ISLNK(part.status().st_mode)
        except OSError:
            return None
        if not is_link:
            if self.root(outer) is not None:
                yield part
            return None if kind == "hook" else part.read()
        path = yield from self._follow(outer, name)
        if path is None or os.path.islink(path):
            return None
        with self.opened(os.path.dirname(path)) as inner:
            if inner is None:
                return None
            return (yield from self._file(inner, os.path.basename(path), os.path.dirname(path), kind, base))


def is_git(path: str) -> bool:
    """Whether the last name of a path is `.git` to some file system."""
    return fold(os.path.basename(path)) == ".git"


def _names(folder: int) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def guarded(git: str) -> Iterator[str]:
    """Yield the paths in a `.git` that must not change, including missing ones; `git` itself if it is not a repository.

    Git runs hooks, and programs that its configuration names. `commondir`, and `gitdir` in the folder of a worktree,
    point to both. A missing `commondir` is skipped where creating one would change how git behaves.
    """
    # an empty folder may be the mount point of another command
    if not _is_folder(git) or _is_empty(git):
        yield git
        return
    config = _read(os.path.join(git, "config"))
    yield from _guarded_in(git, config, is_plain=not _COMMONDIR_SENSITIVE.search(config))
    yield from _guarded_worktrees(os.path.join(git, "worktrees"), has_config=_has_worktree_config(config))
    yield from _guarded_modules(os.path.join(git, "modules"))


def _guarded_in(git: str, config: bytes, *, is_plain: bool) -> Iterator[str]:
    yield os.path.join(git, "hooks")
    yield os.path.join(git, "config")
    if is_plain or os.path.lexists(os.path.join(git, "commondir")):
        yield os.path.join(git, "commondir")
    # git reads it only if the configuration, which is protected, enables it
    worktree_config = os.path.join(git, "config.worktree")
    if _has_worktree_config(config) or os.path.lexists(worktree_config):
        yield worktree_config


def _has_worktree_config(config: bytes) -> bool:
    return b"worktreeconfig" in config.lower()


def _read(config: str) -> bytes:
    try:
        with open(config, "rb") as file:
            return file.read(_CONFIG_BYTES)
    except OSError:
        return b""


def _guarded_worktrees(folder: str, *, has_config: bool) -> Iterator[str]:
    worktrees = _folders(folder)
    if worktrees is None:
        yield folder
        return
    for worktree in worktrees:
        if _folders(worktree) is None:
            yield worktree
        for name in ("commondir", "gitdir", "config.worktree"):
            is_read = has_config and name == "config.worktree"
            if os.path.lexists(path := os.path.join(worktree, name)) or is_read:
                yield path


def _guarded_modules(folder: str) -> Iterator[str]:
    """Yield the guarded paths of submodule repositories, whose names may contain slashes."""
    pending = [folder]
    for _ in range(_MAX_MODULES):
        if not pending:
            return
        inner_folders = _folders(current := pending.pop())
        if inner_folders is None:
            yield current
            continue
        for inner in inner_folders:
            if os.path.lexists(os.path.join(inner, "HEAD")):
                # core.worktree repeats here what the `.git` file of the submodule says
                yield from _guarded_in(inner, _read(os.path.join(inner, "config")), is_plain=True)
                pending.append(os.path.join(inner, "modules"))
            else:
                pending.append(inner)
    if pending:
        yield folder  # too many to guard one by one


def _folders(path: str) -> list[str] | None:
    """Return the folders in a folder; None when it is inaccessible, which its owner could change."""
    try:
        with os.scandir(path) as entries:
            folders = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return None
    return folders if os.access(path, os.X_OK) else None


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_empty(folder: str) -> bool:
    try:
        return not os.listdir(folder)
    except OSError:
        return True
