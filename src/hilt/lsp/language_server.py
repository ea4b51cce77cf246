"""A language server that runs for a workspace: its capabilities, open files, diagnostics and progress."""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from hilt.lsp.disk import DiskWatch
from hilt.lsp.known_servers import ServerKind, Site, language_id
from hilt.lsp.positions import ENCODINGS
from hilt.lsp.server_connection import (
    METHOD_NOT_FOUND,
    RunningProgram,
    ServerConnection,
    ServerError,
    ServerTimeout,
    UnknownRequest,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence

OPEN_MAX = 64  # files; the least recently used ones are closed
SETTLE_SECONDS = 0.3  # to wait for more after the last pushed diagnostics
QUIET_SECONDS = 2.0  # to wait for diagnostics to be pushed after a change
FIRST_SECONDS = 5.0  # to wait for the first diagnostics of a file

# requests of a server that are only acknowledged; file changes are reported whether it registers or not
_ACKNOWLEDGED = (
    *("client/registerCapability", "client/unregisterCapability"),
    *("window/workDoneProgress/create", "window/showMessageRequest"),
)

Report = Callable[[str, float | None], None]  # a message on the progress of a call, and a percentage


class SourceFile(NamedTuple):
    """A file as the caller read it, by its real path."""

    path: str
    text: str


class Diagnosed(NamedTuple):
    """The diagnostics of a file; not current if the server pushed none for its text."""

    items: list[Any]
    is_current: bool = True


class _Opened:
    def __init__(self, version: int, digest: bytes) -> None:
        self.version = version
        self.digest = digest


class _Pushed(NamedTuple):
    version: int | None
    items: list[Any]
    at: float


def to_uri(path: str) -> str:
    """Return the URI of a path."""
    return "file://" + quote(os.fsencode(path))


def to_path(uri: str) -> str | None:
    """Return the path of a file URI, normalized; None for any other."""
    if not uri.startswith("file:"):
        return None
    parts = urlsplit(uri)
    path = unquote(parts.path, "utf-8", "surrogateescape")
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        return None
    return os.path.normpath(path)


class LanguageServer:
    """One server for one workspace. Safe to use from many threads."""

    def __init__(self, kind: ServerKind, site: Site, program: RunningProgram, disk: DiskWatch) -> None:
        """`disk` finds the changes that were not reported to it."""
        self.kind = kind
        self.site = site
        self.disk = disk
        self.encoding = "utf-16"
        self.capabilities: dict[str, Any] = {}
        self.used = monotonic()
        self.is_ready = False  # whether it has answered a question
        self._folders = [{"uri": to_uri(path), "name": os.path.basename(path) or path} for path in site.roots]
        self._settings = kind.settings(site)
        self._changed = threading.Condition()
        self._syncing = threading.RLock()
        self._documents: OrderedDict[str, _Opened] = OrderedDict()
        self._pushed: dict[str, _Pushed] = {}
        self._pulled: dict[str, tuple[bytes, list[Any]]] = {}
        self._progress: dict[Any, tuple[str, float | None]] = {}
        self._progress_at = monotonic()
        self._has_begun = False  # whether it reported any progress
        self._knows_files = not kind.announces
        self._connection = ServerConnection(kind.name, program, self._on_request, self._on_notification, self._wake)
        self.request = self._connection.request
        self.notify = self._connection.notify
        self.abandon = self._connection.abandon
        self.end = self._connection.end
        self.printed = self._connection.printed

    @property
    def is_alive(self) -> bool:
        """Whether the server accepts requests."""
        return self._connection.exit_reason is None

    def initialize(self, seconds: float, fence: Fence | None, version: str) -> None:
        """Initialize the server, and store its capabilities."""
        deadline = monotonic() + seconds
        result = self.request("initialize", self._initialize_params(version), deadline, fence)
        result = result if isinstance(result, dict) else {}
        capabilities = result.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        encoding = self.capabilities.get("positionEncoding")
        self.encoding = encoding if encoding in ENCODINGS else "utf-16"
        self.notify("initialized", {})
        if self._settings:
            self.notify("workspace/didChangeConfiguration", {"settings": self._settings})

    def _initialize_params(self, version: str) -> dict[str, Any]:
        links = {"linkSupport": True, "dynamicRegistration": False}
        return {
            "processId": None,  # it cannot see our process from its sandbox
            "clientInfo": {"name": "hilt", "version": version},
            "rootUri": self._folders[0]["uri"],
            "rootPath": self.site.roots[0],
            "workspaceFolders": self._folders,
            "initializationOptions": self.kind.options(self.site),
            "capabilities": {
                "general": {"positionEncodings": list(ENCODINGS)},
                "window": {"workDoneProgress": True, "showMessage": {}, "showDocument": {"support": False}},
                "workspace": {
                    "applyEdit": False,
                    "configuration": True,
                    "workspaceFolders": True,
                    "didChangeConfiguration": {"dynamicRegistration": True},
                    "didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True},
                    "symbol": {"dynamicRegistration": False},
                    "workspaceEdit": {"documentChanges": True},
                },
                "textDocument": {
                    "synchronization": {},
                    "definition": links,
                    "references": {},
                    "hover": {"contentFormat": ["markdown", "plaintext"]},
                    "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
                    "publishDiagnostics": {"versionSupport": True, "relatedInformation": False},
                    # not dynamic: the first question may come before the registration
                    "diagnostic": {"dynamicRegistration": False, "relatedDocumentSupport": False},
                    "rename": {},
                },
            },
        }

    # --- files ----------------------------------------------------------------------------------------------------

    def sync(self, document: SourceFile) -> int:
        """Open a file, or send its text if it has changed; return the version that the server has."""
        uri = to_uri(document.path)
        digest = _digest(document.text)
        with self._syncing:
            opened = self._documents.get(uri)
            if opened is None:
                self._documents[uri] = opened = _Opened(1, digest)
                item = {"uri": uri, "languageId": language_id(document.path), "version": 1, "text": document.text}
                self.notify("textDocument/didOpen", {"textDocument": item})
            elif opened.digest != digest:
                opened.version += 1
                opened.digest = digest
                self.notify(
                    "textDocument/didChange",
                    {
                        "textDocument": {"uri": uri, "version": opened.version},
                        "contentChanges": [{"text": document.text}],
                    },
                )
            self._documents.move_to_end(uri)
            while len(self._documents) > OPEN_MAX:
                self._close(next(iter(self._documents)))
            return opened.version

    def _close(self, uri: str) -> None:
        del self._documents[uri]
        with self._changed:
            self._pushed.pop(uri, None)
            self._pulled.pop(uri, None)
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def report_changes(self, changes: Mapping[str, int], current: str) -> None:
        """Report files that were created (1), changed (2) or deleted (3) on disk, by path.

        The server ignores the disk for an open file, so changed files other than the current one are closed.
        """
        with self._syncing:
            with self._changed:
                self._pulled.clear()  # diagnostics may depend on any file
            events = [{"uri": to_uri(path), "type": kind} for path, kind in changes.items()]
            for path in changes:
                if path != current and to_uri(path) in self._documents:
                    self._close(to_uri(path))
            self.notify("workspace/didChangeWatchedFiles", {"changes": events})

    # --- diagnostics ----------------------------------------------------------------------------------------------

    def diagnostics(self, document: SourceFile, deadline: float, fence: Fence | None) -> Diagnosed:
        """Return the diagnostics of a file: pulled if possible, else those that the server pushes for this text."""
        uri = to_uri(document.path)
        digest = _digest(document.text)
        with self._syncing:
            opened = self._documents.get(uri)
            since = 0.0 if opened is not None and opened.digest == digest else monotonic()
            version = self.sync(document)
        if self.kind.pull is None and self.capabilities.get("diagnosticProvider") in (None, False):
            return self._await_pushed(uri, version, since, deadline, fence)
        cached = self._pulled.get(uri)
        if cached is not None and cached[0] == digest and not self._progress:
            return Diagnosed(cached[1])
        try:
            items = self._pull(uri, deadline, fence)
        except ServerError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            self.capabilities.pop("diagnosticProvider", None)  # it only pushes them, whatever it says
            return self._await_pushed(uri, version, since, deadline, fence)
        self._pulled[uri] = digest, items
        return Diagnosed(items)

    @contextmanager
    def exclusively(self, seconds: float) -> Iterator[None]:
        """Keep other calls from changing the texts that the server has; wait for them at most this long."""
        if not self._syncing.acquire(timeout=seconds):
            raise ServerTimeout("the texts of the server are in use")
        try:
            yield
        finally:
            self._syncing.release()

    def _pull(self, uri: str, deadline: float, fence: Fence | None) -> list[Any]:
        pull = self.kind.pull
        if pull is not None:
            commands = pull.commands(uri)
            results = [self.request("workspace/executeCommand", params, deadline, fence) for params in commands]
            return [item for result in results for item in pull.items(result)]
        report = self.request("textDocument/diagnostic", {"textDocument": {"uri": uri}}, deadline, fence)
        items = report.get("items") if isinstance(report, dict) else None
        return items if isinstance(items, list) else []

    def _await_pushed(self, uri: str, version: int, since: float, deadline: float, fence: Fence | None) -> Diagnosed:
        """Wait for diagnostics of this version; without versions, for those since a time, until no more arrive.

        Some servers push nothing if nothing has changed. If a server answers a request, but pushes nothing for a while
        after that, its last diagnostics are returned.
        """
        if self.capabilities.get("documentSymbolProvider"):
            self.request("textDocument/documentSymbol", {"textDocument": {"uri": uri}}, deadline, fence)
        quiet = min(deadline, monotonic() + (QUIET_SECONDS if uri in self._pushed else FIRST_SECONDS))
        if fence is not None:
            fence.watch(self._wake)
        with self._changed:
            while True:
                if fence is not None:
                    fence.check()
                self._connection.check()
                pushed = self._pushed.get(uri)
                now = monotonic()
                if pushed is not None and pushed.at >= since and pushed.version in (None, version):
                    until = min(pushed.at + SETTLE_SECONDS, deadline)
                    if now >= until:
                        return Diagnosed(pushed.items)
                elif now >= quiet:
                    return Diagnosed(pushed.items if pushed is not None else [], is_current=False)
                else:
                    until = quiet
                self._changed.wait(until - now)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # --- indexing -------------------------------------------------------------------------------------------------

    @property
    def is_indexing(self) -> bool:
        """Whether the server reports progress."""
        return bool(self._progress)

    @property
    def was_busy(self) -> float:
        """When the server last reported progress, on the clock of `monotonic`."""
        return self._progress_at

    def await_files(self, deadline: float, fence: Fence | None) -> bool:
        """Wait until the server knows the files of the project; return False if that takes too long."""
        if fence is not None:
            fence.watch(self._wake)
        with self._changed:
            while not self._knows_files:
                self._connection.check()
                if fence is not None:
                    fence.check()
                remaining = deadline - monotonic()
                if remaining <= 0:
                    return False
                self._changed.wait(remaining)
        return True

    def await_index(self, deadline: float, fence: Fence | None, report: Report, begin_seconds: float) -> bool:
        """Wait until no progress is reported; return False if that takes too long.

        A server that announces its indexing gets `begin_seconds` to begin.
        """
        begin = monotonic() + begin_seconds
        if fence is not None:
            fence.watch(self._wake)
        reported: tuple[str, float | None] | None = None
        while True:
            with self._changed:
                self._connection.check()
                current = next(iter(self._progress.values()), None)
                now = monotonic()
                if current is None and (self._has_begun or now >= begin):
                    return True
                if now >= deadline:
                    return False
                if current == reported:
                    self._changed.wait(min(deadline, begin if current is None else deadline) - now)
            if fence is not None:
                fence.check()
            if current is not None and current != reported:
                report(*current)
                reported = current

    # --- messages of the server -----------------------------------------------------------------------------------

    def _on_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "textDocument/publishDiagnostics":
            uri, items = params.get("uri"), params.get("diagnostics")
            if isinstance(uri, str) and isinstance(items, list):
                version = params.get("version")
                pushed = _Pushed(version if isinstance(version, int) else None, items, monotonic())
                with self._changed:
                    key = to_uri(to_path(uri) or "")  # servers differ in what they escape
                    if key in self._documents:
                        self._pushed[key] = pushed
                        self._changed.notify_all()
        elif method == "window/logMessage" and not self._knows_files:
            if re.match(self.kind.announces, str(params.get("message"))):
                with self._changed:
                    self._knows_files = True
                    self._changed.notify_all()
        elif method == "$/progress":
            self._note_progress(params.get("token"), params.get("value"))

    def _note_progress(self, token: Any, value: Any) -> None:
        if not isinstance(value, dict) or not isinstance(token, int | str):
            return
        with self._changed:
            self._progress_at = monotonic()
            if value.get("kind") == "end":
                self._progress.pop(token, None)
            elif value.get("kind") in ("begin", "report") and len(self._progress) < OPEN_MAX:
                self._has_begun = True
                title, _ = self._progress.get(token, ("", None))
                words = [value.get("title") or title.partition(": ")[0], value.get("message")]
                percentage = value.get("percentage")
                text = ": ".join(word for word in words if isinstance(word, str) and word)
                self._progress[token] = text, float(percentage) if isinstance(percentage, int | float) else None
            self._changed.notify_all()

    def _on_request(self, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request of the server."""
        if method == "workspace/configuration":
            items = params.get("items")
            return [self._setting(item) for item in items] if isinstance(items, list) else []
        if method == "workspace/workspaceFolders":
            return self._folders
        if method == "workspace/applyEdit":
            return {"applied": False, "failureReason": "This client does not apply edits of the server."}
        if method == "window/showDocument":
            return {"success": False}
        if method.startswith("workspace/") and method.endswith("/refresh"):
            with self._changed:
                self._pulled.clear()
            return None
        if method in _ACKNOWLEDGED:
            return None
        raise UnknownRequest(method)

    def _setting(self, item: Any) -> Any:
        section = item.get("section") if isinstance(item, dict) else None
        value: Any = self._settings
        for name in section.split(".") if isinstance(section, str) and section else ():
            value = value.get(name) if isinstance(value, dict) else None
        return value


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
