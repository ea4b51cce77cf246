"""Copies the changes of a command from an upper layer on tmpfs to the folder of its layer, as steps.

Files cannot be renamed across file systems, so they are copied to slots from where they can be moved. Such a workspace
is itself on overlayfs, which cannot rename the folders of its own lower layer. So a step creates or deletes one folder,
and an empty copy in its slot preserves its attributes.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from errno import ENOENT, ENXIO
from typing import Self

from hilt.files.collecting import DEPTH_MAX, is_whiteout, opened, take_marks, too_deep
from hilt.files.writing import safe_mode
from hilt.handles import LISTED, Closing, open_folder
from hilt.sandbox.overlay import UpperLayer
from hilt.state.history import LayerStep, Version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.state.history import Kind

    # the parent folder, and the status of the name in it; None if it does not exist
    Entry = tuple[int, os.stat_result | None]


class CopiedSteps:
    """Adds the steps of one workspace folder; their slots hold copies."""

    def __init__(self, layer: UpperLayer, root: str, steps: list[LayerStep]) -> None:
        self._layer = layer
        self._root = root
        self._steps = steps
        self._name = f"c{layer.roots.index(root)}"
        self._count = 0
        os.mkdir(self._name, 0o700, dir_fd=layer.handle)
        self._slots = open_folder(self._name, layer.handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._slots)

    def add(self, path: str, new: Entry, old: Entry, depth: int, *, is_lost: bool) -> None:
        """Add the steps from the old version to the new one; with `is_lost`, as conflicts: the old file is gone."""
        if old[1] is not None and new[1] is not None and not (_is_folder(old[1]) or _is_folder(new[1])):
            is_conflict, before = self._before(path, old[0], old[1])
            slot, after = self._copy(new[0], os.path.basename(path), new[1])
            size = new[1].st_size if is_conflict else old[1].st_size
            self._add_step("conflict" if is_conflict else "swap", path, slot, before, after, size)
            return
        if old[1] is not None:
            self._delete(path, old[0], old[1], depth)
        if new[1] is not None:
            self._create(path, new[0], new[1], depth, is_conflict=is_lost)

    def _delete(self, path: str, around: int, status: os.stat_result, depth: int) -> None:
        if not _is_folder(status):
            is_conflict, before = self._before(path, around, status)
            size = 0 if is_conflict else status.st_size
            self._add_step("conflict" if is_conflict else "swap", path, self._new_slot(), before, Version(), size)
            return
        if depth >= DEPTH_MAX:
            raise too_deep()
        name, count = os.path.basename(path), len(self._steps)
        before = Version(status.st_ino, status.st_mode)
        try:
            folder = _open_same(name, around, status)
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            # its contents are unknown, or another process renamed it a moment ago
            self._add_step("conflict", path, self._new_slot(), before, Version())
            return
        with Closing(folder):
            slot, _ = self._copy(folder, ".", status)
            for entry in sorted(os.listdir(folder)):
                with suppress(FileNotFoundError):
                    inner = os.stat(entry, dir_fd=folder, follow_symlinks=False)
                    self._delete(os.path.join(path, entry), folder, inner, depth + 1)
        self._add_step("folder", path, slot, before, Version(), files=int(len(self._steps) == count))

    def _create(self, path: str, around: int, status: os.stat_result, depth: int, *, is_conflict: bool) -> None:
        name, count = os.path.basename(path), len(self._steps)
        slot, after = self._copy(around, name, status)
        if not _is_folder(status):
            size = status.st_size if is_conflict else 0
            self._add_step("conflict" if is_conflict else "swap", path, slot, Version(), after, size)
            return
        self._add_step("conflict" if is_conflict else "folder", path, slot, Version(), after)
        with opened(around, name, depth) as (folder, _):
            for entry in sorted(os.listdir(folder)):
                inner = os.stat(entry, dir_fd=folder, follow_symlinks=False)
                if not is_whiteout(inner):
                    take_marks(self._layer, folder, entry, inner)
                    self._create(os.path.join(path, entry), folder, inner, depth + 1, is_conflict=is_conflict)
        if len(self._steps) > count + 1:
            self._steps[count] = self._steps[count]._replace(files=0)

    def _before(self, path: str, around: int, status: os.stat_result) -> tuple[bool, Version]:
        """Return whether another process has changed a file of the workspace, and its version."""
        is_conflict = status.st_ctime_ns >= self._layer.began
        # a preview changes nothing: its hard links are split when it is applied
        if not is_conflict and not self._layer.whole:
            try:
                status = split_link(around, os.path.basename(path), status)
            except FileNotFoundError:
                is_conflict = True  # another process renamed it a moment ago
        return is_conflict, Version(status.st_ino, status.st_mode)

    def _new_slot(self) -> str:
        self._count += 1
        return f"{self._name}/{self._count}"

    def _copy(self, folder: int, name: str, status: os.stat_result) -> tuple[str, Version]:
        """Copy a file, or a folder without its contents, with its attributes; return its slot and version."""
        slot = self._new_slot()
        source, target = f"/proc/self/fd/{folder}/{name}", f"/proc/self/fd/{self._slots}/{os.path.basename(slot)}"
        mode = safe_mode(status.st_mode)
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), target)
        elif stat.S_ISDIR(mode):
            os.mkdir(target, 0o700)
        elif stat.S_ISREG(mode):
            if mode & 0o400 == 0 and os.geteuid() != 0:
                os.chmod(source, 0o600)
            _copy_data(source, target, status.st_size)
        else:
            os.mknod(target, stat.S_IFMT(mode) | 0o600, status.st_rdev)
        copy_attributes(source, target, status)
        return slot, Version(os.lstat(target).st_ino, mode)

    def _add_step(
        self, kind: Kind, path: str, slot: str, before: Version, after: Version, size: int = 0, files: int = 1
    ) -> None:
        self._steps.append(LayerStep(kind, self._root, path, slot, before, after, size, files))


def split_link(folder: int, name: str, status: os.stat_result) -> os.stat_result:
    """Touch a hard link, and return its status: overlayfs gives it another inode when it is first changed."""
    if status.st_nlink <= 1 or _is_folder(status):
        return status
    os.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns), dir_fd=folder, follow_symlinks=False)
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def copy_attributes(source: str, target: str, status: os.stat_result) -> None:
    """Copy owner, times, extended attributes and permissions, as far as this user may."""
    is_link = stat.S_ISLNK(status.st_mode)
    if os.geteuid() == 0:
        # the path of a handle in /proc is a symlink too
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=not is_link)
    shutil.copystat(source, target, follow_symlinks=False)
    if not is_link:
        os.chmod(target, stat.S_IMODE(safe_mode(status.st_mode)))


def _is_folder(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode)


def _open_same(name: str, around: int, status: os.stat_result) -> int:
    """Open a folder for listing; raise FileNotFoundError if it was replaced."""
    folder = os.open(name, LISTED, dir_fd=around)
    if os.path.samestat(os.fstat(folder), status):
        return folder
    os.close(folder)
    raise FileNotFoundError(ENOENT, os.strerror(ENOENT), name)


def _copy_data(source: str, target: str, size: int) -> None:
    """Copy the contents of a file, without its holes."""
    with (
        Closing(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as old,
        Closing(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)) as new,
    ):
        at = 0
        while (at := _next_data(old, at, size)) < size:
            end = os.lseek(old, at, os.SEEK_HOLE)
            os.lseek(new, at, os.SEEK_SET)
            while at < end:
                at += os.sendfile(new, old, at, end - at)
        os.ftruncate(new, size)


def _next_data(file: int, at: int, size: int) -> int:
    """Return where the next data of a file begins; its size if there is none."""
    try:
        return os.lseek(file, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno != ENXIO:
            raise
        return size
