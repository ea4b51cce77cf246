"""What enforces profiles: the interface of a backend, and the list of backends (ADR 0055).

A backend is a class, the `BACKEND` of its module in this package. It says what works on this system (`probe`), as
features that others ask for, and how a program starts under a profile (`confine`). To add one, write its module and its
test, and name it below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from math import inf
from typing import Literal, NamedTuple, Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.errors import ToolError
    from hilt.sandbox.mounting import Mount, Overlay
    from hilt.sandbox.mountpoints import MountPoints
    from hilt.sandbox.network import SessionNetworks
    from hilt.sandbox.overlay import UpperLayer
    from hilt.sandbox.profile import Profile
    from hilt.sandbox.rooms import Rooms, Stay
    from hilt.sandbox.sensitive import Search
    from hilt.sandbox.watches import Watches

BACKENDS = {"linux": ("bubblewrap", "landlock"), "darwin": ("seatbelt",)}  # by `sys.platform`, the strongest first

Feature = Literal[
    "mounts",  # programs see the private folders of their session as /tmp and ~/.cache
    "inner_paths",  # single paths in a folder that programs can write are hidden or protected
    "layers",  # programs can run on a layer of the workspace
    "loopback",  # sessions have a network of their own
    "unix_scope",  # Unix sockets lead to programs of the session, and to those that the user named
]
FindProgram = Callable[[str], str | None]  # the path of a program by its name


class Availability(NamedTuple):
    """Which backend works here and why, what it does not enforce, and the command that fixes it.

    `backend` is empty if none works. `features` are those of `Feature`, and some that only the backend itself asks for.
    """

    backend: str
    facts: str
    missing: tuple[str, ...] = ()
    remedy: str = ""
    program: str = ""
    features: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """Whether programs can be confined."""
        return bool(self.backend)

    @property
    def is_partial(self) -> bool:
        """Whether they can be confined, but not in all that a profile says."""
        return self.works and not self.has("inner_paths")

    def has(self, feature: Feature) -> bool:
        """Whether the backend has a feature here."""
        return feature in self.features


class SocketCalls(NamedTuple):
    """System calls on sockets that connecting.py answers.

    A seccomp filter that passes them on, the numbers of `bind`, the sockets of others that may be used, and the file of
    the sockets that programs of the session have bound.
    """

    program_filter: bytes
    binds: tuple[int, ...]
    named: tuple[str, ...]
    record: int


Denial = Callable[[str, bool], str]


def no_denial(path: str, missing: bool) -> str:
    """Return nothing: the sandbox denied nothing."""
    return ""


class StartSteps(NamedTuple):
    """What happens in a new process before it becomes the program, in this order."""

    namespaces: tuple[int, ...] = ()  # entered
    mounts: tuple[bytes, list[Mount], list[Overlay], bool] | None = None  # performed by mounting.py
    ruleset: int | None = None  # a Landlock ruleset
    program_filter: bytes = b""  # a seccomp filter
    sockets: SocketCalls | None = None


class Report:
    """What is known of a program that was started; of one that is not confined, nothing. `more` are further notes."""

    more: Sequence[str] = ()

    def notes(self) -> tuple[str, ...]:
        """Return notes on what it left for git, agents and editors to run; complete when its sandbox is closed."""
        return ()

    def due(self) -> float:
        """Return the time, as in `monotonic`, of the next check."""
        return inf

    def check(self, *, lasting: bool = True) -> None:
        """Disarm what it has left so far for git; if it is `lasting`, for agents and editors, too."""

    def repeated(self) -> str:
        """Return what it wrote again after that was disarmed."""
        return ""


class Launch(NamedTuple):
    """How to start a program: the arguments before its own, descriptors, steps before the start, and the report.

    `failure` says why the sandbox did not run the program, from its own exit code and output. `denial` says why the
    program could not use a path, or took it for missing, and who can allow that. `hidden` are tracked files that git
    takes for unchanged, because programs cannot read them. A `shielding` program is
    the sandbox of the one it starts: a signal that ends it would end everything at once. A `trusted` program is our
    own, which keeps its capabilities and follows no links from its folder. `layer` is that of the overlay that the
    program runs on, and `stay` polls the size of its private folders.
    """

    argv: tuple[str, ...] = ()
    set_variable: str = ""  # the option before `argv[-1]` that sets a variable for the program alone
    descriptors: tuple[int, ...] = ()  # numbered 3, 4, 5 ... in the program
    steps: StartSteps = StartSteps()
    report: Report = Report()
    failure: Callable[[str, int, bytes], ToolError | None] = lambda program, code, output: None
    denial: Denial = no_denial
    hidden: tuple[str, ...] = ()
    shielding: bool = False
    trusted: bool = False
    layer: UpperLayer | None = None
    stay: Stay | None = None


class SandboxResources(NamedTuple):
    """What all programs of a `Sandbox` share."""

    state: str  # the state directory
    search: Search
    points: MountPoints
    networks: SessionNetworks
    watches: Watches
    rooms: Rooms


class Start(NamedTuple):
    """A program about to start: what works here, what it shares, its folder, and what `Sandbox.confine` describes."""

    available: Availability
    shared: SandboxResources
    cwd: str = "/"
    tty: bool = False
    layer: UpperLayer | None = None


class Backend(Protocol):
    """Enforces profiles with the mechanism of one system."""

    name: str
    absent: str = "is not supported here"  # ends a sentence about a feature that it does not have

    def fingerprint(self, find: FindProgram) -> list[object]:
        """Return what the result of `probe` depends on besides the system; it is compared with each start."""

    def probe(self, state: str, find: FindProgram) -> Availability:
        """Test what works here; if nothing does, the facts say why. Files for tests go to the state directory."""

    def confine(self, profile: Profile, start: Start) -> AbstractContextManager[Launch]:
        """Return how to start a program under a profile; its resources are held until the end of the block."""


def load(name: str) -> Backend:
    """Import a backend."""
    backend: Backend = import_module(f"hilt.sandbox.{name}").BACKEND()
    return backend
