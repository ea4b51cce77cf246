"""Parses the commands of a script word by word, as far as quoting of the values in them depends on it."""

from __future__ import annotations

import re

from hilt.custom.templates.placeholders import Manner, Mark, Reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.custom.templates.text import Reader

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")
_INDEX = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*)?\[")
_WHOLE_INDEX = re.compile(r"[A-Za-z_0-9]*\[(?:[^\[\]]|\[[^\[\]]*\])+\]\+?=")
_COMMAND_FOLLOWS = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc"))
_BEFORE_PROGRAM = frozenset(("command", "builtin", "-p", "--"))  # the next word is the program
_DECLARES = frozenset(("declare", "typeset", "local", "readonly", "export"))
_QUOTING = frozenset(("'", '"', "\\", "\n"))  # not part of the word's text
_BODY_FOLLOWS = {"{": ("function",), "do": ("for", "select")}
_COMPARES = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))


class Bare:
    """Commands up to their closing parenthesis or the end, split into words."""

    def __init__(self, reader: Reader, *, outer_pending: bool, is_list: bool) -> None:
        self._reader = reader
        self._outer_pending = outer_pending
        self._is_list = is_list  # the words of an array
        self._start: int | None = None  # of the current word
        self._at_command = not is_list
        self._redirects = False  # the word is the target of a redirection
        self._references: list[Reference] = []
        self.words: list[str] = []
        self._cases: list[str] = []  # for each open case: subject, pattern or commands
        self._in_test = False
        self._compared: list[Reference] = []  # values in this part of a [[ ]]
        self._compares = False

    def ends(self) -> bool:
        """Whether a closing parenthesis ends these commands."""
        self.end_word()
        return not self._in_test and (not self._cases or self._cases[-1] != "pattern")

    def step(self, item: str | Mark) -> None:
        """Read the current item and everything that belongs to it."""
        reader = self._reader
        if isinstance(item, Mark):
            self._take_mark(item)
        elif item in " \t":
            self.end_word()
            reader.emit()
        elif item == "\n":
            self._end_command()
            reader.emit()
            if self._outer_pending:
                raise reader.refuse("a here-document before multi-line parentheses is not supported")
            reader.bodies()
        elif item == "#" and self._start is None:
            self._comment()
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
        manner = self._manner()
        self._begin()
        self._add_references([self._reader.mark(mark, manner)])

    def _begin(self) -> None:
        """Start a word, unless inside one."""
        if self._start is None:
            self._start = self._reader.at

    def _manner(self) -> Manner:
        text = self._text()
        if self._is_index(text):
            return "number"
        if self._redirects or self._in_test or (self._cases and self._cases[-1] != "commands"):
            return "one"
        assigns = self._at_command or not _DECLARES.isdisjoint(self.words)
        return "one" if assigns and _ASSIGNMENT.match(text) else "words"

    def _is_index(self, text: str) -> bool:
        """Whether the text after this part of a word is in an array index, which is evaluated."""
        can_be = self._is_list if text.startswith("[") else self._at_command and not self._is_list
        return can_be and _INDEX.match(text) is not None and _WHOLE_INDEX.match(text) is None

    def _add_references(self, references: list[Reference]) -> None:
        self._references += references
        if self._in_test:
            self._compared += references

    def _in_word(self, item: str) -> None:
        reader = self._reader
        self._begin()
        if item in ("'", '"', "$"):
            is_index = self._is_index(self._text())
            references = self._quoted(item)
            for reference in references if is_index else ():
                reference.is_number = True
            self._add_references(references)
        elif item == "`":
            reader.backticks(in_double=False)
        elif item == "\\":
            following = reader.peek(1)
            if isinstance(following, Mark):
                raise reader.refuse(f"a backslash directly before {following.text} is not supported")
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
        """Copy the rest of the line; placeholders in comments stay unchanged."""
        while self._reader.peek() not in ("", "\n"):
            self._reader.emit()

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
        self._end_command()
        reader.emit()
        if item == ";" and following in (";", "&"):
            if self._cases and self._cases[-1] == "commands":
                self._cases[-1] = "pattern"
            reader.emit(2 if following == ";" and reader.peek(1) == "&" else 1)

    def _redirection(self, item: str) -> None:
        reader = self._reader
        if self._in_test:
            self.end_word()
        if self._in_test:
            reader.emit()
            return
        if reader.is_broken(1):
            raise reader.refuse("a line continuation inside an operator is not supported")
        if reader.peek(1) == "(" and self._reader.shell == "bash":
            self._begin()
            start = reader.at
            reader.emit(2)
            reader.bare(close=")", start=start)
            return
        if not self._text().isdecimal():
            self.end_word()
        self._start = None
        if item == "<" and reader.peek(1) == "<" and reader.peek(2) != "<":
            reader.here_document()
            return
        count = 1
        while reader.peek(count) in ("<", ">", "&", "|") and count < 3:
            count += 1
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
        if reader.is_broken(1):
            raise reader.refuse("a line continuation directly after ( is not supported")
        is_array = _ASSIGNMENT.match(text) is not None and text.endswith("=")
        is_pattern = text.endswith(("?", "*", "+", "@", "!")) and text != "!"
        if is_array or is_pattern:
            reader.emit()
            reader.bare(close=")", start=start, is_list=True)
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
        """The word so far without its quotes; NUL marks a value."""
        if self._start is None:
            return ""
        items = self._reader.items[self._start : self._reader.at]
        return "".join(("" if item in _QUOTING else item) if isinstance(item, str) else "\0" for item in items)

    def end(self) -> None:
        """End the last command."""
        self._end_command()

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
        """End the current word, if there is one."""
        if self._start is None:
            return
        text, references = self._text(), self._references
        self._start, self._references = None, []
        if self._redirects:
            self._redirects = False
        elif self._in_test:
            self._test_word(text)
        elif self._cases and self._cases[-1] != "commands":
            self._case_word(text)
        elif self._is_list:
            return
        elif self._at_command:
            self._command_word(text, references)
        else:
            self._argument(text, references)

    def _test_word(self, text: str) -> None:
        if text in _COMPARES:
            self._compares = True
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
            for reference in references if self._reader.has_integers else ():
                reference.is_number = True
        elif text in _COMMAND_FOLLOWS:
            self._at_command = True
        elif text == "case":
            self._cases.append("subject")
            self.words = []
        elif text == "esac" and self._cases:
            self._cases.pop()
            self._at_command = False
        elif text == "[[" and self._reader.shell == "bash":
            self._in_test, self.words = True, []
        else:
            self._at_command = False
            self._argument(text, references)

    def _argument(self, text: str, references: list[Reference]) -> None:
        if text and not text.strip("\0") and _BEFORE_PROGRAM.issuperset(self.words):
            for reference in references:  # the value is the whole name of a command
                reference.is_present = True
        self.words.append(text)
        if self.words[0] in _BODY_FOLLOWS.get(text, ()):
            self._at_command, self.words = True, []  # function f {, for x do
