"""Finds the reference that fits each placeholder of a template, by its place in the tree of the shell reader.

Every placeholder becomes a word, and the tree shows the quotes and brackets around it. A value is always the expansion
of a variable, so it can never become syntax; a wrong place could only split it or evaluate it. Arithmetic allows only
integers. What the shell reader cannot parse is rejected. evaluation.py handles text that is evaluated a second time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

from hilt.custom.templates.placeholders import Items, Manner, Mark, Part, Reference, Shell, Unbindable
from hilt.shell.heredocs import Body
from hilt.shell.syntax import Source, Unparsed, remove_backslashes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 20  # of backticks

_INTEGERS = re.compile(r"\b(?:declare|typeset|local|readonly|export)\s+(?:[-+]\w+\s+)*-\w*i")
_PARAMETER = re.compile(r"[#!]?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[-@*#?$!])(?:\[[A-Za-z0-9_@*$-]*\])?")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.", re.DOTALL)
_IN_BACKTICKS = re.compile(r"(?<!\\)`((?:[^`\\]|\\.)*)`", re.DOTALL)
_FOR_DO = re.compile(r"(\bfor\s+\w+)\s(do\s)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_BEFORE_PROGRAM = frozenset(("command", "builtin", "-p", "--", "time", "coproc"))  # the next word is the program
_COMPARES = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_SUBSTITUTIONS = frozenset(("command_substitution", "process_substitution"))
_DOUBLE = frozenset(("string", "translated_string", "heredoc_body"))
_COMMANDS = frozenset(("command", "declaration_command", "unset_command"))
_ONE_WORD = frozenset(("file_redirect", "herestring_redirect"))

_PROBLEMS = {
    "'": "A single quote is never closed",
    '"': "A double quote is never closed",
    "`": "A backtick is never closed",
    ")": "A parenthesis is never closed",
    "}": "${ is never closed",
    "((": "(( starts arithmetic; put a space between the parentheses if commands follow",
    "heredoc_end": "the here-document never ends: the line with its delimiter is missing",
    "<": "the delimiter of a here-document must be plain text",
}

Edit = tuple[int, int, str]  # a span of a text and what replaces it


class Reader:
    """Binds the placeholders of one template with one set of sections."""

    def __init__(self, body: str, items: Items, names: Collection[str], shell: Shell, line: int) -> None:
        self._body = body
        self._names = names
        self._shell = shell
        self._marks: list[tuple[Mark, int]] = []  # with their lines
        self._references: dict[int, Reference] = {}
        self._comments: set[int] = set()  # the marks in comments
        self._has_integers = _INTEGERS.search(body) is not None  # an assignment to an integer is evaluated
        prefix = "hilt_mark_"
        while prefix in body:
            prefix += "_"
        self._pattern = re.compile(rf"{prefix}([0-9]+)_")
        self._text = ""
        for item, offset in items:
            if isinstance(item, Mark):
                self._text += f"{prefix}{len(self._marks)}_"
                self._marks.append((item, line + body.count("\n", 0, offset)))
            else:
                self._text += item

    def read(self) -> list[Part]:
        """Return the whole script as its parts."""
        pieces = self._pattern.split(self._bound(self._text, 0))
        parts: list[Part] = [pieces[0]]
        for number, text in zip(map(int, pieces[1::2]), pieces[2::2], strict=True):
            reference = self._references.get(number)
            if reference is not None:
                parts += [reference, text]
            elif number in self._comments:
                parts[-1] = f"{parts[-1]}{self._marks[number][0].text}{text}"
            else:
                mark, line = self._marks[number]
                raise Unbindable(f"the shell syntax around {mark.text} is not supported", line)
        return [part for part in parts if part != ""]

    def _refuse(self, message: str, token: re.Match[str]) -> Unbindable:
        return Unbindable(message, self._marks[int(token[1])][1])

    def _refer(self, token: re.Match[str], manner: Manner) -> Reference:
        mark, line = self._marks[int(token[1])]
        if mark.name not in self._names:
            parameters = ", ".join(sorted(self._names)) or "none"
            raise self._refuse(f"{mark.text} is not a parameter; the parameters are: {parameters}", token)
        return self._references.setdefault(int(token[1]), Reference(mark.name, manner, line))

    def _bound(self, text: str, depth: int) -> str:
        """Return a text with everything changed that the references in it need; they are still marks."""
        first = self._pattern.search(text)
        if first is None:
            return text
        if depth > MAX_DEPTH:
            raise self._refuse(f"backticks are nested deeper than {MAX_DEPTH}", first)
        source = self._source(text, first)
        edits: list[Edit] = []
        for body in source.bodies:
            edits += self._document(text, body, depth)
        spans: list[tuple[int, int]] = []  # of the commands in backticks that have placeholders
        for node in _backticks(source):
            start, end = source.span(node.start_byte, node.end_byte)
            token = self._pattern.search(text, start, end)
            if token is not None:
                problem = _problem(source, [node])
                if problem:
                    raise self._refuse(problem, token)
                spans.append((node.start_byte, node.end_byte))
                inner = remove_backslashes(text[start + 1 : end - 1], quoted=_in_double(list(_ancestors(node.parent))))
                # a newline before the closing parenthesis, as a comment may be last; a space, as $(( is arithmetic
                edits.append((start, end, f"$( {self._bound(inner, depth + 1)}\n)"))
        for token in self._pattern.finditer(source.joined):
            if not any(start <= token.start() < end for start, end in spans):
                path = list(_ancestors(source.root.descendant_for_byte_range(token.start(), token.end())))
                edits += [(*source.span(start, end), new) for start, end, new in self._edits(source, token, path)]
        return _edited(text, dict.fromkeys(edits))

    def _source(self, text: str, first: re.Match[str]) -> Source:
        """Parse a text; if it has errors, with the same length in a form that the grammar knows, or else partially."""
        text = _CONTROL.sub(".", text)
        repaired = _IN_BACKTICKS.sub(lambda match: f"`{'_' * len(match[1])}`", _FOR_DO.sub(r"\1;\2", text))
        try:
            return Source(text)
        except Unparsed:
            with suppress(Unparsed):
                return Source(repaired)
        try:
            return Source(text, partial=True)
        except Unparsed as problem:
            raise self._refuse(str(problem), first) from None

    # --- here-documents that are not in the tree ------------------------------------------------------------------

    def _document(self, text: str, body: Body, depth: int) -> Iterator[Edit]:
        content = text[body.start : body.end]
        tokens = list(self._pattern.finditer(content))
        if not tokens:
            return
        for token in tokens:
            self._refer(token, "text")
        if body.quoted:
            yield from self._unquoted(content, body.start, body.operator, body.closing)
        elif body.expands:
            if '"' in content:
                raise self._refuse("a here-document contains quotes and substitutions", tokens[0])
            yield body.start, body.end, self._bound(f': "{content}"', depth)[3:-1]
        else:
            for token in tokens:
                if _escapes(content, token.start()) or content[: token.start()].endswith("$"):
                    at = body.start + token.start() - 1
                    yield at, at, "\\"

    def _unquoted(self, content: str, start: int, operator: tuple[int, int], end: tuple[int, int]) -> Iterator[Edit]:
        """Unquote a delimiter so that values expand, and escape everything else that would expand."""
        delimiter = "HILT_END"
        while delimiter in self._body:
            delimiter += "_"
        yield (*operator, delimiter)
        yield start, start + len(content), re.sub(r"[\\$`]", r"\\\g<0>", content)
        yield (*end, delimiter)

    # --- one placeholder ------------------------------------------------------------------------------------------

    def _edits(self, source: Source, token: re.Match[str], path: Sequence[Node]) -> list[Edit]:
        """Choose the reference for a placeholder; return the changes around it."""
        kinds = {node.type for node in path}
        mark = self._marks[int(token[1])][0].text
        if not path:  # too long to be parsed with errors
            raise self._refuse("the shell syntax is invalid or not supported", token)
        if "comment" in kinds:
            self._comments.add(int(token[1]))
            return []
        if "heredoc_start" in kinds:
            raise self._refuse("the delimiter of a here-document must be plain text", token)
        if path[0].type in ("program", "ERROR") or "`" in _own_text(source, path[0]):
            raise self._refuse(_problem(source, path) or f"the shell syntax around {mark} is not supported", token)
        problem = _problem(source, path)
        if problem:
            raise self._refuse(problem, token)
        number = self._is_number(source, token, path)
        manner = self._manner(source, token, path, number=number)
        reference = self._refer(token, manner)
        reference.is_number = number
        reference.is_present = not number and self._is_program(source, path)
        edits: list[Edit] = []
        document = next((node for node in path if node.type == "heredoc_redirect" and "heredoc_body" in kinds), None)
        if document is not None:
            parts = {child.type: child for child in document.children}
            start, body, end = parts["heredoc_start"], parts["heredoc_body"], parts["heredoc_end"]
            if any(sign in source.text_of(start) for sign in "'\"\\"):
                operator, closing = (start.start_byte, start.end_byte), (end.start_byte, end.end_byte)
                return [*self._unquoted(source.text_of(body), body.start_byte, operator, closing)]
        if manner in ("single", "ansi"):
            if manner == "ansi" and _escapes(source.joined, token.start()):
                raise self._refuse(f"a backslash directly before {mark} is not supported", token)
            return edits
        if source.joined[: token.start()].endswith("$") and not _escapes(source.joined, token.start() - 1):
            if number or path[0].parent is None or path[0].parent.type != "simple_expansion":
                raise self._refuse(f"a $ directly before {mark}: a value cannot name a variable", token)
            edits.append((token.start() - 1, token.start() - 1, "\\"))  # unescaped, it would form an expansion
        elif _escapes(source.joined, token.start()):
            if manner != "text" or path[0].type == "word":
                raise self._refuse(f"a backslash directly before {mark} is not supported", token)
            edits.append((token.start() - 1, token.start() - 1, "\\"))  # it stays a backslash
        return edits

    def _is_number(self, source: Source, token: re.Match[str], path: Sequence[Node]) -> bool:
        """Whether the shell evaluates the value as arithmetic."""
        number = False
        for child, node in pairwise(path):
            text = source.text_of(node)
            if node.type == "command_name":  # the grammar does not read a subscript in a subscript
                number = number or re.search(r"\]\+?=", source.joined[token.end() : node.end_byte]) is not None
            elif node.type == "subscript":
                number = number or child == node.child_by_field_name("index")
            elif node.type == "array":
                element = source.text_of(child)
                number = number or (element.startswith("[") and "]=" in element[token.start() - child.start_byte :])
            elif node.type == "variable_assignment":
                number = number or (
                    self._has_integers and node.parent is not None and node.parent.type != "declaration_command"
                )
            elif node.type == "binary_expression" and _in_test(path):
                number = number or not _COMPARES.isdisjoint(source.text_of(part) for part in node.children)
            elif text.startswith(("$((", "((")) and node.type in ("command_substitution", "subshell"):
                # the grammar sees no arithmetic here, the shell does
                if [part.type for part in node.children[1:]] != ["subshell", ")"]:
                    advice = "put a space between the parentheses if commands follow"
                    raise self._refuse(f"(( starts arithmetic; {advice}", token)
                number = True
            elif _calculates(node, child):
                number = True
            if self._shell == "sh" and (
                text.startswith(("((", "$[")) if node.type != "c_style_for_statement" else _calculates(node, child)
            ):
                sign = "$[" if text.startswith("$[") else "(("
                raise self._refuse(f"{sign} means different things in different shells", token)
            if node.type in _SUBSTITUTIONS:
                break
        return number

    def _manner(self, source: Source, token: re.Match[str], path: Sequence[Node], *, number: bool) -> Manner:
        manner: Manner | None = None
        in_array = False
        for index, node in enumerate(path):
            child = path[index - 1] if index else node
            kind = node.type
            found: Manner | None = None
            if kind == "raw_string":
                found = "single"
            elif kind == "ansi_c_string":
                found = self._ansi(source.text_of(node), token)
            elif kind in _DOUBLE:
                found = "text"
            elif kind == "expansion" and not any(inner.type == "arithmetic_expansion" for inner in path[:index]):
                found = self._in_expansion(source, token, path[index:], child, number=number)
            elif kind in ("subscript", "arithmetic_expansion", "c_style_for_statement") or _opens_arithmetic(node):
                found = "number" if number else None
            elif (
                kind in _ONE_WORD
                or (kind == "test_command" and _in_test(path))
                or (kind == "case_statement" and child.type != "case_item")
                or (kind == "case_item" and _is_pattern(node, child))
            ):
                found = "one"
            elif kind == "array":
                in_array = True
                found = "number" if number else "words"
            elif kind == "variable_assignment" and not in_array and child.type != "variable_name":
                found = "one"
            elif kind in ("function_definition", "for_statement") and child == node.child_by_field_name(
                "name" if kind == "function_definition" else "variable"
            ):
                raise self._refuse("a value cannot name a variable or a function", token)
            elif kind in _SUBSTITUTIONS:
                break
            manner = manner or found
            if kind in _COMMANDS and manner is None:
                manner = "words"
        return "number" if number and manner in (None, "words") else manner or "words"

    def _ansi(self, text: str, token: re.Match[str]) -> Manner:
        # a shell without $'…' reads a dollar sign before '…'
        if self._shell == "sh" and "\\" in text:
            raise self._refuse("a backslash inside $'…' means different things in different shells", token)
        return "ansi" if self._shell == "bash" else "single"

    def _in_expansion(
        self, source: Source, token: re.Match[str], path: Sequence[Node], child: Node, *, number: bool
    ) -> Manner:
        """Check a placeholder in ${…}. A value is allowed only as the default or as the pattern to remove."""
        text = self._pattern.sub("\0", source.text_of(path[0]))[2:]
        name = _PARAMETER.match(text)
        rest = text[name.end() if name else 0 :]
        is_default = name is not None and rest.lstrip(":")[:1] in tuple("-+=?") and rest[:2] != "::"
        in_double = _in_double(path[1:])
        is_cut = name is not None and rest[:1] in ("#", "%") and not number
        mark = self._marks[int(token[1])][0].text
        if not (is_default or is_cut):
            advice = "assign it to a variable first"
            if rest[:1] == "[" or (rest[:1] == ":" and rest[1:2] not in tuple("-+=?")):
                advice = f"use $(( {mark} )) with a parameter of type integer"
            elif name is None:
                advice = "a value cannot name a variable"
            raise self._refuse(f"{mark} is not supported here in ${{…}}; {advice}", token)
        if in_double and not is_cut:
            if "'" in rest:
                raise self._refuse("a single quote inside ${…} in double quotes is not supported", token)
            if child.type in _DOUBLE:
                raise self._refuse("a quoted placeholder inside ${…} in double quotes; remove the inner quotes", token)
        elif not number and not in_double and any(blank in _QUOTED.sub("", rest) for blank in " \t\n"):
            raise self._refuse("a placeholder and a space inside ${…} become several words; quote the ${…}", token)
        return "number" if number else "text" if in_double and not is_cut else "one"

    def _is_program(self, source: Source, path: Sequence[Node]) -> bool:
        """Whether the value is the whole name of a program."""
        for child, node in pairwise(path):
            if node.type in _SUBSTITUTIONS:
                return False
            if node.type == "command":
                word = re.sub(r"['\"\\\n]", "", source.text_of(child))
                before = [source.text_of(part) for part in node.children if part.end_byte <= child.start_byte]
                before = [text for text in before if "=" not in text]
                return not self._pattern.sub("", word) and _BEFORE_PROGRAM.issuperset(before)
        return False


def _backticks(source: Source) -> Iterator[Node]:
    """Yield the commands in backticks that are in no others."""
    stack = [source.root]
    while stack:
        node = stack.pop()
        if node.type == "command_substitution" and source.text_of(node).startswith("`"):
            yield node
        else:
            stack += node.children


def _problem(source: Source, path: Sequence[Node]) -> str | None:
    """Return what is wrong around a placeholder if the shell reader found no valid syntax there."""
    for index, node in enumerate(path):
        sign = next((child.type for child in node.children if child.is_missing), "")
        if node.type == "ERROR" and not sign:
            text = source.text_of(node)
            sign = "((" if text.startswith(("((", "$((")) else text[:1]
            if sign not in _PROBLEMS and index:
                continue  # the command in it is complete
        if sign or node.type == "ERROR":
            return _PROBLEMS.get(sign, "the shell syntax is invalid or not supported")
    return None


def _ancestors(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def _in_double(path: Sequence[Node]) -> bool:
    """Whether a node with these ancestors is in double quotes or a here-document."""
    for node in path:
        if node.type in _SUBSTITUTIONS:
            return False
        if node.type in _DOUBLE:
            return True
    return False


def _in_test(path: Sequence[Node]) -> bool:
    """Whether a node with these ancestors is in [[ ]]."""
    test = next((node for node in path if node.type in ("test_command", *_SUBSTITUTIONS)), None)
    return test is not None and bool(test.children) and test.children[0].type == "[["


def _opens_arithmetic(node: Node) -> bool:
    return bool(node.children) and node.children[0].type == "(("


def _calculates(node: Node, child: Node) -> bool:
    """Whether a node evaluates this child as arithmetic."""
    if node.type == "c_style_for_statement":
        return child != node.child_by_field_name("body")
    return node.type == "arithmetic_expansion" or _opens_arithmetic(node)


def _is_pattern(node: Node, child: Node) -> bool:
    """Whether a child of a case is one of its patterns."""
    end = next((part.start_byte for part in node.children if part.type == ")"), node.end_byte)
    return child.end_byte <= end


def _own_text(source: Source, node: Node) -> str:
    return source.text_of(node) if node.type == "word" else ""


def _escapes(text: str, at: int) -> bool:
    """Whether a backslash that is not escaped itself is before an offset."""
    return (at - len(text[:at].rstrip("\\"))) % 2 == 1


def _edited(text: str, edits: Collection[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
