"""The ancestors of this process: whether a person started it, or a tool that hilt runs.

On Linux the processes of a tool stay descendants of hilt even when their parents exit, because hilt's keeper processes
adopt orphans. A process cannot rename its ancestors. This check stops honest mistakes; against a hostile tool the
sandbox protects the person's answers, by hiding the state directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from hilt import places
from hilt.errors import ToolError

_DEEPEST = 1000  # ancestors
_TRIES = 100  # to walk the ancestors without one of them exiting


class Process(NamedTuple):
    """A process: its parent, its name, and its command line."""

    parent: int
    name: str
    words: tuple[str, ...]


def hilt_above(pid: int) -> str | None:
    """Return the nearest hilt process among the ancestors, which means that a tool is running; None otherwise."""
    for above, process in ancestors(pid):
        if is_hilt(process):
            return f"process {above}, {process.name or 'hilt'}"
    return None


def is_hilt(process: Process) -> bool:
    """Whether a process is hilt, or one of its keeper processes."""
    if process.name.startswith("hilt-"):
        return True
    program, *rest = process.words or ("",)
    if os.path.basename(program) in places.PROGRAMS:
        return True
    if not os.path.basename(program).lower().startswith(("python", "pypy")):
        return False
    words = iter(rest)
    for word in words:
        if word in ("-W", "-X"):
            next(words, None)
        elif word == "-m":
            return next(words, "").partition(".")[0] == "hilt"
        elif word == "-c":
            # the keeper, on systems where a process cannot set its name
            code = " ".join(words)
            return "keeper.main()" in code and code.endswith("/hilt/sandbox")
        elif not word.startswith("-"):
            return os.path.basename(word) in places.PROGRAMS or word.endswith("hilt/__main__.py")
    return False


def ancestors(pid: int) -> list[tuple[int, Process]]:
    """Return the visible ancestors of a process, nearest first; raise if they cannot be determined."""
    look = _look_in_proc if os.path.exists("/proc/self/stat") else _look_with_ps
    for _ in range(_TRIES):
        chain = _walk(pid, look)
        if chain is not None:
            return chain
    raise ToolError("denied", "The processes that started this one cannot be determined.")


def _walk(pid: int, look: Callable[[int], Process | None]) -> list[tuple[int, Process]] | None:
    """Return the ancestors of a process; None if the chain is too long, or an ancestor exited in the meantime."""
    chain: list[tuple[int, Process]] = []
    current = look(pid)
    while current is not None and len(chain) < _DEEPEST:
        above = current.parent
        if above <= 0:
            return chain
        parent = look(above)
        if parent is None:
            # it belongs to another user; or it exited, and another process adopted its children
            again = look(pid)
            return chain if again is not None and again.parent == above else None
        chain.append((above, parent))
        pid, current = above, parent
    return None


def _look_in_proc(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return None
    # the name is in parentheses and may contain parentheses
    start, end = line.index(b"("), line.rindex(b")")
    parent = int(line[end + 2 :].split()[1])
    return Process(parent, os.fsdecode(line[start + 1 : end]), tuple(map(os.fsdecode, words)))


def _look_with_ps(pid: int) -> Process | None:
    import subprocess

    try:
        done = subprocess.run(
            ["/bin/ps", "-ww", "-o", "ppid=,args=", "-p", str(pid)], capture_output=True, check=False, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    words = os.fsdecode(done.stdout).split()
    if done.returncode != 0 or not words or not words[0].isdecimal():
        return None
    return Process(int(words[0]), "", tuple(words[1:]))
