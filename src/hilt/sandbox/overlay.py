"""The overlay of a command that can be undone: its layers, and when it is not possible.

The workspace is the lower layer, which stays unchanged. The command's changes go to an upper layer on the same file
system, from where they are moved into the workspace when the command has ended. overlayfs cannot hold an upper layer:
if the workspace is on one, as in most containers, the upper layer is on tmpfs, and is copied afterwards. `.git` folders
are not overlaid, except in a preview.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from hilt.handles import Closing
from hilt.sandbox.layers import LayerPlaces, lines, open_own
from hilt.sandbox.profile import Profile, innermost, is_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.backend import Availability
    from hilt.sandbox.mounting import Handle, Overlay

_SYS_ADMIN = 1 << 21  # the capability to mount
_MOUNTS = "/proc/self/mountinfo"
_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))  # in the table of mounts


class UpperLayer(NamedTuple):
    """The layers of one command: a folder with an upper and a work folder for each workspace folder.

    `place` and `handle` are the open folders around the layer and of the layer. A `whole` layer covers `.git` folders
    too. Whatever changes in the workspace after the command began has a time of `began` or later, on the clock of the
    file system. `shared` are folders that change whenever a command starts, with the names in them when this one began.
    `scratch` and its handle hold the upper and work folders if the folder of the layer cannot.
    """

    folder: str
    roots: tuple[str, ...]
    in_user_namespace: bool
    whole: bool
    place: int
    handle: int
    began: int = 0
    shared: Mapping[str, frozenset[str]] = {}
    scratch: str = ""
    scratch_handle: int = -1

    @property
    def base(self) -> int:
        """The open folder that holds the upper and work folders."""
        return self.scratch_handle if self.scratch else self.handle

    def upper(self, root: str) -> str:
        """Return the upper folder of a workspace folder."""
        return f"{self.scratch or self.folder}/{self.upper_name(root)}"

    def upper_name(self, root: str) -> str:
        """Return the name of that folder in `base`."""
        return f"u{self.roots.index(root)}"

    def work_name(self, root: str) -> str:
        """Return the name of the work folder, which the kernel needs."""
        return f"w{self.roots.index(root)}"

    @property
    def attribute(self) -> str:
        """The prefix of the extended attributes that the overlay sets."""
        return attribute(in_user_namespace=self.in_user_namespace)


def obstacle(profile: Profile, available: Availability) -> str:
    """Return why a command cannot run on an overlay here; an empty string if it can."""
    if profile.name == "full":
        return "the sandbox is off"
    if not profile.writable:
        return "the sandbox is read-only"
    if not available.has("layers"):
        return "this system does not let the sandbox mount overlays"
    roots = outermost(profile)
    inner = _inner_mount(roots)
    if inner:
        return f"{inner} is a mount point"
    foreign = "" if os.geteuid() == 0 else next(filter(None, map(_foreign, roots)), "")
    return f"{foreign} belongs to another user or group" if foreign else ""


def outermost(profile: Profile) -> tuple[str, ...]:
    """Return the workspace folders that a program can write in, without those inside another."""
    roots = dict.fromkeys(
        root for root in profile.roots if any(is_below(path, root) or is_below(root, path) for path in profile.writable)
    )
    return tuple(root for root in roots if innermost(root, tuple(other for other in roots if other != root)) is None)


@contextmanager
def make(places: LayerPlaces, name: str, roots: tuple[str, ...], *, whole: bool) -> Iterator[UpperLayer]:
    """Create the folders of a layer, and keep them open until the end of the block."""
    with ExitStack() as stack:

        def make_folder(name: str, parent: int) -> int:
            os.mkdir(name, 0o700, dir_fd=parent)
            return stack.enter_context(Closing(open_own(name, parent)))

        folder = os.path.join(places.layers.path, name)
        handle = make_folder(name, places.layers.handle)
        layer = UpperLayer(folder, roots, needs_user_namespace(), whole, places.layers.handle, handle)
        if places.scratch is not None:
            scratch = os.path.join(places.scratch.path, name)
            layer = layer._replace(scratch=scratch, scratch_handle=make_folder(name, places.scratch.handle))
        for root in roots:
            make_folder(layer.work_name(root), layer.base)
            upper = f"/proc/self/fd/{make_folder(layer.upper_name(root), layer.base)}"
            # the program sees these as the attributes of the workspace folder
            status = os.stat(root)
            if os.geteuid() == 0:
                os.chown(upper, status.st_uid, status.st_gid)
            os.chmod(upper, status.st_mode & 0o7777)
        yield layer


def begin(layer: UpperLayer, mount_points: Iterable[str]) -> UpperLayer:
    """Return the layer with the current time of the file system as its start."""
    shared = {folder: frozenset(os.listdir(folder)) for folder in {os.path.dirname(path) for path in mount_points}}
    earlier = _tick(layer.handle)
    while (began := _tick(layer.handle)) == earlier:
        time.sleep(0.0002)  # the clock of the file system ticks every few milliseconds
    return layer._replace(began=began, shared=shared)


def _tick(folder: int) -> int:
    """Change a folder, and return the time that the file system records for it."""
    os.utime(f"/proc/self/fd/{folder}")
    return os.fstat(folder).st_ctime_ns


def mounts(layer: UpperLayer, repositories: Sequence[str]) -> list[Overlay]:
    """Return the overlays that mounting.py mounts for a layer; `.git` folders of existing repositories show through."""
    overlays: list[Overlay] = []
    outer = layer.scratch or layer.folder
    for root in layer.roots:
        names = layer.upper_name(root), layer.work_name(root)
        upper, work = (
            _handle(f"{outer}/{name}", os.stat(name, dir_fd=layer.base, follow_symlinks=False)) for name in names
        )
        paths = [] if layer.whole else [path for path in repositories if is_below(path, root) and _is_git(path)]
        shown_through = [_handle(path, os.lstat(path)) for path in paths]
        overlays.append((_handle(root, os.lstat(root)), upper, work, shown_through, layer.in_user_namespace))
    return overlays


def attribute(*, in_user_namespace: bool) -> str:
    """Return the prefix of the extended attributes that an overlay sets."""
    return "user.overlay." if in_user_namespace else "trusted.overlay."


def _is_git(path: str) -> bool:
    return os.path.basename(path).lower() == ".git" and os.path.isdir(path) and not os.path.islink(path)


def _handle(path: str, status: os.stat_result) -> Handle:
    return os.fsencode(path), (status.st_dev, status.st_ino)


def needs_user_namespace() -> bool:
    """Whether this process can mount only in a user namespace."""
    capabilities = next((line for line in lines("/proc/self/status") if line.startswith(b"CapEff:")), b": 0")
    return not int(capabilities.split()[1], 16) & _SYS_ADMIN


def _inner_mount(roots: Sequence[str]) -> str:
    """Return a mount point inside a workspace folder, which an overlay would not show; an empty string without one."""
    for line in lines(_MOUNTS):
        point = os.fsdecode(line.split(b" ", 5)[4])
        for escape, character in _ESCAPES if "\\" in point else ():
            point = point.replace(escape, character)
        if any(point != root and is_below(point, root) for root in roots):
            return point
    return ""


def _foreign(root: str) -> str:
    """Return a path that the overlay cannot copy, because a user namespace does not map its owner; empty if none."""
    user, group = os.geteuid(), os.getegid()
    status = os.stat(root)
    if (status.st_uid, status.st_gid) != (user, group):
        return root
    pending = [root]
    while pending:
        # a folder that cannot be listed cannot be reached by the command either
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if status.st_uid != user or status.st_gid != group:
                    return entry.path
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
    return ""
