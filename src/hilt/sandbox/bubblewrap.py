"""A profile as arguments of bubblewrap: a view of the file system made of mounts, and namespaces of its own.

The view is a list of steps. Each shows, hides or guards one path; they are done from the outermost to the innermost
path, so that what is said of an inner path holds whatever was said of the folders around it.

    /                    as it is, read-only
    /tmp /var/tmp        the session's own              ~/.cache    the session's own
    /run                 empty: the sockets of others live there
    workspace folders    as they are, writable under "workspace-write"
    guarded paths        as they are, read-only; in a writable folder the way to them is held fast, for whoever can
                         rename a folder can put another in its place
    missing paths        empty folders, where something could be made; files where git would stumble over a folder
    hidden paths         empty in the home directory (programs then find no credentials), unreadable in the workspace
                         (an empty .env would be taken for the real one)

A name that is missing and must stay missing needs a mount point: mountpoints.py.

A program that still runs may rename folders while the view of the next one is made. It cannot move what was hidden or
guarded when it started, because the way there is held fast in its own view too. What else it swaps does not matter:
mounting.py carries out the steps by handle, and compares each with what was there when the plan was made. Where the
system has no mounts by handle, bubblewrap goes by name, and no other program that could rename anything runs meanwhile.

Not covered: a sensitive file that is made while a program runs is seen by that program.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import IntEnum
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.sandbox import mountpoints, repositories, seccomp, sensitive
from hilt.sandbox.disarming import Guard
from hilt.sandbox.handles import SWAPPED, open_folder, renamed
from hilt.sandbox.network import Loopbacks, host_sockets
from hilt.sandbox.process import Confined
from hilt.sandbox.profile import Availability, Judged, Profile, innermost, is_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.mounting import Mount
    from hilt.sandbox.mountpoints import MountPoints
    from hilt.sandbox.running import Watches
    from hilt.sandbox.sensitive import Found, Search

Identity = tuple[int, int]  # device and inode

# the numbers under which the program that starts finds Confined.fds
_ARGUMENTS_FD, _STATUS_FD, _FILTER_FD = 3, 4, 5
_STATUS_BYTES = 4096
_SHM_BYTES = 1 << 30
_SEARCHABLE = 0o500  # the mode of a folder that shows that it is empty
# below /run: not sockets, but what systems keep there that programs need
_SHOWN_IN_RUN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")


class Layer(IntEnum):
    """Which step comes later, and so wins, when two are about the same path."""

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
    """One line of the view: what it is for, the path it is about, and what a program finds there.

    That is `source`, or an empty folder of this `mode`, or what bubblewrap makes by `options`. The identities are those
    of what is covered and of the source when the plan was made; None where no program can swap anything.
    """

    layer: Layer
    purpose: str
    path: str
    source: str = ""
    writable: bool = False
    mode: int = 0
    options: tuple[str, ...] = ()
    covered: Identity | None = None
    origin: Identity | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The step as bubblewrap would carry it out by name."""
        if self.options:
            return self.options
        if self.source:
            return "--bind" if self.writable else "--ro-bind", self.source, self.path
        return "--perms", f"{self.mode:04o}", "--tmpfs", self.path

    @property
    def mount(self) -> Mount:
        """The step as mounting.py carries it out by handle."""
        source = os.fsencode(self.source) if self.source else self.mode
        return os.fsencode(self.path), self.covered, source, self.origin, self.writable


class Plan(NamedTuple):
    """All steps in order, and the paths that need a mount point: missing ones, and empty folders that may be one."""

    steps: tuple[Step, ...]
    missing: tuple[str, ...]


@contextmanager
def confine(
    profile: Profile,
    cwd: str,
    available: Availability,
    search: Search,
    points: MountPoints,
    loopbacks: Loopbacks,
    watches: Watches,
    *,
    tty: bool = False,
) -> Iterator[Confined]:
    """Yield how to start a program under bubblewrap; what it needs is held until the end of the block."""
    # before anything looks at the workspace: what a crash has left there is not the user's
    points.recover()
    try:
        found = look(profile, search)
        plan = make_plan(profile, found, available.features)
    except OSError as error:
        if error.errno not in SWAPPED:
            raise
        raise renamed() from error
    program_filter = seccomp.assemble(
        os.uname().machine,
        unix=profile.network != "none",
        user_namespaces="disable-userns" in available.features,
    )
    home = os.path.realpath(profile.home)
    with ExitStack() as stack:
        held = stack.enter_context(points.hold(plan.missing))
        if "handles" in available.features:
            stage = os.path.join(os.path.realpath(profile.private), "stage")
            mounts = os.fsencode(stage), [_as_held(step, held).mount for step in plan.steps if not step.options]
            words = ["--bind", stage, "/", *_made_by_bubblewrap(plan, profile, stage)]
        else:
            mounts = None
            words = [word for step in plan.steps for word in step.words]
        words += namespaces(profile, available, tty=tty)
        if program_filter is not None:
            words += ["--seccomp", str(_FILTER_FD)]
        # told of only when the program itself has exited, and not when the sandbox could not be set up
        words += ["--json-status-fd", str(_STATUS_FD)]
        words += ["--chdir", os.path.realpath(cwd)]
        if os.path.join(home, ".gitconfig") in plan.missing:
            # git would stumble over the folder that stands for it, and this is the other file that it reads
            words += ["--setenv", "GIT_CONFIG_GLOBAL", os.path.join(home, ".config/git/config")]
        kept = {step.path for step in plan.steps if step.purpose == "repository"}
        watch = stack.enter_context(watches.hold(profile, found, Guard(kept, hides=True, absent=_plain_names(profile))))
        status = _memory("status", b"")
        fds = [_memory("arguments", b"".join(os.fsencode(word) + b"\0" for word in words)), status]
        if program_filter is not None:
            fds.append(_memory("filter", program_filter))
        for fd in fds:
            stack.callback(os.close, fd)
        entered: tuple[int, ...] = ()
        if profile.network == "loopback":
            entered = loopbacks.enter(profile.session, available)
            for fd in entered:
                stack.callback(os.close, fd)
        yield Confined(
            prefix=(available.program, "--args", str(_ARGUMENTS_FD), "--"),
            fds=tuple(fds),
            namespaces=entered,
            mounts=mounts,
            has_run=lambda: b"exit-code" in os.pread(status, _STATUS_BYTES, 0),
            notes=watch.notes,
            look=watch.look,
            repeated=watch.repeated,
        )


def _as_held(step: Step, held: Mapping[str, Identity]) -> Step:
    """A step over a mount point that was made after the plan; a file is covered by itself."""
    if step.path not in held:
        return step
    at = held[step.path]
    return step._replace(covered=at, origin=at if step.source == step.path else step.origin)


def _made_by_bubblewrap(plan: Plan, profile: Profile, stage: str) -> Iterator[str]:
    """The words for what bubblewrap mounts over the stage, and for workspace folders that this would cover."""
    inner = [word for root in profile.roots if is_below(root, "/dev") for word in ("--bind", stage + root, root)]
    for step in plan.steps:
        if step.layer is Layer.CLOSING:
            yield from inner
            inner = []
        yield from step.options


def look(profile: Profile, search: Search) -> Found:
    """Find the sensitive files and the repositories of all workspace folders."""
    skipped = tuple(profile.closed)
    finds = []
    for root in profile.roots:
        if not os.path.isdir(root):
            raise ToolError("file_not_found", f"The workspace folder {root} is gone.", path=root)
        # other file systems than those of the workspace are mounted over these
        outside = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp") if root == "/" else ()  # noqa: S108
        finds.append(search.find(root, Judged(profile, root), skipped + outside))
    return sensitive.join(finds)


def namespaces(profile: Profile, available: Availability, *, tty: bool) -> list[str]:
    """The words that are about processes and not about files."""
    words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if "disable-userns" in available.features:
        words.append("--disable-userns")
    if profile.network == "none":
        words.append("--unshare-net")
    if not tty:
        words.append("--new-session")
    return [*words, "--die-with-parent", "--cap-drop", "ALL", "--setenv", "TMPDIR", "/tmp"]  # noqa: S108


def make_plan(profile: Profile, found: Found, features: tuple[str, ...]) -> Plan:
    """Decide what a program sees of the file system."""
    view = _View(profile)
    view.show_system(features)
    view.show_workspace()
    view.guard_workspace(found)
    view.hide_home()
    view.hide_sensitive(found)
    view.hide_sockets()
    return view.finish()


class _View:
    """The steps as they are collected."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._homes = sensitive.homes(profile.home)
        self._home = self._homes[0]
        self._private = os.path.realpath(profile.private)
        self._steps: dict[tuple[str, Layer], Step] = {}
        # folders of our own that stand at a path, and their source
        self._own: dict[str, str] = {}
        # paths at which the real file system is shown, and those of them that can be written
        self._real: set[str] = {"/"}
        self._writable: set[str] = set()
        self._empty: set[str] = set()
        self._missing: dict[str, None] = {}

    def show_system(self, features: tuple[str, ...]) -> None:
        """The system read-only, devices and processes of its own, nobody's sockets."""
        if "handles" not in features:
            self._steps["/", Layer.BASE] = Step(Layer.BASE, "system", "/", "/")
        self._order_made(Layer.SYSTEM, "processes", "/proc", "--proc", "/proc")
        self._order_made(Layer.SYSTEM, "devices", "/dev", "--dev", "/dev")
        size = ("--size", str(_SHM_BYTES)) if "size" in features else ()
        self._order_made(Layer.OWN, "shared memory", "/dev/shm", *size, "--tmpfs", "/dev/shm")  # noqa: S108
        self._close("devices read-only", "/dev")
        if os.geteuid() == 0:
            # root is the owner of switches in there that need no capability
            self._close("processes read-only", "/proc")
        self._own_folder("private tmp", "/tmp", "tmp")  # noqa: S108
        self._own_folder("private tmp", "/var/tmp", "var-tmp")  # noqa: S108
        for folder in ("/run", "/var/run"):
            if os.path.isdir(folder) and not os.path.islink(folder):
                self._blank(folder, "sockets of others")
        for path in filter(os.path.lexists, _SHOWN_IN_RUN):
            self._show(path, "programs")
        if self._profile.network == "full":
            resolver = os.path.realpath("/etc/resolv.conf")
            if is_below(resolver, "/run") and os.path.exists(resolver):
                self._show(resolver, "name resolution")

    def show_workspace(self) -> None:
        """The workspace folders, the session's own folder and cache, and as much of the home as may be seen."""
        profile = self._profile
        if profile.read == "workspace" and self._home != "/" and os.path.isdir(self._home):
            self._blank(self._home, "home")
            for path in sensitive.toolchains(self._home, os.environ.get("PATH", "")):
                self._show(path, "programs in the home")
        elif not self._is_shown(self._home) and os.path.isdir(self._home):
            self._show(self._home, "home")
        # the Python that runs hilt, and runs tools too, wherever it lies
        for prefix in map(os.path.realpath, dict.fromkeys((sys.base_prefix, sys.prefix))):
            if not self._is_shown(prefix):
                self._show(prefix, "programs")
        for root in profile.roots:
            if root in profile.writable:
                self._writable.add(root)
                self._show(root, "workspace", Layer.ROOT, writable=True)
            else:
                self._show(root, "workspace", Layer.ROOT)
        for path in profile.writable if profile.write else ():
            self._writable.add(path)
            self._show(path, "workspace", Layer.ROOT, writable=True)
        cache = os.path.realpath(os.path.join(self._home, ".cache"))
        if os.path.isdir(cache) and profile.read == "all":
            self._keep_while_empty(cache)
            self._own_folder("private cache", cache, "cache")
        elif self._home in self._empty:
            self._own_folder("private cache", os.path.join(self._home, ".cache"), "cache")
        elif self._is_shown(cache) and not os.path.lexists(cache) and os.access(os.path.dirname(cache), os.W_OK):
            self._missing[cache] = None
            self._own_folder("private cache", cache, "cache")
        for path in profile.closed:
            self._hide_closed(os.path.realpath(path))
        for path in filter(os.path.exists, profile.shown):
            if path not in self._writable:
                self._show(path, "shown", hold=False)
        if profile.folder and os.path.isdir(profile.folder):
            folder = os.path.realpath(profile.folder)
            self._show(folder, "session folder", hold=False)
            alias = f"/tmp/jean2/{profile.session}"  # noqa: S108
            # not where a workspace shows the real /tmp
            if _is_name(profile.session) and self._cover(alias) in self._own:
                self._prepare(alias, folder, hold=False)
                self._bind(Layer.SHOWN, "session folder", alias, folder)

    def guard_workspace(self, found: Found) -> None:
        """Keep what makes the user's programs run something, or hilt behave otherwise, from being written."""
        if not self._profile.writable:
            return
        for root in self._profile.roots:
            for name in self._profile.protected:
                path = os.path.join(root, name)
                if os.path.lexists(path) or not _is_plain(name):
                    self._guard(path, "configuration")
            for name in (".git", ".git/hooks", ".git/config"):
                self._refuse_link(os.path.join(root, name))
            if not os.path.lexists(os.path.join(root, ".git")):
                self._guard(os.path.join(root, ".git"), "repository")
        for git in found.repositories:
            for path in repositories.guarded(git):
                # further in, programs may have made links themselves; what these lead to is guarded
                self._guard(os.path.realpath(path), "repository", refuse_links=False)
        for path in found.guarded:
            if self._profile.denies_write is not None and self._profile.denies_write(path):
                self._guard(path, "rule", refuse_links=False)
            else:
                self._guard_in_place(path)
        for path in self._profile.denied_missing:
            self._guard(path, "rule", refuse_links=False)
        kept = dict.fromkeys(self._profile.kept, "installation") | dict.fromkeys(self._start_files(), "start files")
        for path, purpose in kept.items():
            # one that is missing and everyone would see is watched instead
            around = innermost(path, tuple(self._writable))
            if around and (os.path.lexists(path) or not _is_plain(os.path.relpath(path, around))):
                self._guard(path, purpose)

    def _start_files(self) -> Iterator[str]:
        for home in self._homes:
            for name in self._profile.start_files:
                # a folder of macOS, which every listing would show
                if not name.startswith("Library/"):
                    yield os.path.join(home, name)

    def hide_home(self) -> None:
        """Show no credentials, browser profiles and histories."""
        for home in self._homes:
            for path in sensitive.home_secrets(home, self._profile.is_sensitive):
                self._hide(os.path.realpath(path), "credentials", way=path)
        if os.geteuid() == 0:
            for path in sensitive.SYSTEM:
                if os.path.lexists(path):
                    self._hide(os.path.realpath(path), "system credentials")

    def hide_sensitive(self, found: Found) -> None:
        """Make the sensitive names of the workspace unreadable."""
        for path in found.sensitive:
            target = os.path.realpath(path)
            if target != path and not self._may_follow(target):
                continue
            self._hide(target, "sensitive", unreadable=True)
        for path in found.unreadable:
            # its owner could make it readable
            self._hide(path, "unreadable", unreadable=True)
        for path, is_unreadable in self._profile.denied_outside:
            # nothing outside the workspace can be written anyway
            if is_unreadable:
                self._hide(path, "rule", unreadable=True)

    def hide_sockets(self) -> None:
        """Show no socket at which a program outside listens; without Unix sockets nothing could reach it anyway."""
        if self._profile.network == "none":
            return
        for path in host_sockets():
            # a program of this session may listen in the workspace, and others may want to speak to it
            if self._is_shown(path) and not innermost(path, self._profile.roots) and os.path.exists(path):
                self._hide(os.path.realpath(path), "sockets of others")

    def finish(self) -> Plan:
        """All steps, from the outermost path to the innermost."""
        steps = []
        beneath: dict[str, Identity | None] = {}  # what the last step has put at a path
        for step in sorted(self._steps.values(), key=_order):
            if step.path not in beneath:
                is_real = step.path != "/" and self._is_shown(os.path.dirname(step.path))
                beneath[step.path] = identity(step.path) if is_real else None
            steps.append(step._replace(covered=beneath[step.path]))
            beneath[step.path] = step.origin
        return Plan(tuple(steps), tuple(self._missing))

    # --- what is said of one path

    def _show(
        self, path: str, purpose: str, layer: Layer = Layer.SHOWN, *, writable: bool = False, hold: bool = True
    ) -> None:
        path = os.path.realpath(path)
        self._prepare(path, path, hold=hold)
        self._bind(layer, purpose, path, path, writable=writable)
        self._real.add(path)

    def _own_folder(self, purpose: str, path: str, name: str) -> None:
        source = os.path.join(self._private, name)
        if not os.path.isdir(path) and not self._is_made(path) and path not in self._missing:
            return
        path = os.path.realpath(path)
        self._prepare(path, source)
        self._bind(Layer.OWN, purpose, path, source, writable=True)
        self._own[path] = source

    def _blank(self, path: str, purpose: str) -> None:
        """An empty folder, in which other steps may show something."""
        self._prepare(path, "/")
        self._hollow(Layer.SYSTEM, purpose, path)
        self._empty.add(path)

    def _hide_closed(self, path: str) -> None:
        if os.path.lexists(path):
            if self._is_shown(path):
                self._hold_way(path)
                self._keep_while_empty(path)
                self._hollow(Layer.HIDDEN, "closed", path)
                self._empty.add(path)
        else:
            self._guard(path, "closed")

    def _hide(self, path: str, purpose: str, *, unreadable: bool = False, way: str = "") -> None:
        if not self._is_shown(path) or path in self._empty or path in self._profile.shown:
            return
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return  # gone, or a link to nowhere
        if stat.S_ISLNK(mode):
            return  # to itself
        if purpose not in ("sockets of others", "system credentials"):
            self._hold_way(way or path)
        if stat.S_ISDIR(mode):
            self._keep_while_empty(path)
            self._hollow(Layer.HIDDEN, purpose, path, 0 if unreadable else _SEARCHABLE)
        else:
            source = os.path.join(self._private, "sealed-file" if unreadable else "blank-file")
            self._bind(Layer.HIDDEN, purpose, path, source)

    def _guard(self, path: str, purpose: str, *, refuse_links: bool = True) -> None:
        """Keep a path as it is, or missing; only in a writable folder is there something to do."""
        root = innermost(path, tuple(self._writable))
        if root is None or path == root or self._cover(path) != root:
            return
        at = root.rstrip("/")
        names = path[len(at) + 1 :].split("/")
        for index, name in enumerate(names):
            at += "/" + name
            try:
                mode = os.lstat(at).st_mode
            except FileNotFoundError:
                if _can_make_in(os.path.dirname(at)):
                    self._keep_empty(at, purpose)
                return
            except NotADirectoryError:
                return
            except PermissionError as error:
                self._guard_whole(os.path.dirname(at), purpose, error)
                return
            if stat.S_ISLNK(mode):
                if refuse_links:
                    raise _replaceable(at)
                return  # to itself
            if index < len(names) - 1:
                self._hold(at)
            elif (stat.S_ISDIR(mode) and _is_empty(at)) or (stat.S_ISREG(mode) and mountpoints.is_ours(at)):
                self._keep_empty(at, purpose)
            else:
                self._bind(Layer.GUARDED, purpose, at, at)

    def _guard_in_place(self, path: str) -> None:
        """Keep what is at a path from being written; the folders around it can be renamed, and take it along."""
        is_there = os.path.lexists(path) and not os.path.islink(path)
        if is_there and self._cover(path) in self._writable and (path, Layer.GUARDED) not in self._steps:
            self._bind(Layer.GUARDED, "configuration", path, path)

    def _guard_whole(self, folder: str, purpose: str, error: PermissionError) -> None:
        """Keep a folder as it is that cannot be looked into; its owner could."""
        if folder in self._writable:
            raise ToolError("permission_denied", f"{folder} cannot be entered.", path=folder) from error
        self._bind(Layer.GUARDED, purpose, folder, folder)

    def _refuse_link(self, path: str) -> None:
        if os.path.islink(path) and innermost(path, tuple(self._writable)):
            raise _replaceable(path)

    def _keep_empty(self, path: str, purpose: str) -> None:
        self._missing[path] = None
        if mountpoints.is_file(path):
            self._bind(Layer.GUARDED, purpose, path, path)
        else:
            self._hollow(Layer.GUARDED, purpose, path)

    def _keep_while_empty(self, path: str) -> None:
        # perhaps the mount point of another command, which must not take it away now
        if _is_empty(path):
            self._missing[path] = None

    def _hold_way(self, path: str) -> None:
        """Keep the folders around a path from being renamed, where they are writable."""
        root = innermost(path, tuple(self._writable))
        if root and path != root and self._cover(path) == root:
            at = root.rstrip("/")
            for name in path[len(at) + 1 :].split("/")[:-1]:
                at += "/" + name
                self._hold(at)

    def _hold(self, path: str) -> None:
        if (path, Layer.GUARDED) not in self._steps:
            self._bind(Layer.HELD, "way", path, path, writable=True)

    def _prepare(self, path: str, source: str, *, hold: bool = True) -> None:
        """Have something to mount over, where a folder of our own stands around a path."""
        own = innermost(path, tuple(self._own))
        # in an empty folder further in, bubblewrap makes what it needs
        if own is None or path == own or innermost(path, (own, *self._empty)) != own:
            return
        names = path[len(own) + 1 :].split("/")
        _make_below(self._own[own], names, is_folder=os.path.isdir(source))
        at, inside = self._own[own], own
        for name in names[:-1]:
            at, inside = f"{at}/{name}", f"{inside}/{name}"
            if hold and not innermost(inside, tuple(self._real - {"/"})):
                # else a program could put a link in its place, and what guards the inner path would go astray
                self._bind(Layer.HELD, "way", inside, at, writable=True)

    def _is_made(self, path: str) -> bool:
        """Whether a missing path can be made, because an empty folder of ours is around it."""
        return innermost(path, tuple(self._empty)) is not None

    def _is_shown(self, path: str) -> bool:
        """Whether the real file system is what a program finds at a path."""
        return self._cover(path) in self._real

    def _cover(self, path: str) -> str | None:
        """The innermost place around a path of which something is said."""
        return innermost(path, (*self._real, *self._own, *self._empty, "/proc", "/dev"))

    def _may_follow(self, target: str) -> bool:
        """Whether what a sensitive link leads to is to be hidden too: the user's files, not half of the system."""
        if any(is_below(kept, target) for kept in (*self._profile.roots, self._home)):
            return False
        return innermost(target, (*self._profile.roots, self._home)) is not None

    def _bind(self, layer: Layer, purpose: str, path: str, source: str, *, writable: bool = False) -> None:
        self._steps[path, layer] = Step(layer, purpose, path, source, writable, origin=identity(source))

    def _hollow(self, layer: Layer, purpose: str, path: str, mode: int = _SEARCHABLE) -> None:
        """Put an empty folder at a path. Its mode keeps programs from writing there unknowingly."""
        self._steps[path, layer] = Step(layer, purpose, path, mode=mode)

    def _order_made(self, layer: Layer, purpose: str, path: str, *options: str) -> None:
        self._steps[path, layer] = Step(layer, purpose, path, options=options)

    def _close(self, purpose: str, path: str) -> None:
        self._order_made(Layer.CLOSING, purpose, path, "--remount-ro", path)


def _order(step: Step) -> tuple[bool, int, Layer, str]:
    depth = 0 if step.path == "/" else step.path.count("/")
    return step.layer is Layer.CLOSING, depth, step.layer, step.path


def identity(path: str) -> Identity | None:
    """Return the device and the inode of what is at a path, a link itself included; None when nothing is."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _replaceable(path: str) -> ToolError:
    return ToolError(
        "sandbox_unavailable",
        f"{path} is a symbolic link, and nothing can keep a command from replacing a link.",
        suggestion="Ask the user to put the file itself in the place of the link, or to open another workspace.",
        path=path,
    )


def _is_name(text: str) -> bool:
    return "/" not in text and text not in ("", ".", "..")


def _is_plain(path: str) -> bool:
    """Whether listings show a relative path: what would stand for it when it is missing would be in everyone's way."""
    return not any(name.startswith(".") for name in path.split("/"))


def _plain_names(profile: Profile) -> list[str]:
    """The protected paths that listings would show, which are watched when they are missing."""
    names = [os.path.join(root, name) for root in profile.writable for name in profile.protected if _is_plain(name)]
    roots = ((path, innermost(path, profile.writable)) for path in profile.kept)
    return names + [path for path, root in roots if root and _is_plain(os.path.relpath(path, root))]


def _can_make_in(folder: str) -> bool:
    """Whether a program of this user could make something in a folder, perhaps after changing its mode."""
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


def _make_below(own: str, names: list[str], *, is_folder: bool) -> None:
    """Have a folder or a file below a folder of ours, and folders on the way to it, none of them a link.

    By handle: the folder belongs to a session, whose programs may still run and rename what is in it.
    """
    folder = open_folder(own)
    try:
        for index, name in enumerate(names):
            is_last = index == len(names) - 1
            _make_plain(folder, name, is_folder=is_folder or not is_last)
            if not is_last:
                inner = open_folder(name, folder)
                os.close(folder)
                folder = inner
    finally:
        os.close(folder)


def _make_plain(folder: int, name: str, *, is_folder: bool) -> None:
    try:
        is_wanted = stat.S_ISDIR if is_folder else stat.S_ISREG
        if is_wanted(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return
        os.rename(name, f"{name}.{os.urandom(4).hex()}", src_dir_fd=folder, dst_dir_fd=folder)
    except FileNotFoundError:
        pass
    # another command of the session may have made it meanwhile
    with suppress(FileExistsError):
        if is_folder:
            os.mkdir(name, 0o755, dir_fd=folder)
        else:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder))


def _memory(name: str, content: bytes) -> int:
    """A descriptor from which the content can be read once."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
