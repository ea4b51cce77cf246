"""The supported MCP hosts: where each keeps its list of servers, and the format of an entry."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from hilt.surroundings import Surroundings

Entry = dict[str, Any]
Headers = dict[str, str]


class OwnTools(NamedTuple):
    """The setting that turns off a host's own tools for files and commands: a list of names, or members of an object.

    It is in the file of the host's servers, or in `file` in the project or the home directory.
    """

    keys: tuple[str, ...]
    off: tuple[str, ...] | Mapping[str, str]
    file: str = ""


class Host(NamedTuple):
    """An MCP host: its settings files, the keys of its server list, and how it starts servers.

    `inside`: it starts servers in the project folder. Otherwise the entry names the folder; in a project file it uses
    `variable` if there is one. `alone`: keys of the entry that turn off the host's own prompts. `step`: what remains
    for the user to do in the host; NAME is replaced by the name of the server.
    """

    title: str
    keys: tuple[str, ...]
    project: tuple[str, ...] = ()  # relative to the project; the first that exists, else the first
    user: Callable[[Mapping[str, str]], tuple[str, ...]] = lambda environ: ()
    inside: bool = False
    variable: str = ""
    scope: str = "project"  # the default
    entry: Callable[[str, Sequence[str]], Entry] = lambda command, args: {"command": command, "args": list(args)}
    # the entry of a server at a URL, with headers; None if the host does not support one
    remote: Callable[[str, Headers], Entry] | None = lambda url, headers: {"url": url, "headers": headers}
    alone: Mapping[str, Any] = MappingProxyType({})
    step: str = ""
    program: str = ""  # its command; hosts without one are found by their settings
    own_tools: OwnTools | None = None  # None if its settings cannot turn them off

    def is_installed(self, environ: Mapping[str, str]) -> bool:
        """Whether the user has this host: its command, or its settings."""
        if self.program and Surroundings(environ).find(self.program):
            return True
        folders = {os.path.dirname(path) for path in self.user(environ)}
        return any(map(os.path.exists, self.user(environ))) or any(
            os.path.isdir(folder) for folder in folders - {_home_dir(environ)}
        )


def _home(*names: str) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    return lambda environ: tuple(os.path.join(_home_dir(environ), name) for name in names)


def _home_dir(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def _below(variable: str, default: str, name: str) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    return lambda environ: (os.path.join(environ.get(variable) or os.path.join(_home_dir(environ), default), name),)


def _application(folder: str, name: str) -> Callable[[Mapping[str, str]], tuple[str, ...]]:
    """Return the path of a settings file of a desktop application."""
    if sys.platform == "darwin":
        return _home(os.path.join("Library/Application Support", folder, name))
    return _below("XDG_CONFIG_HOME", ".config", os.path.join(folder, name))


def _open_code(environ: Mapping[str, str]) -> tuple[str, ...]:
    folder = os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(_home_dir(environ), ".config"), "opencode")
    return os.path.join(folder, "opencode.json"), os.path.join(folder, "opencode.jsonc")


def _typed(command: str, args: Sequence[str]) -> Entry:
    return {"type": "stdio", "command": command, "args": list(args)}


def _typed_url(url: str, headers: Headers) -> Entry:
    return {"type": "http", "url": url, "headers": headers}


def _http_url(url: str, headers: Headers) -> Entry:
    return {"httpUrl": url, "headers": headers}


_SERVERS = ("mcpServers",)

HOSTS: dict[str, Host] = {
    "claude": Host(
        "Claude Code",
        _SERVERS,
        (".mcp.json",),
        _home(".claude.json"),
        inside=True,
        entry=_typed,
        remote=_typed_url,
        step="Start claude in the folder and approve the server; /mcp shows its state. "
        "In scripts: claude -p --mcp-config .mcp.json --allowedTools mcp__NAME",
        program="claude",
        own_tools=OwnTools(
            ("permissions", "deny"),
            ("Bash", "Edit", "Glob", "Grep", "MultiEdit", "NotebookEdit", "Read", "Write"),
            ".claude/settings.json",
        ),
    ),
    "claude-desktop": Host(
        "Claude Desktop",
        _SERVERS,
        (),
        _application("Claude", "claude_desktop_config.json"),
        remote=None,
        step="Quit and restart it; it prompts before the first use of each tool.",
    ),
    "codex": Host(
        "Codex",
        ("mcp_servers",),
        (".codex/config.toml",),
        _below("CODEX_HOME", ".codex", "config.toml"),
        inside=True,
        scope="user",
        remote=lambda url, headers: {"url": url, "http_headers": headers},
        alone={"default_tools_approval_mode": "approve", "required": True},
        step="Start codex in the folder and trust it: project settings apply only in trusted folders.",
        program="codex",
    ),
    "copilot": Host(
        "Copilot CLI",
        _SERVERS,
        (),
        _below("COPILOT_HOME", ".copilot", "mcp-config.json"),
        inside=True,
        entry=lambda command, args: {**_typed(command, args), "tools": ["*"]},
        remote=lambda url, headers: {**_typed_url(url, headers), "tools": ["*"]},
        step="Trust the folder when prompted. In scripts: copilot -p ... --allow-tool NAME",
        program="copilot",
    ),
    "cursor": Host(
        "Cursor",
        _SERVERS,
        (".cursor/mcp.json",),
        _home(".cursor/mcp.json"),
        variable="${workspaceFolder}",
        step="Enable the server in its settings, under MCP.",
        program="cursor",
    ),
    "gemini": Host(
        "Gemini CLI",
        _SERVERS,
        (".gemini/settings.json",),
        _home(".gemini/settings.json"),
        inside=True,
        remote=_http_url,
        step="Trust the folder when prompted: servers do not start in an untrusted folder.",
        program="gemini",
        own_tools=OwnTools(
            ("tools", "exclude"),
            (
                "glob",
                "grep_search",
                "list_directory",
                "read_file",
                "read_many_files",
                "replace",
                "run_shell_command",
                "search_file_content",
                "write_file",
            ),
        ),
    ),
    "kiro": Host(
        "Kiro",
        _SERVERS,
        (".kiro/settings/mcp.json",),
        _home(".kiro/settings/mcp.json"),
        step="Check in the list of MCP servers that the server is enabled.",
        program="kiro",
    ),
    "lmstudio": Host(
        "LM Studio",
        _SERVERS,
        (),
        _home(".lmstudio/mcp.json"),
        step="Enable the server in the chat that should use it.",
        program="lms",
    ),
    "opencode": Host(
        "OpenCode",
        ("mcp",),
        ("opencode.json", "opencode.jsonc"),
        _open_code,
        inside=True,
        entry=lambda command, args: {"type": "local", "command": [command, *args], "enabled": True},
        remote=lambda url, headers: {"type": "remote", "url": url, "headers": headers, "enabled": True},
        step="Nothing else to do; opencode mcp list shows its state.",
        program="opencode",
        own_tools=OwnTools(("permission",), dict.fromkeys(("bash", "edit", "glob", "grep", "list", "read"), "deny")),
    ),
    "qwen": Host(
        "Qwen Code",
        _SERVERS,
        (".qwen/settings.json",),
        _home(".qwen/settings.json"),
        inside=True,
        remote=_http_url,
        step="Trust the folder when prompted: servers do not start in an untrusted folder.",
        program="qwen",
        own_tools=OwnTools(
            ("tools", "exclude"),
            (
                "edit",
                "glob",
                "grep_search",
                "list_directory",
                "read_file",
                "read_many_files",
                "run_shell_command",
                "write_file",
            ),
        ),
    ),
    "vscode": Host(
        "Visual Studio Code",
        ("servers",),
        (".vscode/mcp.json",),
        _application("Code/User", "mcp.json"),
        variable="${workspaceFolder}",
        entry=_typed,
        remote=_typed_url,
        step="Trust the workspace, and trust the server when prompted at its first start.",
        program="code",
    ),
    "windsurf": Host(
        "Windsurf",
        _SERVERS,
        (),
        _home(".codeium/windsurf/mcp_config.json"),
        remote=lambda url, headers: {"serverUrl": url, "headers": headers},
        step="Refresh the list of MCP servers.",
        program="windsurf",
    ),
    "zed": Host(
        "Zed",
        ("context_servers",),
        (),
        _below("XDG_CONFIG_HOME", ".config", "zed/settings.json"),
        step="Check that the server has a green dot in the settings of the agent panel.",
        program="zed",
    ),
}


class HostFile(NamedTuple):
    """The settings file in which a host keeps its servers, for a project or for the user."""

    host: Host
    scope: str
    workspace: str

    @property
    def path(self) -> str:
        """The path of the file."""
        names = self.host.project if self.scope == "project" else self.host.user(os.environ)
        paths = [os.path.join(self.workspace, name) for name in names]
        return next((path for path in paths if os.path.lexists(path)), paths[0])

    @property
    def own_tools_path(self) -> str:
        """The path of the file with the setting for the host's own tools."""
        folder = self.workspace if self.scope == "project" else _home_dir(os.environ)
        own = self.host.own_tools
        return os.path.join(folder, own.file) if own is not None and own.file else self.path

    @property
    def folder(self) -> str | None:
        """The workspace that an entry must name; None if the host starts the server there."""
        if self.host.inside:
            return None
        return self.host.variable if self.scope == "project" and self.host.variable else self.workspace

    def resolved(self, path: str) -> str:
        """Return the path to write: links of the user are resolved, those of a project are not followed."""
        if self.scope == "user":
            return os.path.realpath(path)
        return os.path.join(os.path.realpath(self.workspace), os.path.relpath(path, self.workspace))


def host_files(host: Host, workspace: str) -> dict[str, HostFile]:
    """Return the settings files of a host by scope: the project, the user, or both."""
    scopes = {"project": bool(host.project), "user": bool(host.user(os.environ))}
    return {scope: HostFile(host, scope, workspace) for scope, exists in scopes.items() if exists}
