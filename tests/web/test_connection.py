"""Connections: to the checked address, with the host name for TLS, and within limits for any response."""

from __future__ import annotations

import gzip
import socket
import threading
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest

from hilt.errors import ToolError
from hilt.web import client, connection
from tests.web.servers import answer, serving


def failure(fetching, *args, **options) -> ToolError:
    with pytest.raises(ToolError) as caught:
        fetching(*args, **options)
    return caught.value


def test_the_checked_address_is_contacted_with_the_host_name(reach, authority, monkeypatch):
    with serving(answer("hi"), authority.server("site.example")) as site:
        web = reach(f"site.example:{site.port}", names={"site.example": ["127.0.0.1"]}, authority=authority.file)
        monkeypatch.setattr(socket, "getaddrinfo", None)  # a second lookup would fail

        response = web.fetch(site.url(host="site.example"))

    assert response.body == b"hi"
    assert site.names == ["site.example"]
    assert site.requests[0].headers["host"] == f"site.example:{site.port}"
    assert web.contacts == [f"site.example:{site.port} (127.0.0.1:{site.port})"]
    assert web.resolved == ["site.example"]


def test_a_host_that_changes_its_address_is_contacted_at_the_checked_one(reach):
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    with serving(answer("hi")) as site:
        web = reach(f"site.example:{site.port}", resolve=lambda host: next(answers))
        assert web.fetch(site.url(host="site.example")).body == b"hi"

    assert web.contacts == [f"site.example:{site.port} (127.0.0.1:{site.port})"]


@pytest.mark.parametrize(
    "names, expired, reason",
    [(("other.example",), False, "invalid certificate"), (("site.example",), True, "expired")],
)
def test_a_certificate_must_match_the_name_and_be_valid_now(reach, authority, names, expired, reason):
    with serving(answer("hi"), authority.server(*names, expired=expired)) as site:
        web = reach(f"site.example:{site.port}", names={"site.example": ["127.0.0.1"]}, authority=authority.file)

        error = failure(web.fetch, site.url(host="site.example"))

    assert error.code == "network_error"
    assert reason in error.message
    assert site.requests == []


def test_a_certificate_of_an_unknown_authority_is_rejected(reach, authority):
    with serving(answer("hi"), authority.server("127.0.0.1")) as site:
        error = failure(reach(site.place).fetch, site.url())

    assert "invalid certificate" in error.message


def test_a_certificate_for_an_address_is_accepted(reach, authority):
    with serving(answer("hi"), authority.server("127.0.0.1")) as site:
        assert reach(site.place, authority=authority.file).fetch(site.url()).body == b"hi"


def test_addresses_are_tried_one_after_the_other(reach):
    with serving(answer("hi"), host="127.0.0.1") as site:
        web = reach(f"site.example:{site.port}", names={"site.example": ["127.0.0.3", "127.0.0.1"]})
        assert web.fetch(site.url(host="site.example")).body == b"hi"

    assert [contact.rpartition(" ")[2] for contact in web.contacts] == [
        f"(127.0.0.3:{site.port})",
        f"(127.0.0.1:{site.port})",
    ]


def test_proxies_of_the_environment_are_ignored(reach, monkeypatch):
    with serving(answer("proxy")) as proxy, serving(answer("site")) as site:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        assert reach(site.place).fetch(site.url()).body == b"site"

    assert proxy.requests == []


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="needs IPv6")
def test_an_ipv6_server_is_reached(reach):
    with serving(answer("hi"), host="::1") as site:
        assert reach(site.place).fetch(site.url()).body == b"hi"

    assert site.requests[0].headers["host"] == f"[::1]:{site.port}"


def endless(piece: bytes, head: bytes) -> Iterator[bytes]:
    yield head
    while True:
        yield piece


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.mark.parametrize(
    "head, piece",
    [
        (HEAD + b"\r\n", b"x" * 50_000),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", b"x" * 50_000),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"c350\r\n" + b"x" * 50_000 + b"\r\n"),
    ],
)
def test_an_endless_body_is_truncated(reach, head, piece):
    with serving(lambda request: endless(piece, head)) as site:
        response = reach(site.place).fetch(site.url(), max_bytes=500_000)

    assert (response.body, response.truncated) == (b"x" * 500_000, True)


def test_an_endless_body_in_tiny_chunks_is_truncated(reach):
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    with serving(lambda request: endless(b"1;" + b"y" * 200 + b"\r\nx\r\n" * 50, head)) as site:
        response = reach(site.place).fetch(site.url(), max_bytes=10_000)

    assert response.truncated
    assert set(response.body) == set(b"x")


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n",  # endless headers
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: ",
    ],
)
def test_an_endless_head_is_an_error(reach, start):
    piece = start if b"\r\n\r\n" in start else b"a: b\r\n" * 100 if start.endswith(b"\n") else b"y" * 1000
    with serving(lambda request: endless(piece, start)) as site:
        assert failure(reach(site.place).fetch, site.url()).code == "network_error"


@pytest.mark.parametrize(
    "response_bytes, body, truncated",
    [
        (HEAD + b"Content-Length: 10\r\n\r\nshort", b"short", True),
        (HEAD + b"Content-Length: 5\r\n\r\nlonger than it says", b"longe", False),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"hello", True),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", b"hello", True),
        (HEAD + b"\r\nuntil the end", b"until the end", False),
        (b"HTTP/1.1 204 No Content\r\n\r\nignored", b"", False),
    ],
)
def test_a_body_is_read_up_to_its_declared_end(reach, response_bytes, body, truncated):
    with serving(response_bytes) as site:
        response = reach(site.place).fetch(site.url())

    assert (response.body, response.truncated) == (body, truncated)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"<html>no head</html>",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
def test_a_response_that_is_not_http_is_an_error(reach, sent):
    with serving(sent) as site:
        assert failure(reach(site.place).fetch, site.url()).code == "network_error"


def compressed(data: bytes, kind: int) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, kind)
    return compressor.compress(data) + compressor.flush()


@pytest.mark.parametrize(
    "encoding, data",
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("x-gzip", gzip.compress(b"hello", mtime=0)),
        ("GZip", gzip.compress(b"hel", mtime=0) + gzip.compress(b"lo", mtime=0)),
        ("gzip", gzip.compress(b"hello", mtime=0) + b"garbage"),
        ("deflate", compressed(b"hello", 15)),
        ("deflate", compressed(b"hello", -15)),
        ("identity", b"hello"),
        ("", b"hello"),
    ],
)
def test_a_compressed_body_is_decompressed(reach, encoding, data):
    with serving(answer(data, Content_Encoding=encoding)) as site:
        response = reach(site.place).fetch(site.url())

    assert (response.body, response.truncated) == (b"hello", False)
    assert site.requests[0].headers["accept-encoding"] == "gzip, deflate"


def test_an_incomplete_compressed_body_is_marked_as_truncated(reach):
    with serving(answer(gzip.compress(bytes(range(256)) * 4)[:-20], Content_Encoding="gzip")) as site:
        response = reach(site.place).fetch(site.url())

    assert response.truncated


def test_a_decompression_bomb_stops_at_the_limit(reach):
    bomb = compressed(b"\0" * 50_000_000, 31)
    with serving(answer(bomb, Content_Encoding="gzip")) as site:
        tracemalloc.start()
        response = reach(site.place).fetch(site.url(), max_bytes=100_000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert (len(bomb) < 60_000, len(response.body), response.truncated) == (True, 100_000, True)
    assert peak < 10_000_000


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "gzip, deflate, gzip", "compress", "x"])
def test_an_encoding_that_was_not_requested_is_not_decoded(reach, encoding):
    with serving(answer(gzip.compress(gzip.compress(b"x", mtime=0)), Content_Encoding=encoding)) as site:
        error = failure(reach(site.place).fetch, site.url())

    assert (error.code, encoding in error.message) == ("network_error", True)


def test_a_body_with_a_wrong_encoding_is_an_error(reach):
    with serving(answer(b"plain", Content_Encoding="gzip")) as site:
        assert "valid gzip" in failure(reach(site.place).fetch, site.url()).message


def drip(released: threading.Event, *pieces: bytes) -> Iterator[bytes]:
    yield from pieces
    released.wait(30)


@pytest.mark.parametrize("pieces", [(), (b"HTTP/1.1 200",), (HEAD + b"\r\n", b"some")])
def test_a_slow_server_times_out_at_the_deadline(reach, monkeypatch, pieces):
    monkeypatch.setattr(client, "SECONDS", 0.3)
    released = threading.Event()
    with serving(lambda request: drip(released, *pieces)) as site:
        error = failure(reach(site.place).fetch, site.url())
        released.set()

    assert error.code == "timeout"


@pytest.mark.parametrize("secure", [False, True])
def test_a_cancelled_call_disconnects_from_a_silent_server(reach, authority, secure):
    released, requested = threading.Event(), threading.Event()

    def silent(request: object) -> Iterator[bytes]:
        requested.set()
        return drip(released, HEAD)

    with serving(silent, authority.server("127.0.0.1") if secure else None) as site:
        web = reach(site.place, authority=authority.file)
        cancelling = threading.Thread(
            target=lambda: (requested.wait(20), web.fence.cancel(ToolError("cancelled", "given up")))
        )
        cancelling.start()
        error = failure(web.fetch, site.url())
        cancelling.join()
        released.set()

    assert error.code == "cancelled"


def test_a_refused_connection_is_an_error_with_the_host(reach):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    error = failure(reach(f"127.0.0.1:{port}").fetch, f"http://127.0.0.1:{port}/")

    assert error.code == "network_error"
    assert f"127.0.0.1:{port} failed" in error.message


def test_after_an_unresponsive_address_the_next_is_tried(reach, monkeypatch):
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.4", 0), backlog=0) as full, serving(answer("hi"), host="127.0.0.1") as site:
        attempts = [socket.socket() for _ in range(4)]
        for attempt in attempts:
            attempt.setblocking(False)
            attempt.connect_ex(full.getsockname())
        web = reach(f"site.example:{site.port}", names={"site.example": ["127.0.0.4", "127.0.0.1"]})
        try:
            assert web.fetch(site.url(host="site.example")).body == b"hi"
        finally:
            for attempt in attempts:
                attempt.close()
