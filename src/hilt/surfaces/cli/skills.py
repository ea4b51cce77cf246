"""`hilt skills`: list, show, write, check, install and remove skills."""

from __future__ import annotations

import os
import sys
from typing import Any

from hilt import places
from hilt.desk import skills
from hilt.desk.skills import LibraryContents
from hilt.formats.invisible import one_line
from hilt.surfaces.cli.layout import list_row, print_json, print_lines
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import refuse_tools
from hilt.surfaces.opening import open_runtime

_SKILL = "name source description path"


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _list
    parser.details = """A skill is a folder with a SKILL.md: instructions for one kind of task. Agents load it with the
tool load_skill. Without a command, the skills are listed."""
    listing = parser.command("list", "List the skills, and those that are not loaded", _list)
    showing = parser.command("show", "Show a skill", _show)
    showing.add_argument("name", metavar="NAME", help="The name of the skill")
    new = parser.command("new", "Write a skill to start from", _new)
    new.add_argument("name", metavar="NAME", help="The name of the skill, such as release-notes")
    new.add_argument("--personal", action="store_true", help="Write it to your personal skills, not to this project")
    checking = parser.command("check", "Check a skill against the Agent Skills standard", _check)
    checking.add_argument("path", metavar="PATH", help="The folder of the skill")
    checking.details = "The exit status is 0 if the skill is valid, and 1 otherwise."
    install = parser.command("install", "Copy a valid skill to your personal skills", _install)
    install.add_argument("path", metavar="PATH", help="The folder of the skill")
    install.add_argument("--force", action="store_true", help="Replace an installed skill of the same name")
    install.details = "Read a skill before you install it: agents follow its text. Links are rejected."
    remove = parser.command("remove", "Remove a skill from your personal skills", _remove)
    remove.add_argument("name", metavar="NAME", help="The name of the skill")
    remove.details = "The skill is moved to the state directory, so that it can be installed again."
    for below in (parser, listing, showing, checking):
        below.add_argument("--json", action="store_true", help="Print JSON")
    listing.examples = [("hilt skills list --json", "List the skills as JSON")]
    showing.examples = [("hilt skills show skill-creator", "Show the instructions of a skill")]
    remove.examples = [("hilt skills remove release-notes", "Remove a personal skill")]
    parser.examples = [
        ("hilt skills", "List the skills"),
        ("hilt skills new release-notes", "Start a skill in this project"),
        ("hilt skills check .hilt/skills/release-notes", "Check it"),
        ("hilt skills install ./release-notes", "Make it available in all projects"),
    ]


# --- list and show --------------------------------------------------------------------------------------------------


def _list(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        contents = skills.contents(runtime)
    if arguments.json:
        return print_json(_listed(contents))
    rows: list[str] = []
    width = max(map(len, contents.skills), default=0)
    for name, skill in contents.skills.items():
        rows.append(f"{name:<{width}}  {skill.source:<8}  {skill.description}")
    commands = contents.commands
    width = max(map(len, commands), default=0)
    rows += ["commands:"] if commands else []
    rows += [f"  {name:<{width}}  {command.source:<8}  {command.description}" for name, command in commands.items()]
    sys.stdout.write("".join(list_row(one_line(row)) for row in rows))
    lines: list[str] = []
    if contents.untrusted:
        lines.append(f"not trusted, so not loaded (to review: {places.command('trust', '.')}):")
        lines += [f"  {item.path}" for item in contents.untrusted]
    if contents.problems:
        lines.append("invalid:")
        lines += [f"  {problem.path}: {problem.message}" for problem in contents.problems]
    if contents.hidden:
        lines.append("hidden by one of the same name:")
        lines += [f"  {path}" for path in contents.hidden]
    print_lines(lines)
    return 0


def _listed(contents: LibraryContents) -> dict[str, Any]:
    return {
        "skills": [_facts(skill, _SKILL) for skill in contents.skills.values()],
        "commands": [_facts(command, f"{_SKILL} argument_hint") for command in contents.commands.values()],
        "untrusted": [_facts(item, "kind name path") for item in contents.untrusted],
        "problems": [_facts(problem, "path message") for problem in contents.problems],
        "hidden": [places.utf8_path(path) for path in contents.hidden],
    }


def _facts(row: object, names: str) -> dict[str, Any]:
    """Return some fields of a row, all of which are strings."""
    return {name: places.utf8_path(getattr(row, name)) for name in names.split()}


def _show(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        skill = skills.load(runtime, arguments.name)
    files = [places.utf8_path(file) for file in skill.files]
    more = {"license": skill.license, "compatibility": skill.compatibility, "allowed_tools": skill.allowed_tools}
    if arguments.json:
        return print_json({**_facts(skill, _SKILL), **more, "files": files, "body": skill.body})
    lines = [skill.name, "", skill.description, "", f"{skill.source}, {skill.path}"]
    lines += [f"{key.replace('_', ' ')}: {value}" for key, value in more.items() if value]
    lines += [f"file: {file}" for file in files]
    print_lines([*lines, "", *skill.body.split("\n")])
    return 0


# --- new and check --------------------------------------------------------------------------------------------------


def _new(options: Options, arguments: Namespace) -> int:
    root = os.path.realpath(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))
    path = skills.new(arguments.name, None if arguments.personal else root)
    lines = [os.path.join(path, "SKILL.md")]
    if not arguments.personal:
        lines.append(f"It is not loaded until you trust it: {places.command('trust', path)}")
    print_lines(lines)
    return 0


def _check(options: Options, arguments: Namespace) -> int:
    problems = skills.problems(arguments.path)
    if arguments.json:
        print_json({"path": places.utf8_path(arguments.path), "valid": not problems, "problems": problems})
    else:
        print_lines([f"{arguments.path}: {problem}" for problem in problems] or [f"{arguments.path}: valid"])
    return 1 if problems else 0


# --- install and remove ---------------------------------------------------------------------------------------------


def _install(options: Options, arguments: Namespace) -> int:
    refuse_tools("skills install")
    path, earlier = skills.install(arguments.path, replace=arguments.force)
    print_lines([f"Installed {path}" if earlier is None else f"Replaced {path}. The earlier one is in {earlier}"])
    return 0


def _remove(options: Options, arguments: Namespace) -> int:
    refuse_tools("skills remove")
    path, earlier = skills.remove(arguments.name)
    if earlier is None:
        print_lines([f"Removed the link {path}"])
    else:
        print_lines([f"Removed {path}", f"To restore it: {places.command('skills', 'install', earlier)}"])
    return 0
