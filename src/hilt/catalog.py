"""Look up tools by name; looking up a built-in tool imports only its own module."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hilt.call import Output
from hilt.choices import dialect_names
from hilt.declaration import Tool
from hilt.errors import ToolError, did_you_mean
from hilt.places import command
from hilt.schema import Schema

if TYPE_CHECKING:
    from hilt.custom.toolbox import Toolbox
    from hilt.servers.tools import Servers

_FOLDER = os.path.dirname(os.path.abspath(__file__))

# dialects whose names always work, because they clash with no others
OPEN_DIALECTS = ("jcli", "agentos")
UNTRUSTED_MAX = 5  # untrusted tool files named in the error for an unknown tool


Arguments = Callable[[dict[str, Any]], dict[str, Any]]


class Forwarded(NamedTuple):
    """The call of another tool in the same dialect that a call is translated to."""

    name: str
    args: dict[str, Any]


class DialectEntry(NamedTuple):
    """A tool of a dialect: its published schema, and pure functions that convert its arguments and results."""

    name: str
    description: str
    schema: Schema
    tool: str  # the canonical tool
    arguments: Arguments
    reply: Callable[[Output, dict[str, Any], str], Output]
    failure: Callable[[ToolError, dict[str, Any]], ToolError]  # converts an error to the dialect
    maxima: Mapping[str, int] = {}  # higher limits of canonical arguments that the dialect allows
    forward: Callable[[dict[str, Any]], Forwarded | None] | None = None

    def canonical(self, schema: Schema) -> Schema:
        """Return the schema of the canonical tool with the limits of this entry."""
        if not self.maxima:
            return schema
        raised = {name: {**schema["properties"][name], "maximum": maximum} for name, maximum in self.maxima.items()}
        return {**schema, "properties": {**schema["properties"], **raised}}


class FoundTool(NamedTuple):
    """The tool that a name resolves to, and the dialect entry it was called by."""

    tool: Tool
    entry: DialectEntry | None


def built_in_names() -> list[str]:
    """Return the names of the built-in tools, from the listing of their folder."""
    names = os.listdir(os.path.join(_FOLDER, "tools"))
    return sorted(name[:-3] for name in names if name.endswith(".py") and not name.startswith("_"))


def dialect(name: str) -> dict[str, DialectEntry]:
    """Return the entries of a dialect; jinn, the dialect of canonical names, has none."""
    if name not in dialect_names():
        near = did_you_mean(name, dialect_names())
        raise ToolError(
            "invalid_request",
            f"Unknown dialect {name[:100]!r}.",
            suggestion=f"Use {near!r}." if near else f"Use one of: {', '.join(dialect_names())}.",
        )
    if name == "jinn":
        return {}
    entries: dict[str, DialectEntry] = _module("dialects", name).ENTRIES
    return entries


class Catalog:
    """Finds tools: built-in ones, those passed to the runtime, of MCP servers, in the user's files, then dialects."""

    def __init__(
        self,
        extra: Iterable[Tool] = (),
        custom: Toolbox | None = None,
        servers: Callable[[], Servers | None] = lambda: None,
    ) -> None:
        """`servers` returns the configured MCP servers, or None."""
        self._custom = custom
        self._servers = servers
        self._extra: dict[str, Tool] = {}
        self._imported: dict[str, Tool] = {}  # built-in ones
        for tool in extra:
            if tool.name in self._extra or tool.name in built_in_names():
                raise ValueError(f"there is already a tool called {tool.name!r}")
            self._extra[tool.name] = tool._replace(source="library")

    def find(self, name: str, dialect_name: str | None = None) -> FoundTool:
        """Return the tool that a name resolves to; with a dialect, its names come first."""
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
        raise self._unknown(name, dialect_name)

    def library_names(self) -> list[str]:
        """Return the names of the tools passed to the runtime."""
        return list(self._extra)

    def extra_names(self) -> list[str]:
        """Return the names of all tools that are not built in: passed to the runtime, of MCP servers, from files."""
        servers = self._servers()
        custom = self._custom.names() if self._custom is not None else ()
        return [*dict.fromkeys((*self._extra, *(servers.names() if servers is not None else ()), *custom))]

    def tools(self) -> list[Tool]:
        """Return all canonical tools, sorted by name; imports all of them, and may wait for MCP servers to start."""
        by_name = {name: self._own(name, name) for name in built_in_names()}
        servers = self._servers()
        others = [*(servers.tools() if servers is not None else ())]
        custom = self._custom.tools() if self._custom is not None else []
        for tool in (*self._extra.values(), *others, *custom):
            by_name.setdefault(tool.name, tool)
        return sorted(by_name.values(), key=lambda tool: tool.name)

    def _own(self, name: str, called: str) -> Tool:
        tool = self._lookup(name)
        if tool is None:
            raise self._unknown(called, None)
        return tool

    def _lookup(self, name: str) -> Tool | None:
        tool = self._extra.get(name) or self._imported.get(name)
        # checked against the listing: a case-insensitive file system would also import READ_FILE
        if tool is None and name in built_in_names():
            tool = self._imported[name] = getattr(_module("tools", name), name)
        if tool is None and name.startswith("mcp__") and (servers := self._servers()) is not None:
            tool = servers.find(name)
        if tool is None and self._custom is not None:
            tool = self._custom.find(name)
        return tool

    def _unknown(self, name: str, dialect_name: str | None) -> ToolError:
        from difflib import get_close_matches

        candidates = [*(dialect(dialect_name) if dialect_name else ()), *built_in_names(), *self.extra_names()]
        for open_name in OPEN_DIALECTS:
            candidates.extend(dialect(open_name))
        folded: dict[str, str] = {}
        for candidate in candidates:
            folded.setdefault(candidate.replace("_", "").replace("-", "").casefold(), candidate)
        close = get_close_matches(name.replace("_", "").replace("-", "").casefold(), folded, n=3, cutoff=0.6)
        near = [folded[word] for word in close]
        message = f"There is no tool {name[:100]!r}." + (f" The nearest names are: {', '.join(near)}." if near else "")
        # the name of a file does not say which tools it defines
        untrusted = self._custom.untrusted() if self._custom is not None else []
        if untrusted:
            others = f" and {len(untrusted) - UNTRUSTED_MAX} more" if len(untrusted) > UNTRUSTED_MAX else ""
            message += f" Untrusted tool files are not loaded: {', '.join(untrusted[:UNTRUSTED_MAX])}{others}."
        advice = f"Use {near[0]}, or call list_tools to see all names." if near else None
        if untrusted and not near:
            advice = f"If the tool is in one of these files, ask the user to run: {command('tools', 'trust')}"
        return ToolError("unknown_tool", message, suggestion=advice, nearest=near)


def _module(folder: str, name: str) -> Any:
    # import_module would cost the import of importlib (ADR 0003)
    return __import__(f"hilt.{folder}.{name}", fromlist=[name])
