"""Patches in two formats, recognized by the first non-blank line.

Codex (brackets: optional; a star: any number). Whitespace around the markers is ignored:

    patch    = ["<<EOF"] "*** Begin Patch" file file* "*** End Patch" ["EOF"]
    file     = "*** Add File: " path ("+" text)*
             | "*** Delete File: " path
             | "*** Update File: " path ["*** Move to: " path] hunk*
    hunk     = ("@@" [" " anchor])* line line* ["*** End of File"]
    line     = (" " | "-" | "+") text | blank

Unified, as diff and git write it. Counts are hints; headers are optional if the caller names the path:

    patch    = prose* (file file* | hunk hunk*)
    file     = ["diff --git " names git-line*] ["--- " path "+++ " path hunk hunk*]
    file     = ... | "diff --git " names git-line* binary               (see hilt.text.binary_patch)
    git-line = ("new file mode" | "deleted file mode" | "new mode" | "rename from" | "rename to" | ...) " " text
    hunk     = "@@" [" -" start ["," count] " +" start ["," count] " @@"] [" " heading] line line*
    line     = (" " | "-" | "+") text | blank | "\\ No newline at end of file"
"""

from __future__ import annotations

import re

from hilt.errors import ToolError
from hilt.text.codex_patches import BEGIN, parse_codex
from hilt.text.operations import Operation, PatchHunk, PatchLine, invalid
from hilt.text.placing import apply_hunks
from hilt.text.unified import is_unified, parse_unified

__all__ = ["Operation", "PatchHunk", "PatchLine", "apply_hunks", "parse_patch"]

_HEREDOC = re.compile(r"\s*(?:[\w./-]+\s+)?<<-?\s*(['\"]?)(\w+)\1\s*")


def parse_patch(patch: str, *, path: str | None = None) -> list[Operation]:
    """Return the operations of a patch in order; several may change the same file, each based on the previous one.

    With a path, the patch must change one file, and the path overrides the headers.
    """
    lines = patch.split("\n")
    nonblank = [index for index, line in enumerate(lines) if line.strip()]
    if not nonblank:
        raise ToolError("patch_invalid", "The patch is empty.", suggestion=f"Start it with '{BEGIN}' or '--- PATH'.")
    first, last = nonblank[0], nonblank[-1]
    heredoc = _HEREDOC.fullmatch(lines[first])
    if heredoc is not None and lines[last].strip() == heredoc[2] and len(nonblank) > 2:
        first, last = nonblank[1], nonblank[-2]
    if lines[first].strip() == BEGIN:
        operations = parse_codex(lines, first, last)
    elif is_unified(lines, first):
        operations = parse_unified(lines, first, last, path)
    else:
        raise invalid(first + 1, lines[first], f"'{BEGIN}', or '--- PATH' of a unified diff")
    if path is None:
        return operations
    if len(operations) > 1:
        raise ToolError(
            "patch_invalid", f"The patch changes {len(operations)} files; with path {path} it may change only one."
        )
    return [operations[0]._replace(path=path)]
