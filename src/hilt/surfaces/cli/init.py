"""`hilt init`: set up a project. Every file is shown before it is written, and nothing else is trusted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from hilt import places
from hilt.desk import trust
from hilt.desk.diagnosis import sandbox
from hilt.desk.mcp_hosts import HOSTS
from hilt.desk.personal_files import SettingsChange, read_bytes
from hilt.errors import ToolError
from hilt.formats.invisible import one_line
from hilt.loaders import ProjectFile, paths_of
from hilt.output.terminal import inert
from hilt.surfaces.cli.doctor import lines_of
from hilt.surfaces.cli.mcp_install import closing_lines, mode_of, proposal
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import change_text, confirm, refuse_tools, run_for_person
from hilt.surfaces.opening import open_runtime
from hilt.surfaces.terminal_prompt import Terminal

RULES, _OTHER_RULES = paths_of("rules")

# writes one change of a file, with the mode of a new one; returns whether it was written
Writer = Callable[[SettingsChange, int], bool]

_PROPOSED = """\
# What agents may do in this folder, beside hilt's defaults: read, change
# files (hilt undo takes it back), and run commands in the sandbox, except
# dangerous ones. To be asked about all but reads, add: default: ask
# To see the decision on a command: hilt explain 'git push'
permissions:
  ask:
    # what leaves this machine
    - Bash(git push:*)
  deny:
    # files that no agent may read, for example:
    # - Read(path:secrets/**)
"""


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Looks at the project, checks the sandbox, adds hilt to the MCP hosts found on this machine, and
proposes rules for the project in .hilt/permissions.yaml. Shows each change and prompts before writing it. Existing
files keep their other content, and existing rules are not changed."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--print", action="store_true", help="Show the changes without writing them")
    how.add_argument("--yes", action="store_true", help="Write all changes without prompts")
    parser.examples = [
        ("hilt init", "Set up the current folder"),
        ("hilt init --print", "Show what that would change"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    if arguments.print:
        return _set_up(options, sys.stdout.write, _show)
    if arguments.yes:
        refuse_tools("init")
        return _set_up(options, sys.stdout.write, _show_and_write)

    def ask(screen: Terminal) -> int:
        return _set_up(options, screen.write, partial(confirm, screen))

    return run_for_person("init", ask)


def _show(change: SettingsChange, mode: int) -> bool:
    sys.stdout.write(change_text(change))
    return False


def _show_and_write(change: SettingsChange, mode: int) -> bool:
    sys.stdout.write(change_text(change))
    change.write(mode)
    return True


def _set_up(options: Options, say: Callable[[str], object], write: Writer) -> int:
    with open_runtime(options) as runtime:
        root = runtime.parts.root
        project = runtime.call("detect_project").data or {}
        findings = sandbox(runtime.parts.surroundings)
    say(f"{one_line(root)}: {_summary(project)}\n")
    for finding in findings:
        say("".join(f"{line}\n" for line in lines_of(finding, "hilt doctor --json")))
    say("\n")
    hosts = [host for host in HOSTS.values() if host.is_installed(os.environ)]
    connected = ""
    for host in hosts:
        try:
            file, changes = proposal(host, options)
        except ToolError as error:  # a hostile project could link to the user's own settings
            if error.code != "denied":
                raise
            say(f"{host.title} was skipped: {error.message}\n\n")
            continue
        if not changes:
            say(f"{host.title} already has an entry for hilt.\n")
            connected = host.title
        elif all(write(change, mode_of(file)) for change in changes):
            say(closing_lines(host))
            connected = host.title
        say("\n")
    if not hosts:
        say(f"No MCP host was found. To list the supported hosts: {places.command('mcp', 'install')}\n\n")
    _propose_rules(root, say, write)
    say(f"Try it: {_first_step(connected)}\n")
    return 0


def _propose_rules(root: str, say: Callable[[str], object], write: Writer) -> None:
    existing = next((name for name in (RULES, _OTHER_RULES) if os.path.lexists(os.path.join(root, name))), None)
    if existing is not None:
        say(f"{existing} already exists; it was not changed.\n\n")
        return
    path = os.path.join(root, RULES)
    try:
        change = SettingsChange(path, path, read_bytes(path), _PROPOSED.encode())
    except ToolError as error:
        say(f"{RULES} was skipped: {error.message}\n\n")
        return
    if write(change, 0o666):
        state = places.state_dir(os.environ)
        review = trust.review(state, ProjectFile("rules", root, RULES))
        if review.content == change.after:  # what the person has just seen
            trust.trust(state, review)
    say("\n")


def _summary(project: dict[str, Any]) -> str:
    languages = ", ".join(project.get("languages", ())) or "no project files found"
    tests = project.get("test_command")
    return inert(languages + (f"; tests: {tests}" if tests else ""))


def _first_step(connected: str) -> str:
    if connected:
        return f"start {connected} in this folder and ask: Which hilt tools do you have?"
    return places.command("call", "list_dir")
