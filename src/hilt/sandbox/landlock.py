"""A profile as a Landlock ruleset: the fallback where bubblewrap does not work.

A Landlock rule can only allow access to a whole tree. To hide a path outside the workspace, its siblings are allowed
one by one. In a writable folder nothing can be hidden, because new files must be allowed too. `missing` lists what is
not enforced, so that the user can decide.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hilt import places
from hilt.errors import ToolError
from hilt.handles import Closing
from hilt.sandbox import ruleset, seccomp, sensitive
from hilt.sandbox.backend import Availability, Backend, FindProgram, Launch, Start, StartSteps
from hilt.sandbox.disarming import Guard
from hilt.sandbox.profile import Profile, developer_hint, innermost, is_below, own_programs, own_variables
from hilt.sandbox.ruleset import Ruleset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.sensitive import Search

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

# not /dev/pts: it also contains the user's terminals
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_SHARED = ("/tmp", "/var/tmp", "/run", "/dev")  # noqa: S108 -- shared by all users, so hidden
_MAX_DEPTH = 40


def missing(version: int) -> tuple[str, ...]:
    """Return what this version of Landlock does not enforce, in short: all of it is part of a prompt."""
    gaps = [
        "protected files in the workspace are writable",
        "sensitive files in it are readable",
        "hidden names can be listed",
        "modes and times of all files can be changed",
        "there is no private /tmp",
        "other processes are visible",
    ]
    if version < 3:
        gaps.append("files outside the workspace can be truncated")
    if os.uname().machine not in seccomp.MACHINES:
        gaps.append("the network can be reached")
    if version < 6:
        gaps.append("signals reach other processes")
    return tuple(gaps)


class Landlock(Backend):
    """Programs restrict themselves, from what everybody may do."""

    name = "landlock"
    absent = "requires bubblewrap, which does not work here"

    def fingerprint(self, find: FindProgram) -> list[object]:
        """Return nothing: only the kernel counts."""
        return []

    def probe(self, state: str, find: FindProgram) -> Availability:
        """Ask the kernel for its version of Landlock."""
        abi = ruleset.abi()
        if not abi:
            return Availability("", "The kernel does not support Landlock either.")
        features = ("unix_scope",) if seccomp.answers_calls() else ()
        facts = f"Landlock (ABI {abi}) enforces only part of the sandbox.{'' if features else seccomp.NO_SOCKETS}"
        return Availability(self.name, facts, missing(abi), features=features)

    @contextmanager
    def confine(self, profile: Profile, start: Start) -> Iterator[Launch]:
        """Yield how to start a program under a ruleset for the profile."""
        for path in map(os.path.realpath, profile.closed):
            if root := innermost(path, profile.writable):
                raise ToolError(
                    "sandbox_unavailable",
                    f"{path} is in the workspace {root}, where Landlock cannot prevent commands from changing it.",
                    suggestion="Open a smaller folder as the workspace, or install bubblewrap.",
                    path=path,
                )
        for path in profile.read_only:
            if root := innermost(path, profile.writable):
                raise ToolError(
                    "sandbox_unavailable",
                    f"{path}, part of the running hilt, is in the workspace {root}, where Landlock cannot prevent "
                    "commands from changing it.",
                    suggestion=f"Install bubblewrap, or install hilt elsewhere. {developer_hint(path)}",
                    path=path,
                )
        unix = profile.network.unix and start.available.has("unix_scope")
        program_filter = seccomp.for_profile(
            profile, internet=profile.network.internet, unix=unix, processes=False, user_namespaces=False
        )
        with (
            Closing(make_ruleset(profile, start.shared.search, ruleset.abi())) as fd,
            start.shared.watches.hold(profile, Guard()) as watch,
            start.shared.networks.record(profile.session, profile.network) as record,
        ):
            sockets = seccomp.socket_calls(profile.sockets, record) if unix else None
            steps = StartSteps(ruleset=fd, program_filter=program_filter or b"", sockets=sockets)
            yield Launch(("/usr/bin/env", *own_variables(profile)), steps=steps, report=watch)


BACKEND = Landlock


def make_ruleset(profile: Profile, search: Search, version: int) -> int:
    """Return the descriptor of a ruleset, which confines the process that applies it to itself."""
    rules = Ruleset(version, network=profile.network.internet)
    try:
        # folders can be listed everywhere: a rule for a folder applies to everything in it
        rules.allow("/", ruleset.READ_DIR)
        for path in readable(profile, search):
            rules.allow(path, _READ)
        for path in writable(profile):
            rules.allow(path, _READ | _WRITE)
        for path in _DEVICES:
            rules.allow(path, _USE_DEVICE)
    except BaseException:
        os.close(rules.descriptor)
        raise
    return rules.descriptor


def writable(profile: Profile) -> tuple[str, ...]:
    """Return the trees that a program may write."""
    private = tuple(os.path.join(profile.private, name) for name in ("tmp", "var-tmp", "cache"))
    return profile.writable + private


def readable(profile: Profile, search: Search) -> Iterator[str]:
    """Yield trees that together contain everything except hidden paths."""
    home = os.path.realpath(profile.home)
    visible = [*profile.roots, *profile.always_readable]
    if profile.folder:
        visible.append(os.path.realpath(profile.folder))
    if profile.network.internet:
        visible.append(os.path.realpath("/etc/resolv.conf"))
    hidden = {os.path.realpath(path) for path in (*profile.closed, *_SHARED)}
    for home_folder in places.homes({"HOME": home}):
        hidden.update(os.path.realpath(path) for path in sensitive.home_secrets(home_folder, profile.is_sensitive))
    if os.geteuid() == 0:
        hidden.update(path for path in sensitive.SYSTEM if os.path.lexists(path))
    hidden.update(path for path, is_unreadable in profile.denied_outside if is_unreadable)
    if profile.read == "workspace":
        hidden.add(home)
        visible += sensitive.toolchains(home, os.environ.get("PATH", ""))
    elif any(is_below(home, path) for path in hidden):
        visible.append(home)
    visible += (path for path in own_programs(profile) if innermost(path, tuple(hidden)))
    for root in profile.roots:
        if root not in profile.writable:
            findings = search.find(root, profile.judge(root), tuple(hidden))
            hidden.update(map(os.path.realpath, findings.sensitive))
    yield from _trees_around("/", hidden)
    for path in visible:
        yield from _trees_around(path, hidden - {path})


def _trees_around(folder: str, hidden: set[str], depth: int = 0) -> Iterator[str]:
    """Yield trees that together contain everything in a folder except hidden paths."""
    inside = {path for path in hidden if is_below(path, folder)}
    if folder in inside:
        return
    if not inside:
        yield folder
        return
    if depth > _MAX_DEPTH:
        raise ToolError(
            "sandbox_unavailable", f"Hidden paths in {folder} are nested too deeply for Landlock.", path=folder
        )
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        # access through a link depends on its target
        if path not in inside and not os.path.islink(path):
            yield from _trees_around(path, inside, depth + 1)
