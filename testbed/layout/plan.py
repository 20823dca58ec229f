# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has which address in a testbed: fixed, so that everything can be rendered before anything runs."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from testbed.basics.errors import TestbedError

POOL = IPv4Network("10.213.0.0/16")
SERVICE_CIDR = IPv4Network("10.0.0.0/16")
POD_CIDR = IPv4Network("10.244.0.0/16")
DNS_SERVICE_IP = "10.0.0.10"

SERVICES = {
    "kube-apiserver": 2,
    "etcd": 3,
    "kube-controller-manager": 4,
    "kube-scheduler": 5,
    "mirror": 6,
    "registry": 7,
    "azure": 8,
    "azurite": 9,
    "vpn-gateway": 10,
    "vpn-router": 11,
}
FIRST_NODE = 20
LAST_NODE = 250


@dataclass(frozen=True)
class Plan:
    """The addresses of one testbed: a /24 where the last octet says who it is."""

    subnet: IPv4Network

    @property
    def gateway(self) -> str:
        """The outer machine's address in this network."""
        return str(self.subnet[1])

    def service(self, name: str) -> str:
        """The address of a service of the testbed."""
        return str(self.subnet[SERVICES[name]])

    def node(self, index: int) -> str:
        """The address of a node; its index is the last octet."""
        return str(self.subnet[index])

    def pod_cidr(self, index: int) -> str:
        """The node's own part of the cluster's pod addresses."""
        return f"{POD_CIDR[index << 8]}/24"

    def pod_routes(self, address: str) -> list[tuple[str, str]]:
        """For the node of an address, the way to the pods of every other there can be: (pod CIDR, node)."""
        others = (index for index in range(FIRST_NODE, LAST_NODE + 1) if self.node(index) != address)
        return [(self.pod_cidr(index), self.node(index)) for index in others]

    def mac(self, address: str) -> str:
        """A pinned, locally administered MAC: a new one would meet stale ARP entries after a restart."""
        octets = IPv4Address(address).packed
        return "02:fb:" + ":".join(f"{octet:02x}" for octet in octets)


def free_subnet(name: str, taken: Iterable[IPv4Network]) -> IPv4Network:
    """A /24 of the pool that overlaps nothing in use; the name picks where the search starts."""
    used = list(taken)
    start = zlib.crc32(name.encode()) % 256
    for offset in range(256):
        candidate = IPv4Network((int(POOL[((start + offset) % 256) << 8]), 24))
        if not any(candidate.overlaps(other) for other in used):
            return candidate
    raise TestbedError(
        f"no free /24 is left in {POOL} for testbed {name}: take down testbeds you no longer need"
    )


def free_index(taken: Iterable[int]) -> int:
    """The lowest free node index."""
    used = set(taken)
    for index in range(FIRST_NODE, LAST_NODE + 1):
        if index not in used:
            return index
    raise TestbedError(f"a testbed holds at most {LAST_NODE - FIRST_NODE + 1} nodes: remove some")
