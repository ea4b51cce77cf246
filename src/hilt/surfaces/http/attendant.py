"""The attendant of a call over HTTP: forwards output, and approves calls that the person makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hilt.call import ApprovalRequest, UserAnswer
from hilt.context import Attendant
from hilt.errors import ToolError


class HttpAttendant(Attendant):
    """A client that cannot be asked anything; with `approver`, it approves the call itself."""

    can_ask = False
    has_questions = False

    def __init__(self, *, approver: str = "", on_output: Callable[[bytes], None] = lambda data: None) -> None:
        """`on_output` receives the output of commands, on any thread."""
        self._approver = approver
        self._on_output = on_output

    def approve(self, asked: ApprovalRequest, digest: str) -> UserAnswer | None:
        """Approve the call if the person makes it; otherwise return None: the approval is answered elsewhere."""
        return UserAnswer("once", by=self._approver) if self._approver else None

    def inputs(self, requests: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
        """Return None for each request."""
        return dict.fromkeys(requests)

    def require(self, capability: str) -> None:
        """Raise: HTTP clients have no capabilities."""
        raise ToolError("no_one_to_ask", f"A call over HTTP does not support {capability}.")

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Ignore progress."""

    def log(self, level: str, data: Any) -> None:
        """Ignore log messages."""

    def output(self, data: bytes) -> None:
        """Forward output."""
        self._on_output(data)
