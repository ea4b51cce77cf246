"""`hilt skills`: list, show, write, check, install and remove skills."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hilt import places
from hilt.errors import ToolError
from hilt.output.terminal import inert
from hilt.surfaces.cli.layout import list_row
from hilt.surfaces.cli.person import refuse_tools
from hilt.surfaces.cli.prompt import one_line
from hilt.surfaces.opening import open_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from hilt.skills.folder_contents import WholeFolder
    from hilt.skills.library import LibraryContents
    from hilt.skills.skill import Skill
    from hilt.surfaces.cli.parsing import Options, Parser

REMOVED_MAX = 20  # removed skills to keep

_TEMPLATE = """\
---
name: @NAME@
description: Say what this skill does, and when to use it, with the words that people use for such a task.
---

# @NAME@

1. Say what to look at first.
2. Say what to do, with the commands to run.
3. Say how to check the result.

Put long details into files below references/, and programs into scripts/, and name them here.
"""


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
        contents = runtime.skills().current()
    if arguments.json:
        return _print_json(_listed(contents))
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
    _write(lines)
    return 0


def _listed(contents: LibraryContents) -> dict[str, Any]:
    return {
        "skills": [_facts(skill) for skill in contents.skills.values()],
        "commands": [
            {
                "name": command.name,
                "source": command.source,
                "description": command.description,
                "argument_hint": command.argument_hint,
                "path": places.utf8_path(command.path),
            }
            for command in contents.commands.values()
        ],
        "untrusted": [
            {"kind": item.kind, "name": item.name, "path": places.utf8_path(item.path)} for item in contents.untrusted
        ],
        "problems": [
            {"path": places.utf8_path(problem.path), "message": problem.message} for problem in contents.problems
        ],
        "hidden": [places.utf8_path(path) for path in contents.hidden],
    }


def _facts(skill: Skill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "source": skill.source,
        "description": skill.description,
        "path": places.utf8_path(skill.path),
    }


def _show(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        skill = runtime.skills().load(arguments.name)
    files = [places.utf8_path(file) for file in skill.files]
    more = {"license": skill.license, "compatibility": skill.compatibility, "allowed_tools": skill.allowed_tools}
    if arguments.json:
        return _print_json({**_facts(skill), **more, "files": files, "body": skill.body})
    lines = [skill.name, "", skill.description, "", f"{skill.source}, {skill.path}"]
    lines += [f"{key.replace('_', ' ')}: {value}" for key, value in more.items() if value]
    lines += [f"file: {file}" for file in files]
    _write([*lines, "", *skill.body.split("\n")])
    return 0


# --- new and check --------------------------------------------------------------------------------------------------


def _new(options: Options, arguments: Namespace) -> int:
    from hilt.skills.skill import name_problem, normalize

    name = normalize(arguments.name)
    reason = name_problem(name)
    if reason is not None:
        raise ToolError(
            "invalid_args",
            f"Invalid skill name {one_line(arguments.name)}: {reason}.",
            suggestion="Choose a name such as release-notes.",
        )
    root = os.path.realpath(options.get("workspace") or places.workspace_dir(os.environ, os.getcwd()))
    folder = _own_folder() if arguments.personal else os.path.join(root, ".hilt", "skills")
    path = os.path.join(folder, name)
    if os.path.lexists(path):
        raise ToolError("already_exists", f"{one_line(path)} already exists.", suggestion="Choose another name.")
    with _explained(path):
        _write_folder(path, {"SKILL.md": _TEMPLATE.replace("@NAME@", name).encode()})
    lines = [os.path.join(path, "SKILL.md")]
    if not arguments.personal:
        lines.append(f"It is not loaded until you trust it: {places.command('trust', path)}")
    _write(lines)
    return 0


def _check(options: Options, arguments: Namespace) -> int:
    from hilt.skills.checking import check

    problems = check(arguments.path)
    if arguments.json:
        _print_json({"path": places.utf8_path(arguments.path), "valid": not problems, "problems": problems})
    else:
        _write([f"{arguments.path}: {problem}" for problem in problems] or [f"{arguments.path}: valid"])
    return 1 if problems else 0


# --- install and remove ---------------------------------------------------------------------------------------------


def _install(options: Options, arguments: Namespace) -> int:
    import shutil

    refuse_tools("skills install")
    whole, name = _checked(arguments.path)
    target = os.path.join(_own_folder(), name)
    with _explained(target):
        if os.path.lexists(target):
            if not arguments.force:
                raise ToolError(
                    "already_exists",
                    f"{one_line(target)} already exists.",
                    suggestion="To replace it, add --force.",
                )
            removed_path = _set_aside(target)
            try:
                _write_folder(target, whole.files, whole.programs)
            except BaseException:
                shutil.move(removed_path, target)
                raise
            _write([f"Replaced {target}. The earlier one is in {removed_path}"])
        else:
            _write_folder(target, whole.files, whole.programs)
            _write([f"Installed {target}"])
    return 0


def _checked(path: str) -> tuple[WholeFolder, str]:
    """Return the files of a valid skill, read once, and its name."""
    from hilt.skills.checking import check_definition
    from hilt.skills.folder_contents import UnusableFile, open_folder, whole_folder
    from hilt.skills.skill import DEFINITIONS, normalize

    if os.path.isfile(path) and os.path.basename(path).lower() == "skill.md":
        path = os.path.dirname(path) or "."
    above, folder = os.path.split(os.path.abspath(path))
    try:
        with open_folder(os.path.join(above, folder), above) as handle:
            whole = whole_folder(handle)
    except UnusableFile as error:
        raise ToolError(
            "tool_invalid", f"{one_line(path)}: {error}", suggestion="Pass the folder of a skill, without links."
        ) from None
    if whole.links:
        raise ToolError(
            "tool_invalid",
            f"{one_line(path)} contains the link {one_line(whole.links[0])}.",
            suggestion="Replace links with their targets.",
        )
    definition = next((name for name in DEFINITIONS if name in whole.files), None)
    problems = ["SKILL.md is missing."] if definition is None else check_definition(whole.files[definition], folder)
    if problems:
        raise ToolError(
            "tool_invalid",
            f"{one_line(path)} is not a valid skill: {' '.join(map(one_line, problems))}",
            suggestion=f"Fix it, then check it: {places.command('skills', 'check', path)}",
        )
    return whole, normalize(folder)


def _remove(options: Options, arguments: Namespace) -> int:
    from hilt.skills.library import unknown
    from hilt.skills.skill import normalize

    refuse_tools("skills remove")
    folder = _own_folder()
    try:
        installed = {normalize(name): name for name in os.listdir(folder) if not name.startswith(".")}
    except FileNotFoundError:
        installed = {}
    name = installed.get(normalize(arguments.name))
    if name is None:
        raise unknown("personal skill", arguments.name, installed)
    path = os.path.join(folder, name)
    with _explained(path):
        if os.path.islink(path):
            os.unlink(path)
            _write([f"Removed the link {path}"])
            return 0
        removed_path = _set_aside(path)
    _write([f"Removed {path}", f"To restore it: {places.command('skills', 'install', removed_path)}"])
    return 0


def _set_aside(path: str) -> str:
    """Move an installed skill to the state directory, and return its new path; delete the oldest removed skills."""
    import shutil

    folder = os.path.join(places.state_dir(os.environ), "removed-skills")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    removed_path = os.path.join(folder, f"{time.time_ns():020}", os.path.basename(path))
    os.mkdir(os.path.dirname(removed_path), 0o700)
    shutil.move(path, removed_path)
    for old in sorted(os.listdir(folder))[:-REMOVED_MAX]:
        shutil.rmtree(os.path.join(folder, old), ignore_errors=True)
    return removed_path


def _write_folder(target: str, files: Mapping[str, bytes], programs: frozenset[str] = frozenset()) -> None:
    """Write a folder atomically: it appears under its name when it is complete."""
    import tempfile

    os.makedirs(os.path.dirname(target), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=os.path.dirname(target)) as fresh:
        top = os.path.join(fresh, "skill")
        for name, content in files.items():
            path = os.path.join(top, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            mode = 0o755 if name in programs else 0o644
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                file.write(content)
        os.rename(top, target)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn file errors into tool errors."""
    try:
        yield
    except OSError as error:
        raise ToolError(
            "permission_denied",
            f"{one_line(path)}: {os.strerror(error.errno or 0)}.",
            suggestion="Check that you can write to the folder around it.",
        ) from error


def _own_folder() -> str:
    return places.skill_dirs(os.environ)[0]


def _print_json(data: Any) -> int:
    sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
    return 0


def _write(lines: list[str]) -> None:
    sys.stdout.write("".join(inert(one_line(line)) + "\n" for line in lines))
