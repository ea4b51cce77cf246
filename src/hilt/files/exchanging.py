"""Performs the steps of a command's change: each swaps a path of the workspace with its other version in the layer.

A swap is one rename that exchanges both, so that one version is always in place, and the layer then holds the old one.
Undo swaps them back. Inode numbers tell which version is where, so that an interrupted change can be completed.
Everything is done by handle, without following links: a program may rename folders in the workspace meanwhile. A path
that has neither version is skipped (ADR 0038).
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from errno import EEXIST, EINVAL, ENOSYS

from hilt.files.collecting import ALL, HANDLE
from hilt.handles import Closing, open_folder
from hilt.state.history import LayerStep, Version

_NO_REPLACE, _EXCHANGE = 1, 2
_UNSUPPORTED = (EINVAL, ENOSYS)
_HANDLES_MAX = 64
_SPARE = "spare"  # folder in the layer for swaps on file systems without exchange


class SlotExchange:
    """Swaps paths with the slots of one layer, an open folder."""

    def __init__(self, layer: int) -> None:
        self.layer = layer
        self._handles: dict[tuple[str, str], int] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)

    def perform(self, steps: Sequence[LayerStep]) -> list[int]:
        """Perform all steps that are not done yet; return the positions of those that could not be performed."""
        failed = []
        folders = [(position, step) for position, step in enumerate(steps) if step.kind in ("mode", "folder")]
        for _, step in folders if os.geteuid() != 0 else ():
            with suppress(OSError):
                if step.before.inode:
                    self._set_mode(step, step.before.mode | ALL)
        for position, step in enumerate(steps):
            self._limit_handles()
            if step.kind in ("swap", "folder"):
                try:
                    is_done = self._swap(position, step) if step.kind == "swap" else self._make_or_remove(step)
                except OSError:
                    is_done = False
                if not is_done:
                    failed.append(position)
        for position, step in reversed(folders):
            try:
                if step.kind == "mode":
                    self._set_mode(step, step.after.mode)
                elif step.after.inode and position not in failed:
                    self._copy_attributes(step)
            except OSError:
                failed.append(position)
        return failed

    def sync(self) -> None:
        """Write everything on the file system of the layer to disk."""
        with Closing(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.layer)) as folder:
            if self._libc.syncfs(folder) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))

    def now(self, step: LayerStep) -> Version:
        """Return the version at the path of a step in the workspace."""
        try:
            return self._look(*self._place(step))
        except OSError:
            return Version()

    def stored(self, step: LayerStep) -> Version:
        """Return the version in the slot of a step."""
        try:
            return self._look(*self._slot(step))
        except OSError:
            return Version()

    def split(self, step: LayerStep) -> LayerStep:
        """Return a step with the inode that its file gets when it is changed, if it is a hard link on overlayfs."""
        from hilt.files.copying import split_link

        self._limit_handles()
        try:
            around, name = self._place(step)
            status = os.stat(name, dir_fd=around, follow_symlinks=False)
            if step.kind != "swap" or status.st_ino != step.before.inode:
                return step
            return step._replace(before=Version(split_link(around, name, status).st_ino, status.st_mode))
        except OSError:
            return step  # performing it reports the error

    # --- steps

    def _set_mode(self, step: LayerStep, mode: int) -> None:
        handle = self._open(step.root, step.path)
        # it may have been replaced by another folder
        if step.kind == "folder" or os.fstat(handle).st_ino == step.before.inode:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode))

    def _make_or_remove(self, step: LayerStep) -> bool:
        """Create or remove an empty folder; return False if something else has its path. Removing a full one raises."""
        if step.after.inode:
            around, name = self._place(step, makes_folders=True)
            now = self._look(around, name)
            if not now.inode:
                os.mkdir(name, ALL, dir_fd=around)
            return not now.inode or stat.S_ISDIR(now.mode)
        if stat.S_ISDIR(self.now(step).mode):
            around, name = self._place(step)
            os.rmdir(name, dir_fd=around)
            removed = self._handles.pop((step.root, step.path), None)
            if removed is not None:
                os.close(removed)
        return True

    def _copy_attributes(self, step: LayerStep) -> None:
        """Copy the attributes of the folder in the slot to the created one, once it has all its contents."""
        from hilt.files.copying import copy_attributes

        around, name = self._slot(step)
        handle = self._open(step.root, step.path)
        status = os.stat(name, dir_fd=around, follow_symlinks=False)
        copy_attributes(f"/proc/self/fd/{around}/{name}", f"/proc/self/fd/{handle}", status)

    def _swap(self, position: int, step: LayerStep) -> bool:
        """Move the new version into place; return False if that is not possible."""
        slot = self._slot(step)
        if not step.after.inode and self._look(*slot).inode == step.before.inode:
            self._restore_modes(slot, slot, step)
            return True  # already done, whatever a later step has put there
        place = self._place(step, makes_folders=True)
        spare = self._spare(position)
        if spare is not None and self._look(*spare).inode:
            self._finish_renames(place, slot, spare, step)
        now = self._look(*place)
        if now.inode == step.after.inode:
            self._restore_modes(place, slot, step)
            return True
        stored = self._look(*slot)
        if now.inode != step.before.inode or stored.inode != step.after.inode:
            return False
        self._make_writable(place, now)
        self._make_writable(slot, stored)
        is_done = self._move(place, slot, now, stored, position)
        self._restore_modes(place, slot, step)
        return is_done

    def _move(
        self, place: tuple[int, str], slot: tuple[int, str], now: Version, stored: Version, position: int
    ) -> bool:
        if not stored.inode:
            self._rename(place, slot, _NO_REPLACE)
            if self._look(*slot).inode != now.inode:  # another process replaced it a moment ago
                self._rename(slot, place, _NO_REPLACE)
                return False
            return True
        if not now.inode:
            try:
                self._rename(slot, place, _NO_REPLACE)
            except FileExistsError:
                return False
            return True
        try:
            self._rename(place, slot, _EXCHANGE)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            spare = self._make_spare(position)
            self._rename(place, spare, _NO_REPLACE)
            self._rename(slot, place, _NO_REPLACE)
            self._rename(spare, slot, _NO_REPLACE)
            return True
        if self._look(*slot).inode != now.inode:
            self._rename(place, slot, _EXCHANGE)
            return False
        return True

    def _finish_renames(
        self, place: tuple[int, str], slot: tuple[int, str], spare: tuple[int, str], step: LayerStep
    ) -> None:
        """Finish an interrupted swap of three renames."""
        if self._look(*slot).inode == step.after.inode:
            self._rename(slot, place, _NO_REPLACE)
        self._rename(spare, slot, _NO_REPLACE)

    def _rename(self, source: tuple[int, str], target: tuple[int, str], flags: int) -> None:
        names = os.fsencode(source[1]), os.fsencode(target[1])
        if self._libc.renameat2(source[0], names[0], target[0], names[1], flags) == 0:
            return
        number = ctypes.get_errno()
        if flags == _NO_REPLACE and number in _UNSUPPORTED:
            if self._look(*target).inode:
                raise OSError(EEXIST, os.strerror(EEXIST), target[1])
            os.rename(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0])
            return
        raise OSError(number, os.strerror(number), source[1])

    def _make_writable(self, place: tuple[int, str], version: Version) -> None:
        """Make a folder writable for its owner: moving it writes to it."""
        if stat.S_ISDIR(version.mode) and version.mode & ALL != ALL and os.geteuid() != 0:
            _chmod(*place, version.mode | ALL)

    def _restore_modes(self, place: tuple[int, str], slot: tuple[int, str], step: LayerStep) -> None:
        if os.geteuid() == 0:
            return
        for at, version in ((place, step.after), (slot, step.before), (place, step.before), (slot, step.after)):
            if stat.S_ISDIR(version.mode) and version.mode & ALL != ALL and self._look(*at).inode == version.inode:
                _chmod(*at, version.mode)

    # --- places

    def _place(self, step: LayerStep, *, makes_folders: bool = False) -> tuple[int, str]:
        folder, name = os.path.split(step.path)
        return self._open(step.root, folder, makes_folders=makes_folders), name

    def _slot(self, step: LayerStep) -> tuple[int, str]:
        folder, name = os.path.split(step.slot)
        return self._open("", folder, makes_folders=True), name

    def _spare(self, position: int) -> tuple[int, str] | None:
        try:
            return self._open("", _SPARE), str(position)
        except FileNotFoundError:
            return None

    def _make_spare(self, position: int) -> tuple[int, str]:
        return self._open("", _SPARE, makes_folders=True), str(position)

    def _open(self, base: str, path: str, *, makes_folders: bool = False) -> int:
        """Return the handle of a folder below a workspace folder, or below the layer if `base` is empty."""
        cached = self._handles.get((base, path))
        if cached is not None:
            return cached
        with Closing(open_folder(base) if base else os.dup(self.layer)) as start:
            handle = open_folder(path, start, mode=(0o755 if base else ALL) if makes_folders else None)
        self._handles[base, path] = handle
        return handle

    def _look(self, folder: int, name: str) -> Version:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return Version()
        return Version(status.st_ino, status.st_mode)

    def _limit_handles(self) -> None:
        if len(self._handles) > _HANDLES_MAX:
            self.close()

    def close(self) -> None:
        """Close the folders that were opened."""
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()


def _chmod(folder: int, name: str, mode: int) -> None:
    with Closing(os.open(name, HANDLE, dir_fd=folder)) as handle:
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode))
