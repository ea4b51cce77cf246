"""Where the layers of commands are: folders of hilt's own on the mount of the workspace (ADR 0044).

Files are moved between a layer and the workspace, so both are on one mount. A place is in the state directory,
otherwise beside the workspace, otherwise in it. Outside the state directory a program may be able to rename it: it has
a random name, recorded in the state directory with its inode, and every sandbox hides it. A place is opened without
following links, verified and kept as a handle; what is in it is reached only from there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from errno import ESTALE
from typing import NamedTuple

from hilt.formats.digests import sha256
from hilt.handles import FILE, FOLDER, Closing, open_folder

LAYERS = ".hilt-undo-"  # prefix of a place outside the state directory
_KNOWN = "known"  # a file in the folder of a layer
_RECORD_BYTES = 1 << 14
_MOUNTS = "/proc/self/mountinfo"
_TMPFS = "/dev/shm"  # tmpfs on every Linux  # noqa: S108


class OpenPlace(NamedTuple):
    """An open folder for layers, and its path."""

    path: str
    handle: int


class LayerPlaces(NamedTuple):
    """Where the layers of a workspace are; one on overlayfs has its upper layers in a `scratch` folder."""

    layers: OpenPlace
    scratch: OpenPlace | None = None


@contextmanager
def open_places(
    roots: Sequence[str], state: str, workspace: str, *, attribute: str = ""
) -> Iterator[LayerPlaces | None]:
    """Open the places of a workspace, and make missing ones; yield None if no folder is suitable.

    Upper layers need this attribute; without it no scratch folder is opened.
    """
    with ExitStack() as stack:
        places = None
        with suppress(OSError):
            mounts = {_mount_of(root) for root in roots}
            for parent in (state, os.path.dirname(roots[0]), roots[0]):
                with suppress(OSError):
                    if {_mount_of(os.path.realpath(parent) if parent == state else parent)} != mounts:
                        continue
                    layers = _in_state(state, workspace) if parent == state else _recorded_in(parent, state, workspace)
                    stack.callback(os.close, layers.handle)
                    scratch = None
                    if attribute and _is_overlay(*mounts):
                        scratch = _recorded_in(os.path.realpath(_TMPFS), state, workspace)
                        stack.callback(os.close, scratch.handle)
                        # before Linux 6.6, tmpfs had no attributes for users, so an overlay could not replace folders
                        os.setxattr(f"/proc/self/fd/{scratch.handle}", f"{attribute}probe", b"")
                    places = LayerPlaces(layers, scratch)
                    break
        yield places


@contextmanager
def open_layer(path: str, state: str) -> Iterator[int]:
    """Open the folder of a recorded layer; raise OSError if it or its place is not the one that was made."""
    place, name = os.path.split(path)
    parent, place_name = os.path.split(place)
    with ExitStack() as stack:
        if parent == os.path.join(state, "layers"):
            outer, inode = open_folder(os.path.realpath(parent)), 0
        else:
            inode = next((inode for inode, recorded in _records(state) if recorded == place), -1)
            outer = open_folder(parent)
        stack.enter_context(Closing(outer))
        for folder_name, expected in ((place_name, inode), (name, 0)):
            outer = stack.enter_context(Closing(open_own(folder_name, outer, expected)))
        yield outer


def keep_known(layer: int, digests: Iterable[str]) -> None:
    """Store what git could run already before a command, which a restore may therefore bring back."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(_KNOWN, flags, 0o600, dir_fd=layer), "w") as file:
        file.write("\n".join(digests))


def read_known(path: str, state: str) -> tuple[str, ...]:
    """Return what was stored with a recorded layer; nothing if that is gone."""
    with suppress(OSError), open_layer(path, state) as layer, open(os.open(_KNOWN, FILE, dir_fd=layer)) as file:
        return tuple(file.read().split())
    return ()


def open_own(name: str, parent: int, inode: int = 0) -> int:
    """Open a folder that only this user can enter; raise if it is something else, or has another inode."""
    handle = os.open(name, FOLDER, dir_fd=parent)
    status = os.fstat(handle)
    if (
        status.st_uid != os.geteuid()
        or status.st_mode & 0o170077 != 0o040000
        or status.st_dev != os.fstat(parent).st_dev
        or inode not in (0, status.st_ino)
    ):
        os.close(handle)
        raise OSError(ESTALE, os.strerror(ESTALE), name)
    return handle


def recorded(state: str) -> tuple[str, ...]:
    """Return the recorded places of all workspaces."""
    return tuple(path for _, path in _records(state) if os.path.lexists(path))


def _in_state(state: str, workspace: str) -> OpenPlace:
    path = os.path.join(state, "layers", workspace)
    os.makedirs(path, 0o700, exist_ok=True)
    with Closing(open_folder(os.path.realpath(os.path.dirname(path)))) as outer:
        return OpenPlace(path, open_own(workspace, outer))


def _recorded_in(parent: str, state: str, workspace: str) -> OpenPlace:
    """Open the place in a folder that is recorded for a workspace; make one if it is missing or was replaced."""
    folder = _record_folder(state)
    os.makedirs(folder, 0o700, exist_ok=True)
    record_name = sha256(os.fsencode(f"{workspace} {parent}")).hex()[:16]
    record = os.open(os.path.join(folder, record_name), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    outer = -1
    try:
        outer = open_folder(parent)
        fcntl.flock(record, fcntl.LOCK_EX)
        inode, path = _parse(record)
        with suppress(OSError):
            return OpenPlace(path, open_own(os.path.basename(path), outer, inode or -1))
        name = LAYERS + os.urandom(8).hex()
        os.mkdir(name, 0o700, dir_fd=outer)
        place = OpenPlace(os.path.join(parent, name), open_own(name, outer))
        ignored = os.open(".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place.handle)
        os.write(ignored, b"*\n")
        os.close(ignored)
        os.ftruncate(record, 0)
        os.pwrite(record, b"%d %s" % (os.fstat(place.handle).st_ino, os.fsencode(place.path)), 0)
        return place
    finally:
        os.close(record)
        if outer >= 0:
            os.close(outer)


def _records(state: str) -> Iterator[tuple[int, str]]:
    folder = _record_folder(state)
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            with Closing(os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as record:
                fcntl.flock(record, fcntl.LOCK_SH)
                yield _parse(record)


def _record_folder(state: str) -> str:
    return os.path.join(state, "layer-places")


def _parse(record: int) -> tuple[int, str]:
    """Return the inode and path in a record; 0 and nothing if it is damaged."""
    inode, _, path = os.pread(record, _RECORD_BYTES, 0).partition(b" ")
    return (int(inode), os.fsdecode(path)) if inode.isdigit() and path.startswith(b"/") else (0, "")


def _mount_of(path: str) -> bytes:
    """Return the id of the mount that a folder is on."""
    with Closing(open_folder(path)) as handle:
        return next(line.split()[1] for line in lines(f"/proc/self/fdinfo/{handle}") if line.startswith(b"mnt_id:"))


def _is_overlay(mount: bytes) -> bool:
    return any(line.startswith(mount + b" ") and b" - overlay " in line for line in lines(_MOUNTS))


def lines(path: str) -> list[bytes]:
    """Return the lines of a file in /proc."""
    with open(path, "rb", buffering=0) as file:
        return file.readall().rstrip(b"\n").split(b"\n")
