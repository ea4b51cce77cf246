"""What a tool is given: its workspace, its processes, its session, and the people that it works for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from hilt.call import Json
from hilt.fence import Fence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.catalog import Catalog
    from hilt.config import Settings
    from hilt.declaration import Tool
    from hilt.files.door import Door
    from hilt.files.workspace import Workspace
    from hilt.knowledge.related import Knowledge
    from hilt.output.overflow import Overflow
    from hilt.policy.barriers import Barrier
    from hilt.policy.hook_protocol import Hook, HookProblem
    from hilt.processes.children import Processes
    from hilt.processes.jobs import Jobs
    from hilt.state.approvals import Asked, UserAnswer
    from hilt.state.memory import Memory
    from hilt.web.client import Web


class KeptValues(Protocol):
    """What a session keeps from one call to the next."""

    def get(self, key: str) -> Json:
        """Return a value, None when there is none."""

    def set(self, key: str, value: Json) -> None:
        """Keep a value; None removes it."""


class HookRegistry(Protocol):
    """The hooks of a session, for the tool that manages them."""

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """All hooks, in the order in which they run."""

    @property
    def problems(self) -> tuple[HookProblem, ...]:
        """What is broken."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What does not run, and why."""

    def register(self, data: dict[str, Json], commit: Callable[[], None]) -> Hook:
        """Keep one more hook for the session, from the next call on; `commit` is called before that."""

    def remove(self, event: str, number: int, commit: Callable[[], None]) -> dict[str, Json]:
        """Forget a hook of the session, from the next call on, and return it as it was kept."""


class Principal(Protocol):
    """On whose behalf a call runs: a session, and people who may be asked."""

    @property
    def mode(self) -> str:
        """The mode that the session is in."""

    @property
    def values(self) -> KeptValues:
        """What the session keeps."""

    @property
    def hooks(self) -> HookRegistry:
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

    def approve(self, asked: Asked, digest: str) -> UserAnswer | None:
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
        "_principal",
        "_processes",
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
        principal: Callable[[Context], Principal],
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
        self._principal = principal
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
    def principal(self) -> Principal:
        """The session and the people that the call works for."""
        return self._principal(self)

    @property
    def mode(self) -> str:
        """The mode that the session is in."""
        return self.principal.mode

    @property
    def values(self) -> KeptValues:
        """What the session keeps."""
        return self.principal.values

    @property
    def hooks(self) -> HookRegistry:
        """The hooks of the session."""
        return self.principal.hooks

    def set_mode(self, mode: str | None) -> None:
        """Change the mode of the session; None goes back to that of the settings."""
        self.principal.set_mode(mode)

    def ask(self, questions: Sequence[Any]) -> dict[str, Any]:
        """Ask the user; answers come by question."""
        return self.principal.ask(questions)

    def approve(self, summary: str, **facts: Any) -> None:
        """Return when the user approves, raise when not."""
        self.principal.approve(summary, **facts)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell the caller, if it wants to know, how far the call is."""
        if self.attendant is not None:
            self.attendant.progress(done, total, message)
