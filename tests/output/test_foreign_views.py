"""Views of custom tools: which are accepted, which are rejected and why."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hilt.output import foreign_views

# the nine views as the format's documentation prints them
DOCUMENTED: dict[str, Any] = {
    "diff": {
        "type": "diff",
        "path": "src/index.ts",
        "language": "typescript",
        "hunks": [
            {
                "oldStart": 10,
                "oldLines": 1,
                "newStart": 10,
                "newLines": 2,
                "changes": [
                    {"type": "removed", "content": "old line", "oldLineNumber": 10},
                    {"type": "added", "content": "new line 1", "newLineNumber": 10},
                    {"type": "added", "content": "new line 2", "newLineNumber": 11},
                ],
            }
        ],
        "additions": 2,
        "deletions": 1,
    },
    "diffs": {"type": "diffs", "items": []},
    "code": {
        "type": "code",
        "path": "src/new-file.ts",
        "content": "// full file content here...",
        "language": "typescript",
        "created": True,
        "lineCount": 42,
        "highlightLines": [10, 11, 12],
    },
    "file-list": {
        "type": "file-list",
        "groups": [
            {
                "label": "Modified",
                "icon": "edit",
                "files": [
                    {"path": "src/index.ts", "action": "modified"},
                    {"path": "src/utils.ts", "action": "modified", "line": 42},
                ],
            },
            {"label": "Created", "icon": "plus", "files": [{"path": "src/new.ts", "action": "created"}]},
        ],
        "total": 3,
    },
    "table": {
        "type": "table",
        "columns": [{"key": "name", "label": "Name"}, {"key": "status", "label": "Status", "width": "100px"}],
        "rows": [{"name": "server", "status": "running"}, {"name": "database", "status": "stopped"}],
        "totalRows": 2,
    },
    "markdown": {
        "type": "markdown",
        "content": "# Title\n\nParagraph with **bold** text.",
        "sourceUrl": "https://example.com",
    },
    "shell-output": {
        "type": "shell-output",
        "command": "npm test",
        "stdout": "Tests: 42 passed\n",
        "stderr": "",
        "exitCode": 0,
    },
    "todo-list": {
        "type": "todo-list",
        "items": [
            {"content": "Set up database", "status": "completed", "priority": "high"},
            {"content": "Write API endpoint", "status": "in_progress", "priority": "medium"},
            {"content": "Add tests", "status": "pending", "priority": "low"},
        ],
    },
    "none": {"type": "none", "message": "Operation completed silently"},
}
DIFF, CODE, TABLE, SHELL = (DOCUMENTED[name] for name in ("diff", "code", "table", "shell-output"))
DOCUMENTED["diffs"]["items"] = [DIFF, DIFF]


def without(view: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in view.items() if name not in names}


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def test_every_documented_type_is_known():
    assert set(foreign_views.TYPES) == set(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_documented_view_passes_unchanged(name):
    assert foreign_views.validate(DOCUMENTED[name]) == DOCUMENTED[name]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_title_and_collapsed_are_kept_on_every_type(name):
    view = {**DOCUMENTED[name], "title": "A title", "collapsed": True}

    assert foreign_views.validate(view) == view


@pytest.mark.parametrize(
    "view",
    [
        {"type": "todo-list", "items": [{"content": "a", "status": "cancelled"}]},
        {"type": "file-list", "files": [{"path": "a", "action": "deleted"}, {"path": "b", "line": 3, "content": "x"}]},
        {"type": "file-list", "groups": []},
        {**SHELL, "exitCode": None},
        {**SHELL, "exitCode": -9},
        {"type": "shell-output", "command": "true", "exitCode": 0},
        {"type": "table", "columns": [{"key": "a"}], "rows": [{"a": None}, {"a": [1, {"b": True}]}, {"a": 0.5}, {}]},
        {**CODE, "firstLine": 7},
        {"type": "none"},
    ],
    ids=json.dumps,
)
def test_a_view_with_only_required_fields_passes_unchanged(view):
    assert foreign_views.validate(view) == view


def test_unknown_fields_are_removed_at_every_level():
    view = {
        "type": "diffs",
        "items": [{**DIFF, "match": 1, "hunks": [{**DIFF["hunks"][0], "note": "x"}]}],
        "extra": nested(50_000),
    }

    assert foreign_views.validate(view) == {"type": "diffs", "items": [DIFF]}


def test_null_counts_as_absent_for_optional_fields():
    assert foreign_views.validate({**CODE, "title": None, "language": None}) == without(CODE, "language")


@pytest.mark.parametrize(
    "value, reason",
    [
        (None, "must be an object, not null"),
        ([DIFF], "must be an object, not a list"),
        ("diff", "must be an object, not a string"),
        ({1, 2}, "must be an object, not another type"),
        ({}, "type must be a string"),
        ({"type": ["diff"]}, "type must be a string"),
        ({"type": "todo_list"}, 'type "todo_list" is unknown; the types are diff, '),
        ({"type": "x" * 1_000_000}, f'type "{"x" * 40}…" is unknown'),
        (without(DIFF, "path"), "path is missing"),
        ({**DIFF, "path": 7}, "path must be a string"),
        ({**DIFF, "hunks": {}}, "hunks must be a list"),
        ({**DIFF, "hunks": [None]}, "hunks[0] must be an object"),
        ({**DIFF, "additions": -1}, "additions must be an integer, 0 or more"),
        ({**DIFF, "additions": True}, "additions must be an integer, 0 or more"),
        ({**DIFF, "additions": 1.0}, "additions must be an integer, 0 or more"),
        ({**DIFF, "deletions": math.nan}, "deletions must be an integer, 0 or more"),
        ({**DIFF, "deletions": 10**5_000}, "deletions must be an integer, 0 or more"),
        ({**DIFF, "title": 1}, "title must be a string"),
        ({**DIFF, "collapsed": "yes"}, "collapsed must be true or false"),
        (
            {**DIFF, "hunks": [{**DIFF["hunks"][0], "changes": [{"type": "changed", "content": ""}]}]},
            "hunks[0].changes[0].type must be one of context, removed, added",
        ),
        ({"type": "diffs", "items": [DIFF, without(DIFF, "hunks")]}, "items[1].hunks is missing"),
        ({"type": "diffs", "items": [DOCUMENTED["diffs"]]}, "items[0].type must be diff"),
        ({**CODE, "created": 1}, "created must be true or false"),
        ({**CODE, "highlightLines": [1, "2"]}, "highlightLines[1] must be an integer"),
        ({"type": "file-list", "total": 3}, "groups and files are missing"),
        ({"type": "file-list", "groups": [{"files": []}]}, "groups[0].label is missing"),
        (
            {"type": "file-list", "files": [{"path": "a", "action": "renamed"}]},
            "files[0].action must be one of created",
        ),
        ({**TABLE, "rows": [["a"]]}, "rows[0] must be an object"),
        ({**TABLE, "rows": [{1: "a"}]}, "rows[0] must have string keys"),
        ({**TABLE, "rows": [{"name": nested(9)}]}, "is nested deeper than 8 levels"),
        ({**TABLE, "rows": [{"name": nested(100_000)}]}, "is nested deeper than 8 levels"),
        ({**TABLE, "rows": [{"name": {"a", "b"}}]}, "rows[0].name must be a JSON value"),
        ({**TABLE, "rows": [{"name": 10**5_000}]}, "rows[0].name is a number with too many digits"),
        ({**TABLE, "columns": [{"label": "Name"}]}, "columns[0].key is missing"),
        (without(SHELL, "exitCode"), "exitCode is missing"),
        ({**SHELL, "exitCode": "0"}, "exitCode must be an integer or null"),
        ({"type": "markdown", "content": None}, "content must be a string"),
        (
            {"type": "todo-list", "items": [{"content": "a", "status": "done"}]},
            "items[0].status must be one of pending",
        ),
        ({"type": "none", "message": []}, "message must be a string"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_view_becomes_none_with_a_reason(value, reason):
    view = foreign_views.validate(value)

    assert view["type"] == "none"
    assert reason in view["message"]


def test_several_faults_are_reported_together():
    assert foreign_views.validate({"type": "diff", "path": 1})["message"] == (
        "The diff view is invalid: path must be a string; hunks is missing; additions is missing; deletions is missing."
    )


def test_many_faults_are_not_all_listed():
    message = foreign_views.validate({"type": "todo-list", "items": [None] * 10_000})["message"]

    assert message.endswith("items[4] must be an object; and more.")


@pytest.mark.parametrize(
    "view",
    [
        {"type": "markdown", "content": "x" * 4_000_001},
        {**TABLE, "rows": [{}] * 4_000_001},
        {**TABLE, "rows": [{"name": [0] * 4_000_001}]},
    ],
    ids=["text", "rows", "cells"],
)
def test_a_view_that_is_too_large_becomes_none(view):
    assert foreign_views.validate(view)["message"] == f"The {view['type']} view is larger than 4,000,000 characters."


def test_values_that_json_or_utf8_cannot_represent_are_replaced_in_a_table():
    rows = [{"name\ud800": math.nan, "status": "a\udc00"}, {"name": -math.inf}]

    view = foreign_views.validate({**TABLE, "rows": rows})

    assert view["rows"] == [{"name\ufffd": "nan", "status": "a\ufffd"}, {"name": "-inf"}]


characters = st.characters(exclude_categories=())
texts = st.text(characters, max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | st.just(foreign_views.KEY), inner, max_size=4),
    max_leaves=12,
)


def locations(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a JSON value."""
    pairs: dict[type, Any] = {dict: dict.items, list: enumerate}
    items = list(pairs[type(value)](value)) if type(value) in pairs else []
    return [(value, key) for key, _ in items] + [location for _, inner in items for location in locations(inner)]


@st.composite
def almost_views(draw):
    """A documented view with a few of its parts, at any depth, replaced or removed."""
    view = json.loads(json.dumps(draw(st.sampled_from(list(DOCUMENTED.values())))))
    for _ in range(draw(st.integers(0, 3))):
        if not (candidates := locations(view)):
            break
        container, key = draw(st.sampled_from(candidates))
        if draw(st.booleans()):
            container[key] = draw(json_values)
        else:
            del container[key]
    return view


@given(almost_views() | json_values)
@example({**TABLE, "rows": [{"a": math.inf}]})
def test_any_value_becomes_a_valid_view(value):
    view = foreign_views.validate(value)

    assert view["type"] in DOCUMENTED
    assert foreign_views.validate(view) == view
    json.dumps(view, allow_nan=False, ensure_ascii=False).encode()


def test_extract_removes_views_at_any_depth_and_returns_the_outermost():
    inner, outer = {"type": "none", "message": "inner"}, {"type": "none", "message": "outer"}
    value = {"files": [{"name": "a", "_visualization": inner}], "data": {"ok": True, "_visualization": outer}}

    assert foreign_views.extract(value) == ({"files": [{"name": "a"}], "data": {"ok": True}}, outer)


def test_extract_does_not_change_its_argument():
    value = {"a": [1, {"_visualization": {"type": "none"}}]}

    foreign_views.extract(value)

    assert value == {"a": [1, {"_visualization": {"type": "none"}}]}


@pytest.mark.parametrize("value", [None, 3, "_visualization", [], {"a": 1}, {"a": 1, "_visualization": None}])
def test_extract_returns_no_view_if_there_is_none(value):
    rest, view = foreign_views.extract(value)

    assert view is None
    assert rest == ({"a": 1} if isinstance(value, dict) else value)


def test_extract_reports_what_is_wrong_with_an_invalid_view():
    assert foreign_views.extract({"_visualization": "pretty"}) == (
        {},
        {"type": "none", "message": "Not a view: must be an object, not a string."},
    )


def test_extract_handles_nesting_beyond_the_recursion_limit():
    value: Any = {"_visualization": DIFF}
    for _ in range(100_000):
        value = [value]

    rest, view = foreign_views.extract(value)

    assert view == DIFF
    for _ in range(100_000):
        rest = rest[0]  # type: ignore[index]
    assert rest == {}


@given(json_values)
def test_extract_removes_every_view_and_nothing_else(value):
    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: stripped(item) for key, item in value.items() if key != foreign_views.KEY}
        return [stripped(item) for item in value] if isinstance(value, list) else value

    rest, _ = foreign_views.extract(value)

    # compared as text: NaN is not equal to itself
    assert repr(rest) == repr(stripped(value))
