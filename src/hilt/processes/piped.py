"""Long-running programs that communicate over pipes: workers of custom tools, MCP servers and language servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from time import monotonic

from hilt.errors import ToolError
from hilt.sandbox import rooms, spawning
from hilt.sandbox.backend import Launch
from hilt.sandbox.spawning import Child, Excess

_DEATH_SECONDS = 3.0


class PipedProgram:
    """A running program and our ends of its pipes, which do not block."""

    def __init__(
        self,
        child: Child,
        stdin: int,
        stdout: int,
        stderr: int,
        resources: ExitStack,
        confined: Launch,
    ) -> None:
        self.child = child
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.check = confined.report.check  # checks for hooks and settings that git would run
        self._resources = resources
        self._stay = confined.stay

    def excess(self) -> str | None:
        """Return the limit that the program exceeded, if any; the caller ends it."""
        exceeded: Excess | None = None
        if self._stay is not None and monotonic() >= self._stay.due():
            exceeded = self._stay.check()
        if exceeded is None and self.child.exit is not None:
            exceeded = self.child.exceeded()
        return None if exceeded is None else rooms.describe(exceeded, "lsp.memory_mb")

    def outcome(self) -> str:
        """Return how the program ended, as far as known."""
        try:
            self.child.wait(1.0)
        except ToolError as error:
            return error.message
        outcome = self.child.exit
        if outcome is None:
            return "it closed its output"
        if outcome.reason == "signal":
            return f"it was killed by signal {outcome.code - 128}"
        return f"it exited with status {outcome.code}"

    def kill(self) -> None:
        """Kill the program and everything it started; returns at once."""
        self.child.kill()

    def close(self) -> None:
        """Kill the program and everything it started, and wait for their end."""
        self._resources.close()

    def end(self) -> None:
        """Terminate the program, and kill it if it does not exit."""
        with self._resources:
            self.child.terminate()
            try:
                self.child.wait(_DEATH_SECONDS)
            except ToolError:
                return  # the keeper is gone; closing cleans up as far as possible


def start_piped(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    grace: float = 0.0,
    memory: int | None = None,
    confine: Callable[[], AbstractContextManager[Launch | None]] | None = None,
) -> PipedProgram:
    """Start a program with pipes; its sandbox exists until it is closed."""
    with ExitStack() as unless_started:
        resources = ExitStack()
        unless_started.callback(resources.close)
        confined = (None if confine is None else resources.enter_context(confine())) or Launch()
        with ExitStack() as theirs:
            source, stdin = _pipe(theirs, resources)
            stdout, sink = _pipe(resources, theirs)
            stderr, errors = _pipe(resources, theirs)
            for end in (stdin, stdout, stderr):
                os.set_blocking(end, False)
            child = spawning.start(
                argv,
                cwd=cwd,
                env=env,
                stdin=source,
                stdout=sink,
                stderr=errors,
                limits=spawning.Limits(timeout=None, grace=grace, settle=0, memory=memory),
                confined=confined,
            )
            resources.enter_context(child)
        unless_started.pop_all()
        return PipedProgram(child, stdin, stdout, stderr, resources, confined)


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """Return both ends of a pipe; each is closed by its stack."""
    ends = os.pipe()
    reading.callback(os.close, ends[0])
    writing.callback(os.close, ends[1])
    return ends
