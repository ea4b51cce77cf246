"""The errors that a change introduced: new ones, not old ones that moved."""

from __future__ import annotations

import pytest

from hilt.lsp.after_edit import introduced
from hilt.lsp.positions import Position, SourceLines
from hilt.lsp.shapes import Diagnostic

Places = list[tuple[int, int, str]]


def diagnostics(places: Places, severity: str = "error") -> list[Diagnostic]:
    return [Diagnostic(Position(line, column), severity, "lint", message) for line, column, message in places]


@pytest.mark.parametrize(
    "before, after, old, new, expected",
    [
        ("a\nb", "a\nc", [], [(1, 0, "bad")], [(1, 0, "bad")]),
        ("a\nb", "a\nc", [(0, 0, "old")], [(0, 0, "old"), (1, 0, "bad")], [(1, 0, "bad")]),
        # moved down by two lines
        ("a\nb", "x\ny\na\nb", [(1, 0, "old")], [(3, 0, "old")], []),
        # the same text twice: the new one is where there was none
        ("a\nb", "x\na\nb", [(1, 0, "old")], [(0, 0, "old"), (2, 0, "old")], [(0, 0, "old")]),
        ("f(1, 2)", "f(3, 2)", [(0, 5, "old")], [(0, 2, "old"), (0, 5, "old")], [(0, 2, "old")]),
        # fixed
        ("a\nb", "a\nc", [(1, 0, "old")], [], []),
        # another error in the same place
        ("a", "b", [(0, 0, "old")], [(0, 0, "other")], [(0, 0, "other")]),
    ],
)
def test_errors_are_new_unless_an_old_one_moved_there(before, after, old, new, expected):
    result = introduced(SourceLines(before), SourceLines(after), diagnostics(old), diagnostics(new))

    assert [(item.start.line, item.start.character, item.message) for item in result] == expected


def test_only_errors_count():
    assert introduced(SourceLines("a"), SourceLines("b"), [], diagnostics([(0, 0, "bad")], "warning")) == []
