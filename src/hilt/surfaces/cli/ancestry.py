"""The processes above this one: whether a person started it, or a tool that hilt runs.

On Linux what a tool starts stays below hilt also when its parents end, because the processes that keep tools adopt
what is left behind. A process cannot change the names of those above it. This keeps a tool from an easy mistake; what
keeps a hostile one from the answers of a person is the sandbox, which hides the state directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from hilt.errors import ToolError

_DEEPEST = 1000  # processes above one another
_TRIES = 100  # at a moment in which none of them ends


class Process(NamedTuple):
    """A process: the one above it, its name, and its command line."""

    parent: int
    name: str
    words: tuple[str, ...]


def hilt_above(pid: int) -> str | None:
    """Return which process of hilt is above this one, so that it is a tool that runs and no person; None without."""
    for above, process in ancestors(pid):
        if is_hilt(process):
            return f"process {above}, {process.name or 'hilt'}"
    return None


def is_hilt(process: Process) -> bool:
    """Whether a process is hilt, or one of those that keep what hilt starts."""
    if process.name.startswith("hilt-"):
        return True
    program, *rest = process.words or ("",)
    if os.path.basename(program) == "hilt":
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
            # the keeper, where processes have no names of their own
            code = " ".join(words)
            return "keeper.main()" in code and code.endswith("/hilt/sandbox")
        elif not word.startswith("-"):
            return os.path.basename(word) == "hilt" or word.endswith("hilt/__main__.py")
    return False


def ancestors(pid: int) -> list[tuple[int, Process]]:
    """Return the processes above one, nearest first, as far as they can be seen; raise when that is not certain."""
    look = _look_in_proc if os.path.exists("/proc/self/stat") else _look_with_ps
    for _ in range(_TRIES):
        found = _walk(pid, look)
        if found is not None:
            return found
    raise ToolError("denied", "It cannot be seen which processes started this one.")


def _walk(pid: int, look: Callable[[int], Process | None]) -> list[tuple[int, Process]] | None:
    """Return the processes above one; None when there is no end of them, or one of them ended meanwhile."""
    found: list[tuple[int, Process]] = []
    current = look(pid)
    while current is not None and len(found) < _DEEPEST:
        above = current.parent
        if above <= 0:
            return found
        next_one = look(above)
        if next_one is None:
            # it belongs to somebody else; or it has ended, and another one took over its children
            again = look(pid)
            return found if again is not None and again.parent == above else None
        found.append((above, next_one))
        pid, current = above, next_one
    return None


def _look_in_proc(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return None
    # the name is in brackets and may hold brackets
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
