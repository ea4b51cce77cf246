"""Access to language servers for a call: those of this process, or those that the resident process keeps (ADR 0030)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.lsp.language_server import Report
from hilt.lsp.pool import CallerEnvironment, LanguageServers
from hilt.lsp.queries import ServerAnswer, ServerQuestion, to_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

REPLY_BYTES = 256 << 20
WARM_SECONDS = 0.5  # for the round trip
REPORTS = 50  # progress reports of a call before they are throttled
REPORT_SECONDS = 0.5


class Connect(Protocol):
    """Connects to the language servers of the resident process; with `wake`, starts it if it is not running."""

    def __call__(self, *, wake: bool) -> socket | None: ...


class ServerAccess(Protocol):
    """Asks language servers."""

    def ask(self, question: ServerQuestion, fence: Fence, report: Report) -> ServerAnswer:
        """Return the answer to a question; start a server if none is running."""

    def ask_warm(self, question: ServerQuestion) -> ServerAnswer | None:
        """Return the answer of a running server; None if there is none."""


class LocalAccess:
    """Asks the servers of this process."""

    def __init__(self, pool: Callable[[], LanguageServers], caller: Callable[[], CallerEnvironment]) -> None:
        self._pool = pool
        self._caller = caller

    def ask(self, question: ServerQuestion, fence: Fence, report: Report) -> ServerAnswer:
        """Return the answer to a question; start a server if none is running."""
        return self._pool().ask(self._caller(), question, fence, report)

    def ask_warm(self, question: ServerQuestion) -> ServerAnswer | None:
        """Return the answer of a running server; None if there is none."""
        return self._pool().ask_warm(self._caller(), question)


class ResidentAccess:
    """Asks the servers of the resident process, or those of this process if it is unreachable."""

    def __init__(self, connect: Connect, local: LocalAccess) -> None:
        self._connect = connect
        self._local = local

    def ask(self, question: ServerQuestion, fence: Fence, report: Report) -> ServerAnswer:
        """Return the answer to a question; start the resident process and a server if they are not running."""
        connection = self._connect(wake=True)
        if connection is None:
            return self._local.ask(question, fence, report)
        with connection:
            fence.watch(lambda: _disconnect(connection))
            for reply in _exchange(connection, {"ask": question._asdict()}):
                if "progress" in reply:
                    report(*reply["progress"])
                else:
                    return _answer(reply)
            fence.check()
        raise ToolError("lsp_unavailable", "The resident process ended.", suggestion="Send the call again.")

    def ask_warm(self, question: ServerQuestion) -> ServerAnswer | None:
        """Return the answer of a running server; None if there is none."""
        connection = self._connect(wake=False)
        if connection is None:
            return None
        with connection:
            connection.settimeout(question.seconds + WARM_SECONDS)
            reply = next(_exchange(connection, {"warm": question._asdict()}), None)
        return None if reply is None or not reply.get("answer") else _answer(reply)


def _disconnect(connection: socket) -> None:
    with suppress(OSError):
        connection.shutdown(2)


def _exchange(connection: socket, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Send a request and yield the replies, until the connection ends."""
    with suppress(OSError):
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as replies:
            while (line := replies.readline(REPLY_BYTES)).endswith(b"\n"):
                yield json.loads(line)


def _answer(reply: dict[str, Any]) -> ServerAnswer:
    if "error" in reply:
        raise to_error(reply["error"])
    answer = ServerAnswer(**reply["answer"])
    return answer._replace(notes=tuple(answer.notes))


class Languages:
    """The language servers of one call; servers that are started only for it stop at the end of the block."""

    def __init__(
        self,
        access: ServerAccess,
        fence: Fence,
        progress: Callable[[float, float | None, str], None],
        end: Callable[[], None],
    ) -> None:
        self._access = access
        self._fence = fence
        self._progress = progress
        self._end = end
        self._steps = 0
        self._reported = 0.0

    def __enter__(self) -> Languages:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, question: ServerQuestion) -> ServerAnswer:
        """Return the answer to a question."""
        return self._access.ask(question, self._fence, self._report)

    def ask_warm(self, question: ServerQuestion) -> ServerAnswer | None:
        """Return the answer of a running server; None if there is none."""
        return self._access.ask_warm(question)

    def _report(self, text: str, share: float | None) -> None:
        self._steps += 1
        now = monotonic()
        if self._steps > REPORTS and now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        if share is None:
            self._progress(self._steps, None, text)
        else:
            self._progress(share, 100.0, text)
