"""A profile as a Landlock ruleset: the fallback where bubblewrap does not work.

Landlock only allows, by trees of files. So what is hidden outside of the workspace is left out by allowing its
neighbours one by one; inside of a writable folder nothing can be left out, because new files must be allowed too.
`missing` says what that and the rest amount to, for the user to decide.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hilt.errors import ToolError
from hilt.sandbox import ruleset, sensitive
from hilt.sandbox.disarming import Guard
from hilt.sandbox.process import Confined
from hilt.sandbox.profile import Judged, Profile, innermost, is_below, lifting, own_variables
from hilt.sandbox.ruleset import Ruleset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.running import Watches
    from hilt.sandbox.sensitive import Found, Search

_READ = ruleset.EXECUTE | ruleset.READ_FILE
_WRITE = (
    ruleset.WRITE_FILE
    | ruleset.REMOVE_DIR
    | ruleset.REMOVE_FILE
    | ruleset.MAKE_DIR
    | ruleset.MAKE_REG
    | ruleset.MAKE_SOCK
    | ruleset.MAKE_FIFO
    | ruleset.MAKE_SYM
    | ruleset.REFER
    | ruleset.TRUNCATE
)
_USE_DEVICE = ruleset.READ_FILE | ruleset.WRITE_FILE | ruleset.IOCTL_DEV | ruleset.TRUNCATE

# not /dev/pts: the user's terminals are in there, beside those that a program would make
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_SHARED = ("/tmp", "/var/tmp", "/run", "/dev")  # noqa: S108 -- what belongs to everyone is not shown
_DEEPEST = 40


def missing(version: int) -> tuple[str, ...]:
    """Return what this version does not enforce."""
    gaps = [
        "protected names (.git hooks and config, .hilt, .vscode, start files and the like) in the workspace can be "
        "written",
        "sensitive files (.env and the like) in a writable workspace can be read",
        "names of hidden files can be listed",
        "modes, owners and times of the user's files can be changed everywhere",
        "UDP, multipath, Unix and other such sockets reach the host and the network",
        "the /tmp of the system is not hidden by one of the session's own",
        "other processes can be seen, and their shared memory and the user's keyrings used",
    ]
    if version < 3:
        gaps.append("files outside the workspace can be cut to length 0" if version < 2 else "files can be truncated")
    if version < 4:
        gaps.append("TCP reaches the host and the network")
    if version < 6:
        gaps.append("signals reach other processes of the user")
    return tuple(gaps)


@contextmanager
def confine(profile: Profile, search: Search, watches: Watches) -> Iterator[Confined]:
    """Yield how to start a program under a ruleset for the profile."""
    if profile.network == "loopback":
        raise ToolError(
            "sandbox_unavailable",
            "A network for the session alone needs bubblewrap, which does not work here.",
            suggestion="Run the command with the network none or full.",
        )
    for path in map(os.path.realpath, profile.closed):
        if root := innermost(path, profile.writable):
            raise ToolError(
                "sandbox_unavailable",
                f"{path} lies in the workspace {root}, where Landlock cannot keep commands from changing it.",
                suggestion="Open a smaller folder as the workspace, or install bubblewrap.",
                path=path,
            )
    for path in profile.kept:
        if root := innermost(path, profile.writable):
            raise ToolError(
                "sandbox_unavailable",
                f"{path}, a part of the hilt that is running, lies in the workspace {root}, where Landlock cannot keep "
                "commands from changing it.",
                suggestion=f"Install hilt elsewhere, or bubblewrap. {lifting(path)}",
                path=path,
            )
    fd = make_ruleset(profile, search, ruleset.abi())
    try:
        with watches.hold(profile, _look(profile, search), Guard()) as watch:
            prefix = "/usr/bin/env", *own_variables(profile)
            yield Confined(prefix, ruleset=fd, notes=watch.notes, look=watch.look, repeated=watch.repeated)
    finally:
        os.close(fd)


def _look(profile: Profile, search: Search) -> Found:
    """Find the repositories of the workspace, also in folders with sensitive names: a program can write there."""
    closed = frozenset(profile.closed)
    finds = [search.find_all(root, profile.is_sensitive, closed) for root in profile.roots if profile.writable]
    return sensitive.join(finds)


def make_ruleset(profile: Profile, search: Search, version: int) -> int:
    """Return the descriptor of a ruleset; the process that restricts itself by it is confined."""
    made = Ruleset(version, network=profile.network != "none")
    try:
        # what a folder holds can be listed everywhere: the rule for one folder is the rule for all in it
        made.allow("/", ruleset.READ_DIR)
        for path in readable(profile, search):
            made.allow(path, _READ)
        for path in writable(profile):
            made.allow(path, _READ | _WRITE)
        for path in _DEVICES:
            made.allow(path, _USE_DEVICE)
    except BaseException:
        os.close(made.descriptor)
        raise
    return made.descriptor


def writable(profile: Profile) -> tuple[str, ...]:
    """Return the trees in which a program may write."""
    own = tuple(os.path.join(profile.private, name) for name in ("tmp", "var-tmp", "cache"))
    return profile.writable + own


def readable(profile: Profile, search: Search) -> Iterator[str]:
    """Yield trees that together hold everything but what is hidden."""
    home = os.path.realpath(profile.home)
    shown = [*profile.roots, *profile.shown]
    if profile.folder:
        shown.append(os.path.realpath(profile.folder))
    if profile.network == "full":
        shown.append(os.path.realpath("/etc/resolv.conf"))
    hidden = {os.path.realpath(path) for path in (*profile.closed, *_SHARED)}
    for each in sensitive.homes(home):
        hidden.update(os.path.realpath(path) for path in sensitive.home_secrets(each, profile.is_sensitive))
    if os.geteuid() == 0:
        hidden.update(path for path in sensitive.SYSTEM if os.path.lexists(path))
    hidden.update(path for path, is_unreadable in profile.denied_outside if is_unreadable)
    if profile.read == "workspace":
        hidden.add(home)
        shown += sensitive.toolchains(home, os.environ.get("PATH", ""))
    elif any(is_below(home, path) for path in hidden):
        shown.append(home)
    for root in profile.roots:
        if root not in profile.writable:
            found = search.find(root, Judged(profile, root), tuple(hidden))
            hidden.update(map(os.path.realpath, found.sensitive))
    yield from _around("/", hidden)
    for path in shown:
        yield from _around(path, hidden - {path})


def _around(folder: str, hidden: set[str], depth: int = 0) -> Iterator[str]:
    """Yield trees that hold everything of a folder but what is hidden in it."""
    inside = {path for path in hidden if is_below(path, folder)}
    if folder in inside:
        return
    if not inside:
        yield folder
        return
    if depth > _DEEPEST:
        raise ToolError("sandbox_unavailable", f"What is hidden in {folder} lies too deep for Landlock.", path=folder)
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        # a link is allowed by what it leads to
        if path not in inside and not os.path.islink(path):
            yield from _around(path, inside, depth + 1)
