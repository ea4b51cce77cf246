"""Completion in the shell with argcomplete: `hilt completion SHELL` prints a script that runs hilt at every Tab."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from argcomplete.completers import DirectoriesCompleter, FilesCompleter
from argcomplete.finders import CompletionFinder
from argcomplete.shell_integration import shellcode

from hilt.choices import choices
from hilt.errors import ToolError
from hilt.surfaces import OPTIONS, Usage, split
from hilt.surfaces.cli.command_table import COMMANDS, TOP, parser_of
from hilt.surfaces.cli.help_text import is_listed
from hilt.surfaces.cli.parsing import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options

Completer = Callable[..., Iterable[str]]

_SHELLS = ("bash", "zsh", "fish")
_NAME = re.compile(r"[A-Za-z0-9_:.-]+")  # names come from untrusted files and servers


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help="The shell")
    parser.examples = [
        ('eval "$(hilt completion bash)"', "For this bash; put it in ~/.bashrc for every bash"),
        ("hilt completion zsh > ~/.zfunc/_hilt", "For zsh, with ~/.zfunc in fpath before compinit"),
        ("hilt completion fish > ~/.config/fish/completions/hilt.fish", "For fish"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    sys.stdout.write(shellcode(["hilt"], shell=arguments.shell))
    return 0


def complete() -> None:
    """Answer the script of a shell, and end the process."""
    _Finder()(_top([]), always_complete_options=False)


class _Finder(CompletionFinder):
    """Completes with the parser of the command on the line: only its module is imported."""

    def _get_completions(self, comp_words: list[str], *where: object) -> list[str]:
        self._parser, words = _reached(comp_words[1:])
        completions: list[str] = super()._get_completions([comp_words[0], *words], *where)  # type: ignore[no-untyped-call]
        return completions


def _reached(words: list[str]) -> tuple[Parser, list[str]]:
    """Return the parser of the command that the words select, and the other words."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index].removeprefix("--") in OPTIONS else 1
    if index < len(words) and words[index] in COMMANDS:
        with suppress(Usage):
            parser, rest = _prepared(parser_of(words[index]), words).reached(words[index + 1 :])
            return parser, [*words[:index], *rest]
    return _top(words), words


def _top(words: list[str]) -> Parser:
    parser = Parser("hilt", "")
    for term, summary in TOP.items():
        names = [name.split()[0] for name in term.split(", ") if name not in ("-h", "--help")]
        if "FORMAT" in term:
            parser.add_argument(*names, choices=("openai", "anthropic", "mcp"), help=summary)
        elif names:
            parser.add_argument(*names, action="store_true", help=summary)
    parser.commands = {name: Parser(name, command.summary) for name, command in COMMANDS.items()}
    return _prepared(parser, words)


def _prepared(parser: Parser, words: list[str]) -> Parser:
    """Add the global options and the completers of all values to a parser and those of its subcommands."""
    for name, (value, summary) in OPTIONS.items():
        parser.add_argument(f"--{name}", metavar=value, choices=choices(name) or None, help=summary)
    commands = {name: below.summary for name, below in parser.commands.items() if not below.hidden}
    if commands and not parser.arguments:
        parser.add_argument("command", nargs="?")
    for action in (*parser.flags, *parser.arguments):
        if not is_listed(action) and action.option_strings:
            action.help = argparse.SUPPRESS
        if not action.choices:
            action.completer = _completer(str(action.metavar), words)  # type: ignore[attr-defined]
    if commands:
        first = parser.arguments[0]
        first.completer = _either(commands, first.completer)  # type: ignore[attr-defined]
    for below in parser.commands.values():
        _prepared(below, words)
    return parser


def _completer(kind: str, words: list[str]) -> Completer:
    """Return what completes a value, by its placeholder in the help."""
    if kind in ("TOOL", "A,B"):
        return lambda **_: _tools(words)
    if kind == "HOST":
        from hilt.desk.mcp_hosts import HOSTS

        return lambda **_: HOSTS
    return {"PATH": FilesCompleter(), "DIR": DirectoriesCompleter()}.get(kind, lambda **_: ())


def _either(commands: Mapping[str, str], other: Completer) -> Completer:
    return lambda **how: {**dict.fromkeys(other(**how), ""), **commands}


def _tools(words: list[str]) -> Iterable[str]:
    """Yield the names of the tools that a shell would not expand."""
    from hilt.surfaces.opening import open_runtime

    with suppress(Usage, ToolError), open_runtime(split(words)[0]) as runtime:
        yield from filter(
            _NAME.fullmatch, (tool.name for tool in runtime.parts.authority.listed_tools(runtime.session))
        )
