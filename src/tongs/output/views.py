"""Views: pictures of a result for people, as JSON objects of nine types.

A tool of the user may send anything, so `validate` turns every value into a view that can be shown, stored and encoded.
Built-in tools make theirs with the builders below, which keep them small.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

View: TypeAlias = dict[str, Any]

KEY = "_visualization"

CHANGED_LINES = 2_000
CHARACTERS = 200_000
LINE_CHARACTERS = 2_000
FILES = 2_000

# what one view of a tool may hold: its text plus one for every value
_LARGEST = 4_000_000
_CELL_DEPTH = 8
_FAULTS = 5

# "text", "flag" and so on are the leaves that _Check knows; a tuple lists the allowed words, a list holds the shape of
# its elements, a dict the fields of an object; "?" marks a field that may be absent or null
_Shape: TypeAlias = "str | tuple[str, ...] | list[_Shape] | dict[str, _Shape]"

_EVERY: dict[str, _Shape] = {"title?": "text", "collapsed?": "flag"}

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
    **_EVERY,
}

_FILES: _Shape = [
    {"path": "text", "action?": ("created", "modified", "deleted"), "line?": "count", "content?": "text"},
]

_SHAPES: dict[str, dict[str, _Shape]] = {
    "diff": _DIFF,
    "diffs": {"type": ("diffs",), "items": [_DIFF], **_EVERY},
    "code": {
        "type": ("code",),
        "path": "text",
        "content": "text",
        "language?": "text",
        "created": "flag",
        "lineCount?": "count",
        "highlightLines?": ["count"],
        "firstLine?": "count",
        **_EVERY,
    },
    "file-list": {
        "type": ("file-list",),
        "groups?": [{"label": "text", "icon?": "text", "files": _FILES}],
        "files?": _FILES,
        "total?": "count",
        **_EVERY,
    },
    "table": {
        "type": ("table",),
        "columns": [{"key": "text", "label?": "text", "width?": "text"}],
        "rows": ["row"],
        "totalRows?": "count",
        **_EVERY,
    },
    "markdown": {"type": ("markdown",), "content": "text", "sourceUrl?": "text", **_EVERY},
    "shell-output": {
        "type": ("shell-output",),
        "command": "text",
        "stdout?": "text",
        "stderr?": "text",
        "exitCode": "exit code",
        **_EVERY,
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
        **_EVERY,
    },
    "none": {"type": ("none",), "message?": "text", **_EVERY},
}

TYPES: tuple[str, ...] = tuple(_SHAPES)


def validate(value: object) -> View:
    """Return the known fields of a view, safe to encode as JSON; for anything else a `none` view that says why."""
    if type(value) is not dict:
        return none(f"Not a view: an object is needed, not {_kind(value)}.")
    name = value.get("type")
    if type(name) is not str:
        return none(f"Not a view: type must be text, one of {', '.join(TYPES)}.")
    if name not in _SHAPES:
        return none(f'Not a view: type "{_brief(name)}" is unknown; the types are {", ".join(TYPES)}.')
    check = _Check()
    view: View = check.fields(value, _SHAPES[name], "")
    if name == "file-list" and not check.faults and "groups" not in view and "files" not in view:
        check.fault("groups", "is missing, and so is files; one of them is needed")
    if check.room < 0:
        return none(f"The {name} view is larger than {_LARGEST:,} characters.")
    if check.faults:
        return none(f"The {name} view is not valid: {'; '.join(check.faults)}.")
    return view


def extract(value: object) -> tuple[object, View | None]:
    """Return a copy of a JSON value without its `_visualization` keys, and the outermost of them, validated."""
    found: object = None
    top: list[Any] = []
    # level by level, so that the first view met is the outermost and depth costs no stack
    waiting: list[tuple[Any, Any]] = [([value], top)]
    for source, copy in waiting:
        for key, item in source.items() if type(source) is dict else enumerate(source):
            if key == KEY:
                found = item if found is None else found
                continue
            twin = item
            if type(item) is dict or type(item) is list:
                twin = type(item)()
                waiting.append((item, twin))
            if type(source) is dict:
                copy[key] = twin
            else:
                copy.append(twin)
    return top[0], None if found is None else validate(found)


class ChangeLike(Protocol):
    """One line of a hunk without its ending; kind is context, removed or added."""

    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...


class HunkLike(Protocol):
    """Neighbouring changes with the lines around them, lines counted from 1."""

    @property
    def old_start(self) -> int: ...
    @property
    def old_lines(self) -> int: ...
    @property
    def new_start(self) -> int: ...
    @property
    def new_lines(self) -> int: ...
    @property
    def changes(self) -> Sequence[ChangeLike]: ...


class File(NamedTuple):
    """One entry of a file list; action is created, modified or deleted."""

    path: str
    action: str | None = None
    line: int | None = None
    content: str | None = None


class Group(NamedTuple):
    """Files of a file list under one label; icon is edit, plus, trash or search."""

    label: str
    files: Sequence[File]
    icon: str | None = None


def none(message: str) -> View:
    """Return the view of a result that has no picture."""
    return {"type": "none", "message": message}


def diff(path: str, hunks: Iterable[HunkLike], *, language: str | None = None) -> View:
    """Return the diff of one file; a long one is cut and its `title` says so, while the two counts stay complete."""
    shown: list[dict[str, Any]] = []
    added = removed = kept = size = 0
    full = shortened = False
    for hunk in hunks:
        lines: list[dict[str, Any]] = []
        old, new = hunk.old_start, hunk.new_start
        for change in hunk.changes:
            added += change.kind == "added"
            removed += change.kind == "removed"
            full = full or size >= CHARACTERS or (kept >= CHANGED_LINES and change.kind != "context")
            if full:
                continue
            text = _encodable(change.text)
            if len(text) > LINE_CHARACTERS:
                text, shortened = text[:LINE_CHARACTERS] + "…", True
            size += len(text)
            kept += change.kind != "context"
            line: dict[str, Any] = {"type": change.kind, "content": text}
            if change.kind != "added":
                line["oldLineNumber"], old = old, old + 1
            if change.kind != "removed":
                line["newLineNumber"], new = new, new + 1
            lines.append(line)
        if lines:
            shown.append(
                {
                    "oldStart": hunk.old_start,
                    "oldLines": old - hunk.old_start,
                    "newStart": hunk.new_start,
                    "newLines": new - hunk.new_start,
                    "changes": lines,
                }
            )
    view: View = {"type": "diff", "path": _encodable(path)}
    if language := language or language_of(path):
        view["language"] = language
    view |= {"hunks": shown, "additions": added, "deletions": removed}
    notes = []
    if kept < added + removed:
        notes.append(f"first {kept:,} of {added + removed:,} changed lines")
    if shortened:
        notes.append(f"lines cut at {LINE_CHARACTERS:,} characters")
    if notes:
        view["title"] = f"{view['path']} ({', '.join(notes)})"
    return view


def diffs(items: Iterable[View]) -> View:
    """Join diff views of several files; past the size of one large diff only the counts stay, and `title` says so."""
    shown: list[View] = []
    left_out = lines = size = 0
    for item in items:
        changes = [change for hunk in item["hunks"] for change in hunk["changes"]]
        more_lines = sum(change["type"] != "context" for change in changes)
        more_size = sum(len(change["content"]) for change in changes)
        if shown and (lines + more_lines > CHANGED_LINES or size + more_size > CHARACTERS):
            item = {**item, "hunks": [], "title": f"{item['path']} (changes left out)"}
            left_out += 1
        else:
            lines += more_lines
            size += more_size
        shown.append(item)
    view: View = {"type": "diffs", "items": shown}
    if left_out:
        view["title"] = f"{len(shown):,} files, the changes of {left_out:,} left out"
    return view


def code(path: str, content: str, *, created: bool = False, first_line: int = 1, line_count: int | None = None) -> View:
    """Return a file, or the part of it that starts at first_line; a long one is cut and its `title` says so.

    line_count is that of the whole file; without it, that of the content before a cut.
    """
    content = _encodable(content)
    text = content
    if len(text) > CHARACTERS:
        # whole lines, unless the first line alone is too long
        text = text[: content.rfind("\n", 0, CHARACTERS) + 1] or text[:CHARACTERS]
    view: View = {"type": "code", "path": _encodable(path), "content": text}
    if language := language_of(path):
        view["language"] = language
    view["created"] = created
    view["lineCount"] = _count_lines(content) if line_count is None else line_count
    if first_line != 1:
        view["firstLine"] = first_line
    if len(text) < len(content):
        view["title"] = f"{view['path']} (first {len(text):,} of {len(content):,} characters)"
    return view


def file_list(files: Iterable[File], *, total: int | None = None) -> View:
    """Return a flat list of files; of a long one the first FILES are listed, and `total` counts all of them."""
    given = list(files)
    listed = [_file(file) for file in given[:FILES]]
    return {"type": "file-list", "files": listed, "total": len(given) if total is None else total}


def file_groups(groups: Iterable[Group], *, total: int | None = None) -> View:
    """Return files under labels; of a long list the first FILES are listed, and `total` counts all of them."""
    shown: list[dict[str, Any]] = []
    given = 0
    for group in groups:
        room = max(0, FILES - given)
        given += len(group.files)
        listed = {"label": _encodable(group.label), "files": [_file(file) for file in group.files[:room]]}
        if group.icon is not None:
            listed["icon"] = group.icon
        if room:
            shown.append(listed)
    return {"type": "file-list", "groups": shown, "total": given if total is None else total}


def shell_output(command: str, output: str, exit_code: int | None, *, errors: str = "") -> View:
    """A command and what it printed, as it printed it: colours are for people."""
    view = {"type": "shell-output", "command": _encodable(command), "stdout": _encodable(output), "exitCode": exit_code}
    return {**view, "stderr": _encodable(errors)} if errors else view


def language_of(path: str) -> str | None:
    """Return the name of a file's language by its name or extension, as syntax highlighters call it."""
    name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    return _NAMES.get(name) or _EXTENSIONS.get(name.rpartition(".")[2] if "." in name else "")


class _Check:
    """Copies the parts of a value that fit a shape, and notes where it does not fit."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.room = _LARGEST

    def fault(self, where: str, what: str) -> None:
        if len(self.faults) < _FAULTS:
            self.faults.append(f"{where} {what}")
        elif len(self.faults) == _FAULTS:
            self.faults.append("and more")

    def value(self, value: object, shape: _Shape, where: str) -> Any:
        self.room -= 1
        if self.room < 0:
            return None
        if isinstance(shape, dict):
            return self.fields(value, shape, where)
        if isinstance(shape, list):
            return self.elements(value, shape[0], where)
        if isinstance(shape, tuple):
            if type(value) is not str or value not in shape:
                self.fault(where, f"must be {'one of ' if len(shape) > 1 else ''}{', '.join(shape)}")
            return value
        return _LEAVES[shape](self, value, where)

    def fields(self, value: object, shapes: dict[str, _Shape], where: str) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        if type(value) is not dict:
            self.fault(where, "must be an object")
            return copy
        for field, shape in shapes.items():
            name = field.removesuffix("?")
            place = f"{where}.{name}" if where else name
            if name != field and value.get(name) is None:
                continue
            if name in value:
                copy[name] = self.value(value[name], shape, place)
            else:
                self.fault(place, "is missing")
        return copy

    def elements(self, value: object, shape: _Shape, where: str) -> list[Any]:
        if type(value) is not list:
            self.fault(where, "must be a list")
            return []
        return [self.value(item, shape, f"{where}[{index}]") for index, item in enumerate(value)]

    def text(self, value: object, where: str) -> str:
        if type(value) is not str:
            self.fault(where, "must be text")
            return ""
        self.room -= len(value)
        return _encodable(value)

    def flag(self, value: object, where: str) -> object:
        if type(value) is not bool:
            self.fault(where, "must be true or false")
        return value

    def count(self, value: object, where: str) -> object:
        # the console reads views in JavaScript, which has no exact integers past 2**53
        if type(value) is not int or not 0 <= value < 2**53:
            self.fault(where, "must be an integer, 0 or more")
        return value

    def exit_code(self, value: object, where: str) -> object:
        if value is not None and (type(value) is not int or not -(2**53) < value < 2**53):
            self.fault(where, "must be an integer or null")
        return value

    def row(self, value: object, where: str, depth: int = _CELL_DEPTH + 1) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        if type(value) is not dict:
            self.fault(where, "must be an object")
            return copy
        for key, item in value.items():
            if type(key) is str:
                copy[self.text(key, where)] = self.cell(item, f"{where}.{_brief(key)}", depth - 1)
            else:
                self.fault(where, "must have text as keys")
        return copy

    def cell(self, value: object, where: str, depth: int) -> Any:
        self.room -= 1
        if self.room < 0:
            return None
        if value is None or type(value) is bool:
            return value
        if type(value) is str:
            return self.text(value, where)
        if type(value) is int:
            # no more digits than Python agrees to print
            if value.bit_length() > 4_096:
                self.fault(where, "is a number of too many digits")
            return value
        if type(value) is float:
            # JSON has no NaN and no infinity
            return value if value - value == 0 else self.text(str(value), where)
        if type(value) is not dict and type(value) is not list:
            self.fault(where, "must be a JSON value")
            return None
        if depth == 0:
            self.fault(where, f"is nested deeper than {_CELL_DEPTH} levels")
            return None
        if type(value) is dict:
            return self.row(value, where, depth)
        return [self.cell(item, f"{where}[{index}]", depth - 1) for index, item in enumerate(value)]


_LEAVES = {
    "text": _Check.text,
    "flag": _Check.flag,
    "count": _Check.count,
    "exit code": _Check.exit_code,
    "row": _Check.row,
}


def _file(file: File) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": _encodable(file.path)}
    if file.action is not None:
        entry["action"] = file.action
    if file.line is not None:
        entry["line"] = file.line
    if file.content is not None:
        content = _encodable(file.content)
        entry["content"] = content if len(content) <= LINE_CHARACTERS else content[:LINE_CHARACTERS] + "…"
    return entry


def _encodable(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced, which UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _count_lines(text: str) -> int:
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def _brief(text: str) -> str:
    text = _encodable(text)
    return text if len(text) <= 40 else text[:40] + "…"


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "something else")


_NAMES = {
    ".bash_profile": "bash",
    ".bashrc": "bash",
    ".gitconfig": "ini",
    ".profile": "bash",
    ".zshrc": "bash",
    "build.bazel": "python",
    "cargo.lock": "toml",
    "cmakelists.txt": "cmake",
    "containerfile": "docker",
    "dockerfile": "docker",
    "gemfile": "ruby",
    "gnumakefile": "make",
    "jenkinsfile": "groovy",
    "justfile": "make",
    "makefile": "make",
    "poetry.lock": "toml",
    "rakefile": "ruby",
    "uv.lock": "toml",
}

_EXTENSIONS = {
    "bash": "bash",
    "bat": "batch",
    "c": "c",
    "cc": "cpp",
    "cfg": "ini",
    "cjs": "javascript",
    "clj": "clojure",
    "cmake": "cmake",
    "conf": "ini",
    "cpp": "cpp",
    "cs": "csharp",
    "css": "css",
    "cts": "typescript",
    "cxx": "cpp",
    "dart": "dart",
    "diff": "diff",
    "dockerfile": "docker",
    "ex": "elixir",
    "exs": "elixir",
    "elm": "elm",
    "erl": "erlang",
    "fish": "fish",
    "fs": "fsharp",
    "go": "go",
    "gradle": "groovy",
    "graphql": "graphql",
    "groovy": "groovy",
    "h": "c",
    "hpp": "cpp",
    "hs": "haskell",
    "htm": "html",
    "html": "html",
    "ini": "ini",
    "ipynb": "json",
    "java": "java",
    "jl": "julia",
    "js": "javascript",
    "json": "json",
    "json5": "json",
    "jsonc": "json",
    "jsonl": "json",
    "jsx": "jsx",
    "kt": "kotlin",
    "kts": "kotlin",
    "less": "less",
    "lua": "lua",
    "m": "objective-c",
    "md": "markdown",
    "mdx": "markdown",
    "mjs": "javascript",
    "mk": "make",
    "ml": "ocaml",
    "mts": "typescript",
    "nix": "nix",
    "patch": "diff",
    "php": "php",
    "pl": "perl",
    "properties": "properties",
    "proto": "protobuf",
    "ps1": "powershell",
    "py": "python",
    "pyi": "python",
    "r": "r",
    "rb": "ruby",
    "rs": "rust",
    "sass": "sass",
    "scala": "scala",
    "scss": "scss",
    "sh": "bash",
    "sol": "solidity",
    "sql": "sql",
    "svelte": "svelte",
    "svg": "xml",
    "swift": "swift",
    "tex": "latex",
    "tf": "terraform",
    "toml": "toml",
    "ts": "typescript",
    "tsx": "tsx",
    "vue": "vue",
    "xml": "xml",
    "yaml": "yaml",
    "yml": "yaml",
    "zig": "zig",
    "zsh": "bash",
}

# every name that `language_of` gives
LANGUAGES = frozenset((*_NAMES.values(), *_EXTENSIONS.values()))
