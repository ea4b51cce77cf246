"""Race-free resolution of a path in a request to an open file, component by component (ADR 0007).

Every component is opened relative to the descriptor of its parent folder, without following links. Links are read and
resolved here, so that the rules apply to the resolved names, and nothing can be swapped between check and use.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.formats.names import GIT_PARTS, fold
from hilt.handles import FILE, FOLDER, LISTED, Closing
from hilt.places import LINKS_MAX
from hilt.policy.paths import PathRules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.homes import Homes
    from hilt.policy.barriers import Barrier

PATH_MAX = 4096


class Root:
    """One folder an agent may use."""

    def __init__(
        self,
        path: str,
        *,
        label: str | None,
        writable: bool,
        closed: Sequence[str] = (),
        read_only: Sequence[str] = (),
        installed: Callable[[], Sequence[str]] = tuple,
        homes: Callable[[], Homes] | None = None,
        is_library: bool = False,
    ) -> None:
        """`installed` and `homes` return what only matters for writes; the first write calls them."""
        self.path = os.path.abspath(path)
        self.real = os.path.realpath(path)
        self.label = label  # prefix of displayed paths; None for the first root
        self.writable = writable
        self.is_library = is_library  # the user's skills: readable, but not opened by the user
        # hilt's own folders, which may be inside the workspace, such as a home directory
        self._closed = self._inside(closed)
        self._read_only = self._inside(read_only)
        self._find_installed = installed
        self._find_homes = homes

    @cached_property
    def _installed(self) -> frozenset[tuple[str, ...]] | None:
        """The paths of the running hilt inside this folder; None if the folder is itself part of it."""
        installed = self._find_installed()
        return None if self.real in installed else self._inside(installed)

    @cached_property
    def _homes(self) -> Homes:
        """The home directories inside this folder."""
        if self._find_homes is None:
            from hilt.homes import Homes

            return Homes()
        return self._find_homes()

    def _inside(self, paths: Sequence[str]) -> frozenset[tuple[str, ...]]:
        # both as written and resolved
        forms = (form for path in paths for form in dict.fromkeys((path, os.path.realpath(path))))
        inside = (_below(path, self.real) for path in forms)
        return frozenset(tuple(map(fold, parts)) for parts in inside if parts)

    def is_closed(self, parts: Sequence[str]) -> bool:
        """Whether this is a folder that tools can neither read nor write, whatever its name."""
        return bool(self._closed) and tuple(map(fold, parts)) in self._closed

    def is_read_only(self, parts: Sequence[str]) -> bool:
        """Whether this is a folder that tools can only read, whatever its name."""
        return bool(self._read_only) and tuple(map(fold, parts)) in self._read_only

    @property
    def is_part(self) -> bool:
        """Whether this folder is itself part of the running hilt."""
        return self._installed is None

    def is_installed(self, parts: Sequence[str]) -> bool:
        """Whether this is part of the running hilt."""
        return self._installed is None or (bool(self._installed) and tuple(map(fold, parts)) in self._installed)

    def asks(self, parts: Sequence[str]) -> bool:
        """Whether this is protected because it is in a home directory."""
        return bool(self._homes.folders) and self._homes.protects(self.full(parts))

    def open(self) -> int:
        """Open the folder and return its descriptor; not cached, because a workspace may be replaced."""
        try:
            return os.open(self.real, FOLDER)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise ToolError("file_not_found", f"The workspace cannot be opened: {reason}.") from error

    def full(self, parts: Sequence[str]) -> str:
        """Return the absolute path of a path in this root."""
        return os.path.join(self.real, *parts)

    def display_path(self, parts: Sequence[str]) -> str:
        """Return a path in this root as callers see it."""
        inner = "/".join(parts)
        if self.label is None:
            return inner or "."
        return f"{self.label}/{inner}" if inner else self.label


class Place(NamedTuple):
    """A resolved path: an open folder, the name in it, and its status (None: it does not exist)."""

    folder: int
    name: str
    status: os.stat_result | None
    root: Root
    parts: tuple[str, ...]  # the names walked, links resolved
    missing: tuple[str, ...]  # folders that must be created for the name

    @property
    def path(self) -> str:
        """The path as callers see it."""
        return self.root.display_path(self.parts)


class Door:
    """Opens paths inside the roots, subject to the path rules.

    `marked` matches files and folders that tools may not access under any name; each folder on the way and the final
    file are checked. `barrier` holds the rules that apply to one call.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        rules: PathRules,
        *,
        marked: Callable[[os.stat_result], bool] | None = None,
        barrier: Barrier | None = None,
    ) -> None:
        self.roots = roots
        self.rules = rules
        self.marked = marked
        self.barrier = barrier
        # files and folders that a change replaces with the other kind: a write finds nothing there
        self.replaced: Collection[str] = ()
        self._prompted: set[str] = set()  # names that need approval and that the user was asked about
        prefixes = [(root, prefix) for root in roots for prefix in dict.fromkeys((root.path, root.real))]
        # longest first: one root may be inside another
        self._prefixes = sorted(prefixes, key=lambda pair: len(pair[1]), reverse=True)

    def for_call(self) -> Door:
        """Return the door of one call: approvals apply to no other call."""
        return self._copy(set(), self.barrier)

    def under(self, barrier: Barrier) -> Door:
        """Return this door with the rules of one call."""
        return self._copy(self._prompted, barrier)

    def _copy(self, asked: set[str], barrier: Barrier | None) -> Door:
        copy = Door.__new__(Door)
        copy.roots, copy.rules, copy._prefixes = self.roots, self.rules, self._prefixes
        copy.marked, copy.barrier, copy._prompted, copy.replaced = self.marked, barrier, asked, self.replaced
        return copy

    def locate(self, path: str) -> tuple[Root, list[str]]:
        """Return the root and the parts of a path, without accessing the disk; raise if it is outside all roots."""
        if "\0" in path:
            raise ToolError(
                "invalid_args", "The path contains a NUL character.", suggestion="Remove the NUL character."
            )
        if len(path) > PATH_MAX:
            # the walk would work, but other programs could not open the path
            raise plain_error(OSError(errno.ENAMETOOLONG, ""), path)
        if not path.isascii() and any("\ud800" <= character < "\udc80" for character in path):
            raise ToolError("invalid_args", "The path contains a lone surrogate.", suggestion="Send valid Unicode.")
        expanded = os.path.expanduser(path) if path.startswith("~") else path
        first = self.roots[0]
        if not expanded.startswith("/"):
            parts = expanded.split("/")
            if ".." not in parts:
                return first, parts
            expanded = os.path.join(first.path, expanded)
        normal = os.path.normpath(expanded)
        for root, prefix in self._prefixes:
            if normal == prefix or normal.startswith(prefix.rstrip("/") + "/"):
                # there may be a link before "..", so keep the parts as written if possible
                written = _below(expanded, prefix)
                return root, written if written is not None else normal[len(prefix) :].split("/")
        raise _outside(path)

    def inside(self, target: str) -> tuple[Root, list[str]] | None:
        """Return the root that contains an absolute path and its parts there, or None."""
        for root, prefix in self._prefixes:
            parts = _below(target, prefix)
            if parts is not None:
                return root, parts
        return None

    def is_sensitive(self, root: Root, parts: Sequence[str]) -> bool:
        """Whether tools may not access the last name of a path, whose other names were already checked."""
        return (
            self.rules.is_sensitive("/".join(parts))
            or root.is_closed(parts)
            or (self.barrier is not None and self.barrier.hides(root.full(parts)))
        )

    def check(self, root: Root, parts: Sequence[str], *, write: bool) -> None:
        """Check the last name of a path whose other names were already checked; raise if it is denied."""
        self.rules.check(parts, write=write)
        if root.is_closed(parts):
            path = root.display_path(parts)
            raise ToolError("sensitive_path", f"{path} contains hilt's state; tools cannot access it.", path=path)
        if not write:
            return
        path = root.display_path(parts)
        if root.is_read_only(parts):
            raise ToolError("protected_path", f"{path} contains hilt's settings; tools can only read it.", path=path)
        if root.is_installed(parts):
            raise _part_of_hilt(path, root, parts)
        if self._asks(root, parts) and path not in self._prompted:
            raise ToolError(
                "protected_path",
                f"{path} can run programs automatically, and the user was not asked about writing it.",
                suggestion="Name the file in the call, so that the user can approve it.",
                path=path,
            )

    def _asks(self, root: Root, parts: Sequence[str]) -> bool:
        return self.rules.asks(parts) or root.asks(parts)

    def check_rules(self, root: Root, parts: Sequence[str], *, write: bool) -> None:
        """Apply the rules of the call to a resolved path; raise if one denies it."""
        if self.barrier is not None:
            self.barrier.check(root.full(parts), root.display_path(parts), write=write)

    def check_object(self, status: os.stat_result, path: str) -> None:
        """Check an open file or folder by its inode; raise if tools may not access it under any name."""
        if self.marked is not None and self.marked(status):
            raise ToolError("sensitive_path", f"{path} is another name for a file that tools cannot access.", path=path)

    def judge(self, path: str, *, write: bool) -> None:
        """Check a path by its text: workspace boundary and path rules; the walk checks the resolved path again."""
        root, parts = self.locate(path)
        for names in _partial_paths(parts):
            self.check(root, names, write=write)
        if write and not root.writable:
            raise _read_only(path)

    def ask(self, path: str) -> list[str]:
        """Return the names in the text of a path that need approval before they are written.

        This door then allows writing them, so the caller must ask the user first.
        """
        root, parts = self.locate(path)
        unapproved = [root.display_path(names) for names in _partial_paths(parts) if self._asks(root, names)]
        self._prompted.update(unapproved)
        return unapproved

    @contextmanager
    def place(self, path: str, *, write: bool = False) -> Iterator[Place]:
        """Resolve a path and yield its place; the folder descriptor is valid inside the block."""
        root, parts = self.locate(path)
        if write and not root.writable:
            raise _read_only(path)
        walk = _Walk(self, root, path, write=write)
        try:
            yield walk.to(parts)
        except OSError as error:
            raise plain_error(error, path) from error
        finally:
            walk.close()

    def open(self, path: str) -> tuple[int, os.stat_result, str]:
        """Open a regular file for reading; return its descriptor, its status and its path as callers see it.

        Follows links that stay inside. The caller closes the descriptor.
        """
        root, parts = self.locate(path)
        walk = _Walk(self, root, path, write=False)
        try:
            place = walk.to(parts)
            return *self._open_regular(place), place.path
        except OSError as error:
            raise plain_error(error, path) from error
        finally:
            walk.close()

    @contextmanager
    def open_file(self, path: str) -> Iterator[tuple[int, os.stat_result, Place]]:
        """Open a regular file for reading, and keep its folder open; follow links that stay inside."""
        with self.place(path) as place:
            descriptor, status = self._open_regular(place)
            with Closing(descriptor):
                yield descriptor, status, place

    def _open_regular(self, place: Place) -> tuple[int, os.stat_result]:
        if place.status is None:
            raise _not_found(place.path)
        if not stat.S_ISREG(place.status.st_mode):
            raise not_a_file(place.path, place.status.st_mode)
        descriptor = os.open(place.name, FILE, dir_fd=place.folder)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise not_a_file(place.path, status.st_mode)
            if self.marked is not None:
                self.check_object(status, place.path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, status

    @contextmanager
    def open_folder(self, path: str) -> Iterator[tuple[int, Place]]:
        """Open a folder for listing."""
        with self.place(path) as place:
            if place.status is None:
                raise _not_found(place.path)
            if not stat.S_ISDIR(place.status.st_mode):
                raise ToolError(
                    "invalid_args" if stat.S_ISREG(place.status.st_mode) else "not_a_file",
                    f"{place.path} is not a folder.",
                    suggestion="Use stat_file or read_file for a file.",
                )
            with Closing(os.open(place.name, LISTED, dir_fd=place.folder)) as descriptor:
                if self.marked is not None:
                    self.check_object(os.fstat(descriptor), place.path)
                yield descriptor, place


class _Walk:
    """The resolution of one path, and its open descriptors."""

    def __init__(self, door: Door, root: Root, path: str, *, write: bool) -> None:
        self._door = door
        self._root = root
        self._path = path
        self._write = write
        self._handles: list[int] = []  # the root, and each folder entered

    def close(self) -> None:
        for handle in self._handles:
            os.close(handle)
        self._handles.clear()

    def to(self, parts: Sequence[str]) -> Place:
        """Walk to the last name, check it and return its place."""
        place = self._end(parts)
        door = self._door
        if door.barrier is not None:
            door.barrier.check_end(place.root.full(place.parts), place.path, write=self._write)
        if door.marked is not None and place.status is not None:
            door.check_object(place.status, place.path)
        if self._path.endswith(("/", "/.")):
            self._check_slash(place)
        if self._write:
            self._check_repository(place)
        return place

    def _check_repository(self, place: Place) -> None:
        """Raise for a part of a folder that is a repository, such as a bare one, or that this part would make one."""
        for index, (folder, name) in enumerate(zip(self._handles, place.parts, strict=False)):
            if fold(name) in GIT_PARTS and (cause := "HEAD" if _exists("HEAD", folder) else _worktree(folder)):
                raise ToolError(
                    "protected_path",
                    f"{place.path} belongs to git, because {self._root.display_path([*place.parts[:index], cause])} "
                    "exists; tools can only read it.",
                    suggestion="Use git, or ask the user to change it.",
                    path=place.path,
                )

    def _check_slash(self, place: Place) -> None:
        """Raise if a path that ends with a slash is not a folder."""
        if place.status is not None and not stat.S_ISDIR(place.status.st_mode):
            raise ToolError(
                "not_a_file",
                f"{self._path} ends with a slash, but {place.path} is not a folder.",
                suggestion=f"Use {place.path}.",
                path=place.path,
            )
        if self._write and self._path.endswith("/") and place.status is None:
            raise ToolError(
                "not_a_file",
                f"{self._path} ends with a slash, which means a folder.",
                suggestion=f"For a file, use {place.path}.",
                path=place.path,
            )

    def _end(self, parts: Sequence[str]) -> Place:
        names: list[str] = []  # the names walked, links resolved; one per open folder at the end
        pending = [part for part in reversed(parts) if part not in ("", ".")]
        links = 0
        self._handles.append(self._root.open())
        while pending:
            part = pending.pop()
            if part == "..":
                if len(self._handles) == 1:
                    raise _outside(self._path)
                os.close(self._handles.pop())
                names.pop()
                continue
            names.append(part)
            self._door.check(self._root, names, write=self._write)
            if self._door.barrier is not None:
                self._door.check_rules(self._root, names, write=self._write)
            folder = self._handles[-1]
            if pending and self._enter(part, names):
                continue
            try:
                status = os.stat(part, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return self._missing(folder, names, pending)
            except NotADirectoryError:
                raise _not_found(self._root.display_path(names)) from None
            if stat.S_ISLNK(status.st_mode):
                links = self._count_link(links, names)
                names.pop()
                try:
                    target = os.readlink(part, dir_fd=folder)
                except OSError as error:
                    if error.errno not in (errno.EINVAL, errno.ENOENT):
                        raise
                    pending.append(part)  # replaced in the meantime: retry
                    continue
                self._splice(target, part, names, pending)
                continue
            is_replaced = self._write and self._root.display_path(names) in self._door.replaced
            if not pending:
                gone = is_replaced and stat.S_ISDIR(status.st_mode)
                return Place(folder, part, None if gone else status, self._root, tuple(names), ())
            if not stat.S_ISDIR(status.st_mode):
                if is_replaced and stat.S_ISREG(status.st_mode):
                    return self._missing(folder, names, pending)
                raise self._through_file(names)
            # it became a folder after the attempt to open it: retry
            links = self._count_link(links, names)
            names.pop()
            pending.append(part)
        # the root itself, or a folder reached by ".."
        self._door.check_rules(self._root, names, write=self._write)
        folder = self._handles[-1]
        return Place(folder, ".", os.stat(".", dir_fd=folder), self._root, tuple(names), ())

    def _enter(self, part: str, names: Sequence[str]) -> bool:
        """Enter the folder `part` of the last folder; return False if it is a link, a file or missing."""
        try:
            handle = os.open(part, FOLDER, dir_fd=self._handles[-1])
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
                return False
            raise
        self._handles.append(handle)
        if self._door.marked is not None:
            self._door.check_object(os.fstat(handle), self._root.display_path(names))
        return True

    def _count_link(self, links: int, names: Sequence[str]) -> int:
        if links >= LINKS_MAX:
            path = self._root.display_path(names)
            raise ToolError("file_not_found", f"{path}: too many symbolic links; they may form a loop.")
        return links + 1

    def _splice(self, target: str, link: str, names: list[str], pending: list[str]) -> None:
        """Replace a link's name with its target."""
        path = self._root.display_path([*names, link])
        if os.path.isabs(target):
            root = self._door.inside(target)
            if root is None:
                raise ToolError(
                    "path_outside_workspace", f"{path} is a link that leads outside the workspace.", path=path
                )
            self.close()
            names.clear()
            self._root, parts = root
            self._handles.append(self._root.open())
        else:
            parts = target.split("/")
        if self._write:
            self._refuse_link(path)
        pending.extend(part for part in reversed(parts) if part not in ("", "."))

    def _refuse_link(self, path: str) -> None:
        """Raise, because tools do not write through links; a link to outside the workspace raises its own error."""
        advice = "Use a path without links."
        try:
            with self._door.place(self._path) as place:
                advice = f"Write to {place.path}, its target."
        except ToolError as error:
            if error.code != "file_not_found":
                raise
        message = f"{path} is a link, and tools do not write through links."
        raise ToolError("not_a_file", message, suggestion=advice, path=path)

    def _missing(self, folder: int, names: list[str], pending: list[str]) -> Place:
        if not self._write:
            raise _not_found(self._root.display_path([*names, *reversed(pending)]))
        folders: list[str] = []
        for part in reversed(pending):
            if part == "..":
                raise _not_found(self._root.display_path(names))
            folders.append(names[-1])
            names.append(part)
            self._door.check(self._root, names, write=True)
            self._door.check_rules(self._root, names, write=True)
        return Place(folder, names[-1], None, self._root, tuple(names), tuple(folders))

    def _through_file(self, names: Sequence[str]) -> ToolError:
        path = self._root.display_path(names)
        if self._write:
            return ToolError("not_a_file", f"{path} is a file, not a folder.", suggestion="Use a path under a folder.")
        return ToolError("file_not_found", f"{path} is a file, not a folder.")


def _worktree(folder: int) -> str:
    """Return what shows that worktrees use an open folder, which needs no HEAD for that; "" if nothing does."""
    with suppress(OSError), Closing(os.open("worktrees", LISTED, dir_fd=folder)) as worktrees:
        paths = (f"{name}/commondir" for name in os.listdir(worktrees))
        return next((f"worktrees/{path}" for path in paths if _exists(path, worktrees)), "")
    return ""


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _below(path: str, prefix: str) -> list[str] | None:
    """Return the parts of a path below a prefix, or None if it is elsewhere."""
    base = prefix.rstrip("/")
    if path in (prefix, base):
        return []
    if not path.startswith(base + "/"):
        return None
    parts = path[len(base) + 1 :].split("/")
    depth = 0
    for part in parts:
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return None  # leaves the prefix with ".."
    return parts


def _partial_paths(parts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the names from the root to each component of a path, without accessing the disk."""
    names: list[str] = []
    for part in parts:
        if part == "..":
            if names:
                names.pop()
        elif part not in ("", "."):
            names.append(part)
            yield names


def _part_of_hilt(path: str, root: Root, parts: Sequence[str]) -> ToolError:
    full = root.real if root.is_part else os.path.join(root.real, *parts)
    return ToolError(
        "protected_path",
        f"{path} is part of the running hilt; tools can only read it.",
        suggestion=f"To develop hilt itself, add {full} to workspace.writable in the personal settings.",
        path=path,
    )


def _read_only(path: str) -> ToolError:
    return ToolError(
        "protected_path",
        f"{path} is in a read-only folder.",
        suggestion="Use a path inside the workspace.",
        path=path,
    )


def _outside(path: str) -> ToolError:
    return ToolError("path_outside_workspace", f"{path} is outside the workspace.", path=path)


def _not_found(path: str) -> ToolError:
    return ToolError("file_not_found", f"{path} does not exist.", path=path)


def not_a_file(path: str, mode: int) -> ToolError:
    """Return the error for something that is not a regular file."""
    if stat.S_ISDIR(mode):
        return ToolError("not_a_file", f"{path} is a folder.", suggestion="Use list_dir to list it.", path=path)
    kinds = (
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    kind = next((name for test, name in kinds if test(mode)), "a link")
    return ToolError("not_a_file", f"{path} is {kind}, not a regular file.", path=path)


def plain_error(error: OSError, path: str) -> ToolError:
    """Convert an OSError to an error that a caller can act on."""
    match error.errno:
        case errno.ENOENT:
            return _not_found(path)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return ToolError("permission_denied", f"{path}: {os.strerror(error.errno)}.", path=path)
        case errno.ENOTEMPTY:
            return ToolError("already_exists", f"{path} is a folder that contains other files.", path=path)
        case errno.EISDIR:
            return ToolError("not_a_file", f"{path} is a folder.", suggestion="Use list_dir to list it.", path=path)
        case errno.ENOTDIR | errno.ELOOP | errno.ENXIO:
            return ToolError("not_a_file", f"{path} is not a regular file.", path=path)
        case errno.ENAMETOOLONG:
            return ToolError(
                "invalid_args", f"The path is too long ({len(path)} characters).", suggestion="Use a shorter path."
            )
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return ToolError(
                "resource_limit", f"{path}: {os.strerror(error.errno)}.", suggestion="Free disk space, then try again."
            )
        case errno.EMFILE | errno.ENFILE:
            return ToolError("resource_limit", "Too many files are open.", suggestion="Try again in a moment.")
        case _:
            reason = os.strerror(error.errno) if error.errno else "I/O error"
            return ToolError("permission_denied", f"{path}: {reason}.", path=path)
