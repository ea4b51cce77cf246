"""A strict YAML 1.2 loader with limits, for one document of plain values.

Only `true` and `false` are booleans, `0755` is 755, a date is a string. It rejects duplicate keys, merge keys, keys
that are not scalars, tags outside the core schema, a second document, and anything over the limits. PyYAML parses the
text to events; the values are built here, because its own builder recurses without a limit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from yaml import Event

MAX_CHARACTERS = 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 20_000  # an alias counts as many nodes as its anchor
MAX_DIGITS = 1000  # Python rejects very long numbers, and parsing them is slow elsewhere

Path = tuple[Any, ...]  # the keys and indexes that lead to a value
Lines = dict[Path, int]

_CORE = "tag:yaml.org,2002:"
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLS = {text: text.lower() == "true" for text in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INT = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_INFINITY = re.compile(r"([-+]?)\.(?:inf|Inf|INF)\Z")
_NANS = frozenset((".nan", ".NaN", ".NAN"))
_OLD_BREAKS = re.compile("[\x85\u2028\u2029]")  # line breaks in YAML 1.1 but not in 1.2


class BadYaml(ValueError):
    """Invalid YAML: the reason, and the line and column, counted from 1."""

    def __init__(self, message: str, line: int, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


def load(text: str, name: str) -> Any:
    """Return the value of a document as None, bool, int, float, str, list and dict; `name` is for messages."""
    return load_with_lines(text, name)[0]


def load_with_lines(text: str, name: str) -> tuple[Any, Lines]:
    """Return the value of a document, and the line of each value by its path of keys and indexes.

    A value of a mapping starts at its key. Values inside an alias have no line.
    """
    try:
        return _document(text)
    except _Invalid as problem:
        line, column = problem.mark
        raise BadYaml(f"{name}, line {line}, column {column}: {problem.message}.", line, column) from None


class _Invalid(Exception):
    def __init__(self, message: str, mark: tuple[int, int]) -> None:
        super().__init__(message)
        self.message = message
        self.mark = mark


class _Built(NamedTuple):
    """A finished value, its number of nodes and its depth."""

    value: Any
    nodes: int
    depth: int


def _document(text: str) -> tuple[Any, Lines]:
    if len(text) > MAX_CHARACTERS:
        raise _Invalid(f"the text is longer than {MAX_CHARACTERS} characters", (1, 1))
    line_break = _OLD_BREAKS.search(text)
    if line_break is not None:
        raise _Invalid(
            f"the character U+{ord(line_break.group()):04X} is a line break in YAML 1.1",
            _place(text, line_break.start()),
        )
    return _Builder(text).document()


def _events(text: str) -> Iterator[Event]:
    """Yield the events of the parser; convert its errors."""
    import yaml

    try:
        yield from yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise _Invalid(reason or "invalid syntax", (1, 1) if mark is None else _mark(mark)) from None
    except yaml.reader.ReaderError as error:
        place = _place(text, error.position) if isinstance(error.position, int) else (1, 1)
        raise _Invalid(str(error.reason), place) from None
    except yaml.YAMLError as error:
        raise _Invalid(str(error).partition("\n")[0] or "invalid syntax", (1, 1)) from None
    except UnicodeError:
        raise _Invalid("the text is not valid Unicode", (1, 1)) from None


class _Builder:
    """Builds values from events; the depth of the recursion is limited."""

    def __init__(self, text: str) -> None:
        self._events = _events(text)
        self._anchors: dict[str, _Built] = {}
        self._nodes = 0
        self._lines: Lines = {}

    def document(self) -> tuple[Any, Lines]:
        """Return the value and the lines; an empty document is null."""
        import yaml

        root, documents = None, 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _Invalid("only one document is supported", _mark(event.start_mark))
            elif isinstance(event, yaml.NodeEvent):
                root = self._at(event, ()).value
        return root, self._lines or {(): 1}

    def _at(self, event: Event, path: Path) -> _Built:
        """Build the value at a path, and record its line, unless its key has already set it."""
        self._lines.setdefault(path, _mark(event.start_mark)[0])
        return self._node(event, path)

    def _node(self, event: Any, path: Path, *, is_key: bool = False) -> _Built:
        import yaml

        mark = _mark(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), len(path) + is_key, mark)
        if isinstance(event, yaml.ScalarEvent):
            is_plain = not event.style
            if is_plain and is_key and event.tag is None and event.value == "<<":
                raise _Invalid("merge keys (<<) are not part of YAML 1.2", mark)
            self._count(1, mark)
            built = _Built(_value(event.value, event.tag, mark, is_plain=is_plain), 1, 0)
        else:
            is_list = isinstance(event, yaml.SequenceStartEvent)
            _check_tag(event.tag, "seq" if is_list else "map", mark)
            if is_key:
                raise _Invalid("a key must be a single value, not a list or a mapping", mark)
            if len(path) >= MAX_DEPTH:
                raise _Invalid(f"it is nested deeper than {MAX_DEPTH} levels", mark)
            self._count(1, mark)
            built = self._list(path) if is_list else self._mapping(path)
        if event.anchor is not None:
            self._anchors[event.anchor] = built
        return built

    def _inner(self) -> Iterator[Event]:
        """Yield the first events of the values in a list or mapping, up to its end."""
        import yaml

        while not isinstance(event := next(self._events), yaml.CollectionEndEvent):
            yield event

    def _list(self, path: Path) -> _Built:
        items: list[_Built] = []
        for event in self._inner():
            items.append(self._at(event, (*path, len(items))))
        return _collection([item.value for item in items], items)

    def _mapping(self, path: Path) -> _Built:
        values: dict[Any, _Built] = {}
        for event in self._inner():
            key, mark = self._node(event, path, is_key=True).value, _mark(event.start_mark)
            _check_key(values, key, mark)
            self._lines.setdefault((*path, key), mark[0])
            values[key] = self._at(next(self._events), (*path, key))
        return _collection({key: item.value for key, item in values.items()}, values.values())

    def _alias(self, anchor: str, depth: int, mark: tuple[int, int]) -> _Built:
        anchored = self._anchors.get(anchor)
        if anchored is None:
            raise _Invalid(f"the alias *{anchor} has no complete anchor before it", mark)
        if depth + anchored.depth > MAX_DEPTH:
            raise _Invalid(f"it is nested deeper than {MAX_DEPTH} levels", mark)
        self._count(anchored.nodes, mark)
        return anchored._replace(value=_copy(anchored.value))

    def _count(self, nodes: int, mark: tuple[int, int]) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise _Invalid(f"it has more than {MAX_NODES} values", mark)


def _collection(value: Any, items: Collection[_Built]) -> _Built:
    return _Built(value, 1 + sum(item.nodes for item in items), 1 + max((item.depth for item in items), default=0))


def _check_key(mapping: dict[Any, Any], key: Any, mark: tuple[int, int]) -> None:
    if isinstance(key, dict | list):
        raise _Invalid("a key must be a single value, not a list or a mapping", mark)
    if key in mapping:
        raise _Invalid(f"the key {str(key)[:80]!r} occurs twice", mark)


def _check_tag(tag: str | None, kind: str, mark: tuple[int, int]) -> None:
    if tag not in (None, "!", _CORE + kind):
        raise _Invalid(f"the tag {str(tag)[:80]} is not supported", mark)


def _value(text: str, tag: str | None, mark: tuple[int, int], *, is_plain: bool) -> Any:
    """Return the value of a scalar by its tag, or else by the core schema; a quoted one is a string."""
    if tag is None:
        return _resolve(text, mark) if is_plain else text
    kind = tag.removeprefix(_CORE)
    if tag == "!" or kind == "str":
        return text
    value = _resolve(text, mark)
    if kind == "null" and value is None:
        return None
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "int" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise _Invalid("the number is too large", mark) from None
    if kind in ("null", "bool", "int", "float"):
        raise _Invalid(f"{text[:80]!r} is not a valid {kind}", mark)
    raise _Invalid(f"the tag {tag[:80]} is not supported", mark)


def _resolve(text: str, mark: tuple[int, int]) -> Any:
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] not in "-+.0123456789":
        return text
    if _INT.match(text) or _OCTAL.match(text) or _HEXADECIMAL.match(text):
        if len(text) > MAX_DIGITS:
            raise _Invalid(f"a number has more than {MAX_DIGITS} digits", mark)
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text[2:] if base != 10 else text, base)
    if _FLOAT.match(text):
        return float(text)
    infinity = _INFINITY.match(text)
    if infinity is not None:
        return float(infinity.group(1) + "inf")
    return float("nan") if text in _NANS else text


def _copy(value: Any) -> Any:
    """Copy the value of an alias, so that no two places share it; its depth and size are limited."""
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def _mark(mark: Any) -> tuple[int, int]:
    return mark.line + 1, mark.column + 1


def _place(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
