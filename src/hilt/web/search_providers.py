"""Search providers: the request to each of them, and the results in its response."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from hilt.errors import ToolError
from hilt.formats.invisible import visible
from hilt.sandbox.decoding import Decoder, decode
from hilt.web.client import HttpReply, Web
from hilt.web.connection import HttpRequest

ATTEMPTS = 3
WAIT_SECONDS = 0.5  # before the second attempt, then twice as long
MAX_WAIT_SECONDS = 10.0
CONTENT_CHARACTERS = 2000
_TAG = re.compile(r"<[^<>]{0,200}>")
_READER = Decoder(__name__, "read_results", threading.BoundedSemaphore(2), "Use another provider.")


class SearchResult(NamedTuple):
    """One result of a search."""

    title: str
    url: str
    content: str


class SearchQuery(NamedTuple):
    """A search."""

    text: str
    limit: int
    kind: str  # auto, keyword or neural; only Exa distinguishes them


class SearchProvider(NamedTuple):
    """A provider: URL, variable of the API key (empty: needs none), how to build a request and parse the response."""

    name: str
    url: str
    variable: str
    request: Callable[[SearchQuery, str], tuple[str, HttpRequest]]  # the path after the base URL, and the request
    results: Callable[[bytes], list[SearchResult]]


class Unreadable(ValueError):
    """A response that is not in the provider's format."""


def search(web: Web, query: SearchQuery, name: str | None) -> tuple[str, list[SearchResult]]:
    """Return the provider that was used, and its results; without a name, the first with a key."""
    provider, key = _select_provider(web, name)
    base = web.base_urls.get(provider.name, provider.url)
    path, request = provider.request(query, key)
    reply = _ask(web, provider, base.rstrip("/") + path, request)
    results = decode(_READER, f"the response of {provider.name}", reply.body, web.fence, name=provider.name)
    return provider.name, [SearchResult(*item) for item in results[: query.limit]]


def read_results(body: bytes, name: str) -> list[SearchResult]:
    """Return the usable results in the response of a provider."""
    provider = PROVIDERS[name]
    try:
        results = provider.results(body)
    except (Unreadable, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ToolError(
            "network_error",
            f"{provider.name} sent an invalid response ({_detail(error)}).",
            suggestion="Try again later, or use another provider.",
        ) from error
    return [_plain(item) for item in results if urlsplit(item.url).scheme in ("http", "https")]


def _select_provider(web: Web, name: str | None) -> tuple[SearchProvider, str]:
    if name is None:
        for provider in PROVIDERS.values():
            key = web.secret(provider.variable) if provider.variable else None
            if key:
                return provider, key
        return PROVIDERS["duckduckgo"], ""
    provider = PROVIDERS[name]
    key = (web.secret(provider.variable) or "") if provider.variable else ""
    if provider.variable and not key:
        raise ToolError(
            "invalid_args",
            f"{name} needs a key in {provider.variable}, which is not set.",
            suggestion=f"Ask the user to set {provider.variable} in the environment or hilt's .env, or use duckduckgo.",
            variable=provider.variable,
        )
    return provider, key


def _ask(web: Web, provider: SearchProvider, url: str, request: HttpRequest) -> HttpReply:
    """Return a successful response; retry when the server is busy or fails."""
    wait = WAIT_SECONDS
    for attempt in range(1, ATTEMPTS + 1):
        problem: ToolError | None = None
        try:
            reply = web.send(url, request)
        except ToolError as error:
            if error.code != "network_error":
                raise
            problem = error
        else:
            if reply.status == 200:
                return reply
            problem = _status_error(provider, reply)
            if reply.status not in (429, 202) and reply.status < 500:
                raise problem
            retry_after = reply.headers.get("retry-after", "")
            wait = max(wait, float(retry_after)) if retry_after.isdecimal() and len(retry_after) < 6 else wait
        if attempt == ATTEMPTS or wait > MAX_WAIT_SECONDS or not web.pause(wait):
            raise problem
        wait *= 2
    raise AssertionError


def _status_error(provider: SearchProvider, reply: HttpReply) -> ToolError:
    text = " ".join(visible(reply.body[:300].decode("utf-8", "replace")).split())
    fact = f"{provider.name} returned status {reply.status}"
    if reply.status in (401, 403) and provider.variable:
        advice = f"Ask the user to correct {provider.variable}, or use another provider."
        return ToolError(
            "permission_denied", f"{fact}: the key in {provider.variable} was rejected.", suggestion=advice
        )
    if reply.status in (429, 202):
        after = reply.headers.get("retry-after", "")
        when = f" Retry after {after[:40]} s." if after else ""
        advice = "Wait before the next search, or use another provider."
        return ToolError(
            "limit_exceeded", f"{fact}: too many searches.{when}", suggestion=advice, retry_after=after or None
        )
    return ToolError("network_error", f"{fact}: {text}", suggestion="Try again later, or use another provider.")


def _detail(error: Exception) -> str:
    return str(error)[:200] if isinstance(error, Unreadable | json.JSONDecodeError) else type(error).__name__


def _plain(item: SearchResult) -> SearchResult:
    title, content = (
        " ".join(visible(_without_tags(text)).split())[:CONTENT_CHARACTERS] for text in (item.title, item.content)
    )
    return SearchResult(title, visible(item.url).replace("\n", "")[:2000], content)


def _without_tags(text: str) -> str:
    """Strip the tags that some providers put around matched words."""
    from html import unescape

    return unescape(_TAG.sub("", text))


# --- each provider ------------------------------------------------------------------------------------------------


def _post(path: str, body: Mapping[str, Any], **headers: str) -> tuple[str, HttpRequest]:
    fields = [("Content-Type", "application/json"), ("Accept", "application/json")]
    extra = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return path, HttpRequest("POST", [*_default_headers(), *fields, *extra], json.dumps(body).encode())


def _default_headers() -> list[tuple[str, str]]:
    from hilt import __version__

    return [("User-Agent", f"hilt/{__version__}"), ("Accept-Encoding", "gzip, deflate")]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _exa(query: SearchQuery, key: str) -> tuple[str, HttpRequest]:
    body = {"query": query.text, "numResults": query.limit, "type": query.kind}
    contents = {"text": {"maxCharacters": CONTENT_CHARACTERS}}
    return _post("/search", {**body, "contents": contents}, x_api_key=key)


def _exa_results(body: bytes) -> list[SearchResult]:
    return [
        SearchResult(_text(item.get("title")), item["url"], _text(item.get("text")))
        for item in json.loads(body)["results"]
    ]


def _tavily(query: SearchQuery, key: str) -> tuple[str, HttpRequest]:
    return _post("/search", {"query": query.text, "max_results": query.limit}, Authorization=f"Bearer {key}")


def _tavily_results(body: bytes) -> list[SearchResult]:
    return [
        SearchResult(_text(item.get("title")), item["url"], _text(item.get("content")))
        for item in json.loads(body)["results"]
    ]


def _brave(query: SearchQuery, key: str) -> tuple[str, HttpRequest]:
    path = f"/res/v1/web/search?{urlencode({'q': query.text, 'count': query.limit}, quote_via=quote)}"
    fields = [*_default_headers(), ("Accept", "application/json"), ("X-Subscription-Token", key)]
    return path, HttpRequest("GET", fields)


def _brave_results(body: bytes) -> list[SearchResult]:
    items = (json.loads(body).get("web") or {}).get("results") or []
    return [SearchResult(_text(item.get("title")), item["url"], _text(item.get("description"))) for item in items]


def _duckduckgo(query: SearchQuery, key: str) -> tuple[str, HttpRequest]:
    fields = [*_default_headers(), ("Accept", "text/html"), ("Content-Type", "application/x-www-form-urlencoded")]
    return "/html/", HttpRequest("POST", fields, urlencode({"q": query.text}, quote_via=quote).encode())


def _duckduckgo_results(body: bytes) -> list[SearchResult]:
    from hilt.web.pages import parse

    tree = parse(body)
    results = []
    for item in tree.css(".result"):
        classes = (item.attributes.get("class") or "").split()
        link = item.css_first("a.result__a")
        if link is None or "result--ad" in classes:
            continue
        snippet = item.css_first(".result__snippet")
        url = _link_target(link.attributes.get("href") or "")
        results.append(SearchResult(link.text(), url, "" if snippet is None else snippet.text()))
    if not results and tree.css_first(".no-results, .result--no-result") is None:
        if tree.css_first("#challenge-form, .anomaly-modal__title, form[action*=anomaly]") is not None:
            raise Unreadable("blocked as an automated request; use a provider with a key")
        if tree.css_first("#links, .results, form") is None:
            raise Unreadable("not a results page")
    return results


def _link_target(href: str) -> str:
    """Return the target of a link on a results page."""
    parts = urlsplit(f"https:{href}" if href.startswith("//") else href)
    return (parse_qs(parts.query).get("uddg") or [href])[0]


PROVIDERS = {
    provider.name: provider
    for provider in (
        SearchProvider("exa", "https://api.exa.ai", "EXA_API_KEY", _exa, _exa_results),
        SearchProvider("tavily", "https://api.tavily.com", "TAVILY_API_KEY", _tavily, _tavily_results),
        SearchProvider("brave", "https://api.search.brave.com", "BRAVE_API_KEY", _brave, _brave_results),
        SearchProvider("duckduckgo", "https://html.duckduckgo.com", "", _duckduckgo, _duckduckgo_results),
    )
}
