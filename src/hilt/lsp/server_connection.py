"""The messages exchanged with a server: requests and their answers, over the pipes of its process.

One thread reads the output of the server, and writes data that did not fit into its input pipe. Requests wait for
their answers on the threads of their calls. A server that breaks the protocol, floods, or stops reading is killed, and
every pending request fails with the reason.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Protocol

from hilt.errors import ToolError
from hilt.lsp import framing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.fence import Fence

UNSENT_BYTES = 128 << 20
WRITE_SECONDS = 5.0  # a server that reads nothing for this long is stopped
END_SECONDS = 1.0  # for a server to answer `shutdown`
RETRIES = 8  # of a request that the server cancelled because a file changed
RETRY_SECONDS = 0.05
METHOD_NOT_FOUND = -32601
FLOOD_SECONDS = 10.0
FLOOD_MESSAGES = 50_000  # unsolicited ones
FLOOD_BYTES = 512 << 20

_CHUNK_BYTES = 1 << 16
_STDERR_BYTES = 4096
_CHECK_SECONDS = 1.0  # between checks of the limits of the process
_CONTENT_MODIFIED, _SERVER_CANCELLED = -32801, -32802


class RunningProgram(Protocol):
    """The process of a server and our ends of its pipes, which do not block."""

    stdin: int
    stdout: int
    stderr: int

    def excess(self) -> str | None:
        """Return which limit the process exceeded, if any."""

    def outcome(self) -> str:
        """Return how the process exited, as far as known."""

    def kill(self) -> None:
        """Kill the process; returns at once."""

    def close(self) -> None:
        """Kill the process and everything it started, and wait until they have exited."""


class ServerExited(Exception):
    """The server has exited; the message gives the reason."""


class ServerTimeout(Exception):
    """The server did not answer in time."""


class ServerError(Exception):
    """The server answered a request with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnknownRequest(Exception):
    """A request of the server that is not supported."""


class _Window:
    """How much the server sent since a point in time."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.messages = 0  # unsolicited ones
        self.bytes = 0


class _PendingRequest:
    """A pending request."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.message: dict[str, Any] | None = None


class ServerConnection:
    """The requests of both sides. Safe to use from many threads.

    `on_request` returns the result of a request of the server, or raises UnknownRequest; `on_notification` receives its
    notifications, and `on_exit` is called when it has exited. All three may be called on the reading thread.
    """

    def __init__(
        self,
        name: str,
        program: RunningProgram,
        on_request: Callable[[str, dict[str, Any]], Any],
        on_notification: Callable[[str, dict[str, Any]], None],
        on_exit: Callable[[], None],
    ) -> None:
        self.exit_reason: str | None = None  # why the server has exited
        self._program = program
        self._on_request = on_request
        self._on_notification = on_notification
        self._on_exit = on_exit
        self._lock = threading.Lock()
        self._pending: dict[int, _PendingRequest] = {}
        self._number = 0
        self._writing = threading.Lock()
        self._unsent = bytearray()
        self._sent_at = monotonic()
        self._nudges = os.pipe()
        for end in self._nudges:
            os.set_blocking(end, False)
        self._stderr = bytearray()
        self._frames = framing.Frames()
        self._window = _Window(monotonic())
        self._reader = threading.Thread(target=self._read, name=f"hilt-{name}", daemon=True)
        self._reader.start()

    def check(self) -> None:
        """Raise if the server has exited."""
        if self.exit_reason is not None:
            raise ServerExited(self.exit_reason)

    def abandon(self, reason: str) -> None:
        """Kill the server; pending requests fail with the reason."""
        self._program.kill()
        with self._lock:
            self.exit_reason = self.exit_reason or reason
            pending = list(self._pending.values())
        self._nudge()
        for request in pending:
            request.ready.set()
        self._on_exit()

    def end(self) -> None:
        """Ask the server to exit, then kill its remaining processes."""
        if self.exit_reason is None:
            with suppress(ServerExited, ServerTimeout, ServerError):
                self.request("shutdown", None, monotonic() + END_SECONDS, None)
                self.notify("exit", None)
        self.abandon("it was stopped")
        self._reader.join(END_SECONDS)
        with self._writing:
            if self._nudges[0] >= 0:  # several calls may stop it at the same time
                self._program.close()
                for end in self._nudges:
                    os.close(end)
                self._nudges = -1, -1

    def printed(self) -> str:
        """Return the end of the output that is not messages."""
        noise = bytes(self._stderr) + bytes(self._frames.noise)
        return noise.decode("utf-8", "replace").strip()[-1000:]

    # --- requests -------------------------------------------------------------------------------------------------

    def request(self, method: str, params: Any, deadline: float, fence: Fence | None) -> Any:
        """Return the result of a request; raise ServerError, ServerExited, ServerTimeout, or ToolError if cancelled."""
        for _ in range(RETRIES):
            try:
                return self._request(method, params, deadline, fence)
            except ServerError as error:
                if error.code not in (_CONTENT_MODIFIED, _SERVER_CANCELLED):
                    raise
                if fence is not None:
                    fence.check()
                sleep(RETRY_SECONDS)
        return self._request(method, params, deadline, fence)

    def _request(self, method: str, params: Any, deadline: float, fence: Fence | None) -> Any:
        pending = _PendingRequest()
        with self._lock:
            self._number += 1
            number = self._number
            self._pending[number] = pending
        if fence is not None:
            fence.watch(pending.ready.set)
        try:
            self._send({**_message(method, params), "id": number})
            while pending.message is None:
                if fence is not None:
                    fence.check()
                self.check()
                remaining = deadline - monotonic()
                if remaining <= 0 or (not pending.ready.wait(remaining) and pending.message is None):
                    raise ServerTimeout(method)
                if pending.message is None:
                    pending.ready.clear()
        except (ServerTimeout, ToolError):
            with suppress(ServerExited):
                self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            with self._lock:
                self._pending.pop(number, None)
        return _result(pending.message)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send(_message(method, params))

    def _send(self, message: dict[str, Any]) -> None:
        """Queue a message; the reading thread writes what does not fit into the pipe."""
        data = framing.encode(message)
        with self._writing:
            self.check()
            if len(self._unsent) > UNSENT_BYTES:
                raise ServerExited("it stopped reading its input")
            if not self._unsent:
                self._sent_at = monotonic()
            self._unsent += data
            self._flush()
            if self._unsent:
                self._nudge()

    def _flush(self) -> None:
        """Write what fits into the pipe; the reading thread detects a closed one."""
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

    # --- messages of the server -----------------------------------------------------------------------------------

    def _read(self) -> None:
        reason = ""
        try:
            reason = self._read_until_exit()
        except framing.BrokenStream as broken:
            reason = str(broken)
        except OSError:
            reason = "it was stopped"  # while its output was read
        finally:
            # whatever happens here, no request may keep waiting
            self.abandon(reason or "its output could not be read")

    def _read_until_exit(self) -> str:
        """Read until the server exits; return the reason."""
        stdin, stdout, stderr = self._program.stdin, self._program.stdout, self._program.stderr
        poller = select.poll()
        for descriptor in (stdout, stderr, self._nudges[0]):
            poller.register(descriptor, select.POLLIN)
        checked_at = monotonic()
        while True:
            if self._unsent:
                poller.register(stdin, select.POLLOUT)
            ready = dict(poller.poll(_CHECK_SECONDS * 1000))
            if self.exit_reason is not None:
                return self.exit_reason
            now = monotonic()
            exceeded = self._program.excess() if now - checked_at > _CHECK_SECONDS else None
            checked_at = now if now - checked_at > _CHECK_SECONDS else checked_at
            if exceeded:
                return exceeded
            if self._nudges[0] in ready:
                _read_available(self._nudges[0])
            if self._unsent:
                with self._writing:
                    self._flush()
                if self._unsent and now - self._sent_at > WRITE_SECONDS:
                    return "it stopped reading its input"
            elif stdin in ready:
                poller.unregister(stdin)
            if stderr in ready:
                data = _read_available(stderr)
                if data == b"":
                    poller.unregister(stderr)
                self._print(data or b"")
            if stdout in ready:
                data = _read_available(stdout)
                if data == b"":
                    outcome = self._program.outcome()
                    return self._program.excess() or outcome
                for message in self._frames.feed(data or b""):
                    self._receive(message)
                self._window.bytes += len(data or b"")
            if self._window.messages > FLOOD_MESSAGES or self._window.bytes > FLOOD_BYTES:
                return "it sent too many messages or too much data"
            if now - self._window.began > FLOOD_SECONDS:
                self._window = _Window(now)

    def _print(self, data: bytes) -> None:
        self._window.bytes += len(data)
        self._stderr += data
        del self._stderr[:-_STDERR_BYTES]

    def _receive(self, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str):
            self._window.messages += 1
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            if number is None:
                self._on_notification(method, params)
            else:
                self._reply(number, method, params)
            return
        pending = self._pending.get(number) if isinstance(number, int) else None
        if pending is not None:
            pending.message = message
            pending.ready.set()

    def _reply(self, id: Any, method: str, params: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
        try:
            reply["result"] = self._on_request(method, params)
        except UnknownRequest:
            reply["error"] = {"code": METHOD_NOT_FOUND, "message": f"{method} is not supported."}
        with suppress(ServerExited):
            self._send(reply)


def _message(method: str, params: Any) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def _result(message: dict[str, Any]) -> Any:
    error = message.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        text = error.get("message")
        raise ServerError(code if isinstance(code, int) else 0, text if isinstance(text, str) else "no reason")
    return message.get("result")


def _read_available(pipe: int) -> bytes | None:
    """Return the bytes in a pipe; b"" at its end, None if it is empty."""
    try:
        return os.read(pipe, _CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""
