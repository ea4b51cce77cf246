"""Reads the commands of a script word by word, as far as it matters what a command does with its words."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from hilt.custom.templates.evaluation import CALCULATION, NAME, evaluates_next, index_of, names_in, prints_no_value
from hilt.custom.templates.flow import (
    ANY,
    ARGUMENTS,
    INPUT,
    MAYBE,
    OF_TEXT,
    OPTION,
    SHELLS,
    Reach,
    begins_code,
    reads_as_code,
    reads_input_as_code,
    takes_for_option,
)
from hilt.custom.templates.parts import Manner, Mark, Reference, Unbindable, Word, some

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.templates.text import Reader

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")
_INDEX = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*)?\[")
_WHOLE_INDEX = re.compile(r"[A-Za-z_0-9]*\[(?:[^\[\]]|\[[^\[\]]*\])+\]\+?=")
_DEFAULT = re.compile(r"\$\{\w+:?[-+=](.*)\}\Z")
_BEFORE_FORMAT = re.compile(r"printf(?:\n-v\n[A-Za-z0-9_]+)?(?:\n--)?")
_BEGINS_FORMAT = re.compile(r"[A-Za-z0-9%]|['\"](?:\\[A-Za-z0-9]|[^-$`'\"\\\n\0])")
_GOES_ON = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc"))
_WRAPPERS = frozenset(("command", "builtin", "exec", "sudo", "doas", "env", "nohup", "nice", "time"))
_BEFORE_PROGRAM = frozenset(("command", "builtin", "-p", "--"))  # the next word may be a part of the shell
_NAMES = frozenset(  # whose words are names of variables, or calculations
    (
        *("let", "alias", "unset", "read", "mapfile", "readarray", "getopts"),
        *("compgen", "complete"),
    )
)
_FILLS = {"read": "REPLY", "mapfile": "MAPFILE", "readarray": "MAPFILE"}  # and what they fill by default
_LOOKED_AT = frozenset((*_FILLS, "let", "unset", "getopts"))  # though there is no value in their words
_WHOLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NOTHING = Reach((), ())
_DECLARES = frozenset(("declare", "typeset", "local", "readonly", "export"))
OF_THE_SHELL = _NAMES | _DECLARES | {"eval", "trap", "command", "builtin", "exec", "source", ".", "printf", "test", "["}
_NAMING = frozenset(("printf", "test", "["))  # with -v, which a value before could be
_BY_NAME = frozenset(("-v", "-R"))  # options whose word is the name of a variable
_UNSEEN = frozenset(("'", '"', "\\", "\n"))  # signs of the shell that are no part of a word
_LEADS = {"{": ("function",), "do": ("for", "select")}
_CLOSES = frozenset(("}", "done", "fi", "esac"))
_COMPARES = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))


class Bare:
    """Commands up to their closing bracket or the end, as far as it matters what a word is."""

    def __init__(self, reader: Reader, close: str, base: int, *, outer_waits: bool, is_list: bool, array: str) -> None:
        self._reader = reader
        self._close = close
        self._base = base
        self._outer_waits = outer_waits
        self._is_list = is_list  # the words of an array
        self._array = array  # and its name
        self._start: int | None = None  # of the word that is being read
        self._splits = False  # it may become several words
        self._unsure = False  # whether a word is being read depends on a section
        self._at_command: bool | None = not is_list
        self._redirects = False  # the word is the target of a redirection
        self._is_fed = False  # and its text is the input
        self._references: list[Reference] = []
        self.words: list[str] = []
        self._firm: tuple[list[str], int] = ([], 0)  # words of a command, and how many no section adds
        self._shape: re.Pattern[str] | None = None  # what the last word could be, when it is not fixed
        self._tested: re.Pattern[str] | None = None  # and the word before
        self._option: tuple[list[str], Reference] | None = None  # words of a printf, and a value that may be -v in them
        self._format: tuple[list[str], int] = ([], 0)  # words of a printf, and which of them is its format
        self._cases: list[str] = []  # subject, pattern or commands, of each case that is open
        self._in_test = False
        self._compared: list[Reference] = []  # values in this part of a [[ ]]
        self._compares = False
        self._part: list[str] = []  # words of this part
        self._since = reader.flow.mark()  # where the word began
        self._word_start = 0
        self._pipe = self._beginning = self._tested_since = self._since
        self._before = _NOTHING  # what the last word holds
        self._early: tuple[list[str], Reach] | None = None  # words of a printf, and what may be -v in them
        self.prints = False  # a value, maybe
        self._is_piped = False  # the command has the output of the one before
        self.readers: list[str] = []  # programs of the pipe that read its input as code

    def state(self) -> tuple[Any, ...]:
        """Return what must be the same before and after a section."""
        return tuple(self._cases), self._in_test, len(self._reader.documents)

    def word(self) -> Word:
        """Return what may differ after a section."""
        return Word(self._start, self._at_command, self.words, len(self.words))

    def merge(self, before: Word) -> None:
        """Go on after a section that may be absent."""
        self._unsure = self._unsure or (self._start is None) != (before.start is None)
        earlier = before.words[: before.known]
        if self.words is not before.words:
            self.words = [*earlier, MAYBE, *self.words]
        elif self._at_command != before.at_command:
            self.words.append(MAYBE)
        if self._at_command != before.at_command:
            self._at_command = None
        if len(self.words) > before.known and earlier and earlier[-1].startswith(("-", "+")):
            self.words.append(earlier[-1])  # without the section, the option is what stands before the next word
        words, known = self._firm
        self._firm = self.words, min(known, before.known) if words is before.words else before.known

    def ends(self) -> bool:
        """Whether a closing bracket is ours."""
        self.end_word()
        return not self._in_test and (not self._cases or self._cases[-1] != "pattern")

    def step(self, item: str | Mark) -> None:
        """Take the item at the reading position, with what belongs to it."""
        reader = self._reader
        if isinstance(item, Mark):
            self._take_mark(item)
        elif item in " \t":
            self.end_word()
            reader.emit()
        elif item == "\n":
            self._end_command()
            reader.emit()
            if self._outer_waits:
                raise reader.refuse("a here-document begins before a bracket that spans lines")
            reader.bodies()
        elif item == "#" and self._start is None:
            if self._unsure:
                raise reader.refuse("whether # begins a comment depends on a section; put a blank before it")
            self._comment()
        elif item == "#" and self._unsure:
            raise reader.refuse("whether # begins a comment depends on a section; put a blank before it")
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

    def _take_mark(self, mark: Mark) -> None:
        reader = self._reader
        if mark.sign:
            reader.mark(mark, "words", self._base, self)
            return
        manner = self._manner()
        self._begin()
        reference = reader.mark(mark, manner, self._base)
        self._note(some(reference))

    def _begin(self) -> None:
        """Begin a word, unless one is being read."""
        if self._start is None:
            self._start = self._reader.at
            self._splits = False
            self._since = self._reader.flow.mark()

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
        self._begin()
        if item in ("'", '"', "$"):
            self._splits = self._splits or (item == "$" and reader.peek(1) not in ("'", '"'))
            is_index = self._is_index(self._text())
            found = self._quoted(item)
            for reference in found if is_index else ():
                reference.is_number = True
            self._note(found)
        elif item == "`":
            self._splits = True
            reader.backticks(in_double=False)
        elif item == "\\":
            following = reader.peek(1)
            if isinstance(following, Mark):
                raise reader.refuse(f"a backslash stands right before {following.text}")
            if following == "\n" and self._start == reader.at:
                self._start = None
            reader.emit(2)
        else:
            reader.emit()

    def _quoted(self, item: str) -> list[Reference]:
        if item == "$":
            return self._reader.dollar("bare")
        self._reader.emit()
        return self._reader.single() if item == "'" else self._reader.double()

    def _comment(self) -> None:
        """Read to the end of the line; what looks like a placeholder stays as it is."""
        reader = self._reader
        opened = 0
        while (item := reader.peek()) not in ("", "\n"):
            if isinstance(item, Mark) and item.sign:
                opened += 1 if item.sign != "/" else -1
                if opened < 0:
                    raise reader.refuse(f"{item.text} stands in a comment and its section began before")
            reader.emit()
        if opened:
            raise reader.refuse("a section begins in a comment and ends outside")

    def _separator(self, item: str) -> None:
        reader = self._reader
        following = reader.peek(1)
        self.end_word()
        if self._in_test:
            self._end_comparison()
            reader.emit()
            return
        if item == "&" and following == ">":
            reader.emit()
            return
        is_pipe = item == "|" and "|" not in (following, reader.items[reader.at - 1] if reader.at else "")
        self._end_command(is_pipe=is_pipe)
        reader.emit(2 if is_pipe and following == "&" else 1)
        if item == ";" and following in (";", "&"):
            if self._cases and self._cases[-1] == "commands":
                self._cases[-1] = "pattern"
            reader.emit(2 if following == ";" and reader.peek(1) == "&" else 1)
        elif item == ";" and isinstance(following, Mark) and reader.after_sections(0) in (";", "&"):
            raise reader.refuse("a section stands between two signs that belong together")

    def _redirection(self, item: str) -> None:
        reader = self._reader
        if self._in_test:
            self.end_word()
        if self._in_test:
            reader.emit()
            return
        if reader.is_broken(1) or (isinstance(reader.peek(1), Mark) and reader.after_sections(1) in ("<", "(")):
            raise reader.refuse("a line end or a section stands between two signs that belong together")
        if reader.peek(1) == "(" and self._reader.shell == "bash":
            self._begin()
            start = reader.at
            reader.emit(2)
            reader.bare(close=")", start=start)
            return
        if not self._text().isdecimal():
            self.end_word()
        self._start = None
        self._unsure = False
        if item == "<" and reader.peek(1) == "<" and reader.peek(2) != "<":
            reader.here_document(self)
            return
        count = 1
        while reader.peek(count) in ("<", ">", "&", "|") and count < 3:
            count += 1
        self._is_fed = count == 3
        reader.emit(count)
        self._redirects = True

    def _bracket(self) -> None:
        reader = self._reader
        text = self._text()
        start = reader.at
        if self._in_test or (self._cases and self._cases[-1] == "pattern"):
            if self._in_test:
                self.end_word()
            reader.emit()
            return
        if reader.is_broken(1) or (isinstance(reader.peek(1), Mark) and reader.after_sections(1) == "("):
            raise reader.refuse("a line end or a section stands between two brackets")
        is_array = _ASSIGNMENT.match(text) is not None and text.endswith("=")
        is_pattern = text.endswith(("?", "*", "+", "@", "!")) and text != "!"
        if is_array or is_pattern:
            reader.emit()
            reader.bare(close=")", start=start, is_list=True, array=re.split(r"[\[+=]", text)[0])
            return
        self.end_word()
        if reader.peek(1) == "(":
            if reader.shell == "sh":
                raise reader.refuse("(( means different things in different shells")
            reader.emit(2)
            reader.calculation("))", start)
            self._at_command = True
            return
        reader.emit()
        reader.bare(close=")", start=start)
        self._at_command = True
        self.words = []

    def _close_pattern(self) -> None:
        self.end_word()
        if self._cases and self._cases[-1] == "pattern":
            self._cases[-1] = "commands"
            self._at_command = True
            self.words = []
        self._reader.emit()

    # --- words ----------------------------------------------------------------------------------------------------

    def _text(self) -> str:
        """The word so far without its quotes; a value in it is a NUL."""
        if self._start is None:
            return ""
        items = self._reader.items[self._start : self._reader.at]
        return "".join(
            ("" if item in _UNSEEN else item) if isinstance(item, str) else "" if item.sign else "\0" for item in items
        )

    def _written(self) -> str:
        """How the word begins that has just been read, with its quotes; a value or a section in it is a NUL."""
        items = self._reader.items[self._word_start : self._word_start + 3]
        return "".join(item if isinstance(item, str) else "\0" for item in items)

    def _programs(self) -> set[str]:
        """The names of the programs that the command may run, with and without the sections before."""
        found = set()
        is_open = True
        for word in self.words:
            name = word.rpartition("/")[2]
            if word == MAYBE:
                is_open = True
            elif is_open and name not in _WRAPPERS and not word.startswith("-") and not _ASSIGNMENT.match(word):
                found.add(name)
                is_open = False
        return found

    def end(self) -> None:
        """Note that there is no more."""
        self._end_command()

    def _end_command(self, *, is_pipe: bool = False) -> None:
        self.end_word()
        if self._cases and self._cases[-1] == "pattern":
            return
        self._end_of_pipe(is_pipe=is_pipe)
        if self.words[:1] == ["for"] and len(self.words) == 2:  # for x; do
            self._reader.flow.assign(self.words[1], Reach((), (ARGUMENTS,)))
        self.words = []
        self._redirects = False
        if not self._is_list and not self._in_test:
            self._at_command = True

    def _end_of_pipe(self, *, is_pipe: bool) -> None:
        """Note what a command does with what is piped into it, and whether its own output is piped on."""
        flow = self._reader.flow
        program = reads_input_as_code(self.words) if self._is_piped else None
        if program is not None:
            flow.evaluate(program, flow.since(self._pipe))
            self.readers.append(program)
        if self._is_piped and OF_TEXT.isdisjoint(self.words[:1]):
            flow.assign(INPUT, flow.since(self._pipe))
        if not is_pipe:
            self.prints = self.prints or (flow.mark() != self._pipe and not prints_no_value(self.words))
            self._pipe, self.readers = flow.mark(), []
        elif self.words[:1] and self.words[0] in _CLOSES:
            self._pipe = self._beginning  # the output of a loop, or of whatever ends here
        if is_pipe and flow.declared.functions.intersection(self.words):
            flow.assign(INPUT, Reach((), (ANY,)))  # which may print any variable
        self._is_piped = is_pipe

    def _end_comparison(self) -> None:
        flow = self._reader.flow
        if self._compares:
            for reference in self._compared:
                reference.is_number = True
            flow.calculate(" ".join(self._part), self._tested_since)
        if "=~" in self._part and any("." in word or "[^" in word or "$" in word[:-1] for word in self._part[2:]):
            flow.assign("BASH_REMATCH", flow.since(self._tested_since))
        self._compared, self._compares, self._part, self._tested_since = [], False, [], flow.mark()

    def end_word(self) -> None:
        """Note the word that ends at the reading position, if there is one."""
        self._unsure = False
        if self._start is None:
            return
        text, references = self._text(), self._references
        self._word_start = self._start
        self._start, self._references = None, []
        self._tested, self._shape = self._shape, _shape(self._reader.items, self._word_start, self._reader.at)
        if self._redirects:
            self._redirects = False
            program = reads_input_as_code(self.words)
            if self._is_fed or text.startswith("<("):
                self._reader.flow.assign(INPUT, self._reach(references))
            if program is not None and (self._is_fed or text.startswith("<(")):
                self._evaluate(program, references)
        elif self._in_test:
            self._test_word(text, references)
        elif self._cases and self._cases[-1] != "commands":
            self._case_word(text)
        elif self._is_list:
            self._evaluate_index(text, self._array)
        elif self._at_command is False:
            self._argument(text, references)
        else:
            self._command_word(text, references)

    def _test_word(self, text: str, references: list[Reference]) -> None:
        if text in _COMPARES:
            self._compares = True
        if references and (self.words[-1:] in (["-v"], ["-R"]) or _could_be(self._tested, _BY_NAME)):
            raise self._evaluated(references[0])
        if self.words[-1:] == ["-v"]:
            self._evaluate_name(text)
        self.words.append(text)
        self._part.append(text)
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
        self._evaluate_index(text)
        if _ASSIGNMENT.match(text):
            for reference in references if self._reader.has_integers else ():
                reference.is_number = True
            self._assign(text, references)
            return
        if text in _GOES_ON:
            self._at_command = True
        elif text == "case":
            self._cases.append("subject")
            self.words = []
        elif text == "esac" and self._cases:
            self._cases.pop()
            self._at_command = False
        elif text == "[[" and self._reader.shell == "bash":
            self._in_test, self.words, self._part = True, [], []
            self._tested_since = self._reader.flow.mark()
        else:
            self._check_program(text, references)
            self._at_command = False
            if text in _FILLS:
                self._reader.flow.fill(_FILLS[text])
            self._argument(text, references)

    def _check_program(self, text: str, references: list[Reference]) -> None:
        """Have a value that is the whole name of a command looked at, and refuse one that may be a part of it."""
        if text and not text.strip("\0"):
            for reference in references:
                reference.is_present = True
        elif _could_be(self._shape, OF_THE_SHELL):
            raise self._reader.refuse("a part of the shell may be named here, depending on a value or a section")

    def _argument(self, text: str, references: list[Reference]) -> None:
        if not self.words:
            self._before = _NOTHING
        else:
            self._check_option(text, references)
            if _BEFORE_PROGRAM.issuperset(self.words):
                self._check_program(text, references)
            has_values = self._reader.flow.mark() != self._since
            looks = has_values or self.words[0] in _LOOKED_AT or self.words[-1] == "-v" or self._early is not None
            programs = self._programs() if looks else set()
            if references:
                self._check_argument(text, references[0], programs)
            if has_values:
                self._follow_option(text, references)
            if programs:
                self._follow(text, references, programs)
                self._follow_name(text, references, programs)
            self._before = self._reach(references) if has_values else _NOTHING
            if _BEFORE_FORMAT.fullmatch("\n".join(self.words[:5])) and _BEGINS_FORMAT.match(self._written()):
                self._format = self.words, len(self.words)
        self.words.append(_DEFAULT.sub(r"\1", text))
        if self.words[0] in _LEADS.get(text, ()):
            if self.words[2:] == ["do"]:
                self._reader.flow.assign(self.words[1], Reach((), (ARGUMENTS,)))
            self._at_command, self.words = True, []  # function f {, for x do

    def _check_argument(self, text: str, reference: Reference, programs: set[str]) -> None:
        """Refuse a value where the shell would evaluate it as a name or a calculation."""
        last = self.words[-1]
        is_option = last in _BY_NAME or not last.strip("\0") or _could_be(self._tested, _BY_NAME)
        could_name = is_option and not self._has_format()
        if programs & _NAMES or (programs & _NAMING and could_name) or ("wait" in programs and last == "-p"):
            raise self._evaluated(reference)
        if programs & _DECLARES:
            options = "".join(word[1:] for word in self.words if word[:1] in "-+")
            named = _ASSIGNMENT.match(text)
            evaluates = set(options) & set("aAin") or self._reader.has_integers or self._reader.has_arrays
            if named is None or "\0" in named[0] or evaluates:
                raise self._evaluated(reference)

    def _check_option(self, text: str, references: list[Reference]) -> None:
        """Refuse a value that printf may read as -v and a name: it is not if there is nothing after it."""
        if self._option is not None and self._option[0] is self.words:
            raise self._evaluated(self._option[1])
        if references and text.startswith(("\0", "-\0", "-v")) and _BEFORE_FORMAT.fullmatch("\n".join(self.words[:5])):
            self._option = self.words, references[0]

    def _has_format(self) -> bool:
        """Whether the words are those of a printf with its format, after which -v is no option any more."""
        words, at = self._format
        firm, known = self._firm
        return words is self.words and (firm is not words or at < known)

    # --- where values go ------------------------------------------------------------------------------------------

    def _follow(self, text: str, references: list[Reference], programs: set[str]) -> None:
        """Note where the values of an argument go."""
        program = reads_as_code(self.words, programs)
        runs_file = programs & {"source", "."} or any(word.rpartition("/")[2] in SHELLS for word in self.words)
        if program is None and runs_file and text.startswith("<("):
            program = min(programs)
        if program is not None:
            self._evaluate(program, references)
        if programs & _DECLARES:
            self._assign(text, references)
        elif self.words[0] in ("for", "select") and len(self.words) > 1:
            self._reader.flow.assign(self.words[1], self._reach(references))
        elif programs & _FILLS.keys():
            self._reader.flow.fill(text.partition("[")[0])
        elif "printf" in programs and self.words[1:2] == ["-v"] and len(self.words) > 2:
            self._reader.flow.assign(self.words[2].partition("[")[0], self._reach(references))
        elif "getopts" in programs:
            self._reader.flow.assign("OPTARG", self._reach(references))
            self._reader.flow.assign("OPTARG", Reach((), (ARGUMENTS,)))
        elif "set" in programs or programs & self._reader.flow.declared.functions or self.words[0][:1] in ("$", "\0"):
            self._reader.flow.assign(ARGUMENTS, self._reach(references))

    def _follow_option(self, text: str, references: list[Reference]) -> None:
        """Note a value that a program may take for an option by which it runs something."""
        program = takes_for_option(self.words) if text.lstrip("-")[:1] in ("\0", "$", "`") else None
        if program is not None and reads_as_code(self.words, {program}) is None:
            self._evaluate(OPTION + program, references)

    def _follow_name(self, text: str, references: list[Reference], programs: set[str]) -> None:
        """Note what of an argument the shell itself evaluates."""
        flow = self._reader.flow
        how = evaluates_next(self.words, programs)
        if how == CALCULATION:
            flow.calculate(text, self._since)
        elif how == NAME:
            self._evaluate_name(text)
        elif how is not None:
            self._evaluate(how, references)
        elif programs & _DECLARES:
            self._follow_declared(text, programs)
        elif programs & {"test", "["}:
            flow.evaluate(NAME, flow.since(self._since), None if self._splits else self._before)
        elif "printf" in programs:
            self._follow_format(text)

    def _follow_declared(self, text: str, programs: set[str]) -> None:
        flow = self._reader.flow
        options = {letter for word in self.words if word[:1] in "-+" for letter in word[1:]}
        name, _, value = text.partition("=")
        if options & set("pfF") or (text[:1] in "-+" and not self._splits):
            return
        index = index_of(text)
        reach = flow.since(self._since)
        if index is not None:
            self._evaluate_index(text)
        elif not _WHOLE_NAME.match(name.removesuffix("+")) or "n" in options:
            flow.evaluate(NAME, reach)
        if "i" in options:
            flow.calculate(value, self._since)
        written = "".join(map(str, self._reader.items[self._word_start : self._reader.at]))
        is_array = options & set("aA") or name in flow.declared.arrays
        if is_array and "=(" not in written and programs & {"declare", "typeset", "local"}:
            flow.evaluate(min(programs & _DECLARES), reach)

    def _follow_format(self, text: str) -> None:
        """Note what printf may read as -v and a name: unless it splits, only if there is something after it."""
        flow = self._reader.flow
        early, self._early = self._early, None
        if early is not None and early[0] is self.words:
            flow.evaluate(NAME, early[1])
            flow.evaluate(NAME, flow.since(self._since), early[1])
        elif _BEFORE_FORMAT.fullmatch("\n".join(self.words[:5])) and text[:1] in ("$", "`", "-"):
            if self._splits:
                flow.evaluate(NAME, flow.since(self._since))
            self._early = self.words, flow.since(self._since)

    def _evaluate_name(self, text: str) -> None:
        """Note that the shell takes a word for the name of a variable."""
        index = index_of(text)
        if index is not None:
            self._reader.flow.calculate(index.text)
        self._reader.flow.evaluate(NAME, self._reader.flow.since(self._since))

    def _evaluate_index(self, text: str, array: str = "") -> None:
        """Note the index in an assignment to an element of an array."""
        flow = self._reader.flow
        index = index_of(text)
        if index is None or "=" not in text or (index.array or array) in flow.declared.keyed:
            return
        positional = tuple(re.findall(r"\$\{?([0-9@*])", index.text))
        flow.evaluate(CALCULATION, Reach((), names_in(index.text) + positional))
        if index.is_open:
            flow.calculate("", self._since)

    def _assign(self, text: str, references: list[Reference]) -> None:
        named = _ASSIGNMENT.match(text)
        if named is not None:
            self._reader.flow.assign(re.split(r"[\[+=]", named[0])[0], self._reach(references))

    def _evaluate(self, program: str, references: list[Reference]) -> None:
        reach = self._reach(references)
        if not begins_code(program, self.words):
            reach = reach._replace(leading=reach.leading - set(references))
        self._reader.flow.evaluate(program, reach)

    def _reach(self, references: list[Reference]) -> Reach:
        """What the word holds that has just been read."""
        leading = [reference for reference in references if self._reader.leads(reference, self._word_start)]
        return self._reader.flow.since(self._since, references, leading)

    def _evaluated(self, reference: Reference) -> Unbindable:
        return Unbindable(
            f"{{{{ {reference.name} }}}} stands where the shell would run its value as code; "
            "write it where it is a plain argument, and a number that is calculated with inside $(( ))",
            reference.line,
        )


def _shape(items: Sequence[str | Mark], start: int, end: int) -> re.Pattern[str] | None:
    """Return what a word could be with any values, and with and without its sections.

    None when it is fixed, or a section of it holds other words too: those are known by merging.
    """
    if all(isinstance(item, str) for item in items[start:end]):
        return None
    while start and isinstance(before := items[start - 1], Mark) and before.sign in ("#", "^"):
        start -= 1
    found: list[str] = []
    opened: list[int] = []
    for item in items[start:end]:
        if isinstance(item, str):
            found += [] if item in _UNSEEN else [re.escape(item)]
        elif not item.sign:
            found += [] if found[-1:] == [".*"] else [".*"]
        elif item.sign != "/":
            opened.append(len(found))
            found.append("(?:")
        elif opened:
            opened.pop()
            found.append(")?")
        else:  # the section began in a word before
            return None
    return None if opened else re.compile("".join(found), re.DOTALL)


def _could_be(shape: re.Pattern[str] | None, names: Collection[str]) -> bool:
    return shape is not None and shape.pattern != ".*" and any(map(shape.fullmatch, names))
