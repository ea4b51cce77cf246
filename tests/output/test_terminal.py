"""Views in a terminal: their layout, and the sequences that must never reach the terminal."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hilt.output import foreign_views, views
from hilt.output.terminal import inert, render

HUNK: dict[str, Any] = {
    "oldStart": 9,
    "oldLines": 2,
    "newStart": 9,
    "newLines": 3,
    "changes": [
        {"type": "context", "content": "{", "oldLineNumber": 9, "newLineNumber": 9},
        {"type": "removed", "content": "\told line", "oldLineNumber": 10},
        {"type": "added", "content": "\tnew line 1", "newLineNumber": 10},
        {"type": "added", "content": "\tnew line 2", "newLineNumber": 11},
    ],
}
DIFF: dict[str, Any] = {"type": "diff", "path": "src/index.ts", "hunks": [HUNK], "additions": 2, "deletions": 1}
CODE: dict[str, Any] = {"type": "code", "path": "a.py", "content": "def f():\n    return 1\n", "created": False}
SHELL: dict[str, Any] = {"type": "shell-output", "command": "npm test", "exitCode": 0}


def dedented(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def colours_removed(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]+m", "", text)


@pytest.mark.parametrize(
    "view, expected",
    [
        (
            DIFF,
            """
            src/index.ts  +2 -1
            @@ -9,2 +9,3 @@
             9  9   {
            10    -     old line
               10 +     new line 1
               11 +     new line 2
            """,
        ),
        (
            {"type": "diffs", "items": [DIFF, {**DIFF, "path": "b.ts", "hunks": []}]},
            """
            2 files  +4 -2
            src/index.ts  +2 -1
            @@ -9,2 +9,3 @@
             9  9   {
            10    -     old line
               10 +     new line 1
               11 +     new line 2

            b.ts  +2 -1
            (no changes)
            """,
        ),
        (
            {**CODE, "created": True, "highlightLines": [2]},
            """
            a.py  created, 2 lines
              1 │ def f():
            > 2 │     return 1
            """,
        ),
        (
            {**CODE, "firstLine": 99, "lineCount": 400},
            """
            a.py  lines 99 to 100 of 400
             99 │ def f():
            100 │     return 1
            """,
        ),
        (
            {
                "type": "file-list",
                "groups": [
                    {
                        "label": "Modified",
                        "files": [
                            {"path": "src/index.ts", "action": "modified"},
                            {"path": "src/utils.ts", "action": "modified", "line": 42, "content": "  x = 1"},
                        ],
                    },
                    {"label": "Created", "files": [{"path": "src/new.ts", "action": "created"}]},
                ],
                "total": 5,
            },
            """
            5 files
            Modified (2)
              M src/index.ts
              M src/utils.ts:42  x = 1
            Created (1)
              A src/new.ts
            … 2 more files
            """,
        ),
        (
            {"type": "file-list", "files": [{"path": "a.py"}]},
            """
            1 file
              a.py
            """,
        ),
        (
            {
                "type": "table",
                "title": "Services",
                "columns": [{"key": "name", "label": "Name"}, {"key": "n", "label": "Restarts"}, {"key": "note"}],
                "rows": [
                    {"name": "server", "n": 3, "note": {"up": True}},
                    {"name": "データベース", "n": 1200},
                    {"name": "[bold]x[/bold]", "n": None, "note": "word " * 20},
                ],
                "totalRows": 9,
            },
            """
            Services
            Name            Restarts  note
            ──────────────  ────────  ──────────────────────────────────
            server                 3  {"up": true}
            データベース        1200
            [bold]x[/bold]            word word word word word word wor…
            … 6 more rows
            """,
        ),
        (
            {"type": "markdown", "content": "# Title\n\nSome **bold** text.", "sourceUrl": "https://example.com"},
            """
            https://example.com
            # Title

            Some **bold** text.
            """,
        ),
        (
            {**SHELL, "stdout": "42 passed\n", "stderr": "slow\r\n", "exitCode": 1},
            """
            $ npm test
            42 passed
            stderr:
            slow
            exit code 1
            """,
        ),
        (
            {**SHELL, "command": "for a in b; do\n  echo\ndone", "exitCode": None},
            """
            $ for a in b; do
            >   echo
            > done
            (no output)
            no exit code
            """,
        ),
        (
            {
                "type": "todo-list",
                "items": [
                    {"content": "Set up", "status": "completed", "priority": "high"},
                    {"content": "Write all the endpoints, all the endpoints, all the tests", "status": "in_progress"},
                    {"content": "Test", "status": "pending"},
                    {"content": "Drop", "status": "cancelled", "priority": "low"},
                ],
            },
            """
            1 of 4 done
            [x] Set up (high)
            [>] Write all the endpoints, all the endpoints, all the
                tests
            [ ] Test
            [-] Drop (low)
            """,
        ),
        ({"type": "none", "message": "Silent."}, "Silent."),
        ({"type": "none"}, "Nothing to show."),
        ({"type": "none", "title": "Checked"}, "Checked\nNothing to show."),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_a_view_is_rendered_as_plain_text(view, expected):
    assert render(view, width=60, color=False) == dedented(expected)


@pytest.mark.parametrize(
    "view, expected",
    [
        ({**DIFF, "hunks": []}, "src/index.ts  +2 -1\n(no changes)"),
        ({"type": "diffs", "items": []}, "0 files  +0 -0"),
        ({**CODE, "content": ""}, "a.py  0 lines\n(empty)"),
        ({"type": "file-list", "files": []}, "0 files"),
        ({"type": "table", "columns": [], "rows": []}, "(no rows)"),
        ({"type": "table", "columns": [{"key": "a"}], "rows": []}, "a\n─\n(no rows)"),
        ({"type": "table", "columns": [], "rows": [{"a": 1}]}, "(no columns)"),
        ({"type": "markdown", "content": ""}, "(empty)"),
        ({"type": "todo-list", "items": []}, "0 of 0 done"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("color", [False, True])
def test_an_empty_view_says_that_it_is_empty(view, expected, color):
    assert colours_removed(render(view, width=40, color=color)) == expected


@pytest.mark.parametrize(
    "view, expected",
    [
        ({**DIFF, "title": "Edited"}, "Edited\n(4 lines)"),
        (DIFF, "src/index.ts  +2 -1\n(4 lines)"),
        ({"type": "table", "columns": [], "rows": [{}], "totalRows": 1234}, "table\n(1,234 rows)"),
        ({**SHELL, "stdout": "a\nb\n", "stderr": "c"}, "$ npm test\n(3 lines)"),
    ],
)
def test_a_collapsed_view_is_a_heading_and_a_count(view, expected):
    assert render({**view, "collapsed": True}, width=60, color=False) == expected


def test_a_diff_is_coloured_like_git_does():
    lines = render(DIFF, width=60, color=True).split("\n")

    assert lines[1] == "\x1b[36m@@ -9,2 +9,3 @@\x1b[0m"
    assert lines[3] == "\x1b[2m10    \x1b[0m\x1b[31m- \x1b[0m\x1b[31m    old line\x1b[0m"
    assert lines[4] == "\x1b[2m   10 \x1b[0m\x1b[32m+ \x1b[0m\x1b[32m    new line 1\x1b[0m"


def test_carriage_returns_are_shown_in_a_diff_only_where_they_differ():
    def diff(*contents: str) -> dict[str, Any]:
        changes = [{"type": "added", "content": content} for content in contents]
        return {**DIFF, "hunks": [{**HUNK, "changes": changes}]}

    assert "␍" not in render(diff("a\r", "b\r"), width=60, color=False)
    assert "a␍" in render(diff("a\r", "b"), width=60, color=False)


def test_code_is_coloured_by_its_syntax():
    view = {**CODE, "language": "python"}

    coloured = render(view, width=60, color=True)

    assert "\x1b[94mdef\x1b[0m" in coloured
    assert colours_removed(coloured) == render(view, width=60, color=False)


def test_markdown_is_formatted_in_colour_and_shown_as_written_otherwise():
    view = {"type": "markdown", "content": "Some **bold** text.\n\n- one\n"}

    assert "Some \x1b[1mbold\x1b[0m text." in render(view, width=60, color=True)
    assert render(view, width=60, color=False) == view["content"].rstrip()


@pytest.mark.parametrize("color", [False, True])
def test_pictures_are_shown_by_label_only(color):
    class Picture(NamedTuple):
        data: bytes
        kind: str

    view = views.pictures(
        "click", {"before": Picture(b"\xff" * 3000, "image/jpeg"), "after": Picture(b"x", "image/png")}
    )

    text = colours_removed(render(view, width=60, color=color))

    assert "[image: before]" in text
    assert "[image: after]" in text
    assert "base64" not in text


def test_links_and_html_in_markdown_are_shown_as_text():
    content = "[safe](https://evil.example) <b onclick=x>hi</b>\n\n<script>alert(1)</script>\n\n&#27;[2J &#x9b;"

    text = render({"type": "markdown", "content": content}, width=80, color=True)

    assert "\x1b]8" not in text
    visible = colours_removed(text)
    assert "https://evil.example" in visible
    assert "<b onclick=x>hi</b>" in visible
    assert "<script>alert(1)</script>" in visible
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", visible)


def test_an_unknown_language_is_shown_without_colour():
    text = render({**CODE, "language": "klingon"}, width=60, color=True)

    assert colours_removed(text) == render(CODE, width=60, color=False)


def test_a_long_table_is_truncated_with_a_count():
    rows = [{"a": number} for number in range(10_000)]

    lines = render({"type": "table", "columns": [{"key": "a"}], "rows": rows}, width=40, color=False).split("\n")

    assert len(lines) == 2 + 1_000 + 1
    assert lines[-1] == "… 9,000 more rows"


def test_a_table_shows_the_columns_that_fit_and_counts_the_others():
    columns = [{"key": f"column {number}"} for number in range(100)]
    rows = [{f"column {number}": "some value" for number in range(100)}]

    lines = render({"type": "table", "columns": columns, "rows": rows}, width=40, color=False).split("\n")

    assert len(lines[0].split()) == 8
    assert lines[-1] == "… 92 more columns"


@pytest.mark.parametrize(
    "view, last",
    [
        ({**CODE, "content": "x\n" * 5_000}, "… 4,000 more lines"),
        ({"type": "markdown", "content": "x\n" * 1_001}, "… 1 more line"),
        ({"type": "file-list", "files": [{"path": "a"}] * 3_000}, "… 2,000 more files"),
        ({"type": "file-list", "groups": [{"label": "x", "files": [{"path": "a"}] * 600}] * 9}, "… 4,400 more files"),
        ({"type": "todo-list", "items": [{"content": "a", "status": "pending"}] * 1_500}, "… 500 more items"),
        ({"type": "none", "message": "a\n" * 1_200}, "… 200 more lines"),
        ({"type": "diffs", "items": [DIFF] * 300}, "… 1,099 more lines"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_a_long_view_is_truncated_with_a_count(view, last):
    assert render(view, width=40, color=False).split("\n")[-1] == last


def test_long_output_keeps_its_end():
    stdout = "".join(f"line {number}\n" for number in range(3_000))

    lines = render({**SHELL, "stdout": stdout}, width=40, color=False).split("\n")

    assert lines[:3] == ["$ npm test", "… 2,000 earlier lines", "line 2000"]
    assert lines[-2:] == ["line 2999", "exit code 0"]


def test_a_long_line_is_wrapped_beside_its_gutter_and_then_counted():
    lines = render({**CODE, "content": "x" * 250}, width=20, color=False).split("\n")

    assert lines == ["a.py  1 line", "1 │ " + "x" * 16, *["    " + "x" * 16] * 7, "    … 122 more char…"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[2J", "␛[2J"),
        ("a\rb\x00\x07\x7f", "a␍b␀␇␡"),
        ("\x9b31m\x85", "<U+009B>31m<U+0085>"),
        ("\u202egpj.exe\u2066", "<U+202E>gpj.exe<U+2066>"),
        ("a\u2028b", "a<U+2028>b"),
        ("\ud800", "\ufffd"),
        ("👩\u200d💻 é 日本 [bold]", "👩\u200d💻 é 日本 [bold]"),
    ],
)
def test_inert_makes_control_characters_visible(text, expected):
    assert inert(text) == expected


critical = "\x1b\x9b\u202e\r\n\t\ud800日한👩\u200d\ufe0f e[]`*#|<>&_"
characters = st.characters(exclude_categories=()) | st.sampled_from(critical)
texts = st.text(characters, max_size=60) | st.just("\x1b[999m") | st.just("long word " * 30) | st.just("日本語" * 100)
counts = st.integers(0, 2**53 - 1) | st.integers(0, 200)
flags = st.booleans()


def objects(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional)


def lists(strategy: Any) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=5)


def a_view(name: str, required: dict[str, Any], **optional: Any) -> st.SearchStrategy[Any]:
    return objects({"type": st.just(name), **required}, **optional, title=texts, collapsed=flags)


change = objects(
    {"type": st.sampled_from(["context", "removed", "added"]), "content": texts},
    oldLineNumber=counts,
    newLineNumber=counts,
)
hunk = objects(
    {"oldStart": counts, "oldLines": counts, "newStart": counts, "newLines": counts, "changes": lists(change)}
)
diff = a_view("diff", {"path": texts, "hunks": lists(hunk), "additions": counts, "deletions": counts}, language=texts)
files = lists(
    objects({"path": texts}, action=st.sampled_from(["created", "modified", "deleted"]), line=counts, content=texts)
)
keys = st.sampled_from("abc")
cells = st.none() | flags | st.integers() | st.floats() | texts | st.lists(texts, max_size=2)
todo = objects(
    {"content": texts, "status": st.sampled_from(["pending", "in_progress", "completed", "cancelled"])},
    priority=st.sampled_from(["high", "medium", "low"]),
)
any_view = st.one_of(
    diff,
    a_view("diffs", {"items": lists(diff)}),
    a_view(
        "code",
        {"path": texts, "content": texts, "created": flags},
        language=st.sampled_from(["python", "typescript", "bash", "html", "diff", "no such language"]) | texts,
        lineCount=counts,
        highlightLines=lists(counts),
        firstLine=counts,
    ),
    a_view("file-list", {"groups": lists(objects({"label": texts, "files": files}, icon=texts))}, total=counts),
    a_view("file-list", {"files": files}, total=counts),
    a_view(
        "table",
        {
            "columns": st.lists(objects({"key": keys | texts}, label=texts), max_size=12),
            "rows": lists(st.dictionaries(keys, cells)),
        },
        totalRows=counts,
    ),
    a_view("markdown", {"content": texts}, sourceUrl=texts),
    a_view(
        "shell-output",
        {"command": texts, "exitCode": st.none() | st.integers(-255, 255)},
        stdout=texts,
        stderr=texts,
    ),
    a_view("todo-list", {"items": lists(todo)}),
    a_view("none", {}, message=texts),
)


@given(any_view, st.integers(0, 120), st.booleans())
def test_no_view_can_exceed_its_width_or_control_the_terminal(view, width, color):
    assert foreign_views.validate(view)["type"] == view["type"]

    text = render(view, width=width, color=color)

    text.encode()
    assert "\x1b[999m" not in text
    visible = colours_removed(text) if color else text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", visible)
    assert all(cell_len(line) <= max(width, 20) for line in visible.split("\n"))


@given(st.recursive(cells, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8))
def test_an_invalid_view_is_rendered_as_the_reason(value):
    assert render(value, width=80, color=False).startswith("Not a view:")


@pytest.mark.starts_processes
def test_plain_rendering_loads_no_library():
    program = """
import sys
from hilt.output.terminal import render
print(render({"type": "code", "path": "a.py", "content": "x", "created": True}, width=80, color=False))
print(sorted({"rich", "pygments", "dataclasses", "inspect", "asyncio", "pathlib"} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert result.stdout.splitlines()[-1] == "[]", result.stderr


def test_program_output_keeps_its_colours_and_loses_other_control_sequences():
    view = SHELL | {"stdout": "\x1b[1;31mred\nstill\x1b[0m plain\x1b[2J\x1b]0;title\x07\x1b[H\x07 10%\r100%\n"}

    assert render(view, width=40, color=False).splitlines()[1:-1] == ["red", "100%"]
    coloured = render(view, width=40, color=True).splitlines()[1:-1]
    assert coloured == ["\x1b[1;31mred\x1b[0m", "100%"]


def test_colours_continue_on_the_next_line_until_reset():
    view = SHELL | {"stdout": "\x1b[32mone\ntwo\x1b[39m\x1b[0m three\n"}

    assert render(view, width=40, color=True).splitlines()[1:-1] == ["\x1b[32mone\x1b[0m", "\x1b[32mtwo\x1b[0m three"]
