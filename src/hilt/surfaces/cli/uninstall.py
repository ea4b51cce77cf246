"""`hilt uninstall`: what hilt leaves on this machine, and its removal: entries in MCP hosts, and the state."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from hilt import places
from hilt.desk import installed_files, storage
from hilt.desk.mcp_entries import without_own_entries
from hilt.desk.mcp_hosts import HOSTS, host_files
from hilt.desk.personal_files import SettingsChange
from hilt.desk.storage import StateFolder
from hilt.errors import ToolError
from hilt.formats.numbers import file_size
from hilt.installer import remove_command
from hilt.output.advice import next_step
from hilt.output.terminal import inert
from hilt.surfaces import resident
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import change_text, confirm, refuse_tools, run_for_person
from hilt.surfaces.terminal_prompt import Terminal


class Traces(NamedTuple):
    """What hilt leaves behind: changes that remove its entries from MCP hosts, files to edit by hand, and its state."""

    changes: list[SettingsChange]
    by_hand: list[str]
    state: StateFolder
    replaced: list[StateFolder]


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Without --purge, nothing is removed. Looks for entries in the user's settings of all MCP
hosts and in the settings of all projects where it was installed; only entries that start hilt are removed, and files
that hilt created and nobody changed. The state is undo data, records, approvals and transcripts. Your settings, tools,
skills and memory stay, and so do other files of projects."""
    parser.add_argument("--purge", action="store_true", help="Remove the entries in MCP hosts, and the state")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="Show what would be removed")
    how.add_argument("--yes", action="store_true", help="Remove it without prompts")
    parser.examples = [
        ("hilt uninstall", "Show what hilt leaves on this machine"),
        ("hilt uninstall --purge", "Remove it, with a prompt for each file"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    workspace = os.path.abspath(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))
    traces = _find_traces(workspace)
    if not arguments.purge or arguments.dry_run:
        sys.stdout.write("".join(change_text(change) for change in traces.changes))
        sys.stdout.write(f"state: {_described(traces.state)}\n")
        sys.stdout.write("".join(f"state before a restore: {_described(replaced)}\n" for replaced in traces.replaced))
        if not arguments.purge:
            sys.stdout.write(f"To remove these entries and the state: {places.command('uninstall', '--purge')}\n")
    elif arguments.yes:
        refuse_tools("uninstall --purge")
        for change in traces.changes:
            sys.stdout.write(change_text(change))
            change.write(0o600)
        for state in (traces.state, *traces.replaced):
            _delete(state, sys.stdout.write)
    else:
        run_for_person("uninstall --purge", lambda screen: _ask(screen, traces))
    sys.stdout.write("".join(f"{line}\n" for line in _remaining(traces)))
    return 0


def _find_traces(workspace: str) -> Traces:
    changes: dict[str, SettingsChange] = {}  # by path: the project may be the home directory
    by_hand = []
    workspaces = dict.fromkeys((workspace, *(file.workspace for file in installed_files.installed())))
    for file in (file for host in HOSTS.values() for each in workspaces for file in host_files(host, each).values()):
        try:
            changes.update((change.real, change) for change in without_own_entries(file))
        except ToolError as error:
            by_hand.append(f"{error.message} {next_step(error)}")
    changes.update((change.real, change) for change in installed_files.removals())
    by_hand = list(dict.fromkeys(by_hand))
    return Traces([*changes.values()], by_hand, storage.state_folder(), storage.replaced_folders())


def _ask(screen: Terminal, traces: Traces) -> int:
    for change in traces.changes:
        confirm(screen, change, lambda change: change.write(0o600))
    for state in (traces.state, *traces.replaced):
        what = "Undo data, records and approvals are lost" if state is traces.state else "A restore replaced it"
        if state.others or (state.names and screen.agrees(f"{_described(state)}. {what}. Delete it?")):
            _delete(state, screen.write)
    return 0


def _delete(state: StateFolder, say: Callable[[str], object]) -> None:
    """Delete a state directory, unless it also contains other files: a name such as backups may be theirs."""
    if state.others:
        say(
            f"{inert(state.path)} was not deleted, because it contains files that do not belong to hilt: "
            f"{inert(', '.join(state.others))}. The files of hilt: {inert(', '.join(state.names))}.\n"
        )
        return
    resident.stop()
    storage.delete(state)
    say(f"Deleted {inert(state.path)}.\n")


def _described(folder: StateFolder) -> str:
    return f"{inert(folder.path)}, {file_size(folder.bytes)}"


def _remaining(traces: Traces) -> list[str]:
    """Return what remains for the user to remove."""
    lines = [*map(inert, traces.by_hand)]
    worktrees = places.worktrees_dir(traces.state.path)
    if os.path.isdir(worktrees):
        lines.append(f"Worktrees of agents, with changes that were not applied: {inert(worktrees)}")
    config = places.config_dir(os.environ)
    if os.path.isdir(config):
        lines.append(f"Your settings, tools, skills and memory: {inert(config)}")
    lines.append("In projects: what you added to the folder .hilt")
    lines.append(f"The program: {remove_command()}")
    return lines
