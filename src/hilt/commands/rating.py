"""How a rating is written down, and what the parts of the rating ask of one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from hilt.commands.quoting import ShellWord
from hilt.commands.syntax import Assignment

Level = Literal["safe", "caution", "dangerous"]
ORDER = {"safe": 0, "caution": 1, "dangerous": 2}
RUN_TIME = ShellWord("", None)  # a word that a program makes of its input


class Rated(NamedTuple):
    """A level and its reason."""

    level: Level
    reason: str


class CommandPlace(NamedTuple):
    """Where a command stands: its offsets, whether its input is fed, how many wrappers are around it."""

    start: int
    end: int
    fed: bool
    depth: int


class Rater(Protocol):
    """What rates a whole command line; it is told of every command that a command starts."""

    sandboxed: bool

    def start(self, words: Sequence[ShellWord], place: CommandPlace) -> Rated:
        """Add a command that another one starts as a part of its own, and rate it."""

    def start_text(self, text: str | None, place: CommandPlace, starter: str) -> Rated:
        """Rate a text that a program hands to a shell; None is a text that is computed at run time."""

    def start_unseen(self, place: CommandPlace, reason: str) -> Rated:
        """Add a part for code that a program runs and that is not rated: a rule for the program does not allow it."""

    def write(self, path: str | None, place: CommandPlace) -> Rated:
        """Add a file that a program writes by an option or its script as a part of its own, and rate it."""

    def rate_assignment(self, assignment: Assignment, place: CommandPlace) -> Rated:
        """Rate the setting of a variable."""

    def redefine(self, name: str) -> None:
        """Take note that a name no longer means the program of that name."""


Rate = Callable[[Rater, str, Sequence[ShellWord], CommandPlace], Rated]


def worse(one: Rated, other: Rated) -> Rated:
    """Return the worse of two ratings; the first when they are alike."""
    return other if ORDER[other.level] > ORDER[one.level] else one


def has_unknown(arguments: Sequence[ShellWord]) -> bool:
    """Whether an argument could turn out to be an option; behind -- none can."""
    for word in arguments:
        if word.value == "--":
            return False
        if (word.value is None and not _starts_plainly(word)) or _may_be_option(word):
            return True
    return False


def is_made_of_input(word: ShellWord) -> bool:
    """Whether xargs or its like would make this word of what it reads."""
    return word.value is None and word.name is None and not any(sign in word.text for sign in "$`(")


def joined(values: Sequence[str | None]) -> str | None:
    """Return words as one text; None when one of them is only known at run time."""
    return None if None in values else " ".join(value for value in values if value is not None)


def holds(word: ShellWord, marks: Sequence[str]) -> bool:
    """Whether a word holds one of the marks that a program replaces."""
    return word.value is not None and any(mark in word.value for mark in marks)


def _may_be_option(word: ShellWord) -> bool:
    """Whether a wildcard could find a file whose name reads as an option."""
    return word.pattern and word.text[:1] in "*?[-"


def _starts_plainly(word: ShellWord) -> bool:
    """Whether a word begins with literal text that is no dash, so that it cannot become an option."""
    first = word.text.lstrip("\"'")[:1]
    return first.isalnum() or first in ("/", ".", "_", ":", "@", "+")
