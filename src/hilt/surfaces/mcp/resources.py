"""The MCP resources and prompts: long output, snapshots, skills and commands."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from hilt.call import Call
from hilt.desk import changes, sessions, skills
from hilt.errors import ToolError
from hilt.runtime import Runtime

if TYPE_CHECKING:
    from hilt.desk.skills import LibraryContents

OVERFLOW = "hilt://overflow/"
SNAPSHOTS = "hilt://snapshots/"
SKILLS = "hilt://skills/"
LISTED_MAX = 200  # of each kind, newest first
PREFIX = "command:"  # of the prompt of a command with the same name as a skill
READ_BYTES = 512 << 10  # a resource is one message, and some clients reject messages over 1 MB


class Resources:
    """All resources and prompts of a server."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._skills = SkillPrompts(runtime)

    def all(self, session: str) -> list[dict[str, Any]]:
        """Return the resources of a session."""
        return [*self._skills.resources(), *self._overflow(session), *self._snapshots(session)]

    def templates(self) -> list[dict[str, Any]]:
        """Return all resource templates."""
        return [
            {
                "uriTemplate": f"{OVERFLOW}{{name}}",
                "name": "overflow",
                "title": "Long output",
                "description": "Output of this session that was too long for the reply.",
                "mimeType": "text/plain",
            },
            {
                "uriTemplate": f"{SNAPSHOTS}{{id}}/{{+path}}",
                "name": "snapshot",
                "title": "Snapshot",
                "description": "A file as it was before a change in this session; undo restores it.",
            },
            {
                "uriTemplate": f"{SKILLS}{{name}}/{{+path}}",
                "name": "skill",
                "title": "Skill",
                "description": "Another file of a skill.",
            },
        ]

    def read(self, session: str, uri: str) -> list[dict[str, Any]]:
        """Return the contents of a resource."""
        if uri.startswith(OVERFLOW):
            return [self._read_overflow(session, uri)]
        if uri.startswith(SNAPSHOTS):
            return [self._read_snapshot(session, uri)]
        if uri.startswith(SKILLS):
            return [self._read_skill(session, uri)]
        raise _no_resource(uri)

    def prompts(self) -> list[dict[str, Any]]:
        """Return all prompts."""
        return self._skills.prompts()

    def prompt(self, session: str, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Return a prompt."""
        return self._skills.prompt(session, name, arguments)

    def _overflow(self, session: str) -> list[dict[str, Any]]:
        return [
            {
                "uri": f"{OVERFLOW}{_quoted(output.name)}",
                "name": output.name,
                "mimeType": "text/plain",
                "size": output.size,
            }
            for output in sessions.long_outputs(self._runtime, session, LISTED_MAX)
        ]

    def _read_overflow(self, session: str, uri: str) -> dict[str, Any]:
        data = sessions.long_output(self._runtime, session, _unquoted(uri.removeprefix(OVERFLOW)), READ_BYTES)
        if data is None:
            raise _no_resource(uri)
        return _contents(uri, data)

    def _read_skill(self, session: str, uri: str) -> dict[str, Any]:
        name, _, relative = uri.removeprefix(SKILLS).partition("/")
        name, relative = _unquoted(name), _unquoted(relative)
        if not relative:
            return {"uri": uri, "mimeType": "text/markdown", "text": self._skills.text(session, name, "")}
        path, data = skills.file(self._runtime, name, relative)
        if self._is_hidden(session, path):
            raise _no_resource(uri)
        return _contents(uri, data)

    def _snapshots(self, session: str) -> list[dict[str, Any]]:
        found = changes.snapshots(self._runtime, session, LISTED_MAX)
        return [
            {
                "uri": f"{SNAPSHOTS}{snapshot.change}/{_quoted(snapshot.path)}",
                "name": snapshot.path,
                "title": f"{snapshot.path} before {snapshot.operation}",
                "size": snapshot.size,
            }
            for snapshot in islice((each for each in found if not self._is_hidden(session, each.path)), LISTED_MAX)
        ]

    def _read_snapshot(self, session: str, uri: str) -> dict[str, Any]:
        id, _, path = uri.removeprefix(SNAPSHOTS).partition("/")
        snapshot = changes.snapshot(self._runtime, session, id, _unquoted(path))
        if snapshot is None or self._is_hidden(session, snapshot.path):
            raise _no_resource(uri)
        if snapshot.size > READ_BYTES:
            raise _too_large(uri)
        return _contents(uri, changes.content(self._runtime, snapshot))

    def _is_hidden(self, session: str, path: str) -> bool:
        """Whether the session needs approval to read the file; then it cannot read it here either."""
        try:
            decision = self._runtime.explain(Call("read_file", {"path": path}, session=session)).decision
        except ToolError:
            return True
        return decision.verdict != "allow"


class SkillPrompts:
    """The skills and commands of a runtime, for MCP clients. Its methods are called from many threads.

    A skill is loaded by calling load_skill, so the same rules apply, and the call is recorded.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def resources(self) -> list[dict[str, Any]]:
        """Return the skills as resources."""
        return [
            {
                "uri": f"hilt://skills/{_quoted(skill.name)}",
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
        contents = skills.contents(self._runtime, rescan=True)
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


def _contents(uri: str, data: bytes) -> dict[str, Any]:
    if len(data) > READ_BYTES:
        raise _too_large(uri)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        blob = base64.b64encode(data).decode()
        return {"uri": uri, "mimeType": "application/octet-stream", "blob": blob}
    return {"uri": uri, "mimeType": "text/plain", "text": text}


def _too_large(uri: str) -> ToolError:
    return ToolError(
        "file_too_large", f"{uri[:200]} has more than {READ_BYTES >> 10} KiB; read_file can read parts of a file."
    )


def _no_resource(uri: str) -> ToolError:
    return ToolError("not_found", f"Resource not found: {uri[:200]}")


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path.encode("utf-8", "surrogateescape"), safe="/")


def _unquoted(text: str) -> str:
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")
