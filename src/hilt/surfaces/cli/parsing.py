"""The parser of a command: argparse with subcommands, examples, suggestions and plain error messages."""

from __future__ import annotations

import argparse
from argparse import Namespace as Namespace
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from hilt.errors import did_you_mean
from hilt.surfaces import OPTIONS, Usage

Options = dict[str, str]
Run = Callable[[Options, Namespace], int]

_MISTAKES = {
    "expected one argument": "{name} needs a value",
    "expected at least one argument": "{name} needs a value",
    "not allowed with argument ": "{name} cannot be used with {rest}",
    "ignored explicit argument ": "{name} takes no value",
}
_PLAIN = "\0"  # prefix of a word after `--`, which is not a flag; command lines cannot contain it
_MISSING = "the following arguments are required: "


class Parser(argparse.ArgumentParser):
    """The arguments of a command, with the texts for its help, completion and manual page.

    A word that names a subcommand selects it; any other word is an argument of this command.
    """

    def __init__(
        self, prog: str, summary: str, run: Run | None = None, *, parent: Parser | None = None, hidden: bool = False
    ) -> None:
        super().__init__(prog=prog, add_help=False, allow_abbrev=False, exit_on_error=False)
        self.summary = summary
        self.run = run
        self.parent = parent
        self.hidden = hidden
        self.details = ""
        self.examples: list[tuple[str, str]] = []
        self.commands: dict[str, Parser] = {}
        self.add_argument("-h", "--help", action="store_true", help="Show this help")

    def command(self, name: str, summary: str, run: Run, *, hidden: bool = False) -> Parser:
        """Add a subcommand."""
        self.commands[name] = Parser(f"{self.prog} {name}", summary, run, parent=self, hidden=hidden)
        return self.commands[name]

    @property
    def arguments(self) -> list[argparse.Action]:
        """The positional arguments."""
        return [action for action in self._actions if not action.option_strings]

    @property
    def flags(self) -> list[argparse.Action]:
        """The options."""
        return [action for action in self._actions if action.option_strings]

    @property
    def help_examples(self) -> list[tuple[str, str]]:
        """The examples to show in the help: its own, or else those of its parent that run this command."""
        if self.examples or self.parent is None:
            return self.examples
        return [
            example
            for example in self.parent.examples
            if example[0] == self.prog or example[0].startswith(f"{self.prog} ")
        ]

    def reached(self, words: list[str]) -> tuple[Parser, list[str]]:
        """Return the parser of the subcommand that the words select, and the other words."""
        index = self._first_argument(words)
        if index is not None and self.commands:
            name = words[index]
            if name in self.commands:
                return self.commands[name].reached([*words[:index], *words[index + 1 :]])
            if not self.arguments:
                self._check_flags(words)
                self.error(f"unknown command {name!r} for {self.prog}{suggestion(name, self._visible())}")
        return self, words

    def read(self, words: list[str]) -> Namespace:
        """Parse the arguments of this command; `reached` has removed the subcommand."""
        self._check_flags(words)
        if self.run is None:
            self.error(f"{self.prog} needs a command: {', '.join(self._visible())}")
        try:
            arguments, unknown = self.parse_known_intermixed_args(_mark_plain(words))
        except argparse.ArgumentError as error:
            self.error(_message(error))
        if unknown:
            self._check_command(words)
            self.error(f"unexpected argument {unknown[0].removeprefix(_PLAIN)!r}")
        return arguments

    def error(self, message: str) -> NoReturn:
        """Reject the command line."""
        if message.startswith(_MISSING):
            message = f"missing required argument: {message.removeprefix(_MISSING)}"
        raise Usage(message, self.prog)

    def _check_command(self, words: list[str]) -> None:
        """Reject a first argument that looks like a mistyped subcommand."""
        index = self._first_argument(words)
        near = "" if index is None else suggestion(words[index], self._visible())
        if index is not None and near:
            self.error(f"unknown command {words[index]!r} for {self.prog}{near}")

    def _visible(self) -> list[str]:
        return [name for name, parser in self.commands.items() if not parser.hidden]

    def _first_argument(self, words: list[str]) -> int | None:
        """Return the index of the first word that is neither a flag nor the value of one."""
        is_value = False
        for index, word in enumerate(words):
            if word == "--":
                return None
            if not is_value and not _is_flag(word):
                return index
            is_value = _is_flag(word) and self._takes_next(word)
        return None

    def _takes_next(self, word: str) -> bool:
        action = self._option_string_actions.get(word)
        return action is not None and action.nargs != 0

    def _check_flags(self, words: list[str]) -> None:
        """Reject an unknown flag before any other error about the words around it."""
        is_value = False
        for word in words:
            if word == "--":
                return
            name = word.partition("=")[0]
            joined = not word.startswith("--") and word[:2] in self._option_string_actions
            if _is_flag(word) and not is_value and name not in self._option_string_actions and not joined:
                names = [*self._option_string_actions, *(f"--{option}" for option in OPTIONS)]
                self.error(f"unknown option {name!r}{suggestion(name, names)}")
            is_value = self._takes_next(word)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        return super()._get_value(action, arg_string.removeprefix(_PLAIN))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            name = action.option_strings[0] if action.option_strings else str(action.metavar)
            self.error(f"{name} takes {', '.join(choices)}, not {value[:100]!r}{suggestion(value, choices)}")


def _mark_plain(words: list[str]) -> list[str]:
    """Mark the words after `--` as arguments: argparse drops the `--` when arguments and flags are intermixed."""
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *(_PLAIN + word for word in words[end + 1 :])]


def integer(name: str, least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser for the integer that an option takes."""

    def read(value: str) -> int:
        number = int(value) if value.isascii() and value.isdecimal() and len(value) < 1000 else -1
        if number < least or (most is not None and number > most):
            limits = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise Usage(f"{name} takes an integer {limits}, not {value[:100]!r}")
        return number

    return read


def suggestion(word: str, names: Iterable[str]) -> str:
    """Return the end of an error message: the closest name, if there is one."""
    near = did_you_mean(word, names)
    return f"; did you mean {near}?" if near else ""


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word != "-" and " " not in word


def _message(error: argparse.ArgumentError) -> str:
    for start, text in _MISTAKES.items():
        if error.message.startswith(start):
            return text.format(name=error.argument_name, rest=error.message.removeprefix(start))
    # missing arguments have no name; Python 3.14 raises this error for them, too
    return f"{error.argument_name}: {error.message}" if error.argument_name else error.message
