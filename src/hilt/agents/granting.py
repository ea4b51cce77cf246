"""The tools and the mode of a child: those of its parent, restricted by its definition."""

from __future__ import annotations

from collections.abc import Sequence

from hilt.agents.agent_files import AgentDefinition
from hilt.authority.authority import Authority
from hilt.policy.modes import find_mode, narrowest


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
