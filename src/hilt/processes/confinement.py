"""What the child processes of a workspace may do: the sandbox profiles of commands and custom tools."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from functools import partial
from typing import Any, Protocol

import hilt
from hilt import config, places, variables
from hilt.config import RuntimePaths, Settings
from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.files.door import Door
from hilt.homes import find_homes
from hilt.output.overflow import Overflow
from hilt.policy.paths import ASKED, PROTECTED, PathRules, is_glob, matcher, without
from hilt.processes.call_processes import Processes, SessionProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.files.workspace import Workspace
    from hilt.lsp.known_servers import ServerKind, Site
    from hilt.lsp.pool import CallerEnvironment
    from hilt.policy.barriers import Bars, PathWatch
    from hilt.processes.declared_sandbox import DeclaredSandbox
    from hilt.processes.jobs import Jobs
    from hilt.processes.piped import PipedProgram
    from hilt.sandbox.backend import Launch
    from hilt.sandbox.network import Network
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.sandbox import Sandbox
    from hilt.surroundings import Surroundings


_TEXT_BYTES = 4 << 20
_MAX_MATCHES = 1_000
_MAX_PATHS = 20_000
_PSEUDO_FOLDERS = ("/proc", "/sys", "/dev")  # a sandbox has its own
Reach = Callable[[str], str]  # for a path: "yes", "maybe" if something below may be denied, "no"


class CallScope(Protocol):
    """The call that a custom tool runs for."""

    session: str
    door: Door
    overflow: Overflow
    workspace: Workspace
    meta: dict[str, Any]

    @property
    def processes(self) -> Processes:
        """Child processes of the call."""


class Confinement:
    """Confines programs according to the settings and the session's mode. Safe to use from many threads."""

    def __init__(
        self,
        place: RuntimePaths,
        settings: Settings,
        surroundings: Surroundings,
        rules: PathRules,
        mode: Callable[[str], str],
        bars: Callable[[Door], Bars | None],
        shared: Sandbox | None,
        guarded: Sequence[str] = (),
    ) -> None:
        """`mode` returns the mode of a session, `bars` the rules on paths. The caller closes a `shared` sandbox.

        `guarded` are patterns of the user's own places in the workspace that hilt loads from.
        """
        self._place = place
        self._settings = settings
        self._environ, self._surroundings = surroundings.given, surroundings
        self._rules = rules
        self._mode = mode
        self._bars = bars
        self._sandbox = shared
        if shared is not None:
            shared.find_program = surroundings.find
        self._is_own = shared is None
        self._is_copy = False
        unprotected = settings["shell.writable"]
        self._protected = without((*PROTECTED, *ASKED, *guarded, *settings["workspace.protected"]), unprotected)
        self._is_protected = matcher(self._protected)
        self._lock = threading.Lock()

    def in_copy(self, settings: Settings, bars: Callable[[Door], Bars | None]) -> Confinement:
        """Return the confinement of programs in a copy of the workspace.

        They can write the copy instead of the workspace, and see nothing of the workspace that its own programs cannot.
        """
        self.sandbox()
        other = copy(self)
        other._settings, other._bars, other._is_own, other._is_copy = settings, bars, False, True
        return other

    def recover(self) -> None:
        """Disarm what commands left for git to run when hilt was killed."""
        from hilt.sandbox.sensitive import NameRules

        homes = find_homes((self._place.root,), self._environ, self._settings["shell.writable"])
        self.sandbox().recover(NameRules(self._rules.is_sensitive, self._is_protected, homes))

    def take_notes(self) -> tuple[str, ...]:
        """Return the pending notes on what was disarmed, and clear them."""
        return self._sandbox.take_notes() if self._sandbox is not None else ()

    def close(self) -> None:
        """Close the sandbox, unless it is shared."""
        if self._sandbox is not None and self._is_own:
            self._sandbox.close()

    def processes(
        self,
        fence: Fence,
        workspace: Workspace,
        overflow: Overflow,
        jobs: Callable[[], Jobs],
        has_jobs: Callable[[], bool],
    ) -> Processes:
        """Return the `Processes` of one call."""
        settings, door, session = self._settings, workspace.door, workspace.session

        def profile_of(network: str | None) -> Profile:
            from hilt.sandbox.network import NETWORKS, NONE

            profile = self._profile(door, session, overflow.open(), NETWORKS[network or settings["shell.network"]])
            profile = profile._replace(private_bytes=settings["shell.tmp_mb"] << 20)
            if self._mode(session) == "plan":
                profile = profile._replace(name="read-only", network=NONE)
            return profile

        shared = SessionProcesses(
            workspace,
            settings,
            self._environment(),
            self.sandbox,
            profile_of,
            overflow,
            jobs,
            has_jobs,
            self._place.state,
        )
        return Processes(fence, shared)

    def custom(
        self, ctx: CallScope, sandbox: DeclaredSandbox, cwd: str, folder: str | None
    ) -> AbstractContextManager[Launch]:
        """Confine a custom tool as its `sandbox` key declares; a mode can only make that stricter."""
        return self._custom(ctx, sandbox, cwd, () if folder is None else (os.path.realpath(folder),))

    def module(self, ctx: CallScope, sandbox: DeclaredSandbox, cwd: str) -> AbstractContextManager[Launch]:
        """Confine the process of a Python tool, which needs to read hilt itself and its working folder."""
        needed = os.path.dirname(os.path.abspath(hilt.__file__)), os.path.realpath(cwd)
        return self._custom(ctx, sandbox, cwd, tuple(path for path in needed if path != self._place.root))

    def _custom(
        self, ctx: CallScope, sandbox: DeclaredSandbox, cwd: str, readable_paths: tuple[str, ...]
    ) -> AbstractContextManager[Launch]:
        from hilt.processes.declared_sandbox import readable, writable
        from hilt.sandbox.network import FULL, NONE

        root = self._place.root
        is_planning = self._mode(ctx.session) == "plan"
        network = FULL if sandbox.network and not is_planning else NONE
        profile = self._profile(ctx.door, ctx.session, ctx.overflow.open(), network)
        if sandbox.read:
            readable_paths += readable(sandbox.read, root, profile.home)
            profile = profile._replace(read="all" if profile.home in readable_paths else "workspace")
        name = "read-only"
        if sandbox.write and not is_planning and self._settings["shell.sandbox"] != "read-only":
            name = "workspace-write"
            profile = profile._replace(write=writable(sandbox.write, root, profile))
        profile = profile._replace(name=name, always_readable=(*profile.always_readable, *readable_paths))  # type: ignore[arg-type]
        return self._undoable(ctx, profile, cwd) if sandbox.undo else self.sandbox().confine(profile, cwd)

    @contextmanager
    def _undoable(self, ctx: CallScope, profile: Profile, cwd: str) -> Iterator[Launch]:
        """Confine a custom tool on an overlay of the workspace, and apply its changes unless the block raises."""
        from hilt.processes.undoable import UndoableRun

        run = UndoableRun(ctx.processes.overlays.under(profile), "custom tool")
        with run.layer() as layer, self.sandbox().confine(profile, cwd, layer=layer) as confined:
            yield confined
            if confined.layer is not None:
                run.settle(confined.layer)
        if run.skipped:
            ctx.meta["undo"] = {"skipped": run.skipped}
        elif run.change is not None:
            ctx.meta["undo"] = {**run.change.facts, "summary": run.change.summary}

    def language_servers(self, door: Door) -> CallerEnvironment:
        """Return where and how language servers run: read-only, without network, with private caches."""
        from hilt.lsp.pool import CallerEnvironment

        settings = self._settings
        watches = self._watches(door)
        names = ("workspace.sensitive", "workspace.readable", "shell.read", "shell.tmp_mb", "lsp.memory_mb")
        denied = None if watches is None else [repr(watch.rules) for watch in watches]
        roots = tuple(root.real for root in door.roots if root.writable)
        variables = [self._environ.get(name) for name in ("PATH", "HOME")]
        fingerprint = config.digest(repr(([settings[name] for name in names], denied, roots, variables)))
        return CallerEnvironment(
            roots, self._surroundings.find, fingerprint, partial(self._launch, door), partial(_text, door)
        )

    def _launch(self, door: Door, kind: ServerKind, program: str) -> tuple[Site, PipedProgram]:
        """Start a language server; its private folder, with its caches, is kept after it exits."""
        from hilt.lsp.known_servers import Site, install_folders
        from hilt.processes.call_processes import machine_memory
        from hilt.processes.piped import start_piped
        from hilt.sandbox.network import NONE

        settings = self._settings
        profile = self._profile(door, f"language server {kind.name}", None, NONE)
        needed = [os.path.join(profile.home, need.path) for need in kind.reads]
        needed += install_folders(program, profile.home)
        visible = *profile.always_readable, *map(os.path.realpath, needed)
        profile = profile._replace(
            name="read-only",
            always_readable=tuple(dict.fromkeys(visible)),
            private_bytes=settings["shell.tmp_mb"] << 20,
        )
        sandbox = self.sandbox()
        cache = "/tmp" if sandbox.availability().has("mounts") else f"{profile.private}/tmp"  # noqa: S108
        site = Site(profile.write or profile.roots, os.path.realpath(program), cache)
        environment = {
            **{name: self._environ[name] for name in ("HOME", "LANG", "LC_ALL") if name in self._environ},
            "PATH": self._surroundings.search_path() if kind.has_path else "",
            "XDG_CACHE_HOME": f"{cache}/cache",
            "TMPDIR": cache,
            **kind.variables(site),
        }
        running = start_piped(
            [program, *kind.args],
            cwd="/",  # programs may read their settings from the working folder
            env=environment,
            memory=min(settings["lsp.memory_mb"] << 20, machine_memory()),
            confine=lambda: sandbox.confine(profile, "/"),
        )
        return site, running

    def sandbox(self) -> Sandbox:
        """Return what confines programs."""
        with self._lock:
            if self._sandbox is None:
                from hilt.sandbox.sandbox import Sandbox

                self._sandbox = Sandbox(self._place.state)
                self._sandbox.find_program = self._surroundings.find
            return self._sandbox

    def _environment(self) -> dict[str, str]:
        names = (*places.SHELL_VARIABLES, *self._settings["shell.env"])
        environment = variables.neutral({name: self._environ[name] for name in names if name in self._environ})
        environment["PATH"] = self._surroundings.with_provided(environment.get("PATH", os.defpath))
        if self._settings["shell.sandbox"] != "full":
            environment["TMPDIR"] = "/tmp"  # noqa: S108 -- the sandbox mounts a private one
        return environment

    def _private_folder(self, session: str) -> str:
        from hilt.sandbox import rooms

        return rooms.private_folder(self._place.state, self._place.id, config.digest(session))

    def _profile(self, door: Door, session: str, folder: str | None, network: Network) -> Profile:
        from hilt.sandbox import layers, overlay
        from hilt.sandbox.profile import Profile
        from hilt.sandbox.repositories import named_paths

        place, settings = self._place, self._settings
        writable = tuple(root.real for root in door.roots if root.writable)
        roots = (*writable, place.root) if self._is_copy else writable
        trees = places.worktrees_dir(place.state)
        own_files = (path for root in roots for path in places.installation(root, settings["shell.writable"]))
        sockets = [os.path.abspath(os.path.expanduser(path)) for path in settings["shell.sockets"]]
        profile = Profile(
            name=settings["shell.sandbox"],
            roots=roots,
            is_sensitive=self._rules.is_sensitive,
            protected=tuple(name.strip("/") for name in self._protected if not is_glob(name)),
            closed=(place.state, place.config, *((trees,) if os.path.isdir(trees) else ())),
            home=place.home,
            read=settings["shell.read"],
            # where commands can write, they could put a link to another socket
            sockets=tuple(os.path.realpath(path) for path in sockets if not self._surroundings.place(path)),
            network=network,
            session=session,
            private=self._private_folder(session),
            folder=folder,
            write=writable if self._is_copy else (),
            is_protected=self._is_protected,
            homes=find_homes(writable, self._environ, settings["shell.writable"]),
            read_only=tuple(dict.fromkeys(own_files)),
            git_paths=named_paths(self._environ),
            always_readable=tuple(filter(None, (self._surroundings.provided(),))),
        )
        watches = self._watches(door)
        profile = profile if watches is None else _with_denied_paths(profile, *watches)
        if profile.writable and self.sandbox().availability().has("layers"):
            # before any program runs that could see it being made
            with layers.open_places(overlay.outermost(profile), place.state, place.id):
                pass
        return profile._replace(closed=(*profile.closed, *layers.recorded(place.state)))

    def _watches(self, door: Door) -> tuple[PathWatch, PathWatch] | None:
        """Return the rules on reading and writing that apply to a command: those of its call, else of the workspace."""
        if door.barrier is not None:
            return door.barrier.sandbox
        bars = self._bars(door)
        return None if bars is None else bars.sandbox


def _text(door: Door, real: str) -> str | None:
    """Return the text of a file for a language server; None if tools cannot read it."""
    inside = door.inside(real)
    if inside is None:
        return None
    try:
        with door.open_file(inside[0].display_path(inside[1])) as (descriptor, _, _):
            data = os.read(descriptor, _TEXT_BYTES)
    except (ToolError, OSError):
        return None
    return data.decode("utf-8", "replace") if len(data) < _TEXT_BYTES else None


def _with_denied_paths(profile: Profile, read: PathWatch, write: PathWatch) -> Profile:
    """Return the profile with the paths that rules deny."""
    from hilt.sandbox.profile import innermost

    outside: dict[str, bool] = {}
    for watch, hides in ((write, False), (read, True)):
        starts = watch.literal_prefixes()
        if starts:
            # a folder above a start may be unreadable
            outside |= dict.fromkeys(denied_paths(watch.reach, ("/", *starts), profile.roots), hides)
        if about_git := watch.naming(".git"):
            repositories = [os.path.join(root, ".git") for root in profile.roots]
            outside |= dict.fromkeys(denied_paths(about_git.reach, repositories, ()), hides)
    unreadable = tuple(path for path, hides in outside.items() if hides)
    missing = [
        path for path in sorted(write.literal_paths()) if innermost(path, profile.roots) and not os.path.lexists(path)
    ]
    return profile._replace(
        denies_read=read.encloses if read.rules else None,
        denies_write=write.encloses if write.rules else None,
        denied_outside=tuple(outside.items()),
        denied_missing=tuple(missing),
        always_readable=tuple(path for path in profile.always_readable if not innermost(path, unreadable)),
    )


def denied_paths(reach: Reach, starts: Iterable[str], roots: tuple[str, ...]) -> list[str]:
    """Return the real paths outside the roots that rules deny, at or below `starts`; raise if there are too many."""
    from hilt.sandbox.profile import innermost

    denied_paths: dict[str, None] = {}
    pending = list(starts)
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        if path in seen or path in _PSEUDO_FOLDERS or innermost(path, roots):
            continue
        seen.add(path)
        reached = reach(path)
        if reached == "yes" and os.path.lexists(path):
            denied_paths[os.path.realpath(path)] = None
        elif reached == "maybe" and not os.path.islink(path):
            try:
                names = os.listdir(path)
            except OSError:
                continue
            # few names match, so only those are visited
            pending += [full for full in (os.path.join(path, name) for name in names) if reach(full) != "no"]
        if len(denied_paths) > _MAX_MATCHES or len(seen) > _MAX_PATHS:
            raise ToolError(
                "sandbox_unavailable",
                f"The rules on paths outside the workspace match more than {_MAX_MATCHES} files,"
                f" or more than {_MAX_PATHS} paths must be checked.",
                suggestion="Ask the user to write rules that name folders.",
            )
    return [path for path in denied_paths if not innermost(path, roots)]
