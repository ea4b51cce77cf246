"""The system prompt: how an agent works, the workspace, the project's instructions and the skills."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from hilt.agents.marks import Marks
from hilt.authority.rulebook import upward
from hilt.errors import ToolError
from hilt.listing import ListedTool
from hilt.loaders import ProjectFile, UnreadableFile, paths_of
from hilt.places import command
from hilt.skills.skill import Skill
from hilt.state.trust import trusts_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.runtime import Runtime

INSTRUCTION_BYTES = 32 * 1024  # of all project instructions together
_SUMMARY_CHARACTERS = 300  # of a skill's description

_WORK = """\
You are an agent that works for the user with the tools of hilt. You act only through these tools.

- Look before you change: read the files that a change touches, and follow the style around it.
- Do what was asked, no more. Run the project's own checks when you changed code.
- A failed call says why and what to do next. Do not repeat a call that gave the same result.
- A call may need the user's approval, or be denied. Do not work around a denial; say what you could not do.
- Calls that do not depend on each other can be made in one turn; they run at the same time.
- Changes to files can be undone with undo.
- End with a short message: what you did, what you found, what is left."""

_MODES = {
    "plan": "Plan mode: look and plan, change nothing. Submit the plan with exit_plan_mode.",
    "scheduler": "Scheduler mode: no user is available to answer or approve. Do what is allowed; say what is left.",
}


class Instructions(NamedTuple):
    """The project's instructions: the text for the prompt, and why files are not used."""

    text: str = ""
    unused: tuple[str, ...] = ()  # sentences without a period


class ProjectPrompt(NamedTuple):
    """What the prompt says about the project: its instructions, and the skills that can be loaded."""

    instructions: Instructions
    skills: tuple[Skill, ...] = ()


def system_prompt(
    runtime: Runtime, marks: Marks, project: ProjectPrompt, tools: Iterable[ListedTool], role: str = ""
) -> str:
    """Return the system prompt of a session as it is now; skills are listed if a tool can load them.

    `role` replaces the usual description of the work.
    """
    mode = runtime.parts.authority.mode(runtime.session)
    agent = runtime.parts.authority.agent(runtime.session)
    parts = [role or _WORK, marks.rule, f"Workspace: {runtime.parts.root}\nMode: {mode}"]
    if agent is not None and agent.call:  # not a durable run, whose prompt is that of any other run
        parts.append(
            f"You are the agent {agent.id}, started by {agent.parent}. It sees your last message and nothing else of "
            "your work. If you have agent_send and agent_receive, use these ids for messages."
        )
    elif mode in _MODES:
        parts.append(_MODES[mode])
    loader = next((tool.name for tool in tools if tool.tool.name == "load_skill"), None)
    if loader is not None and project.skills:
        lines = (f"- {skill.name}: {_summary(skill.description)}" for skill in project.skills)
        parts.append(f"Skills; load one with {loader} when a task matches its description:\n" + "\n".join(lines))
    if project.instructions.text:
        parts.append(f"Instructions of the project, which the user trusts:\n\n{project.instructions.text}")
    return "\n\n".join(parts)


def _summary(description: str) -> str:
    return " ".join(description.split())[:_SUMMARY_CHARACTERS]


def read_project(runtime: Runtime) -> ProjectPrompt:
    """Read the project's instructions and the names of skills."""
    skills: tuple[Skill, ...] = ()
    with suppress(ToolError):  # their folders cannot be read
        skills = tuple(runtime.parts.skills.current().skills.values())
    return ProjectPrompt(project_instructions(runtime), skills)


def project_instructions(runtime: Runtime) -> Instructions:
    """Read the project's instruction files, from the root of the repository down to the workspace.

    Only files whose content the user trusts are used.
    """
    texts: list[str] = []
    unused: list[str] = []
    room = INSTRUCTION_BYTES
    seen: set[bytes] = set()
    for file in _instruction_files(runtime):
        relative = os.path.relpath(file.full, runtime.parts.authority.place.root)
        try:
            data = file.read()
        except UnreadableFile as error:
            unused.append(f"{relative} is not used: {error}")
            continue
        except OSError:
            continue
        if not data.strip() or data in seen:
            continue  # CLAUDE.md is often a copy of AGENTS.md
        seen.add(data)
        if not trusts_file(runtime.parts.state, runtime.parts.environ, file, data):
            unused.append(f"{relative} is not used, because it is not trusted: {command('trust', relative)}")
            continue
        text = data[:room].decode("utf-8", "replace").strip()
        if len(data) > room:
            text += f"\n[… {len(data) - room:,} more bytes; read {relative} with read_file]"
        room = max(0, room - len(data))
        texts.append(f"## {relative}\n\n{text}")
    return Instructions("\n\n".join(texts), tuple(unused))


def _instruction_files(runtime: Runtime) -> Iterator[ProjectFile]:
    # the copy of an agent in a worktree has another path, which the user has not trusted
    root = runtime.parts.authority.place.root
    folders = [root]
    for folder in upward(root, runtime.parts.authority.place.home):
        if folder != root:
            folders.append(folder)
        if os.path.lexists(os.path.join(folder, ".git")):
            break
    else:
        folders = [root]  # not in a repository
    for folder in reversed(folders):
        for path in paths_of("instructions"):
            file = ProjectFile("instructions", folder, path)
            if os.path.lexists(file.full) and not file.is_alias:
                yield file
