"""One question to a server: update its files, wait for its index, and get the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from hilt.errors import ToolError
from hilt.lsp.known_servers import language_of
from hilt.lsp.language_server import LanguageServer, Report, SourceFile, to_uri
from hilt.lsp.positions import SourceLines, to_units
from hilt.lsp.queries import ServerAnswer, ServerQuestion
from hilt.lsp.server_connection import ServerError, ServerTimeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence
    from hilt.lsp.pool import LanguageServers

START_SECONDS = 30.0  # for the first answer of a server, once it has indexed
INDEX_SECONDS = 90.0
FILES_SECONDS = 20.0  # for a server to list the files of the project
BEGIN_SECONDS = 1.0  # for a server to announce its indexing
REINDEX_SECONDS = 5.0  # for a warm server to finish indexing, within the time of the query
OPENED_MAX = 20  # changed files to open

# these need every file of the workspace, not only those that a file imports
_WHOLE = ("references", "rename", "workspace_symbols")

_METHODS = {
    "definition": "textDocument/definition",
    "references": "textDocument/references",
    "hover": "textDocument/hover",
    "symbols": "textDocument/documentSymbol",
    "rename": "textDocument/rename",
}


class Asking:
    """One question to one server."""

    def __init__(
        self,
        pool: LanguageServers,
        read: Callable[[str], str | None],
        server: LanguageServer,
        question: ServerQuestion,
        fence: Fence | None,
        report: Report,
    ) -> None:
        self._pool = pool
        self._read = read
        self._server = server
        self._question = question
        self._fence = fence
        self._report = report
        self._notes: list[str] = []
        self._lines = SourceLines(question.text)

    def answer(self) -> ServerAnswer:
        """Update the files of the server, wait for its index, and send the request."""
        server, question = self._server, self._question
        try:
            result = self._ask()
        except ServerTimeout:
            if question.seconds:
                raise  # the caller set its own time limit
            raise self._timeout_error() from None
        except ServerError as error:
            raise ToolError(
                "tool_failed",
                f"{server.kind.name} answered {question.action} with an error: {str(error)[:500]}",
                suggestion="Check the position and the name, or use search_files.",
            ) from None
        server.is_ready = True
        return ServerAnswer(server.kind.name, server.encoding, result, tuple(self._notes), server.site.cache)

    def _ask(self) -> Any:
        server, question = self._server, self._question
        changes = server.disk.take()
        if changes:
            server.report_changes(changes, question.path)
            if not server.kind.rereads and not question.seconds:
                self._open_changed(changes)
        document = SourceFile(question.path, question.text)
        if question.action == "compare":
            return self._compare(document)
        if question.path:
            server.sync(document)
        deadline = self._await_index()
        if question.action != "diagnostics":
            return self._request(deadline)
        diagnosed = server.diagnostics(document, deadline, self._fence)
        if not diagnosed.is_current:
            self._notes.append(f"{server.kind.name} sent no diagnostics for the current text")
        return diagnosed.items

    def _open_changed(self, changes: Mapping[str, int]) -> None:
        """Open files that have changed, for a server that indexes a changed file only when it is opened."""
        deadline = monotonic() + self._pool.query_seconds
        language = language_of(self._question.path)
        for path in [path for path in changes if language_of(path) is language][:OPENED_MAX]:
            text = None if path == self._question.path else self._read(path)
            if text is not None:
                self._server.sync(SourceFile(path, text))
                params = {"textDocument": {"uri": to_uri(path)}}
                self._server.request("textDocument/documentSymbol", params, deadline, self._fence)

    def _await_index(self) -> float:
        """Wait for indexing where the answer needs it; return the deadline of the question."""
        server, question = self._server, self._question
        is_whole = question.action in _WHOLE
        is_done = not is_whole or server.await_files(monotonic() + FILES_SECONDS, self._fence)
        began = monotonic()
        deadline = began + self._pool.query_seconds
        if not server.is_ready:
            begin = BEGIN_SECONDS if server.kind.indexes else 0.0
            is_done &= server.await_index(began + INDEX_SECONDS, self._fence, self._report_progress, begin)
            deadline = monotonic() + START_SECONDS  # it may still read the project
        elif is_whole and server.is_indexing:
            is_done &= server.await_index(began + REINDEX_SECONDS, self._fence, self._report_progress, 0.0)
        if not is_done:
            self._notes.append(f"{server.kind.name} is still indexing; the answer may be incomplete")
        return deadline

    def _report_progress(self, text: str, share: float | None) -> None:
        self._report(f"{self._server.kind.name}: {text}", share)

    def _request(self, deadline: float) -> Any:
        server, question = self._server, self._question
        if question.action == "workspace_symbols":
            return server.request("workspace/symbol", {"query": question.query}, deadline, self._fence)
        params: dict[str, Any] = {"textDocument": {"uri": to_uri(question.path)}}
        if question.action != "symbols":
            column = to_units(self._lines.line(question.line), question.character, server.encoding)
            params["position"] = {"line": question.line, "character": column}
        if question.action == "references":
            params["context"] = {"includeDeclaration": True}
        if question.action == "rename":
            params["newName"] = question.new_name
        return server.request(_METHODS[question.action], params, deadline, self._fence)

    def _compare(self, document: SourceFile) -> dict[str, list[Any]]:
        """Return the diagnostics of a file before and after a change."""
        server, question = self._server, self._question
        deadline = monotonic() + question.seconds
        with server.exclusively(question.seconds):
            before = server.diagnostics(document._replace(text=question.before), deadline, None)
            after = server.diagnostics(document, deadline, None)
        # diagnostics that may be for the old text introduce nothing
        return {"before": before.items, "after": after.items if after.is_current else []}

    def _timeout_error(self) -> ToolError:
        """Return the error for a question without an answer; stop the server unless it is busy."""
        server = self._server
        seconds = self._pool.query_seconds
        if server.is_indexing and monotonic() - server.was_busy < seconds:
            return ToolError(
                "timeout",
                f"{server.kind.name} is still indexing the project.",
                suggestion="Send the call again later; the server keeps running.",
            )
        self._pool.end(server)
        return ToolError(
            "timeout",
            f"{server.kind.name} did not answer {self._question.action} in time and was stopped." + printed(server),
            suggestion="Send the call again to restart it, or use search_files.",
        )


def printed(server: LanguageServer) -> str:
    """Return what the server printed, for an error message."""
    text = server.printed()
    return f" It printed: {text}" if text else ""
