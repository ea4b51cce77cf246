"""Paths in a Git repository that make git run programs, so confined programs must not write them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

_MAX_MODULES = 500
_CONFIG_BYTES = 1 << 20
# core.worktree and core.bare, which git ignores if there is a `commondir`
_COMMONDIR_SENSITIVE = re.compile(
    rb"(?im)^[ \t]*(?:\[[^]]*\][ \t]*)?(?:worktree[ \t]*=|bare[ \t]*(?:$|=(?![ \t]*(?:false|no|off|0))))"
)


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
