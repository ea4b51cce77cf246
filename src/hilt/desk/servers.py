"""The other MCP servers of a workspace: their state and tools, and a person's review of changed definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from hilt import places
from hilt.errors import ToolError
from hilt.formats.invisible import one_line
from hilt.servers.configured import ServerProblem
from hilt.servers.definitions import AcceptedTool, Difference, Raw, assign_names, difference, shown_json, visible
from hilt.servers.tools import State

if TYPE_CHECKING:
    from hilt.runtime import Runtime
    from hilt.servers.pins import Pins
    from hilt.servers.tools import Servers

__all__ = ["visible"]


class ServerTool(NamedTuple):
    """A tool of a server, and its description."""

    name: str
    description: str


class OtherServer(NamedTuple):
    """A configured MCP server."""

    id: str
    transport: str
    target: str  # its command line or URL
    origin: str  # the file that configures it
    disabled: bool
    status: str  # running, stopped, unknown, failed or disabled
    summary: str
    tools: tuple[ServerTool, ...]
    failure: str
    notes: tuple[str, ...]
    unaccepted: Difference


class OtherServers(NamedTuple):
    """The servers, the names of those in untrusted files by path, and invalid entries."""

    servers: tuple[OtherServer, ...] = ()
    untrusted: Mapping[str, tuple[str, ...]] = {}
    problems: tuple[ServerProblem, ...] = ()


class ChangedDefinition(NamedTuple):
    """The definition of a tool as JSON, as it was accepted and now; None if the tool did not or does not exist."""

    name: str
    before: str | None
    after: str | None


class DefinitionReview(NamedTuple):
    """The changed definitions of a server for a person to accept or reject: new, changed, removed."""

    server: str
    origin: str
    tools: int
    changes: tuple[ChangedDefinition, ...]
    notes: tuple[str, ...]
    is_first: bool  # no definition was ever accepted
    offer: tuple[Pins, list[Raw], Mapping[str, AcceptedTool]]


def servers(runtime: Runtime) -> OtherServers | None:
    """Return the servers of a workspace without starting any; None if no server is configured."""
    opened = runtime.parts.servers
    if opened is None:
        return None
    configured = opened.configured()
    return OtherServers(tuple(map(_server, opened.states())), configured.untrusted, configured.problems)


def review(runtime: Runtime, name: str) -> DefinitionReview:
    """Start a server, and return how its definitions differ from the accepted ones."""
    opened = runtime.parts.servers
    if opened is None:
        raise ToolError("not_found", "No MCP server is configured.", suggestion=f"See {places.command('mcp', 'list')}.")
    accepted = _accepted(opened, name)
    pins, server, now = opened.offer(name)
    before = accepted or {}
    after = {raw["name"]: raw for raw in now}
    differs = difference(before.values(), now)
    changes = tuple(
        ChangedDefinition(
            tool,
            shown_json(before[tool].raw) if tool in before else None,
            shown_json(after[tool]) if tool in after else None,
        )
        for tool in (*differs.new, *differs.changed, *differs.removed)
    )
    if accepted is not None and not changes:
        pins.offer(None)
    return DefinitionReview(
        server.name, server.origin, len(now), changes, pins.notes(), accepted is None, (pins, now, before)
    )


def accept(review: DefinitionReview) -> list[str]:
    """Accept the definitions of a review; return notes on the names of the tools."""
    pins, now, before = review.offer
    accepted, notes = assign_names(review.server, now, before)
    pins.accept(accepted)
    return notes


def reject(review: DefinitionReview) -> None:
    """Reject the definitions of a review: the first start of a server would have accepted them."""
    pins, now, _ = review.offer
    if review.is_first:
        pins.accept([])
        pins.offer(now)


def _server(state: State) -> OtherServer:
    server = state.server
    status = "running" if state.running else "stopped"
    if state.tools is None:
        status = "unknown"
    if state.failure:
        status = "failed"
    return OtherServer(
        server.name,
        server.transport,
        server.url or " ".join((server.command, *server.args)),
        server.origin,
        server.disabled,
        "disabled" if server.disabled else status,
        _summary(state),
        tuple(ServerTool(tool.listed_name, _first_line(tool)) for tool in state.tools or ()),
        state.failure,
        state.notes,
        state.difference,
    )


def _summary(state: State) -> str:
    """Return the state of a server in a few words."""
    if state.server.disabled:
        return "disabled"
    if state.tools is None:
        return "not started yet, tools unknown"
    tools = f"{len(state.tools)} tool{'s' * (len(state.tools) != 1)}"
    return f"{tools}, with changes that are not accepted" if state.difference else tools


def _first_line(tool: AcceptedTool) -> str:
    return str(tool.raw.get("description") or tool.raw.get("title") or "").strip().partition("\n")[0]


def _accepted(servers: Servers, name: str) -> dict[str, AcceptedTool] | None:
    """Return the accepted definitions of a server by name, or None if it was never started."""
    for state in servers.states():
        if state.server.name == name:
            return None if state.tools is None else {tool.raw["name"]: tool for tool in state.tools}
    for path, names in servers.configured().untrusted.items():
        if name in names:
            raise ToolError(
                "untrusted",
                f"{one_line(path)} is not trusted.",
                suggestion=f"Trust it first: {places.command('trust', one_line(path))}",
            )
    raise ToolError(
        "not_found", f"There is no MCP server {one_line(name)}.", suggestion=f"See {places.command('mcp', 'list')}."
    )
