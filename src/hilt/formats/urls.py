"""Where a URL leads: its host in the one spelling that rules, the guard of the network and the connection share."""

from __future__ import annotations

import re
from typing import NamedTuple

PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\Z")
_BRACKETS = re.compile(r"(?:^|@)\[[0-9A-Fa-f:.]+\](?::[0-9]*)?\Z")
# what browsers, parsers and clients read in different ways
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f\\]")


class UrlTarget(NamedTuple):
    """Where a URL leads: scheme, host in its one spelling, port."""

    scheme: str
    host: str
    port: int | None


def locate(url: str) -> UrlTarget | None:
    """Return where a URL leads; None when programs could read it in different ways."""
    from urllib.parse import urlsplit

    if _AMBIGUOUS.search(url):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    name = _one_spelling(host) if host else None
    if name is None or ("[" in parts.netloc and not _BRACKETS.search(parts.netloc)):
        return None
    return UrlTarget(parts.scheme, name, port if port is not None else PORTS.get(parts.scheme))


def _one_spelling(host: str) -> str | None:
    """Return a host in lower case, in ASCII, without the last dot, numeric addresses in their usual form."""
    if not host.isascii():
        try:
            encoded = host.encode("idna").decode()
            # a letter that the standards map in different ways does not come back
            same = encoded.encode().decode("idna") == host.lower().rstrip(".")
        except UnicodeError:
            return None
        if not same:
            return None
        host = encoded
    host = host.lower()
    host = host.removesuffix(".")
    if ":" in host:
        return _version_6(host)
    if not _PLAIN.match(host) or ".." in host:
        return None
    last = host.rpartition(".")[2]
    return _version_4(host) if last.isdigit() or last.startswith("0x") else host


def _version_4(host: str) -> str | None:
    """Return the usual form of an address that may be written as one number, in octal or in hexadecimal."""
    import socket

    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None


def _version_6(host: str) -> str | None:
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(host)
    except ValueError:
        return None
    return str(address.ipv4_mapped or address)
