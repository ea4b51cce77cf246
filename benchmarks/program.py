"""Measured programs: hilt for one call, hilt as a session, and the bare interpreter as the reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.place import Place

# the interpreter itself: the python on the PATH may be a shell script
BARE = (sys._base_executable, "-I", "-S")  # type: ignore[attr-defined]  # in every CPython since 3.3
HILT = os.path.join(os.path.dirname(sys.executable), "hilt")

_ECHO = (
    "import sys\nread, write = sys.stdin.buffer, sys.stdout.buffer\nfor line in read: write.write(line), write.flush()"
)

# reads a file for each request and sends the same reply as hilt, without validating, deciding or recording anything
_LOOP = """
import json, sys
read, write = sys.stdin.buffer, sys.stdout.buffer
for request in read:
    path = json.loads(request)["args"]["path"]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    lines = text.splitlines()
    width = len(str(len(lines)))
    numbered = "\\n".join(f"{number:>{width}}\\t{line}" for number, line in enumerate(lines, 1))
    view = {"type": "code", "path": path, "content": text, "created": False, "lineCount": len(lines)}
    reply = {"ok": True, "result": numbered, "meta": {"path": path, "timing": {"ms": 0.1}}, "visualization": view}
    write.write(json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode() + b"\\n")
    write.flush()
"""

_OK = b'{"ok":true'


class Program:
    """A command that is run repeatedly with the same input."""

    def __init__(self, command: Sequence[str], place: Place, request: bytes = b"", **environ: str) -> None:
        self._command = list(command)
        self._environ = {**place.environ, **environ}
        self._input = os.path.join(place.environ["HOME"], f"input-{os.urandom(4).hex()}")
        with open(self._input, "wb") as file:
            file.write(request)
        self._actions = [
            (os.POSIX_SPAWN_OPEN, 0, self._input, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, f"{self._input}.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        ]

    def __call__(self) -> None:
        """Run it to its end; raise if it fails."""
        # spawned directly: starting must be cheap, and cost the same for every command
        process = os.posix_spawn(self._command[0], self._command, self._environ, file_actions=self._actions)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status:
            with open(f"{self._input}.out", encoding="utf-8", errors="replace") as file:
                raise RuntimeError(f"{' '.join(self._command)} ended with {status}: {file.read()[:500]}")


class Pipe:
    """A process that answers each line with a line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._in = process.stdin.fileno()
        self._out = process.stdout

    def exchange(self, line: bytes) -> bytes:
        """Send one line and return the response."""
        _send(self._in, line)
        return self._out.readline()

    def ask(self, line: bytes) -> bytes:
        """Send one request and return the reply; raise on failure, which is quick and would distort the figure."""
        reply = self.exchange(line)
        if not reply.startswith(_OK):
            raise RuntimeError(f"{line[:200]!r} failed: {reply[:500]!r}")
        return reply

    def call(self, tool: str, **args: object) -> Any:
        """Run a tool and return its result."""
        return json.loads(self.ask(request(tool, **args)))["result"]

    def flood(self, line: bytes, count: int) -> bytes:
        """Send the line `count` times without waiting, and return all responses."""
        sender = threading.Thread(target=_send, args=(self._in, line * count))
        sender.start()
        chunks = []
        while count:
            chunks.append(os.read(self._out.fileno(), 1 << 20))
            count -= chunks[-1].count(b"\n")
        sender.join()
        return b"".join(chunks)

    def ask_often(self, line: bytes, count: int) -> None:
        """Flood with a request; every reply must be a success."""
        replies = self.flood(line, count)
        if replies.count(_OK) != count:
            raise RuntimeError(f"{line[:200]!r} failed: {replies[:500]!r}")

    def memory(self) -> float:
        """Return its resident memory in megabytes."""
        return self._status("VmRSS")

    def reset_peak(self) -> None:
        """Reset the peak memory."""
        with open(f"/proc/{self._process.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")

    def peak(self) -> float:
        """Return the peak memory in megabytes since the last reset."""
        return self._status("VmHWM")

    def _status(self, field: str) -> float:
        with open(f"/proc/{self._process.pid}/status", encoding="utf-8") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields[field].split()[0]) / 1024


def request(tool: str, **args: object) -> bytes:
    """Return the request line for a tool call."""
    return json.dumps({"tool": tool, "args": args}).encode() + b"\n"


def _send(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def session(place: Place) -> Iterator[Pipe]:
    """Run `hilt stdio` in the place."""
    with _running([HILT, "stdio"], place) as pipe:
        yield pipe


@contextmanager
def echo(place: Place) -> Iterator[Pipe]:
    """Run a minimal Python program that echoes lines."""
    with _running([*BARE, "-c", _ECHO], place) as pipe:
        yield pipe


@contextmanager
def bare_loop(place: Place) -> Iterator[Pipe]:
    """Run a minimal Python program that reads files: decode, read the file, encode."""
    with _running([*BARE, "-c", _LOOP], place) as pipe:
        yield pipe


@contextmanager
def resident(place: Place) -> Iterator[None]:
    """Run a resident process for the place."""
    command = [HILT, "resident"]
    subprocess.run([*command, "start"], env=place.environ, check=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        subprocess.run([*command, "stop"], env=place.environ, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _running(command: Sequence[str], place: Place) -> Iterator[Pipe]:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.environ, cwd=place.workspace
    )
    with process:
        try:
            yield Pipe(process)
        except BaseException:
            process.kill()
            raise
