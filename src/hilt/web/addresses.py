"""Classify IP addresses: public, or the special use they are reserved for."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

# the IANA special-purpose registries, and Azure's metadata address, which is in a public range
_VERSION_4 = {
    "168.63.129.16/32": "cloud metadata",  # of Azure
    "169.254.169.254/32": "cloud metadata",
    "100.100.100.200/32": "cloud metadata",  # of Alibaba
    "0.0.0.0/8": "this host",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by a carrier (CGNAT)",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved for protocols",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "6to4 relays",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmarks",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_VERSION_6 = {
    "::/128": "this host",
    "::1/128": "loopback",
    "::/96": "IPv4-compatible",
    "::ffff:0:0:0/96": "IPv4-translated",
    "64:ff9b:1::/48": "NAT64 of a local network",
    "100::/64": "discarded",
    "2001::/32": "Teredo",
    "2001:2::/48": "benchmarks",
    "2001:db8::/32": "documentation",
    "2001::/23": "reserved for protocols",
    "2002::/16": "6to4",
    "3fff::/20": "documentation",
    "fd00:ec2::254/128": "cloud metadata",
    "fc00::/7": "private (ULA)",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}
_TABLE_4 = [(IPv4Network(net), use) for net, use in _VERSION_4.items()]
_TABLE_6 = [(IPv6Network(net), use) for net, use in _VERSION_6.items()]
_GLOBAL = IPv6Network("2000::/3")  # the only range assigned to hosts
_NAT64 = IPv6Network("64:ff9b::/96")


def parse(text: str) -> Address:
    """Parse an address; an IPv4-mapped one becomes IPv4, and the zone id is dropped."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def special_use(address: Address) -> str | None:
    """Return the special use of an address; None if it is public."""
    if isinstance(address, IPv4Address):
        return next((use for net, use in _TABLE_4 if address in net), None)
    if address.ipv4_mapped is not None:
        return special_use(address.ipv4_mapped)
    if address in _NAT64:
        inner = special_use(IPv4Address(int(address) & 0xFFFFFFFF))
        return None if inner is None else f"{inner}, by NAT64"
    use = next((use for net, use in _TABLE_6 if address in net), None)
    return use or (None if address in _GLOBAL else "reserved")
