"""The attendant of a call over HTTP: forwards output, and approves calls that the person makes."""

from __future__ import annotations

from collections.abc import Callable

from hilt.call import ApprovalRequest, UserAnswer
from hilt.context import Attendant


class HttpAttendant(Attendant):
    """A client that cannot be asked anything; with `approver`, it approves the call itself."""

    def __init__(self, *, approver: str = "", on_output: Callable[[bytes], None] = lambda data: None) -> None:
        """`on_output` receives the output of commands, on any thread."""
        self._approver = approver
        self._on_output = on_output

    def approve(self, asked: ApprovalRequest, digest: str) -> UserAnswer | None:
        """Approve the call if the person makes it; otherwise return None: the approval is answered elsewhere."""
        return UserAnswer("once", by=self._approver) if self._approver else None

    def output(self, data: bytes) -> None:
        """Forward output."""
        self._on_output(data)
