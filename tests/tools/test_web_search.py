"""web_search through a runtime, against local servers that imitate each provider."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from hilt.call import Result
from hilt.runtime import Runtime
from hilt.testing import environment
from hilt.web import client, search_providers
from tests.web.servers import Request, Site, answer, redirect, serving

pytestmark = pytest.mark.starts_processes

KEYS = {"exa": "EXA_API_KEY", "tavily": "TAVILY_API_KEY", "brave": "BRAVE_API_KEY"}
PAGES = [(f"Title {number}", f"https://site{number}.example/", f"Content {number}") for number in range(12)]


def as_json(value: object) -> bytes:
    return answer(json.dumps(value), "application/json")


def exa(request: Request) -> bytes:
    query = json.loads(request.body)
    assert (request.method, request.path, request.headers["x-api-key"]) == ("POST", "/search", "key of exa")
    assert query["contents"]["text"]["maxCharacters"] > 0
    return as_json({"results": [{"title": t, "url": u, "text": c} for t, u, c in PAGES[: query["numResults"]]]})


def tavily(request: Request) -> bytes:
    query = json.loads(request.body)
    assert (request.method, request.path, request.headers["authorization"]) == (
        "POST",
        "/search",
        "Bearer key of tavily",
    )
    return as_json(
        {"results": [{"title": t, "url": u, "content": c, "score": 1} for t, u, c in PAGES[: query["max_results"]]]}
    )


def brave(request: Request) -> bytes:
    url = urlsplit(request.path)
    query = parse_qs(url.query)
    assert (request.method, url.path, request.headers["x-subscription-token"]) == (
        "GET",
        "/res/v1/web/search",
        "key of brave",
    )
    results = [
        {"title": f"<strong>{t}</strong>", "url": u, "description": f"{c} &amp; &lt;more&gt;"} for t, u, c in PAGES
    ]
    return as_json({"web": {"results": results[: int(query["count"][0])]}})


def duckduckgo(request: Request) -> bytes:
    assert (request.method, request.path) == ("POST", "/html/")
    assert parse_qs(request.body.decode())["q"]
    ad = "<div class='result result--ad'><a class=result__a href='https://ad.example/'>Ad</a></div>"
    items = "".join(
        f"<div class='result results_links web-result'><h2 class=result__title><a rel=nofollow class=result__a "
        f"href='//duckduckgo.com/l/?uddg={u.replace(':', '%3A').replace('/', '%2F')}&amp;rut=1'>{t}</a></h2>"
        f"<a class=result__snippet href=x>{c} <b>word</b></a></div>"
        for t, u, c in PAGES
    )
    return answer(f"<html><body><div id=links class=results>{ad}{items}</div></body></html>")


SERVERS: dict[str, Callable[[Request], bytes]] = {
    "exa": exa,
    "tavily": tavily,
    "brave": brave,
    "duckduckgo": duckduckgo,
}


@contextmanager
def searching(base: str, sites: Mapping[str, Site], **variables: str) -> Iterator[Runtime]:
    """Open a runtime that uses the sites as providers."""
    workspace = os.path.join(base, "workspace")
    os.makedirs(workspace, exist_ok=True)
    flags = {"web.base_urls": {name: site.url("") for name, site in sites.items()}}
    with Runtime(workspace, environ={**environment(base), **variables}, flags=flags) as runtime:
        yield runtime


def searched(
    base: str, provider: str, respond: Callable[[Request], bytes] | bytes, **args: object
) -> tuple[Result, Site]:
    with serving(respond) as site:
        keys = {KEYS[provider]: f"key of {provider}"} if provider in KEYS else {}
        with searching(base, {provider: site}, **keys) as runtime:
            return runtime.call("web_search", query="what is it?", provider=provider, **args), site


@pytest.mark.parametrize("provider", SERVERS)
def test_each_provider_returns_results(base, provider):
    result, _ = searched(base, provider, SERVERS[provider], count=3)

    assert result.ok, result.error
    assert result.data["provider"] == provider
    assert result.data["untrusted"] is True
    assert [(item["title"], item["url"]) for item in result.data["results"]] == [(t, u) for t, u, _ in PAGES[:3]]
    assert all(item["content"].startswith(PAGES[number][2]) for number, item in enumerate(result.data["results"]))
    assert result.view is not None
    assert (result.view["type"], result.view["totalRows"]) == ("table", 3)


def test_five_results_by_default_and_at_most_ten(base):
    assert len(searched(base, "duckduckgo", duckduckgo)[0].data["results"]) == 5
    assert len(searched(base, "duckduckgo", duckduckgo, count=50)[0].data["results"]) == 10


def test_markup_and_entities_are_removed(base):
    result, _ = searched(base, "brave", brave, count=1)

    assert result.data["results"] == [
        {"title": "Title 0", "url": "https://site0.example/", "content": "Content 0 & <more>"}
    ]


def test_results_are_cleaned(base):
    results = [
        {"title": "a\u200bb\u202e", "url": "https://a.example/", "text": "x\0y" + "\U000e0041" + "z " * 3000},
        {"title": None, "url": "javascript:alert(1)", "text": "x"},
        {"title": "t", "url": "file:///etc/passwd", "text": "x"},
    ]
    result, _ = searched(base, "exa", as_json({"results": results}))

    (item,) = result.data["results"]
    assert (item["title"], item["content"][:4], len(item["content"]) <= 2000) == ("ab", "xyz ", True)


def test_the_type_argument_is_for_exa_only(base):
    _, site = searched(base, "exa", exa, type="neural")

    assert json.loads(site.requests[0].body)["type"] == "neural"


@pytest.mark.parametrize(
    "providers, expected",
    [((), "duckduckgo"), (("brave",), "brave"), (("brave", "tavily"), "tavily"), (("tavily", "exa"), "exa")],
)
def test_without_a_provider_the_first_with_a_key_is_used(base, providers, expected):
    with serving(SERVERS[expected]) as site:
        keys = {KEYS[name]: f"key of {name}" for name in providers}
        with searching(base, {expected: site}, **keys) as runtime:
            assert runtime.call("web_search", query="x").data["provider"] == expected


def test_the_setting_selects_the_provider(base):
    variables = {"EXA_API_KEY": "k", "HILT_WEB_SEARCH_PROVIDER": "duckduckgo"}
    with serving(duckduckgo) as site, searching(base, {"duckduckgo": site}, **variables) as runtime:
        assert runtime.call("web_search", query="x").data["provider"] == "duckduckgo"


def test_a_key_may_be_in_the_personal_env_file_but_not_in_the_workspaces(base):
    for folder in ("config", "workspace"):
        os.makedirs(os.path.join(base, folder))
    with serving(tavily) as site, searching(base, {"tavily": site}) as runtime:
        with open(os.path.join(base, "workspace", ".env"), "w", encoding="utf-8") as file:
            file.write("TAVILY_API_KEY=stolen\n")
        missing = runtime.call("web_search", query="x", provider="tavily")
        with open(os.path.join(base, "config", ".env"), "w", encoding="utf-8") as file:
            file.write("export TAVILY_API_KEY='key of tavily'\n")
        result = runtime.call("web_search", query="x", provider="tavily")

    assert missing.error is not None
    assert (missing.error.code, missing.error.details["variable"]) == ("invalid_args", "TAVILY_API_KEY")
    assert "TAVILY_API_KEY" in missing.error.message
    assert result.ok, result.error


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_a_rejected_key_is_reported_at_once(base, status):
    result, site = searched(base, "exa", answer("{}", "application/json", status=status))

    assert result.error is not None
    assert (result.error.code, "EXA_API_KEY" in result.error.message) == ("permission_denied", True)
    assert len(site.requests) == 1


def failing(times: int, response: bytes, then: Callable[[Request], bytes]) -> Callable[[Request], bytes]:
    responses = [response] * times
    return lambda request: responses.pop() if responses else then(request)


@pytest.mark.parametrize(
    "sent",
    [
        answer("busy", status="500 Internal"),
        answer("busy", status="503 Unavailable"),
        answer("slow down", status="429 Too Many", Retry_After="0"),
        b"",  # the connection is closed
    ],
)
def test_a_busy_server_is_retried(base, monkeypatch, sent):
    monkeypatch.setattr(search_providers, "WAIT_SECONDS", 0.01)
    result, site = searched(base, "tavily", failing(2, sent, tavily))

    assert result.ok, result.error
    assert len(site.requests) == 3


def test_retries_stop_for_a_server_that_keeps_failing(base, monkeypatch):
    monkeypatch.setattr(search_providers, "WAIT_SECONDS", 0.01)
    result, site = searched(base, "tavily", answer("out of order", status="500 Internal"))

    assert result.error is not None
    assert (result.error.code, result.error.message) == ("network_error", "tavily returned status 500: out of order")
    assert len(site.requests) == search_providers.ATTEMPTS


def test_rate_limiting_is_reported_with_the_time_to_wait(base):
    result, site = searched(base, "brave", answer("{}", status="429 Too Many", Retry_After="3600"))

    assert result.error is not None
    assert (result.error.code, result.error.details["retry_after"]) == ("limit_exceeded", "3600")
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    "provider, sent",
    [
        ("exa", answer("{", "application/json")),
        ("exa", as_json([])),
        ("exa", as_json({"results": [{"title": "no url"}]})),
        ("exa", as_json({"results": "text"})),
        ("tavily", as_json({"error": "x"})),
        ("brave", as_json({"web": {"results": [1]}})),
        ("brave", answer("[" * 100_000, "application/json")),
        ("duckduckgo", answer("<html>something else")),
        ("duckduckgo", answer("<form id=challenge-form action='//duckduckgo.com/anomaly.js'>bots</form>")),
    ],
)
def test_an_invalid_response_is_reported(base, provider, sent):
    result, site = searched(base, provider, sent)

    assert result.error is not None
    assert (result.error.code, provider in result.error.message) == ("network_error", True)
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    "provider, sent",
    [
        ("exa", as_json({"results": []})),
        ("brave", as_json({})),
        ("duckduckgo", answer("<div id=links><div class=no-results>")),
    ],
)
def test_no_results_are_an_empty_list(base, provider, sent):
    result, _ = searched(base, provider, sent)

    assert result.ok, result.error
    assert result.data["results"] == []


def test_a_slow_response_times_out(base, monkeypatch):
    import threading

    monkeypatch.setattr(client, "SECONDS", 0.3)
    released = threading.Event()

    def slow(request: Request) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
        released.wait(20)

    with serving(slow) as site, searching(base, {"duckduckgo": site}) as runtime:
        result = runtime.call("web_search", query="x")
        released.set()

    assert result.error is not None
    assert result.error.code == "timeout"


def test_a_redirect_of_a_provider_does_not_receive_the_key(base):
    with serving(answer("{}")) as other:
        result, _ = searched(base, "exa", redirect(other.url(), "307 Temporary Redirect"))

    assert result.error is not None
    assert "not followed" in result.error.message
    assert other.requests == []


def test_an_endpoint_of_the_user_is_allowed_and_recorded(base):
    with serving(duckduckgo) as site, searching(base, {"duckduckgo": site}) as runtime:
        assert runtime.call("web_search", query="x").ok
        (row,) = runtime.parts.trail.rows()

    assert row.entry.contacts == f"{site.place} ({site.place})"


@pytest.mark.parametrize("verdict", ["deny", "ask"])
def test_a_rule_on_the_domain_of_a_provider_applies(base, verdict):
    os.makedirs(os.path.join(base, "config"))
    with open(os.path.join(base, "config", "permissions.yaml"), "w", encoding="utf-8") as file:
        file.write(f"allow: [WebSearch]\n{verdict}: ['WebFetch(domain:127.0.0.1)']\n")
    with serving(duckduckgo) as site, searching(base, {"duckduckgo": site}) as runtime:
        result = runtime.call("web_search", query="x")

    assert result.error is not None
    assert result.error.code == "denied"
    assert site.requests == []


def test_an_untrusted_project_cannot_send_searches_elsewhere(base):
    os.makedirs(os.path.join(base, "workspace", ".hilt"))
    with open(os.path.join(base, "workspace", ".hilt", "config.toml"), "w", encoding="utf-8") as file:
        file.write('[web]\nallow_private = ["localhost:80"]\n[web.base_urls]\nduckduckgo = "http://127.0.0.1:1"\n')
    with Runtime(os.path.join(base, "workspace"), environ=environment(base)) as runtime:
        assert (runtime.settings["web.base_urls"], runtime.settings["web.allow_private"]) == ({}, ())


def test_an_empty_query_is_rejected(base):
    with Runtime(base, environ=environment(base)) as runtime:
        result = runtime.call("web_search", query=" ")

    assert result.error is not None
    assert result.error.code == "invalid_args"


# --- dialects -----------------------------------------------------------------------------------------------------


def test_the_jcli_tool_returns_a_numbered_list(base):
    with serving(exa) as site, searching(base, {"exa": site}, EXA_API_KEY="key of exa") as runtime:
        result = runtime.call("WebSearch", query="x", count=2, type="keyword")

    assert result.text.split("\n")[1:] == [
        *("1. Title 0", "   https://site0.example/", "   Content 0"),
        *("2. Title 1", "   https://site1.example/", "   Content 1"),
    ]
    assert "untrusted" in result.text.split("\n")[0]


def test_the_agentos_tool_returns_structured_results(base):
    with serving(brave) as site, searching(base, {"brave": site}, BRAVE_API_KEY="key of brave") as runtime:
        result = runtime.call("tool::web_search", query="TypeScript async patterns", provider="brave", maxResults=10)

    data = json.loads(result.result)
    assert (sorted(data), data["provider"], len(data["results"])) == (["provider", "results"], "brave", 10)
    assert sorted(data["results"][0]) == ["content", "title", "url"]
