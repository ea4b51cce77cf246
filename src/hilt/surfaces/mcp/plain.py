"""Clients as they declare themselves, and plain messages: the few kinds that can be answered without the SDK.

Validation is strict: a message with anything unusual is not plain, and is left to the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hilt import __version__

OWN = "dev.hilt/"  # prefix of all our keys in `_meta`
APPROVAL = f"{OWN}approval"  # in a call: the id of an approval given in a terminal
SESSION = f"{OWN}session"  # in a call of a client without a connection: the session to continue
TASKS = "io.modelcontextprotocol/tasks"  # the extension for calls whose result the client polls for

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
BATCHES = "2025-03-26"  # the only version with batches
MODERN = "2026-07-28"  # the version without a handshake

RESERVED = "io.modelcontextprotocol/"  # prefix of the protocol's own keys in `_meta`
VERSION_KEY = f"{RESERVED}protocolVersion"
INFO_KEY = f"{RESERVED}clientInfo"
CAPABILITIES_KEY = f"{RESERVED}clientCapabilities"
SERVER_KEY = f"{RESERVED}serverInfo"

UNCACHED = {"ttlMs": 0, "cacheScope": "private"}  # in results that clients may cache; not sent to older clients
SERVER_INFO = {"name": "hilt", "title": "hilt", "version": __version__}
INVALID_REQUEST = -32600
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

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


class Plain(NamedTuple):
    """A plain request."""

    id: int | str
    method: str
    client: Client | None = None  # of a request without a handshake


class Handshake(NamedTuple):
    """An `initialize` request."""

    id: int | str
    version: str  # negotiated
    client: Client


def request_of(message: Any) -> tuple[int | str, str, Mapping[str, Any]] | None:
    """Return id, method and parameters of a valid request; None for any other message."""
    if type(message) is not dict or message.get("jsonrpc") != "2.0" or not message.keys() <= _FIELDS:
        return None
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if type(id) not in (int, str) or type(method) is not str or type(params) is not dict:
        return None
    return id, method, params  # type: ignore[return-value]


_FIELDS = frozenset({"jsonrpc", "id", "method", "params"})


def handshake_of(message: Any) -> Handshake | None:
    """Return the handshake in a message, if it is plain."""
    request = request_of(message)
    if request is None or request[1] != "initialize" or request[2].keys() != _HANDSHAKE:
        return None
    id, _, params = request
    version, info, capabilities = params["protocolVersion"], params["clientInfo"], params["capabilities"]
    if type(version) is not str or not _is_info(info) or not _are_capabilities(capabilities):
        return None
    negotiated = version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    return Handshake(id, negotiated, client_of(info, capabilities))


_HANDSHAKE = {"protocolVersion", "capabilities", "clientInfo"}


def is_modern(message: Any) -> bool:
    """Whether a request declares a protocol version without a handshake."""
    request = request_of(message)
    meta = None if request is None else request[2].get("_meta")
    return type(meta) is dict and VERSION_KEY in meta


def plain_of(message: Any, *, modern: bool) -> Plain | None:
    """Return the plain request in a message of a client of this era."""
    request = request_of(message)
    if request is None:
        return None
    id, method, params = request
    if method not in (_MODERN_METHODS if modern else _METHODS) or not params.keys() <= {"_meta"}:
        return None
    meta = params.get("_meta", {})
    if type(meta) is not dict:
        return None
    client = _declared_client(meta) if modern else None
    if modern and client is None:
        return None
    if any(key == "progressToken" or (key.startswith(_RESERVED_PREFIXES) and key not in _ENVELOPE) for key in meta):
        return None
    if not modern and not _ENVELOPE.isdisjoint(meta):
        return None
    return Plain(id, method, client)


_METHODS = frozenset({"ping", "tools/list"})
_MODERN_METHODS = frozenset({"server/discover", "tools/list"})
_ENVELOPE = frozenset({VERSION_KEY, INFO_KEY, CAPABILITIES_KEY})
_RESERVED_PREFIXES = (RESERVED, OWN)


def _are_strings(values: Any) -> bool:
    return all(type(value) is str for value in values)


def _declared_client(meta: Mapping[str, Any]) -> Client | None:
    """Return the client that a request without a handshake declares; None if the declaration is invalid."""
    info, capabilities = meta.get(INFO_KEY, {}), meta.get(CAPABILITIES_KEY)
    if meta.get(VERSION_KEY) != MODERN or not isinstance(capabilities, dict) or not _are_capabilities(capabilities):
        return None
    if INFO_KEY in meta and not _is_info(info):
        return None
    return client_of(info, capabilities)


def _is_info(info: Any) -> bool:
    return type(info) is dict and {"name", "version"} <= info.keys() and _are_strings(info.values())


def _are_capabilities(capabilities: Any) -> bool:
    return type(capabilities) is dict and all(_is_capability(*item) for item in capabilities.items())


def _is_capability(name: str, value: Any) -> bool:
    if name not in _CAPABILITIES:
        return False
    if type(value) is not dict:
        return False
    if name == "roots":
        return value.keys() <= {"listChanged"} and all(type(flag) is bool for flag in value.values())
    return all(type(part) is dict for part in value.values())


_CAPABILITIES = frozenset({"elicitation", "experimental", "extensions", "roots", "sampling"})


# --- results --------------------------------------------------------------------------------------------------------


def capabilities_of_server(*, modern: bool) -> dict[str, Any]:
    """Return the capabilities that the server declares."""
    capabilities: dict[str, Any] = {
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "tools": {"listChanged": True},
    }
    if modern:
        capabilities["extensions"] = {TASKS: {}}
    return capabilities


def handshake_result(version: str, instructions: str) -> dict[str, Any]:
    """Return the result of `initialize`."""
    return {
        "protocolVersion": version,
        "capabilities": capabilities_of_server(modern=False),
        "serverInfo": SERVER_INFO,
        "instructions": instructions,
    }


def discovery_result(instructions: str) -> dict[str, Any]:
    """Return the result of `server/discover`."""
    return {
        **UNCACHED,
        "supportedVersions": [MODERN],
        "capabilities": capabilities_of_server(modern=True),
        "instructions": instructions,
    }


def error_response(id: Any, code: int, reason: str) -> dict[str, Any]:
    """Return an error as the response to a request."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": reason}}
