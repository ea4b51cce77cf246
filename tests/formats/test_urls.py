"""The canonical host of a URL."""

from __future__ import annotations

import pytest

from hilt.formats import urls


@pytest.mark.parametrize(
    "url, host, port",
    [
        ("https://docs.rs", "docs.rs", 443),
        ("HTTP://Docs.RS./x", "docs.rs", 80),
        ("https://a:b@docs.rs:8443/x", "docs.rs", 8443),
        ("https://docs.rs@evil.com/", "evil.com", 443),
        ("https://evil.com/@docs.rs", "evil.com", 443),
        ("https://bücher.de/", "xn--bcher-kva.de", 443),
        ("https://xn--bcher-kva.de/", "xn--bcher-kva.de", 443),
        ("http://127.0.0.1/", "127.0.0.1", 80),
        ("http://2130706433/", "127.0.0.1", 80),
        ("http://0x7f.1/", "127.0.0.1", 80),
        ("http://0177.0.0.1/", "127.0.0.1", 80),
        ("http://[::1]/", "::1", 80),
        ("http://[0:0:0:0:0:0:0:1]:81/", "::1", 81),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1", 80),
    ],
)
def test_every_spelling_of_a_host_becomes_the_canonical_one(url, host, port):
    target = urls.locate(url)

    assert target is not None
    assert (target.host, target.port) == (host, port)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "*",
        "docs.rs",
        "https:docs.rs",
        "https:///x",
        "https://docs.rs\\.evil.com",
        "https://evil.com\\@docs.rs",
        "https://docs.rs\n.evil.com",
        " https://docs.rs",
        "https://docs.rs:port/",
        "https://docs.rs:99999/",
        "https://docs%2ers/",
        "https://docs..rs/",
        "https://-/",
        "https://straße.de/",
        "https://ｄocs.rs/",
        "https://docs。rs/",
        "http://1.2.3.4.5/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[fe80::1%25eth0]/",
    ],
)
def test_ambiguous_urls_are_rejected(url):
    assert urls.locate(url) is None
