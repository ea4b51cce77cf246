"""Checks on every HTTP request: its Host, its Origin, and its body."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from hilt.surfaces.http.listening import Address

BODY_BYTES = 16 << 20
BODY_SECONDS = 30
VALUES_MAX = 500_000  # in a body; decoding one blocks the server

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Headers = dict[bytes, list[bytes]]


class BadBody(Exception):
    """A rejected body: the status of the response, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Disconnected(Exception):
    """The client has disconnected."""


class OwnHosts:
    """The hosts and origins that a server accepts: its own. This rejects requests from other web pages."""

    def __init__(self, address: Address, *, secure: bool = False, any_host: bool = False) -> None:
        """With `any_host`, as behind a proxy, accept every Host, and an Origin with the same host.

        The same applies to `secure` addresses other than loopback: browsers verify the name in the certificate.
        """
        names = {address.host}
        if address.is_loopback:
            names |= {"127.0.0.1", "::1", "localhost"}
        hosts = {f"[{host}]" if ":" in host else host for host in names}
        scheme, default_port = ("https", 443) if secure else ("http", 80)
        # the default port may be omitted
        self._hosts = {f"{host}:{address.port}" for host in hosts} | (hosts if address.port == default_port else set())
        self._origins = {f"{scheme}://{host}" for host in self._hosts}
        has_verified_name = secure and not address.is_loopback
        self._schemes = ("http://", "https://") if any_host else ("https://",) if has_verified_name else ()
        if any_host or has_verified_name or ipaddress.ip_address(address.host).is_unspecified:
            self._hosts = set()  # any host name may resolve to this machine; clients still need the token

    def refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Return the status and the reason for rejecting a request, or None to accept it."""
        host = only(headers, b"host")
        if host is None or (self._hosts and host.lower() not in self._hosts):
            return 421, "the Host header does not match this server"
        origin = only(headers, b"origin")
        if b"origin" in headers and origin not in self._origins:
            same_host = {scheme + host.lower() for scheme in self._schemes}
            if origin is None or origin.lower() not in same_host:
                return 403, "the Origin header does not match this server"
        return None


def headers_of(pairs: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the values of each header."""
    headers: Headers = {}
    for name, value in pairs:
        headers.setdefault(name, []).append(value)
    return headers


def only(headers: Headers, name: bytes) -> str | None:
    """Return the value of a header that occurs once, else None."""
    values = headers.get(name, ())
    return values[0].decode("latin-1") if len(values) == 1 else None


def bearer(headers: Headers) -> bytes | None:
    """Return the bearer token of a request, or None."""
    values = headers.get(b"authorization", ())
    scheme, _, token = (values[0] if len(values) == 1 else b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else None


async def read_body(headers: Headers, receive: Receive) -> bytes:
    """Return the body of a request; raise BadBody if it is too large or too slow."""
    length = only(headers, b"content-length") or ""
    if length.isdecimal() and int(length) > BODY_BYTES:  # reject it before the client has sent all of it
        raise BadBody(413, f"the body has more than {BODY_BYTES} bytes")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _received(receive)
    except TimeoutError:
        raise BadBody(408, f"the body did not arrive within {BODY_SECONDS} s") from None
    if len(body) > BODY_BYTES:
        raise BadBody(413, f"the body has more than {BODY_BYTES} bytes")
    if is_heavy(body):
        raise BadBody(413, f"the body has more than {VALUES_MAX} values")
    return body


async def _received(receive: Receive) -> bytes:
    """Return the body; stop reading once it exceeds the limit."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        first: bytes = message.get("body", b"")
        return first
    body = bytearray()
    while message["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body", False) or len(body) > BODY_BYTES:
            return bytes(body)
        message = await receive()
    raise Disconnected


def is_heavy(body: bytes) -> bool:
    """Whether a body has too many values; a string counts as one, whatever it contains."""
    if len(body) <= VALUES_MAX:
        return False
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 2 * VALUES_MAX:
        return True
    outside = b"".join(bare.split(b'"')[::2])
    return sum(map(outside.count, (b",", b"[", b"{"))) > VALUES_MAX
