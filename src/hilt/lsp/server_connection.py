"""The messages exchanged with a server: requests and their answers, over the pipes of its process.

One thread reads what the server sends, and writes what its input did not take at once. Requests wait for their answers
on the threads of their calls. A server that breaks the protocol, floods, or stops reading is killed, and every waiting
request fails with the reason.
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
WRITE_SECONDS = 5.0  # a server that reads nothing for so long hangs
END_SECONDS = 1.0  # for a server to answer `shutdown`
RETRIES = 8  # of a request that the server gave up because a file changed
RETRY_SECONDS = 0.05
FLOOD_SECONDS = 10.0
FLOOD_MESSAGES = 50_000  # unsolicited ones
FLOOD_BYTES = 512 << 20

_CHUNK_BYTES = 1 << 16
_STDERR_BYTES = 4096
_LOOK_SECONDS = 1.0  # between two looks at the limits of the process
_CONTENT_MODIFIED, _SERVER_CANCELLED, _METHOD_NOT_FOUND = -32801, -32802, -32601


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


class UnknownRequest(Exception):
    """A request of the server that is not supported."""


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


class ServerConnection:
    """The requests of both sides. Safe to use from many threads.

    `answer` returns the result of a request of the server, or raises UnknownRequest; `hear` receives its notifications,
    and `ended` is called once when it has ended. All three are called on the reading thread.
    """

    def __init__(
        self,
        name: str,
        program: RunningProgram,
        answer: Callable[[str, dict[str, Any]], Any],
        hear: Callable[[str, dict[str, Any]], None],
        ended: Callable[[], None],
    ) -> None:
        self.gone: str | None = None  # why the server has ended
        self._program = program
        self._answer = answer
        self._hear = hear
        self._ended = ended
        self._lock = threading.Lock()
        self._slots: dict[int, _Slot] = {}
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
        """Raise if the server has ended."""
        if self.gone is not None:
            raise Gone(self.gone)

    def abandon(self, reason: str) -> None:
        """Kill the server; requests that wait fail with the reason."""
        self._program.kill()
        with self._lock:
            self.gone = self.gone or reason
            slots = list(self._slots.values())
        self._nudge()
        for slot in slots:
            slot.ready.set()
        self._ended()

    def end(self) -> None:
        """Ask the server to exit, and kill what is left of it."""
        if self.gone is None:
            with suppress(Gone, Late, AnswerError):
                self.request("shutdown", None, monotonic() + END_SECONDS, None)
                self.notify("exit", None)
        self.abandon("it was stopped")
        self._reader.join(END_SECONDS)
        with self._writing:
            if self._nudges[0] >= 0:  # several calls may end it at the same time
                self._program.close()
                for end in self._nudges:
                    os.close(end)
                self._nudges = -1, -1

    def printed(self) -> str:
        """Return the end of what the server printed besides messages."""
        noise = bytes(self._stderr) + bytes(self._frames.noise)
        return noise.decode("utf-8", "replace").strip()[-1000:]

    # --- requests -------------------------------------------------------------------------------------------------

    def request(self, method: str, params: Any, deadline: float, fence: Fence | None) -> Any:
        """Return the result of a request; raise AnswerError, Gone, Late, or ToolError if the call is given up."""
        for _ in range(RETRIES):
            try:
                return self._request(method, params, deadline, fence)
            except AnswerError as error:
                if error.code not in (_CONTENT_MODIFIED, _SERVER_CANCELLED):
                    raise
                if fence is not None:
                    fence.check()
                sleep(RETRY_SECONDS)
        return self._request(method, params, deadline, fence)

    def _request(self, method: str, params: Any, deadline: float, fence: Fence | None) -> Any:
        slot = _Slot()
        with self._lock:
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
                self.check()
                left = deadline - monotonic()
                if left <= 0 or (not slot.ready.wait(left) and slot.message is None):
                    raise Late(method)
                if slot.message is None:
                    slot.ready.clear()
        except (Late, ToolError):
            with suppress(Gone):
                self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            with self._lock:
                self._slots.pop(number, None)
        return _result(slot.message)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send(_message(method, params))

    def _send(self, message: dict[str, Any]) -> None:
        """Queue a message; what the pipe does not take at once, the reading thread writes."""
        data = framing.encode(message)
        with self._writing:
            self.check()
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

    # --- what the server sends ------------------------------------------------------------------------------------

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
            if self.gone is not None:
                return self.gone
            now = monotonic()
            exceeded = self._program.excess() if now - looked > _LOOK_SECONDS else None
            looked = now if now - looked > _LOOK_SECONDS else looked
            if exceeded:
                return exceeded
            if self._nudges[0] in ready:
                _take(self._nudges[0])
            if self._unsent:
                with self._writing:
                    self._flush()
                if self._unsent and now - self._sent_at > WRITE_SECONDS:
                    return "it stopped reading its input"
            elif stdin in ready:
                poller.unregister(stdin)
            if stderr in ready:
                data = _take(stderr)
                if data == b"":
                    poller.unregister(stderr)
                self._print(data or b"")
            if stdout in ready:
                data = _take(stdout)
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
                self._hear(method, params)
            else:
                self._reply(number, method, params)
            return
        slot = self._slots.get(number) if isinstance(number, int) else None
        if slot is not None:
            slot.message = message
            slot.ready.set()

    def _reply(self, id: Any, method: str, params: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": id}
        try:
            reply["result"] = self._answer(method, params)
        except UnknownRequest:
            reply["error"] = {"code": _METHOD_NOT_FOUND, "message": f"{method} is not supported."}
        with suppress(Gone):
            self._send(reply)


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
