"""Finds existing paths that rules deny where the workspace is not searched, by walking what they could match."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from hilt.errors import ToolError
from hilt.sandbox.profile import innermost

MAX_MATCHES = 1_000
MAX_PATHS = 20_000

_PSEUDO_FOLDERS = ("/proc", "/sys", "/dev")  # a sandbox has its own
Reach = Callable[[str], str]  # for a path: "yes", "maybe" if something below may be denied, "no"


def find(reach: Reach, starts: Iterable[str], roots: tuple[str, ...]) -> list[str]:
    """Return the real paths outside the roots that rules deny, at or below `starts`; raise if there are too many."""
    denied_paths: dict[str, None] = {}
    pending = list(starts)
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        if path in seen or path in _PSEUDO_FOLDERS or innermost(path, roots):
            continue
        seen.add(path)
        reached = reach(path)
        if reached == "yes" and os.path.lexists(path):
            denied_paths[os.path.realpath(path)] = None
        elif reached == "maybe" and not os.path.islink(path):
            try:
                names = os.listdir(path)
            except OSError:
                continue
            # few names match, so only those are visited
            pending += [full for full in (os.path.join(path, name) for name in names) if reach(full) != "no"]
        if len(denied_paths) > MAX_MATCHES or len(seen) > MAX_PATHS:
            raise ToolError(
                "sandbox_unavailable",
                f"The rules on paths outside the workspace match more than {MAX_MATCHES} files,"
                f" or more than {MAX_PATHS} paths must be checked.",
                suggestion="Ask the user to write rules that name folders.",
            )
    return [path for path in denied_paths if not innermost(path, roots)]
