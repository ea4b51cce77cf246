"""Matching of hosts by domain rules.

`docs.rs` is exactly that host, `*.docs.rs` every host below it, `*` every host; `localhost:8080` names a port too. An
allow without a port means the default ports of http and https, a deny or ask means every port.
"""

from __future__ import annotations

from typing import NamedTuple

from hilt.formats.urls import PORTS, UrlTarget, locate


class BadHost(ValueError):
    """An invalid host; the message says why."""


class Domain(NamedTuple):
    """The hosts that a rule matches."""

    host: str
    below: bool
    port: int | None

    def covers(self, place: UrlTarget) -> bool:
        """Whether an allow covers this target."""
        default_port = PORTS.get(place.scheme)
        return default_port is not None and self._is_match(place.host) and place.port == (self.port or default_port)

    def names(self, place: UrlTarget) -> bool:
        """Whether a deny or ask applies to this target."""
        return self._is_match(place.host) and self.port in (None, place.port)

    def _is_match(self, host: str) -> bool:
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


def domain_of(place: UrlTarget) -> str | None:
    """Return the domain that covers exactly this target; None if no allow can."""
    default_port = PORTS.get(place.scheme)
    if default_port is None:
        return None
    host = f"[{place.host}]" if ":" in place.host else place.host
    return host if place.port == default_port else f"{host}:{place.port}"


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
