"""Turns the upper layer of an overlay, the changes of a command, into steps that move them into the workspace.

Both layers are walked by handle. In the upper layer, a character device 0/0 (a whiteout) marks a deleted name, and a
folder with the attribute "opaque" replaces the one below it. These marks, which only the overlay can set, are removed,
so that an ordinary tree remains.

A path that another process changed while the command ran is a conflict: it stays unchanged.

If the upper layer and the workspace are on different file systems, it is first copied to the folder of the layer
(copying.py).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from hilt.errors import ToolError
from hilt.files.writing import CAPABILITY, safe_mode
from hilt.handles import FILE, LISTED, Closing, open_folder
from hilt.sandbox.overlay import UpperLayer
from hilt.state.history import LayerStep, Version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.copying import CopiedSteps

HANDLE = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
ALL = 0o700
DEPTH_MAX = 200
_COMPARED_BYTES = 1 << 16


class Measured:
    """The size of a tree, and whether another process changed it while the command ran."""

    def __init__(self) -> None:
        self.files = self.size = 0
        self.is_changed = False


def collect(layer: UpperLayer) -> list[LayerStep]:
    """Return the steps of a command that has ended; remove the overlay's marks from its upper layer."""
    steps: list[LayerStep] = []
    with ExitStack() as stack:
        for root in layer.roots:
            copied = None
            if layer.scratch:
                from hilt.files.copying import CopiedSteps

                copied = stack.enter_context(CopiedSteps(layer, root, steps))
            lower = stack.enter_context(Closing(open_folder(root)))
            _Collector(layer, root, layer.upper_name(root), steps, copied).compare("", layer.base, lower)
    return steps


class _Collector:
    """Walks the two layers of one workspace folder."""

    def __init__(
        self, layer: UpperLayer, root: str, name: str, steps: list[LayerStep], copied: CopiedSteps | None
    ) -> None:
        self._layer = layer
        self._root = root
        self._name = name
        self._steps = steps
        self._copied = copied

    def compare(self, path: str, around: int, lower: int, depth: int = 0, *, is_opaque: bool = False) -> None:
        """Add the steps of a folder that is in both layers; `around` is the parent of the upper one.

        If the upper one is opaque, names that only the lower one has were deleted.
        """
        before = os.fstat(lower)
        with opened(around, os.path.basename(path) or self._name, depth) as (upper, after):
            count = len(self._steps)
            for name in sorted({*os.listdir(upper), *(list_names(lower) if is_opaque else ())}):
                self._compare_entry(os.path.join(path, name), name, upper, lower, before, depth)
            os.fchmod(upper, ALL)  # it is part of the state directory from now on
        has_steps = len(self._steps) > count
        is_closed = before.st_mode & ALL != ALL and os.geteuid() != 0
        is_changed = before.st_mode != after.st_mode
        if is_changed or (has_steps and is_closed):
            versions = Version(before.st_ino, before.st_mode), Version(before.st_ino, after.st_mode)
            self._steps.append(LayerStep("mode", self._root, path, "", *versions, files=int(is_changed)))

    def _compare_entry(self, path: str, name: str, upper: int, lower: int, around: os.stat_result, depth: int) -> None:
        new = _status(upper, name)
        old = _status(lower, name)
        if new is not None and is_whiteout(new):
            os.unlink(name, dir_fd=upper)
            new = None
        if new is None and old is None:
            return
        marks = set() if new is None else take_marks(self._layer, upper, name, new)
        is_merged = new is not None and old is not None and stat.S_ISDIR(new.st_mode) and stat.S_ISDIR(old.st_mode)
        is_swapped = False
        if is_merged and (self._copied is not None or "opaque" not in marks):
            try:
                inner = os.open(name, HANDLE | os.O_DIRECTORY, dir_fd=lower)
            except (FileNotFoundError, NotADirectoryError):
                is_swapped = True  # another process renamed it a moment ago
            else:
                with Closing(inner):
                    self.compare(path, upper, inner, depth + 1, is_opaque="opaque" in marks)
                return
        if new is not None and old is not None and _is_same(upper, lower, name, new, old):
            return
        # another process may have deleted it meanwhile; folders that starting commands change are compared by name
        names = self._layer.shared.get(os.path.join(self._root, os.path.dirname(path)).rstrip("/"))
        is_lost = old is None and around.st_ctime_ns >= self._layer.began and (names is None or name in names)
        is_lost |= is_swapped
        if self._copied is not None:
            self._copied.add(path, (upper, new), (lower, None if is_swapped else old), depth, is_lost=is_lost)
            return
        replaced, added = Measured(), Measured()
        if new is not None:
            self._prepare(upper, name, new, added, depth)
        if old is not None:
            measure(lower, name, replaced, self._layer.began, depth)
        is_conflict = is_lost or replaced.is_changed
        self._steps.append(
            LayerStep(
                "conflict" if is_conflict else "swap",
                self._root,
                path,
                f"{self._name}/{path}",
                Version() if old is None else Version(old.st_ino, old.st_mode),
                Version() if new is None else Version(new.st_ino, safe_mode(new.st_mode)),
                added.size if is_conflict else replaced.size,
                max(replaced.files, added.files, 1),
            )
        )

    def _prepare(self, folder: int, name: str, status: os.stat_result, tree: Measured, depth: int) -> None:
        """Remove the marks from a tree that only the upper layer has, and measure it."""
        if not stat.S_ISDIR(status.st_mode):
            tree.files += 1
            tree.size += status.st_size
            return
        with opened(folder, name, depth) as (inner, _):
            for entry in os.listdir(inner):
                now = os.stat(entry, dir_fd=inner, follow_symlinks=False)
                if is_whiteout(now):
                    os.unlink(entry, dir_fd=inner)
                    continue
                take_marks(self._layer, inner, entry, now)
                self._prepare(inner, entry, now, tree, depth + 1)


def is_whiteout(status: os.stat_result) -> bool:
    """Whether a file of an upper layer marks a deleted name."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def take_marks(layer: UpperLayer, folder: int, name: str, status: os.stat_result) -> set[str]:
    """Remove the attributes of the overlay, and return their names without the prefix.

    What gives a file the rights of others is removed, too: the user did not give it to the version of a command.
    """
    if stat.S_ISLNK(status.st_mode) and layer.in_user_namespace:
        return set()  # symlinks cannot have user attributes
    path, prefix = f"/proc/self/fd/{folder}/{name}", layer.attribute
    marks = set()
    is_closed = status.st_mode & 0o200 == 0 and os.geteuid() != 0 and not stat.S_ISLNK(status.st_mode)
    mode = safe_mode(status.st_mode)
    if mode != status.st_mode:
        os.chmod(path, stat.S_IMODE(mode))
    with suppress(OSError):
        names = [mark for mark in os.listxattr(path, follow_symlinks=False) if mark.startswith((prefix, CAPABILITY))]
        if names and is_closed:
            os.chmod(path, stat.S_IMODE(mode) | ALL)
        for mark in names:
            os.removexattr(path, mark, follow_symlinks=False)
            marks.add(mark.removeprefix(prefix))
        if names and is_closed:
            os.chmod(path, stat.S_IMODE(mode))
    return marks


def measure(folder: int, name: str, tree: Measured, began: int, depth: int = 0) -> None:
    """Measure a file or folder of the workspace; set `is_changed` if anything in it changed since a time."""
    status = _status(folder, name)
    tree.is_changed |= status is None or status.st_ctime_ns >= began
    if status is None:
        return
    if not stat.S_ISDIR(status.st_mode):
        tree.files += 1
        tree.size += status.st_size
        return
    if depth >= DEPTH_MAX:
        raise too_deep()
    try:
        inner = os.open(name, LISTED, dir_fd=folder)
    except OSError:
        tree.is_changed = True  # or unreadable, so that its contents are unknown
        return
    with Closing(inner):
        for entry in os.listdir(inner):
            measure(inner, entry, tree, began, depth + 1)


@contextmanager
def opened(around: int, name: str, depth: int = 0) -> Iterator[tuple[int, os.stat_result]]:
    """Open a folder of the layer for listing, whatever its permissions, and restore them afterwards."""
    if depth >= DEPTH_MAX:
        raise too_deep()
    with Closing(os.open(name, HANDLE | os.O_DIRECTORY, dir_fd=around)) as handle:
        status = os.fstat(handle)
        is_closed = status.st_mode & ALL != ALL and os.geteuid() != 0
        if is_closed:
            os.chmod(f"/proc/self/fd/{handle}", status.st_mode & 0o7777 | ALL)
        folder = os.open(".", LISTED, dir_fd=handle)
        try:
            yield folder, status
        finally:
            os.close(folder)
            if is_closed and stat.S_IMODE(os.fstat(handle).st_mode) != ALL:
                os.chmod(f"/proc/self/fd/{handle}", status.st_mode & 0o7777)


def list_names(folder: int) -> list[str]:
    """Return the names in a folder that may be open without the right to list it."""
    with Closing(os.open(".", LISTED, dir_fd=folder)) as inner:
        return os.listdir(inner)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_same(upper: int, lower: int, name: str, new: os.stat_result, old: os.stat_result) -> bool:
    """Whether a file was only opened, or rewritten with the same contents."""
    attributes = [(s.st_mode, s.st_uid, s.st_gid, s.st_size, s.st_mtime_ns) for s in (new, old)]
    if attributes[0] != attributes[1]:
        return False
    if not stat.S_ISREG(new.st_mode) and not stat.S_ISLNK(new.st_mode):
        return False
    try:
        if stat.S_ISLNK(new.st_mode):
            return os.readlink(name, dir_fd=upper) == os.readlink(name, dir_fd=lower)
        with (
            open(os.open(name, FILE, dir_fd=upper), "rb") as new_file,
            open(os.open(name, FILE, dir_fd=lower), "rb") as old_file,
        ):
            while (chunk := new_file.read(_COMPARED_BYTES)) == old_file.read(_COMPARED_BYTES):
                if not chunk:
                    return True
    except OSError:
        return False
    return False


def too_deep() -> ToolError:
    """Return the error for folders that are nested too deeply."""
    return ToolError(
        "resource_limit",
        f"The command created folders more than {DEPTH_MAX} levels deep, so its changes were not applied.",
        suggestion="Use fewer levels of folders.",
    )
