"""The guard: every spelling of a non-public address is blocked, and no name is resolved twice."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.web.guard import NetworkGuard, is_own

PUBLIC = "93.184.216.34"


def guard(*allowed: str, **names: list[str]) -> NetworkGuard:
    """Return a guard whose resolver knows these names (underscores become dots) and numeric addresses."""
    hosts = {name.replace("_", "."): addresses for name, addresses in names.items()}
    return NetworkGuard(allowed, lambda host: hosts.get(host) or ([host] if host[-1].isdigit() or ":" in host else []))


def refusal(url: str, checking: NetworkGuard | None = None) -> ToolError:
    with pytest.raises(ToolError) as caught:
        (checking or guard()).check(url)
    return caught.value


def outcome(url: str) -> tuple[str, ...]:
    """Return the addresses that a URL resolves to, or the error code."""
    try:
        return guard().check(url).addresses
    except ToolError as error:
        return (error.code,)


def spellings(address: IPv4Address) -> list[str]:
    """Return the spellings in which programs accept an IPv4 address."""
    number = int(address)
    parts = list(address.packed)
    return [
        str(address),
        f"{address}.",
        str(number),
        hex(number),
        f"0{number:o}",
        ".".join(map(hex, parts)),
        ".".join(f"0{part:o}" for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
        f"0x{parts[0]:X}.{number & 0xFFFFFF}",
        f"[::ffff:{address}]",
        f"[::{address}]",
        f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]",
        f"[0:0:0:0:0:ffff:{number >> 16:x}:{number & 0xFFFF:x}]",
        f"[64:ff9b::{address}]",
        f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1]",
        f"[2001:0:{number >> 16:x}:{number & 0xFFFF:x}::1]",
        f"[::ffff:0:{address}]",
        "".join(chr(ord(sign) + 0xFEE0) if sign.isdigit() else sign for sign in str(address)),  # full width
        str(address).replace(".", "。"),
        str(address).replace(".", "%2e"),
        f"[::ffff:{address}%25eth0]",
        f"user@{address}",
        f"{PUBLIC}@{address}",
        f"{PUBLIC}#@{address}",
        f"{PUBLIC}\\@{address}",
        f"{PUBLIC}%00.{address}",
    ]


INTERNAL = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "192.168.1.1",
    "172.16.0.1",
    "169.254.169.254",
    "100.64.0.1",
]


@pytest.mark.parametrize("address", INTERNAL)
def test_no_spelling_of_an_internal_address_passes(address):
    for spelling in spellings(IPv4Address(address)):
        for url in (f"http://{spelling}/", f"https://{spelling}:8080/x?y", f"HTTP://{spelling}"):
            assert outcome(url) in (("ssrf_blocked",), ("network_error",), (PUBLIC,)), url


@given(st.sampled_from([127, 10, 0, 169]), st.integers(0, 2**24 - 1), st.integers(0, 26))
def test_no_spelling_of_any_internal_address_passes(first, low_bits, kind):
    address = IPv4Address(
        (254 << 16) + (first << 24) + (low_bits & 0xFFFF) if first == 169 else (first << 24) + low_bits
    )
    spelling = spellings(address)[kind]
    assert outcome(f"http://{spelling}/") in (("ssrf_blocked",), ("network_error",), (PUBLIC,))


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_a_numeric_ipv6_host_connects_to_its_own_address(address):
    result = outcome(f"http://[{address}]/")

    is_public = address.is_global or address.ipv4_mapped is not None or str(address).startswith("64:ff9b::")
    assert result == ("ssrf_blocked",) or (is_public and result == (str(address.ipv4_mapped or address),))


@pytest.mark.parametrize(
    "url, rule",
    [
        ("file:///etc/passwd", "scheme"),
        ("FILE:///etc/passwd", "scheme"),
        ("ftp://example.com/", "scheme"),
        ("gopher://127.0.0.1:6379/_x", "scheme"),
        ("dict://127.0.0.1:11211/", "scheme"),
        ("unix:///var/run/docker.sock", "scheme"),
        ("data:text/html,x", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("http+unix://%2Frun%2Fdocker.sock/", "scheme"),
        ("http://user:secret@example.com/", "credentials"),
        ("http://user@example.com/", "credentials"),
        ("http://@example.com/", "credentials"),
        ("http://example.com\t/", "host"),
        ("http://exa mple.com/", "host"),
        ("http://example.com\r\nHost: x/", "host"),
        ("http://[::1", "host"),
        ("http://[fe80::1%25lo]/", "host"),
        ("http://[v1.x]/", "host"),
        ("http:///path", "host"),
        ("http://", "host"),
        ("http://example.com:0/", "host"),
        ("http://example.com:99999/", "host"),
        ("http://ⓔxample.com/", "host"),
        ("http://localhost/", "name"),
        ("http://LOCALHOST./", "name"),
        ("http://a.localhost/", "name"),
        ("http://metadata.google.internal/computeMetadata/v1/", "name"),
        ("http://metadata/", "name"),
        ("http://instance-data/latest", "name"),
        ("http://[::1]/", "address"),
        ("http://[fd00:ec2::254]/", "address"),
        ("http://[fe80::1]/", "address"),
        ("http://[::]/", "address"),
        ("http://0/", "address"),
        ("http://2130706433/", "address"),
        ("http://017700000001/", "address"),
        ("http://0x7f000001/", "address"),
        ("http://127.1/", "address"),
    ],
)
def test_an_error_has_the_rule_that_blocked_the_url(url, rule):
    error = refusal(url, guard(example_com=[PUBLIC]))

    assert (error.code, error.details["rule"]) == ("ssrf_blocked", rule)


def test_a_url_without_a_scheme_suggests_one():
    for url in ("docs.rs/serde", "//docs.rs/serde"):
        error = refusal(url)
        assert (error.code, error.suggestion) == ("invalid_args", "Try https://docs.rs/serde")


def test_an_error_says_how_to_allow_one_host():
    error = refusal("http://intranet.example:8080/x", guard(intranet_example=["10.0.0.7"]))

    assert error.message == "intranet.example resolves to 10.0.0.7, which is not a public address: private."
    assert "--allow-private intranet.example:8080" in error.suggestion
    assert error.details == {"rule": "address", "address": "10.0.0.7", "use": "private"}


@pytest.mark.parametrize("inner", ["127.0.0.1", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "fe80::1%eth0", "0.0.0.0"])
def test_a_name_is_blocked_when_any_of_its_addresses_is_not_public(inner):
    names = {"mixed.example": [PUBLIC, "2606:4700::1", inner]}

    error = refusal("https://mixed.example/", NetworkGuard((), lambda host: names[host]))

    assert error.details["rule"] == "address"


def test_a_name_is_resolved_once_and_its_addresses_are_kept():
    answers = iter([[PUBLIC], ["127.0.0.1"]])

    target = NetworkGuard((), lambda host: next(answers)).check("https://rebinding.example/x?y=ü#z")

    assert (target.host, target.port, target.addresses) == ("rebinding.example", 443, (PUBLIC,))
    assert (target.path, target.url) == ("/x?y=%C3%BC", "https://rebinding.example/x?y=%C3%BC")


def test_an_allowed_entry_covers_only_its_host_and_port():
    allowing = guard("intranet.example:8080", "[::1]:81", intranet_example=["10.0.0.7"])

    assert allowing.check("http://Intranet.Example.:8080/").addresses == ("10.0.0.7",)
    assert allowing.check("http://[0:0::1]:81/").addresses == ("::1",)
    for url in (
        "http://intranet.example/",
        "http://10.0.0.7:8080/",
        "http://[::1]:82/",
        "http://x.intranet.example:8080/",
    ):
        with pytest.raises(ToolError):
            allowing.check(url)


@pytest.mark.parametrize(
    "text", ["localhost", "*:80", "http://localhost:80", "a@b:80", "localhost:80/x", "", ":80", "x:0"]
)
def test_an_invalid_host_and_port_is_rejected(text):
    with pytest.raises(ToolError, match=r"web\.allow_private"):
        NetworkGuard((text,))


def test_an_endpoint_of_the_user_may_be_anywhere_but_must_be_an_http_url():
    assert guard().trust("http://127.0.0.1:9/search").addresses == ("127.0.0.1",)
    with pytest.raises(ToolError, match="not an http"):
        guard().trust("file:///etc/passwd")


@pytest.mark.parametrize("problem", [OSError("no such host"), UnicodeError("label too long"), None])
def test_a_host_that_does_not_resolve_is_a_network_error(problem):
    def resolve(host: str) -> list[str]:
        if problem is not None:
            raise problem
        return []

    assert refusal("http://nowhere.example/", NetworkGuard((), resolve)).code == "network_error"


def test_the_system_resolver_is_the_default():
    assert refusal("http://127.0.0.1/", NetworkGuard()).details["use"] == "loopback"


def test_an_address_of_this_machine_is_recognised():
    assert is_own("127.0.0.1")
    assert not is_own("192.0.2.1")
    assert not is_own(PUBLIC)


# gives the loopback interface of a new network namespace a public address, and checks it with the guard
OWN = """
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    for number, value in ((0x8916, "93.184.216.34"), (0x891C, "255.255.255.255")):
        address = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
        fcntl.ioctl(control, number, struct.pack("16s16s", b"lo", address))
    fcntl.ioctl(control, 0x8914, struct.pack("16sh14x", b"lo", 0x1))
from hilt.errors import ToolError
from hilt.web.guard import NetworkGuard
try:
    print(NetworkGuard((), lambda host: ["93.184.216.34"]).check("http://site.example/"))
except ToolError as error:
    print(error.code, error.details["use"])
"""


@pytest.mark.starts_processes
@pytest.mark.skipif(sys.platform != "linux", reason="needs network namespaces")
def test_a_public_address_of_this_machine_is_blocked():
    command = ["unshare", "--map-root-user", "--net", sys.executable, "-P", "-c", OWN]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "unshare" in process.stderr:
        pytest.skip("needs user namespaces")

    assert process.stdout == "ssrf_blocked this machine\n", process.stderr
