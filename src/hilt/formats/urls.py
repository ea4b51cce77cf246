"""The target of a URL, with the canonical host that rules, the network guard and connections share."""

from __future__ import annotations

import re
from typing import NamedTuple

PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\Z")
_BRACKETS = re.compile(r"(?:^|@)\[[0-9A-Fa-f:.]+\](?::[0-9]*)?\Z")
# characters that browsers, parsers and clients interpret differently
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f\\]")


class UrlTarget(NamedTuple):
    """The target of a URL: scheme, canonical host, port."""

    scheme: str
    host: str
    port: int | None


def locate(url: str) -> UrlTarget | None:
    """Return the target of a URL; None if it is invalid, or programs could interpret it differently."""
    from urllib.parse import urlsplit

    if _AMBIGUOUS.search(url):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    name = _canonical_host(host) if host else None
    if name is None or ("[" in parts.netloc and not _BRACKETS.search(parts.netloc)):
        return None
    return UrlTarget(parts.scheme, name, port if port is not None else PORTS.get(parts.scheme))


def _canonical_host(host: str) -> str | None:
    """Return a host in lower case and ASCII, without a trailing dot, numeric addresses in their usual form."""
    if not host.isascii():
        try:
            encoded = host.encode("idna").decode()
            # a letter that the standards map differently does not round-trip
            is_same = encoded.encode().decode("idna") == host.lower().rstrip(".")
        except UnicodeError:
            return None
        if not is_same:
            return None
        host = encoded
    host = host.lower()
    host = host.removesuffix(".")
    if ":" in host:
        return _ipv6(host)
    if not _PLAIN.match(host) or ".." in host:
        return None
    last = host.rpartition(".")[2]
    return _ipv4(host) if last.isdigit() or last.startswith("0x") else host


def _ipv4(host: str) -> str | None:
    """Return the usual form of an address that may be written as one number, in octal or in hexadecimal."""
    import socket

    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None


def _ipv6(host: str) -> str | None:
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(host)
    except ValueError:
        return None
    return str(address.ipv4_mapped or address)
