"""The quota of the state directory: what is removed, and in which order, when the directory is too large (ADR 0041).

First every part is reduced to its own limits. If the directory is still above the quota, files of the parts marked as
spare are removed, part by part, oldest first. Files that a process uses and files written in the last hour are kept.
Undo has separate limits for each folder; the quota does not remove undo data.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

from hilt.config import Settings
from hilt.errors import ToolError
from hilt.sandbox import rooms
from hilt.state.events import EventStore
from hilt.state.inventory import OTHER, PARTS, PartSize, files_below, is_open, measure
from hilt.state.trail import Trail

EVERY_SECONDS = 3600
SPARED_SECONDS = 3600  # a call may just have returned the path of a newer file
_DAY_SECONDS = 86_400
_MEGABYTE = 1024 * 1024
# settings with the limits of a part: days and megabytes
_LIMITS = {
    "output": ("output.keep_days", "output.keep_mb"),
    "events": ("events.keep_days", "events.keep_mb"),
    "transcripts": ("agents.keep_days", "agents.keep_mb"),
}
_NEVER_SHARED = {*_LIMITS, "rooms"}  # parts whose names are never the user's


class Cleaned(NamedTuple):
    """The bytes removed from each part, and the size of the directory before and after."""

    removed: Mapping[str, int]
    before: int
    after: int
    quota: int


class _OldFile(NamedTuple):
    used: float
    size: int
    path: str


def clean_if_due(state: str, settings: Settings) -> None:
    """Clean the state directory, at most once an hour."""
    mark = os.path.join(state, "cleaned")
    with suppress(OSError, ToolError):  # another process is cleaning, or the disk is full
        try:
            if time.time() - os.stat(mark).st_mtime < EVERY_SECONDS:
                return
        except FileNotFoundError:
            # a new directory has nothing to remove
            os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            return
        clean(state, settings)


def clean(state: str, settings: Settings) -> Cleaned:
    """Enforce the limits of each part, then the quota; raise if another process is cleaning."""
    quota = settings["state.mb"] * _MEGABYTE
    with _alone(os.path.join(state, "cleaned")):
        before = measure(state)
        for name in _LIMITS:
            days, megabytes = (settings[key] for key in _LIMITS[name])
            _limit(state, name, since=time.time() - days * _DAY_SECONDS, size=megabytes * _MEGABYTE)
        rooms.remove_unused(os.path.join(state, "sandbox"), time.time() - settings["output.keep_days"] * _DAY_SECONDS)
        if os.path.exists(os.path.join(state, "trail.db")):
            with closing(Trail(os.path.join(state, "trail.db"))) as trail, suppress(ToolError):  # a full disk
                trail.prune()
        _remove_unfinished(state)
        sizes = measure(state)
        # if the user keeps other files in this folder, a name such as backups may be theirs
        is_shared = any(size.part is OTHER and size.names for size in sizes)
        for part in PARTS:
            excess = _total(sizes) - quota
            if excess <= 0:
                break
            if part.spare and (part.name in _NEVER_SHARED or not is_shared):
                part_size = next(size.bytes for size in sizes if size.part == part)
                _limit(state, part.name, since=0, size=max(0, part_size - excess))
                sizes = measure(state)
    after = {size.part.name: size.bytes for size in sizes}
    removed = {size.part.name: size.bytes - after[size.part.name] for size in before}
    return Cleaned(
        {name: size for name, size in removed.items() if size > 0}, _total(before), sum(after.values()), quota
    )


def _total(sizes: Iterable[PartSize]) -> int:
    return sum(size.bytes for size in sizes)


@contextmanager
def _alone(mark: str) -> Iterator[None]:
    """Let one process clean at a time; the modification time of the file records when."""
    descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.utime(descriptor)
        yield
    except BlockingIOError:
        raise ToolError("busy", "Another process is cleaning the state directory.") from None
    finally:
        os.close(descriptor)


def _limit(state: str, name: str, *, since: float, size: int) -> None:
    """Remove files of a part, oldest first: those older than `since`, and until it has at most `size` bytes."""
    if name == "rooms":
        _shrink_rooms(os.path.join(state, "sandbox"), size)
    elif name == "events":
        if os.path.exists(os.path.join(state, "events.db")):
            with closing(EventStore(state)) as events, suppress(ToolError):
                days = max(1, int((time.time() - since) / _DAY_SECONDS))
                events.prune(days=days, megabytes=size * 9 // 10 // _MEGABYTE)  # the file is larger than its rows
                events.shrink()
    else:
        paths = next(part.paths for part in PARTS if part.name == name)
        files = [
            _OldFile(status.st_mtime, status.st_blocks * 512, path)
            for folder in paths
            for path, status in files_below(os.path.join(state, folder))
            if ".db" not in os.path.basename(path)  # processes keep databases open
        ]
        _remove_oldest(files, since, size, _remove_file)


def _remove_unfinished(state: str) -> None:
    """Remove the temporary copies of a backup whose process was killed."""
    for path in _folders(state):
        with suppress(OSError):
            if os.path.basename(path).startswith("stage-") and time.time() - os.stat(path).st_mtime > _DAY_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _shrink_rooms(folder: str, size: int) -> None:
    folders = []
    for workspace in _folders(folder):
        for room in _folders(workspace):
            with suppress(OSError):
                used = sum(status.st_blocks * 512 for _, status in files_below(room))
                folders.append(_OldFile(os.stat(room).st_mtime, used, room))
    _remove_oldest(folders, 0, size, lambda room: rooms.remove(room, unused_since=time.time() - SPARED_SECONDS))


def _folders(path: str) -> list[str]:
    with suppress(OSError), os.scandir(path) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []


def _remove_oldest(files: list[_OldFile], since: float, size: int, remove: Callable[[str], object]) -> None:
    """Remove the files last used before `since`, and then the oldest until the rest has at most `size` bytes."""
    total = sum(file.size for file in files)
    for file in sorted(files):
        if file.used >= since and total <= size:
            break
        if remove(file.path):
            total -= file.size


def _remove_file(path: str) -> bool:
    """Remove a file unless it is in use or was just written; return whether it was removed."""
    try:
        if time.time() - os.lstat(path).st_mtime < SPARED_SECONDS or is_open(path):
            return False
        os.unlink(path)
        os.rmdir(os.path.dirname(path))  # fails unless it is empty
    except OSError:
        pass
    return not os.path.lexists(path)
