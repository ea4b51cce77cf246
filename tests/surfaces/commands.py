"""Run the real command in its own environment.

A command with words is a fork of a process that has imported hilt; `cold=True` starts it from nothing. One-shot
requests always start from nothing.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hilt.testing import Folder, environment
from tests.surfaces import forking, stand_in

HILT = os.path.join(os.path.dirname(sys.executable), "hilt")


def forked(*words: str, session: bool = False) -> list[str]:
    """Return a command line for `hilt` with these words, in a fork of a process that has imported all of it.

    With `session`, standard input is a terminal, and becomes the controlling one.
    """
    mode = "session" if session else "launch"
    return [sys.executable, "-I", "-S", stand_in.__file__, _fork_server(_mounts()), mode, *words]


def can_fork(environ: Mapping[str, str]) -> bool:
    """Whether a fork behaves like a new process: no call is forwarded, and its interpreter starts as usual."""
    usual = environ.get("HILT_RESIDENT") == "off" and environ.get("LANG") == "C.UTF-8"
    return usual and not any(name.startswith(("PYTHON", "LC_")) for name in environ)


def _mounts() -> str:
    """Return the mounts of this process: a test may have changed them since the forking process started."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/mnt")
    return ""


@functools.cache
def _fork_server(mounts: str) -> str:
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
        warm = words and not cold and can_fork(self.environ)
        return subprocess.run(
            line or (forked(*words) if warm else [HILT, *words]),
            input=input if isinstance(input, bytes) else input.encode(),
            cwd=cwd or self.folder.path,
            env=self.environ,
            capture_output=True,
            timeout=60,
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
