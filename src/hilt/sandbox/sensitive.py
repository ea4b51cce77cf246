"""Finds what a confined program must not see: credentials in the home directory, sensitive names in the workspace.

Also finds the Git repositories of a workspace, because one walk finds both.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from time import time_ns
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.formats.names import fold, is_repository
from hilt.handles import LISTED, Closing
from hilt.homes import Homes

# below the home directory: keys, tokens and passwords of programs
CREDENTIALS = (
    *(".ssh", ".aws", ".gnupg", ".kube", ".docker", ".netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials"),
    *(".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub", ".config/gcloud"),
    *(".config/github-copilot", ".config/containers/auth.json", ".config/rclone", ".config/doctl", ".config/op"),
    *(".config/sops", ".config/age", ".config/heroku", ".config/hcloud", ".config/Bitwarden", ".config/1Password"),
    *(".azure", ".oci", ".boto", ".s3cfg", ".fly", ".vault-token", ".terraformrc"),
    *(".terraform.d/credentials.tfrc.json", ".pgpass", ".my.cnf", ".cargo/credentials", ".cargo/credentials.toml"),
    *(".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".huggingface"),
    *(".kaggle", ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".claude.json"),
    *(".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", "Library/Keychains"),
)
BROWSERS = (
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/google-chrome-beta", ".config/chromium"),
    *(".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".librewolf", ".var/app"),
    *("snap/firefox", "snap/chromium", "Library/Application Support/Google/Chrome"),
    *("Library/Application Support/Chromium", "Library/Application Support/Firefox"),
    *("Library/Application Support/BraveSoftware", "Library/Application Support/Microsoft Edge"),
    *("Library/Safari", "Library/Cookies"),
)
# in addition to every name in the home directory that ends in _history
HISTORIES = (".zhistory", ".histfile", ".lesshst", ".viminfo", ".local/share/fish/fish_history")
# files that only root can read, including confined programs of root
SYSTEM = ("/etc/shadow", "/etc/shadow-", "/etc/ssh")
# below the home directory: programs and their files, visible even if the home directory is hidden
TOOLCHAINS = (
    *(".asdf", ".bun", ".cargo", ".conda", ".deno", ".dotnet", ".ghcup", ".goenv", ".juliaup", ".linuxbrew"),
    *(".local/bin", ".local/lib", ".local/pipx", ".local/share/fnm", ".local/share/mise", ".local/share/pipx"),
    *(".local/share/pnpm", ".local/share/uv", ".nix-profile", ".local/state/nix", ".nodenv", ".nvm", ".opam", ".pyenv"),
    *(".rbenv", ".rustup", ".rvm", ".sdkman", ".volta", "anaconda3", "go", "miniconda3", "miniforge3"),
    *(".gitconfig", ".config/git"),
)

_MAX_FOLDERS = 200_000
_MAX_FINDINGS = 1_000
_MAX_PATH_CHARACTERS = 1_000  # mounts need paths below 4096 bytes, and renaming folders can make a path longer
_REPOSITORY_PARTS = frozenset(("head", "objects", "refs", "commondir"))
_SETTLED_NS = 100_000_000  # a later change may get the same timestamp as one that is this recent


def home_secrets(home: str, is_sensitive: Callable[[str], bool]) -> Iterator[str]:
    """Yield the existing credentials, browser profiles and histories in a home directory."""
    listed_names = (*CREDENTIALS, *BROWSERS, *HISTORIES)
    try:
        names = set(os.listdir(home))
    except FileNotFoundError:
        return
    except OSError:
        # files in an unlistable folder may still be opened
        names = {name.partition("/")[0] for name in listed_names}
    for name in listed_names:
        if name.partition("/")[0] in names and os.path.lexists(path := os.path.join(home, name)):
            yield path
    for name in names.difference(listed_names):
        if name != ".git" and (name.endswith("_history") or is_sensitive(name)):
            yield os.path.join(home, name)


def toolchains(home: str, search_path: str) -> Iterator[str]:
    """Yield the folders below a home directory from which programs run."""
    for name in TOOLCHAINS:
        path = os.path.join(home, name)
        if os.path.lexists(path):
            yield path
    for folder in search_path.split(os.pathsep):
        real = os.path.realpath(folder)
        if os.path.isabs(folder) and real.startswith(home + "/") and os.path.isdir(real):
            outer, name = os.path.split(real)
            # programs find their libraries beside bin
            shares_prefix = name in ("bin", "shims", "sbin") and os.path.dirname(outer) != os.path.dirname(home)
            yield outer if shares_prefix and outer not in (home, os.path.join(home, ".local")) else real


class Kind(IntEnum):
    """The verdict on a name: unrestricted, hidden from programs, or read-only for them."""

    PLAIN = 0
    HIDDEN = 1
    GUARDED = 2


class NameRules(NamedTuple):
    """Which names are hidden from programs, and which are configuration that they must not write."""

    is_sensitive: Callable[[str], bool]
    is_protected: Callable[[str], bool]
    homes: Homes = Homes()

    def protects(self, root: str, path: str) -> bool:
        """Whether a path relative to a root is protected, by its last name."""
        return self.is_protected(path) or self.homes.protects(os.path.join(root, path))


class PathJudge:
    """Classifies paths relative to a root, by the last name; equal for equal rules, so that walks can be reused."""

    def __init__(
        self,
        root: str,
        names: NameRules,
        denies_read: Callable[[str], bool] | None = None,
        denies_write: Callable[[str], bool] | None = None,
    ) -> None:
        self._rules = root, names, denies_read, denies_write

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PathJudge) and self._rules == other._rules

    def __hash__(self) -> int:
        return hash(self._rules[0])

    def __call__(self, path: str) -> int:
        """Return the Kind of a path."""
        root, names, denies_read, denies_write = self._rules
        full = os.path.join(root, path)
        if names.is_sensitive(path) or (denies_read is not None and denies_read(full)):
            return Kind.HIDDEN
        if names.protects(root, path) or (denies_write is not None and denies_write(full)):
            return Kind.GUARDED
        return Kind.PLAIN


Judge = Callable[[str], int]  # returns the Kind of a path relative to a root, by its last name; True is HIDDEN


class Findings(NamedTuple):
    """What a walk found: sensitive paths, repositories, unreadable folders, and guarded paths.

    A repository is the path of its `.git`, or of a folder with the contents of a repository; `inner` are such folders
    inside a `.git`. `links` may lead out of the root, or into a `.git`.
    """

    sensitive: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def join(searches: Sequence[Findings]) -> Findings:
    """Return the combined findings of several walks, without duplicates."""
    kinds = zip(*(searches or [Findings()]), strict=True)
    return Findings(*(tuple(dict.fromkeys(path for paths in kind for path in paths)) for kind in kinds))


class _Listing(NamedTuple):
    device: int
    inode: int
    changed: int
    folders: tuple[str, ...]
    findings: Findings | None  # None if there are none


class Search:
    """Finds sensitive names. Folders that have not changed since the last walk are not listed again."""

    def __init__(self, max_folders: int = _MAX_FOLDERS) -> None:
        self._max_folders = max_folders
        self._lock = threading.Lock()
        self._listings: dict[str, tuple[Judge, dict[str, _Listing]]] = {}

    def find(self, root: str, judge: Judge, skipped: tuple[str, ...] = ()) -> Findings:
        """Walk a folder; skips paths that something else covers."""
        findings = self._walk(root, judge, frozenset(skipped), self._max_folders)
        if len(findings.sensitive) + len(findings.repositories) + len(findings.guarded) > _MAX_FINDINGS:
            raise ToolError(
                "sandbox_unavailable",
                f"{root} has more than {_MAX_FINDINGS} sensitive or protected files and repositories.",
                suggestion="Open a smaller folder as the workspace.",
                path=root,
            )
        return findings

    def find_all(self, root: str, judge: Judge, skipped: frozenset[str]) -> Findings:
        """Walk a folder without limits, including sensitive folders: nothing can hide behind many files.

        Uses the judge of the last walk, or else the given one.
        """
        with self._lock:
            judge = self._listings.get(root, (judge, {}))[0]
        return self._walk(root, judge, skipped, None)

    def _walk(self, root: str, judge: Judge, skipped: frozenset[str], max_folders: int | None) -> Findings:
        with self._lock:
            last_judge, cached = self._listings.get(root, (judge, {}))
        if last_judge != judge:
            cached = {}
        fresh: dict[str, _Listing] = {}
        found: list[Findings] = []
        unreadable: list[str] = []
        # from here on paths are relative to the root, which is faster than resolving absolute ones
        prefix = root.rstrip("/") + "/"
        skipped_names = {path[len(prefix) :] for path in skipped if path.startswith(prefix)}
        longest = _MAX_PATH_CHARACTERS - len(prefix)
        pending = ["."]
        unsettled = 0
        try:
            top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            # same result as if it became inaccessible or was removed a moment later
            return Findings((), (), (root,) if os.path.isdir(root) else ())
        with Closing(top):
            while pending:
                path = pending.pop()
                if path in skipped_names:
                    continue
                try:
                    status = os.stat(path, dir_fd=top, follow_symlinks=False)
                    listing = cached.get(path)
                    # a program can set mtime, but not ctime
                    if listing is not None and listing[:3] == (status.st_dev, status.st_ino, status.st_ctime_ns):
                        fresh[path] = listing
                    else:
                        if not stat.S_ISDIR(status.st_mode):
                            continue  # replaced since it was listed; links are not followed
                        if len(path) > longest and max_folders is not None:
                            unreadable.append(prefix + path)
                            continue
                        now = time_ns()
                        listing = _list(top, path, prefix, judge)
                        # a path that is too long is not cached, because a walk with limits must not use it
                        if now - listing.changed > _SETTLED_NS and len(path) <= longest:
                            fresh[path] = listing
                        else:
                            unsettled += 1
                        if max_folders is not None and len(fresh) + unsettled > max_folders:
                            raise _too_large(root, max_folders)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except OSError:
                    unreadable.append(root if path == "." else prefix + path)
                    continue
                pending += listing.folders
                if listing.findings is not None:
                    found.append(listing.findings)
                    if max_folders is None:
                        pending += [full[len(prefix) :] for full in listing.findings.sensitive]
        with self._lock:
            self._listings[root] = judge, fresh
        return Findings(*(tuple(sorted(paths)) for paths in join((*found, Findings(unreadable=tuple(unreadable))))))


def _list(top: int, path: str, prefix: str, judge: Judge) -> _Listing:
    folders: list[str] = []
    sensitive: list[str] = []
    guarded: list[str] = []
    repositories: list[str] = []
    inner: list[str] = []
    links: list[str] = []
    parts: set[str] = set()
    below = "" if path == "." else path + "/"
    is_git = ".git" in map(fold, path.split("/"))
    # by handle: the folder may be replaced while it is listed
    with Closing(os.open(path, LISTED, dir_fd=top)) as fd:
        status = os.fstat(fd)
        if not os.access(".", os.X_OK, dir_fd=fd):
            # its names could be listed, but nothing could be mounted there
            raise PermissionError
        with os.scandir(fd) as entries:
            for entry in entries:
                name = below + entry.name
                folded = fold(entry.name)  # some file systems ignore case
                if not is_git and entry.is_symlink() and not _stays_inside(os.readlink(entry.name, dir_fd=fd), below):
                    links.append(prefix + name)
                if folded == ".git":
                    # git must work; paths in it that must not be written are guarded
                    (inner if is_git else repositories).append(prefix + name)
                elif is_git:
                    pass  # nothing in a repository is named by its user
                elif (kind := judge(name)) == Kind.HIDDEN:
                    sensitive.append(prefix + name)
                    continue
                elif kind == Kind.GUARDED:
                    guarded.append(prefix + name)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                if folded in _REPOSITORY_PARTS:
                    parts.add(folded)
    if is_repository(parts):
        (inner if is_git else repositories).append((prefix + below).rstrip("/") or "/")
    findings = None
    if sensitive or repositories or guarded or inner or links:
        findings = Findings(tuple(sensitive), tuple(repositories), (), tuple(guarded), tuple(inner), tuple(links))
    return _Listing(status.st_dev, status.st_ino, status.st_ctime_ns, tuple(folders), findings)


def _stays_inside(target: str, below: str) -> bool:
    """Whether a link in a folder leads to a path in its root outside a `.git`, unless another link on it does not."""
    names = target.split("/")
    depth = next((index for index, name in enumerate(names) if name != ".."), len(names))
    inside = not target.startswith("/") and depth <= below.count("/")
    return inside and ".." not in names[depth:] and ".git" not in map(fold, names)


def _too_large(root: str, max_folders: int) -> ToolError:
    return ToolError(
        "sandbox_unavailable",
        f"{root} has more than {max_folders} folders, too many to search for sensitive files.",
        suggestion="Open a smaller folder as the workspace.",
        path=root,
    )
