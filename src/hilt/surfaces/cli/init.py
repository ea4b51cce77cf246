"""`hilt init`: set up a project. One screen lists every file before anything is written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from hilt import places
from hilt.desk import installed_files, trust
from hilt.desk.diagnosis import sandbox
from hilt.desk.mcp_entries import other_folder
from hilt.desk.mcp_hosts import HOSTS, Host
from hilt.desk.personal_files import SettingsChange, read_bytes
from hilt.errors import ToolError
from hilt.formats.invisible import one_line
from hilt.loaders import ProjectFile, paths_of, project_file
from hilt.output.terminal import inert
from hilt.places import is_below
from hilt.surfaces.cli.doctor import lines_of
from hilt.surfaces.cli.layout import wrapped
from hilt.surfaces.cli.mcp_install import mode_of, path_note, proposal
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import change_text, refuse_tools, run_for_person
from hilt.surfaces.cli.trust import trust_file
from hilt.surfaces.cli.waiting import Waiting
from hilt.surfaces.opening import open_runtime
from hilt.surfaces.terminal_prompt import Terminal

RULES, _OTHER_RULES = paths_of("rules")

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


class Offer(NamedTuple):
    """One line of the screen: what would be written for a host, or the rules."""

    title: str
    changes: Sequence[SettingsChange]
    mode: int
    note: str = ""
    step: str = ""  # what remains to be done in the host
    moves: bool = False  # from another folder, so only if the person names it


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Looks at the project, checks the sandbox, and lists on one screen what it can write: an entry
for hilt in each MCP host found on this machine, and rules for the project in .hilt/permissions.yaml. Writes what you
choose, and prints how to take it back. Existing files keep their other content, and existing rules are not changed."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--print", action="store_true", help="Show the changes without writing them")
    how.add_argument("--yes", action="store_true", help="Write all changes without prompts")
    parser.examples = [
        ("hilt init", "Set up the current folder"),
        ("hilt init --print", "Show what that would change"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    if arguments.print:
        return _set_up(options, sys.stdout.write, None)
    if arguments.yes:
        refuse_tools("init")
        return _set_up(options, sys.stdout.write, lambda items: [item for item in items if not item.moves])

    def ask(screen: Terminal) -> int:
        status = _set_up(options, screen.write, lambda items: _chosen(screen, items))
        if not status:
            _offer_trust(screen, os.path.realpath(_workspace(options)))
        return status

    return run_for_person("init", ask)


def _set_up(options: Options, say: Callable[[str], object], choose: Callable[[list[Offer]], list[Offer]] | None) -> int:
    """Show what can be written, and write what is chosen; without `choose`, show every change."""
    with Waiting("looking at the project and the sandbox"), open_runtime(options) as runtime:
        root = runtime.parts.root
        project = runtime.call("detect_project").data or {}
        findings = sandbox(runtime.parts.surroundings)
    say(f"{one_line(root)}: {_summary(project)}\n")
    say("".join(f"{line}\n" for finding in findings for line in lines_of(finding, "hilt doctor --json")) + "\n")
    notes: list[str] = []
    items = [*_hosts(options, notes), *_rules(root, notes)]
    say("".join(f"{note}\n" for note in notes))
    if choose is None:
        say("".join(f"{change_text(change)}\n" for item in items for change in item.changes))
        return 0
    written = choose(items) if items else []
    for item in written:
        for change in item.changes:
            say(change_text(change))
            file = project_file(change.real)
            needs_trust = file is not None and (change.before is None or _is_trusted(file))
            installed_files.write(change, item.mode, root)
            if file is not None and needs_trust:
                _trust(file, change)
    say(_closing(written, items, root))
    return 0


def _workspace(options: Options) -> str:
    return options.get("workspace") or places.workspace_dir(os.environ, os.getcwd())


def _hosts(options: Options, notes: list[str]) -> Iterator[Offer]:
    """Yield what can be written for each host on this machine; `notes` gets a line for each other one."""
    hosts = [host for host in HOSTS.values() if host.is_installed(os.environ)]
    if not hosts:
        notes.append(f"No MCP host was found. To list the supported hosts: {places.command('mcp', 'install')}")
    for host in hosts:
        try:
            file, changes = proposal(host, options)
        except ToolError as error:  # a hostile project could link to the user's own settings
            if error.code != "denied":
                raise
            notes.append(f"{host.title} was skipped: {error.message}")
            continue
        if not changes:
            notes.append(f"{host.title} already has an entry for hilt.")
            continue
        note, elsewhere = "", other_folder(file)
        if file.folder is not None and file.scope == "user":
            note = "one setting for all projects; it would name this folder"
            note += f", no longer {one_line(elsewhere)}" if elsewhere else ""
        yield Offer(host.title, changes, mode_of(file), note, _step(host), moves=bool(elsewhere))


def _step(host: Host) -> str:
    return f"{host.title}: {host.step.replace('NAME', 'hilt')}"


def _rules(root: str, notes: list[str]) -> Iterator[Offer]:
    existing = next((name for name in (RULES, _OTHER_RULES) if os.path.lexists(os.path.join(root, name))), None)
    if existing is not None:
        notes.append(f"{existing} already exists; it was not changed.")
        return
    path = os.path.join(root, RULES)
    try:
        change = SettingsChange(path, path, read_bytes(path), _PROPOSED.encode())
    except ToolError as error:
        notes.append(f"{RULES} was skipped: {error.message}")
        return
    yield Offer("rules", [change], 0o666, "ask before git push")


def _chosen(screen: Terminal, items: list[Offer]) -> list[Offer]:
    """Show one screen of what can be written, and return what the person chooses."""
    width = max(len(item.title) for item in items)
    for number, item in enumerate(items, 1):
        places_ = ", ".join(_short(change.place) for change in item.changes)
        screen.write(f"{number:>3}  {item.title:<{width}}  {places_}\n")
        if item.note:
            screen.write(f"{'':{width + 7}}{item.note}\n")
    while True:
        screen.write("\nWrite which? all, none, numbers such as 1,3, or show [all] > ")
        try:
            answer = screen.read()
        except KeyboardInterrupt:
            screen.write("Nothing was written.\n")
            raise
        if not answer:
            screen.write("\n")
        words = answer.casefold().replace(",", " ").split()
        if not answer or words in (["none"], ["n"], ["no"]):
            return []
        if words in ([], ["all"], ["a"], ["yes"], ["y"]):
            return items
        if words in (["show"], ["s"]):
            for item in items:
                for change in item.changes:
                    screen.write(f"{change.place}\n" + screen.page().diff(change.difference, whole=True))
            continue
        chosen = [item for number, item in enumerate(items, 1) if str(number) in words]
        if len(chosen) == len(set(words)):
            return chosen
        screen.write(f"{one_line(answer.strip())} is none of these.\n")


def _is_trusted(file: ProjectFile) -> bool:
    return trust.review(places.state_dir(os.environ), file).is_trusted


def _trust(file: ProjectFile, change: SettingsChange) -> None:
    """Trust what the person has just agreed to, if the file contains nothing else."""
    state = places.state_dir(os.environ)
    review = trust.review(state, file)
    if review.content == change.after:
        trust.trust(state, review)


def _offer_trust(screen: Terminal, root: str) -> None:
    """Let the person review what is in this project and has no effect until it is trusted."""
    state = places.state_dir(os.environ)
    files = [file for file, known in trust.known(state, root).items() if known.state in ("untrusted", "changed")]
    if not files:
        return
    screen.write("\nThis project has files that have no effect until you trust them:\n")
    screen.write("".join(f"  {one_line(file.path)}\n" for file in files))
    if screen.agrees("Review them now?"):
        for file in files:
            trust_file(screen, file)
    else:
        screen.write(f"Later: {places.command('trust', '.')}\n")


def _closing(written: Sequence[Offer], items: Sequence[Offer], root: str) -> str:
    """Return what was written, what remains to be done, and how to take it back."""
    if not written:
        return "Nothing was written.\n" if items else f"Try it: {_first_step('')}\n"
    lines = ["Wrote:", *(f"  {_short(change.place)}" for item in written for change in item.changes)]
    lines += [wrapped(item.step, 2) for item in written if item.step]
    lines.append(f"To take it back: {places.command('uninstall')}")
    hosts = [item.title for item in written if item.step]
    lines.append(f"Try it: {_first_step(hosts[0] if hosts else '')}")
    in_project = (change for item in written if item.step for change in item.changes if is_below(change.real, root))
    if places.command() != "hilt" and any(in_project):
        lines.append(path_note())
    return "\n".join(lines) + "\n"


def _short(place: str) -> str:
    """Return a path with the home directory as ~, and relative below the working directory."""
    here, home = os.getcwd() + "/", os.path.expanduser("~") + "/"
    return place.removeprefix(here) if place.startswith(here) else place.replace(home, "~/")


def _summary(project: dict[str, Any]) -> str:
    languages = ", ".join(project.get("languages", ())) or "no project files found"
    tests = project.get("test_command")
    return inert(languages + (f"; tests: {tests}" if tests else ""))


def _first_step(connected: str) -> str:
    if connected:
        return f"start {connected} in this folder and ask: Which hilt tools do you have?"
    return places.command("call", "list_dir")
