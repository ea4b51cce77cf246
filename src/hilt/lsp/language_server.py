"""A running language server: its process, its messages, its open files and what it reports.

One thread reads what the server sends. Requests wait for their answers on the threads of their calls. A server that
breaks the protocol, floods, or does not answer is killed, and every waiting request fails with the reason.
"""

from __future__ import annotations

import os
import select
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from time import monotonic
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote, urlsplit

from hilt.errors import ToolError
from hilt.lsp import framing
from hilt.lsp.known_servers import ServerKind, Site, language_id
from hilt.lsp.positions import ENCODINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence

UNSENT_BYTES = 128 << 20
OPEN_MAX = 64  # files; the least recently used ones are closed
WRITE_SECONDS = 5.0  # a server that reads nothing for so long hangs
END_SECONDS = 1.0  # for a server to answer `shutdown`
SETTLE_SECONDS = 0.3  # after the last diagnostics that were pushed
QUIET_SECONDS = 2.0  # without any pushed after a change
FIRST_SECONDS = 5.0  # for the first of a file
FLOOD_SECONDS = 10.0
FLOOD_MESSAGES = 50_000  # unsolicited ones
FLOOD_BYTES = 512 << 20

_CHUNK_BYTES = 1 << 16
_STDERR_BYTES = 4096
_LOOK_SECONDS = 1.0  # between two looks at the limits of the process
_RETRIES = 8  # of a request that the server gave up because a file changed
_CONTENT_MODIFIED, _SERVER_CANCELLED, _METHOD_NOT_FOUND = -32801, -32802, -32601

# requests of a server that need no more than an answer; changes of files are reported whether it registers or not
_ACKNOWLEDGED = (
    *("client/registerCapability", "client/unregisterCapability"),
    *("window/workDoneProgress/create", "window/showMessageRequest"),
)

Report = Callable[[str, float | None], None]  # a message on the progress of a call, and a percentage


class RunningProgram(Protocol):
    """The process of a server and our ends of its pipes, which do not block."""

    stdin: int
    stdout: int
    stderr: int

    def excess(self) -> str | None:
        """Return which limit the process exceeded, if any."""

    def outcome(self) -> str:
        """Return how the process ended, as far as known."""

    def kill(self) -> None:
        """Kill the process; returns at once."""

    def close(self) -> None:
        """Kill the process and everything it started, and wait for their end."""


class Gone(Exception):
    """The server has ended; the text says why."""


class Late(Exception):
    """The server did not answer in time."""


class AnswerError(Exception):
    """The server answered a request with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


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


class _Window:
    """What arrived since a moment."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.messages = 0  # unsolicited ones
        self.bytes = 0


class _Slot:
    """A request that waits for its answer."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.message: dict[str, Any] | None = None


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

    def __init__(self, kind: ServerKind, site: Site, program: RunningProgram) -> None:
        self.kind = kind
        self.site = site
        self.encoding = "utf-16"
        self.capabilities: dict[str, Any] = {}
        self.used = monotonic()
        self.is_ready = False  # whether it has answered something, so that it is no longer starting
        self._folders = [{"uri": to_uri(path), "name": os.path.basename(path) or path} for path in site.roots]
        self._settings = kind.settings(site)
        self._program = program
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._unsent = bytearray()
        self._sent_at = monotonic()
        self._nudges = os.pipe()
        for end in self._nudges:
            os.set_blocking(end, False)
        self._syncing = threading.RLock()
        self._slots: dict[int, _Slot] = {}
        self._number = 0
        self._gone: str | None = None
        self._documents: OrderedDict[str, _Opened] = OrderedDict()
        self._pushed: dict[str, _Pushed] = {}
        self._pulled: dict[str, tuple[bytes, list[Any]]] = {}
        self._progress: dict[Any, tuple[str, float | None]] = {}
        self._progress_at = monotonic()
        self._has_begun = False  # any progress
        self._stderr = bytearray()
        self._frames = framing.Frames()
        self._window = _Window(monotonic())
        self._reader = threading.Thread(target=self._read, name=f"hilt-{kind.name}", daemon=True)
        self._reader.start()

    # --- its life -------------------------------------------------------------------------------------------------

    @property
    def lives(self) -> bool:
        """Whether the server accepts requests."""
        return self._gone is None

    def initialize(self, seconds: float, fence: Fence | None, version: str) -> None:
        """Greet the server and learn what it can do."""
        deadline = monotonic() + seconds
        answer = self.request("initialize", self._greeting(version), deadline, fence)
        answer = answer if isinstance(answer, dict) else {}
        capabilities = answer.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        chosen = self.capabilities.get("positionEncoding")
        self.encoding = chosen if chosen in ENCODINGS else "utf-16"
        self.notify("initialized", {})
        if self._settings:
            self.notify("workspace/didChangeConfiguration", {"settings": self._settings})

    def end(self) -> None:
        """Ask the server to exit, and kill what is left of it."""
        if self.lives:
            try:
                self.request("shutdown", None, monotonic() + END_SECONDS, None)
                self.notify("exit", None)
            except (Gone, Late, AnswerError):
                pass  # it is killed below
        self.abandon("it was stopped")
        self._reader.join(END_SECONDS)
        with self._writing:
            self._program.close()
            for end in self._nudges:
                os.close(end)
            self._nudges = -1, -1

    def abandon(self, reason: str) -> None:
        """Kill the server; requests that wait fail with the reason."""
        self._program.kill()
        with self._changed:
            self._gone = self._gone or reason
            slots = list(self._slots.values())
            self._changed.notify_all()
        self._nudge()
        for slot in slots:
            slot.ready.set()

    def printed(self) -> str:
        """Return the end of what the server printed besides messages."""
        noise = bytes(self._stderr) + bytes(self._frames.noise)
        return noise.decode("utf-8", "replace").strip()[-1000:]

    def _greeting(self, version: str) -> dict[str, Any]:
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
                    "workspaceEdit": {"documentChanges": True, "resourceOperations": ["create", "rename", "delete"]},
                },
                "textDocument": {
                    "synchronization": {"didSave": True},
                    "definition": links,
                    "references": {},
                    "hover": {"contentFormat": ["markdown", "plaintext"]},
                    "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
                    "publishDiagnostics": {"versionSupport": True, "relatedInformation": False},
                    # registered later, the first question would not know of it
                    "diagnostic": {"dynamicRegistration": False, "relatedDocumentSupport": False},
                    "rename": {"prepareSupport": True},
                },
            },
        }

    # --- requests -------------------------------------------------------------------------------------------------

    def request(self, method: str, params: Any, deadline: float, fence: Fence | None) -> Any:
        """Return the result of a request; raise AnswerError, Gone, Late, or ToolError if the call is given up."""
        for _ in range(_RETRIES):
            try:
                return self._request(method, params, deadline, fence)
            except AnswerError as error:
                if error.code not in (_CONTENT_MODIFIED, _SERVER_CANCELLED):
                    raise
                if fence is not None:
                    fence.check()
        return self._request(method, params, deadline, fence)

    def _request(self, method: str, params: Any, deadline: float, fence: Fence | None) -> Any:
        slot = _Slot()
        with self._changed:
            self._number += 1
            number = self._number
            self._slots[number] = slot
        if fence is not None:
            fence.watch(slot.ready.set)
        try:
            self._send({**_message(method, params), "id": number})
            while slot.message is None:
                if fence is not None:
                    fence.check()
                if self._gone is not None:
                    raise Gone(self._gone)
                left = deadline - monotonic()
                if left <= 0 or (not slot.ready.wait(left) and slot.message is None):
                    raise Late(method)
                if slot.message is None:
                    slot.ready.clear()
        except (Late, ToolError):
            self._cancel(number)
            raise
        finally:
            with self._changed:
                self._slots.pop(number, None)
        return _result(slot.message)

    def _cancel(self, number: int) -> None:
        with suppress(Gone):
            self.notify("$/cancelRequest", {"id": number})

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send(_message(method, params))

    def _send(self, message: dict[str, Any]) -> None:
        """Queue a message; what the pipe does not take at once, the reading thread writes."""
        data = framing.encode(message)
        with self._writing:
            if self._gone is not None:
                raise Gone(self._gone)
            if len(self._unsent) > UNSENT_BYTES:
                raise Gone("it stopped reading its input")
            if not self._unsent:
                self._sent_at = monotonic()
            self._unsent += data
            self._flush()
            if self._unsent:
                self._nudge()

    def _flush(self) -> None:
        """Write what the pipe takes; reading the output reports a closed one."""
        try:
            while self._unsent:
                count = os.write(self._program.stdin, self._unsent[:_CHUNK_BYTES])
                del self._unsent[:count]
                self._sent_at = monotonic()
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()

    def _nudge(self) -> None:
        """Wake the reading thread."""
        with suppress(OSError):  # a full pipe wakes it anyway
            os.write(self._nudges[1], b"n")

    # --- files ----------------------------------------------------------------------------------------------------

    def sync(self, document: SourceFile) -> int:
        """Open a file, or send its text if that has changed; return the version that the server knows."""
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

    def tell_changes(self, changes: Mapping[str, int], current: str) -> None:
        """Report files that were created (1), changed (2) or deleted (3) on disk, by path.

        The server ignores the disk for an open file, so all of these but the current one are closed.
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
            known = self._documents.get(uri)
            since = 0.0 if known is not None and known.digest == digest else monotonic()
            version = self.sync(document)
        if self.kind.pull is None and not self.capabilities.get("diagnosticProvider"):
            return self._await_pushed(uri, version, since, deadline, fence)
        cached = self._pulled.get(uri)
        if cached is not None and cached[0] == digest and not self._progress:
            return Diagnosed(cached[1])
        items = self._pull(uri, deadline, fence)
        self._pulled[uri] = digest, items
        return Diagnosed(items)

    @contextmanager
    def exclusively(self, seconds: float) -> Iterator[None]:
        """Keep other calls from changing the texts that the server knows; wait for them at most this long."""
        if not self._syncing.acquire(timeout=seconds):
            raise Late("the texts of the server are in use")
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

        Some servers push nothing when nothing has changed. So one that answers a request, but pushes nothing for a
        while after that, is taken at its last word.
        """
        self.request("textDocument/documentSymbol", {"textDocument": {"uri": uri}}, deadline, fence)
        quiet = min(deadline, monotonic() + (QUIET_SECONDS if uri in self._pushed else FIRST_SECONDS))
        if fence is not None:
            fence.watch(self._wake)
        with self._changed:
            while True:
                if fence is not None:
                    fence.check()
                if self._gone is not None:
                    raise Gone(self._gone)
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

    def await_index(self, deadline: float, fence: Fence | None, report: Report, begin_seconds: float) -> bool:
        """Wait until no progress is reported; return False if that takes too long.

        A server that announces its indexing gets `begin_seconds` to begin.
        """
        begin = monotonic() + begin_seconds
        if fence is not None:
            fence.watch(self._wake)
        told: tuple[str, float | None] | None = None
        while True:
            with self._changed:
                if self._gone is not None:
                    raise Gone(self._gone)
                current = next(iter(self._progress.values()), None)
                now = monotonic()
                if current is None and (self._has_begun or now >= begin):
                    return True
                if now >= deadline:
                    return False
                if current == told:
                    self._changed.wait(min(deadline, begin if current is None else deadline) - now)
            if fence is not None:
                fence.check()
            if current is not None and current != told:
                report(*current)
                told = current

    # --- what it sends --------------------------------------------------------------------------------------------

    def _read(self) -> None:
        reason = ""
        try:
            reason = self._follow()
        except framing.BrokenStream as broken:
            reason = str(broken)
        except OSError:
            reason = "it was stopped"  # while its output was read
        finally:
            # whatever happens here, no request may keep waiting
            self.abandon(reason or "its output could not be read")

    def _follow(self) -> str:
        """Read until the server ends; return why."""
        stdin, stdout, stderr = self._program.stdin, self._program.stdout, self._program.stderr
        poller = select.poll()
        for end in (stdout, stderr, self._nudges[0]):
            poller.register(end, select.POLLIN)
        looked = monotonic()
        while True:
            if self._unsent:
                poller.register(stdin, select.POLLOUT)
            ready = dict(poller.poll(_LOOK_SECONDS * 1000))
            if self._gone is not None:
                return self._gone
            now = monotonic()
            if now - looked > _LOOK_SECONDS:
                looked = now
                exceeded = self._program.excess()
                if exceeded:
                    return exceeded
            if self._nudges[0] in ready:
                _take(self._nudges[0])
            if self._unsent:
                with self._writing:
                    self._flush()
                if self._unsent and now - self._sent_at > WRITE_SECONDS:
                    return "it stopped reading its input"
            if not self._unsent and stdin in ready:
                poller.unregister(stdin)
            if stderr in ready:
                data = _take(stderr)
                self._window.bytes += len(data or b"")
                self._stderr += data or b""
                del self._stderr[:-_STDERR_BYTES]
                if data == b"":
                    poller.unregister(stderr)
            if stdout in ready:
                data = _take(stdout)
                if data == b"":
                    outcome = self._program.outcome()
                    return self._program.excess() or outcome
                if data is not None and not self._accept(data):
                    return "it sent too many messages or too much data"

    def _accept(self, data: bytes) -> bool:
        """Handle output; False if the server sends too much."""
        now = monotonic()
        if now - self._window.began > FLOOD_SECONDS:
            self._window = _Window(now)
        self._window.bytes += len(data)
        for message in self._frames.feed(data):
            self._receive(message)
        return self._window.messages <= FLOOD_MESSAGES and self._window.bytes <= FLOOD_BYTES

    def _receive(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if isinstance(method, str):
            self._window.messages += 1
            params = message.get("params")
            if message.get("id") is not None:
                self._answer(message["id"], method, params)
            elif isinstance(params, dict):
                self._hear(method, params)
            return
        number = message.get("id")
        slot = self._slots.get(number) if isinstance(number, int) else None
        if slot is not None:
            slot.message = message
            slot.ready.set()

    def _hear(self, method: str, params: dict[str, Any]) -> None:
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

    def _answer(self, id: Any, method: str, params: Any) -> None:
        """ServerAnswer a request of the server."""
        params = params if isinstance(params, dict) else {}
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "result": None}
        if method == "workspace/configuration":
            items = params.get("items")
            items = items if isinstance(items, list) else []
            reply["result"] = [self._setting(item) for item in items]
        elif method == "workspace/workspaceFolders":
            reply["result"] = self._folders
        elif method == "workspace/applyEdit":
            reply["result"] = {"applied": False, "failureReason": "This client does not apply edits of the server."}
        elif method == "window/showDocument":
            reply["result"] = {"success": False}
        elif method.startswith("workspace/") and method.endswith("/refresh"):
            with self._changed:
                self._pulled.clear()
        elif method not in _ACKNOWLEDGED:
            del reply["result"]
            reply["error"] = {"code": _METHOD_NOT_FOUND, "message": f"{method} is not supported."}
        with suppress(Gone):
            self._send(reply)

    def _setting(self, item: Any) -> Any:
        section = item.get("section") if isinstance(item, dict) else None
        value: Any = self._settings
        for name in section.split(".") if isinstance(section, str) and section else ():
            value = value.get(name) if isinstance(value, dict) else None
        return value


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _message(method: str, params: Any) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def _result(message: dict[str, Any]) -> Any:
    error = message.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        text = error.get("message")
        raise AnswerError(code if isinstance(code, int) else 0, text if isinstance(text, str) else "no reason")
    return message.get("result")


def _take(pipe: int) -> bytes | None:
    """Return bytes from a pipe; b"" at its end, None if there are none now."""
    try:
        return os.read(pipe, _CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""
