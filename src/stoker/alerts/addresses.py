"""Where alerts may be delivered to: public addresses, and networks that the site allows.

What is checked is each address that a name leads to, and it is the checked address that is connected to: a name that leads
elsewhere a moment later (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a host's name. Raises OSError."""

_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host's name, as the system knows them. Raises OSError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label of more than 63 characters, or none
        raise OSError(f"{host[:80]!r} is no name of a host") from None
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def is_allowed(address: str, networks: Iterable[str]) -> bool:
    """Whether something may be sent to an address. `networks`: those that are allowed although they are not public."""
    found = _meant(ip_address(address.partition("%")[0]))
    if any(found in ip_network(network) for network in networks):
        return True
    is_odd = found.is_multicast or found.is_reserved or found.is_unspecified or found.is_loopback or found.is_link_local
    return found.is_global and not is_odd and not (isinstance(found, IPv6Address) and found.is_site_local)


def _meant(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, if it stands for one."""
    if isinstance(address, IPv4Address):
        return address
    low = IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return low
    return address


def refusal(host: str, found: Sequence[str], networks: Iterable[str]) -> str:
    """Why nothing is sent to a host that has these addresses; empty: it is. One that is not allowed spoils them all."""
    closed = [address for address in found if not is_allowed(address, networks)]
    if not closed:
        return "" if found else f"{host} has no address"
    is_name = host.strip("[]") not in closed
    leads = f"{host} leads to {closed[0]}, which" if is_name else f"{host}"
    return f"{leads} is not a public address (an admin may allow its network by the setting `alerts_networks`)"
