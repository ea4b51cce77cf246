"""Sandbox profiles: what a child process may do, and the one door through which it is confined.

bubblewrap.py, landlock.py and seatbelt.py each turn a profile into the means of one system; availability.py finds out
which of them works here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Literal, NamedTuple

from hilt import places
from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.mountpoints import MountPoints
    from hilt.sandbox.network import Loopbacks
    from hilt.sandbox.process import Confined, RoomWatch
    from hilt.sandbox.rooms import Rooms
    from hilt.sandbox.running import Watches
    from hilt.sandbox.sensitive import Search

Name = Literal["read-only", "workspace-write", "full"]
Network = Literal["none", "loopback", "full"]
Kind = Literal["bubblewrap", "landlock", "seatbelt", "none"]

_OWN_FOLDERS = ("tmp", "var-tmp", "cache", "stage")
_STAND_INS = {"blank-file": 0o400, "sealed-file": 0}
_CLOSE_SECONDS = 6.0  # a program that was told to end is gone by then, or stuck in the kernel


is_below = places.is_below  # for the modules beside this one


class Profile(NamedTuple):
    """What a child process may do.

    All paths are real and absolute. `is_sensitive` and `is_protected` judge a path from a root by its last name.
    `protected` are names in each root that stay as they are and cannot be made, `start_files` the same below a home
    directory; deeper in a root, what `is_protected` names stays as it is where it exists. `kept` are paths that stay as
    they are wherever they lie: the running hilt, of which the last name may be a link or missing. `closed` are paths
    that are not visible at all. `read` "workspace" hides what the
    home directory holds besides programs. `write` narrows what "workspace-write" lets a program write to these paths in
    the roots, and `shown` can be read although something around them is hidden, or they themselves. `session` says
    whose loopback network and private /tmp it is, `private` is the folder that keeps them (ours alone, below the state
    directory), and `folder` the session's own folder, which can be read.

    `denies_read` and `denies_write` say whether a rule denies a path, or everything below a folder, existing or not.
    Both are the same from one profile to the next while the rules are. `denied_outside` are existing paths outside the
    roots that rules deny: True when they cannot be read, False when they cannot be written. `denied_missing` are paths
    in the roots that do not exist and must not be made.
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
    shown: tuple[str, ...] = ()
    denies_read: Callable[[str], bool] | None = None
    denies_write: Callable[[str], bool] | None = None
    denied_outside: tuple[tuple[str, bool], ...] = ()
    denied_missing: tuple[str, ...] = ()
    is_protected: Callable[[str], bool] = lambda path: False
    start_files: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def writable(self) -> tuple[str, ...]:
        """The workspace folders that can be written, or what of them can be."""
        if self.name != "workspace-write":
            return ()
        folders = self.write or self.roots
        return folders if self.denies_write is None else tuple(path for path in folders if not self.denies_write(path))


class Availability(NamedTuple):
    """Which sandbox works here, and why; what it does not enforce; the command that mends it."""

    kind: Kind
    facts: str
    missing: tuple[str, ...] = ()
    remedy: str = ""
    program: str = ""
    features: tuple[str, ...] = ()


class Sandbox:
    """Confines child processes. One for each runtime; any number of threads may use it."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._confined = 0  # programs that are confined now
        self._available: Availability | None = None
        self._means: tuple[Search, MountPoints, Loopbacks, Watches] | None = None
        self._rooms: Rooms | None = None

    def availability(self) -> Availability:
        """Return what works here; probed once, and remembered in the state directory until something changes."""
        with self._lock:
            if self._available is None:
                from hilt.sandbox.availability import find

                self._available = find(self._state)
            return self._available

    @contextmanager
    def confine(self, profile: Profile, cwd: str, *, tty: bool = False) -> Iterator[Confined]:
        """Hold everything that a program under this profile needs, from before its start until after its end.

        A program on a terminal of its own (`tty`) keeps that terminal; every other one is cut off from any.
        """
        from hilt.sandbox.process import Confined

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
                f"{available.program} lies in the workspace, where a command could change it.",
                suggestion="Install bubblewrap with the packages of the system.",
            )
        for root in profile.writable:
            if innermost(root, profile.kept):
                raise ToolError(
                    "sandbox_unavailable",
                    f"{root} is a part of the hilt that is running, which commands must not change.",
                    suggestion=lifting(root),
                    path=root,
                )
        from hilt.sandbox import rooms

        with self._counted(), ExitStack() as stack:
            with _made_in(profile.private):
                stack.enter_context(rooms.held(profile.private))
                make_private(profile)
            self._get_means()[3].catch_up(profile.is_sensitive)
            stack.enter_context(self._alone(available, profile))
            yield stack.enter_context(self._confine(available, profile, cwd, tty=tty))

    def watch(self, profile: Profile, limit: int) -> AbstractContextManager[RoomWatch | None]:
        """Watch what programs under this profile write to their private folders, from before the start of one on."""
        if profile.name == "full":
            return nullcontext()
        from hilt.sandbox.rooms import Rooms

        with self._lock:
            self._rooms = self._rooms or Rooms()
        return self._rooms.stay(profile.private, limit)

    def recover(self, is_sensitive: Callable[[str], bool]) -> None:
        """Put out of action what programs that ran when hilt was killed have left, and remove their mount points."""
        _, points, _, watches = self._get_means()
        points.recover()
        watches.recover(is_sensitive)

    def take_notes(self) -> tuple[str, ...]:
        """Return what was put out of action and has not been told yet."""
        with self._lock:
            means = self._means
        return means[3].take_notes() if means else ()

    def close(self) -> None:
        """Wait for programs that were told to end, and let go of the sessions' networks.

        What was made in the workspace for a program is there until it has ended, and whoever closes a sandbox is often
        about to exit. A program that does not end keeps what it has.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._confined, _CLOSE_SECONDS)
            means, self._means = self._means, None
        if means:
            means[1].close()
            means[2].close()

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
        """Keep other programs from running beside this one where they could lead its mounts astray."""
        if available.kind != "bubblewrap" or "handles" in available.features or not profile.writable:
            return nullcontext()
        from hilt.sandbox.alone import alone

        return alone(os.path.join(self._state, "alone"), profile.writable)

    def _confine(
        self, available: Availability, profile: Profile, cwd: str, *, tty: bool
    ) -> AbstractContextManager[Confined]:
        search, points, loopbacks, watches = self._get_means()
        if available.kind == "bubblewrap":
            from hilt.sandbox import bubblewrap

            return bubblewrap.confine(profile, cwd, available, search, points, loopbacks, watches, tty=tty)
        if available.kind == "landlock":
            from hilt.sandbox import landlock

            return landlock.confine(profile, search, watches)
        from hilt.sandbox import seatbelt

        return seatbelt.confine(profile, available, search, watches)

    def _get_means(self) -> tuple[Search, MountPoints, Loopbacks, Watches]:
        with self._lock:
            if self._means is None:
                from hilt.places import running_dir
                from hilt.sandbox.mountpoints import MountPoints
                from hilt.sandbox.network import Loopbacks
                from hilt.sandbox.running import Watches
                from hilt.sandbox.sensitive import Search

                search = Search()
                points = MountPoints(os.path.join(self._state, "mountpoints"))
                self._means = search, points, Loopbacks(), Watches(running_dir(self._state), search)
            return self._means


def make_private(profile: Profile) -> None:
    """Make the folders that stand in for /tmp, /var/tmp and the cache, the stage, and files for hidden ones."""
    if not profile.private:
        raise ToolError("internal", "A sandbox profile needs a private folder for its session.")
    os.makedirs(profile.private, 0o700, exist_ok=True)
    for name in _OWN_FOLDERS:
        with suppress(FileExistsError):
            os.mkdir(os.path.join(profile.private, name), 0o700)
    for name, mode in _STAND_INS.items():
        with suppress(FileExistsError):
            path = os.path.join(profile.private, name)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))


@contextmanager
def _made_in(private: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(
            "resource_limit",
            f"The private /tmp of commands cannot be made in {private}: {os.strerror(error.errno or 0)}.",
            suggestion="Ask the user to free disk space, or to let that folder be written.",
        ) from error


def own_variables(profile: Profile) -> tuple[str, ...]:
    """The settings that send temporary files and caches to the private folder, where no mount does it."""
    return f"TMPDIR={profile.private}/tmp", f"XDG_CACHE_HOME={profile.private}/cache"  # noqa: S108


class Judged:
    """Judges the names below a workspace folder; two are equal when they judge alike, so that walks can be reused."""

    def __init__(self, profile: Profile, root: str) -> None:
        self._root = root
        self._is_sensitive, self._is_protected = profile.is_sensitive, profile.is_protected
        self._denies_read, self._denies_write = profile.denies_read, profile.denies_write

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Judged) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self._root)

    def __call__(self, path: str) -> int:
        """Return the Kind (sensitive.py) of a path from the root."""
        full = os.path.join(self._root, path)
        if self._is_sensitive(path) or (self._denies_read is not None and self._denies_read(full)):
            return 1
        if self._is_protected(path) or (self._denies_write is not None and self._denies_write(full)):
            return 2
        return 0


def lifting(path: str) -> str:
    """Return how whoever works on hilt itself lets commands change it."""
    return f"Whoever works on hilt itself can add {path} to shell.writable in the personal settings."


def innermost(path: str, folders: tuple[str, ...]) -> str | None:
    """Return the deepest of the folders that hold a path, if any does."""
    return max((folder for folder in folders if is_below(path, folder)), key=len, default=None)
