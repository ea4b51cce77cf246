"""Which MCP servers there are: from the user's settings, and from the files of a project that the person trusts.

    .mcp.json               {"mcpServers": {NAME: ENTRY}}
    agents.config.json      the same, also below "nanocoder", also as a list of entries with a name
    config.toml             [mcp.servers.NAME]

An ENTRY has a command with args, env and cwd, or a url with headers; type (stdio, http, sse), timeout, disabled and
readOnly, the names of tools that change nothing. What is broken is told and left out: it never stops a call of another
tool. `${VAR}` and `${VAR:-default}` are filled in when a server is started, so that no secret is kept anywhere.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from hilt.authority import rulebook
from hilt.errors import ToolError
from hilt.formats.digests import sha256
from hilt.wire import decode_value

FILES = {".mcp.json": "servers", "agents.config.json": "config"}  # of a project, and as what each is trusted
CALL_SECONDS = 120.0
SERVERS_MAX = 64

_SECRET_LENGTH = 6  # of a value: what is shorter is in many words
_LONGEST_SECONDS = 24 * 3600.0
_MILLISECONDS = 1000  # a timeout from here on is in milliseconds, as most programs write it
# two underscores part the server from its tool, so a name neither holds them nor lends one
_NAME = re.compile(r"(?!.*__)[A-Za-z0-9-](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9-])?\Z")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TRANSPORTS = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamablehttp": "http", "sse": "sse"}

Transport = Literal["stdio", "http", "sse"]
Trusts = Callable[[str, str, bytes], bool]  # whether a file, as what it is, is trusted with this content


class Server(NamedTuple):
    """A server as its entry describes it. `digest` is that of the entry; values are not filled in yet."""

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
    """Why an entry, or a whole file, does not count."""

    origin: str
    message: str


class Configured(NamedTuple):
    """The servers by name, what is broken, and the servers of files that are not trusted."""

    servers: Mapping[str, Server] = {}
    problems: tuple[ServerProblem, ...] = ()
    untrusted: Mapping[str, tuple[str, ...]] = {}  # the path of a file, and the names in it


def configured(root: str, personal: Mapping[str, Any], trusts: Trusts) -> Configured:
    """Read every place; a personal server keeps its name from those of a project."""
    servers: dict[str, Server] = {}
    problems: list[ServerProblem] = []
    untrusted: dict[str, tuple[str, ...]] = {}
    read = _read(personal.items(), "config.toml", "personal", problems)
    servers.update((server.name, server) for server in read)
    for name, kind in FILES.items():
        path = os.path.join(root, name)
        if not os.path.lexists(path):
            continue
        try:
            data = rulebook.contents(path, follow=True)
            entries = [(key, entry) for key, entry in _entries(decode_value(data)) if not _is_hilt(entry)]
        except ToolError as error:
            problems.append(ServerProblem(path, error.message.replace("The request", "The file", 1)))
            continue
        except (OSError, ValueError) as error:
            problems.append(ServerProblem(path, f"It cannot be used: {error}."))
            continue
        if not entries:
            continue
        if not trusts(kind, path, data):
            untrusted[path] = tuple(str(name) for name, _ in entries)
            continue
        for server in _read(entries, path, "project", problems):
            if server.name in servers:
                problems.append(ServerProblem(path, f"{server.name} is the name of another server already."))
            else:
                servers[server.name] = server
    if len(servers) > SERVERS_MAX:
        problems.append(ServerProblem(root, f"There are {len(servers)} servers; only the first {SERVERS_MAX} count."))
        servers = dict(list(servers.items())[:SERVERS_MAX])
    return Configured(servers, tuple(problems), untrusted)


def expanded(server: Server, environ: Mapping[str, str]) -> Server:
    """Return the server with its variables filled in; one that is not set and has no default raises."""

    def fill(text: str) -> str:
        def value(found: re.Match[str]) -> str:
            known = environ.get(found[1])
            if not known and found[2] is not None:
                return found[2]
            if known is None:
                raise ToolError(
                    "tool_invalid",
                    f"The MCP server {server.name} needs the variable {found[1]}, which is not set.",
                    suggestion=f"Ask the user to set {found[1]}.",
                )
            return known

        return _VARIABLE.sub(value, text)

    filled = server._replace(
        command=fill(server.command),
        args=tuple(map(fill, server.args)),
        env={name: fill(value) for name, value in server.env.items()},
        cwd=fill(server.cwd),
        url=fill(server.url),
        headers={name: fill(value) for name, value in server.headers.items()},
    )
    if filled.transport != "stdio" and not filled.url.startswith(("http://", "https://")):
        raise ToolError("tool_invalid", f"The url of the MCP server {server.name} is none of http or https.")
    if any(character in value for value in filled.headers.values() for character in "\r\n\0"):
        raise ToolError("tool_invalid", f"A header of the MCP server {server.name} holds the end of a line.")
    return filled


def secrets(server: Server, environ: Mapping[str, str]) -> list[str]:
    """Return what an entry is filled in with, and what it sends along, the longest first: no message repeats that."""
    texts = (server.command, *server.args, *server.env.values(), server.cwd, server.url, *server.headers.values())
    found = {environ.get(name, "") for text in texts for name, _ in _VARIABLE.findall(text)}
    filled = expanded(server, environ)
    found |= {filled.url, *filled.headers.values()}
    return sorted((one for one in found if len(one) >= _SECRET_LENGTH), key=len, reverse=True)


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a file, in the forms that programs write."""
    if not isinstance(value, dict):
        raise ValueError("it is not an object with mcpServers")
    for table in (value, value.get("nanocoder")):
        found = table.get("mcpServers") if isinstance(table, dict) else None
        if isinstance(found, dict):
            yield from found.items()
        elif isinstance(found, list):
            for entry in found:
                name = entry.get("name") if isinstance(entry, dict) else None
                yield (name if isinstance(name, str) else ""), entry
        elif found is not None:
            raise ValueError("mcpServers is not an object")


def _is_hilt(entry: Any) -> bool:
    """Whether an entry is the one by which other programs find hilt: it would start itself without end."""
    args = entry.get("args") if isinstance(entry, dict) else None
    command = os.path.basename(str(entry.get("command"))) if isinstance(entry, dict) else ""
    words = [word for word in args if word not in ("-I", "-P")] if isinstance(args, list) else []
    return command == "hilt" or words[:2] == ["-m", "hilt"]


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
        raise ValueError("a server's name has at most 32 letters, digits, - and single _ between them")
    if not isinstance(entry, dict):
        raise ValueError("an entry is an object with a command or a url")
    url = _text(entry, "url") or _text(entry, "serverUrl")
    command = _text(entry, "command")
    named = _text(entry, "type") or _text(entry, "transport")
    transport = _TRANSPORTS.get(named.casefold()) if named else "http" if url else "stdio"
    if transport is None:
        raise ValueError(f"its type is {named[:40]!r}, and the known ones are stdio, http and sse")
    if not (command if transport == "stdio" else url):
        raise ValueError(f"it has no {'command' if transport == 'stdio' else 'url'}")
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
        entry.get("disabled") is True or entry.get("enabled") is False or _is_hilt(entry),
    )


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if value is not None and (not isinstance(value, str) or "\0" in value):
        raise ValueError(f"{key} must be text")
    return value or ""


def _texts(entry: Mapping[str, Any], key: str) -> Sequence[str]:
    value = entry.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and "\0" not in item for item in value):
        raise ValueError(f"{key} must be an array of texts")
    return value


def _table(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    value = entry.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(item, str) and "\0" not in item for item in value.values()):
        raise ValueError(f"{key} must be an object of texts")
    if any(not name or set(name) & set("=\0\r\n: ") for name in value):
        raise ValueError(f"{key} holds a name that is none")
    return value


def _seconds(value: Any) -> float:
    if value is None:
        return CALL_SECONDS
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError("timeout must be a number above 0")
    return float(min(value / 1000 if value >= _MILLISECONDS else value, _LONGEST_SECONDS))
