"""Sandbox profiles: what a child process may do, and the `Sandbox` that confines it.

bubblewrap.py, landlock.py and seatbelt.py each enforce a profile with the mechanism of one system; availability.py
detects which of them works here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Literal, NamedTuple

from hilt import places
from hilt.errors import ToolError
from hilt.homes import Homes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.mountpoints import MountPoints
    from hilt.sandbox.network import Loopbacks
    from hilt.sandbox.overlay import UpperLayer
    from hilt.sandbox.rooms import Rooms
    from hilt.sandbox.sensitive import NameRules, Search
    from hilt.sandbox.spawning import Confined, RoomWatch
    from hilt.sandbox.watches import RunningWatch, Watches

Name = Literal["read-only", "workspace-write", "full"]
Network = Literal["none", "loopback", "full"]
Kind = Literal["bubblewrap", "landlock", "seatbelt", "none"]

_PRIVATE_FOLDERS = ("tmp", "var-tmp", "cache", "stage")
_PLACEHOLDERS = {"blank-file": 0o400, "sealed-file": 0}
_CLOSE_SECONDS = 6.0  # a terminated program has exited by then, or is stuck in the kernel


is_below = places.is_below  # for the other modules of this package


class Profile(NamedTuple):
    """What a child process may do.

    All paths are real and absolute. `is_sensitive` and `is_protected` take a path relative to a root and match its last
    name. `protected` are names in each root that can be neither changed nor created. Deeper in a root, existing paths
    that match `is_protected` cannot be changed, nor those that `homes` protects. `read_only` paths cannot be changed
    wherever they are: the running hilt, where the last name may be a link or missing. `closed` paths are not visible at
    all.

    `read` "workspace" hides everything in the home directory except programs. `write` restricts "workspace-write" to
    these paths in the roots. `always_readable` paths can be read even if they, or a folder around them, are hidden.
    `sockets` are Unix sockets of others that a program with a network may use.
    `session` selects the loopback network and the private /tmp, `private` is the folder that holds them (ours alone,
    below the state directory), and `folder` is the session's own folder, which can be read.

    `denies_read` and `denies_write` return whether a rule denies a path, or everything below a folder, existing or not.
    They stay equal between profiles until the rules change. `denied_outside` are existing paths outside the roots, or
    in their repositories, that rules deny: True if they cannot be read, False if they cannot be written.
    `denied_missing` are missing paths in the roots that must not be created. `git_paths` are what variables of the user
    name for git to read, with their roles.
    """

    name: Name
    roots: tuple[str, ...]
    is_sensitive: Callable[[str], bool]
    protected: tuple[str, ...]
    closed: tuple[str, ...]
    home: str
    read: Literal["all", "workspace"] = "all"
    network: Network = "none"
    session: str = "default"
    private: str = ""
    folder: str | None = None
    write: tuple[str, ...] = ()
    always_readable: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    denies_read: Callable[[str], bool] | None = None
    denies_write: Callable[[str], bool] | None = None
    denied_outside: tuple[tuple[str, bool], ...] = ()
    denied_missing: tuple[str, ...] = ()
    is_protected: Callable[[str], bool] = lambda path: False
    homes: Homes = Homes()
    read_only: tuple[str, ...] = ()
    git_paths: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> NameRules:
        """The names that are hidden or protected wherever they are in a root."""
        from hilt.sandbox.sensitive import NameRules

        return NameRules(self.is_sensitive, self.is_protected, self.homes)

    @property
    def writable(self) -> tuple[str, ...]:
        """The workspace folders, or paths in them, that a program can write."""
        if self.name != "workspace-write":
            return ()
        folders = self.write or self.roots
        return folders if self.denies_write is None else tuple(path for path in folders if not self.denies_write(path))


def own_programs(profile: Profile) -> list[str]:
    """Return the folders of the running hilt and its Python, which can be read wherever they are installed.

    Outermost first; not those inside the workspace, which are part of it, and none that contains the home directory.
    """
    home = os.path.realpath(profile.home)
    return [path for path in places.programs() if not innermost(path, profile.roots) and not is_below(home, path)]


class Availability(NamedTuple):
    """Which sandbox works here and why, what it does not enforce, and the command that fixes it."""

    kind: Kind
    facts: str
    missing: tuple[str, ...] = ()
    remedy: str = ""
    program: str = ""
    features: tuple[str, ...] = ()


class Sandbox:
    """Confines child processes. One per runtime; safe to use from many threads."""

    def __init__(self, state: str) -> None:
        self._state = state
        # finds programs that no command can change; assign it before the first use
        self.find_program: Callable[[str], str | None] = lambda name: None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._confined = 0  # confined programs that are running
        self._available: Availability | None = None
        self._resources: tuple[Search, MountPoints, Loopbacks, Watches] | None = None
        self._rooms: Rooms | None = None

    def availability(self) -> Availability:
        """Return which sandbox works here; probed once, and cached in the state directory until the system changes."""
        with self._lock:
            if self._available is None:
                from hilt.sandbox.availability import find

                self._available = find(self._state, self.find_program)
            return self._available

    @contextmanager
    def confine(
        self, profile: Profile, cwd: str, *, tty: bool = False, layer: UpperLayer | None = None
    ) -> Iterator[Confined]:
        """Set up the sandbox of a program; the block lasts from before its start until after its end.

        A program with its own terminal (`tty`) keeps it; all others are detached from any terminal. With a `layer`, it
        runs on an overlay of the workspace; the caller first checks that an overlay is possible.
        """
        from hilt.sandbox.spawning import Confined

        if profile.name == "full":
            yield Confined()
            return
        available = self.availability()
        if available.kind == "none":
            raise ToolError(
                "sandbox_unavailable",
                f"Commands cannot be confined here: {available.facts}",
                suggestion=available.remedy or None,
                missing=list(available.missing),
            )
        if any(is_below(available.program, root) for root in profile.writable if root != "/"):
            raise ToolError(
                "sandbox_unavailable",
                f"{available.program} is in the workspace, where a command could change it.",
                suggestion="Install bubblewrap with the system's package manager.",
            )
        for root in profile.writable:
            if innermost(root, profile.read_only):
                raise ToolError(
                    "sandbox_unavailable",
                    f"{root} is part of the running hilt, which commands must not change.",
                    suggestion=developer_hint(root),
                    path=root,
                )
        from hilt.sandbox import rooms

        if layer is not None and innermost(layer.folder, profile.closed) is None:
            profile = profile._replace(closed=(*profile.closed, os.path.dirname(layer.folder)))
        with self._counted(), ExitStack() as stack:
            with _creating_in(profile.private):
                stack.enter_context(rooms.hold(profile.private))
                make_private(profile)
            self._get_resources()[3].catch_up(profile.names)
            stack.enter_context(self._alone(available, profile))
            yield stack.enter_context(self._confine(available, profile, cwd, tty=tty, layer=layer))

    def watch(self, private: str, limit: int) -> AbstractContextManager[RoomWatch]:
        """Watch how much programs write to the private folder of their session; begins before one starts."""
        from hilt.sandbox.rooms import Rooms

        with self._lock:
            self._rooms = self._rooms or Rooms()
        return self._rooms.stay(private, limit)

    @contextmanager
    def disarming(self, profile: Profile) -> Iterator[RunningWatch]:
        """Disarm what the block, instead of a program, puts into the workspace for git, agents and editors."""
        from hilt.sandbox.disarming import Guard

        watches = self._get_resources()[3]
        watches.catch_up(profile.names)
        with watches.hold(profile, Guard()) as watch:
            yield watch

    def recover(self, names: NameRules) -> None:
        """Disarm what programs left when hilt was killed, and remove their mount points."""
        _, points, _, watches = self._get_resources()
        points.recover()
        watches.recover(names)

    def take_notes(self) -> tuple[str, ...]:
        """Return the pending notes on what was disarmed, and clear them."""
        with self._lock:
            resources = self._resources
        return resources[3].take_notes() if resources else ()

    def close(self) -> None:
        """Wait for programs that are ending, and close the sessions' networks.

        The mount points of a program stay in the workspace until it has ended, and the caller is often about to exit. A
        program that does not end keeps its mount points.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._confined, _CLOSE_SECONDS)
            resources, self._resources = self._resources, None
        if resources:
            resources[1].close()
            resources[2].close()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self._confined += 1
        try:
            yield
        finally:
            with self._changed:
                self._confined -= 1
                self._changed.notify_all()

    def _alone(self, available: Availability, profile: Profile) -> AbstractContextManager[None]:
        """Run one program at a time where others could redirect its mounts by renaming folders."""
        if available.kind != "bubblewrap" or "handles" in available.features or not profile.writable:
            return nullcontext()
        from hilt.sandbox.alone import alone

        return alone(os.path.join(self._state, "alone"), profile.writable)

    def _confine(
        self, available: Availability, profile: Profile, cwd: str, *, tty: bool, layer: UpperLayer | None
    ) -> AbstractContextManager[Confined]:
        search, points, loopbacks, watches = self._get_resources()
        if available.kind == "bubblewrap":
            from hilt.sandbox import bubblewrap

            resources = search, points, loopbacks, watches
            return bubblewrap.confine(profile, cwd, available, *resources, tty=tty, layer=layer)
        if available.kind == "landlock":
            from hilt.sandbox import landlock

            return landlock.confine(profile, available, search, loopbacks, watches)
        from hilt.sandbox import seatbelt

        return seatbelt.confine(profile, available, search, watches)

    def _get_resources(self) -> tuple[Search, MountPoints, Loopbacks, Watches]:
        with self._lock:
            if self._resources is None:
                from hilt.places import running_dir
                from hilt.sandbox.mountpoints import MountPoints
                from hilt.sandbox.network import Loopbacks
                from hilt.sandbox.sensitive import Search
                from hilt.sandbox.watches import Watches

                search = Search()
                points = MountPoints(os.path.join(self._state, "mountpoints"))
                self._resources = search, points, Loopbacks(), Watches(running_dir(self._state), search)
            return self._resources


def make_private(profile: Profile) -> None:
    """Create the folders mounted as /tmp, /var/tmp and the cache, the stage, and the files mounted over hidden ones."""
    if not profile.private:
        raise ToolError("internal", "A sandbox profile needs a private folder for its session.")
    os.makedirs(profile.private, 0o700, exist_ok=True)
    for name in _PRIVATE_FOLDERS:
        with suppress(FileExistsError):
            os.mkdir(os.path.join(profile.private, name), 0o700)
    for name, mode in _PLACEHOLDERS.items():
        with suppress(FileExistsError):
            path = os.path.join(profile.private, name)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))


@contextmanager
def _creating_in(private: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(
            "resource_limit",
            f"Cannot create the private /tmp of commands in {private}: {os.strerror(error.errno or 0)}.",
            suggestion="Ask the user to free disk space, or to make that folder writable.",
        ) from error


def own_variables(profile: Profile) -> tuple[str, ...]:
    """Return variables that redirect temporary files and caches to the private folder, where there are no mounts."""
    return f"TMPDIR={profile.private}/tmp", f"XDG_CACHE_HOME={profile.private}/cache"  # noqa: S108


class PathJudge:
    """Classifies the names below a workspace folder; equal for equal rules, so that walks can be reused."""

    def __init__(self, profile: Profile, root: str) -> None:
        self._root = root
        self._is_sensitive, self._is_protected = profile.is_sensitive, profile.is_protected
        self._denies_read, self._denies_write = profile.denies_read, profile.denies_write
        self._homes = profile.homes if profile.homes.folders else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PathJudge) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self._root)

    def __call__(self, path: str) -> int:
        """Return the Kind (sensitive.py) of a path from the root."""
        full = os.path.join(self._root, path)
        if self._is_sensitive(path) or (self._denies_read is not None and self._denies_read(full)):
            return 1
        if self._is_protected(path) or (self._denies_write is not None and self._denies_write(full)):
            return 2
        if self._homes is not None and self._homes.protects(full):
            return 2
        return 0


def developer_hint(path: str) -> str:
    """Return how to let commands change hilt itself, for its developers."""
    return f"To develop hilt itself, add {path} to shell.writable in the personal settings."


def innermost(path: str, folders: tuple[str, ...]) -> str | None:
    """Return the deepest of the folders that contain a path; None when none does."""
    return max((folder for folder in folders if is_below(path, folder)), key=len, default=None)
