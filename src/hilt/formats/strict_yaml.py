"""The YAML that the reference validator of Agent Skills accepts: StrictYAML, where every scalar is a string.

Flow style, tags, anchors, aliases, duplicate keys and a second document are rejected. PyYAML parses the text; where
StrictYAML differs from it, the loader below overrides a method.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from yaml import events, tokens
from yaml.error import MarkedYAMLError, YAMLError
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

MAX_CHARACTERS = 256 * 1024
MAX_DEPTH = 200  # the reference validator fails at some depth above this

NOT_A_STRING = object()  # the value of a plain = or <<, the only scalars that are not strings


_COMMENT = re.compile(r"#[^\n]*\n*")


class BadStrictYaml(ValueError):
    """Invalid YAML: the reason, and the line, counted from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Loader(Reader, Scanner, Parser):
    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)

    def forward(self, length: int = 1) -> None:
        """Advance; U+0085, U+2028 and U+2029 do not begin a line."""
        for _ in range(length):
            character = self.buffer[self.pointer]
            self.pointer += 1
            self.index += 1
            if character == "\n" or (character == "\r" and self.buffer[self.pointer] != "\n"):
                self.line += 1
                self.column = 0
            elif character != "\ufeff":
                self.column += 1

    def scan_to_next_token(self) -> None:
        """Skip to the next token; after an empty line, tabs count as spaces."""
        start = self.pointer
        super().scan_to_next_token()
        is_after_empty_line = False
        while self.peek() == "\t":
            blanks = _COMMENT.sub("", self.buffer[start : self.pointer])
            is_after_empty_line = is_after_empty_line or "\n\n" in blanks[len(blanks.rstrip(" \t\n")) :]
            if not is_after_empty_line:
                return
            while self.peek() == "\t":
                self.forward()
            start = self.pointer
            super().scan_to_next_token()

    def parse_document_end(self) -> Any:
        """Parse the end of a document; the next one needs no start marker."""
        event = super().parse_document_end()
        self.state = self.parse_implicit_document_start
        return event

    def parse_block_mapping_key(self) -> Any:
        """Parse a key of a block mapping, which may be empty."""
        if self.check_token(tokens.ValueToken):
            self.state = self.parse_block_mapping_value
            return self.process_empty_scalar(self.peek_token().start_mark)  # type: ignore[no-untyped-call]
        return super().parse_block_mapping_key()  # type: ignore[no-untyped-call]


def load(text: str) -> Any:
    """Return the document as dict, list and str; None if it is empty."""
    if len(text) > MAX_CHARACTERS:
        raise BadStrictYaml(f"the text is longer than {MAX_CHARACTERS:,} characters", 1)
    try:
        loader = _Loader(text)
        return _document(loader)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadStrictYaml(error.problem or "invalid YAML", mark.line + 1 if mark else 1) from None
    except YAMLError as error:
        raise BadStrictYaml(str(error).partition("\n")[0], 1) from None


def _document(loader: _Loader) -> Any:
    root: Any = None
    documents = 0
    while loader.check_event():
        event: Any = loader.get_event()  # type: ignore[no-untyped-call]
        if isinstance(event, events.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise BadStrictYaml("there is a second document", _line(event))
        elif isinstance(event, events.NodeEvent):
            root = _node(loader, event, 0)
    return root


def _node(loader: _Loader, event: Any, depth: int, *, is_key: bool = False) -> Any:
    """Return the value that an event begins; a scalar is a string."""
    line = _line(event)
    if isinstance(event, events.AliasEvent):
        raise BadStrictYaml("aliases are not allowed", line)
    if event.anchor is not None:
        raise BadStrictYaml("anchors are not allowed", line)
    if event.tag is not None:
        raise BadStrictYaml("tags are not allowed", line)
    if isinstance(event, events.ScalarEvent):
        return event.value
    if event.flow_style:
        raise BadStrictYaml("flow style is not allowed; quote the text, or write one item per line", line)
    if depth >= MAX_DEPTH:
        raise BadStrictYaml(f"it is nested more than {MAX_DEPTH} levels deep", line)
    if is_key:
        raise BadStrictYaml("a key must be a string", line)
    if isinstance(event, events.MappingStartEvent):
        return _mapping(loader, depth + 1)
    return [_constructed(_node(loader, item, depth + 1), item) for item in _inner(loader)]


def _line(event: Any) -> int:
    line: int = event.start_mark.line
    return line + 1


def _inner(loader: _Loader) -> Iterator[Any]:
    """Yield the first events of the values in a list or mapping, up to its end."""
    while not isinstance(event := loader.get_event(), events.CollectionEndEvent):  # type: ignore[no-untyped-call]
        yield event


def _mapping(loader: _Loader, depth: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    column: int | None = None  # of the first mapping among the values
    has_merged = False
    for event in _inner(loader):
        key = _node(loader, event, depth, is_key=True)
        merges = key == "<<" and event.implicit[0]
        if has_merged if merges else key in fields:
            raise BadStrictYaml(f"the key {key[:80]!r} occurs twice", _line(event))
        item: Any = loader.get_event()  # type: ignore[no-untyped-call]
        if isinstance(item, events.MappingStartEvent) and not merges:
            mark: Any = item.start_mark
            column = mark.column if column is None else column
            if mark.column != column and not item.flow_style:
                raise BadStrictYaml("the indentation differs from that of the mapping before", _line(item))
        value = _node(loader, item, depth)
        if merges:
            _check_merge(value, _line(item))
            has_merged = True
        else:
            fields[key] = _constructed(value, item)
    return fields


def _constructed(value: Any, event: Any) -> Any:
    is_plain = isinstance(event, events.ScalarEvent) and event.implicit[0]
    return NOT_A_STRING if is_plain and value in ("=", "<<") else value


def _check_merge(value: Any, line: int) -> None:
    """Reject values that cannot be merged; mappings are ignored, as in StrictYAML."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) for item in items):
        raise BadStrictYaml("only mappings can be merged", line)
