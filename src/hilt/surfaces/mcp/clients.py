"""The name that an MCP client declares, and the requests that it supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hilt.surfaces.mcp.names import TASKS

NAME_CHARACTERS = 60


class Client(NamedTuple):
    """A client, as declared by itself."""

    name: str  # for the audit trail
    can: frozenset[str]  # the requests that it supports
    program: str = ""  # the declared name
    version: str = ""


def client_of(info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> Client:
    """Return the client with this `clientInfo` and these capabilities, in the protocol's format."""
    program, version = _printable(info.get("name", "")), _printable(info.get("version", ""))
    return Client(f"mcp client {program}".rstrip(), _supported(info, capabilities), program, version)


def _printable(name: object) -> str:
    return "".join(char for char in str(name)[:NAME_CHARACTERS] if char.isprintable())


def _supported(info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> frozenset[str]:
    names = set()
    elicitation = capabilities.get("elicitation")
    if elicitation is not None and not _is_headless(info, capabilities):
        # no mode means forms, which were the only mode at first
        if elicitation.get("form") is not None or elicitation.get("url") is None:
            names |= {"form", "elicitation"}
        if elicitation.get("url") is not None:
            names.add("url")
    names |= {name for name in ("sampling", "roots") if capabilities.get(name) is not None}
    if TASKS in (capabilities.get("extensions") or ()):
        names.add("tasks")
    return frozenset(names)


def _is_headless(info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> bool:
    """Whether the client declares that it has no user, by its name or an experimental capability."""
    names = [*(capabilities.get("experimental") or ()), info.get("name") or "", info.get("title") or ""]
    return any("headless" in name.casefold() for name in names)
