"""View builders."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from hilt.output import foreign_views, views


class Change(NamedTuple):
    kind: str
    text: str


class Hunk(NamedTuple):
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    changes: tuple[Change, ...]


def replaced(count: int, text: str = "x") -> Hunk:
    changes = tuple(Change(kind, text) for kind in ("removed", "added") for _ in range(count))
    return Hunk(1, count, 1, count, changes)


def test_a_diff_numbers_the_lines_of_both_sides():
    changes = (Change("context", "a"), Change("removed", "b"), Change("added", "B"), Change("context", "c"))

    view = views.diff("src/app.py", [Hunk(4, 3, 5, 3, changes)])

    assert view == {
        "type": "diff",
        "path": "src/app.py",
        "language": "python",
        "hunks": [
            {
                "oldStart": 4,
                "oldLines": 3,
                "newStart": 5,
                "newLines": 3,
                "changes": [
                    {"type": "context", "content": "a", "oldLineNumber": 4, "newLineNumber": 5},
                    {"type": "removed", "content": "b", "oldLineNumber": 5},
                    {"type": "added", "content": "B", "newLineNumber": 6},
                    {"type": "context", "content": "c", "oldLineNumber": 6, "newLineNumber": 7},
                ],
            }
        ],
        "additions": 1,
        "deletions": 1,
    }


def test_a_long_diff_is_truncated_says_so_and_keeps_the_full_counts():
    view = views.diff("a.unknown", [replaced(1_500), replaced(10)])

    assert view["title"] == "a.unknown (first 2,000 of 3,020 changed lines)"
    assert (view["additions"], view["deletions"]) == (1_510, 1_510)
    assert [(hunk["oldLines"], hunk["newLines"], len(hunk["changes"])) for hunk in view["hunks"]] == [(1500, 500, 2000)]


def test_a_diff_of_few_but_huge_lines_stays_small():
    view = views.diff("app.min.js", [replaced(500, "y" * 1_000_000)])

    assert len(json.dumps(view)) < 300_000
    assert view["title"] == "app.min.js (first 100 of 1,000 changed lines, lines cut at 2,000 characters)"


def test_diffs_past_the_limit_keep_the_counts_of_every_file():
    small = views.diff("small.py", [replaced(1)])
    large = views.diff("large.py", [replaced(999)])

    view = views.diffs([large, large, small])

    assert view["title"] == "3 files, the changes of 1 omitted"
    assert [(item["path"], item["additions"], len(item["hunks"])) for item in view["items"]] == [
        ("large.py", 999, 1),
        ("large.py", 999, 0),
        ("small.py", 1, 1),
    ]


def test_code_has_its_line_count_and_language():
    assert views.code("a/b.rs", "fn main() {}\n// end", created=True) == {
        "type": "code",
        "path": "a/b.rs",
        "content": "fn main() {}\n// end",
        "language": "rust",
        "created": True,
        "lineCount": 2,
    }


def test_code_from_the_middle_of_a_file_says_where_it_starts():
    view = views.code("notes", "ten\neleven\n", first_line=10, line_count=400)

    assert (view["firstLine"], view["lineCount"]) == (10, 400)


@pytest.mark.parametrize(
    "content, length", [("123456789\n" * 30_000, 200_000), ("1234567\n9" * 30_000, 199_997), ("x" * 300_000, 200_000)]
)
def test_long_code_is_truncated_at_a_line_boundary_if_possible_and_says_so(content, length):
    view = views.code("a.txt", content)

    assert view["content"] == content[:length]
    assert view["title"] == f"a.txt (first {length:,} of {len(content):,} characters)"
    assert view["lineCount"] == len(content.splitlines())


def test_a_truncated_file_list_keeps_the_total():
    view = views.file_list([views.File(f"{number}.py", line=number) for number in range(5_000)])

    assert (len(view["files"]), view["total"]) == (2_000, 5_000)
    assert view["files"][1] == {"path": "1.py", "line": 1}


@pytest.mark.parametrize(
    "view",
    [
        views.none("Nothing."),
        views.diff("a\udcff.py", [replaced(3_000, "\udcff")]),
        views.diffs([views.diff("a.py", [replaced(2, "z" * 90_000)])] * 3),
        views.code("a\udcff.py", "\udcff" * 300_000, first_line=3),
        views.file_list([views.File("a\udcff", "deleted", 1, "\udcff" * 9_999)]),
    ],
    ids=lambda view: view["type"],
)
def test_built_views_are_valid_and_encodable(view):
    assert foreign_views.validate(view) == view
    json.dumps(view, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "path, language",
    [
        ("src/index.ts", "typescript"),
        ("App.tsx", "tsx"),
        ("main.PY", "python"),
        ("cmd/main.go", "go"),
        ("lib.rs", "rust"),
        ("C:\\code\\Program.cs", "csharp"),
        ("deploy/Dockerfile", "docker"),
        ("api.dockerfile", "docker"),
        ("Makefile", "make"),
        ("CMakeLists.txt", "cmake"),
        (".bashrc", "bash"),
        ("types.d.ts", "typescript"),
        ("py", None),
        ("src.py/README", None),
        ("a.unknown", None),
        ("", None),
    ],
)
def test_the_language_of_a_file_comes_from_its_name(path, language):
    assert views.language_of(path) == language
