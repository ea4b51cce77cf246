"""A profile as a Seatbelt policy for macOS.

Paths are passed to the policy as parameters, never inserted into its text. The last matching rule wins, so the policy
goes from general allow rules to specific deny rules. Rules apply to paths whether they exist or not, so missing names
need no mount points.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from hilt import places
from hilt.sandbox import repositories, sensitive
from hilt.sandbox.backend import Availability, Backend, Feature, FindProgram, Launch, Start
from hilt.sandbox.disarming import Guard
from hilt.sandbox.profile import Profile, innermost, is_below, own_programs, own_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.sensitive import Findings

_PROGRAM = "/usr/bin/sandbox-exec"
_PROBE_SECONDS = 20.0
_FEATURES: tuple[Feature, ...] = ("inner_paths", "unix_scope")
MISSING = ("commands share the system's /tmp instead of a private one", "other processes are visible")

# what programs need to start, and what most of them use
_GENERAL = """\
(version 1)
(deny default)
(allow process-exec process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-ioctl (literal "/dev/tty") (literal "/dev/ptmx") (regex #"^/dev/ttys[0-9]+$"))
(allow pseudo-tty)
(allow ipc-posix-sem ipc-posix-shm)
(allow mach-lookup
    (global-name "com.apple.system.opendirectoryd.libinfo")
    (global-name "com.apple.system.logger")
    (global-name "com.apple.system.notification_center")
    (global-name "com.apple.SystemConfiguration.configd")
    (global-name "com.apple.trustd.agent")
    (global-name "com.apple.bsd.dirhelper"))
(allow file-read*)
(allow file-write-data
    (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx")
    (regex #"^/dev/ttys[0-9]+$"))"""
_RESOLVER = "/private/var/run/mDNSResponder"
_TEMPORARY = ("/private/tmp", "/private/var/tmp")


class SeatbeltRule(NamedTuple):
    """One rule of the policy: its purpose, operation and paths."""

    purpose: str
    head: str
    match: str
    paths: tuple[str, ...]


class Seatbelt(Backend):
    """Programs run under a policy of the system."""

    name = "seatbelt"
    absent = "is not supported on macOS"

    def fingerprint(self, find: FindProgram) -> list[object]:
        """Return the file of the program that applies policies."""
        try:
            status = os.stat(_PROGRAM)
        except OSError:
            return []
        return [status.st_dev, status.st_ino, status.st_mtime_ns]

    def probe(self, state: str, find: FindProgram) -> Availability:
        """Run a program under a policy that allows everything."""
        from hilt.sandbox.capturing import run
        from hilt.sandbox.spawning import Limits

        if not os.access(_PROGRAM, os.X_OK):
            return Availability("", f"{_PROGRAM} is missing.")
        argv = (_PROGRAM, "-p", "(version 1)(allow default)", "/usr/bin/true")
        if run(argv, cwd="/", env={}, limits=Limits(timeout=_PROBE_SECONDS)).exit_code != 0:
            return Availability("", f"{_PROGRAM} does not work here.")
        return Availability(self.name, "Seatbelt works.", MISSING, "", _PROGRAM, _FEATURES)

    @contextmanager
    def confine(self, profile: Profile, start: Start) -> Iterator[Launch]:
        """Yield how to start a program under the policy for the profile."""
        search = start.shared.search
        findings = sensitive.join([search.find(root, profile.judge(root), profile.closed) for root in profile.roots])
        text, parameters = write(profile, make_rules(profile, findings))
        options = [option for name, value in parameters.items() for option in ("-D", f"{name}={value}")]
        argv = (start.available.program, *options, "-p", text, "/usr/bin/env", *own_variables(profile))
        with start.shared.watches.hold(profile, Guard(enforces=True), findings) as watch:
            yield Launch(argv, report=watch)


BACKEND = Seatbelt


def make_rules(profile: Profile, findings: Findings) -> list[SeatbeltRule]:
    """Decide what a program may read and write."""
    locked = (*profile.denied_missing, *findings.guarded)
    home = os.path.realpath(profile.home)
    private = tuple(os.path.join(profile.private, name) for name in ("tmp", "var-tmp", "cache"))
    rules = [SeatbeltRule("temporary files of others", "deny file-read* file-write*", "subpath", _TEMPORARY)]
    if profile.read == "workspace":
        rules.append(SeatbeltRule("home", "deny file-read*", "subpath", (home,)))
        programs = tuple(dict.fromkeys(sensitive.toolchains(home, os.environ.get("PATH", ""))))
        rules.append(SeatbeltRule("programs in the home", "allow file-read*", "subpath", programs))
    hilt = tuple(path for path in own_programs(profile) if innermost(path, (*_TEMPORARY, home)))
    rules.append(SeatbeltRule("hilt itself", "allow file-read*", "subpath", hilt))
    rules.append(SeatbeltRule("workspace", "allow file-read*", "subpath", (*profile.roots, *profile.always_readable)))
    if profile.writable:
        rules.append(SeatbeltRule("workspace writable", "allow file-write*", "subpath", profile.writable))
        guarded = tuple(dict.fromkeys((*_guarded(profile, findings, home), *locked)))
        rules.append(SeatbeltRule("guarded", "deny file-write*", "subpath", guarded))
        # a program that can rename a folder can put another in its place
        fixed = (*guarded, *findings.sensitive)
        parents = tuple(dict.fromkeys(parent for path in fixed for parent in _parents(path, profile.writable)))
        rules.append(SeatbeltRule("parent folders", "deny file-write-unlink", "literal", parents))
    homes = places.homes({"HOME": home})
    secrets = [path for folder in homes for path in sensitive.home_secrets(folder, profile.is_sensitive)]
    denied = (path for path, is_unreadable in profile.denied_outside if is_unreadable)
    hidden = (*secrets, *findings.sensitive, *findings.unreadable, *denied)
    closed = tuple(dict.fromkeys(os.path.realpath(path) for path in (*hidden, *profile.closed)))
    rules.append(SeatbeltRule("hidden", "deny file-read* file-write*", "subpath", closed))
    reopened = tuple(path for path in profile.always_readable if innermost(path, closed))
    rules.append(SeatbeltRule("shown", "allow file-read*", "subpath", reopened))
    if profile.folder:
        rules.append(SeatbeltRule("session folder", "allow file-read*", "subpath", (os.path.realpath(profile.folder),)))
    rules.append(SeatbeltRule("private folders", "allow file-read* file-write*", "subpath", private))
    if profile.network.internet:
        # rules on paths apply to Unix sockets
        usable = (*profile.writable, *private, _RESOLVER, *profile.sockets)
        rules.append(SeatbeltRule("sockets of others", "deny network-outbound", "subpath", ("/",)))
        rules.append(SeatbeltRule("sockets", "allow network-outbound", "subpath", usable))
    # resolving a path reads the metadata of its parent folders
    inner = (*profile.roots, *profile.always_readable, *hilt, *private, *((profile.folder,) if profile.folder else ()))
    ancestors = tuple(dict.fromkeys(folder for path in inner for folder in _ancestors(path)))
    rules.append(SeatbeltRule("folders around", "allow file-read-metadata", "literal", ancestors))
    return [rule for rule in rules if rule.paths]


def write(profile: Profile, rules: list[SeatbeltRule]) -> tuple[str, dict[str, str]]:
    """Return the text of the policy, and its path parameters."""
    lines = [_GENERAL, "(allow network*)" if profile.network.internet else "(deny network*)"]
    parameters: dict[str, str] = {}
    names: dict[str, str] = {}
    for rule in rules:
        matches = []
        for path in rule.paths:
            name = names.setdefault(path, f"P{len(names)}")
            parameters[name] = path
            matches.append(f'({rule.match} (param "{name}"))')
        lines.append(f"({rule.head}\n    {' '.join(matches)})")
    return "\n".join(lines) + "\n", parameters


def _guarded(profile: Profile, findings: Findings, home: str) -> Iterator[str]:
    for root in profile.writable:
        for name in profile.protected:
            yield os.path.join(root, name)
        if not os.path.lexists(os.path.join(root, ".git")):
            yield os.path.join(root, ".git")
    for git in findings.repositories:
        yield from repositories.guarded(git)
        yield os.path.join(git, "commondir")
    for path in (*filter(profile.homes.protects, findings.guarded), *profile.read_only):
        if innermost(os.path.dirname(path), profile.writable):
            yield path


def _parents(path: str, roots: tuple[str, ...]) -> Iterator[str]:
    root = innermost(path, roots)
    while root and (path := os.path.dirname(path)) != root and is_below(path, root):
        yield path


def _ancestors(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path
