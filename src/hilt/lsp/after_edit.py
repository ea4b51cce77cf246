"""The errors that a change introduced, from a server that is already running."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Protocol

from hilt.errors import ToolError
from hilt.lsp.access import Languages
from hilt.lsp.known_servers import language_of
from hilt.lsp.positions import SourceLines
from hilt.lsp.queries import ServerQuestion
from hilt.lsp.shapes import Diagnostic, diagnostic_line, diagnostics

SECONDS = 2.0  # maximum delay of a reply
FILES_MAX = 20
LINES_MAX = 20
FILE_BYTES = 1 << 20


class ChangedFile(Protocol):
    """A file before and after a change; None if it did not or does not exist."""

    @property
    def before(self) -> bytes | None:
        """Its old contents."""

    @property
    def after(self) -> bytes | None:
        """Its new contents."""


def new_errors(languages: Languages, full_path: Callable[[str], str], changed: Mapping[str, ChangedFile]) -> list[str]:
    """Return a line for each error that the changed files have now and did not have before."""
    deadline = monotonic() + SECONDS
    lines: list[str] = []
    for path, file in list(changed.items())[:FILES_MAX]:
        language = language_of(path)
        remaining = deadline - monotonic()
        if language is None or file.after is None or len(file.after) > FILE_BYTES or remaining <= 0:
            continue
        before, after = ((data or b"").decode("utf-8", "replace") for data in (file.before, file.after))
        question = ServerQuestion(
            "compare", language.name, full_path(path), after, before=before, seconds=round(remaining, 3)
        )
        try:
            answer = languages.ask_warm(question)
        except ToolError:
            continue  # the change is done; its diagnostics are optional
        if answer is not None:
            old, new = (diagnostics(answer.result[name]) for name in ("before", "after"))
            source = SourceLines(after)
            errors = introduced(SourceLines(before), source, old, new)
            lines += [diagnostic_line(path, source, item, answer.encoding) for item in errors]
    omitted = len(lines) - LINES_MAX
    return lines if omitted <= 0 else [*lines[:LINES_MAX], f"[{omitted} more]"]


def introduced(
    before: SourceLines, after: SourceLines, old: Sequence[Diagnostic], new: Sequence[Diagnostic]
) -> list[Diagnostic]:
    """Return the errors among the new diagnostics that are not among the old ones.

    Diagnostics with the same text are the same; of several, the one nearest to where the change moved the old one.
    """
    errors = [item for item in new if item.severity == "error"]
    for item in old:
        matches = [other for other in errors if other[1:] == item[1:]]
        if matches:
            line = _moved_line(before, after, item.start.line)
            nearest = min(
                matches,
                key=lambda other: (abs(other.start.line - line), abs(other.start.character - item.start.character)),
            )
            errors.remove(nearest)
    return errors


def _moved_line(before: SourceLines, after: SourceLines, line: int) -> int:
    """Return where a change moved a line: lines after the change move with the end of the text."""
    first = 0
    while first < min(len(before), len(after)) and before.line(first) == after.line(first):
        first += 1
    return line if line <= first else max(first, line + len(after) - len(before))
