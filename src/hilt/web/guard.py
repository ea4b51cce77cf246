"""The SSRF guard below every request: parses a URL, resolves its host, and returns the addresses to connect to.

A URL is parsed once and its host resolved once, and every address of the host must be public. The connection goes to
one of exactly these addresses, so a name that resolves differently a moment later (DNS rebinding) changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from hilt.errors import ToolError
from hilt.formats import urls
from hilt.web import addresses

Resolve = Callable[[str], Sequence[str]]  # a host to its addresses

# names of this machine and of cloud metadata services, whatever they resolve to
_INTERNAL = ("localhost", "internal", "metadata", "metadata.goog", "instance-data", "metadata.tencentyun.com")


class Target(NamedTuple):
    """The target of one request: host, port, the addresses it may connect to, and the path."""

    url: str  # without fragment
    scheme: str
    host: str
    port: int
    addresses: tuple[str, ...]
    path: str  # with the query, in ASCII

    @property
    def origin(self) -> tuple[str, str, int]:
        """The origin; credentials are only sent to the origin they were given for."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        return _host_port(self.host, None if self.port == urls.PORTS[self.scheme] else self.port)


class NetworkGuard:
    """Decides where requests may go."""

    def __init__(self, allowed: Iterable[str] = (), resolve: Resolve | None = None) -> None:
        """`allowed` lists the HOST:PORT pairs that may be reached although they are not public."""
        self._allowed = frozenset(map(_parse_allowed, allowed))
        self._resolve = resolve or look_up

    def check(self, url: str) -> Target:
        """Return the target of a URL that a model, a page or a redirect chose; raise unless it is public or allowed."""
        place, port = _located(url)
        is_allowed = (place.host, port) in self._allowed
        if not is_allowed:
            _check_name(place.host, port)
        resolved = self._addresses(place.host)
        if not is_allowed:
            for address in resolved:
                _check_address(place.host, port, address)
        return _target(url, place, port, resolved)

    def trust(self, url: str) -> Target:
        """Return the target of a URL that the user configured."""
        place, port = _located(url)
        return _target(url, place, port, self._addresses(place.host))

    def _addresses(self, host: str) -> tuple[str, ...]:
        try:
            resolved = self._resolve(host)
        except (OSError, UnicodeError):
            resolved = ()
        if not resolved:
            raise ToolError(
                "network_error",
                f"The host {host[:300]} could not be resolved.",
                suggestion="Check the spelling of the host.",
            )
        return tuple(dict.fromkeys(str(addresses.parse(address)) for address in resolved))


def look_up(host: str) -> list[str]:
    """Return the addresses of a host, in the order in which the system prefers them."""
    import socket

    return [str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def is_own(address: str) -> bool:
    """Whether an address belongs to this machine, where a service may be meant for local use only."""
    # some systems allow binding to any address; there the answer is unknown
    return _can_bind(address) and not _can_bind("2001:db8::1" if ":" in address else "192.0.2.1")


def _can_bind(address: str) -> bool:
    import socket

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _parse_allowed(text: str) -> tuple[str, int]:
    place = urls.locate(f"//{text}")
    if place is None or not place.port or "@" in text or any(sign in text for sign in "/?#"):
        raise ToolError(
            "denied",
            f"web.allow_private: {text[:200]!r} is not HOST:PORT.",
            suggestion="Ask the user to use a host and a port, such as localhost:8080.",
        )
    return place.host, place.port


def _located(url: str) -> tuple[urls.UrlTarget, int]:
    """Return host and port of a URL; raise if it is not http or https, or ambiguous."""
    quoted = repr(url[:300])
    if "://" not in url[:10]:
        scheme, colon, _ = url.partition(":")
        if not colon or "." in scheme or "/" in scheme:
            advice = f"Try https://{url[:300].lstrip('/')}"
            raise ToolError("invalid_args", f"{quoted} is not a full URL.", suggestion=advice)
    place = urls.locate(url)
    if place is None:
        scheme = url.partition(":")[0].lower()
        if scheme not in urls.PORTS:
            raise _blocked("scheme", f"{quoted} is not an http or https URL.", "Use an http or https URL.")
        advice = "Percent-encode spaces and special characters; write the host in ASCII (xn--…)."
        raise _blocked("host", f"{quoted} is ambiguous or has no host.", advice)
    if place.scheme not in urls.PORTS:
        raise _blocked("scheme", f"{quoted} is not an http or https URL.", "Use an http or https URL.")
    if "@" in url.partition("://")[2].partition("/")[0].partition("?")[0].partition("#")[0]:
        advice = "Remove user and password from the URL; use the argument authorization."
        raise _blocked("credentials", f"The URL of {place.host} contains credentials.", advice)
    if not place.port:
        raise _blocked("host", f"{quoted} has an invalid port.", "Use another port.")
    return place, place.port


def _check_name(host: str, port: int) -> None:
    if any(host == name or host.endswith(f".{name}") for name in _INTERNAL):
        raise _not_public("name", host, port, f"{host} is a name of this machine or of an internal service")


def _check_address(host: str, port: int, address: str) -> None:
    use = addresses.special_use(addresses.parse(address)) or ("this machine" if is_own(address) else None)
    if use is not None:
        subject = address if address == host else f"{host} resolves to {address}, which"
        raise _not_public("address", host, port, f"{subject} is not a public address: {use}", address=address, use=use)


def _not_public(rule: str, host: str, port: int, fact: str, **details: str) -> ToolError:
    pair = _host_port(host, port)
    advice = f"Use a public address, or ask the user to add --allow-private {pair}."
    return _blocked(rule, f"{fact}.", advice, **details)


def _blocked(rule: str, message: str, advice: str, **details: str) -> ToolError:
    return ToolError("ssrf_blocked", message, suggestion=advice, rule=rule, **details)


def _target(url: str, place: urls.UrlTarget, port: int, resolved: tuple[str, ...]) -> Target:
    from urllib.parse import quote, urlsplit

    parts = urlsplit(url)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if parts.query:
        path += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]{}|^`")
    normalized = f"{place.scheme}://{_host_port(place.host, None if port == urls.PORTS[place.scheme] else port)}{path}"
    return Target(normalized, place.scheme, place.host, port, resolved, path)


def _host_port(host: str, port: int | None) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"
