"""Private windows: they are blacked out in screenshots and receive no input.

A window can report any name, so its process is inspected too: its executable, and whether it is a terminal, which has
pseudo-terminals open.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from hilt.desktop.geometry import Box, uncovered
from hilt.desktop.interface import ScreenWindow
from hilt.errors import ToolError

TITLE = "title:"  # prefix of patterns that match titles; the others match programs
CACHE_SECONDS = 1.0

TERMINALS = (
    *("*terminal*", "xterm", "uxterm", "lxterm", "*rxvt*", "konsole", "kitty", "alacritty", "foot", "footclient", "st"),
    *("wezterm*", "ghostty", "ptyxis*", "kgx", "tilix", "terminator", "guake", "yakuake", "sakura", "roxterm", "eterm"),
    *("aterm", "mlterm", "cool-retro-term", "tabby", "hyper", "iterm2", "warp", "tilda", "termite", "terminology"),
)
PASSWORDS = (
    *("*keepass*", "bitwarden", "1password*", "enpass*", "seahorse", "*kwallet*", "gcr-prompter", "pinentry*"),
    *("xscreensaver*", "*-screensaver", "*locker*", "i3lock", "slock", "xsecurelock", "xlock"),
    *("*polkit*", "*askpass*", "gnome-keyring*", "passwords", "proton-pass", "nordpass", "dashlane", "keychain*"),
)
# a program that starts any command could approve calls
LAUNCHERS = ("gmrun", "rofi", "dmenu*", "wofi", "krunner", "xfce4-appfinder", "ulauncher*", "albert", "spotlight")
OWN = ("hilt", "hilt-py")
_OWN_TITLE = re.compile(r"\bhilt\b", re.IGNORECASE)
_MULTIPLEXER = ("/dev/ptmx", "/dev/pts/ptmx")


class _Process(NamedTuple):
    names: tuple[str, ...]
    problem: str  # why its windows are private, whatever their names
    checked: float


class Privacy:
    """Decides which windows are private. `patterns` are the user's, in addition to the built-in ones."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        folded = [pattern.casefold() for pattern in patterns]
        own = [pattern for pattern in folded if not pattern.startswith(TITLE)]
        self._programs = (*TERMINALS, *PASSWORDS, *LAUNCHERS, *OWN, *own)
        self._titles = tuple(pattern.removeprefix(TITLE) for pattern in folded if pattern.startswith(TITLE))
        self._processes: dict[tuple[int, str], _Process] = {}

    def reason(self, pid: int, names: Sequence[str], title: str) -> str:
        """Return why a window is private, or an empty string; `names` are the names that it reports."""
        return self.program_reason(pid, names) or self.title_reason(title)

    def title_reason(self, title: str) -> str:
        """Return why a title is private, or an empty string."""
        if _OWN_TITLE.search(title):
            return "it may be hilt's console"
        folded = title.casefold()
        matched = next((pattern for pattern in self._titles if fnmatchcase(folded, pattern)), None)
        return "" if matched is None else f"desktop.private has {TITLE}{matched}"

    def program_reason(self, pid: int, names: Sequence[str]) -> str:
        """Return why the windows of a program are private, or an empty string."""
        process = self._process(pid)
        if process.problem:
            return process.problem
        folded = [name.casefold() for name in (*names, *process.names) if name]
        for pattern in self._programs:
            if any(fnmatchcase(name, pattern) for name in folded):
                return f"its program matches {pattern}"
        return ""

    def _process(self, pid: int) -> _Process:
        now = time.monotonic()
        started = _started(pid)
        process = self._processes.get((pid, started))
        if process is None or now - process.checked > CACHE_SECONDS:
            process = self._processes[pid, started] = _inspect(pid, started, now)
        return process


def _started(pid: int) -> str:
    """Return the start time of a process in clock ticks, because process ids are reused."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _inspect(pid: int, started: str, now: float) -> _Process:
    if sys.platform == "darwin" and pid:
        return _Process((), "", now)  # the caller passes the names from the system
    if not pid or not started:
        return _Process((), "its process is unknown", now)
    try:
        program = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            names = [os.path.basename(program), file.read().strip()]
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            # the second argument is the script of an interpreter
            names += [os.path.basename(argument) for argument in file.read(4096).split("\0")[:2]]
        if any(_holds_terminal(member) for member in (pid, *_same_program_descendants(pid, program))):
            return _Process(tuple(names), "it is a terminal", now)
    except OSError:
        return _Process((), "its process cannot be inspected", now)
    return _Process(tuple(names), "", now)


def _holds_terminal(pid: int) -> bool:
    """Whether a process has the controlling side of a pseudo-terminal open."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            if os.readlink(f"{folder}/{name}") in _MULTIPLEXER:
                return True
        except FileNotFoundError:
            continue  # closed in the meantime
    return False


def _same_program_descendants(pid: int, program: str) -> list[int]:
    """Return the descendants of a process that run the same program, such as the terminal host of an editor."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    descendants: list[int] = []
    pending = list(children.get(pid, ()))
    while pending:
        child = pending.pop()
        pending += children.get(child, ())
        try:
            if os.readlink(f"/proc/{child}/exe") == program:
                descendants.append(child)
        except OSError:
            continue
    return descendants


def hidden_parts(windows: Sequence[ScreenWindow]) -> list[Box]:
    """Return the visible parts of private windows; windows that are not opaque hide nothing."""
    covers: list[Box] = []
    hidden: list[Box] = []
    for window in windows:  # topmost first
        if window.private:
            hidden += uncovered(window.box, covers)
        elif window.is_opaque:
            covers.append(window.box)
    return hidden


def private_window_error(message: str) -> ToolError:
    """Return the error for input that would reach a private window."""
    advice = "Work in other windows; ask the user to act in the private one."
    return ToolError("denied", message, suggestion=advice)
