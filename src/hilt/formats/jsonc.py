"""Sets or removes one member of a JSON document, and preserves everything else.

Comments and trailing commas, as in editors' settings, are supported and preserved. They are blanked out in a copy of
the same length, so that positions in the copy are positions in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

# an unterminated string or comment matches to the end of the document: otherwise matching takes quadratic time
_TEXT = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
_COMMENTS = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?(\*/|\Z)", re.DOTALL)
_COMMAS = re.compile(rf"({_TEXT})|,(?=\s*[}}\]])", re.DOTALL)
_TOKENS = re.compile(rf"{_TEXT}|[{{}}\[\],:]", re.DOTALL)
_INDENTED = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class NotEditable(Exception):
    """The document cannot be edited; the message says why."""


class _Member(NamedTuple):
    key: str
    start: int
    value: int
    end: int


class _Object(NamedTuple):
    start: int  # of the opening brace
    end: int  # after the closing brace
    members: tuple[_Member, ...]

    def named(self, key: str) -> _Member | None:
        matches = [member for member in self.members if member.key == key]
        if len(matches) > 1:
            raise NotEditable(f"the key {key!r} occurs {len(matches)} times")
        return matches[0] if matches else None


def parse(text: str) -> Any:
    """Return the value of a document."""
    return _load(_blanked(text)[1])


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return the document with a value at a path of keys; create missing objects."""
    if not text.strip():
        return json.dumps(_nested(path, value), indent=2, ensure_ascii=False) + "\n"
    plain = _blanked(text)[1]
    before = _load(plain)
    parent, edited = _object(plain, _root(plain)), text
    for depth, key in enumerate(path):
        member = parent.named(key)
        if member is None:
            edited = _add_member(text, parent, key, _nested(path[depth + 1 :], value))
            break
        if depth == len(path) - 1:
            if json.loads(plain[member.value : member.end]) == value:
                return text  # already set, in whatever formatting
            edited = text[: member.value] + _format(text, value, _indent_at(text, member.start)) + text[member.end :]
            break
        parent = _object(plain, member.value)
    return verified(edited, replaced(before, path, value))


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the document without the member at a path of keys; unchanged if there is none."""
    if not text.strip():
        return text
    commas, plain = _blanked(text)
    before = _load(plain)
    parent = _object(plain, _root(plain))
    for key in path[:-1]:
        inner = parent.named(key)
        if inner is None:
            return text
        parent = _object(plain, inner.value)
    member = parent.named(path[-1])
    if member is None:
        return text
    return verified(_remove_member(text, commas, parent, parent.members.index(member)), removed(before, path))


def _remove_member(text: str, commas: str, parent: _Object, index: int) -> str:
    """Return the text without one member of an object and its comma."""
    _, start, _, end = member = parent.members[index]
    limit = parent.members[index + 1].start if index + 1 < len(parent.members) else parent.end
    comma = commas.find(",", end, limit)
    if comma >= 0:
        text = text[:comma] + " " + text[comma + 1 :]
        end = comma + 1 if not text[end:comma].strip() else end
    elif index:
        comma = commas.index(",", parent.members[index - 1].end)
        text = text[:comma] + text[comma + 1 :]
        start, end = start - 1, end - 1
        start = comma if not text[comma:start].strip() and "\n" not in text[comma:start] else start
    line_end = re.compile(r"[ \t]*\r?\n").match(text, end)
    line = text.rfind("\n", 0, start) + 1
    if line_end is not None and not text[line:start].strip():
        start, end = line, line_end.end()
    elif comma >= member.end:
        end = re.compile(r"[ \t]*").match(text, end).end()  # type: ignore[union-attr]  # matches nothing
    edited = text[:start] + text[end:]
    remaining = (
        edited[parent.start + 1 : len(edited) - (len(text) - parent.end) - 1] if len(parent.members) == 1 else "x"
    )
    return edited if remaining.strip() else edited[: parent.start + 1] + edited[parent.start + 1 + len(remaining) :]


def _blanked(text: str) -> tuple[str, str]:
    """Return the text with comments blanked out, and also with trailing commas blanked out."""
    with suppress(ValueError, RecursionError):
        json.loads(text)
        return text, text  # it has neither
    commas = _COMMENTS.sub(_blank, text)
    return commas, _COMMAS.sub(lambda match: match[1] or " ", commas)


def _blank(match: re.Match[str]) -> str:
    """Return spaces for a terminated comment; keep other matches."""
    return match[0] if match[1] or match[2] == "" else re.sub(r"[^\r\n]", " ", match[0])


def _load(plain: str) -> Any:
    try:
        return json.loads(plain)
    except (ValueError, RecursionError) as error:
        raise NotEditable(f"it is not JSON: {error}") from None


def _root(plain: str) -> int:
    return len(plain) - len(plain.lstrip())


def _object(plain: str, start: int) -> _Object:
    """Return the members of the object that starts here."""
    if plain[start] != "{":
        raise NotEditable("it has another type where an object is expected")
    members: list[_Member] = []
    depth = 0
    key: str | None = None
    begin = value = 0
    for token in _TOKENS.finditer(plain, start):
        mark = token[0]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
        if depth == 1 and mark.startswith('"') and key is None:
            key, begin = json.loads(mark), token.start()
        elif depth == 1 and mark == ":":
            value = re.compile(r"\s*").match(plain, token.end()).end()  # type: ignore[union-attr]  # matches nothing
        elif (depth == 1 and mark == ",") or depth == 0:
            if key is not None:
                value_text = plain[value : token.start()].rstrip()
                members.append(_Member(key, begin, value, value + len(value_text)))
                key = None
            if depth == 0:
                return _Object(start, token.end(), tuple(members))
    raise NotEditable("an object is not closed")


def _add_member(text: str, parent: _Object, key: str, value: Any) -> str:
    """Return the text with a member added at the end of an object."""
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _indent_at(text, parent.start)
    last = parent.members[-1] if parent.members else None
    inner = outer + _unit(text)
    if last is not None and "\n" in text[parent.start : last.start]:
        inner = _indent_at(text, last.start)
    member = f"{json.dumps(key, ensure_ascii=False)}: {_format(text, value, inner)}"
    if last is None:
        content = text[parent.start + 1 : parent.end - 1]
        end = content.rstrip(" \t") if "\n" in content else content.rstrip() + newline
        closing = "" if end.endswith("\n") else newline
        return f"{text[: parent.start + 1]}{newline}{inner}{member}{end}{closing}{outer}{text[parent.end - 1 :]}"
    commas = _blanked(text)[0]
    trailing = commas.find(",", last.end, parent.end)
    if trailing >= 0:
        return f"{text[: trailing + 1]}{newline}{inner}{member},{text[trailing + 1 :]}"
    following = text[last.end :]
    one_line = "\n" not in text[parent.start : parent.end]
    between = " " if one_line else newline + inner
    # a comment on the line of the last member stays there
    comment_match = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:[^*\r\n]|\*(?!/))*\*/)(?=[ \t]*\r?\n)").match(following)
    comment = comment_match[0] if comment_match is not None else ""
    return f"{text[: last.end]},{comment}{between}{member}{following[len(comment) :]}"


def _format(text: str, value: Any, indent: str) -> str:
    """Return a value formatted for this indentation, in the style of the text."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (newline + indent).join(lines)


def _unit(text: str) -> str:
    match = _INDENTED.search(text)
    return match[1] if match is not None else "  "


def _indent_at(text: str, place: int) -> str:
    start = text.rfind("\n", 0, place) + 1
    line = text[start:place]
    return line[: len(line) - len(line.lstrip(" \t"))].lstrip("\ufeff")


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def replaced(value: Any, path: Sequence[str], new: Any) -> Any:
    """Return a value with a new one at a path of keys."""
    if not path:
        return new
    if not isinstance(value, dict):
        raise NotEditable("it has another type where a table is expected")
    return {**value, path[0]: replaced(value.get(path[0], {}), path[1:], new)}


def removed(value: Any, path: Sequence[str]) -> Any:
    """Return a value without the one at a path of keys."""
    others = {key: inner for key, inner in value.items() if key != path[0]}
    return others if len(path) == 1 else {**others, path[0]: removed(value[path[0]], path[1:])}


def verified(text: str, expected: Any, parse: Callable[[str], Any] = parse) -> str:
    """Return the text if it parses to the expected value; raise NotEditable otherwise."""
    if parse(text) != expected:
        raise NotEditable("it is written in a way that cannot be edited safely")
    return text
