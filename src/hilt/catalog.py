"""The tools available now: a name leads to a Tool by importing exactly the file of that tool."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from hilt.call import Output
from hilt.declaration import Tool
from hilt.errors import ToolError
from hilt.places import command
from hilt.schema import Schema, did_you_mean

_FOLDER = os.path.dirname(os.path.abspath(__file__))

# the dialects whose names mean something without being asked for, because they clash with no others
OPEN_DIALECTS = ("jcli", "agentos")
UNTRUSTED_MAX = 5  # of the tool files that are named where a tool is not found


class DialectEntry(NamedTuple):
    """A foreign tool: its schema as its document gives it, and the pure pair that turns it into ours and back."""

    name: str
    description: str
    schema: Schema
    tool: str  # the canonical tool
    arguments: Callable[[dict[str, Any]], dict[str, Any]]
    reply: Callable[[Output, dict[str, Any], str], Output]
    failure: Callable[[ToolError, dict[str, Any]], ToolError] | None = None  # an error in the words of the dialect
    maxima: Mapping[str, int] = {}  # of canonical arguments, where the dialect allows more

    def canonical(self, schema: Schema) -> Schema:
        """Return the schema of the canonical tool as this entry may use it."""
        if not self.maxima:
            return schema
        raised = {name: {**schema["properties"][name], "maximum": most} for name, most in self.maxima.items()}
        return {**schema, "properties": {**schema["properties"], **raised}}


class ToolSource(Protocol):
    """Where tools come from that are not built in."""

    def names(self) -> list[str]:
        """Return the names of its tools."""

    def tools(self) -> list[Tool]:
        """Return its tools."""

    def find(self, name: str) -> Tool | None:
        """Return the tool of a name; None when it has none."""


class FileSource(ToolSource, Protocol):
    """The tools of the user's files."""

    def untrusted(self) -> list[str]:
        """Return the files that are not loaded because the user has not trusted them."""


class FoundTool(NamedTuple):
    """What a name means: a tool, and the dialect entry it was called by."""

    tool: Tool
    entry: DialectEntry | None


def built_in_names() -> list[str]:
    """Return the names of the built-in tools: the listing of their folder."""
    names = os.listdir(os.path.join(_FOLDER, "tools"))
    return sorted(name[:-3] for name in names if name.endswith(".py") and not name.startswith("_"))


def dialect_names() -> list[str]:
    """Return the names of the dialects that are known, the canonical one first."""
    names = os.listdir(os.path.join(_FOLDER, "dialects"))
    return ["jinn", *sorted(name[:-3] for name in names if name.endswith(".py") and not name.startswith("_"))]


def dialect(name: str) -> dict[str, DialectEntry]:
    """Return the entries of a dialect; the canonical names are the dialect jinn, which has none of its own."""
    if name not in dialect_names():
        near = did_you_mean(name, dialect_names())
        raise ToolError(
            "invalid_request",
            f"There is no dialect {name[:100]!r}.",
            suggestion=f"Use {near!r}." if near else f"Use one of: {', '.join(dialect_names())}.",
        )
    if name == "jinn":
        return {}
    entries: dict[str, DialectEntry] = _module("dialects", name).ENTRIES
    return entries


class Catalog:
    """Finds tools: built-in ones, those given to the runtime, those of MCP servers, the user's files, then dialects."""

    def __init__(
        self,
        extra: Iterable[Tool] = (),
        custom: FileSource | None = None,
        servers: Callable[[], ToolSource | None] = lambda: None,
    ) -> None:
        """`servers` gives the tools of other MCP servers, when any are configured."""
        self._custom = custom
        self._servers = servers
        self._extra: dict[str, Tool] = {}
        self._found: dict[str, Tool] = {}  # built-in ones already imported
        for tool in extra:
            if tool.name in self._extra or tool.name in built_in_names():
                raise ValueError(f"there is already a tool called {tool.name!r}")
            self._extra[tool.name] = tool._replace(source="library")

    def find(self, name: str, dialect_name: str | None = None) -> FoundTool:
        """Return what the name means; with a dialect, its names come first."""
        if dialect_name is not None:
            entry = dialect(dialect_name).get(name)
            if entry is not None:
                return FoundTool(self._own(entry.tool, name), entry)
        tool = self._lookup(name)
        if tool is not None:
            return FoundTool(tool, None)
        for open_name in OPEN_DIALECTS:
            entry = dialect(open_name).get(name)
            if entry is not None:
                return FoundTool(self._own(entry.tool, name), entry)
        raise self._unknown(name)

    def given_names(self) -> list[str]:
        """Return the names of the tools that were given."""
        return list(self._extra)

    def extra_names(self) -> list[str]:
        """Return the names of the tools that were given, are known of MCP servers, or were found in files."""
        servers = self._servers()
        custom = self._custom.names() if self._custom is not None else ()
        return [*dict.fromkeys((*self._extra, *(servers.names() if servers is not None else ()), *custom))]

    def tools(self) -> list[Tool]:
        """Return all canonical tools, by name; imports every one of them, and may wait for MCP servers to start."""
        found = {name: self._own(name, name) for name in built_in_names()}
        servers = self._servers()
        others = [*(servers.tools() if servers is not None else ())]
        custom = self._custom.tools() if self._custom is not None else []
        for tool in (*self._extra.values(), *others, *custom):
            found.setdefault(tool.name, tool)
        return sorted(found.values(), key=lambda tool: tool.name)

    def _own(self, name: str, called: str) -> Tool:
        tool = self._lookup(name)
        if tool is None:
            raise self._unknown(called)
        return tool

    def _lookup(self, name: str) -> Tool | None:
        tool = self._extra.get(name) or self._found.get(name)
        # by the listing: a file system that ignores case would say yes to READ_FILE
        if tool is None and name in built_in_names():
            tool = self._found[name] = getattr(_module("tools", name), name)
        if tool is None and name.startswith("mcp__") and (servers := self._servers()) is not None:
            tool = servers.find(name)
        if tool is None and self._custom is not None:
            tool = self._custom.find(name)
        return tool

    def _unknown(self, name: str) -> ToolError:
        from difflib import get_close_matches

        known = [*built_in_names(), *self.extra_names()]
        for open_name in OPEN_DIALECTS:
            known.extend(dialect(open_name))
        folded: dict[str, str] = {}
        for candidate in known:
            folded.setdefault(candidate.replace("_", "").replace("-", "").casefold(), candidate)
        close = get_close_matches(name.replace("_", "").replace("-", "").casefold(), folded, n=3, cutoff=0.5)
        near = [folded[word] for word in close]
        told = f"There is no tool {name[:100]!r}." + (f" The nearest names are: {', '.join(near)}." if near else "")
        # what a file is called says nothing of the tools in it
        waiting = self._custom.untrusted() if self._custom is not None else []
        if waiting:
            others = f" and {len(waiting) - UNTRUSTED_MAX} more" if len(waiting) > UNTRUSTED_MAX else ""
            told += f" Tool files that the user has not trusted are not loaded: {', '.join(waiting[:UNTRUSTED_MAX])}"
            told += f"{others}."
        advice = f"Use {near[0]}, or call list_tools to see all names." if near else None
        if waiting and not near:
            advice = f"If one of these files has it, ask the user to run: {command('tools', 'trust')}"
        return ToolError("unknown_tool", told, suggestion=advice, nearest=near)


def _module(folder: str, name: str) -> Any:
    # importlib's own function costs an import that this one call does not need
    return __import__(f"hilt.{folder}.{name}", fromlist=[name])
