"""The table of commands, grouped as in the help, and the parser of each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hilt.surfaces.cli.parsing import Parser


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
        "rules": CliCommand("List, add and remove rules on calls"),
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
