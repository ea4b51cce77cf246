"""Unusual views: they never change the result, are valid or have a reason, and are safe to render."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.output import foreign_views
from hilt.output.terminal import inert, render
from hilt.runtime import Runtime
from hilt.testing import environment

HOSTILE = (
    "\x1b[2J\x1b[1;1H\x1b]0;title\x07\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\\x1bPq\x1b\\\x1b[8mhidden\x9b31m"
    "\r\x00\x07\x08\x0b\x0c\x7f\x85\u061c\u200b\u200e\u200f\u2028\u202egpj.exe\u2066\u2060\ufeff\U000e0041"
    "[bold red]markup[/bold red] <script>alert(1)</script> **b** `c` {{ x }} \ud800\udfff\ud83d\ude00 日本 👩\u200d💻"
)
HUGE = "x" * 1_000_000
MANY = 10_000
BIG = 2**53

CHANGE: dict[str, Any] = {"type": "added", "content": "x"}
HUNK: dict[str, Any] = {"oldStart": 1, "oldLines": 0, "newStart": 1, "newLines": 1, "changes": [CHANGE]}
DIFF: dict[str, Any] = {"type": "diff", "path": "a", "hunks": [HUNK], "additions": 1, "deletions": 0}
CODE: dict[str, Any] = {"type": "code", "path": "a.py", "content": "x = 1\n", "created": False}
FILES: dict[str, Any] = {"type": "file-list", "files": [{"path": "a"}]}
TABLE: dict[str, Any] = {"type": "table", "columns": [{"key": "a"}], "rows": [{"a": 1}]}
SHELL: dict[str, Any] = {"type": "shell-output", "command": "true", "exitCode": 0}
TODO: dict[str, Any] = {"type": "todo-list", "items": [{"content": "a", "status": "pending"}]}
MARKDOWN: dict[str, Any] = {"type": "markdown", "content": "a"}


def nested(depth: int, inside: Any = "end") -> Any:
    value = inside
    for level in range(depth):
        value = {"a": value} if level % 2 else {"type": "diffs", "items": [value]}
    return value


def diff_of(content: Any) -> dict[str, Any]:
    return {**DIFF, "hunks": [{**HUNK, "changes": [{"type": "added", "content": content}]}]}


def table_of(*values: Any) -> dict[str, Any]:
    return {**TABLE, "rows": [{"a": value} for value in values]}


def todo(**fields: Any) -> dict[str, Any]:
    return {"type": "todo-list", "items": [{"content": "a", "status": "pending", **fields}]}


SHARED = {"a": [1, 2]}

# unusual views that are valid
VALID: dict[str, Any] = {
    "diff: escapes in every text": {**diff_of(HOSTILE), "path": HOSTILE, "language": HOSTILE, "title": HOSTILE},
    "diff: a huge line": diff_of(HUGE),
    "diff: a line of blanks and tabs": diff_of(" \t" * 10_000),
    "diff: newlines inside a line": diff_of("a\nb\r\nc\r"),
    "diff: ten thousand lines": {**DIFF, "hunks": [{**HUNK, "changes": [CHANGE] * MANY}]},
    "diff: ten thousand empty hunks": {**DIFF, "hunks": [{**HUNK, "changes": []}] * MANY},
    "diff: wrong counts": {**DIFF, "additions": BIG - 1, "deletions": BIG - 1},
    "diff: the largest line numbers": {
        **DIFF,
        "hunks": [{**HUNK, "oldStart": BIG - 1, "changes": [{**CHANGE, "newLineNumber": BIG - 1}]}],
    },
    "diff: no hunks": {**DIFF, "hunks": []},
    "diff: collapsed": {**DIFF, "collapsed": True, "title": HOSTILE},
    "diffs: none": {"type": "diffs", "items": []},
    "diffs: ten thousand": {"type": "diffs", "items": [{**DIFF, "hunks": []}] * MANY},
    "diffs: with titles of their own": {"type": "diffs", "items": [{**DIFF, "title": HOSTILE, "collapsed": True}] * 3},
    "diffs: deep in an extra field": {"type": "diffs", "items": [DIFF], "extra": nested(200)},
    "code: escapes in every text": {**CODE, "path": HOSTILE, "content": HOSTILE * 50, "language": "python"},
    "code: an unknown language": {**CODE, "language": HOSTILE},
    "code: a path as language": {**CODE, "language": "../../etc/passwd"},
    "code: a language with slow rules": {**CODE, "language": "perl", "content": ("s{" * 300 + "\n") * 100},
    "code: a rare language": {**CODE, "language": "html+ng2", "content": ("(" * 900 + "\n") * 50},
    "code: one huge line": {**CODE, "content": HUGE},
    "code: only newlines": {**CODE, "content": "\n" * 1_000_000},
    "code: nothing": {**CODE, "content": "", "path": ""},
    "code: marked lines that are not there": {**CODE, "highlightLines": [0, 999, BIG - 1]},
    "code: ten thousand marked lines": {**CODE, "highlightLines": list(range(MANY))},
    "code: begins at the largest number": {**CODE, "firstLine": BIG - 1},
    "code: fewer lines than it has": {**CODE, "lineCount": 0},
    "code: wide characters": {**CODE, "content": "日本語👩\u200d💻" * 1_000},
    "code: many combining marks": {**CODE, "content": "e" + "\u0301" * 50_000},
    "file-list: flat": {"type": "file-list", "files": [{"path": "a", "action": "deleted", "line": 0, "content": ""}]},
    "file-list: flat and grouped": {**FILES, "groups": [{"label": "b", "files": [{"path": "c"}]}]},
    "file-list: escapes in every text": {
        "type": "file-list",
        "groups": [{"label": HOSTILE, "icon": HOSTILE, "files": [{"path": HOSTILE, "content": HOSTILE}]}],
    },
    "file-list: empty": {"type": "file-list", "files": []},
    "file-list: groups without files": {"type": "file-list", "groups": [{"label": "", "files": []}] * MANY},
    "file-list: ten thousand": {"type": "file-list", "files": [{"path": "a/b", "content": HOSTILE}] * MANY},
    "file-list: a total that is too small": {**FILES, "total": 0},
    "file-list: null action": {"type": "file-list", "files": [{"path": "a", "action": None}]},
    "table: ten thousand rows": table_of(*range(MANY)),
    "table: a thousand columns": {
        **TABLE,
        "columns": [{"key": str(n), "label": HOSTILE} for n in range(1_000)],
        "rows": [{str(n): n for n in range(1_000)}] * 20,
    },
    "table: no columns": {**TABLE, "columns": []},
    "table: no rows": {**TABLE, "rows": []},
    "table: the same column twice": {**TABLE, "columns": [{"key": "a"}, {"key": "a", "label": "again"}]},
    "table: columns that rows lack": {**TABLE, "columns": [{"key": "b"}], "rows": [{"a": 1}, {}]},
    "table: not a number": table_of(float("nan"), float("inf"), float("-inf"), -0.0, 1e308, 5e-324),
    "table: negative and huge numbers": table_of(-1, -(10**300), 10**1_000, True, None),
    "table: numbers and text mixed": table_of(1, "1", [1], {"b": {"c": [None]}}),
    "table: escapes in every text": {
        **TABLE,
        "columns": [{"key": HOSTILE, "label": HOSTILE, "width": HOSTILE}],
        "rows": [{HOSTILE: HOSTILE}, {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}],
    },
    "table: huge cells": table_of(HUGE, "日" * 100_000, [HUGE]),
    "table: one object in many cells": table_of(SHARED, SHARED, [SHARED, SHARED]),
    "table: an empty key": {**TABLE, "columns": [{"key": ""}], "rows": [{"": "x"}]},
    "table: fewer rows than it has": {**TABLE, "totalRows": 0},
    "markdown: escapes": {**MARKDOWN, "content": HOSTILE * 20, "sourceUrl": HOSTILE},
    "markdown: escapes as entities": {**MARKDOWN, "content": "&#27;[2J &#x9b;31m &#8238;x &#0; &#xd800;\n" * 100},
    "markdown: html": {**MARKDOWN, "content": "<h1 onclick='x'>a</h1>\n\n<!-- b -->\n\ntext <b>c</b>"},
    "markdown: misleading links": {**MARKDOWN, "content": "[good](http://evil.example) ![x](javascript:alert(1))"},
    "markdown: deep quotes": {**MARKDOWN, "content": "> " * 40_000},
    "markdown: deep lists": {**MARKDOWN, "content": "\n".join("  " * level + "- a" for level in range(150))},
    "markdown: brackets": {**MARKDOWN, "content": "[" * 50_000},
    "markdown: a fence in a slow language": {**MARKDOWN, "content": "```perl\n" + "s{" * 40_000 + "\n```"},
    "markdown: a fence that does not end": {**MARKDOWN, "content": "```" + HOSTILE + "\n" + HOSTILE},
    "markdown: a wide table": {**MARKDOWN, "content": "|a" * 200 + "\n" + "|-" * 200 + "\n" + "|b" * 200},
    "markdown: nothing": {**MARKDOWN, "content": ""},
    "markdown: huge": {**MARKDOWN, "content": "# word *x* " * 100_000},
    "shell-output: null exit code": {**SHELL, "exitCode": None},
    "shell-output: a negative exit code": {**SHELL, "exitCode": -9},
    "shell-output: escapes in every text": {**SHELL, "command": HOSTILE, "stdout": HOSTILE, "stderr": HOSTILE * 9},
    "shell-output: colours that do not end": {**SHELL, "stdout": "\x1b[31;1;4m" * 10_000 + "red\nred"},
    "shell-output: hidden text": {**SHELL, "stdout": "\x1b[8mhidden\x1b[38;5;8mgrey\x1b[38;2;8;8;8mx"},
    "shell-output: sequences that do not end": {**SHELL, "stdout": ("\x1b]" + "a" * 5_000 + "\x1b[" + "1" * 99) * 50},
    "shell-output: overwritten lines": {**SHELL, "stdout": "10%\r" * 100_000 + "\n"},
    "shell-output: a million lines": {**SHELL, "stdout": "\n" * 1_000_000, "stderr": "x\n" * 500_000},
    "shell-output: a command of many lines": {**SHELL, "command": "a\n" * 100_000},
    "shell-output: no output": SHELL,
    "todo-list: cancelled": todo(status="cancelled", priority="low"),
    "todo-list: escapes": todo(content=HOSTILE),
    "todo-list: ten thousand": {"type": "todo-list", "items": TODO["items"] * MANY},
    "todo-list: one huge item": todo(content="word " * 200_000),
    "todo-list: empty": {"type": "todo-list", "items": []},
    "none: nothing": {"type": "none"},
    "none: escapes": {"type": "none", "message": HOSTILE, "title": HOSTILE},
    "none: many lines": {"type": "none", "message": "a\n" * 100_000},
    "none: a view in an extra field": {"type": "none", "items": [DIFF], "message": "m", "_visualization": TABLE},
}

# invalid views, and a part of the reason
INVALID: dict[str, tuple[Any, str]] = {
    "null": (None, "must be an object, not null"),
    "text": ("diff", "must be an object, not a string"),
    "a list of views": ([DIFF], "must be an object, not a list"),
    "a number": (float("nan"), "must be an object, not a number"),
    "an empty object": ({}, "type must be a string"),
    "a type that is a view": ({"type": DIFF}, "type must be a string"),
    "a type that is null": ({"type": None}, "type must be a string"),
    "an unknown type": ({"type": "chart"}, 'type "chart" is unknown'),
    "a type in another spelling": ({**DIFF, "type": "Diff"}, 'type "Diff" is unknown'),
    "a type with blanks": ({**DIFF, "type": "diff "}, "is unknown"),
    "a type with escapes": ({"type": HOSTILE}, "is unknown"),
    "a huge type": ({"type": HUGE}, "is unknown"),
    "diff: no hunks": ({key: value for key, value in DIFF.items() if key != "hunks"}, "hunks is missing"),
    "diff: hunks in an object": ({**DIFF, "hunks": {"0": HUNK}}, "hunks must be a list"),
    "diff: hunks that are null": ({**DIFF, "hunks": None}, "hunks must be a list"),
    "diff: a hunk that is text": ({**DIFF, "hunks": ["@@"]}, "hunks[0] must be an object"),
    "diff: a negative number": ({**DIFF, "additions": -1}, "additions must be an integer, 0 or more"),
    "diff: a fraction": ({**DIFF, "additions": 1.0}, "additions must be an integer"),
    "diff: true as a number": ({**DIFF, "deletions": True}, "deletions must be an integer"),
    "diff: too large a number": ({**DIFF, "deletions": BIG}, "deletions must be an integer"),
    "diff: a change of an unknown type": (
        {**DIFF, "hunks": [{**HUNK, "changes": [{"type": "+", "content": "x"}]}]},
        "hunks[0].changes[0].type must be one of context, removed, added",
    ),
    "diff: content that is a number": (diff_of(1), "content must be a string"),
    "diffs: a table among them": ({"type": "diffs", "items": [TABLE]}, "items[0].type must be diff"),
    "diffs: diffs among them": ({"type": "diffs", "items": [{"type": "diffs", "items": []}]}, "items[0].type"),
    "diffs: very deep": (nested(301), "items[0]"),
    "code: created that is text": ({**CODE, "created": "false"}, "created must be true or false"),
    "code: content that is a list": ({**CODE, "content": ["a"]}, "content must be a string"),
    "code: marks that are text": ({**CODE, "highlightLines": "1,2"}, "highlightLines must be a list"),
    "code: a mark that is not a number": ({**CODE, "highlightLines": [float("nan")]}, "highlightLines[0]"),
    "file-list: neither files nor groups": ({"type": "file-list", "total": 3}, "groups and files are missing"),
    "file-list: paths alone": ({"type": "file-list", "files": ["a"]}, "files[0] must be an object"),
    "file-list: an unknown action": ({"type": "file-list", "files": [{"path": "a", "action": "moved"}]}, "action"),
    "file-list: a group without a label": ({"type": "file-list", "groups": [{"files": []}]}, "label is missing"),
    "table: rows of lists": ({**TABLE, "rows": [[1]]}, "rows[0] must be an object"),
    "table: columns of text": ({**TABLE, "columns": ["a"]}, "columns[0] must be an object"),
    "table: very deep cells": (table_of(nested(30)), "nested deeper than"),
    "table: more digits than can be printed": (table_of(10**5_000), "too many digits"),
    "table: too large": (table_of(*["x" * 100_000] * 50), "larger than"),
    "markdown: content that is null": ({**MARKDOWN, "content": None}, "content must be a string"),
    "markdown: too large": ({**MARKDOWN, "content": "x" * 4_000_001}, "larger than"),
    "shell-output: no exit code": ({"type": "shell-output", "command": "a"}, "exitCode is missing"),
    "shell-output: an exit code in text": ({**SHELL, "exitCode": "0"}, "exitCode must be an integer or null"),
    "shell-output: an exit code that is not a number": ({**SHELL, "exitCode": float("nan")}, "exitCode"),
    "todo-list: an unknown status": (todo(status="done"), "status must be one of"),
    "todo-list: an unknown priority": (todo(priority="urgent"), "priority must be one of"),
    "todo-list: no content": ({"type": "todo-list", "items": [{"status": "pending"}]}, "content is missing"),
    "none: a message that is a number": ({"type": "none", "message": 1}, "message must be a string"),
    "a title that is an object": ({**TABLE, "title": {}}, "title must be a string"),
    "collapsed that is text": ({**TABLE, "collapsed": "yes"}, "collapsed must be true or false"),
}

UNUSUAL: dict[str, Any] = {**VALID, **{name: value for name, (value, _) in INVALID.items()}}
COLOURS = re.compile(r"\x1b\[(?:\d{1,3})(?:;\d{1,3})*m")
CONTROLS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
MAX_CHARACTERS = 2_000_000


def check_rendered(view: Any, width: int, *, color: bool) -> None:
    """Render a view, and check that the text is short and has no control characters."""
    text = render(view, width=width, color=color)
    assert len(text) < MAX_CHARACTERS
    assert CONTROLS.search(COLOURS.sub("", text) if color else text) is None
    assert "\U000e0041" not in text


@pytest.mark.parametrize("name", VALID)
def test_an_unusual_valid_view_is_kept_and_the_result_is_unchanged(name):
    result, view = foreign_views.extract({"answer": 42, "_visualization": VALID[name]})

    assert result == {"answer": 42}
    assert view is not None
    assert view["type"] == VALID[name]["type"]
    assert view == foreign_views.validate(view)
    json.dumps(view, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_view_gives_a_reason_and_the_result_is_unchanged(name):
    value, reason = INVALID[name]

    # null means that the tool has no view
    result, view = foreign_views.extract({"answer": 42, "_visualization": value})

    assert result == {"answer": 42}
    assert view == (None if value is None else foreign_views.validate(value))
    rejection = foreign_views.validate(value)
    assert rejection["type"] == "none"
    assert reason in rejection["message"]
    assert len(rejection["message"]) < 2_000


@pytest.mark.parametrize("color", [False, True], ids=["plain", "coloured"])
@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_view_is_rendered_safely(name, color):
    check_rendered(UNUSUAL[name], 80, color=color)


@pytest.mark.parametrize("width", [-1, 0, 1, 21, 10_000])
def test_unusual_views_are_rendered_at_any_width(width):
    for name in ("diff: escapes in every text", "table: escapes in every text", "markdown: deep lists"):
        check_rendered(UNUSUAL[name], width, color=True)


def test_a_cyclic_value_is_rejected_like_a_deep_one():
    cycle: dict[str, Any] = {"type": "diffs"}
    cycle["items"] = [cycle]
    cell: list[Any] = []
    cell.append(cell)

    assert foreign_views.validate(cycle)["type"] == "none"
    assert "nested deeper" in foreign_views.validate(table_of(cell))["message"]


def test_concealed_text_is_shown_and_its_colours_are_kept():
    lines = render(VALID["shell-output: hidden text"], width=80, color=True).split("\n")

    assert lines[1] == "hidden\x1b[38;5;8mgrey\x1b[0m\x1b[38;5;8;38;2;8;8;8mx\x1b[0m"


@pytest.mark.parametrize("character", "\u061c\u180e\u200b\u200e\u200f\u2060\u2063\ufeff\ufff9\U000e0041")
def test_an_invisible_character_is_shown_by_its_code_point(character):
    assert inert(f"a{character}b") == f"a<U+{ord(character):04X}>b"


@pytest.mark.parametrize("language, coloured", [("python", True), ("py", True), ("html+ng2", False), ("x", False)])
def test_only_known_languages_are_coloured(language, coloured):
    code = render({**CODE, "language": language}, width=80, color=True)
    fence = render({**MARKDOWN, "content": f"```{language}\nif x: 'y'\n```"}, width=80, color=True)

    assert ("x = 1" not in code, "if x: 'y'" not in fence) == (coloured, coloured)


def test_a_fence_that_is_too_long_is_rendered_without_colour():
    short, long = (f"```python\n{chr(10).join(['if x: 1' + ' ' * 50] * lines)}\n```" for lines in (10, 400))

    assert "if x: 1" not in render({**MARKDOWN, "content": short + "\n" * 2 + short}, width=80, color=True)
    assert "if x: 1" in render({**MARKDOWN, "content": long + "\n" * 2 + long}, width=80, color=True)


def test_rich_markup_is_shown_as_text():
    text = render({**MARKDOWN, "content": "[bold]x[/bold] [link=http://evil.example]y[/link]"}, width=80, color=True)

    assert "[bold]x[/bold]" in COLOURS.sub("", text)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()))
fields = st.sampled_from(
    [
        *("path", "content", "hunks", "changes", "items", "files", "groups", "columns", "rows", "message", "command"),
        *("stdout", "exitCode", "created", "language", "title", "collapsed", "status", "key", "label", "type", "total"),
        *("additions", "deletions", "oldStart", "oldLines", "newStart", "newLines", "highlightLines", "firstLine"),
    ]
)
types = st.sampled_from(foreign_views.TYPES)
json_values = st.recursive(
    scalars | types | st.just(HOSTILE),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(fields | st.text(max_size=5), inner, max_size=6),
    max_leaves=20,
)


@given(types, st.dictionaries(fields | st.text(max_size=5), json_values, max_size=12), st.booleans())
def test_any_object_with_a_known_type_is_rendered_safely(name, extra_fields, color):
    result, view = foreign_views.extract([{"answer": name}, {"_visualization": {**extra_fields, "type": name}}])

    assert result == [{"answer": name}, {}]
    assert view is not None
    assert view["type"] == name or (view["type"] == "none" and view["message"])
    json.dumps(view, allow_nan=False).encode()
    check_rendered({**extra_fields, "type": name}, 60, color=color)


# --- through the runtime ------------------------------------------------------------------------------------------

PYTHON = '''
import json
from hilt import Output, tool

@tool(effects="read")
def show(name: str) -> Output:
    """Answer with one of the views of a file."""
    with open("views.json", encoding="utf-8") as file:
        return Output(data={"answer": name}, view=json.load(file)[name])

@tool(effects="read")
def inside() -> dict:
    """Answer with a view inside the result."""
    return {"answer": [{"_visualization": {"type": "none", "message": "m"}}, 1]}
'''
MARKDOWN_TOOL = "---\nname: printed\ndescription: Prints.\napproval: never\nresult: json\n---\ncat answer.json\n"
FOLDER = (
    "---\nname: show-text\nscript: s.sh\nruntime: bash\ninputSchema: {type: object}\noutputSchema: {type: object}\n"
)
TEXTS = {
    '{"type": "none", "type": "markdown", "content": "x"}': "markdown",
    '{"type": "none", "message": "\\ud800 \\ud83d\\ude00"}': "none",
    '{"type": "table", "columns": [{"key": "a"}], "rows": [{"a": 1e-400}]}': "table",
    '{"type": "diffs", "items": ' + "[" * 500 + "]" * 500 + "}": "none",
    "null": None,
    "[]": "none",
    '"\\u001b[2J"': "none",
}


def as_json(view: Any) -> str | None:
    """Return a view as JSON if it can be encoded."""
    try:
        return json.dumps(view, allow_nan=False)
    except ValueError:
        return None


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[tuple[Runtime, Path]]:
    """A runtime with a Python tool and a folder tool, and its workspace."""
    env = environment(str(tmp_path))
    workspace, own = tmp_path / "workspace", tmp_path / "config/tools"
    for folder in (workspace, own / "show-text"):
        folder.mkdir(parents=True)
    (own / "show.py").write_text(PYTHON)
    (own / "printed.md").write_text(MARKDOWN_TOOL)
    (own / "show-text/tool.md").write_text(FOLDER + "effects: read\n---\nShows a view.\n")
    (own / "show-text/s.sh").write_text("cat answer.json\n")
    with Runtime(str(workspace), environ=env) as runtime:
        yield runtime, workspace


@pytest.mark.starts_processes
def test_the_result_of_a_python_tool_does_not_depend_on_its_view(tools):
    runtime, workspace = tools
    encoded = {name: as_json(view) for name, view in UNUSUAL.items()}
    views = {name: json.loads(text) for name, text in encoded.items() if text is not None and len(text) < 100_000}
    assert len(views) > 70
    (workspace / "views.json").write_text(json.dumps(views))

    for name, view in views.items():
        result = runtime.call("show", name=name)

        assert (result.error, result.data) == (None, {"answer": name})
        assert result.view == (None if view is None else foreign_views.validate(view))


@pytest.mark.starts_processes
@pytest.mark.parametrize("name", ["inside", "printed", "show-text"])
def test_a_view_inside_a_result_is_extracted_in_every_format(tools, name):
    runtime, workspace = tools
    (workspace / "answer.json").write_text('{"answer": [{"_visualization": {"type": "none", "message": "m"}}, 1]}')

    result = runtime.call(name)

    assert (result.error, result.data) == (None, {"answer": [{}, 1]})
    assert result.view == {"type": "none", "message": "m"}


@pytest.mark.starts_processes
@pytest.mark.parametrize("text, expected", TEXTS.items(), ids=[text[:40] for text in TEXTS])
def test_the_result_of_a_folder_tool_does_not_depend_on_its_view(tools, text, expected):
    runtime, workspace = tools
    (workspace / "answer.json").write_text(f'{{"answer": [{{"_visualization": {text}}}, 1]}}')

    result = runtime.call("show-text")

    assert (result.error, result.data) == (None, {"answer": [{}, 1]})
    assert (result.view or {}).get("type") == expected
