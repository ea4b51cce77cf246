"""Definitions of agents: Markdown files whose front matter says what an agent may use, and whose text is its prompt.

A project's file counts only if the user trusts its content. A definition restricts an agent: if its front matter cannot
be parsed completely, it is rejected, because what it was meant to forbid is unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hilt.authority.authority import Authority
from hilt.errors import ToolError
from hilt.formats import front_matter
from hilt.formats.digests import sha256
from hilt.formats.front_matter import BadFrontMatter
from hilt.formats.invisible import visible
from hilt.loaders import MAX_BYTES, LoadedFolder, Source, folders, writable_places
from hilt.places import command, utf8_path
from hilt.policy.modes import find_mode, narrowest
from hilt.skills.folder_contents import UnusableFile, matching_files, open_folder
from hilt.skills.library import unknown
from hilt.skills.skill import mixes_scripts, normalize, one_line
from hilt.state.trust import Trust, trusts_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilt.runtime import Runtime

DEFAULT = "general"
BUILT_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "builtin")
NAME_CHARACTERS = 64
DESCRIPTION_CHARACTERS = 1024
TURNS_MAX = 1_000

_NAME = re.compile(r"[\w.-]+")
# keys that restrict an agent; without one of them, invalid front matter does no harm
_RESTRICTING = re.compile(
    r"^[ \t]*+[\"']?(?:tools|disallowed_?tools|mode|permission_?mode|max_?turns|worktree)\b",
    re.IGNORECASE | re.MULTILINE,
)


class AgentDefinition(NamedTuple):
    """An agent by its name: the tools it may have, and its prompt."""

    name: str
    description: str
    source: Source
    path: str
    model: str  # "" for the model of its parent
    tools: tuple[str, ...] | None  # under any of their names; None: all
    disallowed: tuple[str, ...]
    mode: str  # "" for the mode of its parent
    turns: int | None
    body: str
    worktree: bool = False  # whether it works in its own git worktree


class AgentDefinitions(NamedTuple):
    """All definitions by name, the reasons why files are not used, and the names of untrusted ones with their paths."""

    known: dict[str, AgentDefinition]
    problems: dict[str, str]  # by path
    untrusted: dict[str, str]

    def find(self, name: str) -> AgentDefinition:
        """Return a definition; raise if there is none that may be used."""
        key = normalize(name)
        if key in self.known:
            return self.known[key]
        if key in self.untrusted:
            path = utf8_path(self.untrusted[key])
            raise ToolError(
                "untrusted",
                f"The agent {key} is not available: {path} is not trusted.",
                suggestion=f"Ask the user to review it: {command('trust', path)}",
            )
        raise unknown("agent", name, self.known)


def with_all_tools(definition: AgentDefinition, tools: Sequence[str]) -> AgentDefinition:
    """Return a definition that has all tools, those that start agents included, and the usual prompt."""
    return definition._replace(
        model="", tools=tuple(tools), disallowed=(), mode="", turns=None, body="", worktree=False
    )


def read_definitions(runtime: Runtime) -> AgentDefinitions:
    """Return the definitions of the project, the user and hilt; the first of a name counts."""
    definitions = AgentDefinitions({}, {}, {})
    reach = writable_places(runtime.parts.folders, runtime.parts.environ)
    trust = Trust(runtime.parts.state, everything=trusts_all(runtime.parts.environ))
    try:
        for place in (
            *folders("agent", runtime.parts.folders, runtime.parts.environ),
            LoadedFolder("agent", BUILT_IN, "built-in"),
        ):
            for path, data in _files(place, definitions.problems):
                try:
                    if place.source == "personal" and not place.anchor and reach.root_of(os.path.realpath(path)):
                        raise UnusableFile("It is inside the workspace, where tools can write.")
                    name = _file_name(path)
                    if place.anchor is not None and not trust.is_trusted(place.file(path), sha256(data)):
                        definitions.untrusted.setdefault(name, path)
                        continue
                    definition = parse(data, place.source, path)
                except UnusableFile as error:
                    definitions.problems[path] = str(error)
                    continue
                definitions.known.setdefault(definition.name, definition)
    finally:
        trust.close()
    return definitions


def _files(place: LoadedFolder, problems: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    follow = place.anchor is None
    try:
        with open_folder(place.path, follow=follow) as handle:
            for name, data in matching_files(handle, _is_definition, follow=follow):
                path = os.path.join(place.path, name)
                if isinstance(data, UnusableFile):
                    problems[path] = str(data)
                else:
                    yield path, data
    except UnusableFile as error:
        if os.path.lexists(place.path):
            problems[place.path] = str(error)


def _is_definition(relative: str) -> bool:
    name = relative.lower()
    return name.endswith(".md") and name != "readme.md" and "/" not in name and not name.startswith(".")


def _file_name(path: str) -> str:
    return normalize(os.path.basename(path)[: -len(".md")])


def parse(data: bytes, source: Source, path: str) -> AgentDefinition:
    """Return the definition in a file; raise UnusableFile if it is invalid."""
    fields, body = _fields(data)
    name = normalize(str(fields.get("name") or _file_name(path)))
    if not _NAME.fullmatch(name) or len(name) > NAME_CHARACTERS or mixes_scripts(name):
        raise UnusableFile(f"Its name must have 1 to {NAME_CHARACTERS} letters, digits, -, _ and dots, of one script.")
    is_planning = fields.get("permissionmode") == "plan"  # as Claude Code names it
    tools = fields.get("tools")
    model = fields.get("model") or ""
    return AgentDefinition(
        name,
        one_line(str(fields.get("description") or ""))[:DESCRIPTION_CHARACTERS],
        source,
        path,
        str(model) if ":" in str(model) else "",  # "inherit", and short names of other systems
        None if tools is None or tools == "*" else _names("tools", tools),
        _names("disallowedTools", fields.get("disallowedtools")),
        _mode(fields.get("mode") or ("plan" if is_planning else None)),
        _turns(fields.get("maxturns")),
        visible(body).strip(),
        _worktree(fields.get("worktree")),
    )


def _fields(data: bytes) -> tuple[dict[str, Any], str]:
    if not data.startswith((b"---", b"\xef\xbb\xbf---")):
        raise UnusableFile("It has no front matter, so it is not the definition of an agent.")
    try:
        strict = front_matter.read(data, limit=MAX_BYTES)
    except BadFrontMatter as error:
        text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        loose = front_matter.skim(text, ("name", "description", "model"), ())
        head = text[: len(text) - len(loose.body)]
        if not head or _RESTRICTING.search(head):
            raise UnusableFile(f"Its front matter is invalid, line {error.line}: {error.message}") from None
        return dict(loose.texts), loose.body
    return {
        str(key).lower().replace("-", "").replace("_", ""): value for key, value in strict.fields.items()
    }, strict.body


def _names(key: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UnusableFile(f"{key} must be a list of names.")
    return tuple(name.strip() for name in names if name.strip())


def _mode(value: Any) -> str:
    if value is None:
        return ""
    try:
        return find_mode(str(value))
    except ToolError as error:
        raise UnusableFile(f"{error.message} {error.suggestion}") from None


def _worktree(value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise UnusableFile("worktree must be true or false.")
    return bool(value)


def _turns(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= TURNS_MAX:
        raise UnusableFile(f"maxTurns must be an integer from 1 to {TURNS_MAX}.")
    return value


def granted_tools(
    authority: Authority, definition: AgentDefinition, parent: str, *, in_worktree: bool = False
) -> tuple[str, ...]:
    """Return the tools of an agent: those of its parent that its definition allows.

    Custom tools and those of MCP servers work in the user's own folder, so an agent in a worktree has none of them.
    """
    twins = authority.names().twins

    def canonical(names: Sequence[str] | None) -> set[str]:
        return {twin for name in names or () for twin in twins.get(name, (name,))}

    allowed = None if definition.tools is None else canonical(definition.tools)
    disallowed = canonical(definition.disallowed)
    return tuple(
        tool.name
        for tool in authority.catalog.tools()
        if not authority.hidden(tool, parent)
        and not (in_worktree and tool.source != "built-in")
        and tool.name not in disallowed
        and (tool.name in allowed if allowed is not None else not tool.traits.starts_agents)
    )


def granted_mode(authority: Authority, definition: AgentDefinition, parent: str) -> str:
    """Return the mode of an agent: that of its parent, or a narrower one that its definition names."""
    mode = authority.mode(parent)
    return narrowest(mode, find_mode(definition.mode)) if definition.mode else mode
