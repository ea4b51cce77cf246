"""Validates views from custom tools: any value becomes a view that can be shown."""

from __future__ import annotations

from typing import Any

from hilt.output.views import View, encodable, none

KEY = "_visualization"

# size limit of a view: its characters plus one for every value
_MAX_SIZE = 4_000_000
_CELL_DEPTH = 8
_FAULTS_MAX = 5

# The fields of each object: a name, "?" if it may be absent or null, and after a colon its kind, by default "text".
# A kind is a leaf of _Check, an object, a list of either in brackets, or the allowed strings, each followed by "|".
_VIEWS = {
    "diff": "path language? hunks:[hunk] additions:count deletions:count",
    "diffs": "items:[diff]",
    "code": "path content language? created:flag lineCount?:count highlightLines?:[count] firstLine?:count",
    "file-list": "groups?:[group] files?:[file] total?:count",
    "table": "columns:[column] rows:[row] totalRows?:count",
    "markdown": "content sourceUrl?",
    "shell-output": "command stdout? stderr? exitCode:exit_code",
    "todo-list": "items:[todo]",
    "none": "message?",
}
TYPES: tuple[str, ...] = tuple(_VIEWS)
_OBJECTS = {
    "change": "type:context|removed|added| content oldLineNumber?:count newLineNumber?:count",
    "hunk": "oldStart:count oldLines:count newStart:count newLines:count changes:[change]",
    "file": "path action?:created|modified|deleted| line?:count content?",
    "group": "label icon? files:[file]",
    "column": "key label? width?",
    "todo": "content status:pending|in_progress|completed|cancelled| priority?:high|medium|low|",
    **{name: f"type:{name}| {fields} title? collapsed?:flag" for name, fields in _VIEWS.items()},
}


def validate(value: object) -> View:
    """Return the known fields of a view, safe to encode as JSON; for anything else, a `none` view that says why."""
    if type(value) is not dict:
        return none(f"Not a view: must be an object, not {_kind(value)}.")
    name = value.get("type")
    if type(name) is not str:
        return none(f"Not a view: type must be a string, one of {', '.join(TYPES)}.")
    if name not in _VIEWS:
        return none(f'Not a view: type "{_brief(name)}" is unknown; the types are {", ".join(TYPES)}.')
    check = _Check()
    view: View = check.fields(value, _OBJECTS[name], "")
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

    def value(self, value: object, kind: str, path: str) -> Any:
        self.room -= 1
        if self.room < 0:
            return None
        if kind in _OBJECTS:
            return self.fields(value, _OBJECTS[kind], path)
        if kind[0] == "[":
            return self.elements(value, kind[1:-1], path)
        if kind[-1] == "|":
            choices = kind[:-1].split("|")
            if type(value) is not str or value not in choices:
                self.fault(path, f"must be {'one of ' if len(choices) > 1 else ''}{', '.join(choices)}")
            return value
        return getattr(self, kind)(value, path)

    def fields(self, value: object, fields: str, path: str) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        if type(value) is not dict:
            self.fault(path, "must be an object")
            return copy
        for field in fields.split():
            marked, _, kind = field.partition(":")
            name = marked.removesuffix("?")
            field_path = f"{path}.{name}" if path else name
            if name != marked and value.get(name) is None:
                continue
            if name in value:
                copy[name] = self.value(value[name], kind or "text", field_path)
            else:
                self.fault(field_path, "is missing")
        return copy

    def elements(self, value: object, kind: str, path: str) -> list[Any]:
        if type(value) is not list:
            self.fault(path, "must be a list")
            return []
        return [self.value(item, kind, f"{path}[{index}]") for index, item in enumerate(value)]

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


def _brief(text: str) -> str:
    text = encodable(text)
    return text if len(text) <= 40 else text[:40] + "…"


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "another type")
