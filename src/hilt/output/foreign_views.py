"""Validates views from custom tools: any value becomes a view that can be shown."""

from __future__ import annotations

from typing import Any, TypeAlias

from hilt.output.views import View, encodable, none

KEY = "_visualization"

# size limit of a view: its characters plus one for every value
_MAX_SIZE = 4_000_000
_CELL_DEPTH = 8
_FAULTS_MAX = 5

# "text", "flag" and so on are the leaves of _Check; a tuple lists the allowed strings, a list holds the shape of
# its elements, a dict the fields of an object; "?" marks a field that may be absent or null
_Shape: TypeAlias = "str | tuple[str, ...] | list[_Shape] | dict[str, _Shape]"

_COMMON_FIELDS: dict[str, _Shape] = {"title?": "text", "collapsed?": "flag"}

_DIFF: dict[str, _Shape] = {
    "type": ("diff",),
    "path": "text",
    "language?": "text",
    "hunks": [
        {
            "oldStart": "count",
            "oldLines": "count",
            "newStart": "count",
            "newLines": "count",
            "changes": [
                {
                    "type": ("context", "removed", "added"),
                    "content": "text",
                    "oldLineNumber?": "count",
                    "newLineNumber?": "count",
                }
            ],
        }
    ],
    "additions": "count",
    "deletions": "count",
    **_COMMON_FIELDS,
}

_FILES: _Shape = [
    {"path": "text", "action?": ("created", "modified", "deleted"), "line?": "count", "content?": "text"},
]

_SHAPES: dict[str, dict[str, _Shape]] = {
    "diff": _DIFF,
    "diffs": {"type": ("diffs",), "items": [_DIFF], **_COMMON_FIELDS},
    "code": {
        "type": ("code",),
        "path": "text",
        "content": "text",
        "language?": "text",
        "created": "flag",
        "lineCount?": "count",
        "highlightLines?": ["count"],
        "firstLine?": "count",
        **_COMMON_FIELDS,
    },
    "file-list": {
        "type": ("file-list",),
        "groups?": [{"label": "text", "icon?": "text", "files": _FILES}],
        "files?": _FILES,
        "total?": "count",
        **_COMMON_FIELDS,
    },
    "table": {
        "type": ("table",),
        "columns": [{"key": "text", "label?": "text", "width?": "text"}],
        "rows": ["row"],
        "totalRows?": "count",
        **_COMMON_FIELDS,
    },
    "markdown": {"type": ("markdown",), "content": "text", "sourceUrl?": "text", **_COMMON_FIELDS},
    "shell-output": {
        "type": ("shell-output",),
        "command": "text",
        "stdout?": "text",
        "stderr?": "text",
        "exitCode": "exit code",
        **_COMMON_FIELDS,
    },
    "todo-list": {
        "type": ("todo-list",),
        "items": [
            {
                "content": "text",
                "status": ("pending", "in_progress", "completed", "cancelled"),
                "priority?": ("high", "medium", "low"),
            }
        ],
        **_COMMON_FIELDS,
    },
    "none": {"type": ("none",), "message?": "text", **_COMMON_FIELDS},
}

TYPES: tuple[str, ...] = tuple(_SHAPES)


def validate(value: object) -> View:
    """Return the known fields of a view, safe to encode as JSON; for anything else, a `none` view that says why."""
    if type(value) is not dict:
        return none(f"Not a view: must be an object, not {_kind(value)}.")
    name = value.get("type")
    if type(name) is not str:
        return none(f"Not a view: type must be a string, one of {', '.join(TYPES)}.")
    if name not in _SHAPES:
        return none(f'Not a view: type "{_brief(name)}" is unknown; the types are {", ".join(TYPES)}.')
    check = _Check()
    view: View = check.fields(value, _SHAPES[name], "")
    if name == "file-list" and not check.faults and "groups" not in view and "files" not in view:
        check.fault("groups", "and files are missing; one of them is required")
    if check.room < 0:
        return none(f"The {name} view is larger than {_MAX_SIZE:,} characters.")
    if check.faults:
        return none(f"The {name} view is invalid: {'; '.join(check.faults)}.")
    return view


def extract(value: object) -> tuple[object, View | None]:
    """Return a copy of a JSON value without its `_visualization` keys, and the outermost of them, validated."""
    outermost: object = None
    top: list[Any] = []
    # breadth-first, so that the first view is the outermost and deep nesting does not overflow the stack
    queue: list[tuple[Any, Any]] = [([value], top)]
    for source, copy in queue:
        for key, item in source.items() if type(source) is dict else enumerate(source):
            if key == KEY:
                outermost = item if outermost is None else outermost
                continue
            twin = item
            if type(item) is dict or type(item) is list:
                twin = type(item)()
                queue.append((item, twin))
            if type(source) is dict:
                copy[key] = twin
            else:
                copy.append(twin)
    return top[0], None if outermost is None else validate(outermost)


class _Check:
    """Copies the parts of a value that match a shape, and records where it does not match."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.room = _MAX_SIZE

    def fault(self, path: str, problem: str) -> None:
        if len(self.faults) < _FAULTS_MAX:
            self.faults.append(f"{path} {problem}")
        elif len(self.faults) == _FAULTS_MAX:
            self.faults.append("and more")

    def value(self, value: object, shape: _Shape, path: str) -> Any:
        self.room -= 1
        if self.room < 0:
            return None
        if isinstance(shape, dict):
            return self.fields(value, shape, path)
        if isinstance(shape, list):
            return self.elements(value, shape[0], path)
        if isinstance(shape, tuple):
            if type(value) is not str or value not in shape:
                self.fault(path, f"must be {'one of ' if len(shape) > 1 else ''}{', '.join(shape)}")
            return value
        return _LEAVES[shape](self, value, path)

    def fields(self, value: object, shapes: dict[str, _Shape], path: str) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        if type(value) is not dict:
            self.fault(path, "must be an object")
            return copy
        for field, shape in shapes.items():
            name = field.removesuffix("?")
            field_path = f"{path}.{name}" if path else name
            if name != field and value.get(name) is None:
                continue
            if name in value:
                copy[name] = self.value(value[name], shape, field_path)
            else:
                self.fault(field_path, "is missing")
        return copy

    def elements(self, value: object, shape: _Shape, path: str) -> list[Any]:
        if type(value) is not list:
            self.fault(path, "must be a list")
            return []
        return [self.value(item, shape, f"{path}[{index}]") for index, item in enumerate(value)]

    def text(self, value: object, path: str) -> str:
        if type(value) is not str:
            self.fault(path, "must be a string")
            return ""
        self.room -= len(value)
        return encodable(value)

    def flag(self, value: object, path: str) -> object:
        if type(value) is not bool:
            self.fault(path, "must be true or false")
        return value

    def count(self, value: object, path: str) -> object:
        # the console reads views in JavaScript, which has no exact integers past 2**53
        if type(value) is not int or not 0 <= value < 2**53:
            self.fault(path, "must be an integer, 0 or more")
        return value

    def exit_code(self, value: object, path: str) -> object:
        if value is not None and (type(value) is not int or not -(2**53) < value < 2**53):
            self.fault(path, "must be an integer or null")
        return value

    def row(self, value: object, path: str, depth: int = _CELL_DEPTH + 1) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        if type(value) is not dict:
            self.fault(path, "must be an object")
            return copy
        for key, item in value.items():
            if type(key) is str:
                copy[self.text(key, path)] = self.cell(item, f"{path}.{_brief(key)}", depth - 1)
            else:
                self.fault(path, "must have string keys")
        return copy

    def cell(self, value: object, path: str, depth: int) -> Any:
        self.room -= 1
        if self.room < 0:
            return None
        if value is None or type(value) is bool:
            return value
        if type(value) is str:
            return self.text(value, path)
        if type(value) is int:
            # Python refuses to print more digits
            if value.bit_length() > 4_096:
                self.fault(path, "is a number with too many digits")
            return value
        if type(value) is float:
            # JSON has no NaN and no infinity
            return value if value - value == 0 else self.text(str(value), path)
        if type(value) is not dict and type(value) is not list:
            self.fault(path, "must be a JSON value")
            return None
        if depth == 0:
            self.fault(path, f"is nested deeper than {_CELL_DEPTH} levels")
            return None
        if type(value) is dict:
            return self.row(value, path, depth)
        return [self.cell(item, f"{path}[{index}]", depth - 1) for index, item in enumerate(value)]


_LEAVES = {
    "text": _Check.text,
    "flag": _Check.flag,
    "count": _Check.count,
    "exit code": _Check.exit_code,
    "row": _Check.row,
}


def _brief(text: str) -> str:
    text = encodable(text)
    return text if len(text) <= 40 else text[:40] + "…"


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "another type")
