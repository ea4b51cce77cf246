"""The contents of a patch in either format: one operation for each file section."""

from __future__ import annotations

from typing import NamedTuple

from hilt.errors import ToolError
from hilt.text.matching import quote


class PatchLine(NamedTuple):
    """A line of a hunk: "context", "removed" or "added"; `ended` is false for a last line without a line ending."""

    kind: str
    text: str
    ended: bool = True


class PatchHunk(NamedTuple):
    """Lines to find and change, and hints about where: anchors above them, a line number, the end of the file."""

    lines: tuple[PatchLine, ...]
    anchors: tuple[str, ...] = ()
    at_end: bool = False
    old_start: int | None = None
    old_count: int | None = None


class WholeContents(NamedTuple):
    """The contents of a binary file after a change; `before` is the git id of the contents that it replaces."""

    before: str
    data: bytes


class Operation(NamedTuple):
    """The change of one file: "add" (content), "delete", or "update" (hunks, a move, or only a new git mode).

    A binary file has `whole` contents instead of hunks. In a `unified` patch, line endings and numbers are literal.
    """

    kind: str
    path: str
    move_to: str | None = None
    content: str | None = None
    hunks: tuple[PatchHunk, ...] = ()
    unified: bool = False
    mode: str | None = None
    whole: WholeContents | None = None


BINARY = "GIT binary patch"  # the line before the contents of a binary file
KINDS = {" ": "context", "-": "removed", "+": "added"}


def invalid(number: int, found: str, expected: str) -> ToolError:
    """Return the error for line `number`, from 1, of a patch: what was found, and what was expected."""
    return ToolError(
        "patch_invalid", f"Line {number} of the patch is {quote(found)!r}; expected {expected}.", line=number
    )
