"""What a tool is given: the workspace, the session, and a fence between it and a cancelled or late call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from hilt.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.authority.consent import Answer
    from hilt.authority.hooks import Hooks
    from hilt.authority.principal import Values
    from hilt.catalog import Catalog
    from hilt.config import Settings
    from hilt.declaration import Tool
    from hilt.files.door import Door
    from hilt.files.workspace import Workspace
    from hilt.knowledge.related import Knowledge
    from hilt.output.overflow import Overflow
    from hilt.policy.barriers import Barrier
    from hilt.processes.children import Processes
    from hilt.processes.jobs import Jobs
    from hilt.state.approvals import Asked
    from hilt.state.memory import Memory
    from hilt.web.client import Web


class Fence:
    """Decides, once, between committing a call and giving it up.

    A thread cannot be killed, so a call that timed out or was cancelled may still be running: it can no longer pass
    the fence, and one that has passed can no longer be given up.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up: ToolError | None = None
        self._committing = False
        self._watchers: list[Callable[[], None]] = []

    def give_up(self, reason: ToolError) -> bool:
        """Stop the call before it commits; False when it already does, and its own answer will come."""
        with self._lock:
            if self._committing or self._given_up is not None:
                return False
            self._given_up = reason
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher()
        return True

    def check(self) -> None:
        """Raise when the call was given up; every long piece of work looks here now and then."""
        if self._given_up is not None:
            raise self._given_up

    def commit(self) -> None:
        """Pass the fence, or raise when the call was given up."""
        with self._lock:
            if self._given_up is not None:
                raise self._given_up
            self._committing = True

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` as soon as the call is given up, at once when it already is."""
        with self._lock:
            given_up = self._given_up is not None
            if not given_up:
                self._watchers.append(watcher)
        if given_up:
            watcher()


class Reads(NamedTuple):
    """What a program of our own may read, where the kernel can hold it to that."""

    folder: int | None  # and everything below
    files: tuple[int, ...] = ()  # open
    programs: tuple[str, ...] = ()  # what it needs to run, folders with everything below


class Standing(Protocol):
    """What a call may know and ask of the people it works for."""

    @property
    def mode(self) -> str:
        """The mode that the session is in."""

    @property
    def values(self) -> Values:
        """What the session keeps."""

    @property
    def hooks(self) -> Hooks:
        """The hooks of the session."""

    def set_mode(self, mode: str | None) -> None:
        """Change the mode of the session; None goes back to that of the settings."""

    def hidden(self, tool: Tool) -> str | None:
        """Return why a tool is not there in this mode and profile."""

    def ask(self, questions: Sequence[Any]) -> dict[str, Any]:
        """Ask the user; answers come by question."""

    def approve(self, summary: str, **facts: Any) -> None:
        """Return when the user approves, raise when not."""


class Attendant(Protocol):
    """The client of one call, for as long as it runs: it may be asked, and is told how far the call is.

    What it cannot be asked, it answers with None.
    """

    @property
    def can_ask(self) -> bool:
        """Whether a person can be asked by way of it."""

    @property
    def has_questions(self) -> bool:
        """Whether this run of the call ended to ask something: the call is run again with the answers."""

    def approve(self, asked: Asked, digest: str) -> Answer | None:
        """Return what a person says to a call that asks; `digest` tells it from every other, changed files included."""

    def ask(self, questions: Sequence[Any]) -> dict[str, Any] | None:
        """Return what a person answers, by question."""

    def elicit(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Return a form that a person filled in: `action`, and `content` when that is accept."""

    def sample(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return what the client's model says."""

    def inputs(self, requests: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
        """Return answers to several requests, by name and as MCP has them."""

    def require(self, capability: str) -> None:
        """Raise unless the client is capable of something: elicitation, sampling or roots."""

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Tell how far the call is."""

    def log(self, level: str, data: Any) -> None:
        """Tell what a person may want to know while the call runs."""


class Context:
    """The world of one call. Tools reach files, settings and the catalog only through here."""

    __slots__ = (
        "_jobs",
        "_knowledge",
        "_memory",
        "_processes",
        "_standing",
        "_web",
        "attendant",
        "catalog",
        "client",
        "door",
        "fence",
        "meta",
        "overflow",
        "session",
        "settings",
        "workspace",
    )

    def __init__(
        self,
        *,
        workspace: Workspace,
        door: Door,
        session: str,
        client: str | None,
        settings: Settings,
        catalog: Catalog,
        overflow: Overflow,
        fence: Fence,
        memory: Callable[[], Memory],
        knowledge: Callable[[], Knowledge],
        processes: Callable[[Fence], Processes],
        jobs: Callable[[], Jobs],
        standing: Callable[[Context], Standing],
        web: Callable[[Context], Web],
        attendant: Attendant | None = None,
    ) -> None:
        self.workspace = workspace
        self.door = door  # for tools that search: folders by handle, under the same rules
        self.session = session
        self.client = client
        self.settings = settings
        self.catalog = catalog
        self.overflow = overflow
        self.fence = fence
        self._memory = memory
        self._knowledge = knowledge
        self._processes = processes
        self._jobs = jobs
        self._standing = standing
        self._web = web
        self.attendant = attendant
        self.meta: dict[str, Any] = {}  # facts for programs that do not depend on the outcome

    def hold(self, barrier: Barrier) -> None:
        """Hold everything that the call opens from here on to rules."""
        self.door = self.workspace.door = self.door.under(barrier)

    @property
    def memory(self) -> Memory:
        """What agents keep for the user from one call to the next."""
        return self._memory()

    @property
    def knowledge(self) -> Knowledge:
        """The user's knowledge entries, skills, agents and commands, ranked."""
        return self._knowledge()

    @property
    def processes(self) -> Processes:
        """Child processes of the call."""
        return self._processes(self.fence)

    @property
    def jobs(self) -> Jobs:
        """Processes that outlive the call, and end with the session."""
        return self._jobs()

    @property
    def web(self) -> Web:
        """The web, behind its guard."""
        return self._web(self)

    @property
    def standing(self) -> Standing:
        """What the call may know and ask of the people it works for."""
        return self._standing(self)

    @property
    def mode(self) -> str:
        """The mode that the session is in."""
        return self.standing.mode

    @property
    def values(self) -> Values:
        """What the session keeps."""
        return self.standing.values

    @property
    def hooks(self) -> Hooks:
        """The hooks of the session."""
        return self.standing.hooks

    def set_mode(self, mode: str | None) -> None:
        """Change the mode of the session; None goes back to that of the settings."""
        self.standing.set_mode(mode)

    def ask(self, questions: Sequence[Any]) -> dict[str, Any]:
        """Ask the user; answers come by question."""
        return self.standing.ask(questions)

    def approve(self, summary: str, **facts: Any) -> None:
        """Return when the user approves, raise when not."""
        self.standing.approve(summary, **facts)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell the caller, if it wants to know, how far the call is."""
        if self.attendant is not None:
            self.attendant.progress(done, total, message)
