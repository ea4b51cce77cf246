"""What git needs in the sandbox: copies of its configuration, and stand-ins for files that programs must not read.

A program changes a copy of `.git/config`: a link to the copy is mounted over the file, because git replaces the target
of a link. When the program has ended, harmless changes are written to the file.

A tracked file that is hidden has a stand-in with the size and time that git has recorded, so that git does not read it
and takes it for unchanged. If others are hidden, git sees a copy of `info/exclude` that lists them, and the mount
points of names that must stay missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from hilt.formats.git_index import TrackedFile, tracked_files
from hilt.handles import open_folder, read_regular, remove_tree
from hilt.sandbox import gitfiles
from hilt.sandbox.profile import innermost, is_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sensitive import Findings

SHOWN = "/run/hilt-git"  # where programs see the folder of a view
_MAX_REPOSITORIES = 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Configuration(NamedTuple):
    """A configuration of git, and what it was before the program started."""

    path: str
    folder: tuple[int, int]  # device and inode
    data: bytes


class GitView:
    """What one program gets; `links` are mounted over configurations, `sealed` files over hidden ones,
    `excludes` over lists of what git ignores."""

    def __init__(self) -> None:
        self.folder = ""  # shown at SHOWN
        self.links: dict[str, str] = {}
        self.sealed: dict[str, str] = {}
        self.excludes: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.notes: list[str] = []
        self._private = -1
        self._name = ""
        self._roots: tuple[str, ...] = ()
        self._configurations: list[_Configuration] = []

    def prepare(self, profile: Profile, findings: Findings, *, copies: bool) -> None:
        """Create the files of a view; with `copies`, of configurations too."""
        tops = [path for path in findings.repositories if path.endswith("/.git") and os.path.isdir(path)]
        tops += [path for path in (_repository(root) for root in profile.roots) if path and path not in tops]
        if not tops or not os.path.isdir("/run") or os.path.islink("/run"):
            return
        folders = tuple(map(os.path.dirname, tops))
        private = os.path.realpath(profile.private)
        self._roots = profile.roots
        self._private, self._name = open_folder(private), f"git-{os.urandom(8).hex()}"
        self.folder = os.path.join(private, self._name, "shown")
        os.makedirs(self.folder, 0o700)
        for git in tops:
            hidden = [path for path in findings.sensitive if innermost(path, folders) == os.path.dirname(git)]
            untracked = self._seal(git, hidden, private) if hidden else ()
            if untracked:
                self._exclude(
                    git, [*untracked, *(path for path in _missing(profile) if is_below(path, os.path.dirname(git)))]
                )
        if self.sealed:
            settings = {"core.checkStat": "minimal", "core.trustctime": "false"}
            self.variables["GIT_CONFIG_COUNT"] = str(len(settings))
            for number, (key, value) in enumerate(settings.items()):
                self.variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        for git in tops[:_MAX_REPOSITORIES] if copies else ():
            if innermost(git, profile.writable):
                self._copy(os.path.join(git, "config"), profile)

    def finish(self) -> None:
        """Store the harmless changes of the configurations, and remove the files; the program has ended."""
        if not self._name:
            return
        for number, configuration in enumerate(self._configurations):
            with suppress(OSError):
                self._take_over(number, configuration)
        remove_tree(self._private, self._name)
        os.close(self._private)

    def _copy(self, path: str, profile: Profile) -> None:
        rules = (profile.denies_read, profile.denies_write)
        denied = any(is_below(path, other) for other, _ in profile.denied_outside)
        if denied or any(denies is not None and denies(path) for denies in rules):
            return
        with suppress(OSError):
            folder = open_folder(os.path.dirname(path))
            try:
                status = os.fstat(folder)
                data = _read(folder)
            finally:
                os.close(folder)
            if data is None:
                return
            number = len(self._configurations)
            place = os.path.join(self.folder, str(number))
            os.mkdir(place, 0o700)
            with open(os.path.join(place, "config"), "wb") as file:
                file.write(data)
            self.links[path] = os.path.join(os.path.dirname(self.folder), f"link{number}")
            os.symlink(f"{SHOWN}/{number}/config", self.links[path])
            self._configurations.append(_Configuration(path, (status.st_dev, status.st_ino), data))

    def _take_over(self, number: int, before: _Configuration) -> None:
        copy = open_folder(f"{self._name}/shown/{number}", self._private)
        try:
            data = _read(copy)
        finally:
            os.close(copy)
        if data == before.data:
            return
        shown = os.path.relpath(before.path, innermost(before.path, self._roots))
        taken, refused = (None, ("a file of another kind",)) if data is None else gitfiles.take_over(before.data, data)
        if refused:
            listed = re.sub(r"[^ -~]", "?", ", ".join(refused))[:200]
            self.notes.append(f"{shown} keeps its settings; not stored, because git might run a program: {listed}")
        if taken is not None and taken != before.data and not _store(before, taken):
            self.notes.append(f"{shown} was changed by someone else; the changes of the command were not stored")

    def _seal(self, git: str, hidden: Sequence[str], private: str) -> list[str]:
        """Make stand-ins for tracked files, and return the other hidden ones."""
        top, tracked = os.path.dirname(git), _tracked(git)
        untracked = []
        for path in hidden:
            file = tracked.get(os.path.relpath(path, top))
            if file is None or not os.path.isfile(path):
                untracked.append(path)
                continue
            self.sealed[path] = sealed = os.path.join(private, f"sealed-{file.size}-{file.changed}")
            with suppress(FileExistsError):
                fd = os.open(sealed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0)
                os.ftruncate(fd, file.size)
                os.utime(fd, (file.changed, file.changed))
                os.close(fd)
        return untracked

    def _exclude(self, git: str, paths: Sequence[str]) -> None:
        original = os.path.join(git, "info/exclude")
        if os.path.realpath(original) != original or not os.path.isfile(original):
            return
        copy = os.path.join(os.path.dirname(self.folder), f"exclude{len(self.excludes)}")
        names = (os.path.relpath(path, os.path.dirname(git)) for path in paths)
        patterns = ["/" + re.sub(r"([\\*?\[\]! #])", r"\\\1", name) for name in names]
        with suppress(OSError), open(original, "rb") as file, open(copy, "wb") as changed:
            changed.write(file.read(gitfiles.CONTENT_BYTES) + os.fsencode("\n".join(("", *patterns, ""))))
            self.excludes[original] = copy


def _store(before: _Configuration, data: bytes) -> bool:
    """Write a configuration in its place, under git's lock; False if it has changed.

    Not to another file that replaces it: a program that still runs could open that before.
    """
    folder = open_folder(os.path.dirname(before.path))
    try:
        status = os.fstat(folder)
        if (status.st_dev, status.st_ino) != before.folder:
            return False
        try:
            os.close(os.open("config.lock", os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder))
        except FileExistsError:
            return False
        try:
            if _read(folder) != before.data:
                return False
            config = os.open("config", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            with open(config, "r+b", buffering=0) as file:
                # one write over all of it: whoever ends this process leaves nothing that is mixed
                file.write(data.ljust(len(before.data), b"\n"))
                file.truncate(len(data))
            return True
        finally:
            os.unlink("config.lock", dir_fd=folder)
    finally:
        os.close(folder)


def _read(folder: int) -> bytes | None:
    fd = os.open("config", _READ, dir_fd=folder)
    try:
        data = read_regular(fd, gitfiles.CONTENT_BYTES)
    finally:
        os.close(fd)
    return data if data is not None and len(data) <= gitfiles.CONTENT_BYTES else None


def _tracked(git: str) -> Mapping[str, TrackedFile]:
    index = os.path.join(git, "index")
    with suppress(OSError, ValueError):
        status = os.stat(index)
        return _index(index, (status.st_ino, status.st_size, status.st_mtime_ns))
    return {}


@lru_cache(maxsize=8)
def _index(path: str, stamp: tuple[int, int, int]) -> Mapping[str, TrackedFile]:
    with open(path, "rb") as file:
        return {tracked.path: tracked for tracked in tracked_files(file.read())}


def _repository(folder: str) -> str | None:
    """Return the `.git` of the repository that a folder is in, if that is a folder."""
    while not os.path.lexists(git := os.path.join(folder, ".git")):
        if folder == (folder := os.path.dirname(folder)):
            return None
    return git if os.path.isdir(git) and not os.path.islink(git) else None


def _missing(profile: Profile) -> Iterator[str]:
    """Yield the protected names that programs see as empty folders."""
    for path in (f"{root}/{name}" for root in profile.writable for name in profile.protected if name != ".git"):
        with suppress(OSError):
            if not os.path.lexists(path) or not os.listdir(path):
                yield path
