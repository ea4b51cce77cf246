"""Skills as MCP resources and prompts, and commands as prompts.

A skill is loaded by calling load_skill, so the same rules apply, and the call is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hilt.call import Call
from hilt.desk import skills
from hilt.errors import ToolError
from hilt.runtime import Runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.desk.skills import LibraryContents

PREFIX = "command:"  # of a command with the same name as a skill


class SkillPrompts:
    """The skills and commands of a runtime, for MCP clients. Its methods are called from many threads."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def resources(self) -> list[dict[str, Any]]:
        """Return the skills as resources."""
        return [
            {
                "uri": f"hilt://skills/{quote(skill.name)}",
                "name": skill.name,
                "description": skill.description,
                "mimeType": "text/markdown",
            }
            for skill in self._contents().skills.values()
        ]

    def text(self, session: str, name: str, arguments: str) -> str:
        """Return a skill as load_skill returns it."""
        result = self._runtime.request(Call("load_skill", {"name": name, "arguments": arguments}, session=session))
        if result.error is not None:
            raise result.error
        return result.text

    def prompts(self) -> list[dict[str, Any]]:
        """Return the skills and commands as prompts."""
        contents = self._contents()
        listed = [_prompt(skill.name, skill.description, "") for skill in contents.skills.values()]
        listed += [
            _prompt(f"{PREFIX}{name}" if name in contents.skills else name, command.description, command.argument_hint)
            for name, command in contents.commands.items()
        ]
        return listed

    def _contents(self) -> LibraryContents:
        try:
            return skills.contents(self._runtime)
        except ToolError:
            return skills.NOTHING  # without them, the other resources are still listed

    def prompt(self, session: str, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Return a skill or command with its arguments filled in."""
        contents = self._runtime.parts.skills.current(rescan=True)
        skill_arguments = arguments.get("arguments", "")
        command = contents.commands.get(name.removeprefix(PREFIX))
        if name in contents.skills:
            text, description = self.text(session, name, skill_arguments), contents.skills[name].description
        elif command is not None:
            text, description = command.expand(skill_arguments), command.description
        else:
            raise ToolError("not_found", f"Unknown prompt: {name[:100]}")
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return {"description": description, "messages": [message]}


def _prompt(name: str, description: str, hint: str) -> dict[str, Any]:
    argument = {"name": "arguments", "description": hint or "Arguments of the skill or command.", "required": False}
    return {"name": name, "description": description, "arguments": [argument]}
