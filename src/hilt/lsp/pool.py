"""The language servers of a workspace: started on first use, kept warm, restarted once, ended when idle."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from hilt import __version__
from hilt.errors import ToolError
from hilt.lsp.disk import DiskWatch
from hilt.lsp.known_servers import LANGUAGES, Language, ServerKind, Site, find, language_of
from hilt.lsp.language_server import (
    AnswerError,
    Gone,
    LanguageServer,
    Late,
    Report,
    RunningProgram,
    SourceFile,
    to_uri,
)
from hilt.lsp.positions import SourceLines, to_units
from hilt.lsp.questions import ServerAnswer, ServerQuestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence

SERVERS_MAX = 8
IDLE_SECONDS = 600.0
QUERY_SECONDS = 10.0
INITIALIZE_SECONDS = 60.0
INDEX_SECONDS = 90.0
BEGIN_SECONDS = 1.0  # for a server to announce its indexing
OPENED_MAX = 20  # files that have changed
REINDEX_SECONDS = 5.0  # for a warm server to finish it, of the time of the query

_PROVIDERS = {
    "definition": "definitionProvider",
    "references": "referencesProvider",
    "hover": "hoverProvider",
    "symbols": "documentSymbolProvider",
    "workspace_symbols": "workspaceSymbolProvider",
    "rename": "renameProvider",
}
# these need every file of the workspace, not only those that a file imports
_WHOLE = ("references", "rename", "workspace_symbols")

_METHODS = {
    "definition": "textDocument/definition",
    "references": "textDocument/references",
    "hover": "textDocument/hover",
    "symbols": "textDocument/documentSymbol",
    "workspace_symbols": "workspace/symbol",
    "rename": "textDocument/rename",
}

Launch = Callable[[ServerKind, str], tuple[Site, RunningProgram]]


class ServerGround(NamedTuple):
    """What a caller brings: the workspace folders, the PATH, and how to read a file and start a server confined.

    Callers with the same fingerprint may share a server: its sandbox would be the same.
    """

    roots: tuple[str, ...]
    path: str
    fingerprint: str
    launch: Launch
    read: Callable[[str], str | None]  # the text of a file by its real path; None if tools cannot read it


class LanguageServers:
    """The running servers of one workspace. Safe to use from many threads; closing it ends them all."""

    def __init__(self, *, idle: float = IDLE_SECONDS, most: int = SERVERS_MAX, query: float = QUERY_SECONDS) -> None:
        self._idle_seconds = idle
        self._most = most
        self._query_seconds = query
        self._lock = threading.Lock()
        self._servers: dict[tuple[str, ...], LanguageServer] = {}  # least recently used first
        self._starting: dict[tuple[str, ...], threading.Lock] = {}
        self._users: dict[LanguageServer, int] = {}
        self._watches: dict[tuple[str, ...], DiskWatch] = {}  # by workspace folders
        self._unseen: dict[LanguageServer, dict[str, int]] = {}  # changes on disk that a server was not told
        self._timer: threading.Timer | None = None
        self._closed = False

    @property
    def running(self) -> int:
        """How many servers are running."""
        with self._lock:
            return len(self._servers)

    def ask(
        self,
        ground: ServerGround,
        question: ServerQuestion,
        fence: Fence | None = None,
        report: Report = lambda text, share: None,
    ) -> ServerAnswer:
        """Return the answer of the first server that can give one; start it if it is not running."""
        language = next(language for language in LANGUAGES if language.name == question.language)
        action = question.action
        kinds = [kind for kind in language.servers if _serves(kind, action)]
        found = [(kind, program) for kind in kinds if (program := find(kind, ground.path, ground.roots))]
        if not found:
            raise missing(language, kinds)
        reasons = []
        for kind, program in found:
            flaw = kind.flaw(Site(ground.roots, os.path.realpath(program), ""))
            answer = None if flaw else self._ask_one(ground, kind, program, question, fence, report)
            if answer is not None:
                return answer
            reasons.append(f"{kind.name}: {flaw or f'it does not support {action}'}")
        installs = [kind.install for kind in kinds if kind not in [known for known, _ in found]] or [
            found[0][0].install
        ]
        raise ToolError(
            "lsp_unavailable",
            f"No language server for {language.name} can answer {action}. {'; '.join(reasons)}.",
            suggestion=f"Install one that does: {installs[0]}",
            install=installs,
        )

    def _ask_one(
        self,
        ground: ServerGround,
        kind: ServerKind,
        program: str,
        question: ServerQuestion,
        fence: Fence | None,
        report: Report,
    ) -> ServerAnswer | None:
        """Return the answer of a server, restarted once if it ends meanwhile; None if it lacks the capability."""
        key = (kind.name, program, ground.fingerprint)
        for attempt in range(2):
            server = self._get(key, ground, kind, program, fence, report)
            try:
                if not _is_capable(server, question.action):
                    return None
                return _Asking(self, ground, server, question, fence, report).answer()
            except Gone as gone:
                self._drop(key, server)
                if attempt:
                    raise _crashed(server, str(gone)) from None
                report(f"restarting {kind.name}, which ended: {gone}", None)
            finally:
                self._release(server)
        raise AssertionError

    def ask_warm(self, ground: ServerGround, question: ServerQuestion) -> ServerAnswer | None:
        """Return the answer of a server that is running and ready; None if there is none, or it fails."""
        language = next(language for language in LANGUAGES if language.name == question.language)
        for kind in language.servers:
            program = find(kind, ground.path, ground.roots)
            with self._lock:
                server = self._servers.get((kind.name, program or "", ground.fingerprint))
                if server is None or not server.lives or not server.is_ready:
                    continue
                self._users[server] = self._users.get(server, 0) + 1
            try:
                return _Asking(self, ground, server, question, None, lambda text, share: None).answer()
            except (Gone, Late, AnswerError, ToolError):
                return None
            finally:
                self._release(server)
        return None

    # --- starting and ending --------------------------------------------------------------------------------------

    def _get(
        self,
        key: tuple[str, ...],
        ground: ServerGround,
        kind: ServerKind,
        program: str,
        fence: Fence | None,
        report: Report,
    ) -> LanguageServer:
        """Return a running server, started if necessary, which is in use until it is released."""
        with self._lock:
            starting = self._starting.setdefault(key, threading.Lock())
        while not starting.acquire(timeout=0.1):
            if fence is not None:
                fence.check()
        try:
            with self._lock:
                if self._closed:
                    raise ToolError("cancelled", f"{kind.name} was not asked: hilt is closing.")
                server = self._servers.pop(key, None)
                if server is not None and server.lives:
                    self._servers[key] = server
                    self._users[server] = self._users.get(server, 0) + 1
                    return server
            if server is not None:
                self._forget(server)
            report(f"starting {kind.name}", None)
            server = self._start(ground, kind, program, fence)
            for other in self._keep(key, server):
                other.end()
            return server
        finally:
            starting.release()

    def _keep(self, key: tuple[str, ...], server: LanguageServer) -> list[LanguageServer]:
        """Add a new server, in use; return those that are too many now. Closing may have come first."""
        with self._lock:
            self._users[server] = 1
            if self._closed:
                server.abandon("hilt is closing")
                return [server]
            self._servers[key] = server
            self._unseen[server] = {}
            self._set_timer()
            return self._take_surplus()

    def _start(self, ground: ServerGround, kind: ServerKind, program: str, fence: Fence | None) -> LanguageServer:
        with self._lock:
            if ground.roots not in self._watches:
                self._watches[ground.roots] = DiskWatch(ground.roots)
        for attempt in range(2):
            site, running = ground.launch(kind, program)
            server = LanguageServer(kind, site, running)
            try:
                server.initialize(INITIALIZE_SECONDS, fence, __version__)
                return server
            except Gone as gone:
                server.end()
                if attempt:
                    raise _crashed(server, str(gone)) from None
            except (AnswerError, Late) as error:
                server.end()
                reason = (
                    f"it did not answer within {INITIALIZE_SECONDS:.0f} s" if isinstance(error, Late) else str(error)
                )
                message = f"{kind.name} did not start: {reason}.{_printed(server)}"
                raise ToolError("lsp_unavailable", message, suggestion=_reinstall(kind)) from None
            except BaseException:
                server.end()
                raise
        raise AssertionError

    def _release(self, server: LanguageServer) -> None:
        with self._lock:
            server.used = monotonic()
            self._users[server] = self._users.get(server, 1) - 1
            if not self._users[server]:
                del self._users[server]

    def _drop(self, key: tuple[str, ...], server: LanguageServer) -> None:
        """End a server that must not be used again."""
        with self._lock:
            if self._servers.get(key) is server:
                del self._servers[key]
        self._forget(server)

    def _forget(self, server: LanguageServer) -> None:
        with self._lock:
            self._unseen.pop(server, None)
        server.end()

    def end_hung(self, server: LanguageServer) -> None:
        """End a server that does not answer; the next question starts another."""
        with self._lock:
            for key, known in list(self._servers.items()):
                if known is server:
                    del self._servers[key]
        self._forget(server)

    def _take_surplus(self) -> list[LanguageServer]:
        idle = [key for key, server in self._servers.items() if server not in self._users]
        surplus = [self._servers.pop(key) for key in idle[: max(0, len(self._servers) - self._most)]]
        for server in surplus:
            self._unseen.pop(server, None)
        return surplus

    def _set_timer(self) -> None:
        """Start the timer that ends the longest idle server, unless it runs."""
        if self._timer is None and self._servers and not self._closed:
            oldest = min(server.used for server in self._servers.values())
            self._timer = threading.Timer(max(0.1, oldest + self._idle_seconds - monotonic()), self._end_idle)
            self._timer.daemon = True
            self._timer.start()

    def _end_idle(self) -> None:
        with self._lock:
            self._timer = None
            oldest = monotonic() - self._idle_seconds
            ended = []
            for key, server in list(self._servers.items()):
                if server not in self._users and (server.used <= oldest or not server.lives):
                    ended.append(self._servers.pop(key))
                    self._unseen.pop(server, None)
            self._set_timer()
        for server in ended:
            server.end()

    def close(self) -> None:
        """End all servers."""
        with self._lock:
            self._closed = True
            servers = list(self._servers.values())
            self._servers.clear()
            self._unseen.clear()
            watches = list(self._watches.values())
            self._watches.clear()
            if self._timer is not None:
                self._timer.cancel()
        threads = [threading.Thread(target=server.end, daemon=True) for server in servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for watch in watches:
            watch.close()

    def query_seconds(self) -> float:
        """Return how long a warm server may take for an answer."""
        return self._query_seconds

    def take_changes(self, server: LanguageServer) -> Mapping[str, int]:
        """Return the changes on disk that a server does not know yet."""
        with self._lock:
            watch = self._watches.get(server.site.roots)
            changes = watch.take() if watch is not None else {}
            for other, unseen in self._unseen.items():
                if other.site.roots == server.site.roots:
                    unseen |= changes
            unseen = self._unseen.get(server, {})
            if unseen:
                self._unseen[server] = {}
            return unseen


class _Asking:
    """One question to one server."""

    def __init__(
        self,
        pool: LanguageServers,
        ground: ServerGround,
        server: LanguageServer,
        question: ServerQuestion,
        fence: Fence | None,
        report: Report,
    ) -> None:
        self._pool = pool
        self._ground = ground
        self._server = server
        self._question = question
        self._fence = fence
        self._report = report
        self._notes: list[str] = []
        self._lines = SourceLines(question.text)

    def answer(self) -> ServerAnswer:
        """Bring the server up to date, wait for its index, and ask."""
        server, question = self._server, self._question
        changes = self._pool.take_changes(server)
        if changes:
            server.tell_changes(changes, question.path)
            if not server.kind.rereads and not question.seconds:
                self._open_changed(changes)
        document = SourceFile(question.path, question.text)
        if question.path and question.action != "compare":
            server.sync(document)
        deadline = self._await_index()
        try:
            if question.action == "compare":
                result: Any = self._compare(document)
            elif question.action == "diagnostics":
                diagnosed = server.diagnostics(document, deadline, self._fence)
                result = diagnosed.items
                if not diagnosed.is_current:
                    self._notes.append(f"{server.kind.name} sent no diagnostics for the current text")
            else:
                result = self._request(deadline)
        except Late:
            if question.seconds:
                raise  # a question that waits only for a moment
            raise self._hung() from None
        except AnswerError as error:
            raise ToolError(
                "tool_failed",
                f"{server.kind.name} answered {question.action} with an error: {str(error)[:500]}",
                suggestion="Check the position and the name, or use search_files.",
            ) from None
        server.is_ready = True
        return ServerAnswer(server.kind.name, server.encoding, result, tuple(self._notes), server.site.cache)

    def _open_changed(self, changes: Mapping[str, int]) -> None:
        """Open files that have changed, for a server that indexes a changed file only when it is opened."""
        deadline = monotonic() + self._pool.query_seconds()
        language = language_of(self._question.path)
        for path in [path for path in changes if language_of(path) is language][:OPENED_MAX]:
            text = None if path == self._question.path else self._ground.read(path)
            if text is not None:
                self._server.sync(SourceFile(path, text))
                params = {"textDocument": {"uri": to_uri(path)}}
                self._server.request("textDocument/documentSymbol", params, deadline, self._fence)

    def _await_index(self) -> float:
        """Wait for indexing where the answer needs it; return the deadline of the question."""
        server, question = self._server, self._question
        if question.seconds:
            return monotonic() + question.seconds
        now = monotonic()
        done = True
        if not server.is_ready:
            begin = BEGIN_SECONDS if server.kind.indexes else 0.0
            done = server.await_index(now + INDEX_SECONDS, self._fence, self._tell, begin)
            now = monotonic()
        elif question.action in _WHOLE and server.is_indexing:
            done = server.await_index(now + REINDEX_SECONDS, self._fence, self._tell, 0.0)
        if not done:
            self._notes.append(f"{server.kind.name} is still indexing; the answer may be incomplete.")
        # a server that has not answered yet still reads the project
        seconds = self._pool.query_seconds()
        return (now if server.is_ready else monotonic()) + (seconds if server.is_ready else INITIALIZE_SECONDS)

    def _tell(self, text: str, share: float | None) -> None:
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
        # what is not known to belong to the new text introduces nothing
        return {"before": before.items, "after": after.items if after.is_current else []}

    def _hung(self) -> ToolError:
        """Return the error for a question without an answer; end the server unless it is at work."""
        server = self._server
        seconds = self._pool.query_seconds()
        if server.is_indexing and monotonic() - server.was_busy < seconds:
            return ToolError(
                "timeout",
                f"{server.kind.name} is still indexing the project.",
                suggestion="Send the call again in a while; the server keeps running.",
            )
        self._pool.end_hung(server)
        return ToolError(
            "timeout",
            f"{server.kind.name} did not answer {self._question.action} in time and was ended." + _printed(server),
            suggestion="Send the call again, which starts it anew; or use search_files.",
        )


def _serves(kind: ServerKind, action: str) -> bool:
    wanted = {"workspace_symbols": "symbols", "compare": "diagnostics"}.get(action, action)
    return wanted in kind.actions


def _is_capable(server: LanguageServer, action: str) -> bool:
    provider = _PROVIDERS.get(action)
    return provider is None or server.capabilities.get(provider) not in (None, False)


def missing(language: Language, kinds: list[ServerKind]) -> ToolError:
    """Return the error for a language without an installed server."""
    names = ", ".join(kind.program for kind in kinds)
    plural = "None of these language servers is" if len(kinds) > 1 else "This language server is not"
    return ToolError(
        "lsp_unavailable",
        f"{plural} on the PATH outside the workspace: {names}. {language.name} needs one.",
        suggestion=f"Install one: {kinds[0].install}" if kinds else None,
        install=[kind.install for kind in kinds],
    )


def _reinstall(kind: ServerKind) -> str:
    return f"Install it again: {kind.install}"


def _crashed(server: LanguageServer, reason: str) -> ToolError:
    return ToolError(
        "lsp_unavailable",
        f"{server.kind.name} ended twice: {reason}." + _printed(server),
        suggestion=f"Use search_files, or ask the user to check it. {_reinstall(server.kind)}",
    )


def _printed(server: LanguageServer) -> str:
    text = server.printed()
    return f" It printed: {text}" if text else ""
