"""A tool in Python: a typed function whose docstring is the manual."""

import os
import re
from typing import Literal

from hilt import Output, ToolError, tool

SKIPPED = {".git", ".venv", "node_modules", "__pycache__", "build", "dist"}
MOST = 500


@tool(effects="read", timeout=60)
def todo_comments(folder: str = ".", marker: Literal["TODO", "FIXME", "ANY"] = "ANY") -> Output:
    """List the comments that say what is still to be done, with file and line.

    Args:
        folder: Where to look, relative to the workspace.
        marker: Only comments with this word, or ANY of both.
    """
    if not os.path.isdir(folder):
        raise ToolError("file_not_found", f"{folder} is not a folder.", suggestion="Look with list_dir.")
    words = "TODO|FIXME" if marker == "ANY" else marker
    wanted = re.compile(rf"(?:#|//|/\*|--|<!--|;)\s*(?:{words})\b[:\s]*(.*)")
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            path = os.path.normpath(os.path.join(where, name))
            if os.path.isfile(path):  # reading a pipe would wait forever
                found += [{"path": path, "line": line, "content": text} for line, text in matches(path, wanted)]
    view = {"type": "file-list", "files": found[:MOST], "total": len(found)}
    lines = [f"{one['path']}:{one['line']}: {one['content']}" for one in found[:MOST]]
    return Output("\n".join(lines) or "Nothing is left to do.", meta={"found": len(found)}, view=view)


def matches(path: str, wanted: re.Pattern[str]) -> list[tuple[int, str]]:
    """Return the lines of a file that match, with what follows the marker; nothing for what is not text."""
    try:
        with open(path, encoding="utf-8") as file:
            return [(number, hit[1].strip()) for number, line in enumerate(file, 1) if (hit := wanted.search(line))]
    except (OSError, UnicodeDecodeError):
        return []
