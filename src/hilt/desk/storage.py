"""What hilt has stored on this machine: its parts and sizes, backups, cleaning, and removal."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from hilt import places
from hilt.errors import ToolError
from hilt.running import cleaning
from hilt.running.cleaning import Cleaned
from hilt.state import archive, inventory
from hilt.state.archive import Manifest
from hilt.state.directory import free_bytes
from hilt.state.history import History
from hilt.state.tables import open_state

if TYPE_CHECKING:
    from hilt.runtime import Runtime

__all__ = ["Cleaned", "Elsewhere", "Manifest", "StateFolder", "Storage", "StoredPart"]

_DAY_NS = 86_400 * 1_000_000_000


class StoredPart(NamedTuple):
    """One part of the state directory: what it holds, and what limits it."""

    name: str
    holds: str
    limits: str
    names: tuple[str, ...]
    bytes: int
    files: int
    in_backup: bool


class Elsewhere(NamedTuple):
    """A folder outside the state directory, which neither the quota nor backups cover."""

    path: str
    holds: str
    bytes: int


class Storage(NamedTuple):
    """The state directory and its parts."""

    directory: str
    bytes: int
    quota_bytes: int
    free_bytes: int | None
    parts: tuple[StoredPart, ...]
    elsewhere: tuple[Elsewhere, ...]


class StateFolder(NamedTuple):
    """A state directory: the current one, or one that a restore has replaced."""

    path: str
    names: tuple[str, ...]
    others: tuple[str, ...]  # names there that do not belong to hilt
    bytes: int


def stored(runtime: Runtime) -> Storage:
    """Return what is stored, and how large it is."""
    state = runtime.parts.state
    parts = tuple(
        StoredPart(
            size.part.name,
            size.part.holds,
            size.part.limits,
            tuple(size.names),
            size.bytes,
            size.files,
            size.part.saved,
        )
        for size in inventory.measure(state)
    )
    total = sum(part.bytes for part in parts)
    return Storage(state, total, runtime.settings["state.mb"] << 20, free_bytes(state), parts, _elsewhere(state))


def back_up(path: str) -> int:
    """Write the state to a new file, and return its size."""
    state = places.state_dir(os.environ)
    if not os.path.isdir(state):
        raise ToolError("not_found", f"There is no state yet in {state}.", suggestion="There is nothing to back up.")
    return archive.write(state, path)


def backup_manifest(path: str) -> Manifest:
    """Return what a backup says about itself; raise if it is none."""
    return archive.inspect(path)


def restore(path: str) -> str | None:
    """Replace the state with a backup, and return the folder with the replaced state. The resident must have ended."""
    return archive.restore(places.state_dir(os.environ), path)


def forget(runtime: Runtime, days: int) -> int:
    """Delete the undo data of all folders that is older than some days; return the number of snapshots."""
    before = time.time_ns() - days * _DAY_NS
    with closing(open_state(runtime.parts.state)) as db:
        query = "SELECT DISTINCT workspace FROM changes WHERE NOT open AND at<?"
        folders = [id for (id,) in db.read(lambda db: db.execute(query, (before,)).fetchall())] if db.exists() else []
    deleted = 0
    for id in folders:
        journal = os.path.join(runtime.parts.state, "journal", id)
        with closing(History(runtime.parts.state, journal, id, calls=1, megabytes=1)) as history:
            deleted += history.clear(before)
    return deleted


def clean(runtime: Runtime) -> Cleaned:
    """Enforce the limits of the settings."""
    return cleaning.clean(runtime.parts.state, runtime.settings)


def state_folder() -> StateFolder:
    """Return the state directory."""
    return _folder(os.path.realpath(places.state_dir(os.environ)))


def replaced_folders() -> list[StateFolder]:
    """Return the folders that restores have left beside the state directory."""
    return list(map(_folder, _replaced(places.state_dir(os.environ))))


def delete(folder: StateFolder) -> None:
    """Delete a state directory that contains nothing else. The resident must have ended."""
    inventory.require_unused(folder.path)
    for parent, names, _ in os.walk(folder.path):
        for path in (os.path.join(parent, name) for name in names):
            # commands and overlays leave folders, also nested ones, that their owner cannot open or change
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder.path)


def _elsewhere(state: str) -> tuple[Elsewhere, ...]:
    folders = {
        places.config_dir(os.environ): "your settings, tools, skills, rules and memory",
        places.worktrees_dir(state): "worktrees of agents, with changes that were not applied",
        **dict.fromkeys(_replaced(state), "replaced by hilt state restore; delete it when you no longer need it"),
    }
    return tuple(Elsewhere(path, holds, _size(path)) for path, holds in folders.items() if os.path.exists(path))


def _replaced(state: str) -> list[str]:
    state = os.path.realpath(state)
    prefixes = f"{state}.before-", f"{state}.restoring-"
    try:
        with os.scandir(os.path.dirname(state)) as entries:
            folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(path for path in folders if path.startswith(prefixes))


def _size(path: str) -> int:
    return sum(status.st_blocks * 512 for _, status in inventory.files_below(path))


def _folder(path: str) -> StateFolder:
    names = inventory.names_of(path)
    others = names.pop(inventory.OTHER.name, [])
    size = sum(size.bytes for size in inventory.measure(path) if size.part is not inventory.OTHER)
    return StateFolder(path, tuple(name for part in names.values() for name in part), tuple(others), size)
