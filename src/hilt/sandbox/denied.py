"""Existing paths outside the workspace that rules deny, denied_paths by walking the folders that they could match."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from hilt.errors import ToolError
from hilt.sandbox.profile import innermost

MOST_FINDS = 1_000
MOST_FOLDERS = 20_000

_NOT_FILES = ("/proc", "/sys", "/dev")  # a sandbox has its own
Reach = Callable[[str], str]  # for a path: "yes", "maybe" if something below may be denied, "no"


def find(reach: Reach, starts: Iterable[str], roots: tuple[str, ...]) -> list[str]:
    """Return the real paths that are denied outside the roots; raise when there are too many.

    `starts` are folders to start from in addition to /, because a folder above them may be unreadable.
    """
    denied_paths: dict[str, None] = {}
    pending = ["/", *starts]
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        if path in seen or path in _NOT_FILES or innermost(path, roots):
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
        if len(denied_paths) > MOST_FINDS or len(seen) > MOST_FOLDERS:
            raise ToolError(
                "sandbox_unavailable",
                f"The rules on paths outside the workspace match more than {MOST_FINDS} files,"
                f" or more than {MOST_FOLDERS} paths must be checked.",
                suggestion="Ask the user to write rules that name folders.",
            )
    return [path for path in denied_paths if not innermost(path, roots)]
