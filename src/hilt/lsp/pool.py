"""The language servers of a workspace: started on first use, kept warm, restarted if they fail, stopped when idle."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from hilt import __version__
from hilt.errors import ToolError
from hilt.lsp.answering import Asking, printed
from hilt.lsp.disk import DiskWatch
from hilt.lsp.known_servers import LANGUAGES, Language, ServerKind, Site
from hilt.lsp.language_server import LanguageServer, Report
from hilt.lsp.queries import ServerAnswer, ServerQuestion
from hilt.lsp.server_connection import RunningProgram, ServerError, ServerExited, ServerTimeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence

SERVERS_MAX = 8
IDLE_SECONDS = 600.0
QUERY_SECONDS = 10.0
INITIALIZE_SECONDS = 25.0

_PROVIDERS = {
    "definition": "definitionProvider",
    "references": "referencesProvider",
    "hover": "hoverProvider",
    "symbols": "documentSymbolProvider",
    "workspace_symbols": "workspaceSymbolProvider",
    "rename": "renameProvider",
}
Launch = Callable[[ServerKind, str], tuple[Site, RunningProgram]]


class CallerEnvironment(NamedTuple):
    """The environment of a caller: the workspace folders, and how to find, read and start what a server needs.

    Callers with the same fingerprint may share a server: its sandbox would be the same.
    """

    roots: tuple[str, ...]
    find: Callable[[str], str | None]  # the path of a program outside the workspace
    fingerprint: str
    launch: Launch
    read: Callable[[str], str | None]  # the text of a file by its real path; None if tools cannot read it


class LanguageServers:
    """The running servers of one workspace. Safe to use from many threads; closing it stops them all."""

    def __init__(self, *, idle: float = IDLE_SECONDS, limit: int = SERVERS_MAX, query: float = QUERY_SECONDS) -> None:
        self._idle_seconds = idle
        self._limit = limit
        self.query_seconds = query  # how long a warm server may take for an answer
        self._lock = threading.Lock()
        self._servers: dict[tuple[str, ...], LanguageServer] = {}  # least recently used first
        self._starting: dict[tuple[str, ...], threading.Lock] = {}
        self._users: dict[LanguageServer, int] = {}
        self._timer: threading.Timer | None = None
        self._closed = False

    @property
    def running(self) -> int:
        """How many servers are running."""
        with self._lock:
            return len(self._servers)

    def ask(
        self,
        caller: CallerEnvironment,
        question: ServerQuestion,
        fence: Fence | None = None,
        report: Report = lambda text, share: None,
    ) -> ServerAnswer:
        """Return the answer of the first server that can give one; start it if it is not running."""
        language = _language(question)
        kinds = [kind for kind in language.servers if _serves(kind, question.action)]
        reasons: dict[ServerKind, str] = {}  # why an installed server does not answer
        for kind in kinds:
            program = caller.find(kind.program)
            if program is None:
                continue
            flaw = kind.flaw(Site(caller.roots, os.path.realpath(program), ""))
            answer = None if flaw else self._ask_one(caller, kind, program, question, fence, report)
            if answer is not None:
                return answer
            reasons[kind] = flaw or f"it does not support {question.action}"
        raise _unanswered(language, kinds, question.action, reasons)

    def _ask_one(
        self,
        caller: CallerEnvironment,
        kind: ServerKind,
        program: str,
        question: ServerQuestion,
        fence: Fence | None,
        report: Report,
    ) -> ServerAnswer | None:
        """Return the answer of a server, restarted once if it exits meanwhile; None if it lacks the capability."""
        key = (kind.name, program, caller.fingerprint)
        failure = ""
        for is_last in (False, True):
            server = None
            try:
                server = self._get(key, caller, kind, program, fence, report)
                if not _is_capable(server, question.action):
                    return None
                return Asking(self, caller.read, server, question, fence, report).answer()
            except ServerExited as error:
                failure = str(error)
                if server is not None:
                    self.end(server)
                    failure += f".{printed(server)}"
                if not is_last:
                    report(f"restarting {kind.name} after a failure: {failure}", None)
            finally:
                if server is not None:
                    self._release(server)
        raise ToolError(
            "lsp_unavailable",
            f"{kind.name} failed twice: {failure}",
            suggestion=f"Use search_files, or ask the user to check it. {_reinstall(kind)}",
        )

    def ask_warm(self, caller: CallerEnvironment, question: ServerQuestion) -> ServerAnswer | None:
        """Return the answer of a server that is running and ready; None if there is none, or it fails."""
        for kind in _language(question).servers:
            program = caller.find(kind.program)
            with self._lock:
                server = self._servers.get((kind.name, program or "", caller.fingerprint))
                if server is None or not server.is_alive or not server.is_ready:
                    continue
                self._users[server] = self._users.get(server, 0) + 1
            try:
                return Asking(self, caller.read, server, question, None, lambda text, share: None).answer()
            except (ServerExited, ServerTimeout, ServerError, ToolError):
                return None
            finally:
                self._release(server)
        return None

    # --- starting and stopping ------------------------------------------------------------------------------------

    def _get(
        self,
        key: tuple[str, ...],
        caller: CallerEnvironment,
        kind: ServerKind,
        program: str,
        fence: Fence | None,
        report: Report,
    ) -> LanguageServer:
        """Return a running server, started if necessary; it counts as in use until it is released."""
        with self._lock:
            starting = self._starting.setdefault(key, threading.Lock())
        while not starting.acquire(timeout=0.1):
            if fence is not None:
                fence.check()
        try:
            with self._lock:
                if self._closed:
                    raise ToolError("cancelled", f"{kind.name} was not queried: hilt is closing.")
                server = self._servers.pop(key, None)
                if server is not None and server.is_alive:
                    self._servers[key] = server
                    self._users[server] = self._users.get(server, 0) + 1
                    return server
            if server is not None:
                self.end(server)
            report(f"starting {kind.name}", None)
            server = self._start(caller, kind, program, fence)
            for other in self._add(key, server):
                other.end()
            return server
        finally:
            starting.release()

    def _add(self, key: tuple[str, ...], server: LanguageServer) -> list[LanguageServer]:
        """Add a new server, in use; return servers over the limit, or the new one if the pool is already closed."""
        with self._lock:
            self._users[server] = 1
            if self._closed:
                server.abandon("hilt is closing")
                return [server]
            self._servers[key] = server
            self._set_timer()
            return self._remove_surplus()

    def _start(self, caller: CallerEnvironment, kind: ServerKind, program: str, fence: Fence | None) -> LanguageServer:
        disk = DiskWatch(caller.roots)  # before the server reads anything
        site, running = caller.launch(kind, program)
        server = LanguageServer(kind, site, running, disk)
        try:
            server.initialize(INITIALIZE_SECONDS, fence, __version__)
        except ServerExited as error:
            server.end()
            raise ServerExited(f"{error}.{printed(server)}") from None
        except (ServerError, ServerTimeout) as error:
            server.end()
            reason = (
                f"it did not answer within {INITIALIZE_SECONDS:.0f} s"
                if isinstance(error, ServerTimeout)
                else str(error)
            )
            message = f"{kind.name} did not start: {reason}.{printed(server)}"
            raise ToolError("lsp_unavailable", message, suggestion=_reinstall(kind)) from None
        except BaseException:
            server.end()
            raise
        return server

    def _release(self, server: LanguageServer) -> None:
        with self._lock:
            server.used = monotonic()
            self._users[server] = self._users.get(server, 1) - 1
            if not self._users[server]:
                del self._users[server]

    def end(self, server: LanguageServer) -> None:
        """Stop a server and remove it from the pool; the next question starts another."""
        with self._lock:
            self._servers = {key: other for key, other in self._servers.items() if other is not server}
        server.end()

    def _remove_surplus(self) -> list[LanguageServer]:
        idle = [key for key, server in self._servers.items() if server not in self._users]
        return [self._servers.pop(key) for key in idle[: max(0, len(self._servers) - self._limit)]]

    def _set_timer(self) -> None:
        """Start the timer that stops the longest idle server, unless it is running."""
        if self._timer is None and self._servers and not self._closed:
            oldest = min(server.used for server in self._servers.values())
            self._timer = threading.Timer(max(0.1, oldest + self._idle_seconds - monotonic()), self._end_idle)
            self._timer.daemon = True
            self._timer.start()

    def _end_idle(self) -> None:
        with self._lock:
            self._timer = None
            cutoff = monotonic() - self._idle_seconds
            idle = []
            for key, server in list(self._servers.items()):
                if server not in self._users and (server.used <= cutoff or not server.is_alive):
                    idle.append(self._servers.pop(key))
            self._set_timer()
        for server in idle:
            server.end()

    def close(self) -> None:
        """Stop all servers."""
        with self._lock:
            self._closed = True
            servers = list(self._servers.values())
            self._servers.clear()
            if self._timer is not None:
                self._timer.cancel()
        threads = [threading.Thread(target=server.end, daemon=True) for server in servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _serves(kind: ServerKind, action: str) -> bool:
    required = {"workspace_symbols": "symbols", "compare": "diagnostics"}.get(action, action)
    return required in kind.actions


def _is_capable(server: LanguageServer, action: str) -> bool:
    provider = _PROVIDERS.get(action)
    return provider is None or server.capabilities.get(provider) not in (None, False)


def _language(question: ServerQuestion) -> Language:
    return next(language for language in LANGUAGES if language.name == question.language)


def _unanswered(language: Language, kinds: list[ServerKind], action: str, reasons: dict[ServerKind, str]) -> ToolError:
    """Return the error for a question that no installed server answers."""
    installable = [kind for kind in kinds if kind not in reasons] or kinds
    if reasons:
        details = "; ".join(f"{kind.name}: {reason}" for kind, reason in reasons.items())
        message = f"No language server for {language.name} can answer {action}. {details}."
    else:
        names = ", ".join(kind.program for kind in kinds)
        message = f"No language server for {language.name} is on the PATH outside the workspace, such as {names}."
    return ToolError(
        "lsp_unavailable",
        message,
        suggestion=f"Install one: {installable[0].install}",
        install=[kind.install for kind in installable],
    )


def _reinstall(kind: ServerKind) -> str:
    return f"Reinstall it: {kind.install}"
