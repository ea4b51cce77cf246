"""The steps of a change to a single file: read it, write the new file next to it, restore the old one."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.files.door import Door, Place, not_a_file
from hilt.files.workspace import CHUNK_BYTES, FORCED_BYTES, MAX_BYTES, too_large
from hilt.formats.digests import sha256
from hilt.handles import FILE, LISTED, Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.state.history import Snapshot

CAPABILITY = "security.capability"  # the attribute of a program that runs with rights of root


class OldFile(NamedTuple):
    """A target before the change, and the SHA-256 of its data; `status` is None if it did not exist."""

    path: str
    data: bytes | None
    hash: bytes | None
    status: os.stat_result | None
    writable: bool = True

    @property
    def mode(self) -> int | None:
        """The permission bits."""
        return None if self.status is None else stat.S_IMODE(self.status.st_mode)


def target_path(door: Door, path: str) -> str:
    """Return the path of a target as callers see it; raise if tools cannot change it."""
    with door.place(path, write=True) as place:
        if place.status is not None and not stat.S_ISREG(place.status.st_mode):
            raise not_a_file(place.path, place.status.st_mode)
        if not place.path.isascii() and any("\ud800" <= character <= "\udfff" for character in place.path):
            raise ToolError("invalid_args", "Tools can only change files with UTF-8 names.")  # snapshots store text
        return place.path


def read_target(door: Door, path: str, *, limit: int = FORCED_BYTES, force: bool = True) -> OldFile:
    """Return the current state of a target."""
    with door.place(path, write=True) as place:
        if place.status is None:
            return OldFile(path, None, None, None)
        if not stat.S_ISREG(place.status.st_mode):
            raise not_a_file(path, place.status.st_mode)
        if place.status.st_size > limit:
            raise _unchangeable(path, place.status.st_size, limit, force=force)
        with Closing(os.open(place.name, FILE, dir_fd=place.folder)) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise not_a_file(path, status.st_mode)
            door.check_object(status, path)
            # the diff of a change shows the old contents
            door.check_rules(place.root, place.parts, write=False)
            data = _read_all(descriptor, min(status.st_size, limit), limit)
            if len(data) > limit:
                raise _unchangeable(path, len(data), limit, force=force)
            effective_ids = os.access in os.supports_effective_ids
            writable = os.access(place.name, os.W_OK, dir_fd=place.folder, effective_ids=effective_ids)
            return OldFile(path, data, sha256(data), status, writable)


def _read_all(descriptor: int, size: int, limit: int) -> bytes:
    """Read to the end, or until past the limit; in a single read if the size is right."""
    length = max(size + 1, 4096)
    chunks = [os.read(descriptor, length)]
    remaining = limit - len(chunks[0])
    while len(chunks[-1]) == length and remaining >= 0:
        length = CHUNK_BYTES
        chunks.append(os.read(descriptor, length))
        remaining -= len(chunks[-1])
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _unchangeable(path: str, size: int, limit: int, *, force: bool) -> ToolError:
    """Return the error for a file that is too large to change."""
    maximum = f"{FORCED_BYTES // (1024 * 1024)} MB"
    if limit < MAX_BYTES or (force and limit < FORCED_BYTES):
        message = f"{path} has {size} bytes; the change would need more than {maximum} of memory in total."
        return ToolError("file_too_large", message, suggestion="Change fewer files at once.", path=path, size=size)
    advice = f"Change it with a command in run_shell: tools load whole files into memory, up to {maximum}."
    if not force and size <= FORCED_BYTES:
        advice = f"Pass force: true to change it anyway, up to {maximum}."
    return too_large(path, size, limit, suggestion=advice)


def state(door: Door, file: Snapshot) -> str:
    """Return whether a target of an interrupted change is "old", "new" or "foreign": changed by another program."""
    try:
        now = read_target(door, file.path)
    except ToolError:
        return "foreign"  # no longer a file
    if now.hash == file.after and file.new_mode in (None, now.mode):
        return "new"
    return "old" if now.hash == file.before else "foreign"


def temporary_name(id: str, position: int) -> str:
    """Return the name of the temporary file next to a target."""
    return f".hilt-{id}-{position}"


def make_folders(place: Place) -> int:
    """Create the missing folders of a place and return a descriptor of the last one."""
    folder = os.dup(place.folder)
    for name in place.missing:
        with Closing(folder):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
                sync(folder)
            inner = os.open(name, LISTED, dir_fd=folder)
        folder = inner
    return folder


def write_temporary(
    folder: int, name: str, temporary: str, data: bytes, mode: int | None, like: os.stat_result | None
) -> None:
    """Write and sync a new file next to its target, with the target's mode, owner and attributes where possible."""
    # 0o600 at first: the new version of a private file must never be readable by others
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with Closing(os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)) as descriptor:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if like is not None:
            _copy_attributes(folder, name, descriptor, like)
        if mode is not None:
            os.fchmod(descriptor, mode)
        os.fsync(descriptor)


def remove_temporary(door: Door, file: Snapshot, id: str, position: int) -> None:
    """Remove the temporary file next to a target, if any."""
    with suppress(ToolError, OSError), door.place(file.path, write=True) as place:
        os.unlink(temporary_name(id, position), dir_fd=place.folder)


def put_back(door: Door, file: Snapshot, data: bytes | None, id: str, position: int) -> None:
    """Restore the old contents of a target, or delete it if there were none."""
    with door.place(file.path, write=True) as place:
        if data is None:
            os.unlink(place.name, dir_fd=place.folder)
        else:
            with Closing(make_folders(place)) as folder:
                temporary = temporary_name(id, position)
                write_temporary(folder, place.name, temporary, data, file.mode, place.status)
                os.rename(temporary, place.name, src_dir_fd=folder, dst_dir_fd=folder)
        sync(place.folder)


def remove_folders(door: Door, folders: Sequence[str]) -> None:
    """Remove folders that the change created, if they are empty."""
    for path in reversed(folders):
        with suppress(ToolError, OSError), door.place(path, write=True) as place:
            os.rmdir(place.name, dir_fd=place.folder)


def identity(status: os.stat_result | None) -> tuple[int, ...] | None:
    """Return a tuple that changes when the file does."""
    # not ctime: it also changes when the file gets another hard link
    return None if status is None else (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns)


def safe_mode(mode: int) -> int:
    """Return the mode of a file without the bits that run it with the rights of its owner or group."""
    return mode if stat.S_ISDIR(mode) else mode & ~(stat.S_ISUID | stat.S_ISGID)


def _copy_attributes(folder: int, name: str, descriptor: int, like: os.stat_result) -> None:
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (like.st_uid, like.st_gid):
        with suppress(OSError):
            os.fchown(descriptor, like.st_uid, like.st_gid)
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError), Closing(os.open(name, FILE, dir_fd=folder)) as source:
        for attribute in os.listxattr(source):
            if attribute == CAPABILITY:
                continue  # a person gave it to the old contents
            with suppress(OSError):
                os.setxattr(descriptor, attribute, os.getxattr(source, attribute))


def sync(folder: int) -> None:
    """Sync the entries of a folder to disk."""
    # descriptors of the walk may be O_PATH; fsync needs one that is open for reading
    with Closing(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)) as descriptor:
        os.fsync(descriptor)
