"""The commands there are, in the groups of the help, and the way from words to one of them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

from hilt.surfaces.cli import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.surfaces.cli.parsing import Options, Parser


class CliCommand(NamedTuple):
    """What a command does, in a few words, and the module that has its parser and runs it."""

    summary: str
    module: str = ""  # when it is not that of its name in this folder


GROUPS: dict[str, dict[str, CliCommand]] = {
    "Call tools": {
        "call": CliCommand("Call a tool, with its arguments as words"),
        "tools": CliCommand("List and explain tools, and manage your own"),
        "undo": CliCommand("List changes of files, and take them back"),
        "explain": CliCommand("Show the decision on a call without running it"),
    },
    "Serve agents": {
        "stdio": CliCommand("Answer JSON lines until the input ends", "hilt.surfaces.stdio"),
        "mcp": CliCommand("Serve MCP, and connect MCP hosts and servers", "hilt.surfaces.mcp.command"),
        "resident": CliCommand("Start and stop the process that speeds up calls", "hilt.surfaces.resident"),
        "session": CliCommand("End a session"),
    },
    "Permissions": {
        "approve": CliCommand("Show and answer calls that wait for approval"),
        "deny": CliCommand("Deny a call that waits for approval"),
        "grants": CliCommand("List and revoke approvals that are kept"),
        "trust": CliCommand("Trust files of a project that can run code"),
    },
    "Records": {
        "log": CliCommand("Show the latest calls, and follow new ones"),
        "audit": CliCommand("List recorded calls, and verify the record"),
        "stats": CliCommand("Count calls, failures and durations by tool"),
    },
    "Setup": {
        "config": CliCommand("Show settings and their sources, and check them"),
        "doctor": CliCommand("Check what is installed, and how to mend it"),
        "completion": CliCommand("Print the completion script of a shell"),
        "man": CliCommand("Print the manual page"),
    },
}
COMMANDS = {name: command for commands in GROUPS.values() for name, command in commands.items()}
# options of `hilt` itself, which no command takes
TOP = {
    "--schema [FORMAT]": "Print the tools as JSON for a model: openai (the default), anthropic or mcp",
    "-V, --version": "Print the version",
    "-h, --help": "Show this help; hilt COMMAND --help shows that of a command",
}


def parser_of(name: str) -> Parser:
    """Return the parser of a command; only its module is imported."""
    from hilt.surfaces.cli.parsing import Parser

    command = COMMANDS[name]
    parser = Parser(f"hilt {name}", command.summary)
    import_module(command.module or f"hilt.surfaces.cli.{name}").build(parser)
    return parser


def run(options: Options, words: list[str]) -> int:
    """Run the command that the words name."""
    name, *rest = words
    if name == "help" and rest:
        name, *rest = *rest, "--help"
    if name in ("--help", "-h", "help"):
        from hilt.surfaces.cli import help_text

        sys.stdout.write(help_text.overview())
        return 0
    if name in ("--version", "-V"):
        from hilt import __version__

        sys.stdout.write(f"hilt {__version__}\n")
        return 0
    if name == "--schema" or name.startswith("--schema="):
        from hilt.surfaces.cli import tools

        return tools.schema(options, [*name.split("=", 1)[1:], *rest])
    if name not in COMMANDS:
        raise _unknown(name)
    parser, rest = parser_of(name).reached(rest)
    before = rest[: rest.index("--")] if "--" in rest else rest
    if "--help" in before or "-h" in before:
        return _help(options, parser, [word for word in before if not word.startswith("-")])
    try:
        given = parser.read(rest)
        assert parser.run is not None, "read refuses a command that only has others below it"  # noqa: S101
        return parser.run(options, given)
    except Usage as error:
        error.command = parser.prog
        raise


def _help(options: Options, parser: Parser, words: list[str]) -> int:
    if parser.prog == "hilt call" and words:
        from hilt.surfaces.cli import tools

        return tools.show(options, words[0])
    from hilt.surfaces.cli import help_text

    sys.stdout.write(help_text.of(parser))
    return 0


def _unknown(name: str) -> Usage:
    from hilt.surfaces.cli import OPTIONS
    from hilt.surfaces.cli.parsing import suggestion

    if name.startswith("-"):
        known = ["--help", "--version", "--schema", *(f"--{option}" for option in OPTIONS)]
        return Usage(f"there is no option {name!r}{suggestion(name, known)}")
    return Usage(f"there is no command {name!r}{suggestion(name, COMMANDS)}")
