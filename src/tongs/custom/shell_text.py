"""Reads the body of a template as the shell will, so that every placeholder becomes a reference that fits its place.

Each kind of quotes or brackets is a method that reads to their end. A section begins and ends in the same ones, so that
what follows means the same with it and without it. What the shell would evaluate a second time (eval, the text of
sh -c, names of variables, calculations) takes no value, or only a whole number. What is not understood is refused.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

Shell = Literal["bash", "sh"]
# words: a word, or one for each element; one: a single word; text: inside double quotes; single, ansi: inside '…', $'…'
Manner = Literal["words", "one", "text", "single", "ansi", "number"]
Context = Literal["bare", "double", "here", "number"]

MAX_DEPTH = 40

MARK = re.compile(r"\{\{[ \t]*([#^/]?)[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\}\}")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")
_INDEX = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*)?\[")
_WHOLE_INDEX = re.compile(r"[A-Za-z_0-9]*\[(?:[^\[\]]|\[[^\[\]]*\])+\]\+?=")
_EXPANSION = re.compile(r"[#!]?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[-@*#?$!])(?:\[[A-Za-z0-9_@*$-]*\])?")
_INTEGERS = re.compile(r"\b(?:declare|typeset|local|readonly|export)\s+(?:[-+]\w+\s+)*-\w*i")
_ARRAYS = re.compile(
    r"\b(?:declare|typeset|local|readonly|export)\s+(?:[-+]\w+\s+)*-\w*[aA]|=\(|\b(?:mapfile|readarray|read\s+-\w*a)\b"
    r"|[A-Za-z0-9_]\[[^\]\n]*\]\+?="
)
_DEFAULT = re.compile(r"\$\{\w+:?[-+=](.*)\}\Z")
_WITH_C = re.compile(r"[-+][A-Za-z]*c[A-Za-z]*\Z")
_DELIMITER_END = frozenset(" \t\n;&|<>()")

_GOES_ON = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc"))
_WRAPPERS = frozenset(("command", "builtin", "exec", "sudo", "doas", "env", "nohup", "nice", "time"))
_SHELLS = frozenset(
    (
        *("sh", "bash", "dash", "ksh", "mksh", "zsh", "ash", "rbash", "fish"),
        *("su", "runuser", "flock", "script"),  # which take -c as well
    )
)
_EVALUATES = frozenset(
    (
        *("eval", "let", "trap", "alias", "unset", "read", "mapfile", "readarray", "getopts"),
        *("compgen", "complete"),
    )
)
_INTERPRETERS = re.compile(r"(?:python[0-9.]*|perl|ruby|node|bun|deno|php|lua|osascript)\Z")
_DECLARES = frozenset(("declare", "typeset", "local", "readonly", "export"))
OF_THE_SHELL = _EVALUATES | _DECLARES | {"command", "builtin", "exec", "source", ".", "printf", "test", "["}
_NAMING = frozenset(("printf", "test", "["))  # with -v, which a value before could be
_LEADS = {"{": ("function",), "do": ("for", "select")}
_MAYBE = "\1"  # stands among the words where a section may have been absent
_COMPARES = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))


class Unbindable(Exception):
    """A template that cannot be used: why, and the line of its file."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Reference:
    """A placeholder as it stands in the script: by which manner it refers to its value, and what it asks of that."""

    __slots__ = ("is_number", "is_present", "line", "manner", "name")

    def __init__(self, name: str, manner: Manner, line: int) -> None:
        self.name = name
        self.manner = manner
        self.line = line
        self.is_number = manner == "number"  # it is evaluated, so that it must be a whole number
        self.is_present = False  # without it, the next word would be the command


class Section(NamedTuple):
    """A part of the script that is there when its value is given, or, inverted, when it is not."""

    name: str
    inverted: bool
    parts: list[Part]


Part = str | Reference | Section


class _Mark(NamedTuple):
    sign: str
    name: str
    text: str


class _Opened(NamedTuple):
    """A section that is being read, and where the shell was in its reading when it began."""

    mark: _Mark
    outer: list[Part]
    word: _Word
    frame: tuple[Any, ...]


class _Word(NamedTuple):
    """Where in its command the shell was."""

    start: int | None
    at_command: bool | None
    words: list[str]
    known: int  # how many words there were then: the list goes on


class _Document(NamedTuple):
    """A here-document whose body has not come yet."""

    delimiter: str
    strips: bool
    quoted: bool
    parts: list[Part]
    slot: int  # of its operator in the parts
    words: list[str]  # of its command


class Reader:
    """Reads a body as the shell will. Each kind of quotes or brackets is a method that reads to their end."""

    def __init__(self, body: str, names: set[str] | frozenset[str], shell: Shell, line: int) -> None:
        self._names = names
        self._shell = shell
        self._line = line
        self._body = body
        self._items: list[str | _Mark] = []
        self._offsets: list[int] = []  # of the items, in the body
        self._split(body)
        self._at = 0
        self._end = len(self._items)
        self._parts: list[Part] = []
        self._sections: list[_Opened] = []
        self._depth = 0
        self.notes: list[str] = []
        self._documents: list[_Document] = []
        # an assignment to an integer is evaluated, and so is, by declare and its like, one to an array
        self._has_integers = _INTEGERS.search(body) is not None
        self._has_arrays = _ARRAYS.search(body) is not None

    def read(self) -> list[Part]:
        self._check_sections()
        self._bare(close="")
        return _joined(self._parts)

    def _split(self, body: str) -> None:
        at = 0
        for found in MARK.finditer(body):
            self._items += body[at : found.start()]
            self._offsets += range(at, found.start())
            self._items.append(_Mark(found[1], found[2], found[0]))
            self._offsets.append(found.start())
            at = found.end()
        self._items += body[at:]
        self._offsets += range(at, len(body))

    def _check_sections(self) -> None:
        opened: list[tuple[_Mark, int]] = []
        for index, item in enumerate(self._items):
            if isinstance(item, str) or not item.sign:
                continue
            if item.sign != "/":
                opened.append((item, index))
            elif not opened or opened[-1][0].name != item.name:
                expected = f"; {opened[-1][0].text} is still open" if opened else ""
                raise self._refuse(f"{item.text} closes a section that is not open{expected}", index)
            else:
                opened.pop()
        if opened:
            raise self._refuse(f"{opened[-1][0].text} is never closed", opened[-1][1])

    def _refuse(self, message: str, at: int | None = None) -> Unbindable:
        index = min(self._at if at is None else at, len(self._offsets) - 1)
        return Unbindable(message, self._line_of(index))

    def _line_of(self, index: int) -> int:
        return self._line + self._body.count("\n", 0, self._offsets[index])

    # --- the items ------------------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> str | _Mark:
        """The item at the reading position, "" at the end."""
        at = self._at + ahead
        return self._items[at] if at < self._end else ""

    def _emit(self, count: int = 1) -> None:
        """Take characters over as they are."""
        for item in self._items[self._at : self._at + count]:
            self._parts.append(item if isinstance(item, str) else item.text)
        self._at += count

    def _after_sections(self, ahead: int) -> str | _Mark:
        """The first item from there on that is no mark of a section."""
        at = self._at + ahead
        while at < self._end and isinstance(self._items[at], _Mark) and self._items[at].sign:  # type: ignore[union-attr]
            at += 1
        return self._items[at] if at < self._end else ""

    def _is_broken(self, ahead: int) -> bool:
        """Whether a line is continued there: the shell then reads on as if nothing stood between."""
        return self._peek(ahead) == "\\" and self._peek(ahead + 1) == "\n"

    # --- marks ----------------------------------------------------------------------------------------------------

    def _mark(self, mark: _Mark, manner: Manner, base: int, frame: _Bare | None = None) -> Reference | None:
        """Take a placeholder, or the begin or end of a section, at the reading position."""
        if mark.name not in self._names:
            known = ", ".join(sorted(self._names)) or "none"
            raise self._refuse(f"{mark.text} names no parameter; the parameters are: {known}")
        if not mark.sign:
            reference = Reference(mark.name, manner, self._line_of(self._at))
            self._parts.append(reference)
            self._at += 1
            return reference
        state = frame.state() if frame else ()
        if mark.sign != "/":
            word = frame.word() if frame else _Word(None, None, [], 0)
            self._sections.append(_Opened(mark, self._parts, word, state))
            self._parts = []
        else:
            if len(self._sections) <= base:
                raise self._refuse(f"{mark.text} ends in other quotes or brackets than its section began in")
            opened = self._sections.pop()
            if opened.frame != state:
                raise self._refuse(f"What follows {mark.text} would mean something else without the section")
            opened.outer.append(Section(mark.name, opened.mark.sign == "^", _joined(self._parts)))
            self._parts = opened.outer
            if frame:
                frame.merge(opened.word)
        self._at += 1
        return None

    def _enter(self) -> int:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._refuse(f"quotes and brackets are nested deeper than {MAX_DEPTH}")
        return len(self._sections)

    def _leave(self, base: int) -> None:
        self._depth -= 1
        if len(self._sections) != base:
            raise self._refuse(f"{self._sections[-1].mark.text} begins inside quotes or brackets and ends outside")

    def _unfinished(self, what: str, start: int) -> Unbindable:
        return self._refuse(f"{what} is never closed", start)

    # --- quotes ---------------------------------------------------------------------------------------------------

    def _single(self) -> list[Reference]:
        return self._plain("'", "single", "A single quote", escapes=False)

    def _ansi(self) -> list[Reference]:
        # where $'…' is not known it is a dollar sign before '…'
        return self._plain("'", "ansi" if self._shell == "bash" else "single", "$'", escapes=True)

    def _plain(self, close: str, manner: Manner, what: str, *, escapes: bool) -> list[Reference]:
        base, start, found = self._enter(), self._at - 1, []
        while (item := self._peek()) != close:
            if not item:
                raise self._unfinished(what, start)
            if isinstance(item, _Mark):
                found += _some(self._mark(item, manner, base))
            elif escapes and item == "\\":
                if isinstance(self._peek(1), _Mark):
                    raise self._refuse("a backslash stands right before a placeholder")
                if self._shell == "sh" and (found or self._peek(1) == "'"):
                    raise self._refuse("a backslash inside $'…' means different things in different shells")
                self._emit(2)
            else:
                self._emit()
        self._leave(base)
        self._emit()
        return found

    def _double(self) -> list[Reference]:
        """Read from behind the opening double quote to behind the closing one."""
        base, start, found = self._enter(), self._at - 1, []
        while (item := self._peek()) != '"':
            if not item:
                raise self._unfinished("A double quote", start)
            found += self._inside(item, "double", base)
        self._leave(base)
        self._emit()
        return found

    def _inside(self, item: str | _Mark, context: Context, base: int) -> list[Reference]:
        """Take one step in text where expansions work and nothing else: double quotes and here-documents."""
        if isinstance(item, _Mark):
            return _some(self._mark(item, "text", base))
        if item == "\\":
            following = self._peek(1)
            if not isinstance(following, _Mark):
                self._emit(2)
            elif following.sign:
                raise self._refuse(f"a backslash stands right before {following.text}")
            else:
                self._parts.append("\\\\")  # it stays a backslash, whatever the reference begins with
                self._at += 1
        elif item == "$":
            return self._dollar(context)
        elif item == "`":
            return self._backticks(in_double=context == "double")
        else:
            self._emit()
        return []

    # --- expansions -----------------------------------------------------------------------------------------------

    def _dollar(self, context: Context) -> list[Reference]:
        following = self._peek(1)
        if isinstance(following, _Mark):
            if following.sign:
                raise self._refuse(f"a $ stands right before {following.text}")
            if context == "number":
                raise self._refuse(f"a $ stands right before {following.text}: a value cannot name a variable")
            self._parts.append("\\$")  # with the reference it would be another expansion
            self._at += 1
            return []
        if self._is_broken(1):
            raise self._refuse("a $ is the last character of a continued line")
        if following == "(":
            return self._substitution(context)
        if following == "{":
            return self._expansion(context)
        if following == "[":
            if self._shell == "sh":
                raise self._refuse("$[ means different things in different shells")
            self._emit(2)
            return self._calculation("]", self._at - 2)
        if following == "'" and context == "bare":
            self._emit(2)
            return self._ansi()
        self._emit()
        return []

    def _substitution(self, context: Context) -> list[Reference]:
        if self._is_broken(2) or (isinstance(self._peek(2), _Mark) and self._after_sections(2) == "("):
            raise self._refuse("what follows $( is not on the same line, or in a section of its own")
        start = self._at
        if self._peek(2) == "(":
            self._emit(3)
            return self._calculation("))", start)
        self._emit(2)
        self._bare(close=")", start=start)
        return []

    def _calculation(self, close: str, start: int) -> list[Reference]:
        """Read an arithmetic expression to behind its end; every value in it is a number."""
        base, depth, found = self._enter(), 0, []
        opening, closing = ("[", "]") if close == "]" else ("(", ")")
        while True:
            item = self._peek()
            if not item:
                raise self._unfinished("$((" if close == "))" else "$[", start)
            if isinstance(item, _Mark):
                found += _some(self._mark(item, "number", base))
            elif item == closing and not depth:
                break
            elif item == "$":
                found += self._dollar("number")
            elif item == "`":
                self._backticks(in_double=False)
            elif item == "\\":
                if isinstance(self._peek(1), _Mark):
                    raise self._refuse("a backslash stands right before a placeholder")
                self._emit(2)
            else:
                depth += (item == opening) - (item == closing)
                self._emit()
        self._leave(base)
        if close == "))" and self._peek(1) != ")":
            raise self._refuse("(( begins a calculation; put a blank between the two if commands follow", start)
        self._emit(len(close))
        return found

    def _expansion(self, context: Context) -> list[Reference]:
        """Read ${…}. A value may be its default or a pattern that is cut off, and nothing else."""
        base, start, found = self._enter(), self._at, []
        self._emit(2)
        ahead = "".join(item if isinstance(item, str) else "\0" for item in self._items[self._at : self._end])
        name = _EXPANSION.match(ahead)
        self._emit(name.end() if name else 0)
        rest = ahead[name.end() if name else 0 :]
        is_default = name is not None and rest.lstrip(":")[:1] in tuple("-+=?") and rest[:2] != "::"
        is_cut = name is not None and rest[:1] in ("#", "%") and context in ("bare", "double")
        in_double = context in ("double", "here")
        has_blanks = False  # that split it into words
        while (item := self._peek()) != "}":
            if not item:
                raise self._unfinished("${", start)
            if isinstance(item, _Mark):
                if not (is_default or is_cut):
                    raise self._refuse(f"{item.text} cannot stand here in ${{…}}; give it to a variable first")
                manner: Manner = "number" if context == "number" else "text" if in_double and not is_cut else "one"
                found += _some(self._mark(item, manner, base))
            elif item == "'" and not (in_double and is_default):
                if in_double and not is_cut:
                    raise self._refuse("a single quote inside ${…} in double quotes")
                self._emit()
                found += self._single()
            elif item == '"':
                self._emit()
                inner = self._double()
                if inner and (in_double and not is_cut):
                    raise self._refuse("a placeholder in quotes inside ${…} in double quotes; leave the inner ones out")
                for reference in inner if context == "number" else ():
                    reference.is_number = True
                found += inner
            elif item == "$":
                found += self._dollar("number" if context == "number" else "double" if in_double else "bare")
            elif item == "`":
                self._backticks(in_double=in_double)
            elif item == "\\":
                if isinstance(self._peek(1), _Mark):
                    raise self._refuse("a backslash stands right before a placeholder")
                self._emit(2)
            else:
                has_blanks = has_blanks or item in " \t\n"
                self._emit()
        if found and has_blanks and context == "bare":
            raise self._refuse("a value and a blank inside ${…}, which become several words; put quotes around", start)
        self._leave(base)
        self._emit()
        return found

    def _backticks(self, *, in_double: bool) -> list[Reference]:
        """Read `…`: one layer of backslashes is taken off first. With values inside it becomes $(…)."""
        start = self._at
        end = start + 1
        items: list[str | _Mark] = []
        offsets: list[int] = []
        while True:
            if end >= self._end:
                raise self._unfinished("A backtick", start)
            item = self._items[end]
            if item == "`":
                break
            following = self._items[end + 1] if end + 1 < self._end else ""
            if item == "\\" and not following:
                raise self._unfinished("A backtick", start)
            if item == "\\" and isinstance(following, _Mark):
                raise self._refuse("a backslash stands right before a placeholder", end)
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
        if not any(isinstance(item, _Mark) for item in items):
            self._emit(end + 1 - start)
            return []
        outside = self._items, self._offsets, self._end, self._documents
        # a line end before the bracket, because a comment may be last; a blank, because $(( is something else
        self._parts.append("$( ")
        self._items, self._offsets, self._at, self._end, self._documents = items, offsets, 0, len(items), []
        self._bare(close="")
        self._parts.append("\n)")
        self._items, self._offsets, self._end, self._documents = outside
        self._at = end + 1
        return []

    # --- here-documents -------------------------------------------------------------------------------------------

    def _here_document(self, frame: _Bare) -> None:
        """Read << and its delimiter; the body comes with the next line."""
        start = self._at
        self._at += 2
        strips = self._peek() == "-"
        self._at += strips
        while self._peek() in (" ", "\t"):
            self._at += 1
        delimiter, quoted, quote = "", False, ""
        while True:
            item = self._peek()
            if isinstance(item, _Mark) or item in ("`", "$") or self._is_broken(0):
                raise self._refuse("the delimiter of a here-document must be plain text", start)
            if not item or (not quote and item in _DELIMITER_END):
                break
            self._at += 1
            if item == quote:
                quote = ""
            elif not quote and item in ("'", '"'):
                quote, quoted = item, True
            elif item == "\\" and quote != "'":
                delimiter, quoted = delimiter + str(self._peek()), True
                self._at += 1
            else:
                delimiter += item
        if not delimiter or quote or "\n" in delimiter:
            raise self._refuse("the delimiter of a here-document is not understood", start)
        source = "".join(str(item) for item in self._items[start : self._at])
        words = frame.words
        self._documents.append(_Document(delimiter, strips, quoted, self._parts, len(self._parts), words))
        self._parts.append(source)

    def _bodies(self) -> None:
        """Read the bodies of the here-documents that the line before has begun."""
        waiting, self._documents = self._documents, []
        for document in waiting:
            self._document(document)

    def _document(self, document: _Document) -> None:
        start, end, after = self._extent(document)
        outer_end, self._end = self._end, end
        base = self._enter()
        has_values = any(isinstance(item, _Mark) and not item.sign for item in self._items[start:end])
        if has_values and _runs_shell(document.words):
            raise self._refuse("a value inside a here-document that a shell runs would be run too", start)
        rewrites = has_values and document.quoted
        while self._at < end:
            item = self._items[self._at]
            if not document.quoted:
                self._inside(item, "here", base)
            elif isinstance(item, _Mark):
                self._mark(item, "text", base)
            else:
                self._parts.append("\\" + item if rewrites and item in "\\$`" else item)
                self._at += 1
        self._leave(base)
        self._end = outer_end
        if rewrites:
            # values work in it when its delimiter is not quoted; all else that would work then is escaped
            delimiter = "TONGS_END"
            while delimiter in self._body:
                delimiter += "_"
            document.parts[document.slot] = f"<<{'-' * document.strips}{delimiter}"
            self._parts.append(delimiter)
            self._at = after
        else:
            self._emit(after - end)

    def _extent(self, document: _Document) -> tuple[int, int, int]:
        """Return where a body begins and ends, and where its delimiter ends."""
        start = line = self._at
        continued = False
        while line < self._end:
            stop = line
            while stop < self._end and self._items[stop] != "\n":
                stop += 1
            row = self._items[line:stop]
            text = "".join(item for item in row if isinstance(item, str))
            text = text.lstrip("\t") if document.strips else text
            if text == document.delimiter:
                if len(row) != sum(isinstance(item, str) for item in row):
                    if any(isinstance(item, _Mark) and not item.sign for item in row):
                        text = ""
                    else:
                        raise self._refuse("the end of a here-document shares its line with a section", line)
                elif continued:
                    raise self._refuse("the line before the end of a here-document is continued", line)
                else:
                    return start, line, stop
            source = "".join(item if isinstance(item, str) else "\0" for item in row)
            continued = not document.quoted and (len(source) - len(source.rstrip("\\"))) % 2 == 1
            line = stop + 1
        raise self._refuse(f"the here-document never ends: there is no line {document.delimiter}", start)

    # --- commands -------------------------------------------------------------------------------------------------

    def _bare(self, *, close: str, start: int = 0, is_list: bool = False) -> None:
        base, outer = self._enter(), self._documents
        self._documents = []
        frame = _Bare(self, close, base, outer_waits=bool(outer), is_list=is_list)
        while (item := self._peek()) != "":
            if item == ")" and close and frame.ends():
                break
            frame.step(item)
        else:
            if close:
                raise self._unfinished("A bracket", start)
        frame.end_word()
        self._leave(base)
        if self._documents:
            raise self._refuse("a here-document begins and its lines do not come")
        self._documents = outer
        if close:
            self._emit()


class _Bare:
    """Commands up to their closing bracket or the end, as far as it matters what a word is."""

    def __init__(self, reader: Reader, close: str, base: int, *, outer_waits: bool, is_list: bool) -> None:
        self._reader = reader
        self._close = close
        self._base = base
        self._outer_waits = outer_waits
        self._is_list = is_list  # the words of an array
        self._start: int | None = None  # of the word that is being read
        self._unsure = False  # whether a word is being read depends on a section
        self._at_command: bool | None = not is_list
        self._redirects = False  # the word is the target of a redirection
        self._is_fed = False  # and its text is the input
        self._references: list[Reference] = []
        self.words: list[str] = []
        self._cases: list[str] = []  # subject, pattern or commands, of each case that is open
        self._in_test = False
        self._compared: list[Reference] = []  # values in this part of a [[ ]]
        self._compares = False

    # what must be the same before and after a section, and what may differ
    def state(self) -> tuple[Any, ...]:
        return tuple(self._cases), self._in_test, len(self._reader._documents)

    def word(self) -> _Word:
        return _Word(self._start, self._at_command, self.words, len(self.words))

    def merge(self, before: _Word) -> None:
        """Go on after a section that may be absent."""
        self._unsure = self._unsure or (self._start is None) != (before.start is None)
        earlier = before.words[: before.known]
        if self.words is not before.words:
            self.words = [*earlier, _MAYBE, *self.words]
        elif self._at_command != before.at_command:
            self.words.append(_MAYBE)
        if self._at_command != before.at_command:
            self._at_command = None
        if len(self.words) > before.known and earlier and earlier[-1].startswith(("-", "+")):
            self.words.append(earlier[-1])  # without the section, the option is what stands before the next word

    def ends(self) -> bool:
        """Whether a closing bracket is ours."""
        self.end_word()
        return not self._in_test and (not self._cases or self._cases[-1] != "pattern")

    def step(self, item: str | _Mark) -> None:
        reader = self._reader
        if isinstance(item, _Mark):
            self._take_mark(item)
        elif item in " \t":
            self.end_word()
            reader._emit()
        elif item == "\n":
            self._end_command()
            reader._emit()
            if self._outer_waits:
                raise reader._refuse("a here-document begins before a bracket that spans lines")
            reader._bodies()
        elif item == "#" and self._start is None:
            if self._unsure:
                raise reader._refuse("whether # begins a comment depends on a section; put a blank before it")
            self._comment()
        elif item == "#" and self._unsure:
            raise reader._refuse("whether # begins a comment depends on a section; put a blank before it")
        elif item in ";&|":
            self._separator(item)
        elif item in "<>":
            self._redirection(item)
        elif item == "(":
            self._bracket()
        elif item == ")":
            self._close_pattern()
        else:
            self._in_word(item)

    def _take_mark(self, mark: _Mark) -> None:
        reader = self._reader
        if mark.sign:
            reader._mark(mark, "words", self._base, self)
            return
        manner = self._manner()
        at = reader._at
        reference = reader._mark(mark, manner, self._base)
        if self._start is None:
            self._start = at
        self._note(_some(reference))

    def _manner(self) -> Manner:
        text = self._text()
        if self._is_index(text):
            return "number"
        if self._redirects or self._in_test or (self._cases and self._cases[-1] != "commands"):
            return "one"
        assigns = self._at_command is not False or self._programs() & _DECLARES
        return "one" if assigns and _ASSIGNMENT.match(text) else "words"

    def _is_index(self, text: str) -> bool:
        """Whether what follows a part of a word is in the index of an array, which is evaluated."""
        can_be = self._is_list if text.startswith("[") else self._at_command is not False and not self._is_list
        return can_be and _INDEX.match(text) is not None and _WHOLE_INDEX.match(text) is None

    def _note(self, references: list[Reference]) -> None:
        self._references += references
        if self._in_test:
            self._compared += references

    def _in_word(self, item: str) -> None:
        reader = self._reader
        is_index = self._is_index(self._text())
        if self._start is None:
            self._start = reader._at
        if item in ("'", '"', "$"):
            found = self._quoted(item)
            for reference in found if is_index else ():
                reference.is_number = True
            self._note(found)
        elif item == "`":
            reader._backticks(in_double=False)
        elif item == "\\":
            following = reader._peek(1)
            if isinstance(following, _Mark):
                raise reader._refuse(f"a backslash stands right before {following.text}")
            if following == "\n" and self._start == reader._at:
                self._start = None
            reader._emit(2)
        else:
            reader._emit()

    def _quoted(self, item: str) -> list[Reference]:
        if item == "$":
            return self._reader._dollar("bare")
        self._reader._emit()
        return self._reader._single() if item == "'" else self._reader._double()

    def _comment(self) -> None:
        """Read to the end of the line; what looks like a placeholder stays as it is."""
        reader = self._reader
        opened = 0
        while (item := reader._peek()) not in ("", "\n"):
            if isinstance(item, _Mark) and item.sign:
                opened += 1 if item.sign != "/" else -1
                if opened < 0:
                    raise reader._refuse(f"{item.text} stands in a comment and its section began before")
            reader._emit()
        if opened:
            raise reader._refuse("a section begins in a comment and ends outside")

    def _separator(self, item: str) -> None:
        reader = self._reader
        following = reader._peek(1)
        self.end_word()
        if self._in_test:
            self._end_comparison()
            reader._emit()
            return
        if item == "&" and following == ">":
            reader._emit()
            return
        self._end_command()
        reader._emit()
        if item == ";" and following in (";", "&"):
            if self._cases and self._cases[-1] == "commands":
                self._cases[-1] = "pattern"
            reader._emit(2 if following == ";" and reader._peek(1) == "&" else 1)
        elif item == ";" and isinstance(following, _Mark) and reader._after_sections(0) in (";", "&"):
            raise reader._refuse("a section stands between two signs that belong together")

    def _redirection(self, item: str) -> None:
        reader = self._reader
        if self._in_test:
            self.end_word()
        if self._in_test:
            reader._emit()
            return
        if reader._is_broken(1) or (isinstance(reader._peek(1), _Mark) and reader._after_sections(1) in ("<", "(")):
            raise reader._refuse("a line end or a section stands between two signs that belong together")
        if reader._peek(1) == "(" and self._reader._shell == "bash":
            if self._start is None:
                self._start = reader._at
            start = reader._at
            reader._emit(2)
            reader._bare(close=")", start=start)
            return
        if not self._text().isdecimal():
            self.end_word()
        self._start = None
        self._unsure = False
        if item == "<" and reader._peek(1) == "<" and reader._peek(2) != "<":
            reader._here_document(self)
            return
        count = 1
        while reader._peek(count) in ("<", ">", "&", "|") and count < 3:
            count += 1
        self._is_fed = count == 3
        reader._emit(count)
        self._redirects = True

    def _bracket(self) -> None:
        reader = self._reader
        text = self._text()
        start = reader._at
        if self._in_test or (self._cases and self._cases[-1] == "pattern"):
            if self._in_test:
                self.end_word()
            reader._emit()
            return
        if reader._is_broken(1) or (isinstance(reader._peek(1), _Mark) and reader._after_sections(1) == "("):
            raise reader._refuse("a line end or a section stands between two brackets")
        is_array = _ASSIGNMENT.match(text) is not None and text.endswith("=")
        is_pattern = text.endswith(("?", "*", "+", "@", "!")) and text != "!"
        if is_array or is_pattern:
            reader._emit()
            reader._bare(close=")", start=start, is_list=True)
            return
        self.end_word()
        if reader._peek(1) == "(":
            if reader._shell == "sh":
                raise reader._refuse("(( means different things in different shells")
            reader._emit(2)
            reader._calculation("))", start)
            self._at_command = True
            return
        reader._emit()
        reader._bare(close=")", start=start)
        self._at_command = True
        self.words = []

    def _close_pattern(self) -> None:
        self.end_word()
        if self._cases and self._cases[-1] == "pattern":
            self._cases[-1] = "commands"
            self._at_command = True
            self.words = []
        self._reader._emit()

    # --- words ----------------------------------------------------------------------------------------------------

    def _text(self) -> str:
        """The word so far without its quotes; a value in it is a NUL."""
        if self._start is None:
            return ""
        items = self._reader._items[self._start : self._reader._at]
        return "".join(
            ("" if item in ("'", '"', "\\", "\n") else item) if isinstance(item, str) else "" if item.sign else "\0"
            for item in items
        )

    def _programs(self) -> set[str]:
        """The names of the programs that the command may run, with and without the sections before."""
        found = set()
        is_open = True
        for word in self.words:
            name = word.rpartition("/")[2]
            if word == _MAYBE:
                is_open = True
            elif is_open and name not in _WRAPPERS and not word.startswith("-") and not _ASSIGNMENT.match(word):
                found.add(name)
                is_open = False
        return found

    def _end_command(self) -> None:
        self.end_word()
        if self._cases and self._cases[-1] == "pattern":
            return
        self.words = []
        self._redirects = False
        if not self._is_list and not self._in_test:
            self._at_command = True

    def _end_comparison(self) -> None:
        for reference in self._compared if self._compares else ():
            reference.is_number = True
        self._compared, self._compares = [], False

    def end_word(self) -> None:
        """Note the word that ends at the reading position, if there is one."""
        self._unsure = False
        if self._start is None:
            return
        text, references = self._text(), self._references
        self._start, self._references = None, []
        if self._redirects:
            self._redirects = False
            if self._is_fed and references and _runs_shell(self.words):
                raise self._evaluated(references[0])
        elif self._in_test:
            self._test_word(text, references)
        elif self._cases and self._cases[-1] != "commands":
            self._case_word(text)
        elif self._is_list:
            return
        elif self._at_command is False:
            self._argument(text, references)
        else:
            self._command_word(text, references)

    def _test_word(self, text: str, references: list[Reference]) -> None:
        if text in _COMPARES:
            self._compares = True
        if references and self.words[-1:] in (["-v"], ["-R"]):
            raise self._evaluated(references[0])
        self.words.append(text)
        if text == "]]":
            self._end_comparison()
            self._in_test = False
            self._at_command = False

    def _case_word(self, text: str) -> None:
        if self._cases[-1] == "subject":
            self.words.append(text)
            if text == "in" and len(self.words) > 1:
                self._cases[-1], self.words = "pattern", []
        elif text == "esac":
            self._cases.pop()
            self._at_command = False

    def _command_word(self, text: str, references: list[Reference]) -> None:
        if _ASSIGNMENT.match(text):
            for reference in references if self._reader._has_integers else ():
                reference.is_number = True
            return
        if text in _GOES_ON:
            self._at_command = True
        elif text == "case":
            self._cases.append("subject")
            self.words = []
        elif text == "esac" and self._cases:
            self._cases.pop()
            self._at_command = False
        elif text == "[[" and self._reader._shell == "bash":
            self._in_test, self.words = True, []
        else:
            if text and not text.strip("\0"):
                for reference in references:
                    reference.is_present = True
            self._at_command = False
            self._argument(text, references)

    def _argument(self, text: str, references: list[Reference]) -> None:
        if references and self.words:
            self._check_argument(text, references[0])
        self.words.append(_DEFAULT.sub(r"\1", text))
        if self.words[0] in _LEADS.get(text, ()):
            self._at_command, self.words = True, []  # function f {, for x do

    def _check_argument(self, text: str, reference: Reference) -> None:
        """Refuse a value where the command would evaluate it."""
        programs, last = self._programs(), self.words[-1]
        if programs & _EVALUATES or (programs & _NAMING and (last in ("-v", "-R") or not last.strip("\0"))):
            raise self._evaluated(reference)
        if programs & _DECLARES:
            options = "".join(word[1:] for word in self.words if word[:1] in "-+")
            named = _ASSIGNMENT.match(text)
            evaluates = set(options) & set("aAin") or self._reader._has_integers or self._reader._has_arrays
            if named is None or "\0" in named[0] or evaluates:
                raise self._evaluated(reference)
        if last.startswith(("-", "+")) and self._is_command_text():
            raise self._evaluated(reference)
        for program in sorted(programs):
            is_code = _INTERPRETERS.match(program) and last in ("-c", "-e", "-p", "-r", "--eval", "--print")
            if is_code or (program in ("ssh", "watch") and any(not word.startswith("-") for word in self.words[1:])):
                self._note_code(reference, program)

    def _note_code(self, reference: Reference, program: str) -> None:
        self._reader.notes.append(
            f"line {reference.line}: {program} reads the value of {reference.name} as code; pass it as an argument"
        )

    def _is_command_text(self) -> bool:
        """Whether the word that follows is the text that `sh -c` runs."""
        options: list[str] = []
        for word in reversed(self.words):
            if word[:1] not in ("-", "+"):
                break
            options.append(word)
        return _runs_shell(self.words) and any(_WITH_C.match(option) for option in options)

    def _evaluated(self, reference: Reference) -> Unbindable:
        return Unbindable(
            f"{{{{ {reference.name} }}}} stands where the shell would run its value as code; "
            "give it to a variable first and use that, or pass it as an argument",
            reference.line,
        )


def _runs_shell(words: list[str]) -> bool:
    return any(word.rpartition("/")[2] in _SHELLS for word in words)


def _some(reference: Reference | None) -> list[Reference]:
    return [] if reference is None else [reference]


def _joined(parts: list[Part]) -> list[Part]:
    """Join characters that stand together."""
    found: list[Part] = []
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if texts:
            found.append("".join(texts))
            texts = []
        found.append(part)
    if texts:
        found.append("".join(texts))
    return found
