"""Performs the mounts of a plan by handle, in a separate mount namespace (ADR 0022).

A running command can rename folders in the workspace while the sandbox of the next one is set up. So no name is
resolved twice: every path is opened without following links, compared with what the plan was made for, and mounted from
handle to handle. Any difference fails with ESTALE, and nothing runs.

The whole file system is cloned to a stage, read-only, and the steps are performed there. bubblewrap then makes the
stage its root. Everything but devices is mounted with nosuid and nodev, so bubblewrap has nothing to remount by name.
After each of its own mounts it reads the mount table, which takes longer than the mount, so /dev is made here too.

For a command that can be undone, an overlay covers each workspace folder before that, so that every later step sees the
overlay: what the command changes goes to its upper layer. The layers are opened and compared like everything else.

This module runs in the keeper's child, without the rest of hilt.
"""

from __future__ import annotations

import os
import sys
from errno import ELOOP, ENOTDIR, EPERM, ESTALE

TYPE_CHECKING = False
if TYPE_CHECKING:
    # path, expected (device, inode) there, what to mount, (device, inode) of the source, whether it is writable;
    # to mount: a source, the mode of an empty folder, or one of the names below
    Mount = tuple[bytes, tuple[int, int] | None, bytes | int | str, tuple[int, int] | None, bool]
    # a folder to cover, its upper layer and its work folder, each with its (device, inode); folders in it that show
    # through; whether the overlay keeps its attributes in the namespace "user"
    Handle = tuple[bytes, tuple[int, int]]
    Overlay = tuple[Handle, Handle, Handle, list[Handle], bool]
    # a detached mount, and whether it is a folder
    _Tree = tuple[int, bool]

DEVICES, SHARED_MEMORY, READ_ONLY = "devices", "shared memory", "read-only"
LINK = "link "  # before the path of a link, which is mounted itself
SHARED_BYTES = 1 << 30
_SMALL_BYTES = 1 << 20  # enough for mount points
EMPTY_MODE = 0o500  # of a folder that can be listed, and is empty

# system calls, by numbers that are the same on every architecture
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 437, 442
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_CLOEXEC, _OPEN_TREE_CLONE, _MOVE_MOUNT_BY_HANDLES = 0o2000000, 1, 0x44
_FSCONFIG_SET_FLAG, _FSCONFIG_SET_STRING, _FSCONFIG_CMD_CREATE = 0, 1, 6
_READ_ONLY, _NOSUID, _NODEV, _NOEXEC, _NO_SYMLINKS = 1, 2, 4, 8, 0x200000
_PLAIN = _NOSUID | _NODEV
_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x04, 0x08
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_HANDLE = getattr(os, "O_PATH", 0) | os.O_CLOEXEC
_LOWER_INODE = (1 << 62) - 1
# for openat2: flags, mode and how to resolve
_OPEN_HOW = b"".join(
    number.to_bytes(8, sys.byteorder) for number in (_HANDLE, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH)
)

_DEVICE_NODES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
_DEVICE_LINKS = {
    b"stdin": b"/proc/self/fd/0",
    b"stdout": b"/proc/self/fd/1",
    b"stderr": b"/proc/self/fd/2",
    b"fd": b"/proc/self/fd",
    b"core": b"/proc/kcore",
    b"ptmx": b"pts/ptmx",
}


def prepare() -> None:
    """Import what `carry_out` needs."""
    _Kernel()


def carry_out(stage: bytes, mounts: list[Mount], overlays: list[Overlay], own_network: bool) -> None:
    """Enter a new mount namespace and build the file system of a plan at the folder `stage`.

    With its own network, the program can connect only to itself.
    """
    kernel = _Kernel()
    kernel.unshare(own_network=own_network)
    mounter = _Mounter(kernel)
    for overlay in overlays:
        mounter.cover(*overlay)
    mounter.make_stage(stage)
    mounter.make(mounts)


def follow_no_links() -> None:
    """Mount the working directory over itself with links disabled; no effect where that is not supported.

    Our own programs then follow no link that replaces a folder.
    """
    kernel = _Kernel()
    try:
        # in a user namespace root would lose access to files of others
        kernel.unshare(mounts_only=os.geteuid() == 0)
        folder = os.open(".", _HANDLE)
        tree = kernel.clone(folder, _NO_SYMLINKS)
        kernel.attach(os.dup(tree), folder)
        os.fchdir(tree)
    except OSError:
        return


class _Mounter:
    """Mounts the steps of a plan."""

    def __init__(self, kernel: _Kernel) -> None:
        self._kernel = kernel
        self._folder = b""
        self._host = os.open("/", _HANDLE)
        self._stage = -1
        self._lower: dict[int, int] = {}  # by device of an overlay: that of its lower layer
        self._covered: dict[tuple[int, int], tuple[int, int]] = {}  # by identity of an overlay: that of its folder
        self._closing: list[int] = []  # mounts of empty folders, made read-only at the end
        self._fresh: set[int] = set()  # devices of folders that were mounted here and are not read-only yet
        self._shared: dict[int, int] = {}  # by mode: mounts of empty folders that stay empty

    def make_stage(self, folder: bytes) -> None:
        """Clone the whole file system to a folder, read-only; mounts go there."""
        self._folder = folder
        whole = self._kernel.clone(self._host, _PLAIN | _READ_ONLY)
        self._kernel.attach(whole, self._kernel.open(self._host, folder))
        self._stage = self._kernel.open(self._host, folder)

    def make(self, mounts: list[Mount]) -> None:
        """Perform the steps, one after the other."""
        parents = _parent_folders(mounts)
        for step in mounts:
            self._attach(step, self._clone_source(step, parents))
        for mount in self._closing:
            self._kernel.restrict(mount, _READ_ONLY, whole_tree=False)

    def _clone_source(self, step: Mount, parents: set[bytes]) -> _Tree:
        path, _, source, source_identity, writable = step
        if source == READ_ONLY:
            return -1, True
        if isinstance(source, str) and source.startswith(LINK):
            link = os.open(source.removeprefix(LINK), _HANDLE | os.O_NOFOLLOW)
            return self._kernel.clone(link, _PLAIN | _READ_ONLY), False
        if isinstance(source, bytes):
            origin = self._source(source)
            status = self._compare(origin, source_identity)
            tree = self._kernel.clone(origin, _PLAIN if writable else _PLAIN | _READ_ONLY)
            os.close(origin)
            return tree, _is_folder(status)
        return self._mount_folder(source, stays_empty=path.rstrip(b"/") not in parents), True

    def _attach(self, step: Mount, tree: _Tree) -> None:
        path, identity, source, _, _ = step
        mount, is_folder = tree
        target = self._target(path, is_folder=is_folder)
        if source == READ_ONLY:
            self._kernel.restrict(target, _READ_ONLY, whole_tree=False)
            os.close(target)
            return
        self._compare(target, identity)
        try:
            self._kernel.attach(mount, target)
        except OSError:
            if not (isinstance(source, str) and source.startswith(LINK)):
                raise
            return  # the kernel mounts no links; what it covers cannot be changed
        if path == b"/":
            self._stage = self._kernel.open(self._host, self._folder)
        elif source == DEVICES:
            self._fill_devices(path)

    def cover(
        self, folder: Handle, upper: Handle, work: Handle, shown_through: list[Handle], in_user_namespace: bool
    ) -> None:
        """Mount an overlay over a folder, and the folders that show through over the overlay."""
        lower, *layers = handles = [self._expect(*handle) for handle in (folder, upper, work)]
        trees = [(path, self._kernel.clone(self._expect(path, identity))) for path, identity in shown_through]
        mount = self._kernel.make_overlay(lower, *layers, in_user_namespace=in_user_namespace)
        status = os.fstat(mount)
        self._lower[status.st_dev] = folder[1][0]
        self._covered[status.st_dev, status.st_ino] = folder[1][0], folder[1][1]
        self._kernel.attach(mount, os.dup(lower))
        for path, tree in trees:
            self._kernel.attach(tree, self._kernel.open(self._host, path))
        for handle in handles:
            os.close(handle)

    def _expect(self, path: bytes, identity: tuple[int, int]) -> int:
        handle = self._source(path)
        self._compare(handle, identity)
        return handle

    def _compare(self, handle: int, identity: tuple[int, int] | None) -> os.stat_result:
        """Raise if a handle is not what the plan was made for; in an overlay, inodes have the numbers of its layers."""
        status = os.fstat(handle)
        if identity is None:
            return status
        current = status.st_dev, status.st_ino
        if status.st_dev in self._lower:
            current = self._covered.get(current, (self._lower[status.st_dev], status.st_ino & _LOWER_INODE))
        if current != tuple(identity):
            raise OSError(ESTALE, os.strerror(ESTALE))
        return status

    def _mount_folder(self, kind: int | str, *, stays_empty: bool) -> int:
        """Return the mount of a new folder; those of one mode that stay empty are clones of the first."""
        if isinstance(kind, int) and stays_empty:
            if kind in self._shared:
                return self._kernel.clone(self._shared[kind], whole_tree=False)
            mount = self._kernel.make_tmpfs(kind)
            self._kernel.restrict(mount, _READ_ONLY)
            self._shared[kind] = os.dup(mount)
            return mount
        if isinstance(kind, int):
            mount = self._kernel.make_tmpfs(kind)
            self._closing.append(os.dup(mount))
        else:
            mount = self._kernel.make_tmpfs(0o755, SHARED_BYTES if kind == SHARED_MEMORY else _SMALL_BYTES)
        self._fresh.add(os.fstat(mount).st_dev)
        return mount

    def _fill_devices(self, path: bytes) -> None:
        """Add to a new /dev what every program may use, and a separate set of terminals."""
        kernel = self._kernel
        folder = kernel.open(self._stage, path)
        for name, target in _DEVICE_LINKS.items():
            os.symlink(target, name, dir_fd=folder)
        for name in _DEVICE_NODES:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder))
            node = kernel.open(self._host, path + b"/" + name)
            kernel.attach(kernel.clone(node, _NOSUID), kernel.open(folder, name))
            os.close(node)
        for name in (b"pts", b"shm"):
            os.mkdir(name, 0o755, dir_fd=folder)
        kernel.attach(kernel.make_terminals(), kernel.open(folder, b"pts"))
        os.close(folder)

    def _source(self, path: bytes) -> int:
        try:
            return self._kernel.open(self._host, path)
        except FileNotFoundError as error:
            raise OSError(ESTALE, path) from error

    def _target(self, path: bytes, *, is_folder: bool) -> int:
        """Open the path to cover; in an empty folder of ours, create it first as a folder or file."""
        try:
            return self._kernel.open(self._stage, path)
        except FileNotFoundError:
            self._make(path, is_folder=is_folder)
        try:
            return self._kernel.open(self._stage, path)
        except FileNotFoundError as error:
            raise OSError(ESTALE, path) from error

    def _make(self, path: bytes, *, is_folder: bool) -> None:
        current = b""
        names = path.strip(b"/").split(b"/")
        for name in names:
            folder = self._kernel.open(self._stage, current)
            current += b"/" + name
            if os.fstat(folder).st_dev in self._fresh:
                try:
                    if is_folder or current != path:
                        os.mkdir(name, 0o755, dir_fd=folder)
                    else:
                        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                        os.close(os.open(name, flags, 0o600, dir_fd=folder))
                except FileExistsError:
                    pass  # created by an earlier step
            os.close(folder)


def _start_loopback() -> None:
    """Start the loopback device of this network."""
    import _socket
    import fcntl

    control = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(control, _SIOCSIFFLAGS, b"lo".ljust(16, b"\0") + _IFF_UP.to_bytes(2, sys.byteorder).ljust(24, b"\0"))
    control.close()


class _Kernel:
    """System calls that Python lacks."""

    def __init__(self) -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        # a pointer can be a number, too; without types, each argument would be converted here
        types = (ctypes.c_long, *(ctypes.c_void_p,) * 5)
        libc.syscall.argtypes, libc.syscall.restype = types, ctypes.c_long
        libc.mount.argtypes = types[1:]
        self._libc = libc
        self._errno = ctypes.get_errno

    def unshare(self, *, mounts_only: bool = False, own_network: bool = False) -> None:
        """Enter a new mount namespace; if not permitted, and unless `mounts_only`, with a new user namespace."""
        user, group = os.geteuid(), os.getegid()
        new = _CLONE_NEWNS | _CLONE_NEWNET if own_network else _CLONE_NEWNS
        try:
            self._check(self._libc.unshare(new))
        except OSError as error:
            if error.errno != EPERM or mounts_only:
                raise
            self._check(self._libc.unshare(_CLONE_NEWUSER | new))
            maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
            for name, text in maps.items():
                fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
                os.write(fd, text.encode())
                os.close(fd)
        self._check(self._libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
        if own_network:
            _start_loopback()

    def make_tmpfs(self, mode: int, size: int = _SMALL_BYTES) -> int:
        """Return the mount of an empty folder."""
        return self._make(b"tmpfs", {b"mode": b"%o" % mode, b"size": b"%d" % size}, _PLAIN)

    def make_terminals(self) -> int:
        """Return the mount of a new, empty folder of terminals."""
        return self._make(b"devpts", {b"mode": b"620", b"ptmxmode": b"666"}, _NOSUID | _NOEXEC)

    def make_overlay(self, lower: int, upper: int, work: int, *, in_user_namespace: bool) -> int:
        """Return the mount of an overlay of these folders, which never syncs and never renames a folder in place."""
        layers = {b"lowerdir": lower, b"upperdir": upper, b"workdir": work}
        options = {name: b"/proc/self/fd/%d" % handle for name, handle in layers.items()}
        options |= {b"redirect_dir": b"nofollow", b"index": b"off", b"metacopy": b"off"}
        if os.fstat(lower).st_dev != os.fstat(upper).st_dev:
            options[b"xino"] = b"on"  # inodes keep the numbers of their layer, and two higher bits identify the layer
        flags = (b"volatile", b"userxattr") if in_user_namespace else (b"volatile",)
        return self._make(b"overlay", options, _PLAIN, flags)

    def _make(self, kind: bytes, options: dict[bytes, bytes], attributes: int, flags: tuple[bytes, ...] = ()) -> int:
        context = self._system(_FSOPEN, kind, 1)
        for name, value in options.items():
            self._system(_FSCONFIG, context, _FSCONFIG_SET_STRING, name, value, 0)
        for name in flags:
            self._system(_FSCONFIG, context, _FSCONFIG_SET_FLAG, name, None, 0)
        self._system(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        mount = self._system(_FSMOUNT, context, 1, attributes)
        os.close(context)
        return mount

    def clone(self, handle: int, attributes: int = 0, *, whole_tree: bool = True) -> int:
        """Return a bind mount of a handle, by default with the mounts below it."""
        flags = _OPEN_TREE_CLONE | _CLOEXEC | _AT_EMPTY_PATH | (_AT_RECURSIVE if whole_tree else 0)
        tree = self._system(_OPEN_TREE, handle, b"", flags)
        if attributes:
            self.restrict(tree, attributes)
        return tree

    def restrict(self, mount: int, attributes: int, *, whole_tree: bool = True) -> None:
        """Add attributes to a mount."""
        mount_attr = attributes.to_bytes(8, sys.byteorder) + bytes(24)
        flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if whole_tree else 0)
        self._system(_MOUNT_SETATTR, mount, b"", flags, mount_attr, len(mount_attr))

    def attach(self, mount: int, target: int) -> None:
        """Attach a mount to a handle, and close both."""
        self._system(_MOVE_MOUNT, mount, b"", target, b"", _MOVE_MOUNT_BY_HANDLES)
        os.close(mount)
        os.close(target)

    def open(self, folder: int, path: bytes) -> int:
        """Open a path below a folder without following links."""
        try:
            return self._system(_OPENAT2, folder, path.lstrip(b"/") or b".", _OPEN_HOW, len(_OPEN_HOW))
        except OSError as error:
            if error.errno in (ELOOP, ENOTDIR):
                raise OSError(ESTALE, path) from error
            raise

    def _system(
        self,
        number: int,
        first: int | bytes,
        second: int | bytes = 0,
        third: int | bytes | None = 0,
        fourth: int | bytes | None = 0,
        fifth: int = 0,
    ) -> int:
        return self._check(self._libc.syscall(number, first, second, third, fourth, fifth))

    def _check(self, outcome: int) -> int:
        if outcome < 0:
            number = self._errno()
            raise OSError(number, os.strerror(number))
        return outcome


def _parent_folders(mounts: list[Mount]) -> set[bytes]:
    """Return the parent folders of the paths of mounts."""
    return {outer for path, *_ in mounts for outer in _folders_above(path)}


def _folders_above(path: bytes) -> list[bytes]:
    names = path.split(b"/")
    return [b"/".join(names[:end]) for end in range(1, len(names))]


def _is_folder(status: os.stat_result) -> bool:
    import stat

    return stat.S_ISDIR(status.st_mode)
