"""Addresses: public ones and all others, against an independent classification."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hilt.web import addresses
from hilt.web.addresses import special_use

# not globally reachable according to the IANA registries; Python's own list lacks some of them
NOT_PUBLIC = [
    ip_network(text)
    for text in (
        *("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "100.64.0.0/10"),
        *("168.63.129.16/32", "::/8", "100::/8", "200::/7", "400::/6", "800::/5", "1000::/4", "2001::/23", "2002::/16"),
        *("2001:db8::/32", "3fff::/20", "4000::/2", "8000::/1"),
    )
]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in ip_network("64:ff9b::/96"):
            return is_public(IPv4Address(address.packed[12:]))
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in net for net in NOT_PUBLIC if net.version == address.version)
    )


# many addresses at the boundaries of networks, and embedded in IPv6
VERSION_4 = st.one_of(
    st.integers(0, 2**32 - 1),
    st.sampled_from([int(net[0]) + shift for net in NOT_PUBLIC if net.version == 4 for shift in (-1, 0, 1)]),
    st.sampled_from([127 << 24, 10 << 24, 0, 2**32 - 1, (169 << 24) + (254 << 16), (192 << 24) + (168 << 16)]),
).map(lambda number: IPv4Address(number % 2**32))
PREFIXES = ["::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::", "2002::", "2001::", "fe80::", "fc00::"]
VERSION_6 = st.one_of(
    st.integers(0, 2**128 - 1).map(IPv6Address),
    st.integers(2**125, 2**126 - 1).map(IPv6Address),
    st.builds(
        lambda prefix, inner: IPv6Address(int(IPv6Address(prefix)) + int(inner)), st.sampled_from(PREFIXES), VERSION_4
    ),
    st.builds(lambda inner: IPv6Address((0x2002 << 112) + (int(inner) << 80)), VERSION_4),
)


@given(st.one_of(VERSION_4, VERSION_6))
@example(IPv6Address("::1"))
@example(IPv6Address("2606:4700::1"))
def test_an_address_is_public_if_no_registry_reserves_it(address):
    assert (special_use(address) is None) == is_public(address)


@pytest.mark.parametrize(
    "text, use",
    [
        ("127.0.0.1", "loopback"),
        ("0.0.0.0", "this host"),
        ("10.1.2.3", "private"),
        ("169.254.1.1", "link-local"),
        ("169.254.169.254", "cloud metadata"),
        ("168.63.129.16", "cloud metadata"),
        ("100.64.0.1", "shared by a carrier (CGNAT)"),
        ("255.255.255.255", "reserved"),
        ("::1", "loopback"),
        ("::", "this host"),
        ("::127.0.0.1", "IPv4-compatible"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::127.0.0.1", "loopback, by NAT64"),
        ("64:ff9b::8.8.8.8", None),
        ("2002:7f00:1::", "6to4"),
        ("2001:0:1::", "Teredo"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "site-local"),
        ("fd00:ec2::254", "cloud metadata"),
        ("fd12::1", "private (ULA)"),
        ("ff02::1", "multicast"),
        ("2001:db8::1", "documentation"),
        ("5f00::1", "reserved"),
        ("8.8.8.8", None),
        ("2001:4860:4860::8888", None),
    ],
)
def test_the_use_of_a_special_address_is_reported(text, use):
    assert special_use(addresses.parse(text)) == use


def test_an_ipv4_address_is_recognised_inside_ipv6():
    assert addresses.parse("::ffff:1.2.3.4") == ip_address("1.2.3.4")
