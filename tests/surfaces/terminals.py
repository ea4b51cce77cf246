"""Programs on a real terminal: start them, type, and read the screen."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from types import TracebackType

from tests.surfaces.commands import HILT, can_fork, forked

HANG_SECONDS = 60
_SETS_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)


class Screen:
    """A program on a terminal of ours; it and its children end with the context."""

    def __init__(
        self,
        words: list[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        columns: int = 80,
        controlling: bool = True,
    ) -> None:
        self._control, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        if controlling and words[0] == HILT and can_fork(env):
            words = forked(*words[1:], session=True)
        elif controlling:
            words = [sys.executable, "-I", "-S", "-c", _SETS_TERMINAL, *words]
        self._process = subprocess.Popen(
            words,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        os.close(terminal)
        self.text = ""  # all output so far
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end inside a character
        self._seen = 0

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._control)  # hangs up
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def expect(self, text: str) -> str:
        """Wait for new output that contains a text; return the output before it."""
        deadline = time.monotonic() + HANG_SECONDS
        while (at := self.text.find(text, self._seen)) < 0:
            if not self._more(deadline):
                raise AssertionError(f"{text!r} is not in {self.text[self._seen :]!r}")
        before = self.text[self._seen : at]
        self._seen = at + len(text)
        return before

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._control, text.encode())

    def end(self) -> tuple[int, str]:
        """Wait for the end of the program; return its exit status and the unread output."""
        deadline = time.monotonic() + HANG_SECONDS
        while self._more(deadline):
            pass
        return self._process.wait(HANG_SECONDS), self.text[self._seen :]

    def _more(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._control], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing happens after {self.text!r}")
        try:
            data = os.read(self._control, 65536)
        except OSError:  # the error on Linux when no process has the terminal open
            return False
        self.text += self._decoder.decode(data).replace("\r\n", "\n")
        return bool(data)


def bare(text: str) -> str:
    """Return the text without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
