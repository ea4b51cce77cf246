"""Runtimes with MCP servers that are real processes with scripted behaviour."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hilt.call import Call, Result
from hilt.runtime import Runtime
from hilt.state.trust import Trust
from hilt.testing import Folder, environment
from tests.trusting import file_at

RAW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "raw_server.py")
SDK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "sdk_server.py")
WAIT_SECONDS = 60  # timeout for events that must happen


class Bench:
    """A folder with a workspace, state, and folders where servers record their messages."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.folder = Folder(os.path.join(base, "workspace"))
        os.makedirs(self.folder.path, exist_ok=True)
        self.environ = environment(base)

    @property
    def state(self) -> str:
        return self.environ["HILT_STATE_DIR"]

    def raw(self, name: str = "raw", **more: Any) -> dict[str, Any]:
        """Return the entry of a raw_server.py that records its messages in a folder with its name."""
        os.makedirs(self.place(name), exist_ok=True)
        return {"command": sys.executable, "args": [RAW, self.place(name)], **more}

    def place(self, name: str = "raw") -> str:
        return os.path.join(self.base, name)

    def describe(self, tools: Sequence[dict[str, Any]], name: str = "raw") -> None:
        """Set the tool definitions of a server, from its next start on."""
        os.makedirs(self.place(name), exist_ok=True)
        with open(os.path.join(self.place(name), "tools.json"), "w", encoding="utf-8") as file:
            json.dump(list(tools), file)

    def behave(self, mode: str, name: str = "raw") -> None:
        """Set how a server starts from now on: mute, stillborn, or normal."""
        os.makedirs(self.place(name), exist_ok=True)
        with open(os.path.join(self.place(name), "mode"), "w", encoding="utf-8") as file:
            file.write(mode)

    def pids(self, name: str = "raw") -> list[int]:
        """Return the ids of all processes started for a server, alive or not."""
        names = os.listdir(self.place(name)) if os.path.isdir(self.place(name)) else []
        return [int(entry.removeprefix("started-")) for entry in names if entry.startswith("started-")]

    def received(self, name: str = "raw") -> list[dict[str, Any]]:
        """Return the messages that a server received."""
        try:
            with open(os.path.join(self.place(name), "received"), encoding="utf-8") as file:
                return [json.loads(line) for line in file.read().splitlines()]
        except FileNotFoundError:
            return []

    def write(self, servers: dict[str, Any], name: str = ".mcp.json") -> str:
        path = os.path.join(self.folder.path, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"mcpServers": servers}, file)
        return path

    def trust(self, path: str, kind: str = "servers") -> None:
        trust = Trust(self.state)
        with open(path, "rb") as file:
            trust.trust(file_at(path, kind), file.read())
        trust.close()

    @contextmanager
    def runtime(
        self, servers: dict[str, Any] | None = None, *, mode: str = "yolo", **environ: str
    ) -> Iterator[Runtime]:
        """Yield a runtime with personal servers; in yolo mode nothing prompts."""
        flags = {"mode": mode, **({"mcp.servers": servers} if servers is not None else {})}
        with Runtime(self.folder.path, environ={**self.environ, **environ}, flags=flags) as runtime:
            yield runtime


class Client:
    """The client of a call: answers forms with a function, and records them."""

    def __init__(self, answer: Callable[[str, dict[str, Any]], dict[str, Any] | None] | None = None) -> None:
        self._answer = answer
        self.forms: list[tuple[str, dict[str, Any]]] = []
        self.steps: list[tuple[float, float | None, str]] = []

    can_ask = has_questions = False

    def approve(self, prompt: Any, digest: str) -> None:
        return None

    def ask(self, questions: Sequence[Any]) -> None:
        return None

    def elicit(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        self.forms.append((message, schema))
        return self._answer(message, schema) if self._answer is not None else None

    def sample(self, request: dict[str, Any]) -> None:
        raise AssertionError("servers must not use the client's model")

    def inputs(self, requests: Mapping[str, Any]) -> dict[str, dict[str, Any] | None]:
        return dict.fromkeys(requests)

    def require(self, capability: str) -> None:
        return None

    def progress(self, done: float, total: float | None, message: str) -> None:
        self.steps.append((done, total, message))

    def log(self, level: str, data: Any) -> None:
        return None


def submit(runtime: Runtime, tool: str, client: Any = None, /, **args: Any) -> tuple[Any, Callable[[], Any]]:
    """Start a call; return it and a function that waits for its result."""
    ended = threading.Event()
    results: list[Result] = []

    def done(result: Result) -> None:
        results.append(result)
        ended.set()

    running = runtime.submit(Call(tool, args), done, attendant=client)

    def result() -> Result:
        assert ended.wait(WAIT_SECONDS)
        return results[0]

    return running, result


def eventually(check: Callable[[], Any]) -> Any:
    """Poll a check until it returns something true, and return that."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (value := check()):
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)
    return value


def is_alive(pid: int) -> bool:
    """Whether a process runs and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except (FileNotFoundError, ProcessLookupError):
        if os.path.isdir("/proc/self"):
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
