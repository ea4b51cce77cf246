"""Parses the body of a template as the shell will, so that every placeholder becomes a reference that fits its context.

Each kind of quotes or brackets is a method that reads to their end. Arithmetic allows only integers. Unsupported syntax
is rejected. evaluation.py handles text that is evaluated a second time.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, NamedTuple

from hilt.custom.templates.commands import Bare
from hilt.custom.templates.placeholders import Items, Manner, Mark, Part, Reference, Shell, Unbindable

Context = Literal["bare", "double", "here", "number"]

MAX_DEPTH = 40

_EXPANSION = re.compile(r"[#!]?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[-@*#?$!])(?:\[[A-Za-z0-9_@*$-]*\])?")
_INTEGERS = re.compile(r"\b(?:declare|typeset|local|readonly|export)\s+(?:[-+]\w+\s+)*-\w*i")
_DELIMITER_END = frozenset(" \t\n;&|<>()")


class _Document(NamedTuple):
    """A here-document whose body has not been read yet."""

    delimiter: str
    strips: bool
    quoted: bool
    parts: list[Part]
    slot: int  # of its operator in the parts


class Reader:
    """Parses a body as the shell will."""

    def __init__(self, body: str, items: Items, names: Collection[str], shell: Shell, line: int) -> None:
        self._names = names
        self.shell = shell
        self._line = line
        self._body = body
        self.items: list[str | Mark] = [item for item, _ in items]
        self._offsets = [offset for _, offset in items]  # of the items, in the body
        self.at = 0
        self._end = len(self.items)
        self._parts: list[Part] = []
        self._depth = 0
        self.documents: list[_Document] = []
        # an assignment to an integer is evaluated
        self.has_integers = _INTEGERS.search(body) is not None

    def read(self) -> list[Part]:
        """Return the whole script as its parts."""
        self.bare(close="")
        return _joined(self._parts)

    def refuse(self, message: str, at: int | None = None) -> Unbindable:
        """Return the error for an unusable script, with the line of an item, by default the current one."""
        return Unbindable(message, self._line_of(self.at if at is None else at))

    def _line_of(self, index: int) -> int:
        offset = self._offsets[min(index, len(self._offsets) - 1)] if self._offsets else 0
        return self._line + self._body.count("\n", 0, offset)

    # --- the items ------------------------------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> str | Mark:
        """The current item, "" at the end."""
        at = self.at + ahead
        return self.items[at] if at < self._end else ""

    def emit(self, count: int = 1) -> None:
        """Copy characters unchanged."""
        for item in self.items[self.at : self.at + count]:
            self._parts.append(item if isinstance(item, str) else item.text)
        self.at += count

    def is_broken(self, ahead: int) -> bool:
        """Whether there is a line continuation, which the shell removes."""
        return self.peek(ahead) == "\\" and self.peek(ahead + 1) == "\n"

    # --- marks ----------------------------------------------------------------------------------------------------

    def mark(self, mark: Mark, manner: Manner) -> Reference:
        """Read the placeholder at the current position."""
        if mark.name not in self._names:
            parameters = ", ".join(sorted(self._names)) or "none"
            raise self.refuse(f"{mark.text} is not a parameter; the parameters are: {parameters}")
        reference = Reference(mark.name, manner, self._line_of(self.at))
        self._parts.append(reference)
        self.at += 1
        return reference

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.refuse(f"quotes and brackets are nested deeper than {MAX_DEPTH}")

    def _leave(self) -> None:
        self._depth -= 1

    def _unfinished(self, what: str, start: int) -> Unbindable:
        return self.refuse(f"{what} is never closed", start)

    # --- quotes ---------------------------------------------------------------------------------------------------

    def single(self) -> list[Reference]:
        """Read from after the opening single quote to after the closing one."""
        return self._plain("'", "single", "A single quote", escapes=False)

    def _ansi(self) -> list[Reference]:
        # a shell without $'…' reads a dollar sign before '…'
        return self._plain("'", "ansi" if self.shell == "bash" else "single", "$'", escapes=True)

    def _plain(self, close: str, manner: Manner, what: str, *, escapes: bool) -> list[Reference]:
        self._enter()
        start, references = self.at - 1, []
        while (item := self.peek()) != close:
            if not item:
                raise self._unfinished(what, start)
            if isinstance(item, Mark):
                references.append(self.mark(item, manner))
            elif escapes and item == "\\":
                if isinstance(self.peek(1), Mark):
                    raise self.refuse("a backslash directly before a placeholder is not supported")
                if self.shell == "sh" and (references or self.peek(1) == "'"):
                    raise self.refuse("a backslash inside $'…' means different things in different shells")
                self.emit(2)
            else:
                self.emit()
        self._leave()
        self.emit()
        return references

    def double(self) -> list[Reference]:
        """Read from after the opening double quote to after the closing one."""
        self._enter()
        start, references = self.at - 1, []
        while (item := self.peek()) != '"':
            if not item:
                raise self._unfinished("A double quote", start)
            references += self._inside(item, "double")
        self._leave()
        self.emit()
        return references

    def _inside(self, item: str | Mark, context: Context) -> list[Reference]:
        """Read one item of text in which only expansions are special: double quotes and here-documents."""
        if isinstance(item, Mark):
            return [self.mark(item, "text")]
        if item == "\\":
            following = self.peek(1)
            if not isinstance(following, Mark):
                self.emit(2)
            else:
                self._parts.append("\\\\")  # it stays a backslash, whatever the reference begins with
                self.at += 1
        elif item == "$":
            return self.dollar(context)
        elif item == "`":
            return self.backticks(in_double=context == "double")
        else:
            self.emit()
        return []

    # --- expansions -----------------------------------------------------------------------------------------------

    def dollar(self, context: Context) -> list[Reference]:
        """Read an expansion, or a literal dollar sign."""
        following = self.peek(1)
        if isinstance(following, Mark):
            if context == "number":
                raise self.refuse(f"a $ directly before {following.text}: a value cannot name a variable")
            self._parts.append("\\$")  # unescaped, it would form another expansion with the reference
            self.at += 1
            return []
        if self.is_broken(1):
            raise self.refuse("a $ at the end of a continued line is not supported")
        if following == "(":
            return self._substitution(context)
        if following == "{":
            return self._expansion(context)
        if following == "[":
            if self.shell == "sh":
                raise self.refuse("$[ means different things in different shells")
            self.emit(2)
            return self.calculation("]", self.at - 2)
        if following == "'" and context == "bare":
            self.emit(2)
            return self._ansi()
        self.emit()
        return []

    def _substitution(self, context: Context) -> list[Reference]:
        if self.is_broken(2):
            raise self.refuse("a line continuation directly after $( is not supported")
        start = self.at
        if self.peek(2) == "(":
            self.emit(3)
            return self.calculation("))", start)
        self.emit(2)
        self.bare(close=")", start=start)
        return []

    def calculation(self, close: str, start: int) -> list[Reference]:
        """Read an arithmetic expression to its end; every value in it must be an integer."""
        self._enter()
        depth, references = 0, []
        opening, closing = ("[", "]") if close == "]" else ("(", ")")
        while True:
            item = self.peek()
            if not item:
                raise self._unfinished("$((" if close == "))" else "$[", start)
            if isinstance(item, Mark):
                references.append(self.mark(item, "number"))
            elif item == closing and not depth:
                break
            elif item == "$":
                references += self.dollar("number")
            elif item == "`":
                self.backticks(in_double=False)
            elif item == "\\":
                if isinstance(self.peek(1), Mark):
                    raise self.refuse("a backslash directly before a placeholder is not supported")
                self.emit(2)
            else:
                depth += (item == opening) - (item == closing)
                self.emit()
        self._leave()
        if close == "))" and self.peek(1) != ")":
            raise self.refuse("(( starts arithmetic; put a space between the parentheses if commands follow", start)
        self.emit(len(close))
        return references

    def _expansion(self, context: Context) -> list[Reference]:
        """Read ${…}. A value is allowed only as the default or as the pattern to remove."""
        self._enter()
        start, references = self.at, []
        self.emit(2)
        ahead = "".join(item if isinstance(item, str) else "\0" for item in self.items[self.at : self._end])
        name = _EXPANSION.match(ahead)
        self.emit(name.end() if name else 0)
        rest = ahead[name.end() if name else 0 :]
        depth = 0
        in_index, is_offset = rest[:1] == "[", _is_offset(rest)
        is_default = name is not None and rest.lstrip(":")[:1] in tuple("-+=?") and rest[:2] != "::"
        is_cut = name is not None and rest[:1] in ("#", "%") and context in ("bare", "double")
        in_double = context in ("double", "here")
        has_blanks = False  # which split it into words
        while (item := self.peek()) != "}":
            if not item:
                raise self._unfinished("${", start)
            if isinstance(item, Mark):
                if not (is_default or is_cut):
                    advice = "assign it to a variable first"
                    if in_index or is_offset:
                        advice = f"use $(( {item.text} )) with a parameter of type integer"
                    elif name is None:
                        advice = "a value cannot name a variable"
                    raise self.refuse(f"{item.text} is not supported here in ${{…}}; {advice}")
                manner: Manner = "number" if context == "number" else "text" if in_double and not is_cut else "one"
                references.append(self.mark(item, manner))
            elif item == "'" and not (in_double and is_default):
                if in_double and not is_cut:
                    raise self.refuse("a single quote inside ${…} in double quotes is not supported")
                self.emit()
                references += self.single()
            elif item == '"':
                self.emit()
                inner = self.double()
                if inner and (in_double and not is_cut):
                    raise self.refuse("a quoted placeholder inside ${…} in double quotes; remove the inner quotes")
                for reference in inner if context == "number" else ():
                    reference.is_number = True
                references += inner
            elif item == "$":
                references += self.dollar("number" if context == "number" else "double" if in_double else "bare")
            elif item == "`":
                self.backticks(in_double=in_double)
            elif item == "\\":
                if isinstance(self.peek(1), Mark):
                    raise self.refuse("a backslash directly before a placeholder is not supported")
                self.emit(2)
            else:
                has_blanks = has_blanks or item in " \t\n"
                depth += (item == "[") - (item == "]")
                self.emit()
                if in_index and not depth:
                    in_index = False
                    is_offset = _is_offset(f"{self.peek()}{self.peek(1)}")
        if references and has_blanks and context == "bare":
            raise self.refuse("a placeholder and a space inside ${…} become several words; quote the ${…}", start)
        self._leave()
        self.emit()
        return references

    def backticks(self, *, in_double: bool) -> list[Reference]:
        """Read `…` after removing one level of backslashes. With placeholders inside it becomes $(…)."""
        start = self.at
        end = start + 1
        items: list[str | Mark] = []
        offsets: list[int] = []
        while True:
            if end >= self._end:
                raise self._unfinished("A backtick", start)
            item = self.items[end]
            if item == "`":
                break
            following = self.items[end + 1] if end + 1 < self._end else ""
            if item == "\\" and not following:
                raise self._unfinished("A backtick", start)
            if item == "\\" and isinstance(following, Mark):
                raise self.refuse("a backslash directly before a placeholder is not supported", end)
            if item == "\\" and following in ("$", "`", "\\", *('"' if in_double else "")):
                end += 1
                item = following
            elif item == "\\":
                items.append(item)
                offsets.append(self._offsets[end])
                end += 1
                item = following
            items.append(item)
            offsets.append(self._offsets[end])
            end += 1
        if not any(isinstance(item, Mark) for item in items):
            self.emit(end + 1 - start)
            return []
        outside = self.items, self._offsets, self._end, self.documents
        # a newline before the closing parenthesis, because a comment may be last; a space, because $(( is arithmetic
        self._parts.append("$( ")
        self.items, self._offsets, self.at, self._end, self.documents = items, offsets, 0, len(items), []
        self.bare(close="")
        self._parts.append("\n)")
        self.items, self._offsets, self._end, self.documents = outside
        self.at = end + 1
        return []

    # --- here-documents -------------------------------------------------------------------------------------------

    def here_document(self) -> None:
        """Read << and its delimiter; the body starts on the next line."""
        start = self.at
        self.at += 2
        strips = self.peek() == "-"
        self.at += strips
        while self.peek() in (" ", "\t"):
            self.at += 1
        delimiter, quoted, quote = "", False, ""
        while True:
            item = self.peek()
            if isinstance(item, Mark) or item in ("`", "$") or self.is_broken(0):
                raise self.refuse("the delimiter of a here-document must be plain text", start)
            if not item or (not quote and item in _DELIMITER_END):
                break
            self.at += 1
            if item == quote:
                quote = ""
            elif not quote and item in ("'", '"'):
                quote, quoted = item, True
            elif item == "\\" and quote != "'":
                delimiter, quoted = delimiter + str(self.peek()), True
                self.at += 1
            else:
                delimiter += item
        if not delimiter or quote or "\n" in delimiter:
            raise self.refuse("the delimiter of a here-document is invalid", start)
        source = "".join(str(item) for item in self.items[start : self.at])
        slot = len(self._parts)
        self.documents.append(_Document(delimiter, strips, quoted, self._parts, slot))
        self._parts.append(source)

    def bodies(self) -> None:
        """Read the bodies of the here-documents that the previous line started."""
        pending, self.documents = self.documents, []
        for document in pending:
            self._document(document)

    def _document(self, document: _Document) -> None:
        start, end, after = self._extent(document)
        outer_end, self._end = self._end, end
        self._enter()
        has_values = any(isinstance(item, Mark) for item in self.items[start:end])
        rewrites = has_values and document.quoted
        while self.at < end:
            item = self.items[self.at]
            if not document.quoted:
                self._inside(item, "here")
            elif isinstance(item, Mark):
                self.mark(item, "text")
            else:
                self._parts.append("\\" + item if rewrites and item in "\\$`" else item)
                self.at += 1
        self._leave()
        self._end = outer_end
        if rewrites:
            # unquote the delimiter so that values expand, and escape everything else that would expand
            delimiter = "HILT_END"
            while delimiter in self._body:
                delimiter += "_"
            document.parts[document.slot] = f"<<{'-' * document.strips}{delimiter}"
            self._parts.append(delimiter)
            self.at = after
        else:
            self.emit(after - end)

    def _extent(self, document: _Document) -> tuple[int, int, int]:
        """Return the start and end of a body, and the end of its delimiter."""
        start = line = self.at
        continued = False
        while line < self._end:
            stop = line
            while stop < self._end and self.items[stop] != "\n":
                stop += 1
            row = self.items[line:stop]
            text = "".join(item for item in row if isinstance(item, str))
            text = text.lstrip("\t") if document.strips else text
            if text == document.delimiter:
                if len(row) != sum(isinstance(item, str) for item in row):
                    text = ""
                elif continued:
                    raise self.refuse("a line continuation directly before the end of a here-document", line)
                else:
                    return start, line, stop
            source = "".join(item if isinstance(item, str) else "\0" for item in row)
            continued = not document.quoted and (len(source) - len(source.rstrip("\\"))) % 2 == 1
            line = stop + 1
        raise self.refuse(f"the here-document never ends: the line {document.delimiter} is missing", start)

    # --- commands -------------------------------------------------------------------------------------------------

    def bare(self, *, close: str, start: int = 0, is_list: bool = False) -> None:
        """Read commands up to and including their closing parenthesis, or to the end."""
        self._enter()
        outer = self.documents
        self.documents = []
        frame = Bare(self, outer_pending=bool(outer), is_list=is_list)
        while (item := self.peek()) != "":
            if item == ")" and close and frame.ends():
                break
            frame.step(item)
        else:
            if close:
                raise self._unfinished("A parenthesis", start)
        frame.end()
        self._leave()
        if self.documents:
            raise self.refuse("a here-document has no body")
        self.documents = outer
        if close:
            self.emit()


def _is_offset(rest: str) -> bool:
    """Whether ${…} continues with the offset of a substring."""
    return rest[:1] == ":" and rest[1:2] not in tuple("-+=?")


def _joined(parts: list[Part]) -> list[Part]:
    """Join adjacent characters."""
    joined: list[Part] = []
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if texts:
            joined.append("".join(texts))
            texts = []
        joined.append(part)
    if texts:
        joined.append("".join(texts))
    return joined
