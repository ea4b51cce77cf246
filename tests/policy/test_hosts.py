"""Which hosts a domain rule matches."""

from __future__ import annotations

import pytest

from hilt.formats import urls
from hilt.policy import hosts
from hilt.policy.hosts import BadHost


@pytest.mark.parametrize(
    "domain, url, covered, named",
    [
        ("docs.rs", "https://docs.rs/x", True, True),
        ("DOCS.rs.", "https://docs.rs/x", True, True),
        ("docs.rs", "https://docs.rs:8443/", False, True),
        ("docs.rs", "ftp://docs.rs/", False, True),
        ("docs.rs", "https://www.docs.rs/", False, False),
        ("*.docs.rs", "https://www.docs.rs/", True, True),
        ("*.docs.rs", "https://a.b.docs.rs/", True, True),
        ("*.docs.rs", "https://docs.rs/", False, False),
        ("*.docs.rs", "https://evildocs.rs/", False, False),
        ("*", "https://docs.rs/", True, True),
        ("*", "https://docs.rs:1/", False, True),
        ("localhost:8080", "http://localhost:8080/", True, True),
        ("localhost:8080", "http://localhost/", False, False),
        ("127.0.0.1", "http://2130706433/", True, True),
        ("[::1]:81", "http://[::1]:81/", True, True),
        ("bücher.de", "https://xn--bcher-kva.de/", True, True),
    ],
)
def test_which_hosts_a_domain_matches(domain, url, covered, named):
    place = urls.locate(url)
    parsed = hosts.parse(domain)

    assert place is not None
    assert (parsed.covers(place), parsed.names(place)) == (covered, named)


@pytest.mark.parametrize(
    "text",
    ["", "https://docs.rs", "docs.rs/x", "a@docs.rs", "*.*.rs", "do*cs.rs", "*docs.rs", "*.127.0.0.1", "a b", "a:b"],
)
def test_an_invalid_host_is_rejected(text):
    with pytest.raises(BadHost):
        hosts.parse(text)


@pytest.mark.parametrize("url", ["https://docs.rs", "http://localhost:81", "http://[::1]:443", "http://[::1]/"])
def test_the_domain_of_a_url_covers_it(url):
    place = urls.locate(url)
    assert place is not None

    assert hosts.parse(str(hosts.domain_of(place))).covers(place)


def test_only_web_urls_have_a_domain():
    place = urls.locate("ssh://docs.rs")

    assert place is not None
    assert hosts.domain_of(place) is None
