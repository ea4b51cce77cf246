"""The host that a URL really leads to, and matching of hosts by domain rules.

`docs.rs` is exactly that host, `*.docs.rs` every host below it, `*` every host; `localhost:8080` names a port too. An
allow without a port means the default ports of http and https, a deny or ask means every port.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_DEFAULT_PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\Z")
_BRACKETS = re.compile(r"(?:^|@)\[[0-9A-Fa-f:.]+\](?::[0-9]*)?\Z")
# characters that browsers, parsers and clients treat differently
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f\\]")


class BadHost(ValueError):
    """An invalid host; the message says why."""


class UrlTarget(NamedTuple):
    """Where a URL leads: scheme, normalized host, port."""

    scheme: str
    host: str
    port: int | None


class Domain(NamedTuple):
    """The hosts that a rule matches."""

    host: str
    below: bool
    port: int | None

    def covers(self, place: UrlTarget) -> bool:
        """Whether an allow covers this target."""
        usual = _DEFAULT_PORTS.get(place.scheme)
        return usual is not None and self._is(place.host) and place.port == (self.port or usual)

    def names(self, place: UrlTarget) -> bool:
        """Whether a deny or ask applies to this target."""
        return self._is(place.host) and self.port in (None, place.port)

    def _is(self, host: str) -> bool:
        if self.below:
            return not self.host or host.endswith("." + self.host)
        return host == self.host


def parse(text: str) -> Domain:
    """Parse the host of a rule; raise BadHost when it is invalid."""
    if text == "*":
        return Domain("", below=True, port=None)
    below = text.startswith("*.")
    place = locate(f"//{text[2:] if below else text}")
    if place is None or "@" in text or "*" in place.host or any(sign in text for sign in "/?#"):
        raise BadHost("a domain must be a host such as docs.rs, *.docs.rs or localhost:8080")
    if below and _is_address(place.host):
        raise BadHost("a numeric address has no subdomains")
    return Domain(place.host, below, place.port)


def locate(url: str) -> UrlTarget | None:
    """Return where a URL leads; None when programs could parse it differently."""
    from urllib.parse import urlsplit

    if _AMBIGUOUS.search(url):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    name = _normalized(host) if host else None
    if name is None or ("[" in parts.netloc and not _BRACKETS.search(parts.netloc)):
        return None
    return UrlTarget(parts.scheme, name, port if port is not None else _DEFAULT_PORTS.get(parts.scheme))


def shown(place: UrlTarget) -> str | None:
    """Return the domain that covers exactly this target; None when an allow cannot."""
    usual = _DEFAULT_PORTS.get(place.scheme)
    if usual is None:
        return None
    host = f"[{place.host}]" if ":" in place.host else place.host
    return host if place.port == usual else f"{host}:{place.port}"


def _normalized(host: str) -> str | None:
    """Return a host in lower case and ASCII, without a trailing dot, numeric addresses in their canonical form."""
    if not host.isascii():
        try:
            encoded = host.encode("idna").decode()
            # a character that IDNA versions map differently does not survive the round trip
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
    """Return the canonical form of an address that may be written as one number, in octal or in hexadecimal."""
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


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
