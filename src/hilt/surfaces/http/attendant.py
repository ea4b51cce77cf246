"""The HTTP client of one call, as an attendant: receives output, and may approve what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hilt.errors import ToolError
from hilt.state.approvals import Asked, UserAnswer


class HttpAttendant:
    """An Attendant that answers nothing, except that `approver` approves the call itself."""

    can_ask = False
    has_questions = False
    allowance = None

    def __init__(self, *, approver: str = "", hear: Callable[[bytes], None] = lambda data: None) -> None:
        """`hear` receives the output of commands, on any thread."""
        self._approver = approver
        self._hear = hear

    def approve(self, asked: Asked, digest: str) -> UserAnswer | None:
        """Approve the call if the person makes it; others are asked elsewhere."""
        return UserAnswer("once", by=self._approver) if self._approver else None

    def ask(self, questions: Sequence[Any]) -> dict[str, Any] | None:
        """Return None: people are asked elsewhere."""
        return None

    def elicit(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Return None: there are no forms."""
        return None

    def sample(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return None: there is no model."""
        return None

    def inputs(self, requests: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
        """Return None for each request."""
        return dict.fromkeys(requests)

    def require(self, capability: str) -> None:
        """Raise: an HTTP client has no capability."""
        raise ToolError("no_one_to_ask", f"A call over HTTP does not support {capability}.")

    def for_agents(self) -> None:
        """Return None: people are asked elsewhere."""

    def compact(self, focus: str) -> str | None:
        """Return None: there is no conversation."""
        return None

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Ignore progress."""

    def output(self, data: bytes) -> None:
        """Pass output on."""
        self._hear(data)

    def log(self, level: str, data: Any) -> None:
        """Ignore log messages."""
