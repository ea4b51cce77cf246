"""The programs that use tools by MCP: where each keeps its list of servers, and what an entry looks like."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

Entry = dict[str, Any]


class Host(NamedTuple):
    """A program: its files, the keys that lead to its servers, and how it starts them.

    `inside` says that it starts a server in the folder of the project; for the others the entry names the folder, in a
    project's own file by a `variable` where there is one. `alone` are keys by which it leaves all questions to the
    server, and `step` is what a person has still to do there, NAME being the server.
    """

    title: str
    keys: tuple[str, ...]
    project: tuple[str, ...] = ()  # below the project; the first that exists, else the first
    user: Callable[[Mapping[str, str]], tuple[str, ...]] = lambda environ: ()
    inside: bool = False
    variable: str = ""
    scope: str = "project"  # what is meant when nobody says
    entry: Callable[[str, Sequence[str]], Entry] = lambda command, args: {"command": command, "args": list(args)}
    alone: Mapping[str, Any] = MappingProxyType({})
    step: str = ""


def _home(*names: str) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    return lambda environ: tuple(os.path.join(_house(environ), name) for name in names)


def _house(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def _below(variable: str, default: str, name: str) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    return lambda environ: (os.path.join(environ.get(variable) or os.path.join(_house(environ), default), name),)


def _application(folder: str, name: str) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    """Return where applications with windows keep their settings."""
    if sys.platform == "darwin":
        return _home(os.path.join("Library/Application Support", folder, name))
    return _below("XDG_CONFIG_HOME", ".config", os.path.join(folder, name))


def _open_code(environ: Mapping[str, str]) -> tuple[str, ...]:
    folder = os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(_house(environ), ".config"), "opencode")
    return os.path.join(folder, "opencode.json"), os.path.join(folder, "opencode.jsonc")


def _typed(command: str, args: Sequence[str]) -> Entry:
    return {"type": "stdio", "command": command, "args": list(args)}


_SERVERS = ("mcpServers",)

HOSTS: dict[str, Host] = {
    "claude": Host(
        "Claude Code",
        _SERVERS,
        (".mcp.json",),
        _home(".claude.json"),
        inside=True,
        entry=_typed,
        step="Start claude in the folder and approve the server; /mcp shows its state. "
        "In scripts: claude -p --mcp-config .mcp.json --allowedTools mcp__NAME",
    ),
    "claude-desktop": Host(
        "Claude Desktop",
        _SERVERS,
        (),
        _application("Claude", "claude_desktop_config.json"),
        step="Quit it and start it again; it asks before the first use of each tool.",
    ),
    "codex": Host(
        "Codex",
        ("mcp_servers",),
        (".codex/config.toml",),
        _below("CODEX_HOME", ".codex", "config.toml"),
        inside=True,
        scope="user",
        alone={"default_tools_approval_mode": "approve", "required": True},
        step="Start codex in the folder and trust it: a project's file counts in trusted folders only.",
    ),
    "copilot": Host(
        "Copilot CLI",
        _SERVERS,
        (),
        _below("COPILOT_HOME", ".copilot", "mcp-config.json"),
        inside=True,
        entry=lambda command, args: {**_typed(command, args), "tools": ["*"]},
        step="Trust the folder when it asks. In scripts: copilot -p ... --allow-tool NAME",
    ),
    "cursor": Host(
        "Cursor",
        _SERVERS,
        (".cursor/mcp.json",),
        _home(".cursor/mcp.json"),
        variable="${workspaceFolder}",
        step="Switch the server on in its settings, under MCP.",
    ),
    "gemini": Host(
        "Gemini CLI",
        _SERVERS,
        (".gemini/settings.json",),
        _home(".gemini/settings.json"),
        inside=True,
        step="Trust the folder where it asks: it connects no server in one that is not trusted.",
    ),
    "kiro": Host(
        "Kiro",
        _SERVERS,
        (".kiro/settings/mcp.json",),
        _home(".kiro/settings/mcp.json"),
        step="Look whether the server is on, in the list of MCP servers.",
    ),
    "lmstudio": Host(
        "LM Studio",
        _SERVERS,
        (),
        _home(".lmstudio/mcp.json"),
        step="Switch the server on in the chat that is to use it.",
    ),
    "opencode": Host(
        "OpenCode",
        ("mcp",),
        ("opencode.json", "opencode.jsonc"),
        _open_code,
        inside=True,
        entry=lambda command, args: {"type": "local", "command": [command, *args], "enabled": True},
        step="Nothing is left to do; opencode mcp list shows its state.",
    ),
    "qwen": Host(
        "Qwen Code",
        _SERVERS,
        (".qwen/settings.json",),
        _home(".qwen/settings.json"),
        inside=True,
        step="Trust the folder where it asks: it connects no server in one that is not trusted.",
    ),
    "vscode": Host(
        "Visual Studio Code",
        ("servers",),
        (".vscode/mcp.json",),
        _application("Code/User", "mcp.json"),
        variable="${workspaceFolder}",
        entry=_typed,
        step="Trust the workspace, and the server when it asks at the first start.",
    ),
    "windsurf": Host(
        "Windsurf", _SERVERS, (), _home(".codeium/windsurf/mcp_config.json"), step="Refresh the list of MCP servers."
    ),
    "zed": Host(
        "Zed",
        ("context_servers",),
        (),
        _below("XDG_CONFIG_HOME", ".config", "zed/settings.json"),
        step="Look for the green dot of the server in the settings of the agent panel.",
    ),
}


def file_of(host: Host, scope: str, workspace: str, environ: Mapping[str, str]) -> str:
    """Return the file in which a program keeps its servers, for a project or for the user."""
    found = [os.path.join(workspace, name) for name in host.project] if scope == "project" else host.user(environ)
    return next((path for path in found if os.path.lexists(path)), found[0])


def folder_of(host: Host, scope: str, workspace: str) -> str | None:
    """Return the folder that an entry must name for the server to work in; None where the program starts it there."""
    if host.inside:
        return None
    return host.variable if scope == "project" and host.variable else workspace
