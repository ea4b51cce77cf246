"""The view of the file system that a program under bubblewrap gets: a list of mounts.

Each step shows, hides or guards one path. Steps run from the outermost path to the innermost, so that a step for an
inner path overrides those for the folders around it.

    /                    as it is, read-only
    /tmp /var/tmp        private to the session         ~/.cache    private to the session
    /run                 empty: sockets of other programs are there
    workspace folders    as they are, writable under "workspace-write"
    guarded paths        as they are, read-only; in a writable folder the folders above them are fixed by
                         mounts, because a program that can rename a folder can put another in its place
    missing paths        empty folders, where something could be created; files where a folder would break git
    hidden paths         empty in the home directory (programs then find no credentials), unreadable in the workspace
                         (an empty .env would be taken for the real one)

A missing name that must stay missing needs a mount point: see mountpoints.py.

A running program may rename folders while the view of the next one is built. It cannot move what was hidden or guarded
when it started, because the folders above are fixed in its own view too. Other renames are harmless: mounting.py
performs the steps by handle, and compares each path with what was there when the plan was made. Where mounts by handle
are not supported, bubblewrap mounts by name, and no other program that could rename anything runs at the same time.

Not covered: a program can read a sensitive file that is created while it runs.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

from hilt import places
from hilt.errors import ToolError
from hilt.handles import open_folder
from hilt.places import RealPaths
from hilt.sandbox import mounting, mountpoints, repositories, sensitive
from hilt.sandbox.git_view import SHOWN
from hilt.sandbox.profile import innermost, is_below, is_plain, own_programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.git_view import GitView
    from hilt.sandbox.mounting import Mount
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sensitive import Findings, Search

Identity = tuple[int, int]  # device and inode

_NAME_BYTES = 255
# folders below /run without sockets, which programs need
_SHOWN_IN_RUN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")


class Layer(IntEnum):
    """The order of steps for the same path; the later step wins."""

    BASE = 0
    SYSTEM = 1
    OWN = 2
    SHOWN = 3
    ROOT = 4
    HELD = 5
    GUARDED = 6
    HIDDEN = 7
    CLOSING = 8


class Step(NamedTuple):
    """One step of the view: its purpose, its path, and what a program finds there.

    That is `source`, or an empty folder with this `mode`, or what bubblewrap creates with `options`; `built_in` is the
    equivalent of `options` for mounting.py. `covered` and `origin` identify the covered path and the source when the
    plan was made; None where no program can swap anything.
    """

    layer: Layer
    purpose: str
    path: str
    source: str = ""
    writable: bool = False
    mode: int = 0
    options: tuple[str, ...] = ()
    built_in: str = ""
    covered: Identity | None = None
    origin: Identity | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The step as bubblewrap arguments, which mount by name."""
        if self.options:
            return self.options
        if self.source:
            return "--bind" if self.writable else "--ro-bind", self.source, self.path
        return "--perms", f"{self.mode:04o}", "--tmpfs", self.path

    @property
    def mount(self) -> Mount:
        """The step as mounting.py performs it, by handle."""
        source = self.built_in or (os.fsencode(self.source) if self.source else self.mode)
        return os.fsencode(self.path), self.covered, source, self.origin, self.writable


class Plan(NamedTuple):
    """All steps in order, and the paths that need a mount point: missing paths, and empty folders that may be one."""

    steps: tuple[Step, ...]
    missing: tuple[str, ...]


def search_workspace(profile: Profile, search: Search) -> Findings:
    """Find the sensitive files and the repositories of all workspace folders."""
    skipped = tuple(profile.closed)
    searches = []
    for root in profile.roots:
        if not os.path.isdir(root):
            raise ToolError("file_not_found", f"The workspace folder {root} does not exist.", path=root)
        # these are covered by other mounts
        outside = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp") if root == "/" else ()  # noqa: S108
        searches.append(search.find(root, profile.judge(root), skipped + outside))
    return sensitive.join(searches)


def make_plan(profile: Profile, findings: Findings, features: tuple[str, ...], git: GitView | None = None) -> Plan:
    """Plan the view of the file system that a program gets."""
    view = _View(profile, {} if git is None else git.sealed)
    view.show_system(features)
    view.show_workspace()
    view.guard_workspace(findings)
    view.hide_home()
    view.hide_sensitive(findings)
    if git is not None:
        view.show_git(git)
    return view.finish()


class _View:
    """Collects the steps of a plan."""

    def __init__(self, profile: Profile, sealed: Mapping[str, str]) -> None:
        self._profile = profile
        self._sealed = sealed
        self._real_path = RealPaths()
        self._homes = places.homes({"HOME": profile.home})
        self._home = self._homes[0]
        self._private = self._real_path(profile.private)
        self._steps: dict[tuple[str, Layer], Step] = {}
        # paths at which private folders are mounted, and their sources
        self._private_mounts: dict[str, str] = {}
        # paths at which the real file system is visible, and the writable ones among them
        self._real: set[str] = {"/"}
        self._writable: set[str] = set()
        self._empty: set[str] = set()
        self._missing: dict[str, None] = {}
        self._can_make_in = functools.cache(_can_make_in)

    def show_system(self, features: tuple[str, ...]) -> None:
        """Show the system read-only, with its own /dev and /proc and without sockets."""
        if "handles" not in features:
            self._steps["/", Layer.BASE] = Step(Layer.BASE, "system", "/", "/")
        self._add_built_in(Layer.SYSTEM, "processes", "/proc", "--proc", "/proc")
        self._add_built_in(Layer.SYSTEM, "devices", "/dev", "--dev", "/dev", built_in=mounting.DEVICES)
        size = ("--size", str(mounting.SHARED_BYTES)) if "size" in features else ()
        shared = *size, "--tmpfs", "/dev/shm"  # noqa: S108
        self._add_built_in(Layer.OWN, "shared memory", "/dev/shm", *shared, built_in=mounting.SHARED_MEMORY)  # noqa: S108
        self._make_read_only("devices read-only", "/dev", built_in=mounting.READ_ONLY)
        if os.geteuid() == 0:
            # root owns settings there that can be changed without a capability
            self._make_read_only("processes read-only", "/proc")
        self._mount_private("private tmp", "/tmp", "tmp")  # noqa: S108
        self._mount_private("private tmp", "/var/tmp", "var-tmp")  # noqa: S108
        for folder in ("/run", "/var/run"):
            if os.path.isdir(folder) and not os.path.islink(folder):
                self._show_empty(folder, "sockets of others")
        for path in filter(os.path.lexists, _SHOWN_IN_RUN):
            self._show(path, "programs")
        if self._profile.network.internet:
            resolver = self._real_path("/etc/resolv.conf")
            if is_below(resolver, "/run") and os.path.exists(resolver):
                self._show(resolver, "name resolution")

    def show_workspace(self) -> None:
        """Show the workspace folders, the session's folder and cache, and the visible part of the home directory."""
        profile = self._profile
        if profile.read == "workspace" and self._home != "/" and os.path.isdir(self._home):
            self._show_empty(self._home, "home")
            for path in sensitive.toolchains(self._home, os.environ.get("PATH", "")):
                self._show(path, "programs in the home")
        elif not self._is_shown(self._home) and os.path.isdir(self._home):
            self._show(self._home, "home")
        for path in own_programs(profile):
            if not self._is_shown(path):
                self._show(path, "programs")
        for root in profile.roots:
            if root in profile.writable:
                self._writable.add(root)
                self._show(root, "workspace", Layer.ROOT, writable=True)
            else:
                self._show(root, "workspace", Layer.ROOT)
        for path in profile.writable if profile.write else ():
            self._writable.add(path)
            self._show(path, "workspace", Layer.ROOT, writable=True)
        cache = self._real_path(os.path.join(self._home, ".cache"))
        if os.path.isdir(cache) and profile.read == "all":
            self._keep_while_empty(cache)
            self._mount_private("private cache", cache, "cache")
        elif self._home in self._empty:
            self._mount_private("private cache", os.path.join(self._home, ".cache"), "cache")
        elif self._is_shown(cache) and not os.path.lexists(cache) and os.access(os.path.dirname(cache), os.W_OK):
            self._missing[cache] = None
            self._mount_private("private cache", cache, "cache")
        for path in profile.closed:
            self._hide_closed(self._real_path(path))
        for path in filter(os.path.exists, profile.always_readable):
            if path not in self._writable:
                self._show(path, "shown", hold=False)
        for path in profile.sockets if profile.network.unix else ():
            if _is_socket(path):
                self._show(path, "named sockets", hold=False)
        if profile.folder and os.path.isdir(profile.folder):
            folder = self._real_path(profile.folder)
            self._show(folder, "session folder", hold=False)
            alias = f"/tmp/jean2/{profile.session}"  # noqa: S108
            # not where a workspace shows the real /tmp
            if _is_name(profile.session) and self._covering_path(alias) in self._private_mounts:
                self._prepare(alias, folder, hold=False)
                self._bind(Layer.SHOWN, "session folder", alias, folder)

    def guard_workspace(self, findings: Findings) -> None:
        """Write-protect files that make the user's programs run something, or that configure hilt."""
        if not self._profile.writable:
            return
        for root in self._profile.roots:
            for name in self._profile.protected:
                path = f"{root.rstrip('/')}/{name}"
                if not is_plain(name) or os.path.lexists(path):
                    self._guard(path, "configuration")
            for name in (".git", ".git/hooks", ".git/config"):
                self._refuse_link(os.path.join(root, name))
            if not os.path.lexists(os.path.join(root, ".git")):
                self._guard(os.path.join(root, ".git"), "repository")
        denied = self._profile.denied_outside
        hidden = tuple(path for path, hides in denied if hides)
        for git in findings.repositories:
            for path in repositories.guarded(git):
                # inside, programs may have created links; their targets are guarded
                if not innermost(real := self._real_path(path), hidden):
                    self._guard(real, "repository", refuse_links=False)
        for path in findings.guarded:
            if self._profile.denies_write is not None and self._profile.denies_write(path):
                self._guard(path, "rule", refuse_links=False)
            elif self._profile.homes.protects(path):
                self._guard(path, "hidden name", refuse_links=False)
            else:
                self._guard_in_place(path)
        for path in (*self._profile.denied_missing, *(path for path, hides in denied if not hides)):
            self._guard(path, "rule", refuse_links=False)
        for path in self._profile.read_only:
            # a missing path that listings would show is watched instead
            around = innermost(path, tuple(self._writable))
            if around and (os.path.lexists(path) or not is_plain(os.path.relpath(path, around))):
                self._guard(path, "installation")

    def hide_home(self) -> None:
        """Hide credentials, browser profiles and histories."""
        for home in self._homes:
            for path in sensitive.home_secrets(home, self._profile.is_sensitive):
                self._hide(self._real_path(path), "credentials", named=path)
        if os.geteuid() == 0:
            for path in sensitive.SYSTEM:
                if os.path.lexists(path):
                    self._hide(self._real_path(path), "system credentials")

    def hide_sensitive(self, findings: Findings) -> None:
        """Make the sensitive names of the workspace unreadable."""
        for path in findings.sensitive:
            target = self._real_path(path)
            if target != path and not self._may_follow(target):
                continue
            self._hide(target, "sensitive", unreadable=True)
        for path in findings.unreadable:
            # a program of its owner could make it readable
            self._hide(path, "unreadable", unreadable=True)
        for path, is_unreadable in self._profile.denied_outside:
            if is_unreadable:
                self._hide(path, "rule", unreadable=True)

    def show_git(self, git: GitView) -> None:
        """Show what git_view.py has prepared."""
        if git.folder:
            self._bind(Layer.SHOWN, "git", SHOWN, git.folder, writable=True)
        for path, copy in git.excludes.items():
            self._bind(Layer.HIDDEN, "git", path, copy)
        for path, link in git.links.items():
            if (path, Layer.GUARDED) in self._steps:
                self._steps[path, Layer.HIDDEN] = Step(Layer.HIDDEN, "git", path, built_in=mounting.LINK + link)

    def finish(self) -> Plan:
        """Return all steps, from the outermost path to the innermost."""
        steps = []
        beneath: dict[str, Identity | None] = {}  # what the last step mounted at a path
        for step in sorted(self._steps.values(), key=_order):
            if step.path not in beneath:
                # a mount point gets its identity when it is locked
                is_known = step.path not in self._missing and step.path != "/"
                is_real = is_known and self._is_shown(step.path.rpartition("/")[0] or "/")
                beneath[step.path] = identity(step.path) if is_real else None
            covered = beneath[step.path]
            steps.append(step if covered is None else step._replace(covered=covered))
            beneath[step.path] = step.origin
        return Plan(tuple(steps), tuple(self._missing))

    # --- steps for one path

    def _show(
        self, path: str, purpose: str, layer: Layer = Layer.SHOWN, *, writable: bool = False, hold: bool = True
    ) -> None:
        path = self._real_path(path)
        self._prepare(path, path, hold=hold)
        self._bind(layer, purpose, path, path, writable=writable)
        self._real.add(path)

    def _mount_private(self, purpose: str, path: str, name: str) -> None:
        source = os.path.join(self._private, name)
        if not os.path.isdir(path) and not self._is_creatable(path) and path not in self._missing:
            return
        path = self._real_path(path)
        self._prepare(path, source)
        self._bind(Layer.OWN, purpose, path, source, writable=True)
        self._private_mounts[path] = source

    def _show_empty(self, path: str, purpose: str) -> None:
        """Mount an empty folder, in which later steps may show something."""
        self._prepare(path, "/")
        self._mount_empty(Layer.SYSTEM, purpose, path)
        self._empty.add(path)

    def _hide_closed(self, path: str) -> None:
        if os.path.lexists(path):
            if self._is_shown(path):
                self._hold_parents(path)
                self._keep_while_empty(path)
                self._mount_empty(Layer.HIDDEN, "closed", path)
                self._empty.add(path)
        else:
            self._guard(path, "closed")

    def _hide(self, path: str, purpose: str, *, unreadable: bool = False, named: str = "") -> None:
        if not self._is_shown(path) or path in self._empty or path in self._profile.always_readable:
            return
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return  # gone, or a dangling link
        if stat.S_ISLNK(mode):
            return  # a link to itself
        if purpose not in ("sockets of others", "system credentials"):
            self._hold_parents(named or path)
        if stat.S_ISDIR(mode):
            self._keep_while_empty(path)
            self._mount_empty(Layer.HIDDEN, purpose, path, 0 if unreadable else mounting.EMPTY_MODE)
        else:
            blank = os.path.join(self._private, "sealed-file" if unreadable else "blank-file")
            source = self._sealed.get(path, blank) if unreadable else blank
            self._bind(Layer.HIDDEN, purpose, path, source)

    def _guard(self, path: str, purpose: str, *, refuse_links: bool = True) -> None:
        """Keep a path unchanged, or missing; needed only in a writable folder."""
        root = innermost(path, tuple(self._writable))
        if root is None or path == root or self._covering_path(path) != root:
            return
        prefix = root.rstrip("/")
        names = path[len(prefix) + 1 :].split("/")
        for index, name in enumerate(names):
            prefix += "/" + name
            try:
                mode = os.lstat(prefix).st_mode
            except FileNotFoundError:
                if self._can_make_in(os.path.dirname(prefix)):
                    self._keep_empty(prefix, purpose)
                return
            except NotADirectoryError:
                return
            except PermissionError as error:
                self._guard_whole(os.path.dirname(prefix), purpose, error)
                return
            if stat.S_ISLNK(mode):
                if refuse_links:
                    raise _replaceable(prefix)
                return  # a link to itself
            if index < len(names) - 1:
                if self._profile.homes.protects(prefix):
                    return  # as a whole
                self._hold(prefix)
            elif (stat.S_ISDIR(mode) and _is_empty(prefix)) or (stat.S_ISREG(mode) and mountpoints.is_ours(prefix)):
                self._keep_empty(prefix, purpose)
            else:
                self._bind(Layer.GUARDED, purpose, prefix, prefix)

    def _guard_in_place(self, path: str) -> None:
        """Write-protect a path; the folders around it can be renamed, and the protection moves with them."""
        exists = os.path.lexists(path) and not os.path.islink(path)
        if exists and self._covering_path(path) in self._writable and (path, Layer.GUARDED) not in self._steps:
            self._bind(Layer.GUARDED, "configuration", path, path)

    def _guard_whole(self, folder: str, purpose: str, error: PermissionError) -> None:
        """Write-protect a folder that we cannot search, but a program of its owner could."""
        if folder in self._writable:
            raise ToolError("permission_denied", f"Cannot open {folder}: permission denied.", path=folder) from error
        self._bind(Layer.GUARDED, purpose, folder, folder)

    def _refuse_link(self, path: str) -> None:
        if os.path.islink(path) and innermost(path, tuple(self._writable)):
            raise _replaceable(path)

    def _keep_empty(self, path: str, purpose: str) -> None:
        self._missing[path] = None
        if mountpoints.is_file(path):
            self._bind(Layer.GUARDED, purpose, path, path)
        else:
            self._mount_empty(Layer.GUARDED, purpose, path)

    def _keep_while_empty(self, path: str) -> None:
        # may be the mount point of another command, which must not remove it now
        if _is_empty(path):
            self._missing[path] = None

    def _hold_parents(self, path: str) -> None:
        """Prevent the writable folders above a path from being renamed."""
        root = innermost(path, tuple(self._writable))
        if root and path != root and self._covering_path(path) == root:
            prefix = root.rstrip("/")
            for name in path[len(prefix) + 1 :].split("/")[:-1]:
                prefix += "/" + name
                self._hold(prefix)

    def _hold(self, path: str) -> None:
        if (path, Layer.GUARDED) not in self._steps:
            self._bind(Layer.HELD, "parent folder", path, path, writable=True)

    def _prepare(self, path: str, source: str, *, hold: bool = True) -> None:
        """Create the mount target of a path that is inside a private folder."""
        mount = innermost(path, tuple(self._private_mounts))
        # in an empty folder inside it, bubblewrap creates the target
        if mount is None or path == mount or innermost(path, (mount, *self._empty)) != mount:
            return
        names = path[len(mount) + 1 :].split("/")
        _make_below(self._private_mounts[mount], names, is_folder=os.path.isdir(source))
        source_path, inside = self._private_mounts[mount], mount
        for name in names[:-1]:
            source_path, inside = f"{source_path}/{name}", f"{inside}/{name}"
            if hold and not innermost(inside, tuple(self._real - {"/"})):
                # otherwise a program could replace it by a link, and the mount on the inner path would miss
                self._bind(Layer.HELD, "parent folder", inside, source_path, writable=True)

    def _is_creatable(self, path: str) -> bool:
        """Whether a missing path can be created, because it is in an empty folder that we mount."""
        return innermost(path, tuple(self._empty)) is not None

    def _is_shown(self, path: str) -> bool:
        """Whether a program sees the real file system at a path."""
        return self._covering_path(path) in self._real

    def _covering_path(self, path: str) -> str:
        """Return the innermost path, at or above this one, that a step covers."""
        while not (
            path in self._real or path in self._private_mounts or path in self._empty or path in ("/proc", "/dev")
        ):
            path = path.rpartition("/")[0] or "/"
        return path

    def _may_follow(self, target: str) -> bool:
        """Whether to hide the target of a sensitive link too: only files of the user, not large parts of the system."""
        if any(is_below(visible, target) for visible in (*self._profile.roots, self._home)):
            return False
        return innermost(target, (*self._profile.roots, self._home)) is not None

    def _bind(self, layer: Layer, purpose: str, path: str, source: str, *, writable: bool = False) -> None:
        self._steps[path, layer] = Step(layer, purpose, path, source, writable, origin=identity(source))

    def _mount_empty(self, layer: Layer, purpose: str, path: str, mode: int = mounting.EMPTY_MODE) -> None:
        """Mount an empty folder. Its mode keeps programs from writing there by accident."""
        self._steps[path, layer] = Step(layer, purpose, path, mode=mode)

    def _add_built_in(self, layer: Layer, purpose: str, path: str, *options: str, built_in: str = "") -> None:
        self._steps[path, layer] = Step(layer, purpose, path, options=options, built_in=built_in)

    def _make_read_only(self, purpose: str, path: str, *, built_in: str = "") -> None:
        self._add_built_in(Layer.CLOSING, purpose, path, "--remount-ro", path, built_in=built_in)


def denial(plan: Plan, path: str, missing: bool) -> str:
    """Return why a program could not use a path, or took it for missing, and who can allow it; else nothing."""
    real = os.path.realpath(path)
    steps = [step for step in plan.steps if is_below(real, step.path) and step.layer is not Layer.CLOSING]
    step = max(steps, key=_order, default=None)
    if missing and (step is None or step.layer is not Layer.HIDDEN or not os.path.lexists(real)):
        return ""
    if step is not None and (step.writable or step.options):
        return "is another program's socket; the user can list it in shell.sockets" if _is_socket(real) else ""
    if step is None or step.layer < Layer.HELD:
        is_ours = os.access(real if os.path.lexists(real) else os.path.dirname(real), os.W_OK)
        way = "is outside the workspace and /tmp, so commands cannot write it"
        return way if is_ours else ""
    if step.purpose == "sensitive":
        return "is hidden; the user can list it in workspace.readable"
    if step.purpose == "rule":
        return "is denied by a rule of the user"
    if step.layer is Layer.HIDDEN:
        return "is hidden, as all credentials are"
    return "is read-only; the user can list it in shell.writable"


def _order(step: Step) -> tuple[bool, int, Layer, str]:
    depth = 0 if step.path == "/" else step.path.count("/")
    return step.layer is Layer.CLOSING, depth, step.layer, step.path


def identity(path: str) -> Identity | None:
    """Return the device and inode at a path, without following a link; None when it is missing."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_socket(path: str) -> bool:
    """Whether a path leads to a Unix socket."""
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _replaceable(path: str) -> ToolError:
    return ToolError(
        "sandbox_unavailable",
        f"{path} is a symbolic link, which the sandbox cannot prevent commands from replacing.",
        suggestion="Ask the user to replace the link by the file itself, or to open another workspace.",
        path=path,
    )


def _is_name(text: str) -> bool:
    return "/" not in text and text not in ("", ".", "..") and len(os.fsencode(text)) <= _NAME_BYTES


def _can_make_in(folder: str) -> bool:
    """Whether a program of this user could create something in a folder, possibly after changing its mode."""
    try:
        is_owner = os.stat(folder).st_uid == os.geteuid()
        return os.access(folder, os.W_OK) or (is_owner and not os.statvfs(folder).f_flag & os.ST_RDONLY)
    except FileNotFoundError:
        return False


def _is_empty(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _make_below(private: str, names: list[str], *, is_folder: bool) -> None:
    """Create a folder or file below a private folder, with its parents, none of them a link.

    By handle: programs of the session may still run and rename what is in the folder.
    """
    if is_folder:
        with suppress(OSError):
            os.close(open_folder("/".join((private, *names))))
            return
    folder = open_folder(private)
    try:
        for index, name in enumerate(names):
            is_last = index == len(names) - 1
            _make_entry(folder, name, is_folder=is_folder or not is_last)
            if not is_last:
                inner = open_folder(name, folder)
                os.close(folder)
                folder = inner
    finally:
        os.close(folder)


def _make_entry(folder: int, name: str, *, is_folder: bool) -> None:
    try:
        is_wanted = stat.S_ISDIR if is_folder else stat.S_ISREG
        if is_wanted(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return
        os.rename(name, f"{name}.{os.urandom(4).hex()}", src_dir_fd=folder, dst_dir_fd=folder)
    except FileNotFoundError:
        pass
    # another command of the session may have created it
    with suppress(FileExistsError):
        if is_folder:
            os.mkdir(name, 0o755, dir_fd=folder)
        else:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder))
