"""The configured MCP servers: from the user's settings, and from files of a project that the user trusts.

    .mcp.json               {"mcpServers": {NAME: ENTRY}}
    agents.config.json      the same, also below "nanocoder", also as a list of entries with a name
    config.toml             [mcp.servers.NAME]

An ENTRY has a command with args, env and cwd, or a url with headers; type (stdio, http, sse), timeout, disabled and
readOnly, the names of its read-only tools. An invalid entry is reported and skipped: it never stops a call of another
tool. `${VAR}` and `${VAR:-default}` are expanded when a server is started, so that no secret is stored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from hilt import loaders, places
from hilt.config import FOREIGN
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.loaders import ProjectFile
from hilt.wire import decode_value

CALL_SECONDS = 120.0
SERVERS_MAX = 64

_SECRET_LENGTH = 6  # shorter values occur in ordinary words
_LONGEST_SECONDS = 24 * 3600.0
_MILLISECONDS = 1000  # a timeout of this or more is in milliseconds, the usual unit in these files
# two underscores separate the server from its tool, so a name neither contains them nor ends in one
_NAME = re.compile(r"(?!.*__)[A-Za-z0-9-](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9-])?\Z")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TRANSPORTS = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamablehttp": "http", "sse": "sse"}

Transport = Literal["stdio", "http", "sse"]
Trusts = Callable[[ProjectFile, bytes], bool]  # whether the user trusts a file with this content


class Server(NamedTuple):
    """A server as its entry describes it. `digest` is the hash of the entry; variables are not yet expanded."""

    name: str
    origin: str  # the file, shown to people
    source: Literal["personal", "project"]
    transport: Transport
    digest: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    seconds: float = CALL_SECONDS
    read_only: frozenset[str] = frozenset()
    disabled: bool = False


class ServerProblem(NamedTuple):
    """Why an entry, or a whole file, is skipped."""

    origin: str
    message: str


class Configured(NamedTuple):
    """The servers by name, the problems, and the servers of untrusted files."""

    servers: Mapping[str, Server] = {}
    problems: tuple[ServerProblem, ...] = ()
    untrusted: Mapping[str, tuple[str, ...]] = {}  # the server names by the path of their file


def configured(root: str, personal: Mapping[str, Any], trusts: Trusts) -> Configured:
    """Read all sources; a personal server wins over a project's server of the same name."""
    servers: dict[str, Server] = {}
    problems: list[ServerProblem] = []
    untrusted: dict[str, tuple[str, ...]] = {}
    read = _read(personal.items(), "config.toml", "personal", problems)
    servers.update((server.name, server) for server in read)
    for file in project_files(root):
        path = file.full
        if not os.path.lexists(path):
            continue
        try:
            data = file.read()
            entries = [(key, entry) for key, entry in _entries(decode_value(data)) if not starts_hilt(entry)]
        except ToolError as error:
            problems.append(ServerProblem(path, error.message.replace("The request", "The file", 1)))
            continue
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
            problems.append(ServerProblem(path, f"The file is not used: {reason}."))
            continue
        if not entries:
            continue
        if not trusts(file, data):
            untrusted[path] = tuple(str(name) for name, _ in entries)
            continue
        for server in _read(entries, path, "project", problems):
            if server.name in servers:
                problems.append(ServerProblem(path, f"Duplicate server name: {server.name}."))
            else:
                servers[server.name] = server
    if len(servers) > SERVERS_MAX:
        problems.append(
            ServerProblem(root, f"There are {len(servers)} servers; only the first {SERVERS_MAX} are used.")
        )
        servers = dict(list(servers.items())[:SERVERS_MAX])
    return Configured(servers, tuple(problems), untrusted)


def project_files(root: str) -> list[ProjectFile]:
    """Return the files of a project that may list servers, which may not exist."""
    return [
        *(ProjectFile("servers", root, path) for path in loaders.paths_of("servers")),
        ProjectFile("config", root, FOREIGN),
    ]


def expanded(server: Server, environ: Mapping[str, str]) -> Server:
    """Return the server with its variables expanded; raise for one that is unset and has no default."""

    def fill(text: str) -> str:
        def value(match: re.Match[str]) -> str:
            name, default = match[1], match[2]
            variable = environ.get(name)
            if not variable and default is not None:
                return default
            if variable is None:
                raise ToolError(
                    "tool_invalid",
                    f"The MCP server {server.name} needs the variable {name}, which is not set.",
                    suggestion=f"Ask the user to set {name}.",
                )
            return variable

        return _VARIABLE.sub(value, text)

    expanded_server = server._replace(
        command=fill(server.command),
        args=tuple(map(fill, server.args)),
        env={name: fill(value) for name, value in server.env.items()},
        cwd=fill(server.cwd),
        url=fill(server.url),
        headers={name: fill(value) for name, value in server.headers.items()},
    )
    if expanded_server.transport != "stdio" and not expanded_server.url.startswith(("http://", "https://")):
        raise ToolError("tool_invalid", f"The url of the MCP server {server.name} must start with http:// or https://.")
    if any(character in value for value in expanded_server.headers.values() for character in "\r\n\0"):
        raise ToolError("tool_invalid", f"A header of the MCP server {server.name} contains a line break or NUL.")
    return expanded_server


def secrets(server: Server, environ: Mapping[str, str]) -> list[str]:
    """Return the values of variables, the url and the headers, longest first, to redact them from messages."""
    texts = (server.command, *server.args, *server.env.values(), server.cwd, server.url, *server.headers.values())
    values = {environ.get(name, "") for text in texts for name, _ in _VARIABLE.findall(text)}
    expanded_server = expanded(server, environ)
    values |= {expanded_server.url, *expanded_server.headers.values()}
    return sorted((value for value in values if len(value) >= _SECRET_LENGTH), key=len, reverse=True)


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a file in any of the known forms."""
    if not isinstance(value, dict):
        raise ValueError("it is not an object with mcpServers")
    for table in (value, value.get("nanocoder")):
        entries = table.get("mcpServers") if isinstance(table, dict) else None
        if isinstance(entries, dict):
            yield from entries.items()
        elif isinstance(entries, list):
            for entry in entries:
                name = entry.get("name") if isinstance(entry, dict) else None
                yield (name if isinstance(name, str) else ""), entry
        elif entries is not None:
            raise ValueError("mcpServers is not an object")


def starts_hilt(entry: Any) -> bool:
    """Whether an entry starts hilt itself: such an entry is for other programs, and here it would recurse endlessly."""
    if not isinstance(entry, dict):
        return False
    command, args = entry.get("command"), entry.get("args")
    program, *inline_args = command if isinstance(command, list) and command else [command]
    arguments = [word for word in (*inline_args, *(args if isinstance(args, list) else ())) if word not in ("-I", "-P")]
    return os.path.basename(str(program)) in places.PROGRAMS or arguments[:2] == ["-m", "hilt"]


def _read(
    entries: Any, origin: str, source: Literal["personal", "project"], problems: list[ServerProblem]
) -> Iterator[Server]:
    for name, entry in entries:
        try:
            yield _server(name, entry, origin, source)
        except ValueError as error:
            problems.append(ServerProblem(origin, f"{str(name)[:80]!r}: {error}."))


def _server(name: str, entry: Any, origin: str, source: Literal["personal", "project"]) -> Server:
    if not _NAME.match(name):
        raise ValueError(
            "the name must be at most 32 letters, digits, - and _, without two _ in a row or _ at its start or end"
        )
    if not isinstance(entry, dict):
        raise ValueError("the entry must be an object with a command or a url")
    url = _text(entry, "url") or _text(entry, "serverUrl")
    command = _text(entry, "command")
    transport_name = _text(entry, "type") or _text(entry, "transport")
    transport = _TRANSPORTS.get(transport_name.casefold()) if transport_name else "http" if url else "stdio"
    if transport is None:
        raise ValueError(f"type must be one of stdio, http, sse, not {transport_name[:40]!r}")
    if not (command if transport == "stdio" else url):
        raise ValueError(f"{'command' if transport == 'stdio' else 'url'} is missing")
    return Server(
        name,
        origin,
        source,
        transport,  # type: ignore[arg-type]  # the table holds nothing else
        sha256(json.dumps(entry, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hex()[:32],
        command,
        tuple(_texts(entry, "args")),
        _table(entry, "env"),
        _text(entry, "cwd"),
        url,
        _table(entry, "headers"),
        _seconds(entry.get("timeout")),
        frozenset(_texts(entry, "readOnly")),
        entry.get("disabled") is True or entry.get("enabled") is False or starts_hilt(entry),
    )


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if value is not None and (not isinstance(value, str) or "\0" in value):
        raise ValueError(f"{key} must be a string")
    return value or ""


def _texts(entry: Mapping[str, Any], key: str) -> Sequence[str]:
    value = entry.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and "\0" not in item for item in value):
        raise ValueError(f"{key} must be an array of strings")
    return value


def _table(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    value = entry.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(item, str) and "\0" not in item for item in value.values()):
        raise ValueError(f"{key} must be an object of strings")
    if any(not name or set(name) & set("=\0\r\n: ") for name in value):
        raise ValueError(f"{key} contains an invalid name")
    return value


def _seconds(value: Any) -> float:
    if value is None:
        return CALL_SECONDS
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError("timeout must be a number above 0")
    return float(min(value / 1000 if value >= _MILLISECONDS else value, _LONGEST_SECONDS))
