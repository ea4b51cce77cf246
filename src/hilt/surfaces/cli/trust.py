"""`hilt trust`: project files that can run code, and the trust in their exact content."""

from __future__ import annotations

import os
import sys
from functools import partial

from hilt import places
from hilt.desk import trust as desk
from hilt.errors import ToolError
from hilt.formats.invisible import decoded, one_line
from hilt.loaders import ProjectFile
from hilt.surfaces.cli.layout import local_time, print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import for_person
from hilt.surfaces.opening import open_runtime
from hilt.surfaces.terminal_prompt import Terminal

_STATES = {
    "trusted": "trusted {since}",
    "changed": "trusted {since}, changed since: no longer trusted",
    "gone": "trusted {since}, file missing",
    "untrusted": "not trusted",
}


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _run
    parser.details = """Settings, rules, hooks, tools, skills and commands of a project have no effect until a person
has seen and trusted their exact content. A folder means all such files in it. Without PATH, the files are listed.
Requires a person at a terminal."""
    parser.add_argument("path", metavar="PATH", nargs="?", help="A file, a skill, or the folder of a project")
    listing = parser.command("list", "List trusted files, and files of this project that need trust", _list)
    for below in (parser, listing):
        below.add_argument("--json", action="store_true", help="Print the list as JSON")
    revoking = parser.command("revoke", "Revoke the trust in a file", _revoke)
    revoking.add_argument("path", metavar="PATH", help="The file")
    listing.examples = [("hilt trust list --json", "List the files as JSON")]
    parser.examples = [
        ("hilt trust", "List trusted and untrusted files"),
        ("hilt trust .", "Review each file of this project"),
        ("hilt trust .hilt/skills/release", "Review the files of a skill"),
        ("hilt trust revoke .hilt/hooks.yaml", "Revoke the trust in a file"),
    ]


def _run(options: Options, arguments: Namespace) -> int:
    if arguments.path is None:
        return _list(options, arguments)
    return _trust(options, arguments)


@for_person("trust")
def _list(_: Terminal, options: Options, arguments: Namespace) -> int:
    folder = options.get("workspace") or places.workspace_dir(os.environ, ".")
    files = list(desk.known(places.state_dir(os.environ), folder).values())
    if arguments.json:
        return print_json(files)
    for file in files:
        state = _STATES[file.state].format(since=local_time(file.since or 0))
        sys.stdout.write(f"{one_line(file.path)}  {file.kind}, {state}\n")
    if not files:
        sys.stdout.write("No file is trusted, and no file of this project needs trust.\n")
    return 0


@for_person("trust")
def _revoke(_: Terminal, options: Options, arguments: Namespace) -> int:
    desk.distrust_path(places.state_dir(os.environ), arguments.path)
    sys.stdout.write(f"No longer trusted: {one_line(arguments.path)}\n")
    return 0


@for_person("trust")
def _trust(screen: Terminal, options: Options, arguments: Namespace) -> int:
    files = desk.files_at(arguments.path, partial(open_runtime, options))
    answers = [_trust_one_of(screen, file, len(files)) for file in files]
    answers += [_trust_without(screen, file) for file in desk.removed(places.state_dir(os.environ), arguments.path)]
    return 0 if all(answers) else 1


def _trust_one_of(screen: Terminal, file: ProjectFile, count: int) -> bool:
    """Review a file; of several, one that cannot be read is reported, and the others are still reviewed."""
    try:
        return trust_file(screen, file)
    except ToolError as error:
        if count == 1:
            raise
        screen.write(f"{error.message}\nNot trusted.\n")
        return False


def _trust_without(screen: Terminal, file: ProjectFile) -> bool:
    screen.write(f"{one_line(file.full)} was removed since it was trusted.\n")
    if agreed := screen.agrees("Trust the skill without it?"):
        desk.distrust(places.state_dir(os.environ), file)
    return _told(screen, trusted=agreed)


def trust_file(screen: Terminal, file: ProjectFile) -> bool:
    """Show a file, prompt, and trust exactly the bytes that were shown; return whether it is trusted."""
    state, label = places.state_dir(os.environ), one_line(file.full)
    review = desk.review(state, file)
    if review.is_trusted:
        screen.write(f"{label} is already trusted.\n")
        return True
    page = screen.page()
    if review.before is None:
        screen.write(f"{label} ({file.kind}), {len(review.content):,} bytes:\n")
        screen.write(page.text(decoded(review.content), whole=True))
    else:
        screen.write(f"{label} ({file.kind}) has changed since it was trusted:\n")
        screen.write(page.difference(decoded(review.before), decoded(review.content), "trusted"))
    if agreed := screen.agrees("Trust this content?"):
        desk.trust(state, review)
    return _told(screen, trusted=agreed)


def _told(screen: Terminal, *, trusted: bool) -> bool:
    screen.write("Trusted until it changes.\n" if trusted else "Not trusted.\n")
    return trusted
