"""A real `hilt serve` for tests, and clients of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx2
from websockets.sync.client import ClientConnection, connect

from tests.marks import wait_until
from tests.surfaces.commands import HILT, Command, forked

WAIT_SECONDS = 60  # for what must happen, so that a failing test does not hang
AGENTS_TOKEN = "agents-token-of-the-tests"
PERSON_TOKEN = "person-token-of-the-tests"


class Server:
    """A running server: its address, its tokens and its process."""

    def __init__(self, command: Command, process: subprocess.Popen[bytes], first_line: str) -> None:
        self.command = command
        self.process = process
        match = re.fullmatch(r"(https?://\S+)/#token=(\S+)\n", first_line)
        assert match, first_line
        self.url, self.token = match.groups()
        self.agents_token = AGENTS_TOKEN
        self.port = int(self.url.rpartition(":")[2])
        # nothing to verify on loopback, and loading certificates takes as long as the rest
        self.client = httpx2.Client(base_url=self.url, timeout=WAIT_SECONDS, verify=False)

    def request(self, method: str, path: str, *, token: str | None = "", **options: Any) -> httpx2.Response:
        """Send a request with the person's token, another one, or with None without a token."""
        headers = {**options.pop("headers", {})}
        if token is not None:
            headers["Authorization"] = f"Bearer {token or self.token}"
        return self.client.request(method, path, headers=headers, **options)

    def get(self, path: str, **options: Any) -> Any:
        """Return the response to a successful GET."""
        response = self.request("GET", path, **options)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        """Return the response to a POST with this status."""
        response = self.request("POST", path, json=body, **options)
        assert response.status_code == status, response.text
        return response.json()

    def call(self, tool: str, session: str | None = None, **args: Any) -> dict[str, Any]:
        """Call a tool as an agent and return the envelope."""
        body = {"tool": tool, "args": args, **({"session": session} if session else {})}
        envelope: dict[str, Any] = self.post("/v1/call", body, token=self.agents_token)
        return envelope

    def events(
        self, after: int | None = None, *, recent: int = 0, approver: bool = False, token: str | None = None
    ) -> EventClient:
        """Open a WebSocket."""
        query = f"recent={recent}" if after is None else f"after={after}"
        return EventClient(self, query, approver=approver, token=token or self.token)

    def stop(self) -> int:
        """Stop the server as Ctrl-C does; return its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(WAIT_SECONDS)


class EventClient:
    """A WebSocket of events."""

    def __init__(self, server: Server, query: str, *, approver: bool, token: str) -> None:
        address = f"ws{server.url.removeprefix('http')}/v1/events?{query}"
        self._stack = ExitStack()
        self.socket: ClientConnection = self._stack.enter_context(
            # a client that is busy receiving does not wait for the reply to its close
            connect(address, max_size=None, open_timeout=WAIT_SECONDS, close_timeout=0.1, compression=None)
        )
        self.socket.send(json.dumps({"token": token, "approver": approver}))

    def __enter__(self) -> EventClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def next(self, *types: str) -> dict[str, Any]:
        """Return the next event, of one of these types if there are any."""
        while True:
            event: dict[str, Any] = json.loads(self.socket.recv(timeout=WAIT_SECONDS))
            if not types or event["type"] in types:
                return event


class Waiting:
    """Work on another thread, and its result."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._results: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._results.append(work()))
        self._thread.start()

    def result(self) -> Any:
        self._thread.join(WAIT_SECONDS)
        return self._results[0]


def pending(server: Server, path: str = "approvals", **facts: Any) -> dict[str, Any]:
    """Wait for a pending approval or question with these fields, and return it."""
    rows: list[dict[str, Any]] = []

    def is_pending() -> bool:
        rows[:] = [row for row in server.get(f"/v1/{path}")[path] if facts == {name: row[name] for name in facts}]
        return bool(rows)

    wait_until(is_pending)
    return rows[0]


@contextmanager
def serving(command: Command, *arguments: str, cold: bool = False, constants: Sequence[str] = ()) -> Iterator[Server]:
    """Start `hilt serve` on a free port, and end it."""
    command.environ = {"HILT_TOKEN": PERSON_TOKEN, "HILT_AGENT_TOKEN": AGENTS_TOKEN, **command.environ}
    arguments = ("serve", "--port", "0", "--no-open", *arguments)
    with command.start(line=[HILT, *arguments] if cold else forked(*constants, *arguments)) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline().decode()
            if not line:
                raise AssertionError(process.stderr.read().decode() if process.stderr else "it did not start")
            server = Server(command, process, line)
            yield server
            server.client.close()
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
