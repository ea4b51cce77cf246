"""Skills and commands: list, show, write, check, install and remove them."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from hilt import places
from hilt.desk.personal_files import explained, write_whole
from hilt.errors import ToolError
from hilt.loaders import paths_of
from hilt.skills.library import NOTHING, LibraryContents, unknown
from hilt.skills.skill import Skill, name_problem, normalize, one_line

if TYPE_CHECKING:
    from hilt.runtime import Runtime
    from hilt.skills.folder_contents import WholeFolder

__all__ = ["NOTHING", "LibraryContents"]

_REMOVED_MAX = 20  # removed skills to keep

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


class SkillMove(NamedTuple):
    """The path of a skill that was installed or removed, and where the one before it is now; None if nothing is."""

    path: str
    earlier: str | None


def contents(runtime: Runtime, *, rescan: bool = False) -> LibraryContents:
    """Return all skills and commands, and what is not loaded; with `rescan`, as the files are at this moment."""
    return runtime.parts.skills.current(rescan=rescan)


def file(runtime: Runtime, name: str, relative: str) -> tuple[str, bytes]:
    """Return the path and the content of a file of a skill; raise if it cannot be loaded."""
    return runtime.parts.skills.file(name, relative)


def load(runtime: Runtime, name: str) -> Skill:
    """Return a skill with its text; raise if it cannot be loaded."""
    return runtime.parts.skills.load(name)


def new(name: str, project: str | None) -> str:
    """Write a skill to start from, to a project or to the user's own skills, and return its folder."""
    given, name = name, normalize(name)
    reason = name_problem(name)
    if reason is not None:
        raise ToolError(
            "invalid_args",
            f"Invalid skill name {one_line(given)}: {reason}.",
            suggestion="Choose a name such as release-notes.",
        )
    folder = _own_folder() if project is None else os.path.join(project, ".hilt", "skills")
    path = os.path.join(folder, name)
    if os.path.lexists(path):
        raise ToolError("already_exists", f"{one_line(path)} already exists.", suggestion="Choose another name.")
    with explained(path):
        write_whole(path, {"SKILL.md": _TEMPLATE.replace("@NAME@", name).encode()})
    return path


def problems(path: str) -> list[str]:
    """Return the problems of a skill by the Agent Skills standard; none if it is valid."""
    from hilt.skills.checking import check

    return check(path)


def install(path: str, *, replace: bool) -> SkillMove:
    """Copy a valid skill to the user's own; keep the one that it replaces."""
    import shutil

    whole, name = _checked(path)
    target = os.path.join(_own_folder(), name)
    with explained(target):
        if not os.path.lexists(target):
            write_whole(target, whole.files, whole.programs)
            return SkillMove(target, None)
        if not replace:
            raise ToolError(
                "already_exists", f"{one_line(target)} already exists.", suggestion="To replace it, add --force."
            )
        earlier = _set_aside(target)
        try:
            write_whole(target, whole.files, whole.programs)
        except BaseException:
            shutil.move(earlier, target)
            raise
    return SkillMove(target, earlier)


def remove(name: str) -> SkillMove:
    """Move one of the user's own skills to the state directory; remove it if it is a link."""
    folder = _own_folder()
    try:
        installed = {normalize(found): found for found in os.listdir(folder) if not found.startswith(".")}
    except FileNotFoundError:
        installed = {}
    found = installed.get(normalize(name))
    if found is None:
        raise unknown("personal skill", name, installed)
    path = os.path.join(folder, found)
    with explained(path):
        if os.path.islink(path):
            os.unlink(path)
            return SkillMove(path, None)
        return SkillMove(path, _set_aside(path))


def _checked(path: str) -> tuple[WholeFolder, str]:
    """Return the files of a valid skill, read once, and its name."""
    from hilt.skills.checking import check_definition
    from hilt.skills.folder_contents import UnusableFile, open_folder, whole_folder
    from hilt.skills.skill import DEFINITIONS

    if os.path.isfile(path) and os.path.basename(path).lower() == "skill.md":
        path = os.path.dirname(path) or "."
    above, folder = os.path.split(os.path.abspath(path))
    try:
        with open_folder(os.path.join(os.path.realpath(above), folder), follow=False) as handle:
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


def _set_aside(path: str) -> str:
    """Move an installed skill to the state directory, and return its new path; delete the oldest removed skills."""
    import shutil

    folder = os.path.join(places.state_dir(os.environ), "removed-skills")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    removed_path = os.path.join(folder, f"{time.time_ns():020}", os.path.basename(path))
    os.mkdir(os.path.dirname(removed_path), 0o700)
    shutil.move(path, removed_path)
    for old in sorted(os.listdir(folder))[:-_REMOVED_MAX]:
        shutil.rmtree(os.path.join(folder, old), ignore_errors=True)
    return removed_path


def _own_folder() -> str:
    return os.path.join(places.config_dir(os.environ), *paths_of("skill", "config"))
