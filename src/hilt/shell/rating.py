"""The type of a rating, and the interface between the modules that rate commands (ADR 0015)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from hilt.shell.quoting import ShellWord
from hilt.shell.syntax import Assignment

Level = Literal["safe", "caution", "dangerous"]
ORDER = {"safe": 0, "caution": 1, "dangerous": 2}
RUIN = "; no rule allows that"  # ends the reason for what destroys everything
RUN_TIME = ShellWord("", None)  # a word that a program builds from its input


class Rated(NamedTuple):
    """A level and its reason; `removes` are globs for the files it removes, if undo brings all of that back."""

    level: Level
    reason: str
    removes: tuple[str, ...] | None = None


class CommandPlace(NamedTuple):
    """The position of a command: its offsets, whether its standard input is redirected, and its nesting depth.

    `input` is what it reads, if that is literal text; `lists` are globs for the paths that it gets as arguments.
    """

    start: int
    end: int
    fed: bool
    depth: int
    input: str | None = None
    lists: tuple[str, ...] | None = None

    @property
    def feeding(self) -> CommandPlace:
        """The place of a command that reads something else."""
        return self._replace(fed=True, input=None)


class Rater(Protocol):
    """Rates a whole command line, including every command that a command starts."""

    sandboxed: bool

    def start(self, words: Sequence[ShellWord], place: CommandPlace) -> Rated:
        """Add a command that another one starts as a separate part, and rate it."""

    def start_text(self, text: str | None, place: CommandPlace, starter: str) -> Rated:
        """Rate text that a program passes to a shell; None is text that is computed at run time."""

    def start_unseen(self, place: CommandPlace, reason: str) -> Rated:
        """Add a part for code that cannot be rated: a rule that allows the program does not allow it."""

    def start_code(self, rated: Rated, place: CommandPlace) -> Rated:
        """Add a part for code that a program reads: a rule that allows the program does not allow it."""

    def write(self, path: str | None, place: CommandPlace) -> Rated:
        """Add a file that a program writes by an option or its script as a separate part, and rate it."""

    def rate_assignment(self, assignment: Assignment, place: CommandPlace) -> Rated:
        """Rate the assignment of a variable."""

    def redefine(self, name: str) -> None:
        """Record that a name no longer means the program of that name."""


Rate = Callable[[Rater, str, Sequence[ShellWord], CommandPlace], Rated]


def worse(first: Rated, second: Rated) -> Rated:
    """Return the worse of two ratings; of equal ones that which cannot be undone, else the first."""
    is_lasting = second.level == first.level and first.removes is not None and second.removes is None
    return second if ORDER[second.level] > ORDER[first.level] or is_lasting else first


def has_unknown(arguments: Sequence[ShellWord]) -> bool:
    """Whether an argument could turn out to be an option; after -- none can."""
    for word in arguments:
        if word.value == "--":
            return False
        if (word.value is None and not _starts_plainly(word)) or _may_be_option(word):
            return True
    return False


def is_made_of_input(word: ShellWord) -> bool:
    """Whether xargs or a similar program would build this word from its input."""
    return word.value is None and word.name is None and not any(sign in word.text for sign in "$`(")


def joined(values: Sequence[str | None]) -> str | None:
    """Return words joined by spaces; None if one of them is only known at run time."""
    return None if None in values else " ".join(value for value in values if value is not None)


def holds(word: ShellWord, marks: Sequence[str]) -> bool:
    """Whether a word contains one of the placeholders that a program replaces."""
    return word.value is not None and any(mark in word.value for mark in marks)


def _may_be_option(word: ShellWord) -> bool:
    """Whether a wildcard could match a file whose name looks like an option."""
    return word.pattern and word.text[:1] in "*?[-"


def _starts_plainly(word: ShellWord) -> bool:
    """Whether a word starts with literal text other than a dash, so that it cannot become an option."""
    first = word.text.lstrip("\"'")[:1]
    return first.isalnum() or first in ("/", ".", "_", ":", "@", "+")
