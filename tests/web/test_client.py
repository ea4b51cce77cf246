"""Fetches: redirects of every kind, headers that are sent only to their origin, and cached pages."""

from __future__ import annotations

import pytest

from hilt.errors import ToolError
from hilt.web import cache
from tests.web.servers import Request, answer, redirect, serving


def failure(fetching, *args, **options) -> ToolError:
    with pytest.raises(ToolError) as caught:
        fetching(*args, **options)
    return caught.value


def routes(**paths: bytes):
    """Return responses by path; other paths are not found."""
    return lambda request: paths.get(request.path.strip("/").replace("/", "_"), answer("no", status="404 Not Found"))


# --- redirects ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("location", ["/b", "b", "./b", "../b", "?x=1", "//{place}/b", "http://{place}/b#part"])
def test_a_redirect_is_followed_by_get(reach, status, location):
    def route(request: Request) -> bytes:
        if request.path == "/a":
            return redirect(location.format(place=request.headers["host"]), status)
        return answer(f"{request.method} {request.path}")

    with serving(route) as site:
        response = reach(site.place).fetch(site.url("/a"))

    assert response.body.decode() in ("GET /b", "GET /a?x=1")
    assert response.hops == (site.url("/a"), site.url(response.body.decode()[4:]))


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:1/",
        "//127.0.0.1:1/",
        "http://localhost/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://2130706433/",
        "file:///etc/passwd",
        "FILE:/etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1:6379/_INFO",
        "data:text/html,x",
        "javascript:alert(1)",
        "http://user:secret@127.0.0.1/",
        "http://127.0.0.1\\@example.com/",
        "https://metadata.google.internal/",
        "http://internal.example/",
        "http://[broken/",
        "http://\x01/",
    ],
)
def test_a_redirect_to_an_internal_address_is_blocked_before_it_is_contacted(reach, location):
    with serving(routes(a=redirect(location))) as site:
        web = reach(site.place, names={"internal.example": ["93.184.216.34", "10.0.0.1"]})
        error = failure(web.fetch, site.url("/a"))

    assert error.code in ("ssrf_blocked", "network_error", "invalid_args")
    assert "redirects to" in error.message or error.code == "network_error"
    assert web.contacts == [f"{site.place} ({site.place})"]


def test_every_redirect_is_checked_before_it_is_resolved(reach):
    def check(url: str) -> None:
        if "other.example" in url:
            raise ToolError("denied", "A rule denies other.example.")

    with serving(routes(a=redirect("/b"), b=redirect("http://other.example/x"))) as site:
        web = reach(site.place, check=check, names={"other.example": ["127.0.0.1"]})
        error = failure(web.fetch, site.url("/a"))

    assert error.code == "denied"
    assert error.message.endswith("redirects to 'http://other.example/x'. A rule denies other.example.")
    assert web.admitted == [(site.url("/b"), False), ("http://other.example/x", True)]
    assert "other.example" not in web.resolved


def test_five_redirects_are_followed_and_not_six(reach):
    def route(request: Request) -> bytes:
        number = int(request.path[1:])
        return redirect(f"/{number - 1}") if number else answer("there")

    with serving(route) as site:
        web = reach(site.place)
        assert web.fetch(site.url("/5")).body == b"there"
        assert "more than 5," in failure(web.fetch, site.url("/6")).message


def test_a_redirect_loop_is_an_error(reach):
    with serving(routes(a=redirect("/b"), b=redirect("/a"))) as site:
        error = failure(reach(site.place).fetch, site.url("/a"))

    assert error.code == "network_error"
    assert "a loop, back to" in error.message
    assert len(site.requests) == 2


@pytest.mark.parametrize("status", ["300 Choices", "304 Not Modified", "305 Use Proxy", "201 Created"])
def test_other_statuses_are_not_redirects(reach, status):
    with serving(
        answer("" if status.startswith("304") else "here", status=status, Location="http://127.0.0.1:1/")
    ) as site:
        assert reach(site.place).fetch(site.url()).status == int(status[:3])


def test_a_redirect_without_a_location_is_an_ordinary_response(reach):
    with serving(answer("nowhere", status="302 Found")) as site:
        assert reach(site.place).fetch(site.url()).body == b"nowhere"


# --- headers ------------------------------------------------------------------------------------------------------

SECRETS = {"X-Api-Key": "k", "Cookie": "c=1", "Accept-Language": "de", "X-Other": "o"}


def test_headers_are_sent_only_to_their_origin(reach):
    with serving(answer("there")) as other, serving(routes(a=redirect("/b"), b=redirect(other.url("/c")))) as site:
        reach(site.place, other.place).fetch(site.url("/a"), SECRETS, authorization="Bearer t")

    for request in site.requests:
        assert (request.headers["authorization"], request.headers["x-api-key"], request.headers["cookie"]) == (
            "Bearer t",
            "k",
            "c=1",
        )
    headers = other.requests[0].headers
    assert headers["accept-language"] == "de"
    assert {"authorization", "x-api-key", "cookie", "x-other"} & set(headers) == set()


def test_headers_are_not_sent_from_https_to_http(reach, authority):
    with serving(answer("plain")) as plain:
        moved = redirect(f"http://site.example:{plain.port}/")
        with serving(moved, authority.server("site.example")) as secure:
            places = [f"site.example:{site.port}" for site in (plain, secure)]
            web = reach(*places, names={"site.example": ["127.0.0.1"]}, authority=authority.file)
            web.fetch(secure.url(host="site.example"), authorization="Bearer t")

    assert "authorization" in secure.requests[0].headers
    assert "authorization" not in plain.requests[0].headers


def test_cookies_are_not_stored(reach):
    with serving(answer("x", Set_Cookie="a=b")) as site:
        web = reach(site.place)
        web.fetch(site.url("/1"))
        web.fetch(site.url("/2"))

    assert "cookie" not in site.requests[1].headers


def test_markdown_is_preferred(reach):
    with serving(answer("x")) as site:
        reach(site.place).fetch(site.url())

    headers = site.requests[0].headers
    assert headers["accept"].startswith("text/markdown, text/html;q=0.9")
    assert headers["user-agent"].startswith("hilt/")
    assert headers["connection"] == "close"


@pytest.mark.parametrize(
    "name, value",
    [
        ("Host", "evil"),
        ("host", "evil"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "upgrade"),
        ("Accept-Encoding", "br"),
        ("X-A", "a\r\nX-B: b"),
        ("X-A\r\nX-B", "b"),
        ("X A", "b"),
        ("", "b"),
        ("X-A", "a\0"),
        ("X-Ä", "b"),
        ("X-A", "\u2028"),
        ("X-A", "ä"),
    ],
)
def test_reserved_and_invalid_headers_are_rejected(reach, name, value):
    with serving(answer("x")) as site:
        assert failure(reach(site.place).fetch, site.url(), {name: value}).code == "invalid_args"

    assert site.requests == []


def test_an_authorization_with_a_line_break_is_rejected(reach):
    with serving(answer("x")) as site:
        assert failure(reach(site.place).fetch, site.url(), authorization="a\nb").code == "invalid_args"


# --- cached pages -------------------------------------------------------------------------------------------------


def test_a_page_is_cached_briefly(reach):
    with serving(answer("page")) as site:
        web = reach(site.place)
        first, second = web.fetch(site.url()), web.fetch(site.url())

    assert (first.cached, second.cached, second.body, len(site.requests)) == (False, True, b"page", 1)


@pytest.mark.parametrize("control", ["no-cache", "max-age=0", "private, max-age=0"])
def test_a_cached_page_is_revalidated(reach, control):
    def route(request: Request) -> bytes:
        if request.headers.get("if-none-match") == '"1"':
            return answer(kind="", status="304 Not Modified")
        return answer("page", ETag='"1"', Last_Modified="yesterday", Cache_Control=control)

    with serving(route) as site:
        web = reach(site.place)
        first, second, third = (web.fetch(site.url()) for _ in range(3))

    assert [first.cached, second.cached, third.cached] == [False, True, True]
    assert third.body == b"page"
    assert len(site.requests) == 3
    assert site.requests[1].headers["if-modified-since"] == "yesterday"


def test_a_changed_page_is_fetched_again(reach):
    bodies = iter(["one", "two"])
    with serving(lambda request: answer(next(bodies), ETag='"x"', Cache_Control="no-cache")) as site:
        web = reach(site.place)
        assert [web.fetch(site.url()).body, web.fetch(site.url()).body] == [b"one", b"two"]


def test_continuing_accepts_a_stale_cached_page(reach):
    bodies = iter(["one", "two"])
    with serving(lambda request: answer(next(bodies), Cache_Control="no-cache")) as site:
        web = reach(site.place)
        assert [web.fetch(site.url()).body, web.fetch(site.url(), allow_stale=True).body] == [b"one", b"one"]


@pytest.mark.parametrize(
    "headers, options, fields",
    [
        ({}, {}, {"Cache_Control": "no-store"}),
        ({}, {"authorization": "Bearer t"}, {}),
        ({"Cookie": "a=b"}, {}, {}),
        ({"X-Api-Key": "k"}, {}, {}),
        ({"Cache-Control": "no-cache"}, {}, {}),
    ],
)
def test_private_responses_are_not_cached(reach, headers, options, fields):
    with serving(answer("page", **fields)) as site:
        web = reach(site.place)
        for _ in range(2):
            assert not web.fetch(site.url(), headers, **options).cached

    assert len(site.requests) == 2


def test_an_error_page_is_not_cached(reach):
    with serving(answer("gone", status="404 Not Found")) as site:
        web = reach(site.place)
        assert [web.fetch(site.url()).status, web.fetch(site.url()).status] == [404, 404]

    assert len(site.requests) == 2


def test_the_redirects_of_a_cached_page_are_checked_again(reach):
    denied: list[str] = []

    def check(url: str) -> None:
        if url in denied:
            raise ToolError("denied", "no")

    with serving(routes(a=redirect("/b"), b=answer("page"))) as site:
        web = reach(site.place, check=check)
        web.fetch(site.url("/a"))
        denied.append(site.url("/b"))
        assert failure(web.fetch, site.url("/a")).code == "denied"


def test_the_cache_is_bounded(reach, monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 250)
    with serving(answer("x" * 100)) as site:
        web = reach(site.place)
        for path in ("/1", "/2", "/3"):
            web.fetch(site.url(path))
        assert [web.fetch(site.url(path)).cached for path in ("/3", "/2", "/1")] == [True, True, False]


def test_a_redirect_of_an_endpoint_of_the_user_is_not_followed(reach):
    from hilt.web.connection import HttpRequest

    with serving(redirect("http://127.0.0.1:1/")) as site:
        web = reach()
        error = failure(web.web.send, site.url(), HttpRequest("POST", [("X-Api-Key", "k")], b"{}"))

    assert error.code == "network_error"
    assert "not followed" in error.message
    assert web.admitted == [(site.url(), False)]
