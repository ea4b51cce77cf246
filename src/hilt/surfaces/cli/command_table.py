"""The table of commands, grouped as in the help, and the dispatch to one of them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

from hilt.surfaces import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.surfaces.cli.parsing import Options, Parser


class CliCommand(NamedTuple):
    """A command: its summary, and the module and the function that declare its arguments and run it."""

    summary: str
    module: str = ""  # by default the module of the same name in this folder
    builder: str = "build"


GROUPS: dict[str, dict[str, CliCommand]] = {
    "Run agents": {
        "run": CliCommand("Give a model a task, and let it work with the tools"),
        "chat": CliCommand("Talk with a model that works with the tools"),
        "agents": CliCommand("List, show, write to and cancel agents in the background"),
        "worker": CliCommand("Run agents in the background, on one machine or many"),
        "sessions": CliCommand("List, show and end sessions of agents"),
    },
    "Call tools": {
        "call": CliCommand("Call a tool from the command line"),
        "tools": CliCommand("List and explain tools, and manage your own"),
        "skills": CliCommand("List, show, write, check and install skills"),
        "undo": CliCommand("List file changes, and undo them"),
        "tasks": CliCommand("List, add and update the tasks of a folder"),
        "explain": CliCommand("Show how a call would be decided, without running it"),
    },
    "Serve agents": {
        "stdio": CliCommand("Serve requests as JSON lines until the input ends", "hilt.surfaces.stdio"),
        "mcp": CliCommand("Serve MCP, and connect MCP hosts and servers"),
        "serve": CliCommand("Serve an HTTP API, its events and a console"),
        "resident": CliCommand("Manage the background process that speeds up calls", "hilt.surfaces.resident"),
    },
    "Permissions": {
        "approve": CliCommand("Review calls that wait for approval"),
        "deny": CliCommand("Deny a call that waits for approval", "hilt.surfaces.cli.approve", "build_deny"),
        "grants": CliCommand("List and revoke standing approvals"),
        "trust": CliCommand("Trust project files that can run code"),
    },
    "Records": {
        "log": CliCommand("Show recent calls, and follow new ones"),
        "audit": CliCommand("List recorded calls, and verify the audit trail"),
        "stats": CliCommand("Show calls, failures and durations by tool"),
    },
    "Setup": {
        "init": CliCommand("Set up hilt for a project and the MCP hosts on this machine"),
        "config": CliCommand("Show settings and their sources, and check them"),
        "state": CliCommand("Show, back up, restore and clean what hilt has stored"),
        "doctor": CliCommand("Check the installation, and show how to fix it"),
        "uninstall": CliCommand("Show what hilt leaves on this machine, and remove it"),
        "completion": CliCommand("Print a shell completion script"),
        "man": CliCommand("Print the manual page"),
    },
}
COMMANDS = {name: command for commands in GROUPS.values() for name, command in commands.items()}
# options of `hilt` itself, which no command takes
TOP = {
    "--schema [FORMAT]": "Print the tool definitions as JSON: openai (the default), anthropic or mcp",
    "-V, --version": "Print the version",
    "-h, --help": "Show this help",
}


def parser_of(name: str) -> Parser:
    """Return the parser of a command, importing only its module."""
    from hilt.surfaces.cli.parsing import Parser

    command = COMMANDS[name]
    parser = Parser(f"hilt {name}", command.summary)
    getattr(import_module(command.module or f"hilt.surfaces.cli.{name}"), command.builder)(parser)
    return parser


def run(options: Options, words: list[str]) -> int:
    """Run the command named by the first word."""
    name, *rest = words
    if name == "help" and rest:
        name, *rest = *rest, "--help"
    if name in ("--help", "-h", "help"):
        from hilt.surfaces.cli import help_text

        sys.stdout.write(help_text.overview())
        return 0
    if name in ("--version", "-V", "version"):
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
        arguments = parser.read(rest)
        assert parser.run is not None, "read rejects a command that only has subcommands"  # noqa: S101
        return parser.run(options, arguments)
    except Usage as error:
        if error.command == "hilt":
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
        names = ["--help", "--version", "--schema", *(f"--{option}" for option in OPTIONS)]
        return Usage(f"unknown option {name!r}{suggestion(name, names)}")
    return Usage(f"unknown command {name!r}{suggestion(name, COMMANDS)}")
