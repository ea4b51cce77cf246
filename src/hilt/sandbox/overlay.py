"""The overlay of a command that can be undone: where its layers are, and when it is not possible.

The workspace is the lower layer, which stays unchanged. The command's changes go to an upper layer on the same file
system, from where they are moved into the workspace when the command has ended. overlayfs cannot hold an upper layer:
if the workspace is on one, as in most containers, the upper layer is on tmpfs, and is copied afterwards. `.git` folders
are not overlaid, except in a preview.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from errno import EXDEV
from typing import NamedTuple

from hilt.sandbox.handles import open_folder
from hilt.sandbox.profile import LAYERS, Profile, hidden_layers, innermost, is_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.mounting import Handle, Overlay
    from hilt.sandbox.profile import Availability

_SYS_ADMIN = 1 << 21  # the capability to mount
_MOUNTS = "/proc/self/mountinfo"
_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))  # in the table of mounts
_TMPFS = "/dev/shm"  # tmpfs on every Linux  # noqa: S108


class LayerPlace(NamedTuple):
    """Where the layers of a workspace are; a workspace on overlayfs has its upper layers in a `scratch` folder."""

    folder: str
    scratch: str = ""


class UpperLayer(NamedTuple):
    """The layers of one command: a folder with an upper and a work folder for each workspace folder.

    A `whole` layer covers `.git` folders too. Whatever changes in the workspace after the command began has a time of
    `began` or later, on the clock of the file system. `shared` are folders that change whenever a command starts, with
    the names in them when this one began. `scratch` holds the upper and work folders if the folder of the layer cannot.
    """

    folder: str
    roots: tuple[str, ...]
    in_user_namespace: bool
    whole: bool
    began: int = 0
    shared: Mapping[str, frozenset[str]] = {}
    scratch: str = ""

    def upper(self, root: str) -> str:
        """Return the upper folder of a workspace folder."""
        return f"{self.scratch or self.folder}/u{self.roots.index(root)}"

    def work(self, root: str) -> str:
        """Return the work folder of a workspace folder, which the kernel needs."""
        return f"{self.scratch or self.folder}/w{self.roots.index(root)}"

    @property
    def attribute(self) -> str:
        """The prefix of the extended attributes that the overlay sets."""
        return _attribute(self.in_user_namespace)


def obstacle(profile: Profile, available: Availability) -> str:
    """Return why a command cannot run on an overlay here; an empty string if it can."""
    if profile.name == "full":
        return "the sandbox is off"
    if not profile.writable:
        return "the sandbox is read-only"
    if "overlay" not in available.features:
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


def find_place(roots: Sequence[str], state: str, name: str) -> LayerPlace | None:
    """Return the folders for the layers of a workspace, created if missing; None if no place is suitable.

    They must be on the same mount as the workspace, so that files can be moved between them: in the state directory,
    beside the workspace, or hidden in it.
    """
    root_mounts = {_mount_of(root) for root in roots}
    for path in (os.path.join(state, "layers", name), *hidden_layers(roots[0], name)):
        with suppress(OSError):
            if {_mount_of(_nearest_existing(path))} == root_mounts:
                _make_place(path)
                return LayerPlace(path, _make_scratch(state, name) if _is_overlay(*root_mounts) else "")
    return None


def _make_scratch(state: str, name: str) -> str:
    """Return a folder on tmpfs for upper layers, created if missing; raise if tmpfs cannot hold them."""
    from hashlib import sha256

    # only the owner of a state directory knows which of its commands run, and may remove leftovers
    owner = sha256(os.fsencode(os.path.realpath(state))).hexdigest()
    path = os.path.join(os.path.realpath(_TMPFS), f"hilt-upper-{os.geteuid()}-{owner[:12]}-{name[:12]}")
    _make_place(path)
    # before Linux 6.6, tmpfs had no attributes for users, without which an overlay cannot replace folders
    os.setxattr(path, f"{_attribute(_needs_user_namespace())}probe", b"")
    return path


def make(place: LayerPlace, name: str, roots: tuple[str, ...], *, whole: bool) -> UpperLayer:
    """Create the folders of a layer."""
    folder, scratch = (path and os.path.join(path, name) for path in place)
    layer = UpperLayer(folder, roots, _needs_user_namespace(), whole, scratch=scratch)
    for path in filter(None, (folder, scratch)):
        os.mkdir(path, 0o700)
    for root in roots:
        os.mkdir(layer.work(root), 0o700)
        upper = layer.upper(root)
        os.mkdir(upper, 0o700)
        # the program sees these as the attributes of the workspace folder
        status = os.stat(root)
        if os.geteuid() == 0:
            os.chown(upper, status.st_uid, status.st_gid)
        os.chmod(upper, status.st_mode & 0o7777)
    return layer


def begin(layer: UpperLayer, mount_points: Iterable[str]) -> UpperLayer:
    """Return the layer with the current time of the file system as its start."""
    shared = {folder: frozenset(os.listdir(folder)) for folder in {os.path.dirname(path) for path in mount_points}}
    earlier = _tick(layer.folder)
    while (began := _tick(layer.folder)) == earlier:
        time.sleep(0.0002)  # the clock of the file system ticks every few milliseconds
    return layer._replace(began=began, shared=shared)


def _tick(folder: str) -> int:
    """Change a folder, and return the time that the file system records for it."""
    os.utime(folder)
    return os.stat(folder).st_ctime_ns


def mounts(layer: UpperLayer, repositories: Sequence[str]) -> list[Overlay]:
    """Return the overlays that mounting.py mounts for a layer; `.git` folders of existing repositories show through."""
    overlays: list[Overlay] = []
    for root in layer.roots:
        folder, upper, work = (_handle(path) for path in (root, layer.upper(root), layer.work(root)))
        shown_through = [] if layer.whole else [path for path in repositories if is_below(path, root) and _is_git(path)]
        overlays.append((folder, upper, work, [_handle(path) for path in shown_through], layer.in_user_namespace))
    return overlays


def _attribute(in_user_namespace: bool) -> str:
    return "user.overlay." if in_user_namespace else "trusted.overlay."


def _is_git(path: str) -> bool:
    return os.path.basename(path).lower() == ".git" and os.path.isdir(path) and not os.path.islink(path)


def _handle(path: str) -> Handle:
    status = os.lstat(path)
    return os.fsencode(path), (status.st_dev, status.st_ino)


def _needs_user_namespace() -> bool:
    """Whether this process can mount only in a user namespace."""
    capabilities = next((line for line in _lines("/proc/self/status") if line.startswith(b"CapEff:")), b": 0")
    return not int(capabilities.split()[1], 16) & _SYS_ADMIN


def _inner_mount(roots: Sequence[str]) -> str:
    """Return a mount point inside a workspace folder, which an overlay would not show; an empty string without one."""
    for line in _lines(_MOUNTS):
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


def _nearest_existing(path: str) -> str:
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _mount_of(path: str) -> bytes:
    """Return the id of the mount that a path is on."""
    handle = open_folder(os.path.realpath(path))
    try:
        return next(line.split()[1] for line in _lines(f"/proc/self/fdinfo/{handle}") if line.startswith(b"mnt_id:"))
    finally:
        os.close(handle)


def _is_overlay(mount: bytes) -> bool:
    return any(line.startswith(mount + b" ") and b" - overlay " in line for line in _lines(_MOUNTS))


def _lines(path: str) -> list[bytes]:
    """Return the lines of a file in /proc."""
    with open(path, "rb", buffering=0) as file:
        return file.readall().rstrip(b"\n").split(b"\n")


def _make_place(path: str) -> None:
    """Create a folder for layers that only this user can enter; raise if the path is something else."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
        if os.path.basename(path).startswith(LAYERS):
            with open(os.path.join(path, ".gitignore"), "x", encoding="ascii") as file:
                file.write("*\n")
    status = os.lstat(path)
    if status.st_uid != os.geteuid() or status.st_mode & 0o170077 != 0o040000:
        raise OSError(EXDEV, os.strerror(EXDEV), path)
