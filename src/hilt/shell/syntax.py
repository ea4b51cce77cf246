"""Parses bash source into simple commands, each with its words; rejects syntax that the grammar does not cover."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from hilt.shell.heredocs import Body, remove_heredocs
from hilt.shell.quoting import ShellWord, unquote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

MAX_LENGTH = 64 * 1024
MAX_DEPTH = 60
MAX_TEXTS = 200  # a nested text, such as the argument of sh -c, is parsed separately
ISOLATED_BYTES = 4096  # a longer text is first parsed in a child process
_ISOLATED_CHUNK = 256  # bytes per read of the parser there
_ISOLATED_SECONDS = 2  # of CPU time; text without errors takes less than one

_COMMANDS = frozenset(("command", "declaration_command", "unset_command", "test_command"))
_ASSIGNMENTS = frozenset(("variable_assignment", "variable_assignments"))
_CHAINS = frozenset(("list", "pipeline", "redirected_statement", "negated_command"))
_NESTING = frozenset(
    (
        *("subshell", "compound_statement", "if_statement", "while_statement", "for_statement"),
        *("c_style_for_statement", "case_statement", "function_definition"),
    )
)
STATEMENTS = _COMMANDS | _ASSIGNMENTS | _CHAINS | _NESTING
_READ = STATEMENTS | {"file_redirect", "heredoc_redirect"}  # as statements: also redirections alone
_REDIRECTS = frozenset(("file_redirect", "heredoc_redirect", "herestring_redirect"))
_OPAQUE = frozenset(("raw_string", "ansi_c_string", "comment", "heredoc_start", "heredoc_end"))
# bash ends these at the end of the line; the grammar may continue on the next line
_ONE_LINE = frozenset(
    (
        *("command", "declaration_command", "unset_command", "variable_assignment", "variable_assignments"),
        *("file_redirect", "herestring_redirect", "concatenation"),
    )
)
_MANY_LINES = frozenset(("string_content", "heredoc_body", "heredoc_content"))
_HEREDOC = frozenset(("heredoc_start", "heredoc_end", "file_descriptor", "comment"))
_OPERATORS = frozenset(("|", "|&", "&&", "||"))
_LITERALS = frozenset(("word", "raw_string", "ansi_c_string", "string", "concatenation"))
_ARITHMETIC = frozenset(("arithmetic_expansion", "subscript", "c_style_for_statement"))
_NUMERIC_TESTS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"))
_NAMING = frozenset(("let", "read", "mapfile", "readarray"))  # a name in their arguments may have a subscript
_NAMING_BY_OPTION = frozenset(("printf", "test", "["))  # after -v
_LOOSE = frozenset(("string", "heredoc_body", "expansion", "array", "regex"))  # blanks and text between their children
_PLAIN_BODY = re.compile(r"(?:[^$`\\]|\\[^$`\\\n])*")  # the shell changes nothing in it
RESERVED = frozenset(
    (
        *("if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in"),
        *("select", "function", "{", "}", "!", "[[", "]]", "(", ")"),
    )
)


class Unparsed(Exception):
    """Text whose commands cannot be determined reliably; the message gives the reason."""


class Assignment(NamedTuple):
    """One assignment of a shell variable; the value is None if it is only known at run time."""

    name: str
    value: str | None
    text: str = ""  # the source of the value, or of the words of a loop; empty if an expansion assigns


class Evaluated(NamedTuple):
    """Text that the shell itself evaluates again: arithmetic, a subscript, or the name in an indirection."""

    text: str
    start: int


class Redirection(NamedTuple):
    """One redirection; a here-document and a here-string have a body in place of a target."""

    operator: str
    target: ShellWord | None
    start: int
    end: int
    text: str


class Command(NamedTuple):
    """One simple command, or the redirections of a compound one, with the offsets of its source."""

    words: tuple[ShellWord, ...]
    assignments: tuple[Assignment, ...]
    redirections: tuple[Redirection, ...]
    fed: bool  # its standard input comes from a pipe, a file or a here-document
    start: int
    end: int
    text: str
    given: str | None = None  # its standard input, if that is the literal text of a here-document or here-string
    writer: Command | None = None  # the simple command at the other end of its pipe


class Script(NamedTuple):
    """Every simple command of a source, in order, and the names that it redefines."""

    commands: tuple[Command, ...]
    functions: frozenset[str]
    loops: frozenset[str]  # functions that call themselves
    evaluated: tuple[Evaluated, ...] = ()


class Item(NamedTuple):
    """One member of a chain: the operator before it, whether ! negates it, its node and its redirections."""

    operator: str
    negated: bool
    node: Node | None
    redirects: list[Node]


def read(source: str) -> Script:
    """Return the simple commands of a source; raise Unparsed if they cannot be determined reliably."""
    return _Reader().read(source)


class Source:
    """A parsed text. Line continuations are removed as in bash; offsets still refer to the original text.

    With `partial`, the tree may have errors: it shows what is around a place, not what the text runs.
    """

    def __init__(self, text: str, *, partial: bool = False) -> None:
        _check_characters(text)
        self.text = text
        self._cuts: list[int] = []  # offsets, in the joined text, of the removed continuations
        self.bodies: tuple[Body, ...] = ()  # of here-documents that the grammar does not show
        self._parser = _parser()
        self._parse(text)
        if "<<" in text:
            self._remove_heredocs()
        if "\\\n" in self.joined:
            self._join()
        self._separate_keywords()
        if self._failed and "extglob" in text:
            self._widen_patterns()
        if partial:
            return
        if self._failed:
            raise Unparsed("the shell syntax is invalid or not supported")
        if "#" in text:
            self._check_comments()

    def _check_comments(self) -> None:
        """Reject a comment that bash would read as the rest of a word."""
        for node in descendants(self.root):
            if node.type == "comment" and node.start_byte:
                before = self.joined[node.start_byte - 1]
                if before not in " \t\n;&|(<>" or (before in " \t" and self._is_escaped(node.start_byte - 1)):
                    raise Unparsed("the end of a word is ambiguous")

    def _is_escaped(self, place: int) -> bool:
        start = place
        while start and self.joined[start - 1] == "\\":
            start -= 1
        return (place - start) % 2 == 1

    def _parse(self, joined: str) -> None:
        """Parse a text with "." in place of each non-ASCII character: the scanner crashes on some of them."""
        self.joined = joined
        data = (joined if joined.isascii() else "".join(sign if sign.isascii() else "." for sign in joined)).encode()
        parses = len(data) <= ISOLATED_BYTES or _parses(data)
        self.root = self._parser.parse(data if parses else b"").root_node
        self._failed = self.root.has_error or not parses

    def _remove_heredocs(self) -> None:
        """Parse without here-documents where the grammar does not read them as bash does."""
        is_read = not self._failed and "\n\\" not in self.text
        ends = [node for node in descendants(self.root) if node.type == "heredoc_end"] if is_read else []
        if is_read and all(self.line_of(end).lstrip("\t") == self.text_of(end) for end in ends):
            return
        stripped = remove_heredocs(self.text)
        if stripped is not None:
            self.bodies = stripped.bodies
            self._parse(stripped.text)

    def _join(self) -> None:
        """Remove every line continuation that bash would remove; the grammar must agree on which these are."""
        text = self.joined
        places = [place for place in _continuations(text) if not self._is_opaque(place)]
        pieces = []
        cursor = 0
        for count, place in enumerate(places):
            pieces.append(text[cursor:place])
            cursor = place + 2
            self._cuts.append(place - 2 * count)
        self._parse("".join([*pieces, text[cursor:]]))
        if not all(self._is_opaque(place) for place in _continuations(self.joined)) or any(
            self._is_opaque(cut) and self._is_opaque(max(cut - 1, 0)) for cut in self._cuts
        ):
            raise Unparsed("a line continuation changes the meaning of the text")

    def _is_opaque(self, place: int) -> bool:
        """Whether a continuation here is kept because it is in quotes or a comment."""
        node = self.root.descendant_for_byte_range(place, place + 1)
        if node is None:
            return False
        body = node if node.type == "heredoc_body" else node.parent
        if body is not None and body.type == "heredoc_body":
            is_kept = _is_quoted_body(body)
            node = body
        else:
            is_kept = node.type in ("raw_string", "ansi_c_string", "comment")
        if is_kept and self._is_read_twice(node):
            raise Unparsed("a line continuation changes the meaning of the text")
        return is_kept

    def _is_read_twice(self, node: Node) -> bool:
        """Whether bash removes continuations from the surrounding text before it parses the quotes in it."""
        parent = node.parent
        while parent is not None:
            if parent.type == "heredoc_body" or (
                parent.type == "command_substitution" and parent.children[0].type == "`"
            ):
                return True
            parent = parent.parent
        return False

    def _separate_keywords(self) -> None:
        """Blank out `time` and `coproc` before a compound command: the grammar reads them as programs."""
        for _ in range(10):
            spans = [span for node in descendants(self.root) if (span := _keyword_span(node)) is not None]
            if not spans:
                return
            signs = list(self.joined)
            for start, end in spans:
                signs[start:end] = " " * (end - start)
            self._parse("".join(signs))

    def _widen_patterns(self) -> None:
        """Read patterns such as !(a|b) as plain wildcards; quotes or a redirection could change their meaning."""
        if not any(sign in self.joined for sign in "'\"`>\\"):
            self._parse(re.sub(r"[?*+@!]\([\w.*?|/-]*\)", lambda match: "*" * len(match[0]), self.joined))

    def slice(self, start: int, end: int) -> str:
        """Return the joined text between two offsets of the tree."""
        return self.joined[start:end]

    def text_of(self, node: Node) -> str:
        """Return the joined text of a node."""
        return self.joined[node.start_byte : node.end_byte]

    def line_of(self, node: Node) -> str:
        """Return the whole line of the joined text that a node ends on."""
        start = self.joined.rfind("\n", 0, node.end_byte) + 1
        end = self.joined.find("\n", node.end_byte)
        return self.joined[start : end if end >= 0 else None]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return two offsets of the tree as offsets into the original text."""
        return start + 2 * bisect_right(self._cuts, start), end + 2 * bisect_right(self._cuts, end - 1)


class _Reader:
    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._functions: dict[str, list[tuple[int, int]]] = {}
        self._evaluated: list[Evaluated] = []
        self._texts_left = MAX_TEXTS
        self._place: tuple[int, int] | None = None  # the offsets of a nested text
        self._evaluates = False  # something is evaluated after quote removal, as arithmetic is
        self._evaluable = False  # quoted text would then run a command

    def read(self, source: str) -> Script:
        self._read(source, fed=False, depth=0)
        if self._evaluates and self._evaluable:
            raise Unparsed("arithmetic or a subscript may run quoted text")
        commands = tuple(sorted(self._commands, key=lambda command: command.start))
        calls: dict[str | None, list[Command]] = {}
        for command in commands:
            if command.words:
                calls.setdefault(command.words[0].value, []).append(command)
        loops = {
            name
            for name, spans in self._functions.items()
            for call in calls.get(name, ())
            if any(start <= call.start and call.end <= end for start, end in spans)
        }
        return Script(commands, frozenset(self._functions), frozenset(loops), tuple(self._evaluated))

    def _read(self, text: str, *, fed: bool, depth: int) -> None:
        self._texts_left -= 1
        if self._texts_left < 0:
            raise Unparsed("it has too many nested commands")
        source = Source(text)
        for body in source.bodies:
            if body.expands:
                self._body(source, body, depth)
        stack: list[tuple[Node, bool, int, bool]] = [(source.root, fed, depth, False)]
        while stack:
            node, fed, depth, quoted = stack.pop()
            if depth > MAX_DEPTH:
                raise Unparsed("it is nested too deeply")
            kind = node.type
            if node.is_missing:
                raise Unparsed("the shell syntax is invalid or not supported")
            if kind in _READ:
                stack.extend(self._statement(source, node, fed=fed, depth=depth))
            elif kind == "command_substitution" and source.slice(node.start_byte, node.start_byte + 1) == "`":
                text = remove_backslashes(source.text_of(node)[1:-1], quoted=quoted)
                self._inside(source, node, text, depth, fed=fed)
            else:
                stack.extend(self._children(source, node, fed=fed, depth=depth, quoted=quoted))

    def _inside(self, source: Source, node: Node, text: str, depth: int, *, fed: bool) -> None:
        """Read a text that bash parses separately; its commands have the offsets of the text."""
        outer = self._place
        if outer is None:
            self._place = source.span(node.start_byte, node.end_byte)
        self._read(text, fed=fed, depth=depth + 1)
        self._place = outer

    def _body(self, source: Source, body: Body, depth: int) -> None:
        """Read the substitutions of a here-document as those of a string; only quotes differ between the two."""
        if '"' in body.text:
            raise Unparsed("a here-document contains quotes and substitutions")
        outer, at = self._place, len(self._commands)
        if outer is None:
            self._place = body.start, body.end
        self._read(f': "{body.text}"', fed=True, depth=depth + 1)
        self._place = outer
        del self._commands[at]  # the : command around the string

    def _statement(
        self, source: Source, node: Node, *, fed: bool, depth: int
    ) -> Iterator[tuple[Node, bool, int, bool]]:
        is_fed = fed
        writer: Command | None = None
        for item in chain(node):
            piped = item.operator in ("|", "|&")
            is_fed = piped or (is_fed if item.operator == "" else fed)
            writer = writer if piped else None
            words, redirects, inner = _spread(source, item)
            is_input = any(
                redirect.type != "file_redirect" or _operator(redirect).startswith("<") for redirect in redirects
            )
            inner_fed = is_fed or is_input
            if item.node is None or item.node.type not in _NESTING:
                at = len(self._commands)
                self._add(source, item.node, words, redirects, fed=inner_fed)
                if len(self._commands) > at:
                    given = _given(source, redirects) if is_input else None
                    writer = None if is_input else writer
                    self._commands[-1] = writer = self._commands[-1]._replace(given=given, writer=writer)
            else:
                writer = None
                if item.node.type == "function_definition":
                    inner_fed = True  # the caller decides what it reads
                    self._define(source, item.node)
                self._compound(source, item.node, redirects, fed=inner_fed)
            for child in inner:
                yield child, inner_fed, depth + 1, False

    def _define(self, source: Source, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            raise Unparsed("a function has no name")
        value = unquote(source.text_of(name)).value
        if value is None:
            raise Unparsed("the name of a function is not literal")
        self._functions.setdefault(value, []).append(self._place or source.span(node.start_byte, node.end_byte))

    def _compound(self, source: Source, node: Node, redirects: Sequence[Node], *, fed: bool) -> None:
        """Record what a compound command does itself: its redirections, its loop variable, its arithmetic."""
        _check_gaps(source, node)
        assignments: tuple[Assignment, ...] = ()
        if node.type == "for_statement":
            variable = node.child_by_field_name("variable")
            if variable is not None:
                words = [source.text_of(child) for child in node.children_by_field_name("value")]
                assignments = (Assignment(source.text_of(variable), None, " ".join(words)),)
        is_arithmetic = node.children[0].type == "((" if node.children else False
        if is_arithmetic or node.type in _ARITHMETIC:
            self._evaluate(source, node)
        verbs = (unquote("(("),) if is_arithmetic else ()
        if not (assignments or verbs or redirects):
            return
        start, end = (node.start_byte, node.end_byte) if verbs or not redirects else _extent(redirects)
        self._append(source, verbs, assignments, redirects, start, end, fed=fed)

    def _add(
        self, source: Source, node: Node | None, extra: Sequence[Node], redirects: Sequence[Node], *, fed: bool
    ) -> None:
        nodes: list[Node] = []
        arrays: list[ShellWord] = []
        assignments: list[Assignment] = []
        if node is not None:
            _check_gaps(source, node)
            if node.type == "variable_assignment":
                assignments.append(_assignment(source, node))
            elif node.type == "variable_assignments":
                assignments += [_assignment(source, child) for child in node.children]
            elif node.type == "test_command":
                if node.children[0].type == "[" and "\n" in source.text_of(node):
                    raise Unparsed("part of the syntax is not supported")
                nodes = list(_operands(node))
            elif node.type not in _READ:
                raise Unparsed(f"a statement of an unknown kind ({node.type})")
            else:
                self._evaluates = self._evaluates or node.type in ("declaration_command", "unset_command")
                for child in node.children:
                    if child.type == "variable_assignment":
                        assignments.append(_assignment(source, child))
                        if child.children[-1].type == "array":
                            arrays.append(ShellWord(source.text_of(child), None, broken=True))
                        elif node.type == "declaration_command":
                            nodes.append(child)
                    elif child.type not in _REDIRECTS and child.type not in ("comment", "subshell"):
                        nodes.append(child)
        in_test = node is not None and node.type == "test_command"
        words = (*_words(source, [*nodes, *extra], in_test=in_test), *arrays)
        self._evaluates = self._evaluates or _takes_names([word.value for word in words])
        if node is not None and node.type == "command":
            if not words and not assignments:
                raise Unparsed("a command without a name")
            if words and words[0].text in RESERVED:
                raise Unparsed(f"{words[0].text} is not valid at this position")
        own = [part for part in (node, *extra) if part is not None]
        whole = [part for part in (node, *redirects) if part is not None]
        if not whole:
            return
        start, end = _extent(whole)
        for redirect in redirects:
            if redirect.type == "heredoc_redirect":  # the lines after the first are not the command's text
                end = min(
                    end, max(part.end_byte if part is not redirect else _head(redirect) for part in (*own, redirect))
                )
        self._append(source, words, assignments, redirects, start, end, fed=fed)

    def _append(
        self,
        source: Source,
        words: Sequence[ShellWord],
        assignments: Sequence[Assignment],
        redirects: Sequence[Node],
        start: int,
        end: int,
        *,
        fed: bool,
    ) -> None:
        place = self._place or source.span(start, end)
        self._commands.append(
            Command(
                tuple(words),
                tuple(assignments),
                tuple(self._redirection(source, redirect) for redirect in redirects),
                fed,
                *place,
                source.text[slice(*source.span(start, end))],
            )
        )

    def _redirection(self, source: Source, node: Node) -> Redirection:
        target = None
        if node.type == "file_redirect":
            words = _words(source, _destination(node))
            target = words[0] if words else None
        end = _head(node) if node.type == "heredoc_redirect" else _redirect_end(node)
        start, stop = source.span(node.start_byte, end)
        place = self._place or (start, stop)
        return Redirection(_operator(node), target, *place, source.text[start:stop])

    def _children(
        self, source: Source, node: Node, *, fed: bool, depth: int, quoted: bool
    ) -> Iterator[tuple[Node, bool, int, bool]]:
        """Search anything that is not a statement for commands that the grammar does not show."""
        kind = node.type
        self._record_evaluation(source, node)
        if not node.children:
            self._leaf(source, node, depth, quoted=quoted)
            return
        _check_gaps(source, node)
        if kind == "heredoc_body":
            for start, end in _gaps(node):
                self._text(source, node, source.slice(start, end), depth)
        if kind == "expansion" and any(child.type == "@" for child in node.children) and _last(node, 2) == "P":
            raise Unparsed("${...@P} runs the text of a variable")
        if kind == "expansion" and any(child.type in (":=", "=") for child in node.children):
            self._expansion_assigns(source, node)
        nests = kind in ("command_substitution", "process_substitution")
        is_sink = kind == "process_substitution" and node.children[0].type == ">("
        inside = quoted or kind in ("string", "heredoc_body")
        for child in node.children:
            yield child, fed or is_sink, depth + 1 if nests else depth, inside and not nests

    def _record_evaluation(self, source: Source, node: Node) -> None:
        """Record what the shell evaluates a second time, and quoted text that would then run a command."""
        kind = node.type
        if kind in _LITERALS:
            text = source.text_of(node)
            if "(" not in text and "`" not in text:
                return
            value = unquote(text).value or ""
            sign = max(value.rfind("$("), value.rfind("`"))
            if sign >= 0 and (value.startswith("(") or "[" in value[:sign] or _is_arithmetic(node)):
                self._evaluable = True
                self._evaluates = self._evaluates or _is_arithmetic(node)
        elif kind == "test_operator":
            self._evaluates = self._evaluates or source.text_of(node) in _NUMERIC_TESTS
        elif kind in _ARITHMETIC or (kind == "expansion" and any(child.type in (":", "!") for child in node.children)):
            self._evaluate(source, node)
        elif kind == "array":
            for child in node.children:
                if source.text_of(child).startswith("["):
                    self._evaluate(source, child)

    def _evaluate(self, source: Source, node: Node) -> None:
        self._evaluates = True
        place = self._place or source.span(node.start_byte, node.end_byte)
        # the body of a loop is in separate commands
        body = node.child_by_field_name("body") if node.type == "c_style_for_statement" else None
        text = source.slice(node.start_byte, body.start_byte if body is not None else node.end_byte)
        self._evaluated.append(Evaluated(text, place[0]))

    def _expansion_assigns(self, source: Source, node: Node) -> None:
        for child in node.children:
            if child.type == "variable_name":
                name = source.text_of(child)
                self._append(source, (), (Assignment(name, None),), (), node.start_byte, node.end_byte, fed=False)
                return

    def _leaf(self, source: Source, node: Node, depth: int, *, quoted: bool) -> None:
        if not node.is_named:
            return
        text = source.text_of(node)
        if node.type in _OPAQUE:
            # single quotes mean nothing inside "${x:-'...'}"
            if quoted and node.type in ("raw_string", "ansi_c_string") and ("`" in text or "$(" in text):
                raise Unparsed("single quotes inside double quotes contain a substitution")
            return
        if node.type == "heredoc_body" and _is_quoted_body(node):
            return
        if "\n" in text and node.type not in _MANY_LINES:
            raise Unparsed("the end of a word is ambiguous")  # the grammar may take the next line into a word
        self._text(source, node, text, depth)

    def _text(self, source: Source, node: Node, text: str, depth: int) -> None:
        """Find substitutions in text that the grammar treats as plain."""
        if "`" in text:
            pieces = _split_backticks(text)
            if len(pieces) % 2 == 0:
                raise Unparsed("a backtick is not closed")
            for piece in pieces[1::2]:
                self._inside(source, node, remove_backslashes(piece, quoted=False), depth, fed=True)
        is_plain = node.type in ("string_content", "heredoc_body", "heredoc_content", "regex")
        for sign in ("$(",) if is_plain else ("$(", "<(", ">("):
            if _contains_unescaped(text, sign):
                raise Unparsed("a substitution is at an unsupported position")


def chain(node: Node) -> list[Item]:
    """Return the members of a list or pipeline in order, however the grammar nested them."""
    items: list[Item] = []
    operator, negated = "", False
    work: list[Node | list[Node]] = [node]
    while work:
        current = work.pop()
        if isinstance(current, list):
            if not items:
                raise Unparsed("a redirection without a command")
            items[-1].redirects.extend(current)
            for redirect in reversed(current):
                if redirect.type == "heredoc_redirect":
                    work += [child for child in reversed(redirect.children) if _continues_chain(child)]
            continue
        kind = current.type
        if kind in ("list", "pipeline", "negated_command"):
            work += reversed(current.children)
        elif kind == "!":
            negated = not negated
        elif kind in _OPERATORS:
            operator = kind
        elif kind == "comment":
            continue
        elif kind == "redirected_statement":
            body = [child for child in current.children if child.type not in _REDIRECTS and child.type != "comment"]
            redirects = [child for child in current.children if child.type in _REDIRECTS]
            work.append(redirects)
            if body:
                work += reversed(body)
            else:
                items.append(Item(operator, negated, None, []))
                operator, negated = "", False
        elif kind in _REDIRECTS:
            items.append(Item(operator, negated, None, [current]))
            operator, negated = "", False
        elif not current.is_named and kind in (";", "\n"):
            continue
        else:
            items.append(Item(operator, negated, current, []))
            operator, negated = "", False
    return items


def words_of(source: Source, node: Node) -> tuple[ShellWord, ...]:
    """Return the words of one command node, without its assignments and redirections."""
    if node.type == "test_command":
        return _words(source, list(_operands(node)), in_test=True)
    skipped = (*_REDIRECTS, "variable_assignment", "comment", "subshell")
    return _words(source, [child for child in node.children if child.type not in skipped])


@cache
def _language() -> Language:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def _parser() -> Parser:
    try:
        from tree_sitter import Parser

        return Parser(_language())
    except (ImportError, AttributeError, TypeError, ValueError, OSError) as error:
        raise Unparsed(f"the shell parser cannot be loaded ({error})") from error


_PARSE_SCRIPT = """
import os, resource, sys
seconds, piece = map(int, sys.argv[1:3])
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
sys.path[:0] = sys.argv[3:]
import tree_sitter, tree_sitter_bash
data = sys.stdin.buffer.read()
reads_left = 64 + 16 * len(data) // piece  # text without errors is read about twice
def read(offset, _):
    global reads_left
    reads_left -= 1
    if reads_left < 0:
        os._exit(1)
    return data[offset:offset + piece]
parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
print(not parser.parse(read).root_node.has_error)
"""


@lru_cache(maxsize=64)
def _parses(data: bytes) -> bool:
    """Whether a text parses without errors, determined in a child process that can be killed.

    The parser recovers from errors in quadratic time, a minute for a long text, and cannot be interrupted.
    """
    import os
    import subprocess
    import sys

    import tree_sitter
    import tree_sitter_bash

    folders = {os.path.dirname(module.__path__[0]) for module in (tree_sitter, tree_sitter_bash)}
    # isolated, so that no other module of the same name is imported
    command = [sys.executable, "-I", "-S", "-c", _PARSE_SCRIPT, str(_ISOLATED_SECONDS), str(_ISOLATED_CHUNK), *folders]
    try:
        result = subprocess.run(command, input=data, capture_output=True, env={}, cwd="/", check=False)
    except OSError as error:
        raise Unparsed(f"the shell parser cannot be started ({error})") from error
    return result.stdout.strip() == b"True"


def _check_characters(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise Unparsed(f"it is longer than {MAX_LENGTH} characters")
    if not text.isprintable():
        for character in text:
            if (character < " " and character not in "\t\n") or character == "\x7f":
                raise Unparsed(f"it contains the control character U+{ord(character):04X}")
            if "\ud800" <= character <= "\udfff":
                raise Unparsed("it is not valid Unicode")
    depth = deepest = 0
    for character in text:
        if character in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")}]":
            depth -= 1
    if deepest > 4 * MAX_DEPTH:
        raise Unparsed("it is nested too deeply")


def _continuations(text: str) -> list[int]:
    """Return the offsets of backslash newline pairs whose backslash is not itself escaped."""
    return [escape.start() for escape in re.finditer(r"(?s)\\.", text) if escape[0] == "\\\n"]


def descendants(root: Node) -> Iterator[Node]:
    """Yield a node and all its descendants."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += node.children


def _keyword_span(node: Node) -> tuple[int, int] | None:
    """Return the bytes of a `time` or `coproc` before a compound command."""
    if node.type != "command" or not node.children or node.children[0].text not in (b"time", b"coproc"):
        return None
    texts = [(child.text or b"").decode() for child in node.children[:4]]
    for count, text in enumerate(texts):
        if count and (text in RESERVED or text in ("time", "coproc") or text.startswith("(")):
            return node.start_byte, node.children[count - 1].end_byte
    return None


def _takes_names(values: Sequence[str | None]) -> bool:
    if not values or values[0] not in _NAMING_BY_OPTION:
        return bool(values) and values[0] in _NAMING
    return any(value is None or value.startswith("-v") for value in values[1:2])


def _is_arithmetic(node: Node) -> bool:
    """Whether a word is in arithmetic or in a subscript."""
    parent = node.parent
    while parent is not None and parent.type not in ("command_substitution", "process_substitution", "command"):
        if parent.type in _ARITHMETIC or (parent.children and parent.children[0].type == "(("):
            return True
        if parent.type == "array":
            return (node.text or b"").startswith(b"[")
        parent = parent.parent
    return False


def _is_quoted_body(body: Node) -> bool:
    parent = body.parent
    if parent is None:
        return False
    return any(
        child.type == "heredoc_start" and any(sign in (child.text or b"") for sign in (b"'", b'"', b"\\"))
        for child in parent.children
    )


def _check_gaps(source: Source, node: Node) -> None:
    """Reject a node whose children do not cover its text: bash may run the uncovered text."""
    if node.type in _LOOSE:
        return
    if node.type == "heredoc_redirect":
        return
    blanks = " \t" if node.type in _ONE_LINE else " \t\n"
    words = next((child.start_byte for child in node.children if child.type == "command_name"), node.start_byte)
    for start, end in _gaps(node):
        # a line of assignments before a command means the same as one command
        if source.slice(start, end).strip(" \t\n" if end <= words else blanks):
            raise Unparsed("part of the syntax is not supported")


def _gaps(node: Node) -> Iterator[tuple[int, int]]:
    cursor = node.start_byte
    for child in node.children:
        if child.start_byte > cursor:
            yield cursor, child.start_byte
        cursor = max(cursor, child.end_byte)
    if cursor < node.end_byte:
        yield cursor, node.end_byte


def _continues_chain(node: Node) -> bool:
    kind = node.type
    return kind in _OPERATORS or kind in ("pipeline", "list") or (node.is_named and kind in _READ - _REDIRECTS)


def _spread(source: Source, item: Item) -> tuple[list[Node], list[Node], list[Node]]:
    """Return the words after redirections, all redirections, and the nodes that may contain further commands."""
    redirects: list[Node] = []
    words: list[Node] = []
    inner: list[Node] = []
    for child in item.node.children if item.node is not None else ():
        # an assignment in arithmetic is not a statement
        parent = None if child.parent is None else child.parent.type
        is_own = child.type == "variable_assignment" and parent not in _NESTING - {"c_style_for_statement"}
        inner += child.children if is_own else [child]
    pending = list(item.redirects)
    if item.node is not None and item.node.type in (*_COMMANDS, "function_definition"):
        pending += [child for child in item.node.children if child.type in _REDIRECTS]
        inner = [child for child in inner if child.type not in _REDIRECTS]
    while pending:
        redirect = pending.pop(0)
        redirects.append(redirect)
        if redirect.type == "heredoc_redirect":
            _check_heredoc(source, redirect)
            for child in redirect.children:
                if child.type in _REDIRECTS:
                    pending.append(child)
                elif child.type == "heredoc_body":
                    inner.append(child)
                elif child.is_named and not _continues_chain(child) and child.type not in _HEREDOC:
                    words.append(child)
                    inner.append(child)
        elif redirect.type == "file_redirect":
            inner += [child for child in redirect.children if child.is_named]
            words += _after_destination(redirect)
        else:
            inner += redirect.children
    words.sort(key=lambda node: node.start_byte)
    return words, redirects, inner


def _check_heredoc(source: Source, node: Node) -> None:
    """Reject a here-document that bash may end elsewhere."""
    parts = {child.type: child for child in node.children}
    start, body, end = parts.get("heredoc_start"), parts.get("heredoc_body"), parts.get("heredoc_end")
    if start is None or end is None:
        raise Unparsed("a here-document never ends")
    delimiter = unquote(source.text_of(start)).value
    closing = source.line_of(end)
    if not delimiter or delimiter != (closing.lstrip("\t") if "<<-" in parts else closing):
        raise Unparsed("the end of a here-document is ambiguous")
    lines = source.text_of(body).split("\n") if body is not None else []
    if delimiter in lines or ("<<-" in parts and delimiter in [line.lstrip("\t") for line in lines]):
        raise Unparsed("the end of a here-document is ambiguous")


def _operator(node: Node) -> str:
    for child in node.children:
        if not child.is_named:
            return child.type
    raise Unparsed("a redirection without an operator")


def _given(source: Source, redirects: Sequence[Node]) -> str | None:
    """Return the text that is the standard input of a command; None if it is not literal, or not only that."""
    inputs = []
    for redirect in redirects:
        if any(child.type == "file_descriptor" and child.text not in (b"1", b"2") for child in redirect.children):
            return None
        if redirect.type != "file_redirect" or _operator(redirect).startswith("<"):
            inputs.append(redirect)
    if len(inputs) != 1:
        return None
    node = inputs[0]
    if node.type == "herestring_redirect":
        words = _words(source, [child for child in node.children if child.is_named])
        return None if len(words) != 1 or words[0].value is None else f"{words[0].value}\n"
    if node.type == "heredoc_redirect":
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        text, is_quoted, is_whole = "", True, True
        if body is not None:
            start = source.joined.rfind("\n", 0, body.start_byte) + 1
            text, is_quoted = source.slice(start, body.end_byte), _is_quoted_body(body)
            is_whole = not source.slice(start, body.start_byte).strip()
        tabs = _operator(node) == "<<-"
    else:
        # of a here-document that was removed
        found = [each for each in source.bodies if each.operator[1] == _redirect_end(node)]
        is_whole = len(found) == 1 and source.span(0, node.end_byte) == (0, node.end_byte)
        text, is_quoted = (found[0].text, found[0].quoted) if found else ("", False)
        tabs = is_whole and source.text[: found[0].operator[0]].rstrip(" \t").endswith("<<-")
    if not is_whole or not (is_quoted or _PLAIN_BODY.fullmatch(text)):
        return None
    return re.sub(r"(?m)^\t+", "", text) if tabs else text


def _destination_nodes(node: Node) -> list[Node]:
    return [child for child in node.children if child.is_named and child.type not in ("file_descriptor", "comment")]


def _destination(node: Node) -> list[Node]:
    """Return the nodes of the one word a redirection opens; the grammar adds the words that follow."""
    nodes = [] if _operator(node) in (">&-", "<&-") else _destination_nodes(node)
    return [child for child, is_first in zip(nodes, _first_word_flags(nodes), strict=True) if is_first]


def _after_destination(node: Node) -> list[Node]:
    nodes = _destination_nodes(node)
    if _operator(node) in (">&-", "<&-"):
        return nodes
    return [child for child, is_first in zip(nodes, _first_word_flags(nodes), strict=True) if not is_first]


def _first_word_flags(nodes: Sequence[Node]) -> list[bool]:
    """Return for each node whether it belongs to the first word, that is, touches the node before it."""
    flags = []
    is_first = True
    for index, node in enumerate(nodes):
        is_first = is_first and (index == 0 or nodes[index - 1].end_byte == node.start_byte)
        flags.append(is_first)
    return flags


def _redirect_end(node: Node) -> int:
    if node.type != "file_redirect":
        return node.end_byte
    nodes = _destination(node)
    return nodes[-1].end_byte if nodes and _operator(node) not in (">&-", "<&-") else node.end_byte


def _head(node: Node) -> int:
    """Return the end of the delimiter word of a here-document operator."""
    for child in node.children:
        if child.type == "heredoc_start":
            return child.end_byte
    return node.end_byte


def _extent(nodes: Sequence[Node]) -> tuple[int, int]:
    return min(node.start_byte for node in nodes), max(
        _head(node) if node.type == "heredoc_redirect" else node.end_byte for node in nodes
    )


def _last(node: Node, count: int) -> str:
    return node.children[-count].type if len(node.children) >= count else ""


def _operands(node: Node) -> Iterator[Node]:
    """Return the words of a test from the nested expressions of the grammar."""
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type.endswith("_expression") or current is node:
            stack += reversed(current.children)
        elif current.type not in ("regex", "extglob_pattern", "comment"):  # patterns have their own syntax
            yield current


def _words(source: Source, nodes: Sequence[Node], *, in_test: bool = False) -> tuple[ShellWord, ...]:
    """Return the words of nodes; nodes that touch are one word."""
    spans: list[list[int]] = []
    for node in nodes:
        if spans and spans[-1][1] == node.start_byte:
            spans[-1][1] = node.end_byte
        else:
            spans.append([node.start_byte, node.end_byte])
    words = tuple(unquote(source.slice(start, end)) for start, end in spans)
    if not in_test and any(word.broken for word in words):  # a test has < && ( among its words
        raise Unparsed("the end of a word is ambiguous")
    return words


def _assignment(source: Source, node: Node) -> Assignment:
    text = source.text_of(node)
    name, _, value = text.partition("=")
    return Assignment(
        name.rstrip("+").partition("[")[0], None if value.startswith("(") else unquote(value).value, value
    )


def remove_backslashes(text: str, *, quoted: bool) -> str:
    """Return text in backticks without the backslashes that bash removes from it."""
    return re.sub(r'\\([`\\$"])' if quoted else r"\\([`\\$])", r"\1", text)


def _split_backticks(text: str) -> list[str]:
    # a text with a NUL is not parsed
    return re.sub(r"(?s)(\\.)|`", lambda sign: sign[1] or "\0", text).split("\0")


def _contains_unescaped(text: str, sign: str) -> bool:
    end = re.escape(sign)
    return re.match(rf"(?s)(?:\\.|(?!{end})[^\\])*+{end}", text) is not None
