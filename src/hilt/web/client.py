"""The web for tools: fetches behind the guard, with redirects, and requests to search providers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from hilt.errors import ToolError
from hilt.formats import urls
from hilt.formats.digests import sha256
from hilt.web import bodies
from hilt.web.cache import FRESH_SECONDS, PageCache, StoredAnswer
from hilt.web.connection import Dialler, Headers, HttpRequest
from hilt.web.guard import NetworkGuard, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from hilt.fence import Fence

SECONDS = 30.0
REDIRECTS = 5
ENDPOINT_BYTES = 2 * 1024 * 1024  # of a search provider's response
CACHED_BYTES = 4 * 1024 * 1024  # largest page that is cached

_ACCEPT = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5"
_REDIRECTS = (301, 302, 303, 307, 308)
# set by hilt, or able to change the framing or the destination of the message
_RESERVED = frozenset(
    (
        *("host", "connection", "content-length", "transfer-encoding", "accept-encoding", "te", "trailer", "upgrade"),
        *("expect", "keep-alive", "proxy-authorization", "proxy-connection", "range", "if-range"),
    )
)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_VALUE = re.compile(r"[\t\x20-\x7e]*\Z")
# do not identify the user, so they may follow a redirect to another origin
_UNIDENTIFYING = frozenset(("accept", "accept-language", "user-agent"))
_CONDITIONS = frozenset(("if-none-match", "if-modified-since", "cache-control", "pragma"))
_MAX_AGE = re.compile(r"\bmax-age\s*=\s*\"?(\d{1,9})")


class Admit(Protocol):
    """Raises if the rules do not allow the call to reach a URL."""

    def __call__(self, url: str, *, redirected: bool) -> None:
        """With `redirected`, a redirect leads to another host; otherwise only rules that match the URL count."""


class Access(NamedTuple):
    """What a call needs to reach the web."""

    guard: NetworkGuard
    cache: PageCache
    session: str
    fence: Fence
    admit: Admit
    contacted: Callable[[str], None]
    tls: Callable[[], ssl.SSLContext]
    secret: Callable[[str], str | None]  # value of a variable, from the environment or the user's .env
    base_urls: Mapping[str, str]


class HttpReply(NamedTuple):
    """The response of an endpoint that the user configured."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Web:
    """The web for one call."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._deadline = time.monotonic() + SECONDS

    @property
    def base_urls(self) -> Mapping[str, str]:
        """Base URLs that replace the defaults of search providers."""
        return self._access.base_urls

    @property
    def fence(self) -> Fence:
        """The fence of the call."""
        return self._access.fence

    def secret(self, variable: str) -> str | None:
        """Return the value of a variable that holds an API key."""
        return self._access.secret(variable)

    def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        authorization: str | None,
        max_bytes: int,
        allow_stale: bool = False,
    ) -> StoredAnswer:
        """Fetch at most `max_bytes` of a URL; `allow_stale` accepts a stale cached page, to continue reading it."""
        checked = _checked(headers, authorization)
        names = {name.lower() for name, _ in checked}
        private = bool(names - _UNIDENTIFYING - _CONDITIONS) or bool(names & _CONDITIONS)
        key = sha256(repr((url, sorted(checked), max_bytes)).encode("utf-8", "surrogatepass")).hex()
        access = self._access
        cached = None if private else access.cache.get(access.session, key)
        if cached is not None and (cached.is_fresh or allow_stale):
            # rules may have changed since the page was fetched
            for number, hop in enumerate(cached.answer.hops):
                if number:
                    access.admit(hop, redirected=not _is_near(hop, url))
                access.guard.check(hop)
            return cached.answer
        answer, seconds = self._follow(url, checked, max_bytes, None if cached is None else cached.answer)
        if not private and seconds is not None and answer.status == 200 and len(answer.body) <= CACHED_BYTES:
            access.cache.put(access.session, key, answer, seconds)
        return answer

    def send(self, url: str, request: HttpRequest) -> HttpReply:
        """Send a request to an endpoint that the user configured; its redirects are not followed."""
        access = self._access
        access.admit(url, redirected=False)
        target = access.guard.trust(url)
        with self._dialler().exchange(target, request, ENDPOINT_BYTES) as response:
            if response.status in _REDIRECTS:
                raise ToolError(
                    "network_error",
                    f"{target.authority} redirects to {response.headers.get('location', '')[:300]!r}. Redirects of a "
                    "configured endpoint are not followed.",
                    suggestion="Ask the user to correct web.base_urls.",
                )
            body = bodies.read(response, ENDPOINT_BYTES)
            return HttpReply(response.status, response.headers, body.data)

    def pause(self, seconds: float) -> bool:
        """Wait and return True, or return False at once if the deadline is too near."""
        end = time.monotonic() + seconds
        if end + 1 > self._deadline:
            return False
        while (remaining := end - time.monotonic()) > 0:
            self.fence.check()
            time.sleep(min(remaining, 0.1))
        return True

    def _dialler(self) -> Dialler:
        access = self._access
        return Dialler(access.fence, self._deadline, access.contacted, access.tls)

    def _follow(
        self, url: str, call_headers: Headers, max_bytes: int, cached: StoredAnswer | None
    ) -> tuple[StoredAnswer, float | None]:
        """Follow all redirects; return the response and how long to cache it, None for not at all."""
        guard, dialler = self._access.guard, self._dialler()
        target = guard.check(url)
        first = target.origin
        hops = [target.url]
        while True:
            own = (
                call_headers
                if target.origin == first
                else [pair for pair in call_headers if pair[0].lower() in _UNIDENTIFYING]
            )
            conditions = _conditions(cached) if cached is not None and cached.url == target.url else []
            request = HttpRequest(headers=_with_defaults([*own, *conditions]))
            with dialler.exchange(target, request, max_bytes) as response:
                headers = response.headers
                location = headers.get("location", "")
                if response.status not in _REDIRECTS or not location:
                    if response.status == 304 and cached is not None and conditions:
                        lifetime = _lifetime(headers) if "cache-control" in headers else 0.0
                        return cached._replace(hops=tuple(hops)), lifetime
                    body = bodies.read(response, max_bytes)
                    answer = StoredAnswer(
                        tuple(hops),
                        response.status,
                        headers.get("content-type", ""),
                        body.data,
                        body.truncated,
                        headers.get("etag", ""),
                        headers.get("last-modified", ""),
                    )
                    return answer, _lifetime(headers)
            target = self._next(target, location, hops)

    def _next(self, target: Target, location: str, hops: list[str]) -> Target:
        """Return the target of a redirect, checked like the first URL."""
        from urllib.parse import urljoin

        try:
            url = urljoin(target.url, location)
        except ValueError:
            url = location
        if len(hops) > REDIRECTS:
            raise _redirect_error(hops, f"more than {REDIRECTS}, the last to {url[:300]}")
        url = url.partition("#")[0]
        try:
            self._access.admit(url, redirected=not _is_near(url, hops[0]))
            next_target = self._access.guard.check(url)
        except ToolError as error:
            reason = error.message[:1].lower() + error.message[1:] if error.code == "network_error" else error.message
            message = f"{hops[-1][:300]} redirects to {url[:300]!r}. {reason}"
            raise ToolError(error.code, message, suggestion=error.suggestion, **error.details) from None
        if next_target.url in hops:
            raise _redirect_error(hops, f"a loop, back to {next_target.url[:300]}")
        hops.append(next_target.url)
        return next_target


def _is_near(url: str, first: str) -> bool:
    """Whether a redirect stays on the host of the call, on its port or a default one."""
    place, original = urls.locate(url), urls.locate(first)
    if place is None or original is None or place.host != original.host:
        return False
    default_ports = urls.PORTS.values()
    return place.port == original.port or (place.port in default_ports and original.port in default_ports)


def _checked(headers: Mapping[str, str], authorization: str | None) -> list[tuple[str, str]]:
    """Return the headers of a call; raise for invalid and reserved ones."""
    pairs = [(name.strip(" \t"), value.strip(" \t")) for name, value in headers.items()]
    if authorization is not None:
        pairs = [pair for pair in pairs if pair[0].lower() != "authorization"]
        pairs.append(("Authorization", authorization.strip(" \t")))
    for name, value in pairs:
        if not _TOKEN.match(name) or not _VALUE.match(value):
            raise ToolError("invalid_args", f"The header {name[:100]!r} has an invalid name or value.")
        if name.lower() in _RESERVED:
            raise ToolError(
                "invalid_args",
                f"The header {name} cannot be set.",
                suggestion="Omit it; hilt sets it if needed.",
            )
    return pairs


def _with_defaults(headers: Headers) -> Headers:
    from hilt import __version__

    names = {name.lower() for name, _ in headers}
    defaults = (("User-Agent", f"hilt/{__version__}"), ("Accept", _ACCEPT), ("Accept-Encoding", bodies.ACCEPTED))
    return [*(pair for pair in defaults if pair[0].lower() not in names), *headers]


def _conditions(cached: StoredAnswer) -> list[tuple[str, str]]:
    headers = (("If-None-Match", cached.etag), ("If-Modified-Since", cached.modified))
    return [(name, value) for name, value in headers if value and _VALUE.match(value)]


def _lifetime(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a response stays fresh; None if it must not be stored."""
    control = headers.get("cache-control", "").lower()
    if "no-store" in control:
        return None
    if "no-cache" in control or headers.get("vary", "").strip() == "*":
        return 0.0
    age = _MAX_AGE.search(control)
    return FRESH_SECONDS if age is None else min(FRESH_SECONDS, float(age[1]))


def _redirect_error(hops: list[str], fact: str) -> ToolError:
    chain = " → ".join(hop[:200] for hop in hops)
    return ToolError(
        "network_error", f"Redirects failed: {fact}. Followed: {chain}.", suggestion="Use another address."
    )
