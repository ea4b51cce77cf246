"""The `Sandbox` of a runtime: confines child processes with the backend that works here."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from hilt.errors import ToolError
from hilt.sandbox import availability, backend
from hilt.sandbox.backend import Availability, FindProgram, Launch, Report, SandboxResources, Start
from hilt.sandbox.network import NETWORKS, SessionNetworks
from hilt.sandbox.profile import developer_hint, innermost, is_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.sandbox.backend import Backend
    from hilt.sandbox.overlay import UpperLayer
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sensitive import NameRules

_PRIVATE_FOLDERS = ("tmp", "var-tmp", "cache", "stage")
_PLACEHOLDERS = {"blank-file": 0o400, "sealed-file": 0}
_CLOSE_SECONDS = 6.0  # a terminated program has exited by then, or is stuck in the kernel


class Sandbox:
    """Confines child processes. One per runtime; safe to use from many threads."""

    def __init__(self, state: str, backends: Sequence[Backend] | None = None) -> None:
        """`backends`: what to choose from, the strongest first; by default those of this system."""
        self._state = state
        self._backends = backends
        # finds programs that no command can change; assign it before the first use
        self.find_program: FindProgram = lambda name: None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._confined = 0  # confined programs that are running
        self._available: Availability | None = None
        self._resources: SandboxResources | None = None

    def availability(self) -> Availability:
        """Return which backend works here; probed once, and cached in the state directory until the system changes."""
        with self._lock:
            if self._available is None:
                if self._backends is None:
                    self._available = availability.find(self._state, self.find_program)
                else:
                    self._available = availability.probe(self._state, self.find_program, self._backends)
            return self._available

    @contextmanager
    def confine(
        self, profile: Profile, cwd: str, *, tty: bool = False, layer: UpperLayer | None = None
    ) -> Iterator[Launch]:
        """Set up the sandbox of a program; the block lasts from before its start until after its end.

        A program with its own terminal (`tty`) keeps it; all others are detached from any terminal. With a `layer`, it
        runs on an overlay of the workspace; the caller first checks that an overlay is possible.
        """
        if profile.name == "full":
            yield Launch()
            return
        available = self.availability()
        self._check(profile, available)
        enforcing = self._load(available.backend)
        needed = profile.network.needs
        if needed is not None and not available.has(needed):
            names = " or ".join(network.name for network in NETWORKS.values() if network.needs is None)
            raise ToolError(
                "sandbox_unavailable",
                f"The {profile.network.name} network {enforcing.absent}.",
                suggestion=f"Run the command with network: {names}.",
            )
        from hilt.sandbox import rooms

        if layer is not None and innermost(layer.folder, profile.closed) is None:
            profile = profile._replace(closed=(*profile.closed, os.path.dirname(layer.folder)))
        with self._counted(), ExitStack() as stack:
            with _creating_in(profile.private):
                stack.enter_context(rooms.hold(profile.private))
                make_private(profile)
            resources = self._get_resources()
            resources.watches.catch_up(profile.names)
            stay = None
            if profile.private_bytes:
                stay = stack.enter_context(resources.rooms.stay(profile.private, profile.private_bytes))
            start = Start(available, resources, cwd, tty, layer)
            yield stack.enter_context(enforcing.confine(profile, start))._replace(stay=stay)

    def repositories(self, profile: Profile) -> tuple[str, ...]:
        """Return the Git repositories of the workspace."""
        from hilt.sandbox.view import search_workspace

        return search_workspace(profile, self._get_resources().search).repositories

    def _check(self, profile: Profile, available: Availability) -> None:
        """Raise if nothing can confine a program here, or if it could change what confines it."""
        if not available.works:
            raise ToolError(
                "sandbox_unavailable",
                f"Commands cannot be confined here: {available.facts}",
                suggestion=f"To fix it: {available.remedy}" if available.remedy else None,
                missing=list(available.missing),
            )
        if any(is_below(available.program, root) for root in profile.writable if root != "/"):
            raise ToolError(
                "sandbox_unavailable",
                f"{available.program} is in the workspace, where a command could change it.",
                suggestion=f"Install {available.backend} with the system's package manager.",
            )
        for root in profile.writable:
            if innermost(root, profile.read_only):
                raise ToolError(
                    "sandbox_unavailable",
                    f"{root} is part of the running hilt, which commands must not change.",
                    suggestion=developer_hint(root),
                    path=root,
                )

    def _load(self, name: str) -> Backend:
        return next((each for each in self._backends or () if each.name == name), None) or backend.load(name)

    @contextmanager
    def disarming(self, profile: Profile, layer: str = "") -> Iterator[Report]:
        """Disarm what the block, instead of a program, puts into the workspace for git, agents and editors.

        What existed before the command of a recorded `layer` may come back.
        """
        from hilt.sandbox.disarming import Guard
        from hilt.sandbox.layers import read_known

        watches = self._get_resources().watches
        watches.catch_up(profile.names)
        known = read_known(layer, self._state) if layer else ()
        with watches.hold(profile, Guard(), known=known) as watch:
            yield watch

    def recover(self, names: NameRules) -> None:
        """Disarm what programs left when hilt was killed, and remove their mount points."""
        resources = self._get_resources()
        resources.points.recover()
        resources.watches.recover(names)

    def take_notes(self) -> tuple[str, ...]:
        """Return the pending notes on what was disarmed, and clear them."""
        with self._lock:
            resources = self._resources
        return resources.watches.take_notes() if resources else ()

    def close(self) -> None:
        """Wait for programs that are ending, and close the sessions' networks.

        The mount points of a program stay in the workspace until it has ended, and the caller is often about to exit. A
        program that does not end keeps its mount points.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._confined, _CLOSE_SECONDS)
            resources, self._resources = self._resources, None
        if resources:
            resources.networks.close()

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

    def _get_resources(self) -> SandboxResources:
        with self._lock:
            if self._resources is None:
                from hilt.places import running_dir
                from hilt.sandbox.mountpoints import MountPoints
                from hilt.sandbox.rooms import Rooms
                from hilt.sandbox.sensitive import Search
                from hilt.sandbox.watches import Watches

                search = Search()
                points = MountPoints(os.path.join(self._state, "mountpoints"))
                watches = Watches(running_dir(self._state), search)
                self._resources = SandboxResources(self._state, search, points, SessionNetworks(), watches, Rooms())
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
