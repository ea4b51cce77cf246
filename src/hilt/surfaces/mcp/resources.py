"""The MCP resources and prompts: long output, snapshots, skills and commands, and those of providers."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from hilt.call import Call
from hilt.desk import skills
from hilt.errors import ToolError
from hilt.runtime import Runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.desk.skills import LibraryContents

OVERFLOW = "hilt://overflow/"
SNAPSHOTS = "hilt://snapshots/"
SKILLS = "hilt://skills/"
LISTED_MAX = 200  # of each kind, newest first
PREFIX = "command:"  # of the prompt of a command with the same name as a skill
READ_BYTES = 512 << 10  # a resource is one message, and some clients reject messages over 1 MB

Change = str  # "tools", "prompts", "resources", or the URI of a resource


class Provider(Protocol):
    """A source of resources and prompts in MCP's format. Its methods are called from many threads."""

    def resources(self) -> list[dict[str, Any]]:
        """Return all resources."""

    def templates(self) -> list[dict[str, Any]]:
        """Return all resource templates."""

    def read(self, uri: str) -> list[dict[str, Any]] | None:
        """Return the contents of a resource; None if this provider does not have it."""

    def prompts(self) -> list[dict[str, Any]]:
        """Return all prompts."""

    def prompt(self, name: str, arguments: Mapping[str, str], responses: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a prompt, or the input it needs first; None if this provider does not have it."""

    def complete(self, ref: Mapping[str, Any], name: str, value: str) -> list[str]:
        """Return the completions of an argument's value."""

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call `callback` on every change; return a function that stops this."""


class Resources:
    """All resources and prompts of a server."""

    def __init__(self, runtime: Runtime, providers: Sequence[Provider]) -> None:
        self._runtime = runtime
        self._providers = providers
        self._skills = SkillPrompts(runtime)

    def all(self, session: str) -> list[dict[str, Any]]:
        """Return the resources of a session."""
        own = [*self._skills.resources(), *self._overflow(session), *self._snapshots(session)]
        return [*(resource for provider in self._providers for resource in provider.resources()), *own]

    def templates(self) -> list[dict[str, Any]]:
        """Return all resource templates."""
        own = [
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
        return [*(template for provider in self._providers for template in provider.templates()), *own]

    def read(self, session: str, uri: str) -> list[dict[str, Any]]:
        """Return the contents of a resource."""
        if uri.startswith(OVERFLOW):
            return [self._read_overflow(session, uri)]
        if uri.startswith(SNAPSHOTS):
            return [self._read_snapshot(session, uri)]
        if uri.startswith(SKILLS):
            return [self._read_skill(session, uri)]
        for provider in self._providers:
            contents = provider.read(uri)
            if contents is not None:
                return contents
        raise _no_resource(uri)

    def prompts(self) -> list[dict[str, Any]]:
        """Return all prompts."""
        return [*(prompt for provider in self._providers for prompt in provider.prompts()), *self._skills.prompts()]

    def prompt(
        self, session: str, name: str, arguments: Mapping[str, str], responses: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return a prompt."""
        for provider in self._providers:
            prompt = provider.prompt(name, arguments, responses)
            if prompt is not None:
                return prompt
        return self._skills.prompt(session, name, arguments)

    def complete(self, ref: Mapping[str, Any], name: str, value: str) -> list[str]:
        """Return the completions of an argument's value."""
        return [completion for provider in self._providers for completion in provider.complete(ref, name, value)]

    # --- our own --------------------------------------------------------------------------------------------------

    def _folder(self, session: str) -> str:
        return self._runtime.parts.session(session).overflow.directory

    def _overflow(self, session: str) -> list[dict[str, Any]]:
        try:
            with os.scandir(self._folder(session)) as entries:
                files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
        except OSError:
            return []
        newest = sorted(files, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns, reverse=True)
        return [
            {
                "uri": f"{OVERFLOW}{_quoted(entry.name)}",
                "name": entry.name,
                "mimeType": "text/plain",
                "size": entry.stat(follow_symlinks=False).st_size,
            }
            for entry in newest[:LISTED_MAX]
        ]

    def _read_overflow(self, session: str, uri: str) -> dict[str, Any]:
        name = _unquoted(uri.removeprefix(OVERFLOW))
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise _no_resource(uri)
        try:
            folder = os.open(self._folder(session), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            raise _no_resource(uri) from None
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(name, flags, dir_fd=folder), "rb") as file:
                data = file.read(READ_BYTES + 1)
        except OSError:
            raise _no_resource(uri) from None
        finally:
            os.close(folder)
        return _contents(uri, data)

    def _read_skill(self, session: str, uri: str) -> dict[str, Any]:
        name, _, relative = uri.removeprefix(SKILLS).partition("/")
        name, relative = _unquoted(name), _unquoted(relative)
        if not relative:
            return {"uri": uri, "mimeType": "text/markdown", "text": self._skills.text(session, name, "")}
        path, data = self._runtime.parts.skills.file(name, relative)
        if self._is_hidden(session, path):
            raise _no_resource(uri)
        return _contents(uri, data)

    def _snapshots(self, session: str) -> list[dict[str, Any]]:
        resources = []
        for change in self._runtime.parts.history.changes(LISTED_MAX, session=session):
            for file in change.snapshots:
                if file.before is None or self._is_hidden(session, file.path):
                    continue
                title = f"{file.path} before {change.operation}"
                uri = f"{SNAPSHOTS}{change.id}/{_quoted(file.path)}"
                resources.append({"uri": uri, "name": file.path, "title": title, "size": file.size})
        return resources[:LISTED_MAX]

    def _read_snapshot(self, session: str, uri: str) -> dict[str, Any]:
        id, _, path = uri.removeprefix(SNAPSHOTS).partition("/")
        path = _unquoted(path)
        history = self._runtime.parts.history
        change = history.find(id)
        if change.session != session:
            raise _no_resource(uri)
        for file in change.snapshots:
            if file.path == path and file.before is not None and not self._is_hidden(session, path):
                if file.size > READ_BYTES:
                    raise _too_large(uri)
                return _contents(uri, history.blobs.read(file.before))
        raise _no_resource(uri)

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
