"""Run the real command in its own environment.

A command with arguments runs in a fork of a process that has imported hilt; `cold=True` starts a new process. One-shot
requests always start a new process.
"""

from __future__ import annotations

import atexit
import functools
import json
import marshal
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from hilt.testing import Folder, environment
from tests.surfaces import forking, stand_in

RUN_SECONDS = 60  # timeout of a command
HILT = os.path.join(os.path.dirname(sys.executable), "hilt")
_servers: list[subprocess.Popen[bytes]] = []  # keeps a reference: a fork of the tests loses its exit callbacks


def forked(*words: str, session: bool = False) -> list[str]:
    """Return a command line for `hilt` with these words, in a fork of a process that has imported all of it.

    With `session`, standard input is a terminal, and becomes the controlling one.
    """
    mode = "session" if session else "launch"
    return [sys.executable, "-I", "-S", stand_in.__file__, fork_server(own_mounts()), mode, *words]


def run_fork(
    words: Sequence[str], input: bytes, folder: str, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """Run `hilt` with these words in a fork, to its end, without a stand-in."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection, ExitStack() as theirs:
        connection.settimeout(RUN_SECONDS)
        connection.connect(fork_server(own_mounts()))
        pipes = [os.pipe() for _ in range(3)]
        streams = [pipes[0][0], pipes[1][1], pipes[2][1]]
        for stream in streams:
            theirs.callback(os.close, stream)
        variables = {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}
        request = marshal.dumps((list(words), variables, os.fsencode(folder), False))
        socket.send_fds(connection, [request], streams)
        connection.recv(stand_in.STATUS_BYTES)  # its process id
        theirs.close()
        output = exchange_bytes(pipes[0][1], input, pipes[1][0], pipes[2][0])
        status = int(connection.recv(stand_in.STATUS_BYTES))
    return subprocess.CompletedProcess(words, status, *output)


def exchange_bytes(target: int, input: bytes, *sources: int) -> list[bytes]:
    """Write to one pipe, read others to their end, and close all of them."""
    received = dict.fromkeys(sources, b"")
    unsent = memoryview(input)
    os.set_blocking(target, False)
    with selectors.DefaultSelector() as selector:
        selector.register(target, selectors.EVENT_WRITE)
        for source in sources:
            selector.register(source, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(RUN_SECONDS)
            assert ready, f"nothing happens after {received}"
            for key, _ in ready:
                if key.fd == target:
                    with suppress(BrokenPipeError):
                        unsent = unsent[os.write(target, unsent) :]
                        if unsent:
                            continue
                elif data := os.read(key.fd, 1 << 20):
                    received[key.fd] += data
                    continue
                selector.unregister(key.fd)
                os.close(key.fd)
    return list(received.values())


def can_fork(environ: Mapping[str, str]) -> bool:
    """Whether a fork behaves like a new process: no call is forwarded, and the interpreter needs no special start."""
    usual = environ.get("HILT_RESIDENT") == "off" and environ.get("LANG") == "C.UTF-8"
    return usual and not any(name.startswith(("PYTHON", "LC_")) for name in environ)


def own_mounts() -> str:
    """Return the mounts of this process: a test may have changed them since the forking process started."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/mnt")
    return ""


@functools.cache
def fork_server(mounts: str) -> str:
    """Start the forking process, once for all tests with the same mounts, and return its address."""
    folder = tempfile.mkdtemp(prefix="hilt-", dir="/tmp")
    atexit.register(shutil.rmtree, folder)
    path = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        forks = subprocess.Popen(
            [sys.executable, forking.__file__, str(listener.fileno()), HILT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={**environment(folder), "LANG": "C.UTF-8"},
        )
    atexit.register(forks.communicate)
    _servers.append(forks)
    return path


class Command:
    """The command hilt, with a workspace and state below one folder."""

    def __init__(self, base: str, **environ: str) -> None:
        self.folder = Folder(os.path.join(base, "workspace"))
        os.makedirs(self.folder.path, exist_ok=True)
        self.state = os.path.join(base, "state")
        self.environ = {**environment(base), "LANG": "C.UTF-8", **environ}
        self.words: list[str] = []

    def run(
        self,
        *words: str,
        line: list[str] | None = None,
        input: bytes | str = b"",
        cwd: str | None = None,
        cold: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the command, or a whole command line, to its end."""
        data = input if isinstance(input, bytes) else input.encode()
        folder = cwd or self.folder.path
        if words and not line and not cold and can_fork(self.environ):
            return run_fork(words, data, folder, self.environ)
        return subprocess.run(
            line or [HILT, *words], input=data, cwd=folder, env=self.environ, capture_output=True, timeout=RUN_SECONDS
        )

    def ask(self, *requests: Any, words: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """Send requests to one one-shot process and return its replies."""
        done = self.run(*words, cold=True, input="".join(json.dumps(request) + "\n" for request in requests))
        assert done.stderr == b"", done.stderr.decode()
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start(self, *words: str, line: list[str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start the command, or a whole command line, with pipes; the caller ends it."""
        return subprocess.Popen(
            line or [HILT, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder.path,
            env=self.environ,
            **options,
        )
