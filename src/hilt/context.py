"""The context passed to a tool: its workspace, processes, session and user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hilt.call import ApprovalRequest, UserAnswer
from hilt.errors import ToolError

if TYPE_CHECKING:
    from hilt.authority.hooks import Hooks
    from hilt.authority.principal import SessionPrincipal, Values
    from hilt.config import Settings
    from hilt.desktop.control import Desktop
    from hilt.files.workspace import Workspace
    from hilt.knowledge.related import Knowledge
    from hilt.lsp.access import Languages
    from hilt.output.overflow import Overflow
    from hilt.policy.barriers import Barrier
    from hilt.processes.call_processes import Processes
    from hilt.processes.jobs import Jobs
    from hilt.running.world import CallParts
    from hilt.skills.library import SkillLibrary
    from hilt.state.agent_calls import Agents, Allowance
    from hilt.state.board import Board
    from hilt.state.memory import Memory
    from hilt.state.todos import TodoLists
    from hilt.web.client import Web


class Attendant(Protocol):
    """The client of one running call: it can answer questions, and receives progress and log messages.

    By default it supports nothing: methods that ask something return None, and messages are ignored.
    """

    @property
    def can_ask(self) -> bool:
        """Whether the client can ask a person."""
        return False

    @property
    def has_questions(self) -> bool:
        """Whether this run stopped to ask something; the call then runs again with the answers."""
        return False

    def approve(self, asked: ApprovalRequest, digest: str) -> UserAnswer | None:
        """Ask a person to approve a call and return their answer; `digest` identifies the call and its files."""
        return None

    def ask(self, questions: Sequence[Any]) -> dict[str, Any] | None:
        """Ask a person and return the answers by question."""
        return None

    def elicit(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Ask a person to fill in a form; return `action`, and `content` when it is accept."""
        return None

    def sample(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the reply of the client's model."""
        return None

    def inputs(self, requests: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
        """Return the answers to several MCP requests, by name."""
        return dict.fromkeys(requests)

    def require(self, capability: str) -> None:
        """Raise unless the client has a capability: elicitation, sampling or roots."""
        raise ToolError("no_one_to_ask", f"The client of this call does not support {capability}.")

    @property
    def allowance(self) -> Allowance | None:
        """What the run that the call belongs to may use; None without limits."""
        return None

    def for_agents(self) -> Attendant | None:
        """Return the client for agents that the call starts; None if it cannot answer while the call runs."""
        return None

    def compact(self, focus: str) -> str | None:
        """Shorten the client's conversation after this call; return what will happen."""
        return None

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Report the progress of the call."""
        return

    def output(self, data: bytes) -> None:
        """Receive output of a command as it arrives."""
        return

    def log(self, level: str, data: Any) -> None:
        """Send a log message to the client."""
        return


class Context:
    """The context of one call. Tools access files, settings and the catalog only through it."""

    def __init__(
        self,
        parts: CallParts,
        workspace: Workspace,
        overflow: Overflow,
        settings: Settings,
        *,
        client: str | None = None,
        attendant: Attendant | None = None,
    ) -> None:
        self._parts = parts
        self.workspace = workspace
        self.door = workspace.door  # for tools that search: opens folders by descriptor, under the same rules
        self.session = workspace.session
        self.fence = workspace.fence
        self.client = client
        self.settings = settings
        self.catalog = parts.shared.catalog
        self.overflow = overflow
        self.attendant = attendant
        self.needs_undo = False  # only because undo brings back what it removes, the call was allowed
        self.meta: dict[str, Any] = {}  # for programs; part of the result whether the call succeeds or fails

    def hold(self, barrier: Barrier) -> None:
        """Apply path rules to everything that the call opens from now on."""
        self.door = self.workspace.door = self.door.under(barrier)

    @property
    def memory(self) -> Memory:
        """The memory that agents keep for the user across calls."""
        return self._parts.shared.memory

    @property
    def knowledge(self) -> Knowledge:
        """The user's knowledge entries, skills, agents and commands, ranked."""
        return self._parts.shared.knowledge

    @property
    def board(self) -> Board:
        """The tasks of the workspace."""
        return self._parts.shared.board

    @property
    def todos(self) -> TodoLists:
        """The todo lists of the sessions."""
        return self._parts.shared.todos

    @property
    def skills(self) -> SkillLibrary:
        """The skills and commands of the workspace and the user."""
        return self._parts.shared.skills

    @property
    def processes(self) -> Processes:
        """Child processes of the call."""
        return self._parts.processes(self)

    @property
    def jobs(self) -> Jobs:
        """Processes that outlive the call and end with the session."""
        return self._parts.shared.jobs

    @property
    def web(self) -> Web:
        """The web, behind its guard."""
        return self._parts.web(self)

    @property
    def languages(self) -> Languages:
        """The language servers of the workspace."""
        return self._parts.languages(self)

    @property
    def desktop(self) -> Desktop:
        """The desktop: the screen, its windows and its input."""
        return self._parts.desktop(self)

    @property
    def agents(self) -> Agents:
        """Other agents: starting them, and messages between them."""
        return self._parts.agents(self)

    @property
    def principal(self) -> SessionPrincipal:
        """The session and the user that the call works for."""
        return self._parts.principal(self)

    @property
    def mode(self) -> str:
        """The mode of the session."""
        return self.principal.mode

    @property
    def values(self) -> Values:
        """The values stored in the session."""
        return self.principal.values

    @property
    def hooks(self) -> Hooks:
        """The hooks of the session."""
        return self.principal.hooks

    def set_mode(self, mode: str | None) -> None:
        """Change the mode of the session; None restores the mode from the settings."""
        self.principal.set_mode(mode)

    @property
    def can_ask(self) -> bool:
        """Whether a user is available to answer."""
        return self.principal.can_ask

    def ask(self, questions: Sequence[Any]) -> dict[str, Any]:
        """Ask the user and return the answers by question."""
        return self.principal.ask(questions)

    def approve(self, summary: str, **facts: Any) -> None:
        """Ask the user for approval; raise unless they approve."""
        self.principal.approve(summary, **facts)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report the progress of the call to the client, if there is one."""
        if self.attendant is not None:
            self.attendant.progress(done, total, message)
