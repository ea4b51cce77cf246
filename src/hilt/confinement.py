"""What the children of a workspace may do: the sandbox profile of its commands, and that of a custom tool."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from hilt import config, places, variables
from hilt.config import Settings
from hilt.context import Context, Fence
from hilt.door import Door
from hilt.output.overflow import Overflow
from hilt.policy.paths import PROTECTED, PathRules
from hilt.processes import Ground, Processes
from hilt.rulebook import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.definition import Sandbox as CustomSandbox
    from hilt.jobs import Jobs
    from hilt.sandbox.process import Confined
    from hilt.sandbox.profile import Profile, Sandbox


class Confinement:
    """Confines by the settings and the mode of a session. Safe to use from many threads."""

    def __init__(
        self,
        place: Place,
        settings: Settings,
        environ: Mapping[str, str],
        rules: PathRules,
        mode: Callable[[str], str],
        shared: Sandbox | None,
    ) -> None:
        """`mode` tells that of a session; a sandbox that is shared, somebody else closes."""
        self._place = place
        self._settings = settings
        self._environ = environ
        self._rules = rules
        self._mode = mode
        self._sandbox = shared
        self._is_own = shared is None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of what confined."""
        if self._sandbox is not None and self._is_own:
            self._sandbox.close()

    def processes(
        self, fence: Fence, session: str, door: Door, overflow: Overflow, jobs: Callable[[], Jobs]
    ) -> Processes:
        """Return what starts the child processes of one call."""
        settings = self._settings

        def confine(cwd: str, *, network: str | None, tty: bool) -> AbstractContextManager[Confined]:
            profile = self._profile(door, session, overflow.open(), network or settings["shell.network"])
            if self._mode(session) == "plan":
                profile = profile._replace(name="read-only", network="none")
            return self._opened().confine(profile, cwd, tty=tty)

        return Processes(
            fence,
            Ground(
                door=door,
                environment=self._environment(),
                confine=confine,
                available=lambda: self._opened().availability(),
                processes=settings["shell.processes"],
                memory=settings["shell.memory_mb"] << 20,
                file_size=settings["shell.file_mb"] << 20,
                spill=overflow.make_room,
                session=session,
                jobs=jobs,
            ),
        )

    def custom(
        self, ctx: Context, sandbox: CustomSandbox, cwd: str, folder: str | None
    ) -> AbstractContextManager[Confined]:
        """Confine a custom tool as its `sandbox` key says; a mode may only make that stricter."""
        return self._custom(ctx, sandbox, cwd, () if folder is None else (os.path.realpath(folder),))

    def module(self, ctx: Context, sandbox: CustomSandbox, cwd: str) -> AbstractContextManager[Confined]:
        """Confine the process of a module, which needs what hosts it and the folder that it works in."""
        needed = os.path.dirname(os.path.abspath(__file__)), os.path.realpath(cwd)
        return self._custom(ctx, sandbox, cwd, tuple(path for path in needed if path != self._place.root))

    def _custom(
        self, ctx: Context, sandbox: CustomSandbox, cwd: str, shown: tuple[str, ...]
    ) -> AbstractContextManager[Confined]:
        from hilt.custom.confining import readable, writable

        root = self._place.root
        is_planning = self._mode(ctx.session) == "plan"
        profile = self._profile(
            ctx.door, ctx.session, ctx.overflow.open(), "full" if sandbox.network and not is_planning else "none"
        )
        if sandbox.read:
            shown += readable(sandbox.read, root, profile.home)
            profile = profile._replace(read="all" if profile.home in shown else "workspace")
        name = "read-only"
        if sandbox.write and not is_planning and self._settings["shell.sandbox"] != "read-only":
            name = "workspace-write"
            profile = profile._replace(write=writable(sandbox.write, root, profile))
        return self._opened().confine(profile._replace(name=name, shown=shown), cwd)  # type: ignore[arg-type]

    def _opened(self) -> Sandbox:
        with self._lock:
            if self._sandbox is None:
                from hilt.sandbox.profile import Sandbox

                self._sandbox = Sandbox(self._place.state)
            return self._sandbox

    def _environment(self) -> dict[str, str]:
        names = (*places.SHELL_VARIABLES, *self._settings["shell.env"])
        found = variables.neutral({name: self._environ[name] for name in names if name in self._environ})
        found.setdefault("PATH", os.defpath)
        if self._settings["shell.sandbox"] != "full":
            found["TMPDIR"] = "/tmp"  # noqa: S108 -- the private one of the sandbox
        return found

    def _profile(self, door: Door, session: str, folder: str, network: str) -> Profile:
        from hilt.sandbox.profile import Profile

        place, settings = self._place, self._settings
        return Profile(
            name=settings["shell.sandbox"],
            roots=tuple(root.real for root in door.roots if root.writable),
            is_sensitive=self._rules.is_sensitive,
            protected=tuple(name for name in PROTECTED if name not in settings["workspace.writable"]),
            closed=(place.state, place.config),
            home=place.home,
            read=settings["shell.read"],
            network=network,  # type: ignore[arg-type]  # settings and schema let nothing else through
            session=session,
            private=os.path.join(place.state, "sandbox", place.id, config.digest(session)),
            folder=folder,
        )
