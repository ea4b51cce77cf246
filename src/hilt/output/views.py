"""Views: how a result is displayed to people, as JSON objects of nine types; the builders limit their size."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

View: TypeAlias = dict[str, Any]

CHANGED_LINES = 2_000
CHARACTERS = 200_000
LINE_CHARACTERS = 2_000
FILES = 2_000


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


class TodoLike(Protocol):
    """One item of a todo list; status is pending, in_progress, completed or cancelled."""

    @property
    def content(self) -> str: ...
    @property
    def status(self) -> str: ...


def none(message: str) -> View:
    """Return the view of a result that has only a message."""
    return {"type": "none", "message": message}


def diff(path: str, hunks: Iterable[HunkLike], *, language: str | None = None) -> View:
    """Return the diff of one file; a long one is cut and its `title` says so, but both counts are complete."""
    view_hunks: list[dict[str, Any]] = []
    added = removed = listed = size = 0
    full = shortened = False
    for hunk in hunks:
        lines: list[dict[str, Any]] = []
        old, new = hunk.old_start, hunk.new_start
        for change in hunk.changes:
            added += change.kind == "added"
            removed += change.kind == "removed"
            full = full or size >= CHARACTERS or (listed >= CHANGED_LINES and change.kind != "context")
            if full:
                continue
            text = encodable(change.text)
            if len(text) > LINE_CHARACTERS:
                text, shortened = text[:LINE_CHARACTERS] + "…", True
            size += len(text)
            listed += change.kind != "context"
            line: dict[str, Any] = {"type": change.kind, "content": text}
            if change.kind != "added":
                line["oldLineNumber"], old = old, old + 1
            if change.kind != "removed":
                line["newLineNumber"], new = new, new + 1
            lines.append(line)
        if lines:
            view_hunks.append(
                {
                    "oldStart": hunk.old_start,
                    "oldLines": old - hunk.old_start,
                    "newStart": hunk.new_start,
                    "newLines": new - hunk.new_start,
                    "changes": lines,
                }
            )
    view: View = {"type": "diff", "path": encodable(path)}
    if language := language or language_of(path):
        view["language"] = language
    view |= {"hunks": view_hunks, "additions": added, "deletions": removed}
    notes = []
    if listed < added + removed:
        notes.append(f"first {listed:,} of {added + removed:,} changed lines")
    if shortened:
        notes.append(f"lines cut at {LINE_CHARACTERS:,} characters")
    if notes:
        view["title"] = f"{view['path']} ({', '.join(notes)})"
    return view


def diffs(items: Iterable[View]) -> View:
    """Join diff views of several files; beyond the size limit only counts are included, and `title` says so."""
    listed: list[View] = []
    omitted = lines = size = 0
    for item in items:
        changes = [change for hunk in item["hunks"] for change in hunk["changes"]]
        more_lines = sum(change["type"] != "context" for change in changes)
        more_size = sum(len(change["content"]) for change in changes)
        if listed and (lines + more_lines > CHANGED_LINES or size + more_size > CHARACTERS):
            item = {**item, "hunks": [], "title": f"{item['path']} (changes omitted)"}
            omitted += 1
        else:
            lines += more_lines
            size += more_size
        listed.append(item)
    view: View = {"type": "diffs", "items": listed}
    if omitted:
        view["title"] = f"{len(listed):,} files, the changes of {omitted:,} omitted"
    return view


def code(path: str, content: str, *, created: bool = False, first_line: int = 1, line_count: int | None = None) -> View:
    """Return a file, or the part of it that starts at first_line; a long one is cut and its `title` says so.

    line_count is that of the whole file; without it, that of the content before a cut.
    """
    content = encodable(content)
    text = content
    if len(text) > CHARACTERS:
        # whole lines, unless the first line alone is too long
        text = text[: content.rfind("\n", 0, CHARACTERS) + 1] or text[:CHARACTERS]
    view: View = {"type": "code", "path": encodable(path), "content": text}
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
    """Return a flat list of at most FILES files; `total` counts all of them."""
    entries = list(files)
    listed = [_file(file) for file in entries[:FILES]]
    return {"type": "file-list", "files": listed, "total": len(entries) if total is None else total}


def shell_output(command: str, output: str, exit_code: int | None, *, errors: str = "") -> View:
    """Return a command with its raw output, including colours."""
    view = {"type": "shell-output", "command": encodable(command), "stdout": encodable(output), "exitCode": exit_code}
    return {**view, "stderr": encodable(errors)} if errors else view


def table(
    columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]], total: int | None = None, *, title: str = ""
) -> View:
    """Return these columns, by key with their labels, of the rows; `total` counts all rows."""
    return {
        "type": "table",
        "columns": [{"key": key, "label": label} if label else {"key": key} for key, label in columns.items()],
        "rows": [{key: row.get(key, "") for key in columns} for row in rows],
        "totalRows": len(rows) if total is None else total,
        **({"title": title} if title else {}),
    }


def todo_list(todos: Iterable[TodoLike]) -> View:
    """Return a checklist."""
    return {"type": "todo-list", "items": [{"content": todo.content, "status": todo.status} for todo in todos]}


class PictureLike(Protocol):
    """An encoded image; kind is its MIME type."""

    @property
    def data(self) -> bytes: ...
    @property
    def kind(self) -> str: ...


def pictures(title: str, images: Mapping[str, PictureLike]) -> View:
    """Return images by label as Markdown with embedded data, so that it can be displayed anywhere and later."""
    from base64 import b64encode

    embedded = [
        f"![{label}](data:{image.kind};base64,{b64encode(image.data).decode()})" for label, image in images.items()
    ]
    return {"type": "markdown", "title": title, "content": "\n\n".join(embedded)}


def language_of(path: str) -> str | None:
    """Return the name of a file's language by its name or extension, as syntax highlighters call it."""
    name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    return _LANGUAGE_BY_NAME.get(name) or _LANGUAGE_BY_ENDING.get(name.rpartition(".")[2] if "." in name else "")


def _file(file: File) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": encodable(file.path)}
    if file.action is not None:
        entry["action"] = file.action
    if file.line is not None:
        entry["line"] = file.line
    if file.content is not None:
        content = encodable(file.content)
        entry["content"] = content if len(content) <= LINE_CHARACTERS else content[:LINE_CHARACTERS] + "…"
    return entry


def encodable(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced, which UTF-8 cannot hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _count_lines(text: str) -> int:
    return text.count("\n") + (text != "" and not text.endswith("\n"))


# by language: names of files, and endings besides those that are the name of the language
_NAMES = {
    "bash": ".bash_profile .bashrc .profile .zshrc",
    "cmake": "cmakelists.txt",
    "docker": "containerfile dockerfile",
    "groovy": "jenkinsfile",
    "ini": ".gitconfig",
    "make": "gnumakefile justfile makefile",
    "python": "build.bazel",
    "ruby": "gemfile rakefile",
    "toml": "cargo.lock poetry.lock uv.lock",
}
_ENDINGS = {
    "bash": "sh zsh",
    "batch": "bat",
    "c": "h",
    "clojure": "clj",
    "cpp": "cc cxx hpp",
    "csharp": "cs",
    "diff": "patch",
    "docker": "dockerfile",
    "elixir": "ex exs",
    "erlang": "erl",
    "fsharp": "fs",
    "groovy": "gradle",
    "haskell": "hs",
    "html": "htm",
    "ini": "cfg conf",
    "javascript": "cjs js mjs",
    "json": "ipynb json5 jsonc jsonl",
    "julia": "jl",
    "kotlin": "kt kts",
    "latex": "tex",
    "make": "mk",
    "markdown": "md mdx",
    "objective-c": "m",
    "ocaml": "ml",
    "perl": "pl",
    "powershell": "ps1",
    "protobuf": "proto",
    "python": "py pyi",
    "ruby": "rb",
    "rust": "rs",
    "solidity": "sol",
    "terraform": "tf",
    "typescript": "cts mts ts",
    "xml": "svg",
    "yaml": "yml",
}
_SAME_ENDINGS = """
bash c cmake cpp css dart diff elm fish go graphql groovy html ini java json jsx less lua nix php properties r
sass scala scss sql svelte swift toml tsx vue xml yaml zig
"""

_LANGUAGE_BY_NAME = {name: language for language, names in _NAMES.items() for name in names.split()}
_LANGUAGE_BY_ENDING = {ending: language for language, endings in _ENDINGS.items() for ending in endings.split()}
_LANGUAGE_BY_ENDING |= {name: name for name in _SAME_ENDINGS.split()}

# every name that `language_of` returns
LANGUAGES = frozenset((*_NAMES, *_LANGUAGE_BY_ENDING.values()))
