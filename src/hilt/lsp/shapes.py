"""Converts the results of language servers, in all their forms, to one type each. Malformed parts are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hilt.lsp.language_server import to_path
from hilt.lsp.positions import Position, SourceLines, to_character

DEPTH_MAX = 64

_SYMBOL_KINDS = (
    *("Symbol", "File", "Module", "Namespace", "Package", "Class", "Method", "Property", "Field", "Constructor"),
    *("Enum", "Interface", "Function", "Variable", "Constant", "String", "Number", "Boolean", "Array", "Object"),
    *("Key", "Null", "EnumMember", "Struct", "Event", "Operator", "TypeParameter"),
)
_SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}


class Location(NamedTuple):
    """A position in a file, by its real path; columns count the server's units."""

    path: str
    start: Position


class Symbol(NamedTuple):
    """A symbol, with the names of its containers. The path is empty for symbols of the queried file."""

    kind: str
    name: str
    containers: tuple[str, ...]
    start: Position
    path: str = ""

    def is_named(self, name: str) -> bool:
        """Whether this is the symbol that a caller names, alone or qualified by its containers."""
        parts = tuple(name.split("."))
        return (*self.containers, self.name)[-len(parts) :] == parts or self.name == name


class Diagnostic(NamedTuple):
    """A message about a position in a file."""

    start: Position
    severity: str
    label: str  # source and code
    message: str


class TextChange(NamedTuple):
    """The replacement of a range of a file."""

    start: Position
    end: Position
    text: str


class WorkspaceChange(NamedTuple):
    """The edits of a rename by real path, and the unsupported parts: URIs that are not files, and file operations."""

    files: dict[str, list[TextChange]]
    refused: list[str]


def _position(value: Any) -> Position | None:
    if not isinstance(value, dict):
        return None
    line, character = value.get("line"), value.get("character")
    if not isinstance(line, int) or not isinstance(character, int) or line < 0 or character < 0:
        return None
    return Position(line, character)


def _range(value: Any) -> tuple[Position, Position] | None:
    if not isinstance(value, dict):
        return None
    start, end = _position(value.get("start")), _position(value.get("end"))
    return None if start is None or end is None else (start, end)


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def locations(result: Any) -> list[Location]:
    """Return the locations of a definition or of references: one Location, several, or LocationLinks."""
    unique: dict[Location, None] = {}
    for item in _items(result):
        if not isinstance(item, dict):
            continue
        uri = item.get("targetUri", item.get("uri"))
        span = _range(item.get("targetSelectionRange") or item.get("targetRange") or item.get("range"))
        path = to_path(uri) if isinstance(uri, str) else None
        if path is not None and span is not None:
            unique[Location(path, span[0])] = None
    return list(unique)


def hover_text(result: Any) -> str:
    """Return the text of a hover: markup, a marked string, or a list of those."""
    contents = result.get("contents") if isinstance(result, dict) else None
    texts = [_marked(item) for item in _items(contents)]
    return "\n\n".join(text.strip() for text in texts if text.strip())


def _marked(item: Any) -> str:
    if isinstance(item, str):
        return item
    value = item.get("value") if isinstance(item, dict) else None
    if not isinstance(value, str):
        return ""
    language = item.get("language")
    return f"```{language}\n{value}\n```" if isinstance(language, str) else value


def symbols(result: Any) -> list[Symbol]:
    """Return symbols in the order of the server, hierarchical ones from the outermost."""
    return list(_symbols(_items(result), ()))


def _symbols(items: list[Any], containers: tuple[str, ...]) -> Iterator[Symbol]:
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            continue
        number = item.get("kind")
        name = " ".join(item["name"].split())  # on one line
        kind = _SYMBOL_KINDS[number if isinstance(number, int) and 0 <= number < len(_SYMBOL_KINDS) else 0]
        location = item.get("location")
        if isinstance(location, dict):
            span, path = _range(location.get("range")), to_path(str(location.get("uri")))
            container = item.get("containerName")
            outer = (container,) if isinstance(container, str) and container else ()
            if path is not None:
                yield Symbol(kind, name, outer, span[0] if span else Position(0, 0), path)
            continue
        span = _range(item.get("selectionRange")) or _range(item.get("range"))
        if span is not None:
            yield Symbol(kind, name, containers, span[0])
        if len(containers) < DEPTH_MAX:
            yield from _symbols(_items(item.get("children")), (*containers, name))


def diagnostics(result: Any) -> list[Diagnostic]:
    """Return diagnostics, sorted by position."""
    parsed = []
    for item in _items(result):
        span = _range(item.get("range")) if isinstance(item, dict) else None
        if span is None or not isinstance(item.get("message"), str | dict):
            continue
        code = item.get("code")
        code = code.get("value") if isinstance(code, dict) else code
        label = "/".join(" ".join(str(part).split()) for part in (item.get("source"), code) if part not in (None, ""))
        severity = item.get("severity")
        name = _SEVERITIES.get(severity, "error") if isinstance(severity, int) else "error"
        parsed.append(Diagnostic(span[0], name, label, _marked(item["message"])))
    return sorted(parsed)


def workspace_change(result: Any) -> WorkspaceChange:
    """Return the edits of a rename, in either of its forms."""
    change = WorkspaceChange({}, [])
    if not isinstance(result, dict):
        return change
    for item in _items(result.get("documentChanges")):
        if isinstance(item, dict) and "kind" in item:
            change.refused.append(f"{item['kind']} {item.get('uri') or item.get('oldUri')}")
        elif isinstance(item, dict) and isinstance(item.get("textDocument"), dict):
            _add_edits(change, item["textDocument"].get("uri"), item.get("edits"))
    changes = result.get("changes")
    if isinstance(changes, dict) and not result.get("documentChanges"):
        for uri, edits in changes.items():
            _add_edits(change, uri, edits)
    return change


def _add_edits(change: WorkspaceChange, uri: Any, edits: Any) -> None:
    path = to_path(uri) if isinstance(uri, str) else None
    if path is None:
        change.refused.append(str(uri))
        return
    for edit in _items(edits):
        span = _range(edit.get("range")) if isinstance(edit, dict) else None
        if span is None or not isinstance(edit.get("newText"), str):
            change.refused.append(f"an invalid edit of {path}")
        else:
            change.files.setdefault(path, []).append(TextChange(*span, edit["newText"]))


def diagnostic_line(path: str, lines: SourceLines, item: Diagnostic, encoding: str) -> str:
    """Return a diagnostic as one line of text, with its column in characters."""
    column = to_character(lines.line(item.start.line), item.start.character, encoding) + 1
    label = f" {item.label}" if item.label else ""
    message = " ".join(item.message.split())
    return f"{path}:{item.start.line + 1}:{column} {item.severity}{label}: {message}"
