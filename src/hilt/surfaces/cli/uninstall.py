"""`hilt uninstall`: what hilt leaves on this machine, and its removal: entries in MCP hosts, and the state."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from hilt import places
from hilt.errors import ToolError
from hilt.installer import remove_command
from hilt.output.terminal import inert
from hilt.state import inventory
from hilt.surfaces import resident
from hilt.surfaces.cli.mcp_hosts import HOSTS
from hilt.surfaces.cli.mcp_install import own_entries, scopes_of
from hilt.surfaces.cli.person import answered, refuse_tools
from hilt.surfaces.cli.settings_file import SettingsChange
from hilt.surfaces.cli.state import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.surfaces.cli.parsing import Options, Parser
    from hilt.surfaces.cli.prompt import Terminal


class Traces(NamedTuple):
    """What hilt has left: changes that remove its entries from MCP hosts, files to edit by hand, and its state."""

    changes: list[SettingsChange]
    by_hand: list[str]
    state: str
    names: list[str]  # in the state directory
    others: list[str]  # names there that are not of hilt
    bytes: int


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Without --purge, only shows what there is. Entries are found in the user's settings of all MCP
hosts and in the settings of this project; only those that start hilt are removed. The state is undo data, records,
approvals and transcripts. Your settings, tools, skills and memory stay, and so do files of projects."""
    parser.add_argument("--purge", action="store_true", help="Remove the entries in MCP hosts, and the state")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="Show what would be removed")
    how.add_argument("--yes", action="store_true", help="Remove it without prompts")
    parser.examples = [
        ("hilt uninstall", "Show what hilt has left on this machine"),
        ("hilt uninstall --purge", "Remove it, with a prompt for each file"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    workspace = os.path.abspath(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))
    traces = _found(workspace)
    if not arguments.purge or arguments.dry_run:
        sys.stdout.write("".join(change.shown() for change in traces.changes))
        sys.stdout.write(f"state: {_place(traces)}\n")
        if not arguments.purge:
            sys.stdout.write(f"To remove these entries and the state: {places.command('uninstall', '--purge')}\n")
    elif arguments.yes:
        refuse_tools("uninstall")
        for change in traces.changes:
            sys.stdout.write(change.shown())
            change.write(0o600)
        _delete(traces, sys.stdout.write)
    else:
        answered("uninstall", lambda screen: _ask(screen, traces))
    sys.stdout.write("".join(f"{line}\n" for line in _left(traces)))
    return 0


def _found(workspace: str) -> Traces:
    changes: dict[str, SettingsChange] = {}  # by path: the project may be the home directory
    by_hand = []
    for host in HOSTS.values():
        for scope in scopes_of(host):
            try:
                changes.update((change.real, change) for change in own_entries(host, scope, workspace))
            except ToolError as error:
                by_hand.append(f"{error.message} {error.suggestion}")
    state = os.path.realpath(places.state_dir(os.environ))
    names = inventory.names_of(state)
    others = names.pop(inventory.OTHER.name, [])
    size = sum(size.bytes for size in inventory.measure(state) if size.part is not inventory.OTHER)
    return Traces([*changes.values()], by_hand, state, [name for part in names.values() for name in part], others, size)


def _ask(screen: Terminal, traces: Traces) -> int:
    for change in traces.changes:
        change.confirm(screen, 0o600)
    question = f"{_place(traces)}. Undo data, records and approvals are lost. Delete it?"
    if traces.others or (traces.names and screen.agrees(question)):
        _delete(traces, screen.write)
    return 0


def _place(traces: Traces) -> str:
    return f"{inert(traces.state)}, {readable(traces.bytes)}"


def _delete(traces: Traces, say: Callable[[str], object]) -> None:
    """Delete the state, unless the folder also has files of others: a name such as backups may be theirs."""
    if traces.others:
        say(
            f"{inert(traces.state)} also has files that are not of hilt, and is left as it is: "
            f"{inert(', '.join(traces.others))}. Of hilt are: {inert(', '.join(traces.names))}.\n"
        )
        return
    resident.stop()
    inventory.require_unused(traces.state)
    shutil.rmtree(traces.state, onerror=_retry)
    say("The state is deleted.\n")


def _retry(remove: Callable[[str], object], path: str, error: object) -> None:
    """Remove what a command has made read-only in its private folder; nothing is left of a folder that is gone."""
    with suppress(FileNotFoundError):
        for folder in (os.path.dirname(path), path):
            if os.path.isdir(folder) and not os.path.islink(folder):
                os.chmod(folder, 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _left(traces: Traces) -> list[str]:
    """Return what remains for the user to remove."""
    lines = [*map(inert, traces.by_hand)]
    worktrees = f"{traces.state.rstrip('/')}-worktrees"
    if os.path.isdir(worktrees):
        lines.append(f"Worktrees of agents, with changes that were not taken over: {inert(worktrees)}")
    config = places.config_dir(os.environ)
    if os.path.isdir(config):
        lines.append(f"Your settings, tools, skills and memory: {inert(config)}")
    lines.append("In projects: the folder .hilt, and entries that you added with hilt mcp install --project")
    lines.append(f"The program: {remove_command()}")
    return lines
