"""What a confined program must not see: credentials in the home directory, sensitive names in the workspace.

Also finds the Git repositories of a workspace, for one walk sees both.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from time import time_ns
from typing import NamedTuple

from hilt.errors import ToolError

# below the home directory: keys, tokens and passwords, by the programs that keep them there
CREDENTIALS = (
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/gcloud",
    ".config/github-copilot",
    ".config/containers/auth.json",
    ".config/rclone",
    ".config/doctl",
    ".config/op",
    ".config/sops",
    ".config/age",
    ".config/heroku",
    ".config/hcloud",
    ".config/Bitwarden",
    ".config/1Password",
    ".azure",
    ".oci",
    ".boto",
    ".s3cfg",
    ".fly",
    ".vault-token",
    ".terraformrc",
    ".terraform.d/credentials.tfrc.json",
    ".pgpass",
    ".my.cnf",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".huggingface",
    ".kaggle",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    "Library/Keychains",
)
BROWSERS = (
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/google-chrome-beta",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".librewolf",
    ".var/app",
    "snap/firefox",
    "snap/chromium",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Chromium",
    "Library/Application Support/Firefox",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Microsoft Edge",
    "Library/Safari",
    "Library/Cookies",
)
# any other name in the home directory that ends in _history is one too
HISTORIES = (".zhistory", ".histfile", ".lesshst", ".viminfo", ".local/share/fish/fish_history")
# below the home directory: what runs by itself, or says what is run, the next time the user does something
START_FILES = (
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".pam_environment",
    ".gitconfig",
    ".tmux.conf",
    ".vimrc",
    ".emacs",
    ".config/git",
    ".config/fish",
    ".config/nvim",
    ".config/autostart",
    ".config/systemd",
    ".config/environment.d",
    "Library/LaunchAgents",
)
# what would let others in, or run something, if it were made anew
UNMAKEABLE = (".ssh", ".aws", ".gnupg", ".kube", ".docker", ".npmrc")
# only root can read them, and a confined root still could
SYSTEM = ("/etc/shadow", "/etc/shadow-", "/etc/ssh")
# below the home directory: programs and what they need to run, shown although the home directory is hidden
TOOLCHAINS = (
    ".asdf",
    ".bun",
    ".cargo",
    ".conda",
    ".deno",
    ".dotnet",
    ".ghcup",
    ".goenv",
    ".juliaup",
    ".linuxbrew",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".nix-profile",
    ".local/state/nix",
    ".nodenv",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".volta",
    "anaconda3",
    "go",
    "miniconda3",
    "miniforge3",
    ".gitconfig",
    ".config/git",
)

_MOST_FOLDERS = 200_000
_MOST_FINDS = 1_000
_LONGEST = 1_000  # characters; mounts need paths of less than 4096 bytes, and whoever can rename can make longer ones
_SETTLED_NS = 100_000_000  # a folder that changed so recently may change again within the same tick of its clock


def home_secrets(home: str, is_sensitive: Callable[[str], bool]) -> Iterator[str]:
    """Yield what exists of the credentials, browser profiles and histories in a home directory."""
    known = (*CREDENTIALS, *BROWSERS, *HISTORIES)
    try:
        names = set(os.listdir(home))
    except FileNotFoundError:
        return
    except OSError:
        # what cannot be listed may still be opened
        names = {name.partition("/")[0] for name in known}
    for name in known:
        if name.partition("/")[0] in names and os.path.lexists(path := os.path.join(home, name)):
            yield path
    for name in names.difference(known):
        if name != ".git" and (name.endswith("_history") or is_sensitive(name)):
            yield os.path.join(home, name)


def homes(home: str) -> tuple[str, ...]:
    """Return the home directory that was given, and the one that the system knows if that is another."""
    import pwd

    try:
        listed = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        listed = home
    return tuple(dict.fromkeys((os.path.realpath(home), os.path.realpath(listed))))


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


class Found(NamedTuple):
    """What a walk found: sensitive paths, the `.git` of repositories, and folders that it could not look into."""

    sensitive: tuple[str, ...]
    repositories: tuple[str, ...]
    unreadable: tuple[str, ...]


class _Listing(NamedTuple):
    stamp: tuple[int, int, int]
    folders: tuple[str, ...]
    sensitive: tuple[str, ...]
    has_git: bool


class Search:
    """Finds sensitive names. Folders that have not changed since the last time are not listed again."""

    def __init__(self, most_folders: int = _MOST_FOLDERS) -> None:
        self._most_folders = most_folders
        self._lock = threading.Lock()
        self._listings: dict[str, tuple[Callable[[str], bool], dict[str, _Listing]]] = {}

    def find(self, root: str, is_sensitive: Callable[[str], bool], skipped: tuple[str, ...] = ()) -> Found:
        """Walk a folder. What is `skipped` is covered by something else."""
        with self._lock:
            judge, known = self._listings.get(root, (is_sensitive, {}))
        if judge != is_sensitive:
            known = {}
        fresh: dict[str, _Listing] = {}
        sensitive: list[str] = []
        repositories: list[str] = []
        unreadable: list[str] = []
        pending = [""]
        prefix = root.rstrip("/") + "/"
        looked = 0
        while pending:
            relative = pending.pop()
            path = prefix + relative
            looked += 1
            if looked > self._most_folders:
                raise ToolError(
                    "sandbox_unavailable",
                    f"{root} has more than {self._most_folders} folders, too many to look for sensitive files in.",
                    suggestion="Open a smaller folder as the workspace.",
                    path=root,
                )
            if len(path) > _LONGEST:
                unreadable.append(path)
                continue
            try:
                status = os.lstat(path)
                if not stat.S_ISDIR(status.st_mode):
                    continue  # replaced since it was listed, and links lead nowhere new
                listing = known.get(relative)
                if listing is None or listing.stamp != _stamp(status):
                    now = time_ns()
                    listing = _list(path, relative, is_sensitive)
                    if now - listing.stamp[2] > _SETTLED_NS:
                        fresh[relative] = listing
                else:
                    fresh[relative] = listing
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                unreadable.append(path)
                continue
            below = relative + "/" if relative else ""
            sensitive += [prefix + below + name for name in listing.sensitive]
            if listing.has_git:
                repositories.append(prefix + below + ".git")
            pending += [below + name for name in listing.folders if prefix + below + name not in skipped]
        if len(sensitive) + len(repositories) > _MOST_FINDS:
            raise ToolError(
                "sandbox_unavailable",
                f"{root} has more than {_MOST_FINDS} sensitive files and repositories, too many to cover.",
                suggestion="Open a smaller folder as the workspace.",
                path=root,
            )
        with self._lock:
            self._listings[root] = is_sensitive, fresh
        return Found(tuple(sorted(sensitive)), tuple(sorted(repositories)), tuple(sorted(unreadable)))


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    # no program can set ctime, as it can mtime
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _list(path: str, relative: str, is_sensitive: Callable[[str], bool]) -> _Listing:
    folders: list[str] = []
    sensitive: list[str] = []
    has_git = False
    below = relative + "/" if relative else ""
    # by handle: what is listed is what the stamp is of
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        stamp = _stamp(os.fstat(folder))
        if not os.access(".", os.X_OK, dir_fd=folder):
            # its names could be seen, but nothing could be mounted there
            raise PermissionError
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name == ".git":
                    # git must work; what must not be written in there is protected
                    has_git = True
                elif is_sensitive(below + name):
                    sensitive.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
    finally:
        os.close(folder)
    return _Listing(stamp, tuple(folders), tuple(sensitive), has_git)
