"""The list of tools for an MCP client."""

from __future__ import annotations

from typing import Any, NamedTuple

from hilt.runtime import Runtime
from hilt.surfaces.mcp.content import tool_entry


class Choice(NamedTuple):
    """Which tools to list, and how."""

    search: bool = False
    lean: bool = False


def tool_list(runtime: Runtime, choice: Choice, session: str, *, client_asks: bool) -> list[dict[str, Any]]:
    """Return the entries of tools/list for a session; `client_asks` means that the client can ask its user."""
    authority, (search, lean) = runtime.parts.authority, choice
    return [
        tool_entry(tool) for tool in authority.listed_tools(session, search=search, lean=lean, client_asks=client_asks)
    ]
