"""Removes here-documents from bash source: the grammar supports little more than one at the end of a line."""

from __future__ import annotations

import re
from typing import NamedTuple

from hilt.shell.quoting import unquote

_EXPANSION = r"""\$(?:\([^()'"`\\\n\#<]*\)|\{[^{}'"`\\\n$(<]*\}|[\w?\#$!@*-]|(?![({['"\\]))"""
# Only text in which the ends of quotes, comments and subscripts are unambiguous; any other text is left unchanged.
_TOKENS = r"""
    (?P<comment>(?<![^ \t\n;&|()<>])\#[^\n]*)
  | <<(?!<)(?P<dash>-?)[ \t]*
      (?P<word>(?:[\w.!@%+=:,/-]|'[^'\n]*'|"[^"\\`$\n]*"|\\[^\n])+)(?=[ \t\n;&|()<>]|\Z)
  | (?P<line>\n)
  | (?P<quoted>'[^']*'|\$'(?:[^'\\]|\\.)*'|\$?"(?:[^"\\`$]|\\.|EXPANSION)*")
  | (?:[^ \t\n;&|()<>\\'"`$\#[]|(?<!\w)\[|(?<=[^ \t\n;&|()<>])\#)+
  | (?:EXPANSION|[<>]\([^()'"`\\\n\#<]*\)|\\[^\n])\#*
  | \\\n(?=[ \t]) | [ \t;&|)>] | (?<![?*+@!])\((?!\() | <<<(?![<\\]) | <(?![<(\\])
    """.replace("EXPANSION", _EXPANSION)
_EXPANDED = ("$(", "${", "$[", "`")


class Body(NamedTuple):
    """The text of a here-document, and the offsets of it, of its delimiter and of the line that ends it."""

    text: str
    quoted: bool  # the shell expands nothing in it
    start: int
    end: int
    operator: tuple[int, int]
    closing: tuple[int, int]

    @property
    def expands(self) -> bool:
        """Whether the shell expands something in it."""
        return not self.quoted and any(sign in self.text for sign in _EXPANDED)


class StrippedSource(NamedTuple):
    """A source of the same length with plain redirections and blanks in place of its here-documents."""

    text: str
    bodies: tuple[Body, ...]


def remove_heredocs(text: str) -> StrippedSource | None:
    """Return a source without its here-documents; None if their ends are ambiguous."""
    if "=~" in text:
        return None  # a regular expression has its own quoting rules
    characters = list(text)
    bodies: list[Body] = []
    pending: list[re.Match[str]] = []
    tokens = re.compile(_TOKENS, re.VERBOSE | re.DOTALL)
    position, last_operator = 0, text.rfind("<<")
    while pending or position <= last_operator:
        token = tokens.match(text, position)
        if token is None or (pending and "\n" in (token["quoted"] or "")):
            return None
        position = token.end()
        if token["word"]:
            pending.append(token)
            characters[token.start() : position] = "<" + "x" * (position - token.start() - 1)
        elif token["line"]:
            for start in pending:
                body, end = _body(text, position, start)
                if body is None:
                    return None
                bodies.append(body)
                characters[position:end] = [sign if sign == "\n" else " " for sign in text[position:end]]
                position = end
            pending = []
    return StrippedSource("".join(characters), tuple(bodies))


def _body(text: str, begin: int, token: re.Match[str]) -> tuple[Body | None, int]:
    """Return the body of a here-document, and the offset of the line after it."""
    delimiter = unquote(token["word"]).value
    is_quoted = any(sign in token["word"] for sign in "'\"\\")
    start = begin
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        if (line.lstrip("\t") if token["dash"] else line) == delimiter:
            body = Body(text[begin:start], is_quoted, begin, start, token.span("word"), (start, end))
            return body, min(end + 1, len(text))
        if line.endswith("\\") and not is_quoted:
            break  # the shell joins it with the next line before it looks for the delimiter
        start = end + 1
    return None, begin
