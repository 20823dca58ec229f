# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address ranges: which overlap, and where a VNet has room for the subnet of a gateway. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .errors import RangesOverlap, VnetUnusable

Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"
SUBNET = 27  # what Azure advises for a GatewaySubnet; smaller ones can't take every configuration


@dataclass(frozen=True, slots=True)
class Range:
    """A network, and what it is in words."""

    what: str
    network: Network

    def __str__(self) -> str:
        return f"{self.what} {self.network}"


def ranges(what: str, texts: Iterable[str | None]) -> Iterator[Range]:
    """The ranges in a list of texts; what is empty or no range is left out: Azure's own lists have both."""
    for text in texts:
        for part in (text or "").split(","):
            try:
                yield Range(what, ipaddress.ip_network(part.strip(), strict=False))
            except ValueError:
                continue


def overlapping(pool: Range, others: Iterable[Range]) -> list[Range]:
    """The others that share addresses with the pool."""
    return [
        one
        for one in others
        if one.network.version == pool.network.version and one.network.overlaps(pool.network)
    ]


def require_apart(pool: Range, others: Iterable[Range]) -> None:
    """Refuse a pool of client addresses that another network has too; all are named."""
    if found := overlapping(pool, others):
        raise RangesOverlap(
            f"the addresses of VPN clients {pool.network} are in use elsewhere",
            why="they overlap " + ", ".join(dict.fromkeys(map(str, found))),
        )


def place(space: Sequence[Network], taken: Sequence[Network], prefix: int = SUBNET) -> Network | None:
    """The highest free range of this size: subnets usually grow from the lowest addresses up."""
    ipv4 = [one for one in space if isinstance(one, ipaddress.IPv4Network) and one.prefixlen <= prefix]
    size = 1 << (32 - prefix)
    for room in sorted(ipv4, key=lambda one: int(one.broadcast_address), reverse=True):
        start = int(room.broadcast_address) + 1 - size
        while start >= int(room.network_address):
            candidate = ipaddress.IPv4Network((start, prefix))
            # Only blocks of the same size and alignment are tried, so each overlap skips whole blocks.
            hits = [one for one in taken if one.version == 4 and candidate.overlaps(one)]
            if not hits:
                return candidate
            start = (min(int(one.network_address) for one in hits) // size) * size - size
    return None


def subnet_range(wanted: str, space: Sequence[Range], taken: Sequence[Range], vnet: str) -> Network:
    """The range of a new GatewaySubnet: the one that is wanted, checked; else a free one."""
    if not wanted:
        found = place([one.network for one in space], [one.network for one in taken])
        if found is None:
            raise VnetUnusable(
                f"the VNet has no free /{SUBNET} for a GatewaySubnet",
                where=vnet,
                why=f"its address space is {_listed(space)}, its subnets are {_listed(taken)}",
                fix="add an address range to the VNet (az network vnet update --address-prefixes ...), or "
                "create the subnet GatewaySubnet there yourself",
            )
        return found
    network = ipaddress.ip_network(wanted, strict=False)
    inside = any(
        one.network.version == network.version and network.subnet_of(one.network)  # type: ignore[arg-type]
        for one in space
    )
    if not inside:
        raise VnetUnusable(
            f"{network} is not in the address space of the VNet",
            where=vnet,
            why=f"its address space is {_listed(space)}",
            fix="correct gateway_subnet_cidr (flexnode_vpn_gateway_subnet), or leave it out",
        )
    if found_taken := overlapping(Range("the GatewaySubnet", network), taken):
        raise VnetUnusable(
            f"{network} is not free in the VNet",
            where=vnet,
            why=f"it overlaps {_listed(found_taken)}",
            fix="correct gateway_subnet_cidr (flexnode_vpn_gateway_subnet), or leave it out",
        )
    return network


def _listed(found: Sequence[Range]) -> str:
    return ", ".join(str(one.network) for one in found) or "empty"
