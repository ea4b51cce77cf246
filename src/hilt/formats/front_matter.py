"""Front matter, YAML or JSON between two `---` lines, and the text after it.

Front matter is never evaluated, in any language. `read` parses all of it and reports errors; `read_json` reads a file
that is JSON as a whole. `skim` takes a few keys and ignores everything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

LINES_MAX = 200  # keys of a JSON file whose lines are known
SKIMMED_LINES = 200

_FENCE = re.compile(r"---[ \t]*(\w*)[ \t]*\Z")

Lines = Mapping[tuple[Any, ...], int]


class FrontMatter(NamedTuple):
    """The fields of a file, the line where each value starts by its path of keys, and the text after them."""

    fields: dict[str, Any]
    lines: Lines
    body: str
    body_line: int

    def line(self, *path: Any) -> int:
        """Return the line of a value, or of the nearest enclosing one; line 1 for a missing value."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class BadFrontMatter(Exception):
    """Invalid front matter: why, and the line."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Skimmed(NamedTuple):
    """The strings and lists of some keys, and the text after the front matter."""

    texts: dict[str, str]
    lists: dict[str, list[str]]
    body: str


def read(data: bytes, *, limit: int) -> FrontMatter:
    """Split a file into front matter and body; raise BadFrontMatter if it is invalid."""
    lines = _text(data, limit).split("\n")
    opening = _FENCE.match(lines[0])
    if opening is None:
        raise BadFrontMatter("The file must begin with a line ---, the start of the front matter.", 1)
    language = opening[1].lower() or "yaml"
    if language not in ("yaml", "json"):
        raise BadFrontMatter(f"Front matter in {language} is not supported. Use YAML or JSON.", 1)
    end = _end(lines, ("---",))
    if end is None:
        raise BadFrontMatter("The front matter has no end: a line --- is missing.", 1)
    front = "\n" + "\n".join(lines[1:end])  # the newline keeps the line numbers of the file
    value, places = _json(front) if language == "json" else _yaml(front)
    if not isinstance(value, dict):
        raise BadFrontMatter("The front matter must be a mapping.", 2)
    return FrontMatter(value, places, "\n".join(lines[end + 1 :]), end + 2)


def read_json(data: bytes, *, limit: int) -> FrontMatter:
    """Read a file that is JSON as a whole."""
    text = _text(data, limit)
    value, places = _json(text)
    if not isinstance(value, dict):
        raise BadFrontMatter("The definition must be a JSON object.", 1)
    return FrontMatter(value, places, "", text.count("\n") + 1)


def skim(text: str, texts: Collection[str], lists: Collection[str]) -> Skimmed:
    """Extract the keys in `texts` and `lists` from simple front matter: `key: value`, lists and folded strings.

    Anything else is ignored. A text without front matter is all body.
    """
    if not text.startswith("---\n"):
        return Skimmed({}, {}, text)
    lines = text.split("\n", SKIMMED_LINES + 2)
    end = _end(lines[: SKIMMED_LINES + 1], ("---", "..."))
    if end is None:
        return Skimmed({}, {}, text)
    skimmed = Skimmed({}, {}, "\n".join(lines[end + 1 :]))
    key = ""
    for line in lines[1:end]:
        inner = line.strip()
        if not inner or inner.startswith("#"):
            continue
        if line[0] not in " \t-":
            name, colon, value = inner.partition(":")
            key = name.strip().strip("\"'").lower().replace("-", "_") if colon else ""
            value = value.strip()
            if key in lists:
                skimmed.lists[key] = _items(value)
            elif key in texts:
                skimmed.texts[key] = "" if value[:1] in (">", "|") else _scalar(value)
        elif inner.startswith("- ") and key in lists:
            skimmed.lists[key].append(_scalar(inner[2:]))
        elif key in texts:
            # continuation of a folded string
            skimmed.texts[key] = f"{skimmed.texts[key]} {inner}".strip()
    return skimmed


def _end(lines: Sequence[str], fences: Collection[str]) -> int | None:
    """Return the index of the line that ends the front matter."""
    return next((number for number, line in enumerate(lines) if number and line.rstrip() in fences), None)


def _items(value: str) -> list[str]:
    if value.startswith("[") and value.endswith("]"):
        value = value[1:-1]
    return [item for item in (_scalar(part) for part in value.split(",")) if item]


def _scalar(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value.partition(" #")[0].rstrip()


def _text(data: bytes, limit: int) -> str:
    if len(data) > limit:
        raise BadFrontMatter(f"The file is larger than {limit >> 20} MiB.", 1)
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadFrontMatter(f"The file is not UTF-8: byte 0x{data[error.start]:02x}.", line) from None


def _yaml(text: str) -> tuple[Any, Lines]:
    from hilt.formats import yaml12

    try:
        return yaml12.load_with_lines(text, "front matter")
    except yaml12.BadYaml as error:
        # drop the position, which the caller reports anyway
        reason = error.message.partition(": ")[2] or error.message
        raise BadFrontMatter(f"Invalid front matter: {reason}", error.line) from None


def _json(text: str) -> tuple[Any, Lines]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, value in pairs:
            if key in members:
                raise BadFrontMatter(f"The key {key!r} occurs twice.", _key_line(text, key, 1) or 1)
            members[key] = value
        return members

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise BadFrontMatter(f"Invalid JSON: {error.msg}.", error.lineno) from None
    except (ValueError, RecursionError):
        first = 2 if text.startswith("\n") else 1
        raise BadFrontMatter("The JSON is nested too deeply, or has a number with too many digits.", first) from None
    keys = value if isinstance(value, dict) else {}
    # each is looked for in the whole text
    lines = {(key,): _key_line(text, key, 0) for key in islice(keys, LINES_MAX)}
    return value, {path: line for path, line in lines.items() if line is not None}


def _key_line(text: str, key: str, skip: int) -> int | None:
    matches = list(re.finditer(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:", text))
    return text.count("\n", 0, matches[skip].start()) + 1 if len(matches) > skip else None
