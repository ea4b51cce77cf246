"""A Python tool: a typed function whose docstring is the description."""

import os
import re
from typing import Literal

from hilt import Output, ToolError, tool

SKIPPED = {".git", ".venv", "node_modules", "__pycache__", "build", "dist"}
MAX_COMMENTS = 500


@tool(effects="read", timeout=60)
def todo_comments(folder: str = ".", marker: Literal["TODO", "FIXME", "ANY"] = "ANY") -> Output:
    """List TODO and FIXME comments with file and line.

    Args:
        folder: Folder to search, relative to the workspace.
        marker: Only comments with this word; ANY matches both.
    """
    if not os.path.isdir(folder):
        raise ToolError("file_not_found", f"{folder} is not a folder.", suggestion="Use list_dir to find a folder.")
    words = "TODO|FIXME" if marker == "ANY" else marker
    pattern = re.compile(rf"(?:#|//|/\*|--|<!--|;)\s*(?:{words})\b[:\s]*(.*)")
    comments = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            path = os.path.normpath(os.path.join(parent, name))
            if os.path.isfile(path):  # reading a pipe would block forever
                comments += [{"path": path, "line": line, "content": text} for line, text in matches(path, pattern)]
    view = {"type": "file-list", "files": comments[:MAX_COMMENTS], "total": len(comments)}
    lines = [f"{comment['path']}:{comment['line']}: {comment['content']}" for comment in comments[:MAX_COMMENTS]]
    return Output("\n".join(lines) or "No comments found.", meta={"found": len(comments)}, view=view)


def matches(path: str, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    """Return the line numbers and texts of matching comments; none if the file is not text."""
    try:
        with open(path, encoding="utf-8") as file:
            return [(number, hit[1].strip()) for number, line in enumerate(file, 1) if (hit := pattern.search(line))]
    except (OSError, UnicodeDecodeError):
        return []
