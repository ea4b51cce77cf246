"""The native client, built from its source for the tests, and a server in place of the resident process."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from scripts import native

ADDRESS_BITS = 28  # of randomness: with more, the address sanitizer of older compilers fails now and then

# the program that the client runs: it writes its arguments to a file, and copies standard input
PYTHON = """#!/bin/sh
printf '<%s>' "$@" > "$(dirname "$0")/ran"
exec cat
"""


def compiler() -> str:
    """Return the C compiler, or skip the test."""
    path = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if path is None:
        pytest.skip("there is no C compiler")
    return path


@functools.cache
def build(folder: str) -> str:
    """Compile the client strictly, with the sanitizers if the compiler has them; return its path."""
    program = os.path.join(folder, "hilt")
    try:
        native.compile_client([compiler(), *native.STRICT], program, "-g", *_sanitizers())
    except subprocess.CalledProcessError:  # without them
        native.compile_client([compiler(), *native.STRICT], program)
    Path(folder, "hilt-py").write_text(PYTHON)
    os.chmod(os.path.join(folder, "hilt-py"), 0o755)
    return program


def _sanitizers() -> Iterator[str]:
    bits = Path("/proc/sys/vm/mmap_rnd_bits")
    if not os.access(bits, os.R_OK) or int(bits.read_text()) <= ADDRESS_BITS:
        yield "-fsanitize=address"
    yield from ("-fsanitize=undefined", "-fno-sanitize-recover=all")


def has_run_python(program: str) -> str | None:
    """Return the arguments with which the client ran hilt-py, and delete the record; None if it did not run it."""
    try:
        path = os.path.join(os.path.dirname(os.path.realpath(program)), "ran")
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            words = file.read()
        os.unlink(path)
    except FileNotFoundError:
        return None
    return words


Answer = Callable[[socket.socket], None]


def accept(connection: socket.socket) -> None:
    """Accept a call, and end it with the status 7."""
    connection.sendall(b"+\0007")


class Server:
    """Listens in place of the resident process, and records the headers that it receives."""

    def __init__(self, state: str) -> None:
        os.makedirs(state, mode=0o700, exist_ok=True)
        self.headers: list[bytes] = []
        self.answer: Answer = accept
        self._listener = socket.socket(socket.AF_UNIX)
        folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
        self._listener.bind(f"/proc/self/fd/{folder}/resident.sock")
        os.close(folder)
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    received = b""
                    while not received.endswith(b"\0\n") and (part := connection.recv(1)):
                        received += part
                    self.headers.append(received)
                    with suppress(OSError):
                        self.answer(connection)

    def take(self) -> bytes | None:
        """Return the header of the last caller, and delete all of them; None if there was no caller."""
        last = self.headers[-1] if self.headers else None
        self.headers.clear()
        return last

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def serving(state: str) -> Iterator[Server]:
    """Listen in a state directory."""
    server = Server(state)
    try:
        yield server
    finally:
        server.close()
        os.unlink(os.path.join(state, "resident.sock"))


@contextmanager
def short_folder() -> Iterator[str]:
    """Create a folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="hilt-", dir="/tmp") as folder:
        yield folder
