"""Sets or removes one table of a TOML document, and preserves everything else (ADR 0054).

The lines of a table are found by its header, and the result is parsed again: if it does not have the expected
value, the edit is rejected.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from hilt.formats.jsonc import NotEditable, removed, replaced, verified

TomlValue = str | bool | Sequence[str] | Mapping[str, str]

_HEADER = re.compile(r"""[ \t]*(\[\[?)((?:[^"'\[\]]|"(?:[^"\\]|\\.)*"|'[^']*')+)\]\]?[ \t]*(?:#.*)?$""")
LINES_MAX = 500  # in a table to replace: each value is parsed separately
# the parser takes the square of the time for these
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def loads(text: str) -> dict[str, Any]:
    """Return the value of a document, or raise ValueError or RecursionError."""
    if _LONG_KEY.search(text):
        raise ValueError("a key has more than 100 parts")
    return tomllib.loads(text)


def parse(text: str) -> dict[str, Any]:
    """Return the value of a document."""
    try:
        return loads(text)
    except (ValueError, RecursionError) as error:
        raise NotEditable(f"it is not TOML: {error}") from None


def with_table(text: str, path: Sequence[str], values: Mapping[str, TomlValue]) -> str:
    """Return the document with the table set to these values; comments in an existing table are kept."""
    before = parse(text)
    if _at(before, path) == {name: _plain(value) for name, value in values.items()}:
        return text  # already set, in whatever formatting
    newline = "\r\n" if "\r\n" in text else "\n"
    body = [f"{_key(name)} = {_value(value)}" for name, value in values.items()]
    header = f"[{'.'.join(map(_key, path))}]"
    lines = text.split("\n")
    spans = _spans(lines, path)
    if sum(end - start for start, end in spans) > LINES_MAX:
        raise NotEditable(f"the table has more than {LINES_MAX:,} lines")
    if spans:
        first = spans[0][0]
        comments = [line for start, end in spans for line in _comments(lines[start + 1 : end])]
        edited = _replace_spans(lines, spans, [lines[first].rstrip("\r"), *body, *comments], newline)
    else:
        separator = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
        edited = text + separator + newline.join([header, *body]) + newline
    return verified(edited, replaced(before, path, {name: _plain(value) for name, value in values.items()}), parse)


def without_table(text: str, path: Sequence[str]) -> str:
    """Return the document without a table and its subtables; unchanged if there is none."""
    before = parse(text)
    lines = text.split("\n")
    spans = _spans(lines, path)
    if not spans:
        if _at(before, path) is not None:
            raise NotEditable("the table is written inside another one")
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    return verified(_replace_spans(lines, spans, [], newline), _without_empty(before, path), parse)


def _spans(lines: Sequence[str], path: Sequence[str]) -> list[tuple[int, int]]:
    """Return the line ranges of a table and its subtables, without the lines that precede the next table."""
    spans: list[tuple[int, int]] = []
    inside = False
    begin = 0
    for number, line in enumerate([*lines, "[end]"]):
        bare = line.rstrip("\r")
        if number < len(lines) and not _HEADER.match(bare):
            continue
        if inside:
            spans.append((begin, _trimmed(lines, begin, number)))
        inside = number < len(lines) and list(_names(bare)[: len(path)]) == list(path)
        begin = number
    return spans


def _trimmed(lines: Sequence[str], start: int, end: int) -> int:
    """Return the end of a table without trailing blank lines and comments: they may belong to the next one."""
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end


def _names(header: str) -> tuple[str, ...]:
    """Return the keys of a table header; empty if it is not one."""
    match = _HEADER.match(header)
    if match is None or match[1] == "[[":
        return ()
    try:
        value: Any = tomllib.loads(f"[{match[2]}]")
    except ValueError:
        return ()
    names = []
    while isinstance(value, dict) and value:
        ((name, value),) = value.items()
        names.append(name)
    return tuple(names)


def _comments(lines: Sequence[str]) -> list[str]:
    """Return the lines of a table that are comments and not part of a value."""
    comments: list[str] = []
    statement: list[str] = []
    for line in lines:
        bare = line.rstrip("\r")
        if not statement and (not bare.strip() or bare.lstrip().startswith("#")):
            comments += [bare] if bare.strip() else []
            continue
        if not statement and _HEADER.match(bare):
            continue
        statement.append(bare)
        try:
            tomllib.loads("\n".join(statement))
        except ValueError:
            continue
        statement = []
    return comments


def _replace_spans(lines: list[str], spans: Sequence[tuple[int, int]], new: Sequence[str], newline: str) -> str:
    """Return the document with the first span replaced by the new lines, and the other spans removed."""
    ending = "\r" if newline == "\r\n" else ""
    edited = list(lines)
    for number, (start, end) in reversed(list(enumerate(spans))):
        replacement = [line + ending for line in new] if number == 0 else []
        drops_blank = not replacement and start and not edited[start - 1].strip()
        edited[start - 1 if drops_blank else start : end] = replacement
    text = "\n".join(edited)
    return text if text.endswith("\n") or not text else text + newline


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: TomlValue) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_value(inner)}' for name, inner in value.items())} }}"
    if isinstance(value, bool):
        return "true" if value else "false"
    # a JSON string is a valid basic string in TOML, except for one character that must be escaped
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"[{', '.join(map(_value, value))}]"


def _plain(value: TomlValue) -> str | bool | list[str] | dict[str, str]:
    if isinstance(value, Mapping):
        return dict(value)
    return value if isinstance(value, str | bool) else list(value)


def _at(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _without_empty(value: Any, path: Sequence[str]) -> Any:
    """Return the value of a document without a table; tables that are empty then have no lines any more."""
    while len(path) > 1 and len(_at(value, path[:-1])) == 1:
        path = path[:-1]
    return removed(value, path)
