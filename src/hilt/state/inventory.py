"""The parts of the state directory, their sizes, and whether a process uses it."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.state.events import is_served


class StatePart(NamedTuple):
    """A part of the state directory: its files and folders, their contents, and what limits their size.

    `saved`: backups include it. `spare`: it may be removed to stay within the quota; parts are removed in this order.
    """

    name: str
    paths: tuple[str, ...]  # also match with a suffix that starts with - or .
    holds: str
    limits: str
    saved: bool = False
    spare: bool = False


PARTS = (
    StatePart(
        "cache", ("cache", "sandbox.json"), "data that can be computed or fetched again", "the quota", spare=True
    ),
    StatePart(
        "rooms",
        ("sandbox",),
        "the private /tmp, /var/tmp and ~/.cache of commands",
        "output.keep_days after the last command, shell.tmp_mb each, the quota",
        spare=True,
    ),
    StatePart(
        "output",
        ("overflow",),
        "results too long to return, output of jobs",
        "output.keep_days, output.keep_mb, the quota",
        spare=True,
    ),
    StatePart(
        "events",
        ("events.db",),
        "events recorded while hilt serve ran",
        "events.keep_days, events.keep_mb, the quota",
        spare=True,
    ),
    StatePart(
        "transcripts",
        ("transcripts", "chat"),
        "conversations of agents",
        "agents.keep_days, agents.keep_mb, the quota",
        saved=True,
        spare=True,
    ),
    StatePart("skills", ("removed-skills",), "removed skills", "the quota", saved=True, spare=True),
    StatePart("copies", ("backups",), "copies of databases from before a migration", "the quota", spare=True),
    StatePart(
        "installed",
        ("installed.json",),
        "which files hilt init and hilt mcp install wrote",
        "one line each",
        saved=True,
    ),
    StatePart(
        "undo",
        ("state.db", "blobs"),
        "old contents of files; approvals, grants, trust, tasks, agents",
        "undo.calls and undo.mb for each folder",
        saved=True,
    ),
    StatePart(
        "layers",
        ("layers", "layer-places"),
        "old contents of files that commands changed",
        "undo.calls and undo.mb for each folder",
    ),
    StatePart(
        "trail",
        ("trail.db",),
        "the record of calls, and which files sessions have read",
        "90 days, 1,000,000 calls",
        saved=True,
    ),
    StatePart("agents", ("agents.db",), "the steps of durable agents", "the agents themselves", saved=True),
    StatePart("servers", ("servers",), "tool definitions of other MCP servers", "the servers you connect", saved=True),
    StatePart("worktrees", ("worktrees",), "paths of the agents' worktrees", "the worktrees", saved=True),
    StatePart(
        "processes",
        (
            *(
                "alone",
                "attending",
                "callers",
                "cleaned",
                "desktop",
                "hosts",
                "journal",
                "locks",
                "machine",
                "mountpoints",
                "nowhere",
            ),
            *("open-console", "owners", "programs", "resident", "running", "serve", "serving", "stage"),
        ),
        "locks, sockets, tokens and markers of processes",
        "a few files",
    ),
    StatePart("logs", ("incidents.log", "resident.log"), "errors of hilt itself", "no limit"),
)
OTHER = StatePart("other", (), "files that hilt did not create", "never removed")


class PartSize(NamedTuple):
    """A part, the existing names that belong to it, and the disk space and number of their files."""

    part: StatePart
    names: tuple[str, ...]
    bytes: int
    files: int


def names_of(state: str) -> dict[str, list[str]]:
    """Return the names in the state directory by the part they belong to."""
    names: dict[str, list[str]] = {}
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(state)):
            names.setdefault(part_of(name).name, []).append(name)
    return names


def part_of(name: str) -> StatePart:
    """Return the part that a name in the state directory belongs to; files next to a database belong to its part."""
    paths = {path: part for part in PARTS for path in part.paths}
    matches = [path for path in paths if name == path or name.startswith((f"{path}-", f"{path}."))]
    return paths[max(matches, key=len)] if matches else OTHER


def measure(state: str) -> list[PartSize]:
    """Return the size of every part; unknown files come last."""
    names = names_of(state)
    sizes = []
    for part in (*PARTS, OTHER):
        files = [status for name in names.get(part.name, ()) for _, status in files_below(os.path.join(state, name))]
        links = {status.st_ino: status for status in files}  # a file with two names counts once
        size = sum(status.st_blocks for status in links.values()) * 512
        sizes.append(PartSize(part, tuple(names.get(part.name, ())), size, len(files)))
    return sizes


def files_below(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files at or below a path, without following symlinks."""
    paths = [path]
    while paths:
        path = paths.pop()
        with suppress(OSError):  # deleted in the meantime
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode):
                paths += (os.path.join(path, name) for name in os.listdir(path))
            else:
                yield path, status


def is_open(path: str) -> bool:
    """Whether a process has a file open or locked; on systems without leases, only locks count.

    Do not call it for a database that this process has open: closing any descriptor of it releases SQLite's locks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if hasattr(fcntl, "F_SETLEASE"):
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # the default, SIGIO, would kill this process
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without leases
    finally:
        os.close(descriptor)
    return False


def require_unused(state: str) -> None:
    """Raise if a process is using the state directory."""
    used = [name for names in names_of(state).values() for name in names if is_open(os.path.join(state, name))]
    if used or is_served(state):
        raise ToolError(
            "busy",
            f"Another hilt process is using the state directory{': ' + ', '.join(used) if used else ''}.",
            suggestion="Stop hilt serve, hilt worker, hilt mcp and other sessions, then try again.",
            files=used,
        )
